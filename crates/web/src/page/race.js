// The race: the form, the trials in the order of the server's plan, and the answer that the server computes.
(() => {
  const byId = (id) => document.getElementById(id);

  const element = (name, attributes = {}, text = "") => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };

  const WORKS = {
    ping: { label: "Round trips", about: "a message comes back", settings: { size: [64, 12, 16384, "bytes of a message"],
      count: [40, 20, 2000, "messages in a trial"], interval_ms: [20, 1, 1000, "ms between two messages"] } },
    connect: { label: "New connections", about: "from the call that opens one to the first answer",
      settings: { count: [3, 1, 20, "connections in a trial"] } },
    state: { label: "State from the server", about: "how old the newest update is, as in a game",
      settings: { hz: [60, 1, 1000, "updates a second"], size: [200, 20, 1100, "bytes of an update"], count: [300, 20, 5000, "updates in a trial"] } },
    events: { label: "Events from the server", about: "at random times; all must arrive",
      settings: { hz: [50, 1, 1000, "events a second"], size: [64, 20, 1100, "bytes of an event"], count: [200, 20, 5000, "events in a trial"] } },
    down: { label: "Bulk data, server to page", about: "from the call that connects to the last byte", settings: { bytes: [2000000, 1000, 1000000000, "bytes"] } },
    up: { label: "Bulk data, page to server", about: "from the call that connects to the server's word that all arrived",
      settings: { bytes: [2000000, 1000, 1000000000, "bytes"] } },
  };

  let facts = null;
  let page = null;
  let isStopped = false;
  // Name of the race that runs.
  let racing = null;

  const status = (text) => { byId("status").textContent = text; };

  // Faults stay on the page, each once, and the first of many.
  const fault = (text) => {
    const list = byId("faults");
    const isThere = [...list.children].some((item) => item.textContent === text);
    if (!isThere && list.children.length < 20) list.append(element("li", {}, text));
  };

  // ---- The form ----

  const contenderFacts = (contender) => (contender.of ? facts.carriers[contender.of] : {});

  const lacks = (contender) => {
    const own = contenderFacts(contender);
    if (own?.missing) return `Not at this server: ${own.missing}.`;
    return carriers[contender.id] ? carriers[contender.id].lacks(own) : "This page has no script for it.";
  };

  // One of each protocol that works here; where that is one protocol alone, two of it.
  const chosenFirst = () => {
    const working = facts.contenders.filter((contender) => lacks(contender) === "");
    const isFirst = (contender, at) => working.findIndex((other) => other.over === contender.over) === at;
    const first = working.filter(isFirst);
    return (first.length > 1 ? first : working.slice(0, 2)).map((contender) => contender.id);
  };

  const showContenders = () => {
    const chosen = chosenFirst();
    for (const contender of facts.contenders) {
      const why = lacks(contender);
      const label = element("label", { class: "choice" });
      const box = element("input", { type: "checkbox", name: "contender", value: contender.id });
      box.disabled = why !== "";
      box.checked = chosen.includes(contender.id);
      const words = element("span", {}, contender.label);
      const said = why || (carriers[contender.id].caveat?.(contenderFacts(contender)) ?? "");
      if (said) words.append(element("span", { class: "aside" }, said));
      label.append(box, words);
      byId("contenders").append(label);
    }
    byId("contenders").append(element("p", { class: "aside" }, "fetch over HTTP/3 is not among them: a page cannot make a browser take it for one trial and not for the next. WebTransport runs over HTTP/3."));
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

  // Fills in the form from the address; returns true if the race starts at once.
  const fillIn = () => {
    const address = readAddress(location.hash, WORKS);
    const boxes = [...document.querySelectorAll("input[name=contender]")];
    for (const id of address.contenders ?? []) {
      const contender = facts.contenders.find((one) => one.id === id);
      if (!contender) address.wrong.push(`there is no contender "${id}" here, but ${facts.contenders.map((one) => one.id).join(", ")}`);
      else if (lacks(contender)) fault(`${contender.label} is left out. ${lacks(contender)}`);
    }
    if (address.wrong.length) {
      status(`The address of this page is not understood: ${address.wrong.join("; ")}.`);
      return false;
    }
    if (address.contenders) boxes.forEach((box) => { box.checked = !box.disabled && address.contenders.includes(box.value); });
    const work = address.work && document.querySelector(`input[name=work][value=${address.work}]`);
    if (work) { work.checked = true; showSettings(); }
    for (const [name, value] of Object.entries(address.settings)) byId(`setting-${name}`).value = value;
    if (address.blocks) byId("blocks").value = address.blocks;
    return address.runs;
  };

  const asked = () => {
    const contenders = [...document.querySelectorAll("input[name=contender]:checked")].map((box) => box.value);
    const settings = [...document.querySelectorAll("#settings input")].map((input) => [input.name, Number(input.value)]);
    const work = { [chosenWork()]: Object.fromEntries(settings) };
    const blocks = byId("blocks").value ? Number(byId("blocks").value) : null;
    return { contenders, work, blocks, page };
  };

  // ---- The race ----

  // Time for which the page goes on asking a server that does not answer.
  const PATIENCE_MS = 120000;

  // Trials that may fail in a row before the contender is left out: without a connection, and otherwise.
  const MOST_FAILURES = { withoutConnection: 2, any: 3 };

  // Times at which a server did not answer.
  let outages = 0;

  const seconds = (ms) => `${Math.round(ms / 1000)} s`;

  // Asks until the server answers, and says meanwhile that it does not. A refusal ends it.
  const persist = async (act) => {
    const since = now();
    for (;;) {
      try {
        return await act();
      } catch (error) {
        if (error.isUnreachable) outages += 1;
        const asked = now() - since;
        if (!error.isUnreachable || isStopped || asked > PATIENCE_MS) throw error;
        const offline = navigator.onLine === false ? " This device is offline." : "";
        status(`No trial runs: ${error.message}.${offline} The page has asked for ${seconds(asked)}, and goes on for ${seconds(PATIENCE_MS)}; `
          + "what was measured stays.");
        await sleep(1000);
      }
    }
  };

  // Other tabs of this browser at this server: they share its turns and this host's line.
  const tabs = {
    channel: "BroadcastChannel" in window ? new BroadcastChannel("deadheat") : null,
    seen: -Infinity,
    isRacing() { return now() - this.seen < 3000; },
    // Lets the others know; returns the end of that.
    announce() {
      const timer = setInterval(() => this.channel?.postMessage("races"), 1000);
      return () => clearInterval(timer);
    },
  };
  if (tabs.channel) tabs.channel.onmessage = () => { tabs.seen = now(); };

  const inFront = async () => {
    while (document.hidden && !isStopped) {
      status("The race waits until this tab is in front: browsers slow down a tab that is not.");
      await new Promise((done) => { document.addEventListener("visibilitychange", done, { once: true }); });
    }
  };

  // Takes the turn of a trial, and waits while others have it; null if the user stops.
  const begin = async (race, number) => {
    const since = now();
    while (!isStopped) {
      await inFront();
      try {
        return await persist(() => postJson(`/begin?race=${race}&n=${number}`));
      } catch (error) {
        if (error.status !== 503) throw error;
        const who = tabs.isRacing() ? "another tab of this browser races, too, and has the turn" : error.message;
        status(`Waiting for ${seconds(now() - since)}: ${who}.`);
        await sleep(500);
      }
    }
    return null;
  };

  // Notes the outcome of a contender's trial. A contender that fails again and again is left out of the rest.
  const note = (own, contender, why, hadNone) => {
    own.inRow = why ? own.inRow + 1 : 0;
    if (!why || own.inRow < (hadNone ? MOST_FAILURES.withoutConnection : MOST_FAILURES.any)) return;
    own.out = why;
    fault(`${contender.label} is left out from here on: ${own.inRow} trials in a row failed (${why}). The others go on.`);
  };

  // Runs one trial of a plan; returns the server's answer to its figures, and null if the user stops.
  const runSlot = async (plan, number, own, work, progress) => {
    const contender = facts.contenders.find((one) => one.id === plan.trials[number]);
    own[contender.id] ??= { inRow: 0, out: "" };
    const state = own[contender.id];
    let done = { figures: { why_invalid: `left out: ${state.out}` }, hadNone: false };
    const before = outages;
    if (!state.out) {
      const turn = await begin(plan.race, number);
      if (!turn) return null;
      status(progress);
      const say = (more) => status(more ? `${progress} ${contender.label}: ${more}` : progress);
      done = await trials.run(contender, contenderFacts(contender), turn, work, say);
    }
    const after = await persist(() => postJson(`/trial?race=${plan.race}&n=${number}`, done.figures));
    if (!state.out && after.why_invalid) fault(`A trial of ${contender.label} is in no figure: ${after.why_invalid}.`);
    // A failure beside an outage of the whole server is not the contender's.
    if (!state.out && outages === before) note(state, contender, after.why_invalid, done.hadNone);
    if (Object.values(own).length === new Set(plan.trials).size && Object.values(own).every((one) => one.out)) {
      throw new Error("no contender works here");
    }
    return after;
  };

  const run = async (wanted) => {
    const plan = await persist(() => postJson("/plan", wanted));
    const work = Object.entries(wanted.work)[0];
    const each = wanted.contenders.length + 1;
    const all = plan.trials.length;
    const own = {};
    const began = now();
    Object.assign(byId("progress"), { hidden: false, max: all, value: 0 });
    racing = plan.race;
    for (let number = 0; number < all && !isStopped; number += 1) {
      if (number % each === 0 && ["state", "events"].includes(work[0])) await persist(() => serverClock.compare());
      const left = number > 0 ? `, about ${minutes((now() - began) / number * (all - number))} left` : "";
      const progress = `Block ${Math.floor(number / each) + 1} of ${plan.blocks}, trial ${number + 1} of ${all}${left}.`;
      const after = await runSlot(plan, number, own, work, progress);
      if (!after) break;
      byId("progress").value = number + 1;
      plan.blockMs = (now() - began) / (number + 1) * each;
      const contenders = wanted.contenders.filter((id) => !own[id]?.out);
      if (after.answer) show({ ...plan, wanted: { ...wanted, contenders } }, after.answer, after.left === 0);
    }
    return plan;
  };

  const minutes = (ms) => (ms < 90000 ? seconds(ms) : `${Math.round(ms / 60000)} min`);

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
    showAgain(plan, answer.again);
    byId("result-title").textContent = isLast ? "Result" : "So far";
    byId("result").hidden = false;
  };

  // Offers the new race that should decide what this one left open.
  const showAgain = (plan, again) => {
    byId("again").replaceChildren();
    if (!again || plan.wanted.contenders.length < 2) return;
    byId("again").append(`${again.text} `);
    if (!again.blocks) return;
    const button = element("button", { type: "button" }, `Start a new race of ${again.blocks} blocks, about ${minutes(again.blocks * plan.blockMs)}`);
    button.addEventListener("click", () => start({ ...plan.wanted, blocks: again.blocks }));
    byId("again").append(button);
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

  const start = async (wanted) => {
    if (wanted.contenders.length < 1) return status("Choose a contender or two first.");
    isStopped = false;
    byId("start").disabled = true;
    byId("stop").hidden = false;
    byId("again").replaceChildren();
    if (tabs.isRacing()) fault("Another tab of this browser races at this server, too. One trial runs at a time; the tab that is not in front waits.");
    const silent = tabs.announce();
    try {
      const plan = await run(wanted);
      status(isStopped ? "Stopped; the blocks before are in the result." : "Done.");
      document.body.dataset.done = plan.race;
    } catch (error) {
      const stays = byId("result").hidden ? "No block was whole" : "The blocks before it stay in the result below";
      status(`The race ended early: ${error.message}. ${stays}.`);
      document.body.dataset.failed = error.message;
    }
    racing = null;
    silent();
    byId("start").disabled = false;
    byId("stop").hidden = true;
  };

  const open = async () => {
    facts = await getJson("/facts");
    page = { browser: browserName(), step_ms: clockStep(), loopback_ms: await loopback(), isolated: window.crossOriginIsolated === true };
    showContenders();
    showWorks();
    showLimits(firstLimits());
    byId("form").addEventListener("submit", (event) => { event.preventDefault(); byId("faults").replaceChildren(); start(asked()); });
    byId("stop").addEventListener("click", () => { isStopped = true; status("Stops after this trial."); });
    // The turn of a page that is closed goes to the next.
    window.addEventListener("pagehide", () => { if (racing) navigator.sendBeacon(`/leave?race=${racing}`); });
    if (fillIn()) await start(asked());
  };

  open().catch((error) => status(`The server does not answer: ${error.message}.`));
})();
