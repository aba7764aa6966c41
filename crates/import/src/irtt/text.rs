//! Text that `irtt client` prints without `-o`: a line for each answer, and the sums behind them; with `-q` the sums alone.
//! Several runs in one file are trials.

use super::{
    IrttDelay, IrttFile, IrttLost, IrttRoundTrip, IrttStats, IrttVersion, ONLY_SUMS, means_only,
};
use crate::import::echo::EchoSums;
use crate::import::foreign::ForeignFile;
use crate::import::gather::{MessageCounts, loss_metric};
use crate::import::rates::push;
use crate::import::text::pairs;
use crate::import::{Arm, FileContent, ImportedTrial, ReaderContext};
use crate::measurements::{Ledger, Metric};

/// Line with which a run begins.
const BEGIN: &str = "[Connecting] ";

/// Returns true for the beginning of a text of irtt's client.
pub(super) fn is_text(head: &str) -> bool {
    let is_answer = |line: &str| line.starts_with("seq=") && line.contains(" rtt=");
    head.lines().take(50).any(|line| line.starts_with(BEGIN) || is_answer(line))
}

/// Reads the runs of a text.
pub(super) fn read(
    file: &mut ForeignFile,
    means: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let mut runs: Vec<TextRun> = Vec::new();
    while let Some(line) = file.next_line()? {
        let is_over = runs.last().is_none_or(|run| run.has_counts && line.starts_with("seq="));
        if line.starts_with(BEGIN) || is_over {
            runs.push(TextRun::default());
        }
        if let Some(run) = runs.last_mut() {
            run.line(line);
        }
    }
    runs.retain(|run| !run.answers.is_empty() || run.has_counts);
    if runs.is_empty() {
        return Err("there is no answer and no sum of irtt's client in it".into());
    }
    let mut arm = Arm { implementation: "irtt".into(), ..Arm::default() };
    let mut unknown = vec![super::DUE.to_owned(), "when requests were sent".to_owned()];
    for run in runs {
        if run.answers.is_empty() {
            unknown.push(ONLY_SUMS.to_owned());
        }
        let (trial, metrics) = run.trial(means)?;
        push(&mut arm, trial, metrics);
    }
    unknown.dedup();
    Ok(FileContent {
        unit: "ms".into(),
        trial: "a run of irtt".into(),
        arms: vec![arm],
        program: Some("irtt".into()),
        unknown,
        ..FileContent::default()
    })
}

/// One run.
#[derive(Default)]
struct TextRun {
    /// Answers: number of the request, round trip, delays there and back.
    answers: Vec<(u64, IrttDelay)>,
    sent: u64,
    received: u64,
    has_counts: bool,
    stats: IrttStats,
    sums: Option<EchoSums>,
}

impl TextRun {
    fn line(&mut self, line: &str) {
        if line.starts_with("seq=") {
            self.answers.extend(answer(line));
            return;
        }
        let line = line.trim();
        if let Some(sums) = line.strip_prefix("RTT ") {
            // Least, mean, median, greatest.
            let times: Vec<u64> = sums.split_whitespace().filter_map(nanos).collect();
            if let [min, mean, _, max, ..] = times[..] {
                self.sums = Some([min, mean, max]);
            }
        } else if let Some(counts) = line.strip_prefix("packets sent/received: ") {
            if let Some((sent, received)) = fraction(counts) {
                (self.sent, self.received, self.has_counts) = (sent, received, true);
            }
        } else if let Some(counts) = line.strip_prefix("server packets received: ") {
            self.stats.server_packets_received = fraction(counts).map_or(0, |(there, _)| there);
        } else if let Some(count) = line.strip_prefix("duplicates: ") {
            self.stats.duplicates = first_number(count);
        } else if let Some(count) = line.strip_prefix("late (out-of-order) pkts: ") {
            self.stats.late_packets = first_number(count);
        }
    }

    fn trial(self, means: &mut ReaderContext<'_>) -> Result<(ImportedTrial, Vec<Metric>), String> {
        let (is_whole, has_answers) = (self.has_counts, !self.answers.is_empty());
        let (mut trial, metrics) = match has_answers {
            true => self.of_answers()?.trial(means)?,
            false => self.of_sums(),
        };
        if !is_whole {
            let why = "it has no sums: irtt's client did not end";
            trial = ImportedTrial {
                doubts: trial.doubts,
                ..ImportedTrial::unfinished(trial.record, why)
            };
        }
        Ok((trial, metrics))
    }

    /// Returns the run in the form of irtt's JSON: requests without a line are lost.
    fn of_answers(self) -> Result<IrttFile, String> {
        let highest = self.answers.iter().map(|(number, _)| *number).max().unwrap_or(0);
        let sent = self.sent.max(highest.saturating_add(1));
        if sent > 10_000_000 {
            return Err(format!("request {highest} is too many for a text"));
        }
        let lost = |_| IrttRoundTrip { lost: IrttLost::Truth(true), ..IrttRoundTrip::default() };
        let mut round_trips: Vec<IrttRoundTrip> = (0..sent).map(lost).collect();
        for (number, delay) in self.answers {
            if let Some(place) = round_trips.get_mut(number as usize) {
                // A second answer is a duplicate.
                if matches!(place.lost, IrttLost::Truth(true)) {
                    *place = IrttRoundTrip { delay, ..IrttRoundTrip::default() };
                }
            }
        }
        let version = IrttVersion { irtt: String::new(), json_format: 0 };
        let (send_err, receive_err) = (None, None);
        Ok(IrttFile {
            version,
            stats: self.stats,
            round_trips,
            send_err,
            receive_err,
            is_timed: false,
        })
    }

    fn of_sums(self) -> (ImportedTrial, Vec<Metric>) {
        let TextRun { sent, received, stats, sums, .. } = self;
        let counts = MessageCounts {
            sent,
            received,
            duplicates: Some(stats.duplicates),
            reordered: Some(stats.late_packets),
        };
        let (mut trial, mut metrics) = means_only(&counts, sums.filter(|_| received > 0));
        counts.enter(&mut trial);
        metrics.push(loss_metric());
        let there = stats.server_packets_received;
        if (received..=sent).contains(&there) && there > 0 && stats.duplicates == 0 {
            let way = |sent: u64, received: u64| {
                Some(MessageCounts { sent, received, ..MessageCounts::default() }.account())
            };
            let round_trip = trial.record.ledger.round_trip.take();
            trial.record.ledger =
                Ledger { up: way(sent, there), down: way(there, received), round_trip };
        }
        (trial, metrics)
    }
}

/// Parses `seq=7 rtt=20.21ms rd=10.14ms sd=10.07ms ipdv=14.1µs`.
fn answer(line: &str) -> Option<(u64, IrttDelay)> {
    let of = |key: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(key))?;
        i64::try_from(nanos(word)?).ok()
    };
    let number = pairs(line).first().filter(|pair| pair.is("seq"))?.whole()?;
    Some((number, IrttDelay { rtt: Some(of("rtt=")?), send: of("sd="), receive: of("rd=") }))
}

/// Parses the two numbers of `100/93 (7.00% loss)`.
fn fraction(text: &str) -> Option<(u64, u64)> {
    let (a, rest) = text.trim().split_once('/')?;
    let b = rest.split(' ').next()?;
    Some((a.trim().parse().ok()?, b.parse().ok()?))
}

fn first_number(text: &str) -> u64 {
    text.split([' ', '/']).next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Parses a duration as Go writes it: `1m2.5s`, `20.24ms`, `48.3µs`, `770ns`; `None` for `n/a` and negative ones.
fn nanos(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3_600e9,
            _ => return None,
        };
        rest = &rest[end..];
        total += number * factor;
    }
    (total < 1e18).then_some(total.round() as u64).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_nanoseconds() {
        for (text, ns) in [
            ("770ns", Some(770)),
            ("48.3µs", Some(48_300)),
            ("20.24ms", Some(20_240_000)),
            ("1.17s", Some(1_170_000_000)),
            ("1m2.5s", Some(62_500_000_000)),
            ("n/a", None),
            ("-3ms", None),
            ("", None),
            ("7", None),
        ] {
            assert_eq!(nanos(text), ns, "{text}");
        }
    }

    #[test]
    fn lines_are_recognised() {
        let (number, delay) = answer("seq=5 rtt=20.23ms rd=10.14ms sd=10.09ms ipdv=n/a").unwrap();
        assert_eq!((number, delay.rtt), (5, Some(20_230_000)));
        assert_eq!((delay.receive, delay.send), (Some(10_140_000), Some(10_090_000)));
        // A server without times.
        let (_, delay) = answer("seq=6 rtt=20.23ms ipdv=3µs").unwrap();
        assert_eq!((delay.receive, delay.send), (None, None));
        assert_eq!(fraction("100/93 (7.00% loss)"), Some((100, 93)));
        assert!(is_text("[Connecting] connecting to far\n") && !is_text("PING far"));
    }
}
