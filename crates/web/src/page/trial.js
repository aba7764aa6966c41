// One trial: its work over the carrier of a contender, its raw figures, and what the page itself did meanwhile.
const trials = (() => {
  const WARM = 3;

  // Longest time for a connection to come about, and silence after which the page says so, in ms.
  const LONGEST_OPEN_MS = 12000;
  const SILENCE_MS = 3000;

  // Longest time for bulk data, and silence in it, which is long where the page sends.
  const LONGEST_BULK_MS = 120000;
  const UP_SILENCE_MS = 10000;

  // What may stand in the way of a carrier with a port of its own.
  const across = (trial) => (trial.facts.port ? `; it needs ${trial.facts.over ?? "UDP"} port ${trial.facts.port} of this server, which a firewall may drop` : "");

  // Opens a connection of the carrier, or rejects with an error that says that there was none.
  const connect = async (trial, on) => {
    const opening = Promise.resolve(trial.carrier.open(trial.facts, on));
    try {
      return await within(opening, LONGEST_OPEN_MS, `no connection came about in ${LONGEST_OPEN_MS / 1000} s`);
    } catch (error) {
      on.abort();
      // A connection that comes about after all belongs to no trial.
      opening.then((conn) => conn.close(), () => {});
      const failed = new Error(`${error.message.replace(/\.$/, "")}${across(trial)}${trial.carrier.hint?.(trial.facts) ?? ""}`);
      failed.isNoConnection = true;
      throw failed;
    }
  };

  // A connection of a carrier that has shown its ticket. Messages of the work go to `take`.
  const openSession = async (trial, take) => {
    const session = { lost: "", ready: null, take, conn: null };
    let answered;
    const answer = new Promise((done) => { answered = done; });
    let fail;
    session.gone = new Promise((_, reject) => { fail = reject; });
    session.gone.catch(() => { /* Only a sender waits for it. */ });
    const on = {
      message(bytes, at) {
        trial.heard = at;
        const said = asJson(bytes);
        if (said?.refused) this.lost(said.refused);
        else if (said?.ready) { session.ready = said; answered(); }
        else session.take(bytes, at);
      },
      lost(why) { session.lost ||= why; fail(new Error(session.lost)); answered(); },
      abort() {},
    };
    session.end = on.lost;
    session.conn = await connect(trial, on);
    const bytes = encode(trial.setup);
    session.conn.send(bytes);
    const again = trial.contender.promise === "best effort" && setInterval(() => session.conn.send(bytes), 300);
    const late = setTimeout(() => on.lost("no answer to the ticket came in 10 s"), 10000);
    await answer;
    clearInterval(again);
    clearTimeout(late);
    if (!session.ready) {
      session.conn.close();
      throw new Error(session.lost);
    }
    trial.isOpen = true;
    return session;
  };

  // Resolves once `isDone`, at the latest `ms` from now; rejects if the connection is lost.
  const settled = async (isDone, session, ms) => {
    const end = now() + ms;
    while (!isDone() && now() < end) {
      if (session.lost) throw new Error(session.lost);
      await sleep(5);
    }
  };

  const closed = (conn) => conn && conn.close();

  // The number of a message: its last four bytes in a header of twelve, whose tag is 0.
  const numberOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset).getUint32(HEADER - 4);

  const runPings = async (trial, work) => {
    const all = work.count + WARM;
    const sent = new Array(all).fill(0);
    const trips = new Array(all).fill(null);
    let open = all;
    let late = 0;
    const take = (bytes, at) => {
      if (bytes.length < HEADER) return;
      const number = numberOf(bytes);
      if (number < all && trips[number] === null) { trips[number] = at - sent[number]; open -= 1; }
    };
    const exchanges = trial.exchanges;
    const began = now();
    let session = { lost: "" };
    if (exchanges) {
      const message = (bytes, at) => { trial.heard = at; take(bytes, at); };
      session.conn = exchanges.pings(trial.setup.ticket, { message, lost(why) { session.lost ||= why; } });
    } else {
      session = await openSession(trial, take);
    }
    const connects = exchanges ? [] : [now() - began];
    try {
      const start = now() + work.interval_ms;
      for (let n = 0; n < all; n += 1) {
        const due = start + n * work.interval_ms;
        while (now() < due) await sleep(due - now());
        if (session.lost) throw new Error(session.lost);
        const message = new Uint8Array(work.size);
        new DataView(message.buffer).setUint32(HEADER - 4, n);
        sent[n] = now();
        if (n >= WARM) late = Math.max(late, sent[n] - due);
        session.conn.send(message);
      }
      await settled(() => open === 0, session, trial.contender.promise === "best effort" ? 2000 : 10000);
    } finally {
      closed(session.conn);
      // It fails only where the server does not answer, which the trial has seen already.
      await exchanges?.end().catch(() => {});
    }
    return { trips_ms: trips.slice(WARM), late_max_ms: late, connects_ms: connects };
  };

  const runConnects = async (trial, work) => {
    const connects = [];
    let before = 0;
    while (connects.length < work.count) {
      const began = now();
      const exchanges = trial.exchanges;
      if (exchanges) {
        let first = 0;
        const own = await exchanges.stream(trial.setup, { message(_bytes, at) { first ||= at; } }, AbortSignal.timeout(LONGEST_OPEN_MS));
        trial.heard = now();
        // The browser may have connected beforehand, or used a connection again: the server says so, and that attempt is left
        // out, whatever its time. A request follows a new connection at once, or after the handshake of TLS.
        const share = location.protocol.endsWith("s:") ? 0.75 : 0.5;
        if (own.count === 1 && own.waited <= share * (first - began) + 1) connects.push(first - began);
        else before += 1;
        if (before > 3) throw new Error("the browser connects beforehand, so the time of its connections is not known");
      } else {
        const session = await openSession(trial, () => {});
        connects.push(now() - began);
        closed(session.conn);
      }
    }
    return { connects_ms: connects };
  };

  // Runs a work in which the server sends; `take` gets what is no JSON, and `isDone` says when all is there.
  const receive = async (trial, take, isDone, ms) => {
    const state = { end: null, began: 0, isReady: false };
    const each = (bytes, at) => {
      trial.heard = at;
      const said = asJson(bytes);
      if (said?.ready) state.began = said.began_ns / 1e6;
      else if (said?.refused) throw new Error(said.refused);
      else if (said) state.end = { said, at };
      else take(bytes, at, state);
    };
    const exchanges = trial.exchanges;
    if (exchanges) {
      await exchanges.stream(trial.setup, { message: each }, AbortSignal.timeout(ms));
      return state;
    }
    const held = [];
    const session = await openSession(trial, (bytes, at) => held.push([bytes, at]));
    state.began = session.ready.began_ns / 1e6;
    session.take = each;
    held.forEach(([bytes, at]) => each(bytes, at));
    try {
      await settled(() => isDone(state), session, ms);
    } finally {
      closed(session.conn);
    }
    return state;
  };

  const runUpdates = async (trial, work) => {
    const arrived = [];
    const seen = new Set();
    const take = (bytes, at, state) => {
      if (bytes.length < HEADER + 8) return;
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      const number = numberOf(bytes);
      if (seen.has(number)) return;
      seen.add(number);
      const due = (view.getUint32(HEADER) * 4294967296 + view.getUint32(HEADER + 4)) / 1e6;
      arrived.push([number, Math.max(due - state.began, 0), at]);
    };
    let lastChance = Infinity;
    const isDone = (state) => {
      if (seen.size >= (state.end?.said.sent ?? work.count)) return true;
      if (state.end && trial.contender.promise !== "best effort") return true;
      if (state.end) lastChance = Math.min(lastChance, state.end.at + 1000);
      return now() > lastChance;
    };
    const span = 1000 * work.count / work.hz;
    const state = await receive(trial, take, isDone, trial.contender.promise === "best effort" ? span * 1.5 + 2000 : span * 3 + 10000);
    const onServer = (at) => at + serverClock.offsetMs - state.began;
    return {
      arrivals: arrived.map(([number, due, at]) => [number, due, Math.max(onServer(at), due)]),
      sent: state.end?.said.sent,
      clock_ms: serverClock.bound,
    };
  };

  const runDown = async (trial, work) => {
    let bytes = 0;
    let last = 0;
    const began = now();
    const take = (message, at) => {
      bytes += message.length;
      last = at;
    };
    await receive(trial, take, () => bytes >= work.bytes, LONGEST_BULK_MS);
    return { bulk: [bytes, last - began] };
  };

  const runUp = async (trial, work) => {
    const exchanges = trial.exchanges;
    const bytes = exchanges && new Uint8Array(work.bytes);
    const began = now();
    if (exchanges) {
      const said = await exchanges.up(trial.setup.ticket, bytes, AbortSignal.timeout(LONGEST_BULK_MS));
      return { bulk: [said.received ?? 0, now() - began] };
    }
    let end = null;
    const take = (bytes, at) => { end ??= { said: asJson(bytes), at }; };
    const session = await openSession(trial, take);
    const late = setTimeout(() => session.end("it was not over in time"), LONGEST_BULK_MS);
    try {
      for (let left = work.bytes; left > 0;) {
        const chunk = new Uint8Array(Math.min(left, CHUNK));
        session.conn.send(chunk);
        left -= chunk.length;
        await Promise.race([session.conn.room(), session.gone]);
        trial.heard = now();
        if (session.lost) throw new Error(session.lost);
      }
      await settled(() => end !== null, session, LONGEST_BULK_MS);
      return { bulk: [end?.said?.received ?? 0, (end?.at ?? now()) - began] };
    } finally {
      clearTimeout(late);
      closed(session.conn);
    }
  };

  const RUNS = { ping: runPings, connect: runConnects, state: runUpdates, events: runUpdates, down: runDown, up: runUp };

  // Says while a trial runs that nothing arrives; returns the end of that.
  const sayOfSilence = (trial, [kind, work], say) => {
    const gap = work.interval_ms ?? 1000 / (work.hz ?? 1000);
    const most = kind === "up" ? UP_SILENCE_MS : Math.max(SILENCE_MS, 5 * gap);
    const timer = setInterval(() => {
      const quiet = now() - trial.heard;
      if (quiet < most) return say("");
      const offline = navigator.onLine === false ? " This device is offline." : "";
      return say(`Nothing has arrived for ${Math.round(quiet / 1000)} s${trial.isOpen ? "" : across(trial)}.${offline}`);
    }, 1000);
    return () => clearInterval(timer);
  };

  const reason = (error) => {
    if (error.name === "TimeoutError") return "it was not over in time";
    // The words of Chromium and of Firefox for a server that does not answer.
    return /failed to fetch|networkerror/i.test(error.message) ? "the server cannot be reached" : error.message || "the trial failed";
  };

  // The protocol that the browser reports for the requests of a trial; empty if it names none. Its account of a request comes a
  // little after the end of that.
  const protocolOfRequests = async () => {
    for (let n = 0; n < 50; n += 1) {
      const own = performance.getEntriesByType("resource").find((entry) => entry.name.includes("/fetch/"));
      if (own?.nextHopProtocol) return own.nextHopProtocol;
      await sleep(20);
    }
    return "";
  };

  // Runs a trial. The result: its raw figures, or the reason why it has none, and whether no connection came about at all.
  const run = async (contender, facts, setup, asked, say) => {
    const [kind, work] = asked;
    const carrier = carriers[contender.id];
    const trial = { contender, carrier, facts, setup, exchanges: carrier.exchanges?.(facts), heard: now(), isOpen: false };
    const watch = watchLoop();
    const quiet = sayOfSilence(trial, asked, say);
    let wasHidden = document.hidden;
    const onHidden = () => { wasHidden ||= document.hidden; };
    document.addEventListener("visibilitychange", onHidden);
    performance.clearResourceTimings();
    let figures;
    let hadNone = false;
    try {
      figures = await RUNS[kind](trial, work);
    } catch (error) {
      figures = { why_invalid: reason(error) };
      hadNone = error.isNoConnection === true;
    }
    quiet();
    watch.isOver = true;
    document.removeEventListener("visibilitychange", onHidden);
    if (wasHidden) figures = { why_invalid: "the tab was in the background, where browsers slow timers down" };
    figures.lag_max_ms = watch.greatest;
    figures.late_max_ms = Math.max(figures.late_max_ms ?? 0, watch.late, 0);
    if (trial.exchanges && !figures.why_invalid) figures.protocol = await protocolOfRequests();
    if (carrier.protocol && !figures.why_invalid && figures.protocol !== carrier.protocol) {
      figures.why_invalid = `the browser used ${figures.protocol || "a protocol that it does not name"}, and not ${carrier.protocol}`;
    }
    return { figures, hadNone };
  };

  return { run };
})();
