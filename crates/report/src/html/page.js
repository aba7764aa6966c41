// What a page does where scripts run: a switch for light and dark, contenders that can be hidden, marks
// that can be inspected by mouse, finger and keyboard, and figures that can be copied and saved. All of
// it is added here, so that a page without scripts shows no button that does nothing.
"use strict";

(() => {
  const root = document.documentElement;

  // Storage may be forbidden, as for some pages that are files.
  const stored = (action) => { try { return action(window.localStorage); } catch { return null; } };
  const THEMES = ["auto", "light", "dark"];
  const KEY = "deadheat-theme";

  const setTheme = (theme) => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
  };
  // Before anything is drawn, so that nothing flashes.
  let theme = stored((s) => s.getItem(KEY));
  if (!THEMES.includes(theme)) theme = "auto";
  setTheme(theme);

  const element = (name, attributes = {}, text = "") => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };

  const button = (words, label, action) => {
    const made = element("button", { type: "button" }, words);
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", () => action(made));
    return made;
  };

  // Says what came of a click, on the button and to screen readers.
  const answer = (made, words) => {
    const before = made.dataset.words ?? made.textContent;
    made.dataset.words = before;
    made.textContent = words;
    status.textContent = words;
    clearTimeout(made.timer);
    made.timer = setTimeout(() => { made.textContent = before; }, 1600);
  };
  const status = element("p", { role: "status", class: "skip" });

  // ---- Light and dark ----

  const themeSwitch = () => {
    const words = () => `Theme: ${theme}`;
    const made = button(words(), "", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      setTheme(theme);
      stored((s) => s.setItem(KEY, theme));
      made.textContent = words();
    });
    made.id = "theme";
    document.querySelector(".bar-end").append(made);
  };

  // ---- Copying and saving ----

  const copy = async (text, made) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // No clipboard for this page: the old way, by a selection.
      const area = element("textarea", { class: "skip", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      made.focus();
      if (!done) return answer(made, "Could not copy");
    }
    answer(made, "Copied");
  };

  const save = (blob, name) => {
    const link = element("a", { download: name });
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  // Tabs between cells and a line for each row, as spreadsheets take it; with plain spaces.
  const tsv = (table) => [...table.rows]
    .map((row) => [...row.cells].map((cell) => cell.textContent.trim().replaceAll("\u00a0", " ")).join("\t"))
    .join("\n") + "\n";

  const INLINED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray",
    "stroke-linecap", "stroke-linejoin", "opacity", "display", "font-family", "font-size", "font-weight",
    "text-anchor", "dominant-baseline"];

  // A drawing that needs no page: what the style sheet says is written into it, title and caption too.
  const standalone = (figure) => {
    const shown = figure.querySelector(".plot.wide svg");
    const copied = shown.cloneNode(true);
    const from = [shown, ...shown.querySelectorAll("*")];
    const to = [copied, ...copied.querySelectorAll("*")];
    from.forEach((one, at) => {
      const style = getComputedStyle(one);
      for (const name of INLINED) {
        const value = style.getPropertyValue(name);
        if (value && (name !== "display" || value === "none")) to[at].setAttribute(name, value);
      }
      to[at].removeAttribute("class");
      to[at].removeAttribute("data-t");
    });
    const box = shown.viewBox.baseVal;
    const page = getComputedStyle(document.body);
    const words = { "font-family": page.fontFamily, fill: page.color };
    const whole = document.createElementNS(shown.namespaceURI, "svg");
    const add = (name, attributes, text = "") => {
      const made = document.createElementNS(shown.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      made.textContent = text;
      whole.append(made);
      return made;
    };
    const title = figure.querySelector("h2, h3, h4").textContent;
    const caption = figure.querySelector("figcaption").textContent;
    add("title", {}, title);
    add("desc", {}, caption);
    const ground = add("rect", { fill: page.backgroundColor });
    let y = 28;
    add("text", { ...words, x: 16, y, "font-size": 16, "font-weight": 600 }, title);
    for (const line of lines(caption, (box.width - 16) / 6.2)) {
      y += 18;
      add("text", { ...words, x: 16, y, "font-size": 12, opacity: .75 }, line);
    }
    const [width, height] = [box.width + 32, y + 16 + box.height + 16];
    copied.setAttribute("x", 16);
    copied.setAttribute("y", y + 16);
    copied.setAttribute("width", box.width);
    copied.setAttribute("height", box.height);
    whole.append(copied);
    for (const one of [ground, whole]) {
      one.setAttribute("width", width);
      one.setAttribute("height", height);
    }
    whole.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return { text: new XMLSerializer().serializeToString(whole), width, height };
  };

  const lines = (text, width) => {
    const all = [""];
    for (const word of text.split(" ")) {
      const longer = `${all.at(-1)} ${word}`.trim();
      if (longer.length > width && all.at(-1)) all.push(word); else all[all.length - 1] = longer;
    }
    return all;
  };

  const svgBlob = (drawing) => new Blob([drawing.text], { type: "image/svg+xml" });

  const saveSvg = (figure, made) => {
    save(svgBlob(standalone(figure)), `${figure.id}.svg`);
    answer(made, "Saved");
  };

  const savePng = async (figure, made) => {
    const drawing = standalone(figure);
    const url = URL.createObjectURL(svgBlob(drawing));
    try {
      const image = new Image();
      image.src = url;
      await image.decode();
      const canvas = element("canvas");
      canvas.width = 2 * drawing.width;
      canvas.height = 2 * drawing.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
      save(blob, `${figure.id}.png`);
      answer(made, "Saved");
    } catch {
      answer(made, "Could not save");
    } finally {
      URL.revokeObjectURL(url);
    }
  };

  const tools = (figure) => {
    const title = figure.querySelector("h2, h3, h4").textContent;
    const bar = element("div", { class: "tools" });
    const table = figure.querySelector(".numbers table");
    if (table) bar.append(button("Copy", `Copy the numbers of ${title}`, (made) => copy(tsv(table), made)));
    if (figure.querySelector(".plot.wide svg")) {
      bar.append(
        button("SVG", `Save ${title} as SVG`, (made) => saveSvg(figure, made)),
        button("PNG", `Save ${title} as PNG`, (made) => savePng(figure, made)),
      );
    }
    bar.append(element("p", { class: "readout", "aria-live": "polite" }));
    const numbers = figure.querySelector(".numbers");
    if (numbers) numbers.before(bar); else figure.append(bar);
  };

  // ---- Marks ----

  const tip = element("div", { class: "tip", "aria-hidden": "true" });
  tip.hidden = true;
  // The mark that the tip is about.
  let told = null;

  const showTip = (words, x, y) => {
    tip.textContent = words;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, x - width / 2), root.clientWidth - width - 4);
    const top = y - height - 10 > 4 ? y - height - 10 : y + 16;
    tip.style.transform = `translate(${left}px, ${top}px)`;
  };

  const tell = (mark, x, y) => {
    told = mark;
    const box = mark.getBoundingClientRect();
    showTip(mark.dataset.t, x ?? box.left + box.width / 2, y ?? box.top);
  };

  const hush = () => {
    told = null;
    tip.hidden = true;
  };

  // A plot is one stop of the tabulator; within it, arrow keys go from mark to mark.
  const inspect = (plot, figure) => {
    const all = [...plot.querySelectorAll(".m[data-t]")];
    if (!all.length) return;
    const title = figure.querySelector("h2, h3, h4").textContent;
    const readout = figure.querySelector(".readout");
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "plot");
    plot.removeAttribute("aria-labelledby");
    plot.setAttribute("aria-label", `${title}. ${all.length} values; arrow keys go through them.`);
    let current = null;

    const visible = () => all.filter((mark) => !mark.closest(".off"));
    const leave = () => {
      current?.classList.remove("on");
      current = null;
      hush();
    };
    const enter = (mark, x, y) => {
      if (mark !== current) {
        leave();
        current = mark;
        mark.classList.add("on");
        readout.textContent = mark.dataset.t;
      }
      tell(mark, x, y);
    };
    const nearest = (x, y) => {
      let best = null;
      let least = 24 ** 2;
      for (const mark of visible()) {
        const box = mark.getBoundingClientRect();
        const dx = Math.max(box.left - x, 0, x - box.right);
        const dy = Math.max(box.top - y, 0, y - box.bottom);
        const cx = (box.left + box.right) / 2 - x;
        const cy = (box.top + box.bottom) / 2 - y;
        // Within its box the centre decides, so that a large mark does not hide small ones in it.
        const far = dx * dx + dy * dy + (cx * cx + cy * cy) * 1e-3;
        if (far < least) [best, least] = [mark, far];
      }
      return best;
    };
    const point = (event) => {
      const under = event.target.closest?.(".m[data-t]");
      const mark = under && !under.closest(".off") ? under : nearest(event.clientX, event.clientY);
      if (mark) enter(mark, event.clientX, event.clientY); else leave();
    };

    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
      const marks = visible();
      const at = marks.indexOf(current);
      const last = marks.length - 1;
      const to = {
        ArrowRight: at + 1, ArrowDown: at + 1, PageDown: at + 10,
        ArrowLeft: at < 0 ? 0 : at - 1, ArrowUp: at < 0 ? 0 : at - 1, PageUp: at - 10,
        Home: 0, End: last,
      }[event.key];
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Escape") {
        leave();
        readout.textContent = "";
      } else if (to !== undefined && marks.length) {
        event.preventDefault();
        const mark = marks[Math.min(Math.max(to, 0), last)];
        mark.scrollIntoView({ block: "nearest", inline: "nearest" });
        enter(mark);
      }
    });
  };

  // ---- Contenders ----

  const switches = (part) => {
    for (const entrant of part.querySelectorAll(".legend .entrant")) {
      const which = [...entrant.querySelector(".key").classList].find((name) => /^c\d+$/.test(name));
      const made = element("button", { type: "button", class: "entrant", "aria-pressed": "true" });
      made.append(...entrant.childNodes);
      made.addEventListener("click", () => {
        const shown = made.getAttribute("aria-pressed") === "false";
        made.setAttribute("aria-pressed", String(shown));
        for (const drawn of part.querySelectorAll(`svg .${which}`)) drawn.classList.toggle("off", !shown);
      });
      entrant.replaceWith(made);
    }
  };

  // ---- Folded parts ----

  // Not every browser unfolds the part that a link leads to.
  const unfold = () => {
    const to = document.getElementById(window.location.hash.slice(1));
    let folded = false;
    for (let at = to?.closest("details"); at; at = at.parentElement.closest("details")) {
      folded ||= !at.open;
      at.open = true;
    }
    if (folded) to.scrollIntoView();
  };

  document.addEventListener("DOMContentLoaded", () => {
    themeSwitch();
    document.body.append(status, tip);
    for (const part of document.querySelectorAll(".part")) switches(part);
    for (const figure of document.querySelectorAll(".figure")) {
      tools(figure);
      for (const plot of figure.querySelectorAll(".plot")) inspect(plot, figure);
    }
    for (const command of document.querySelectorAll(".command")) {
      const text = command.querySelector("code").textContent;
      command.append(button("Copy", "Copy the command", (made) => copy(text, made)));
    }
    window.addEventListener("hashchange", unfold);
    unfold();
    document.addEventListener("scroll", () => { if (told) tell(told); }, { passive: true });
    root.dataset.ready = "yes";
  });
})();
