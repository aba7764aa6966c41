//! Text that `irtt client` prints without `-o`: a line for each answer, and the sums behind them; with `-q` the sums alone.
//! Several runs in one file are trials.

use super::{
    FileContent, ForeignFile, ImportedTrial, IrttDelay, IrttFile, IrttRoundTrip, IrttStats,
    LostWay, ReaderContext, account_by_way,
};
use crate::echo::{EchoSums, ONLY_SUMS, sums_only};
use crate::text::{duration, pairs};

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
    context: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let mut runs: Vec<TextRun> = Vec::new();
    file.each_line(|line| {
        let is_over = runs.last().is_none_or(|run| run.has_counts && line.starts_with("seq="));
        if line.starts_with(BEGIN) || is_over {
            runs.push(TextRun::default());
        }
        runs.last_mut().into_iter().for_each(|run| run.line(line));
    })?;
    runs.retain(|run| !run.answers.is_empty() || run.has_counts);
    if runs.is_empty() {
        return Err("there is no answer and no sum of irtt's client in it".into());
    }
    let mut content = FileContent { unit: "ms".into(), ..FileContent::default() };
    content.lacks("when requests were sent");
    for run in runs {
        content.add("", run.trial(context)?);
    }
    Ok(content)
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

    fn trial(self, context: &mut ReaderContext<'_>) -> Result<ImportedTrial, String> {
        let is_whole = self.has_counts;
        let trial = if self.answers.is_empty() {
            self.of_sums()
        } else {
            self.of_answers()?.trial(context)?
        };
        let why = "it has no sums: irtt's client did not end";
        Ok(if is_whole { trial } else { trial.unfinished(why) })
    }

    /// Returns the run in the form of irtt's JSON: requests without a line are lost.
    fn of_answers(self) -> Result<IrttFile, String> {
        let highest = self.answers.iter().map(|(number, _)| *number).max().unwrap_or(0);
        let sent = self.sent.max(highest.saturating_add(1));
        if sent > 10_000_000 {
            return Err(format!("request {highest} is too many for a text"));
        }
        let lost = |_| IrttRoundTrip { lost: LostWay::Unknown, ..IrttRoundTrip::default() };
        let mut round_trips: Vec<IrttRoundTrip> = (0..sent).map(lost).collect();
        for (number, delay) in self.answers {
            if let Some(place) = round_trips.get_mut(number as usize) {
                // A second answer is a duplicate.
                if place.lost == LostWay::Unknown {
                    *place = IrttRoundTrip { delay, ..IrttRoundTrip::default() };
                }
            }
        }
        Ok(IrttFile { stats: self.stats, round_trips, is_timed: false, ..IrttFile::default() })
    }

    fn of_sums(self) -> ImportedTrial {
        let TextRun { sent, received, stats, sums, .. } = self;
        let counts = stats.counts(sent, received);
        let mut trial = sums_only(&counts, sums.filter(|_| received > 0));
        trial.unknown.push(ONLY_SUMS);
        counts.enter(&mut trial);
        if let Some(there) = stats.there(sent, received) {
            account_by_way(&mut trial, sent, there, received);
        }
        trial
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
    duration(text).filter(|ns| *ns < 1e18).map(|ns| ns.round() as u64)
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
