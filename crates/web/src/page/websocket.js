// WebSocket: a new connection for each trial.
carriers.websocket = {
  lacks() { return "WebSocket" in window ? "" : "This browser has no WebSocket."; },

  open(_facts, on) {
    const socket = new WebSocket(`${location.protocol.endsWith("s:") ? "wss" : "ws"}://${location.host}/websocket`);
    socket.binaryType = "arraybuffer";
    on.abort = () => socket.close();
    return new Promise((done, fail) => {
      socket.onmessage = (event) => {
        const at = now();
        on.message(new Uint8Array(event.data), at);
      };
      socket.onclose = () => {
        fail(new Error("the server did not take a WebSocket"));
        on.lost("the WebSocket was closed");
      };
      socket.onopen = () => done({
        send(bytes) { socket.send(bytes); },
        waiting() { return socket.bufferedAmount; },
        async room() { while (socket.bufferedAmount > 262144 && socket.readyState === WebSocket.OPEN) await sleep(1); },
        close() { socket.close(); },
      });
    });
  },
};
