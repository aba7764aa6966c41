//! Runs in iperf3's JSON: a document each, or events, a line each (`--json-stream`, since 3.17).
//!
//! Versions 3.7 to 3.10 write the sums of a bidirectional run under the same keys twice: first client to server, then
//! back; later ones add `_bidir_reverse` to the second.

use super::run::{EndCpu, EndSums, Iperf3Run, WaySums};
use crate::loose_json::{LooseValue, documents};
use crate::rates::IperfSide;
use crate::stalls::grow;
use deadheat_contract::measurements::series::Series;

/// Maximum depth of objects of other programs around a document.
const DEEPEST: usize = 6;

/// Returns true for text with this beginning.
pub(super) fn begins(head: &str) -> bool {
    let has = |key: &str| head.contains(key);
    let is_document = has("\"start\"") && (has("\"iperf 3") || has("\"intervals\""));
    // In the output of another program it may be a string.
    let is_quoted = has("\\\"start\\\"") && has("\\\"iperf 3");
    let is_event = |line: &str| {
        let own = line.trim_start().strip_prefix("{\"event\":");
        own.is_some_and(|own| own.trim_start().starts_with("\"error\""))
    };
    is_document || is_quoted || head.lines().any(is_event)
}

/// Returns the runs in a text, and the words around them.
pub(super) fn runs(text: &str) -> (Vec<Iperf3Run>, Vec<String>) {
    let found = documents(text);
    let mut runs = Vec::new();
    let mut events = RunParts::default();
    for document in &found.documents {
        if let Some(event) = document.value.text_at("event") {
            if event == "start" {
                runs.extend(events.take());
            }
            events.add(event, document.value.get("data"));
        } else {
            search(&document.value, document.is_cut, DEEPEST, &mut runs);
        }
    }
    runs.extend(events.take());
    (runs, found.words.iter().map(|line| (*line).to_owned()).collect())
}

/// Collects the runs in a value: it may be one, or hold them deeper.
fn search(value: &LooseValue<'_>, is_cut: bool, depth: usize, runs: &mut Vec<Iperf3Run>) {
    let has = |key| value.get(key).is_some();
    if has("start") && (has("end") || has("intervals") || has("error") || is_cut) {
        let intervals = value.all("intervals").flat_map(LooseValue::elements);
        let parts = RunParts {
            start: value.get("start"),
            intervals: intervals.collect(),
            end: value.get("end"),
            error: value.get("error"),
            is_cut,
        };
        runs.push(parts.run());
        return;
    }
    if depth == 0 {
        return;
    }
    for (_, member) in value.members() {
        search(member, is_cut, depth - 1, runs);
    }
    for element in value.elements() {
        search(element, is_cut, depth - 1, runs);
    }
    if let Some(text) = value.text()
        && begins(text)
    {
        for document in &documents(text).documents {
            search(&document.value, document.is_cut, depth - 1, runs);
        }
    }
}

/// Parts of a document.
#[derive(Default)]
struct RunParts<'a> {
    start: Option<&'a LooseValue<'a>>,
    intervals: Vec<&'a LooseValue<'a>>,
    end: Option<&'a LooseValue<'a>>,
    error: Option<&'a LooseValue<'a>>,
    is_cut: bool,
}

impl<'a> RunParts<'a> {
    /// Takes an event.
    fn add(&mut self, event: &str, data: Option<&'a LooseValue<'a>>) {
        match event {
            "start" => self.start = data,
            "interval" => self.intervals.extend(data),
            "end" => self.end = data,
            "error" => self.error = data,
            _ => {}
        }
    }

    /// Returns the run of the events so far, if there is one, and begins the next.
    fn take(&mut self) -> Option<Iperf3Run> {
        let parts = std::mem::take(self);
        let is_there = parts.start.is_some() || parts.end.is_some() || parts.error.is_some();
        is_there.then(|| parts.run())
    }

    fn run(&self) -> Iperf3Run {
        let start = self.start.unwrap_or(&LooseValue::Null);
        let end = self.end.unwrap_or(&LooseValue::Null);
        let text = |value: &LooseValue<'_>, path| value.text_at(path).map(str::to_owned);
        let writer = match start.get("accepted_connection") {
            Some(_) => IperfSide::Server,
            None => IperfSide::Client,
        };
        let is_reverse = start.number_at("test_start/reverse").is_some_and(|own| own != 0.0);
        let seconds = start.number_at("timestamp/timesecs").map(|seconds| seconds * 1e3);
        let started = start.number_at("timestamp/timemillisecs").or(seconds);
        let congestion = text(end, "sender_tcp_congestion");
        let streams = start.number_at("test_start/num_streams");
        let asked_s = start.number_at("test_start/duration");
        Iperf3Run {
            version: text(start, "version"),
            cookie: text(start, "cookie").filter(|cookie| !cookie.trim().is_empty()),
            started_ms: started.filter(|ms| *ms > 0.0).map(|ms| ms as u64),
            protocol: text(start, "test_start/protocol"),
            streams: streams.unwrap_or(1.0).max(0.0) as u64,
            congestion: congestion.or_else(|| text(start, "congestion_used")),
            writer,
            asked_s: asked_s.filter(|seconds| *seconds > 0.0),
            omitted_s: start.number_at("test_start/omit").unwrap_or(0.0),
            ways: self.ways(end, is_reverse),
            cpu: cpu(end),
            series: series(&self.intervals, is_reverse != (writer == IperfSide::Client)),
            error: self.error.and_then(words),
            is_cut: self.is_cut,
        }
    }

    /// Returns the sums: client to server, and back.
    fn ways(&self, end: &LooseValue<'_>, is_reverse: bool) -> [Option<WaySums>; 2] {
        let sums = |key| -> Vec<EndSums> { end.all(key).filter_map(end_sums).collect() };
        let (sent, received) = (sums("sum_sent"), sums("sum_received"));
        let later = |key, first: &[EndSums]| sums(key).first().or(first.get(1)).copied();
        let back = WaySums {
            sent: later("sum_sent_bidir_reverse", &sent),
            received: later("sum_received_bidir_reverse", &received),
            joint: None,
        };
        let (sent, received) = (sent.first().copied(), received.first().copied());
        let mut main = WaySums { sent, received, joint: sums("sum").first().copied() };
        if sent.is_some() || received.is_some() || self.is_cut {
            // Of a text that ends in the middle later sums, or some of the streams, may be missing.
            main.joint = None;
        } else if main.joint.is_none() {
            main = of_streams(end);
        }
        let there = |way: WaySums| (way != WaySums::default()).then_some(way);
        match (there(back), is_reverse) {
            (Some(back), _) => [there(main), Some(back)],
            (None, true) => [None, there(main)],
            (None, false) => [there(main), None],
        }
    }
}

/// Returns the words of an error, which may be a string or an object.
fn words(error: &LooseValue<'_>) -> Option<String> {
    let said = error.text().or_else(|| error.text_at("message"));
    said.map(str::to_owned).or_else(|| error.number().map(|number| format!("error {number}")))
}

fn end_sums(value: &LooseValue<'_>) -> Option<EndSums> {
    let sums = EndSums {
        seconds: value.number_at("seconds"),
        bytes: value.number_at("bytes"),
        bps: value.number_at("bits_per_second"),
        retransmits: value.number_at("retransmits"),
        packets: value.number_at("packets"),
        lost: value.number_at("lost_packets"),
        jitter_ms: value.number_at("jitter_ms"),
    };
    // Sums beyond these are no counts of bytes.
    let is_sane = |value: Option<f64>| value.is_none_or(|value| value.abs() < 1e18);
    let is_there = sums.bytes.or(sums.bps).is_some();
    (is_there && is_sane(sums.bytes) && is_sane(sums.bps)).then_some(sums)
}

/// Returns the sums over the streams, where a document has none of its own.
fn of_streams(end: &LooseValue<'_>) -> WaySums {
    let streams = end.list_at("streams");
    let sum = |key| {
        let each = streams.iter().filter_map(|stream| stream.get(key).and_then(end_sums));
        let all = each.reduce(EndSums::and)?;
        Some(EndSums { jitter_ms: all.jitter_ms.filter(|_| streams.len() == 1), ..all })
    };
    WaySums { sent: sum("sender"), received: sum("receiver"), joint: sum("udp") }
}

/// Returns the CPU time of the writer's end, and of the other; without any CPU time an end is not known.
fn cpu(end: &LooseValue<'_>) -> [Option<EndCpu>; 2] {
    ["host", "remote"].map(|side| {
        let share = |part| end.number_at(&format!("cpu_utilization_percent/{side}_{part}"));
        let shares =
            EndCpu { total: share("total")?, user: share("user")?, system: share("system")? };
        [shares.total, shares.user, shares.system].iter().any(|own| *own > 0.0).then_some(shares)
    })
}

/// Returns the series of the writer's end, one for each stream. It sends on all of them, or on none, where a version
/// before 3.7 does not say it for each.
fn series(intervals: &[&LooseValue<'_>], sends: bool) -> Vec<Series> {
    let mut flows: Vec<(f64, Series)> = Vec::new();
    for interval in intervals {
        for stream in interval.list_at("streams") {
            let number = |key| stream.number_at(key);
            if number("omitted").is_some_and(|omitted| omitted != 0.0) {
                continue;
            }
            let (Some(end), Some(bytes)) = (number("end"), number("bytes")) else { continue };
            let socket = number("socket").unwrap_or(0.0);
            let at = flows.iter().position(|(own, _)| *own == socket).unwrap_or_else(|| {
                flows.push((socket, Series::default()));
                flows.len() - 1
            });
            let sends = number("sender").map_or(sends, |sender| sender != 0.0);
            grow(&mut flows[at].1, end, number("seconds").unwrap_or(0.0), bytes, sends);
        }
    }
    flows.into_iter().map(|(_, series)| series).filter(|series| !series.at_ns.is_empty()).collect()
}
