// Carriers of WebRTC: a data channel, ordered and reliable, or neither, in a session of its own. Offer and answer pass through
// the server of the page.
(() => {
  const MOST_WAITING = 65536;

  // Longest time for the handshakes of ICE, DTLS and SCTP.
  const LONGEST_MS = 10000;

  const lacks = (facts) => {
    if (!facts) return "this server has no data channels";
    if (facts.missing) return facts.missing;
    return "RTCPeerConnection" in window ? "" : "this browser has no data channels";
  };

  // The address by which the page was reached, if it is one: the server may know itself by another, behind a NAT.
  const reached = () => {
    const name = location.hostname.replace(/^\[|\]$/g, "");
    return name.includes(":") || /^[0-9.]+$/.test(name) ? name : null;
  };

  const candidate = (address, port) => ({
    candidate: `candidate:deadheat 1 udp 2113937151 ${address} ${port} typ host`,
    sdpMLineIndex: 0,
  });

  const opened = (connection, channel) => new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`no data channel: ${why}`));
    const timer = setTimeout(() => fail("the server did not answer in time"), LONGEST_MS);
    const settle = (act) => (event) => {
      clearTimeout(timer);
      act(event);
    };
    channel.onopen = settle(resolve);
    channel.onerror = settle((event) => fail(event.error?.message ?? "it could not be opened"));
    connection.onconnectionstatechange = () => {
      if (connection.connectionState === "failed") settle(() => fail("no datagram came back"))();
    };
  });

  const carrier = (options) => ({
    lacks,
    async open(facts, on) {
      const connection = new RTCPeerConnection();
      const channel = connection.createDataChannel("deadheat", options);
      channel.binaryType = "arraybuffer";
      channel.bufferedAmountLowThreshold = MOST_WAITING / 2;
      let isOver = false;
      const lost = (why) => {
        if (!isOver) on.lost(why);
        isOver = true;
      };
      channel.onmessage = (event) => {
        const at = performance.now();
        on.message(new Uint8Array(event.data), at);
      };
      const close = () => {
        isOver = true;
        connection.close();
      };
      on.abort = close;
      try {
        await connection.setLocalDescription();
        const ready = opened(connection, channel);
        // A failure before it is waited for is reported below.
        ready.catch(() => {});
        const sdp = await signal("datachannel", connection.localDescription.sdp);
        await connection.setRemoteDescription({ type: "answer", sdp });
        const address = reached();
        if (address && !sdp.includes(` ${address} ${facts.port} `)) {
          await connection.addIceCandidate(candidate(address, facts.port));
        }
        await ready;
      } catch (error) {
        close();
        throw error;
      }
      let wake = () => {};
      channel.onbufferedamountlow = () => wake();
      channel.onerror = (event) => lost(event.error?.message ?? "the data channel broke off");
      channel.onclose = () => {
        lost("the data channel was closed");
        wake();
      };
      connection.onconnectionstatechange = () => {
        if (connection.connectionState === "failed") lost("the server can no longer be reached");
      };
      const room = async () => {
        while (channel.bufferedAmount >= MOST_WAITING && channel.readyState === "open") {
          await new Promise((resolve) => { wake = resolve; });
        }
      };
      return {
        send: (bytes) => channel.send(bytes),
        waiting: () => channel.bufferedAmount,
        room,
        close,
      };
    },
  });

  carriers["datachannel"] = carrier({});
  carriers["datachannel-unreliable"] = carrier({ ordered: false, maxRetransmits: 0 });
})();
