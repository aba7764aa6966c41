//! sockperf: the file of `--full-log`, or its printed output, of its throughput mode, too.
//!
//! sockperf calls half of a round trip the latency, unless `--full-rtt` is given. This import uses whole round
//! trips.

use super::echo::ONLY_SUMS;
use super::foreign_file::ForeignFile;
use super::rates::{MESSAGES, SENT, rate, time};
use super::samples::{MessageCounts, MetricNaming, SampleBuffer};
use super::text::MICROS;
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_contract::measurements::{Distribution, Quantile, Role, Unit};
use deadheat_result::imported::{Spread, SpreadOver};
use deadheat_stats::quantile::printable;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "sockperf",
    summary: "sockperf --full-log FILE (CSV), or what sockperf prints",
    signs: &[&["sockperf:"], &[LOG_HEADER]],
    read: Some(read),
    program: "sockperf",
    unit: "us",
    trial: "a run of sockperf",
    unknown: &["messages of the warm-up"],
    ..NONE
};

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut log = SockperfLog::default();
    while let Some(line) = file.next_line()? {
        log.line(&without_colour(line)).map_err(|what| format!("{what}: {line:.80}"))?;
    }
    log.content(context)
}

/// Header of the columns of a full log.
const LOG_HEADER: &str = "packet, txTime(sec), rxTime(sec)";

/// Numbers of the lines read so far, as printed.
#[derive(Default)]
struct SockperfLog {
    program: Option<String>,
    servers: u64,
    sent: Option<f64>,
    received: Option<f64>,
    duplicates: Option<f64>,
    reordered: Option<f64>,
    /// True if its figures are half a round trip.
    is_half: bool,
    in_rows: bool,
    rows: SampleBuffer,
    has_rows: bool,
    observations: Option<f64>,
    /// Mean, least and largest latency, in microseconds.
    mean: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// Percentiles of the summary: percent, microseconds.
    percentiles: Vec<(f64, f64)>,
    first_sent: Option<f64>,
    /// Messages and bits a second, bytes of a message, and seconds, of the throughput mode.
    messages_per_s: Option<f64>,
    bps: Option<f64>,
    size: Option<f64>,
    seconds: Option<f64>,
}

impl SockperfLog {
    /// Takes the numbers that stand behind words in a line with this beginning.
    fn numbers(&mut self, line: &str) {
        for (begin, words, number) in [
            ("", "msg-size=", &mut self.size),
            ("Total of ", " sent in ", &mut self.seconds),
            ("", "Message Rate is ", &mut self.messages_per_s),
            ("[Valid Duration]", "SentMessages=", &mut self.sent),
            ("[Valid Duration]", "ReceivedMessages=", &mut self.received),
            ("# dropped messages", "duplicated messages = ", &mut self.duplicates),
            ("# dropped messages", "out-of-order messages = ", &mut self.reordered),
            ("Total ", "Total ", &mut self.observations),
            ("---> <MAX>", "observation =", &mut self.max),
            ("---> <MIN>", "observation =", &mut self.min),
        ] {
            *number = after(line, words).filter(|_| line.starts_with(begin)).or(*number);
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim().trim_start_matches("sockperf: ");
        if self.in_rows {
            return self.row(line);
        }
        self.numbers(line);
        if let Some(rate) = after(line, "BandWidth is ") {
            // Its MB are of 1024 times 1024 bytes, and its GB of 1000 MB.
            let unit = if line.contains("GBps") { 1_000.0 } else { 1.0 };
            self.bps = Some(rate * unit * 8.0 * 1_048_576.0);
        } else if line.starts_with("packet, ") {
            (self.in_rows, self.is_half) = (true, !line.contains("rtt(usec)"));
        } else if let Some((_, version)) = line.split_once("version #") {
            let end = version.find(|c: char| c.is_whitespace() || c == '=');
            self.program = Some(format!("sockperf {}", &version[..end.unwrap_or(version.len())]));
        } else if line.contains("Printing statistics for Server No") {
            self.servers += 1;
        } else if line.starts_with("====> avg-") {
            self.is_half = !line.contains("avg-rtt");
            self.mean = after(line, if self.is_half { "avg-lat=" } else { "avg-rtt=" });
        } else if line.starts_with("---> percentile") {
            let percent = after(line, "percentile ").ok_or("a percentile without its number")?;
            let value = after(line, "=").ok_or("a percentile without its value")?;
            self.percentiles.push((percent, value));
        }
        Ok(())
    }

    /// Returns the trial of the throughput mode at its sender. The count of the receiver is not known there.
    fn sent_only(&self) -> Option<ImportedTrial> {
        let exact = self.messages_per_s.zip(self.size).map(|(rate, size)| rate * size * 8.0);
        let bps = exact.or(self.bps)?;
        let mut trial = ImportedTrial::complete();
        trial.add(rate(SENT, Role::Claim), bps);
        let messages = self.messages_per_s.into_iter();
        messages.for_each(|count| trial.add(rate(MESSAGES, Role::Descriptive), count));
        trial.record.took_ns = (self.seconds.unwrap_or(0.0) * 1e9) as u64;
        trial.unknown.push("what the receiver had");
        Some(trial)
    }

    fn counts(&self) -> MessageCounts {
        let whole = |count: Option<f64>| count.map(|count| count as u64);
        MessageCounts {
            sent: whole(self.sent).unwrap_or(0),
            received: whole(self.received).unwrap_or(0),
            duplicates: whole(self.duplicates),
            reordered: whole(self.reordered),
        }
    }

    /// Parses `0, 2.406752276, 2.406775550, 11.637`: number, sent, received, latency.
    fn row(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with("---") || line.is_empty() {
            self.in_rows = false;
            return Ok(());
        }
        let wrong = "not a row of number, time sent, time received and latency";
        let mut cells = line.split(',').map(|cell| cell.trim().parse::<f64>());
        let mut next = || cells.next().and_then(Result::ok).ok_or(wrong);
        let [_, sent, _, latency] = [next()?, next()?, next()?, next()?];
        let ns = self.round_trip(latency)?;
        let first = *self.first_sent.get_or_insert(sent);
        self.rows.put(Some(ns), Some(((sent - first).max(0.0) * 1e9) as u64))?;
        self.has_rows = true;
        Ok(())
    }

    /// Converts a figure to a whole round trip in nanoseconds.
    fn round_trip(&self, us: f64) -> Result<u64, String> {
        let trips = if self.is_half { 2.0 } else { 1.0 };
        MICROS.whole(us * trips).map_err(|why| format!("a latency of {us} us: {why}"))
    }

    fn content(mut self, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
        if self.servers > 1 {
            return Err(format!(
                "it has the statistics of {} servers; run sockperf against one at a time",
                self.servers
            ));
        }
        let has_trips = self.has_rows || !self.percentiles.is_empty();
        let mut content = FileContent::default();
        let trial = match self.sent_only().filter(|_| !has_trips) {
            Some(sent) => sent,
            None => self.trips(context, &mut content.doubts)?,
        };
        content.add("", trial);
        content.program = self.program.unwrap_or_default();
        content.arm("").implementation = content.program.clone();
        Ok(content)
    }

    /// Returns the trial of round trips.
    fn trips(
        &mut self,
        context: &mut ReaderContext<'_>,
        doubts: &mut Vec<String>,
    ) -> Result<ImportedTrial, String> {
        let half = "sockperf calls half of a round trip latency; whole round trips stand here.";
        doubts.extend(self.is_half.then(|| half.to_owned()));
        let mut unknown = Vec::from_iter(self.is_half.then_some("how long each way took"));
        let counts = self.counts();
        let mut trial = if self.has_rows {
            let mut rows = std::mem::take(&mut self.rows);
            for _ in counts.received..counts.sent {
                rows.put(None, Some(0))?;
            }
            rows.trial(&MetricNaming::rtt(), context)?
        } else {
            unknown.push(ONLY_SUMS);
            doubts
                .push("Only sockperf's percentiles are there, by a definition of its own.".into());
            self.summed(&counts)?
        };
        trial.unknown = unknown;
        let has_percentile = !trial.record.metrics.is_empty();
        counts.enter(&mut trial);
        if let Some(mean) = self.mean.filter(|_| !has_percentile && counts.received > 0) {
            doubts.push(format!(
                "{} too few for a percentile, which takes 20: the mean is compared.",
                match counts.received {
                    1 => "1 message is".to_owned(),
                    several => format!("{several} messages are"),
                }
            ));
            trial.add(time("rtt_mean", "RTT mean", Role::Claim), self.round_trip(mean)? as f64);
        }
        Ok(trial)
    }

    /// Returns a trial made from the summary.
    fn summed(&self, counts: &MessageCounts) -> Result<ImportedTrial, String> {
        if self.percentiles.is_empty() {
            return Err(
                "there are neither rows of a full log, nor percentiles, nor a message rate in \
                        it; sockperf prints them at its end"
                    .into(),
            );
        }
        let n = self.observations.unwrap_or(0.0) as u64;
        let at = |percent: f64| -> Result<Option<u64>, String> {
            let found = self.percentiles.iter().find(|(named, _)| (named - percent).abs() < 1e-6);
            let found = found.filter(|_| printable(n, percent / 100.0));
            found.map(|(_, us)| self.round_trip(*us)).transpose()
        };
        let ns = |us: Option<f64>| us.map(|us| self.round_trip(us)).transpose();
        let quantile = |percent| at(percent).map(|found| found.map(Quantile::Ns));
        let seen = Distribution {
            n,
            min: ns(self.min)?,
            max: ns(self.max)?,
            p50: quantile(50.0)?,
            p90: quantile(90.0)?,
            p99: quantile(99.0)?,
            p999: quantile(99.9)?,
            ..Distribution::default()
        };
        let whole = |found: Option<u64>| found.map(|ns| ns as f64);
        let five = Spread {
            contender: 0,
            what: "RTT".into(),
            unit: Unit::Nanos,
            over: SpreadOver::Samples,
            n,
            lost: counts.sent.saturating_sub(counts.received),
            min: whole(seen.min).unwrap_or(0.0),
            q1: whole(at(25.0)?),
            median: whole(at(50.0)?),
            q3: whole(at(75.0)?),
            max: whole(seen.max).unwrap_or(0.0),
        };
        let mut trial = ImportedTrial { spreads: vec![five], ..ImportedTrial::complete() };
        MetricNaming::rtt().enter_distribution(&seen, Role::Claim, &mut trial);
        trial.record.rtt_ns = Some(seen);
        Ok(trial)
    }
}

/// Returns a line without escape sequences for colour (ECMA-48 §8.3.117).
fn without_colour(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut parts = line.split('\u{1b}');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    out
}

/// Returns the number after a word.
fn after(line: &str, word: &str) -> Option<f64> {
    let rest = line.split_once(word)?.1.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throughput_mode_tells_what_was_sent() {
        let mut log = SockperfLog::default();
        for line in [
            "sockperf: Total of 2119468 messages sent in 1.100 sec",
            "sockperf: NOTE: test was performed, using msg-size=14. For getting maximum throughput",
            "sockperf: Summary: Message Rate is 1926789 [msg/sec]",
            "sockperf: Summary: BandWidth is 25.725 MBps (205.800 Mbps)",
        ] {
            log.line(line).unwrap();
        }
        let trial = log.sent_only().unwrap();
        assert_eq!(trial.record.metrics[SENT], 1_926_789.0 * 14.0 * 8.0);
        assert_eq!(trial.record.metrics[MESSAGES], 1_926_789.0);
        log.size = None;
        let trial = log.sent_only().unwrap();
        assert_eq!(trial.record.metrics[SENT], (25.725_f64 * 8.0 * 1_048_576.0).round());
        assert_eq!(trial.record.took_ns, 1_100_000_000);
    }
}
