//! fping: a line for each answer (`-c`, `-l`), all times of a host in a line (`-C`), or its sums (`-q`), with times in
//! front (`-D`); the same as an object a line (`--json`). Several hosts in a file are contenders.

use super::echo::{self, EchoSums, EchoTime, RoundTripRun};
use super::foreign_file::ForeignFile;
use super::loose_json::documents;
use super::text::{MILLIS, address, decimal};
use super::{FileContent, Format, NONE, ReaderContext, stamp};
use stamp::LineStamp;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "fping",
    summary: "what fping prints: -c, -C, -l, with -D, -q, -e or --json; each host is a contender",
    sniff: |head| head.lines().take(200).any(is_own),
    read: Some(read),
    program: "fping",
    unit: "ms",
    trial: "a run of fping",
    nothing: "there is neither an answer nor a sum of fping in it",
    ..NONE
};

fn is_own(line: &str) -> bool {
    if line.starts_with('{') {
        return event(line).is_some();
    }
    match FpingLine::of(stamp::split(line).1) {
        Some((host, FpingLine::Times(_))) => address(host).is_some(),
        found => found.is_some(),
    }
}

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut log = FpingLog::default();
    file.each_line(|line| log.line(line))?;
    log.runs.retain(|run| !run.is_empty());
    echo::content(log.runs.into_iter().map(|run| (run, None)), context)
}

/// Line about a host.
#[derive(Debug, Clone, PartialEq)]
enum FpingLine {
    /// Answer to the request of this number, or no answer.
    Reply(u64, Option<u64>),
    Duplicate,
    /// Error from the network.
    Error,
    /// Each time, or no answer.
    Times(Vec<Option<u64>>),
    /// Requests, answers, and their sums.
    Counts(u64, u64, Option<EchoSums>),
    /// Answer to the only request, or no answer.
    Alive(Option<EchoTime>),
}

impl FpingLine {
    /// Recognises a line without its stamp; the host is first.
    fn of(text: &str) -> Option<(&str, FpingLine)> {
        if let Some((_, host)) = text.split_once(" for ICMP Echo sent to ") {
            let host = host.split_whitespace().next()?;
            return text.starts_with("ICMP ").then_some((host, FpingLine::Error));
        }
        let is_word = |host: &str| !host.is_empty() && !host.contains(char::is_whitespace);
        if let Some((host, rest)) = text.split_once(" is ").filter(|(host, _)| is_word(host)) {
            return alive(rest).map(|line| (host, line));
        }
        let (host, rest) = text.split_once(" : ")?;
        let host = host.trim();
        let line = is_word(host).then(|| about(rest.trim()))??;
        Some((host, line))
    }
}

/// Recognises an object of `--json`, such as `{"resp": {"host": "h", "seq": 0, "size": 64, "rtt": 0.054}}`. The host is
/// first, and the time of an answer last.
fn event(line: &str) -> Option<(String, FpingLine, Option<f64>)> {
    let found = documents(line);
    let [(name, value)] = found.documents.first()?.value.members() else { return None };
    let number = |key: &str| value.number_at(key);
    let count = |key: &str| Some(number(key).filter(|own| (0.0..9e15).contains(own))? as u64);
    let ns = |own: f64| MILLIS.whole(own).ok();
    let line = match name.as_ref() {
        "resp" => FpingLine::Reply(count("seq")?, Some(ns(number("rtt")?)?)),
        "timeout" => FpingLine::Reply(count("seq")?, None),
        "dup" => FpingLine::Duplicate,
        "summary" => {
            let sum = |key: &str| ns(number(key)?);
            let sums = || Some([sum("rttMin")?, sum("rttAvg")?, sum("rttMax")?]);
            FpingLine::Counts(count("xmt")?, count("rcv")?, sums())
        }
        "vSum" => {
            let times = value.at("values")?.elements().iter();
            FpingLine::Times(times.map(|own| own.number().and_then(ns)).collect())
        }
        _ => return None,
    };
    Some((value.text_at("host")?.to_owned(), line, number("timestamp")))
}

/// Recognises `alive`, `alive (0.05 ms)` and `unreachable`.
fn alive(rest: &str) -> Option<FpingLine> {
    let rest = rest.trim();
    match rest.strip_prefix("alive") {
        Some("") => Some(FpingLine::Alive(Some(EchoTime::Unknown))),
        Some(time) => {
            let time = time.trim().strip_prefix('(')?;
            Some(FpingLine::Alive(Some(EchoTime::Exact(ms(time.split(' ').next()?)?))))
        }
        None => (rest == "unreachable").then_some(FpingLine::Alive(None)),
    }
}

fn about(rest: &str) -> Option<FpingLine> {
    if rest.starts_with("duplicate for [") {
        return Some(FpingLine::Duplicate);
    }
    if let Some(rest) = rest.strip_prefix('[') {
        let (number, rest) = rest.split_once("], ")?;
        let time = match rest.split_once(" bytes, ") {
            Some((_, time)) => Some(ms(time.split(' ').next()?)?),
            None => rest.starts_with("timed out").then_some(None)?,
        };
        return Some(FpingLine::Reply(number.parse().ok()?, time));
    }
    if let Some(rest) = rest.strip_prefix("xmt/rcv/%") {
        let (_, counts) = rest.split_once(" = ")?;
        let mut parts = counts.split(['/', '%', ',']).map(|part| part.trim().parse().ok());
        let (sent, received) = (parts.next()??, parts.next()??);
        let sums = counts.split_once("min/avg/max = ").and_then(|(_, sums)| {
            let mut sums = sums.split('/').map(ms);
            Some([sums.next()??, sums.next()??, sums.next()??])
        });
        return Some(FpingLine::Counts(sent, received, sums));
    }
    let time = |word: &str| if word == "-" { Some(None) } else { ms(word).map(Some) };
    let times: Vec<_> = rest.split_whitespace().map(time).collect::<Option<_>>()?;
    (!times.is_empty()).then_some(FpingLine::Times(times))
}

/// Parses milliseconds.
fn ms(text: &str) -> Option<u64> {
    MILLIS.whole(decimal(text.trim())?).ok()
}

/// Runs read so far, each of one host.
#[derive(Default)]
struct FpingLog {
    runs: Vec<RoundTripRun>,
    /// With `-Q`: hosts whose sums of the present interval were there.
    interval: Option<Vec<String>>,
}

impl FpingLog {
    fn line(&mut self, line: &str) {
        if let Some((host, found, at)) = line.starts_with('{').then(|| event(line)).flatten() {
            let basis = stamp::StampBasis::Absolute;
            let stamp = at.map(|seconds| LineStamp { seconds, basis });
            self.take(&host, found, stamp);
            return;
        }
        let (stamp, text) = stamp::split(line);
        if stamp.is_some() && text.is_empty() {
            self.interval = Some(Vec::new());
            return;
        }
        let Some((host, found)) = FpingLine::of(text) else { return };
        self.take(host, found, stamp);
    }

    /// Takes a line about a host.
    fn take(&mut self, host: &str, found: FpingLine, stamp: Option<LineStamp>) {
        if matches!(found, FpingLine::Counts(..)) && self.is_of_interval(host) {
            return;
        }
        let at = stamp.map(|stamp| stamp.seconds);
        let run = self.run(host, &found);
        run.started = run.started.or(stamp);
        match found {
            FpingLine::Reply(number, Some(ns)) => {
                run.answer(Some(number), EchoTime::Exact(ns), at);
            }
            FpingLine::Reply(number, None) => run.unanswered(Some(number)),
            FpingLine::Duplicate => run.duplicates += 1,
            FpingLine::Error => run.error(None),
            FpingLine::Counts(sent, received, sums) => {
                run.counted = Some((sent, received));
                run.sums = sums.or(run.sums);
            }
            FpingLine::Times(times) => take_times(run, &times),
            FpingLine::Alive(Some(time)) => run.answer(None, time, at),
            FpingLine::Alive(None) => run.unanswered(None),
        }
    }

    /// Returns true for the sums of an interval (`-Q`): the first of a host behind the time of the interval.
    fn is_of_interval(&mut self, host: &str) -> bool {
        let Some(hosts) = &mut self.interval else { return false };
        let is_first = !hosts.iter().any(|known| known == host);
        if is_first {
            hosts.push(host.to_owned());
        }
        is_first
    }

    /// Returns the run of a host that a line belongs to: another one than before if that has its counts.
    fn run(&mut self, host: &str, found: &FpingLine) -> &mut RoundTripRun {
        let own = self.runs.iter().rposition(|run| run.target == host);
        let is_over =
            |run: &RoundTripRun| run.counted.is_some() && !matches!(found, FpingLine::Duplicate);
        let at = own.filter(|at| !is_over(&self.runs[*at])).unwrap_or_else(|| {
            self.runs.push(RoundTripRun::to(host));
            self.runs.len() - 1
        });
        &mut self.runs[at]
    }
}

/// Takes all times of a host, which repeat the lines before them if there are any.
fn take_times(run: &mut RoundTripRun, times: &[Option<u64>]) {
    if run.answers.is_empty() {
        for (number, time) in (0..).zip(times) {
            match time {
                Some(ns) => run.answer(Some(number), EchoTime::Exact(*ns), None),
                None => run.unanswered(Some(number)),
            }
        }
    }
    let received = times.iter().flatten().count() as u64;
    run.counted = Some((times.len() as u64, received));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_recognised() {
        use FpingLine::{Alive, Counts, Duplicate, Error, Reply, Times};
        for (line, host, want) in [
            (
                "10.0.0.1 : [0], 64 bytes, 14.2 ms (14.2 avg, 0% loss)",
                "10.0.0.1",
                Reply(0, Some(14_200_000)),
            ),
            ("h        : [7], timed out (NaN avg, 100% loss)", "h", Reply(7, None)),
            ("h : duplicate for [0], 64 bytes, 0.1 ms", "h", Duplicate),
            ("h : xmt/rcv/%loss = 4/3/25%", "h", Counts(4, 3, None)),
            (
                "h : xmt/rcv/%return = 4/3/75%, outage(ms) = 9, min/avg/max = 14.1/14.2/14.5",
                "h",
                Counts(4, 3, Some([14_100_000, 14_200_000, 14_500_000])),
            ),
            ("h : 0.05 - 0.04", "h", Times(vec![Some(50_000), None, Some(40_000)])),
            ("h is alive", "h", Alive(Some(EchoTime::Unknown))),
            ("h is alive (0.05 ms)", "h", Alive(Some(EchoTime::Exact(50_000)))),
            ("h is unreachable", "h", Alive(None)),
            (
                "ICMP Host Unreachable from 10.0.0.9 for ICMP Echo sent to 10.0.0.1",
                "10.0.0.1",
                Error,
            ),
        ] {
            assert_eq!(FpingLine::of(line), Some((host, want)), "{line}");
        }
        for line in ["", " : ", "h : ", "a b : 1", "there is nothing", "h : [x], timed out"] {
            assert_eq!(FpingLine::of(line), None, "{line}");
        }
    }

    #[test]
    fn sums_of_intervals_are_no_runs() {
        let mut log = FpingLog::default();
        for line in [
            "[13:09:01]",
            "a : xmt/rcv/%loss = 1/1/0%, min/avg/max = 1.0/1.0/1.0",
            "[13:09:02]",
            "a : xmt/rcv/%loss = 1/0/100%",
            "a : xmt/rcv/%loss = 2/1/50%, min/avg/max = 1.0/1.0/1.0",
        ] {
            log.line(line);
        }
        assert_eq!(log.runs.len(), 1);
        assert!(log.runs[0].counted.is_some());
    }
}
