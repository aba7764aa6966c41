// The race: the form, the trials in the order of the server's plan, and the answer that the server computes.
(() => {
  const WARM = 3;
  const byId = (id) => document.getElementById(id);

  const element = (name, attributes = {}, text = "") => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };

  const WORKS = {
    ping: { label: "Round trips", about: "a message comes back", settings: { size: [64, 5, 16384, "bytes of a message"],
      count: [40, 20, 2000, "messages in a trial"], interval_ms: [20, 1, 1000, "ms between two messages"] } },
    connect: { label: "New connections", about: "from the call that opens one to the first answer",
      settings: { count: [3, 1, 20, "connections in a trial"] } },
    state: { label: "State from the server", about: "how old the newest update is, as in a game",
      settings: { hz: [60, 1, 1000, "updates a second"], size: [200, 13, 1100, "bytes of an update"], count: [60, 10, 5000, "updates in a trial"] } },
    events: { label: "Events from the server", about: "at random times; all must arrive",
      settings: { hz: [50, 1, 1000, "events a second"], size: [64, 13, 1100, "bytes of an event"], count: [60, 10, 5000, "events in a trial"] } },
    down: { label: "Bulk data, server to page", about: "from the call that connects to the last byte", settings: { bytes: [2000000, 1000, 1000000000, "bytes"] } },
    up: { label: "Bulk data, page to server", about: "from the call that connects to the server's word that all arrived",
      settings: { bytes: [2000000, 1000, 1000000000, "bytes"] } },
  };

  let facts = null;
  let page = null;
  let isStopped = false;

  const status = (text) => { byId("status").textContent = text; };

  // ---- The form ----

  const contenderFacts = (contender) => (contender.of ? facts.carriers[contender.of] : {});

  const lacks = (contender) => {
    const own = contenderFacts(contender);
    if (own?.missing) return `Not at this server: ${own.missing}.`;
    return carriers[contender.id] ? carriers[contender.id].lacks(own) : "This page has no script for it.";
  };

  const showContenders = () => {
    for (const contender of facts.contenders) {
      const why = lacks(contender);
      const label = element("label", { class: "choice" });
      const box = element("input", { type: "checkbox", name: "contender", value: contender.id });
      box.disabled = why !== "";
      box.checked = why === "" && ["websocket", "fetch"].includes(contender.id);
      const words = element("span", {}, contender.label);
      if (why) words.append(element("span", { class: "aside" }, why));
      label.append(box, words);
      byId("contenders").append(label);
    }
    const others = facts.tls ? "HTTP/2 and HTTP/3 are not at this server." : "HTTP/2 and HTTP/3 need TLS, and are not at this server.";
    byId("contenders").append(element("p", { class: "aside" }, `fetch runs over HTTP/1.1 here. ${others}`));
  };

  const showWorks = () => {
    for (const [id, work] of Object.entries(WORKS)) {
      const label = element("label", { class: "choice" });
      const radio = element("input", { type: "radio", name: "work", value: id });
      radio.checked = id === "ping";
      radio.addEventListener("change", showSettings);
      const words = element("span", {}, work.label);
      words.append(element("span", { class: "aside" }, work.about));
      label.append(radio, words);
      byId("works").append(label);
    }
    showSettings();
  };

  const chosenWork = () => document.querySelector("input[name=work]:checked").value;

  const showSettings = () => {
    byId("settings").replaceChildren();
    for (const [name, [value, min, max, words]] of Object.entries(WORKS[chosenWork()].settings)) {
      const id = `setting-${name}`;
      const box = element("div");
      box.append(element("label", { for: id }, words));
      box.append(element("input", { id, name, type: "number", value, min, max, step: 1, required: "" }));
      byId("settings").append(box);
    }
  };

  // Fills in the form from the address behind its #, as in #contenders=websocket,fetch&work=ping&count=20&run.
  const fillIn = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (asked.has("contenders")) {
      const ids = asked.get("contenders").split(",");
      for (const box of document.querySelectorAll("input[name=contender]")) box.checked = !box.disabled && ids.includes(box.value);
    }
    const work = document.querySelector(`input[name=work][value="${CSS.escape(asked.get("work") ?? "")}"]`);
    if (work) { work.checked = true; showSettings(); }
    for (const input of document.querySelectorAll("#settings input, #blocks")) {
      const value = asked.get(input.name || input.id);
      if (value !== null) input.value = value;
    }
    return asked.has("run");
  };

  const asked = () => {
    const contenders = [...document.querySelectorAll("input[name=contender]:checked")].map((box) => box.value);
    const settings = [...document.querySelectorAll("#settings input")].map((input) => [input.name, Number(input.value)]);
    const work = { [chosenWork()]: Object.fromEntries(settings) };
    const blocks = byId("blocks").value ? Number(byId("blocks").value) : null;
    return { contenders, work, blocks, page };
  };

  // ---- One trial ----

  // A connection of a carrier that has shown its ticket. Messages of the work go to `take`.
  const openSession = async (contender, setup, take) => {
    const session = { lost: "", ready: null, take, conn: null };
    let answered;
    const answer = new Promise((done) => { answered = done; });
    const on = {
      message(bytes, at) {
        const said = asJson(bytes);
        if (said?.refused) this.lost(said.refused);
        else if (said?.ready) { session.ready = said; answered(); }
        else session.take(bytes, at);
      },
      lost(why) { session.lost ||= why; answered(); },
    };
    session.conn = await carriers[contender.id].open(contenderFacts(contender), on);
    const bytes = encode(setup);
    session.conn.send(bytes);
    const again = contender.promise === "best effort" && setInterval(() => session.conn.send(bytes), 300);
    const late = setTimeout(() => on.lost("no answer to the ticket came in 10 s"), 10000);
    await answer;
    clearInterval(again);
    clearTimeout(late);
    if (!session.ready) {
      session.conn.close();
      throw new Error(session.lost);
    }
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

  const runPings = async (contender, setup, work) => {
    const all = work.count + WARM;
    const sent = new Array(all).fill(0);
    const trips = new Array(all).fill(null);
    let open = all;
    let late = 0;
    const take = (bytes, at) => {
      if (bytes[0] !== PING || bytes.length < 5) return;
      const number = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
      if (number < all && trips[number] === null) { trips[number] = at - sent[number]; open -= 1; }
    };
    const exchanges = carriers[contender.id].exchanges;
    const began = now();
    let session = { lost: "" };
    if (exchanges) {
      session.conn = exchanges.pings(setup.ticket, { message: take, lost(why) { session.lost ||= why; } });
    } else {
      session = await openSession(contender, setup, take);
    }
    const connects = exchanges ? [] : [now() - began];
    try {
      const start = now() + work.interval_ms;
      for (let n = 0; n < all; n += 1) {
        const due = start + n * work.interval_ms;
        while (now() < due) await sleep(due - now());
        if (session.lost) throw new Error(session.lost);
        const message = new Uint8Array(work.size);
        message[0] = PING;
        new DataView(message.buffer).setUint32(1, n);
        sent[n] = now();
        if (n >= WARM) late = Math.max(late, sent[n] - due);
        session.conn.send(message);
      }
      await settled(() => open === 0, session, contender.promise === "best effort" ? 2000 : 10000);
    } finally {
      closed(session.conn);
    }
    return { trips_ms: trips.slice(WARM), late_max_ms: late, connects_ms: connects };
  };

  const runConnects = async (contender, setup, work) => {
    const connects = [];
    let before = 0;
    while (connects.length < work.count) {
      const began = now();
      const exchanges = carriers[contender.id].exchanges;
      if (exchanges) {
        let first = 0;
        const own = await exchanges.stream(setup, { message(_bytes, at) { first ||= at; } });
        // The browser may have connected beforehand, or used a connection again: the server says so, and that attempt is left
        // out, whatever its time. A request follows a new connection at once, or after the handshake of TLS.
        const share = location.protocol.endsWith("s:") ? 0.75 : 0.5;
        if (own.count === 1 && own.waited <= share * (first - began) + 1) connects.push(first - began);
        else before += 1;
        if (before > 3) throw new Error("the browser connects beforehand, so the time of its connections is not known");
      } else {
        const session = await openSession(contender, setup, () => {});
        connects.push(now() - began);
        closed(session.conn);
      }
    }
    return { connects_ms: connects };
  };

  // Runs a work in which the server sends; `take` gets what is no JSON, and `isDone` says when all is there.
  const receive = async (contender, setup, take, isDone, ms) => {
    const state = { end: null, began: 0, isReady: false };
    const each = (bytes, at) => {
      const said = asJson(bytes);
      if (said?.ready) state.began = said.began_ns / 1e6;
      else if (said?.refused) throw new Error(said.refused);
      else if (said) state.end = { said, at };
      else take(bytes, at, state);
    };
    const exchanges = carriers[contender.id].exchanges;
    if (exchanges) {
      await exchanges.stream(setup, { message: each });
      return state;
    }
    const held = [];
    const session = await openSession(contender, setup, (bytes, at) => held.push([bytes, at]));
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

  const runUpdates = async (contender, setup, work) => {
    const arrived = [];
    const seen = new Set();
    const take = (bytes, at) => {
      if (bytes[0] !== UPDATE || bytes.length < 13) return;
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      const number = view.getUint32(1);
      if (seen.has(number)) return;
      seen.add(number);
      arrived.push([number, (view.getUint32(5) * 4294967296 + view.getUint32(9)) / 1e6, at]);
    };
    let lastChance = Infinity;
    const isDone = (state) => {
      if (seen.size >= work.count) return true;
      if (state.end && contender.promise !== "best effort") return true;
      if (state.end) lastChance = Math.min(lastChance, state.end.at + 1000);
      return now() > lastChance;
    };
    const span = 1000 * work.count / work.hz;
    const state = await receive(contender, setup, take, isDone, contender.promise === "best effort" ? span * 1.5 + 2000 : span * 3 + 10000);
    const onServer = (at) => at + serverClock.offsetMs - state.began;
    return {
      arrivals: arrived.map(([number, due, at]) => [number, due, Math.max(onServer(at), due)]),
      clock_ms: serverClock.bound,
    };
  };

  const runDown = async (contender, setup, work) => {
    let bytes = 0;
    let last = 0;
    const began = now();
    const take = (message, at) => {
      if (message[0] !== BULK) return;
      bytes += message.length;
      last = at;
    };
    await receive(contender, setup, take, () => bytes >= work.bytes, 120000);
    return { bulk: [bytes, last - began] };
  };

  const runUp = async (contender, setup, work) => {
    const exchanges = carriers[contender.id].exchanges;
    const bytes = exchanges && new Uint8Array(work.bytes).fill(BULK);
    const began = now();
    if (exchanges) {
      const said = await exchanges.up(setup.ticket, bytes);
      return { bulk: [said.received ?? 0, now() - began] };
    }
    let end = null;
    const take = (bytes, at) => { end ??= { said: asJson(bytes), at }; };
    const session = await openSession(contender, setup, take);
    try {
      for (let left = work.bytes; left > 0;) {
        const chunk = new Uint8Array(Math.min(left, CHUNK));
        chunk[0] = BULK;
        session.conn.send(chunk);
        left -= chunk.length;
        await session.conn.room();
        if (session.lost) throw new Error(session.lost);
      }
      await settled(() => end !== null, session, 120000);
      return { bulk: [end?.said?.received ?? 0, (end?.at ?? now()) - began] };
    } finally {
      closed(session.conn);
    }
  };

  const RUNS = { ping: runPings, connect: runConnects, state: runUpdates, events: runUpdates, down: runDown, up: runUp };

  // Runs a trial, and returns its raw figures, or the reason why it has none.
  const runTrial = async (contender, setup, [kind, work]) => {
    const watch = watchLoop();
    let wasHidden = document.hidden;
    const onHidden = () => { wasHidden ||= document.hidden; };
    document.addEventListener("visibilitychange", onHidden);
    performance.clearResourceTimings();
    let figures;
    try {
      figures = await RUNS[kind](contender, setup, work);
    } catch (error) {
      figures = { why_invalid: error.message || "the trial failed" };
    }
    watch.isOver = true;
    document.removeEventListener("visibilitychange", onHidden);
    if (wasHidden) figures = { why_invalid: "the tab was in the background, where browsers slow timers down" };
    figures.lag_max_ms = watch.greatest;
    const own = performance.getEntriesByType("resource").find((entry) => entry.name.includes("/fetch/"));
    if (own?.nextHopProtocol) figures.protocol = own.nextHopProtocol;
    return figures;
  };

  // ---- The race ----

  // Takes the turn of a trial; waits while others have it.
  const begin = async (race, number) => {
    const end = now() + 120000;
    for (;;) {
      try {
        return await postJson(`/begin?race=${race}&n=${number}`);
      } catch (error) {
        if (error.status !== 503 || now() > end || isStopped) throw error;
        status(`Waiting: ${error.message}.`);
        await sleep(500);
      }
    }
  };

  const run = async (wanted) => {
    const plan = await postJson("/plan", wanted);
    const [work] = Object.entries(wanted.work);
    const each = wanted.contenders.length + 1;
    const failures = {};
    byId("progress").hidden = false;
    byId("progress").max = plan.trials.length;
    byId("progress").value = 0;
    for (let number = 0; number < plan.trials.length && !isStopped; number += 1) {
      const contender = facts.contenders.find((one) => one.id === plan.trials[number]);
      if (number % each === 0 && ["state", "events"].includes(work[0])) await serverClock.compare();
      const { ticket, work: setup } = await begin(plan.race, number);
      status(`Block ${Math.floor(number / each) + 1} of ${plan.blocks}, trial ${number + 1} of ${plan.trials.length}.`);
      const figures = await runTrial(contender, { ticket, work: setup }, work);
      const after = await postJson(`/trial?race=${plan.race}&n=${number}`, figures);
      byId("progress").value = number + 1;
      if (after.answer) show(plan, after.answer, after.left === 0);
      failures[contender.id] = after.why_invalid ? (failures[contender.id] ?? 0) + 1 : 0;
      if (failures[contender.id] >= 3) throw new Error(`${contender.label} failed three times in a row: ${after.why_invalid}`);
    }
    return plan;
  };

  const TONES = { ahead: ["good", "✓"], "dead heat": ["tie", "="], undecided: ["open", "?"] };

  const show = (plan, answer, isLast) => {
    const list = byId("answer");
    list.replaceChildren();
    const say = (text, [tone, sign]) => {
      const line = element("li", { class: tone });
      line.append(element("span", { class: "sign", "aria-hidden": "true" }, sign), element("span", {}, text));
      list.append(line);
    };
    if (answer.not_trusted) say(`Not trusted: ${answer.not_trusted}.`, ["bad", "!"]);
    for (const verdict of answer.verdicts) say(verdict.text, TONES[verdict.outcome] ?? ["plain", ""]);
    if (answer.control) say(`Control: ${answer.control}`, ["plain", "≈"]);
    byId("figures").replaceChildren(...answer.figures.map((row) => {
      const line = element("tr");
      line.append(element("th", { scope: "row" }, row.contender));
      for (const cell of [row.metric, row.figure, row.interval ?? "", String(row.trials)]) line.append(element("td", {}, cell));
      return line;
    }));
    showLimits(answer.limits ?? []);
    byId("links").replaceChildren();
    byId("links").append(element("a", { href: `/result/${plan.race}.html` }, "The whole report"), " · ",
      element("a", { href: `/result/${plan.race}.json`, download: "browser.json" }, "The result file (deadheat report browser.json)"));
    byId("result-title").textContent = isLast ? "Result" : "So far";
    byId("result").hidden = false;
  };

  const ms = (value) => `${value < 0.1 ? value.toFixed(3) : value.toFixed(1)} ms`;

  const showLimits = (sentences) => {
    byId("limits").replaceChildren(...sentences.map((text) => element("li", {}, text)));
  };

  const firstLimits = () => {
    const sentences = [
      `The clock of this page moves in steps of ${ms(page.step_ms)}.`,
      `The page takes ${ms(page.loopback_ms)} to answer itself (mean of 500 times); its own part in every time is about that.`,
      "A tab in the background is slowed down: a trial during which this tab is hidden counts for nothing.",
    ];
    if (!isSecureContext) {
      sentences.push("This page came without TLS from another host, so it is no secure context: there is no WebTransport here, and the clock is "
        + "coarser. The operator can give a certificate (--web-cert, --web-key), or you open the page at localhost through ssh -L.");
    }
    return sentences;
  };

  const start = async () => {
    const wanted = asked();
    if (wanted.contenders.length < 1) return status("Choose a contender or two first.");
    isStopped = false;
    byId("start").disabled = true;
    byId("stop").hidden = false;
    try {
      const plan = await run(wanted);
      status(isStopped ? "Stopped; the blocks before are in the result." : "Done.");
      document.body.dataset.done = plan.race;
    } catch (error) {
      status(`The race could not go on: ${error.message}.`);
      document.body.dataset.failed = error.message;
    }
    byId("start").disabled = false;
    byId("stop").hidden = true;
  };

  const open = async () => {
    facts = await getJson("/facts");
    page = { browser: browserName(), step_ms: clockStep(), loopback_ms: await loopback(), isolated: window.crossOriginIsolated === true };
    showContenders();
    showWorks();
    showLimits(firstLimits());
    byId("form").addEventListener("submit", (event) => { event.preventDefault(); start(); });
    byId("stop").addEventListener("click", () => { isStopped = true; status("Stops after this trial."); });
    if (fillIn()) await start();
  };

  open().catch((error) => status(`The server does not answer: ${error.message}.`));
})();
