//! Pings of routers: RouterOS prints a table, and Cisco's IOS a mark for each answer and sums. (Nokia's SR OS and Juniper's
//! Junos print what `ping` reads.)

use super::echo::{EchoTime, RoundTripRun, TargetArms};
use super::foreign::ForeignFile;
use super::text::{MILLIS, duration, whole_numbers};
use super::{FileContent, FormatReader, ReaderContext};

/// The format.
pub(super) struct Routers;

/// Titles of RouterOS' table.
const TITLES: [&str; 5] = ["SEQ", "HOST", "SIZE", "TTL", "TIME"];

/// First words of IOS.
const SENDING: &str = "Sending ";

/// Sums of IOS.
const SUCCESS: &str = "Success rate is ";

impl FormatReader for Routers {
    fn id(&self) -> &'static str {
        "routers"
    }

    fn summary(&self) -> &'static str {
        "pings of RouterOS and of Cisco's IOS; each run is a trial"
    }

    fn sniff(&self, head: &str) -> bool {
        head.lines().any(is_heading) || head.contains(SENDING) && head.contains(SUCCESS)
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut runs: Vec<RoundTripRun> = Vec::new();
        while let Some(line) = file.next_line()? {
            take(line.trim(), &mut runs);
        }
        runs.retain(|run| !run.is_empty());
        if runs.is_empty() {
            return Err("there is neither an answer nor a sum in it".into());
        }
        let mut arms = TargetArms::default();
        for run in runs {
            arms.add(run, None, means)?;
        }
        Ok(FileContent {
            program: Some("ping of a router".into()),
            unit: "ms".into(),
            trial: "a run of ping".into(),
            unknown: std::mem::take(&mut arms.unknown),
            arms: arms.into_arms(),
            ..FileContent::default()
        })
    }
}

fn is_heading(line: &str) -> bool {
    line.split_whitespace().take(TITLES.len()).eq(TITLES)
}

/// Takes a line of either router.
fn take(line: &str, runs: &mut Vec<RoundTripRun>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    if line.starts_with(SENDING) && line.contains(" to ") {
        let target = line.rsplit(" to ").next().unwrap_or_default();
        let target = target.split([',', ' ']).next().unwrap_or_default();
        runs.push(RoundTripRun::to(target));
    } else if let (Some(sums), Some(run)) = (line.strip_prefix(SUCCESS), runs.last_mut()) {
        // `80 percent (4/5), round-trip min/avg/max = 1/2/4 ms`
        let numbers = whole_numbers(sums);
        if let [_, received, sent, ref times @ ..] = numbers[..] {
            run.counted(sent, received);
            if let [min, mean, max] = *times {
                run.summed([min, mean, max].map(|ms| (ms as f64 * MILLIS.factor) as u64));
            }
        }
    } else if line.starts_with("sent=") {
        let number = |key: &str| {
            let value = words.iter().find_map(|word| word.strip_prefix(key));
            value.and_then(|value| value.parse().ok())
        };
        if let (Some((sent, received)), Some(run)) =
            (number("sent=").zip(number("received=")), runs.last_mut())
        {
            run.counted(sent, received);
        }
    } else if let [number, host, rest @ ..] = &words[..]
        && let Ok(number) = number.parse::<u64>()
    {
        row(number, host, rest, runs);
    }
}

/// Takes a row of RouterOS: `0 10.0.0.1 56 117 12ms238us`, `1 10.0.0.1 timeout`, or with an error behind. Each run counts from 0.
fn row(number: u64, host: &str, rest: &[&str], runs: &mut Vec<RoundTripRun>) {
    if number == 0 || runs.is_empty() {
        runs.push(RoundTripRun::to(host));
    }
    let Some(run) = runs.last_mut() else { return };
    match rest {
        [_, _, time] if duration(time).is_some() => {
            let ns = duration(time).unwrap_or(0.0);
            run.answer(Some(number), EchoTime::Exact(ns as u64), None);
        }
        [.., "timeout"] => run.unanswered(Some(number)),
        [_, ..] => run.error(Some(number)),
        [] => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::foreign::ForeignFile;
    use crate::import::{NumberMeaning, RowColumns};

    /// Requests, answers, and the mean in microseconds of each trial.
    fn read(text: &str) -> Vec<(u64, u64, f64)> {
        assert!(Routers.sniff(text), "{text}");
        let mut means = ReaderContext {
            scale: None,
            each: NumberMeaning::Sample,
            columns: RowColumns::default(),
            keep: None,
        };
        let read = Routers.read(&mut ForeignFile::of_text("x", text), &mut means).unwrap();
        let trials = read.arms.iter().flat_map(|arm| &arm.trials);
        trials
            .map(|trial| {
                let account = trial.record.ledger.round_trip.as_ref().unwrap();
                let mean = trial.record.metrics.get("rtt_mean_ns").map_or(0.0, |ns| ns / 1e3);
                (account.sent, account.delivered, mean)
            })
            .collect()
    }

    #[test]
    fn routeros_counts_from_0_and_repeats_its_sums() {
        let run = "  SEQ HOST                                     SIZE TTL TIME       STATUS\n\
                   \x20   0 192.0.2.1                                  56 117 12ms238us\n\
                   \x20   1 192.0.2.1                                  56 117 11ms\n\
                   \x20   2 192.0.2.1                                                    timeout\n\
                   \x20   3 192.0.2.9                                  84  64 2ms        host unreachable\n\
                   \x20   sent=4 received=2 packet-loss=50% min-rtt=11ms avg-rtt=11ms619us max-rtt=12ms238us\n";
        assert_eq!(read(&run.repeat(2)), [(4, 2, 11_619.0); 2]);
    }

    #[test]
    fn ios_prints_sums() {
        let run = "Type escape sequence to abort.\nSending 5, 100-byte ICMP Echos to 192.0.2.1, timeout is 2 seconds:\n\
                   !!.!!\nSuccess rate is 80 percent (4/5), round-trip min/avg/max = 1/2/4 ms\n";
        assert_eq!(read(&run.repeat(2)), [(5, 4, 2_000.0); 2]);
        let none = "Sending 5, 100-byte ICMP Echos to 192.0.2.1, timeout is 2 seconds:\n.....\n\
                    Success rate is 0 percent (0/5)\n";
        assert_eq!(read(none), [(5, 0, 0.0)]);
    }
}
