// fetch: a request for each ping, one answer in pieces for messages of the server, one body for messages of the page. The browser
// chooses the connections; of HTTP/1.1 it has six to a server at most. The server closes them at the end of a trial, so that the
// next trial begins with new ones. `base` is the origin of the requests; empty for the page's own.
const overFetch = (() => {
  // The number of the request on its connection, and the time in ms for which that had waited before.
  const connection = (answer) => {
    const [count, waited] = (answer.headers.get("deadheat-connection") ?? "1 0").split(" ").map(Number);
    return { count, waited: waited / 1000 };
  };

  const failed = async (answer) => {
    let why = `the server answered ${answer.status}`;
    try { why = (await answer.json()).refused || why; } catch { /* No reason was given. */ }
    return new Error(why);
  };

  // Reads messages behind their lengths as they come.
  const readMessages = async (answer, on) => {
    const reader = answer.body.getReader();
    const cut = cutter(on);
    for (;;) {
      const { done, value } = await reader.read();
      const at = now();
      if (done) return;
      cut(value, at);
    }
  };

  // Works by requests: the ticket goes into each, so there is no connection to open before.
  return (base) => ({
    // Sends pings; answers arrive as messages.
    pings(ticket, on) {
      const stopped = new AbortController();
      return {
        async send(bytes) {
          try {
            const answer = await fetch(`${base}/fetch/ping?ticket=${ticket}`,
              { method: "POST", body: bytes, cache: "no-store", signal: stopped.signal });
            if (!answer.ok) throw await failed(answer);
            const body = new Uint8Array(await answer.arrayBuffer());
            on.message(body, now());
          } catch (error) {
            if (!stopped.signal.aborted) on.lost(error.message);
          }
        },
        close() { stopped.abort(); },
      };
    },

    // Asks for what the server sends; resolves at its end.
    async stream(setup, on, signal) {
      const answer = await fetch(`${base}/fetch/stream`, { method: "POST", body: JSON.stringify(setup), cache: "no-store", signal });
      if (!answer.ok) throw await failed(answer);
      await readMessages(answer, on);
      return connection(answer);
    },

    // Sends bytes, and resolves with the server's account of them.
    async up(ticket, bytes, signal) {
      const answer = await fetch(`${base}/fetch/up?ticket=${ticket}`, { method: "POST", body: bytes, cache: "no-store", signal });
      if (!answer.ok) throw await failed(answer);
      return answer.json();
    },

    // Ends the connections of a trial, where the server does not by itself.
    async end() {
      if (base) await fetch(`${base}/fetch/end`, { method: "POST", cache: "no-store", signal: AbortSignal.timeout(2000) });
    },
  });
})();

carriers.fetch = {
  lacks() { return "fetch" in window && "ReadableStream" in window ? "" : "This browser has no fetch with streams."; },
  exchanges: () => overFetch(""),
};
