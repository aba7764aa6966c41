//! Pings of routers: RouterOS prints a table, and Cisco's IOS a mark for each answer and sums. (Nokia's SR OS and Juniper's
//! Junos print what `ping` reads.)

use super::echo::{self, EchoTime, RoundTripRun};
use super::foreign_file::ForeignFile;
use super::text::{MILLIS, duration, whole_numbers};
use super::{FileContent, Format, NONE, ReaderContext};

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "routers",
    summary: "pings of RouterOS and of Cisco's IOS; each run is a trial",
    signs: &[&[SENDING, SUCCESS]],
    sniff: |head| head.lines().any(|line| line.split_whitespace().take(TITLES.len()).eq(TITLES)),
    read: Some(read),
    program: "ping of a router",
    unit: "ms",
    trial: "a run of ping",
    nothing: "there is neither an answer nor a sum in it",
    ..NONE
};

/// Titles of RouterOS' table.
const TITLES: [&str; 5] = ["SEQ", "HOST", "SIZE", "TTL", "TIME"];

/// First words of IOS.
const SENDING: &str = "Sending ";

/// Sums of IOS.
const SUCCESS: &str = "Success rate is ";

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut runs: Vec<RoundTripRun> = Vec::new();
    file.each_line(|line| take(line.trim(), &mut runs))?;
    runs.retain(|run| !run.is_empty());
    echo::content(runs.into_iter().map(|run| (run, None)), context)
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
            run.counted = Some((sent, received));
            if let [min, mean, max] = *times {
                run.sums = Some([min, mean, max].map(|ms| (ms as f64 * MILLIS.factor) as u64));
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
            run.counted = Some((sent, received));
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

    /// Requests, answers, and the mean in microseconds of each trial.
    fn read(text: &str) -> Vec<(u64, u64, f64)> {
        assert!(FORMAT.is_of(text), "{text}");
        let read = FORMAT.content(text).unwrap();
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
