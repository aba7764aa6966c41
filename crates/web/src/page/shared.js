// What all parts of the page share: time, requests to the server, messages of the works, and what this browser is worth as an
// instrument. The page computes no statistics; it hands in raw figures.
"use strict";

// Carriers by the name of their contender; each script adds its own.
const carriers = {};

const PING = 1;
const UPDATE = 2;
const BULK = 3;

// Bytes of one message of bulk data.
const CHUNK = 16384;

const now = () => performance.now();

const sleep = (ms) => new Promise((done) => { setTimeout(done, Math.max(0, ms)); });

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const encode = (value) => encoder.encode(JSON.stringify(value));

// A message of the server that is a line of JSON; null for any other.
const asJson = (bytes) => {
  if (bytes[0] !== 123) return null;
  try { return JSON.parse(decoder.decode(bytes)); } catch { return null; }
};

// Requests beside trials. The server closes their connections, so that none is left over for a trial.
const request = async (method, path, body) => {
  const answer = await fetch(path, { method, body, cache: "no-store" });
  if (answer.ok) return answer;
  let why = `the server answered ${answer.status}`;
  try { why = (await answer.json()).error || why; } catch { /* No reason was given. */ }
  const error = new Error(why);
  error.status = answer.status;
  throw error;
};

const getJson = async (path) => (await request("GET", path)).json();
const postJson = async (path, value) => (await request("POST", path, value === undefined ? "" : JSON.stringify(value))).json();

// Hands a message to a carrier of the server, such as an offer of a session, and returns its answer.
const signal = async (id, text) => (await request("POST", `/signal/${id}`, text)).text();

// ---- This browser as an instrument ----

// The step of the clock in ms: the least time that it moves by.
const clockStep = () => {
  let least = Infinity;
  let before = now();
  const end = before + 30;
  for (let at = before; at < end; at = now()) {
    if (at > before) least = Math.min(least, at - before);
    before = at;
  }
  return Number.isFinite(least) ? least : 1;
};

// Asks the page's own event loop to answer, and returns the time that it took in ms.
const channel = new MessageChannel();
const tick = () => new Promise((done) => {
  const sent = now();
  channel.port1.onmessage = () => done(now() - sent);
  channel.port2.postMessage(0);
});

// The mean of many, which is finer than the step of the clock.
const loopback = async () => {
  const all = 500;
  await tick();
  const began = now();
  for (let n = 0; n < all; n += 1) await tick();
  return (now() - began) / all;
};

// Watches the event loop during a trial: the greatest time for which it did not answer.
const watchLoop = () => {
  const watch = { greatest: 0, isOver: false };
  (async () => {
    while (!watch.isOver) {
      watch.greatest = Math.max(watch.greatest, await tick());
      await sleep(15);
    }
  })();
  return watch;
};

const browserName = () => {
  const brands = navigator.userAgentData?.brands?.filter((one) => !/not.*brand/i.test(one.brand));
  const brand = brands?.find((one) => one.brand !== "Chromium") ?? brands?.[0];
  if (brand) return `${brand.brand} ${brand.version}`;
  const found = /(Firefox|Edg|Chrome|Version)\/[\d.]+/.exec(navigator.userAgent);
  return found ? found[0].replace("Version", "Safari") : "a browser";
};

// ---- The server's clock ----

// Compares the clocks over a connection of its own, which stays open: the echo with the least round trip counts.
const serverClock = {
  socket: null,
  offsetMs: 0,
  bound: null,

  async open() {
    const socket = new WebSocket(`${location.protocol.endsWith("s:") ? "wss" : "ws"}://${location.host}/clock`);
    await new Promise((done, fail) => {
      socket.onopen = done;
      socket.onerror = () => fail(new Error("the clock of the server does not answer"));
    });
    this.socket = socket;
  },

  echo() {
    return new Promise((done, fail) => {
      const sent = now();
      this.socket.onmessage = (event) => {
        const at = now();
        done({ trip: at - sent, offset: Number(event.data) / 1e6 - (sent + at) / 2 });
      };
      this.socket.onclose = () => fail(new Error("the clock of the server does not answer"));
      this.socket.send("now");
    });
  },

  async compare() {
    if (this.socket?.readyState !== WebSocket.OPEN) await this.open();
    let best = null;
    for (let n = 0; n < 12; n += 1) {
      const echo = await this.echo();
      if (!best || echo.trip < best.trip) best = echo;
    }
    this.offsetMs = best.offset;
    this.bound = [best.trip / 2, best.trip];
  },
};
