// Carriers of WebTransport: a stream, and datagrams, each in a session of its own. The server's certificate is its own, known by
// its SHA-256, which the page got with the facts, or the page's.
(() => {
  // Bytes of the length in front of a message of a stream, and bytes that may wait in a page.
  const LENGTH = 4;
  const MOST_WAITING = 65536;

  const lacks = (facts) => {
    if (!facts) return "this server has no WebTransport";
    if (facts.missing) return facts.missing;
    if (!("WebTransport" in window)) {
      return "this browser has no WebTransport here: it takes a recent browser, and a page by https or from this machine";
    }
    return "";
  };

  const reason = (error, other) => error?.message || other;

  // The address of sessions: this host, at the port of the carrier.
  const address = (port) => {
    const url = new URL("/", location);
    url.protocol = "https";
    url.port = port;
    return url.href;
  };

  // Opens a session. The result: the session, and a function that ends it without `on.lost`.
  const connect = async (facts, on) => {
    const options = { allowPooling: false };
    // Without it the certificate is the operator's, which the browser checks by its name.
    if (facts.sha256) {
      const value = Uint8Array.from(atob(facts.sha256), (c) => c.charCodeAt(0));
      options.serverCertificateHashes = [{ algorithm: "sha-256", value }];
    }
    const session = new WebTransport(address(facts.port), options);
    let isOver = false;
    const lost = (why) => {
      if (!isOver) on.lost(why);
      isOver = true;
    };
    on.abort = () => {
      isOver = true;
      // A session that is closed already has nothing to close.
      try { session.close(); } catch { /* closed */ }
    };
    session.closed.then(
      () => lost("the server closed the session"),
      (error) => lost(reason(error, "the session broke off")),
    );
    try {
      await session.ready;
    } catch (error) {
      isOver = true;
      throw new Error(`no session of WebTransport: ${reason(error, "the server did not answer")}`);
    }
    return { session, lost, close: on.abort };
  };

  // Writes to a stream of the browser's, and counts the bytes that it has not taken.
  const outgoing = (writable, lost) => {
    const writer = writable.getWriter();
    let waiting = 0;
    let blocked = [];
    return {
      send(bytes) {
        const length = bytes.length;
        waiting += length;
        writer.write(bytes).then(
          () => {
            waiting -= length;
            if (waiting >= MOST_WAITING) return;
            for (const resolve of blocked) resolve();
            blocked = [];
          },
          (error) => lost(reason(error, "the server takes no more bytes")),
        );
      },
      waiting: () => waiting,
      room: () => (waiting < MOST_WAITING ? Promise.resolve() : new Promise((resolve) => blocked.push(resolve))),
    };
  };

  // Cuts a stream into messages.
  const messages = async (readable, on, lost) => {
    const reader = readable.getReader();
    const cut = cutter(on);
    try {
      for (;;) {
        const { value, done } = await reader.read();
        const at = now();
        if (done) break;
        cut(value, at);
      }
      lost("the server ended the stream");
    } catch (error) {
      lost(reason(error, "the stream broke off"));
    }
  };

  // What else may be in the way of a session with the operator's certificate.
  const hint = (facts) => (facts.sha256 ? "" : ", and an authority of the certificate that the browser knows by itself, not one that was added to it");

  const caveat = (facts) => (facts.sha256 ? "" : "With the operator's certificate: browsers take it here only from an authority that they know by themselves, not from a private one that was added to them.");

  carriers["webtransport"] = {
    lacks,
    hint,
    caveat,
    async open(facts, on) {
      const { session, lost, close } = await connect(facts, on);
      const stream = session.createBidirectionalStream();
      // Without a stream the session is of no use.
      stream.catch(close);
      const { readable, writable } = await stream;
      const out = outgoing(writable, lost);
      messages(readable, on, lost);
      const send = (bytes) => {
        const framed = new Uint8Array(LENGTH + bytes.length);
        new DataView(framed.buffer).setUint32(0, bytes.length);
        framed.set(bytes, LENGTH);
        out.send(framed);
      };
      return { ...out, send, close };
    },
  };

  carriers["webtransport-datagrams"] = {
    lacks,
    hint,
    caveat,
    async open(facts, on) {
      const { session, lost, close } = await connect(facts, on);
      const datagrams = session.datagrams;
      // What the page does not read in time, the browser drops; it is to drop nothing that a page can read.
      datagrams.incomingHighWaterMark = 1000;
      const writable = datagrams.createWritable ? datagrams.createWritable() : datagrams.writable;
      const out = outgoing(writable, lost);
      (async () => {
        const reader = datagrams.readable.getReader();
        try {
          for (;;) {
            const { value, done } = await reader.read();
            const at = performance.now();
            if (done) return;
            on.message(value, at);
          }
        } catch (error) {
          lost(reason(error, "the session broke off"));
        }
      })();
      return { ...out, close };
    },
  };
})();
