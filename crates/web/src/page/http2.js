// fetch over HTTP/2: the same requests at the port that offers nothing else.
carriers["fetch-h2"] = {
  lacks(facts) {
    if (!facts) return "this server has no HTTP/2";
    return facts.missing ?? carriers.fetch.lacks();
  },

  // What the browser must report, or else it raced something else.
  protocol: "h2",

  exchanges(facts) {
    const url = new URL("/", location);
    url.port = facts.port;
    return overFetch(url.origin);
  },
};
