// What all parts of the page share: time, requests to the server, messages of the works, and what this browser is worth as an
// instrument. The page computes no statistics; it hands in raw figures.
"use strict";

// Carriers by the name of their contender; each script adds its own.
const carriers = {};

// Bytes of the header of a message: the tag of the trial (0) and a number of eight bytes. The time at which a message of the
// server was due follows, by its clock.
const HEADER = 12;

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

// Cuts bytes of the server into messages, each behind its length in four bytes.
const cutter = (on) => {
  let held = new Uint8Array(0);
  return (value, at) => {
    let bytes = value;
    if (held.length > 0) {
      bytes = new Uint8Array(held.length + value.length);
      bytes.set(held);
      bytes.set(value, held.length);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    let from = 0;
    while (bytes.length - from >= 4) {
      const length = view.getUint32(from);
      if (bytes.length - from - 4 < length) break;
      on.message(bytes.subarray(from + 4, from + 4 + length), at);
      from += 4 + length;
    }
    held = bytes.slice(from);
  };
};

// Settles as the promise does, and rejects after a time with the reason.
const within = (promise, ms, why) => {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(why)), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// Longest time for an answer of the server beside trials, in ms.
const LONGEST_ANSWER_MS = 8000;

// Error: the server does not answer at all, because it is gone or the line to it is down.
const unreachable = (error) => {
  const isLate = ["TimeoutError", "AbortError"].includes(error.name);
  const made = new Error(isLate ? `the server has not answered for ${LONGEST_ANSWER_MS / 1000} s` : "the server cannot be reached");
  made.isUnreachable = true;
  return made;
};

// Requests beside trials, and the text of the answer. The server closes their connections, so that none is left over for a trial.
const request = async (method, path, body) => {
  let answer;
  let text;
  try {
    answer = await fetch(path, { method, body, cache: "no-store", signal: AbortSignal.timeout(LONGEST_ANSWER_MS) });
    text = await answer.text();
  } catch (error) {
    throw unreachable(error);
  }
  if (answer.ok) return text;
  let why = `the server answered ${answer.status}`;
  try { why = JSON.parse(text).error || why; } catch { /* No reason was given. */ }
  const error = new Error(why);
  error.status = answer.status;
  throw error;
};

const getJson = async (path) => JSON.parse(await request("GET", path));
const postJson = async (path, value) => JSON.parse(await request("POST", path, value === undefined ? "" : JSON.stringify(value)));

// Hands a message to a carrier of the server, such as an offer of a session, and returns its answer.
const signal = (id, text) => request("POST", `/signal/${id}`, text);

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

// Watches the event loop during a trial: the greatest time for which it did not answer, and the greatest lateness of a timer.
const watchLoop = () => {
  const watch = { greatest: 0, late: 0, isOver: false };
  (async () => {
    while (!watch.isOver) {
      watch.greatest = Math.max(watch.greatest, await tick());
      const due = now() + 15;
      await sleep(15);
      watch.late = Math.max(watch.late, now() - due);
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

  open() {
    this.socket?.close();
    const socket = new WebSocket(`${location.protocol.endsWith("s:") ? "wss" : "ws"}://${location.host}/clock`);
    this.socket = socket;
    return new Promise((done, fail) => {
      socket.onopen = done;
      socket.onclose = () => fail(new Error("closed"));
    });
  },

  echo() {
    return new Promise((done, fail) => {
      const sent = now();
      this.socket.onmessage = (event) => {
        const at = now();
        done({ trip: at - sent, offset: Number(event.data) / 1e6 - (sent + at) / 2 });
      };
      this.socket.onclose = () => fail(new Error("closed"));
      this.socket.send("now");
    });
  },

  async compare() {
    try {
      if (this.socket?.readyState !== WebSocket.OPEN) await within(this.open(), LONGEST_ANSWER_MS, "late");
      let best = null;
      for (let n = 0; n < 12; n += 1) {
        const echo = await within(this.echo(), LONGEST_ANSWER_MS, "late");
        if (!best || echo.trip < best.trip) best = echo;
      }
      this.offsetMs = best.offset;
      this.bound = [best.trip / 2, best.trip];
    } catch {
      // An echo that arrives after all is not of the next comparison.
      this.socket?.close();
      this.socket = null;
      const error = new Error("the clock of the server does not answer");
      error.isUnreachable = true;
      throw error;
    }
  },
};
