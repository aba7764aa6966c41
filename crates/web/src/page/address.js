// The form in the address, behind its #: #contenders=websocket,fetch&work=state:hz=60,count=300&blocks=10&run. A work has the
// settings of the command line, after a colon or each by itself; what the page does not know is refused by name.
const readAddress = (hash, works) => {
  const asked = new URLSearchParams(hash.slice(1));
  const read = { contenders: null, work: null, settings: {}, blocks: null, runs: asked.has("run"), wrong: [] };
  const [name, ...typed] = (asked.get("work") ?? "").split(/[:,]/);
  const pairs = typed.map((pair) => pair.split("="));
  for (const [key, value] of asked) {
    if (key === "contenders") read.contenders = value.split(",").filter((id) => id);
    else if (key === "blocks") pairs.push([key, value]);
    else if (!["work", "run"].includes(key)) pairs.push([key, value]);
  }
  if (name && !works[name]) {
    read.wrong.push(`there is no work "${name}" here, but ${Object.keys(works).join(", ")}`);
    return read;
  }
  read.work = name || null;
  const settings = works[name || "ping"].settings;

  // Milliseconds of a time such as 20ms; a bare number is in ms.
  const span = (text) => {
    const [, number, unit] = /^([0-9.]+)(us|ms|s|m)?$/.exec(text ?? "") ?? [];
    return number === undefined ? NaN : Number(number) * { us: 0.001, ms: 1, s: 1000, m: 60000 }[unit ?? "ms"];
  };

  // The number that a setting gets, within its bounds.
  const put = (key, text, value, [least, most]) => {
    if (!Number.isInteger(value) || value < least || value > most) {
      read.wrong.push(`${key} is ${text}, and may be ${least} to ${most}`);
      return;
    }
    if (key === "blocks") read.blocks = value;
    else read.settings[key] = value;
  };

  const bounds = (key) => settings[key].slice(1, 3);
  let time = null;
  for (const [key, text] of pairs) {
    if (key === "blocks") put(key, text, Number(text), [1, 100]);
    else if (settings[key]) put(key, text, Number(text), bounds(key));
    else if (key === "interval" && settings.interval_ms) put("interval_ms", text, span(text), bounds("interval_ms"));
    else if (key === "interval" && settings.hz) put("hz", text, Math.round(1000 / span(text)), bounds("hz"));
    else if (key === "events" && name === "events") put("hz", text, Number((text ?? "").replace(/pps$/, "")), bounds("hz"));
    else if (["time", "duration"].includes(key) && (settings.hz || settings.interval_ms)) time = [text, span(text)];
    else read.wrong.push(`"${key}" is no setting of ${name || "ping"}, which has ${Object.keys(settings).join(", ")}`);
  }
  if (time) {
    // As many messages as the time has room for.
    const gap = read.settings.interval_ms ?? settings.interval_ms?.[0] ?? 1000 / (read.settings.hz ?? settings.hz[0]);
    put("count", `that of ${time[0]}`, Math.round(time[1] / gap), bounds("count"));
  }
  return read;
};
