//! ping: output of the ICMP pings of iputils, the BSDs, macOS and BusyBox, in any language, and with a
//! comma as decimal point.

use std::time::{Duration, UNIX_EPOCH};

use super::foreign::ForeignFile;
use super::gather::{EchoCounts, MetricNaming, SampleBuffer, blank, loss_metric};
use super::unit::Scale;
use super::{Arm, FileContent, FiveNumberSummary, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Better, ClockNeed, Metric, Role, Unit};
use crate::result::imported::SpreadOver;

/// Maximum gap between sequence numbers that is filled with lost samples.
const LONGEST_GAP: u64 = 1 << 20;

/// The format.
pub(super) struct Ping;

impl FormatReader for Ping {
    fn id(&self) -> &'static str {
        "ping"
    }

    fn summary(&self) -> &'static str {
        "what ping prints: iputils, BSD, macOS, BusyBox; with -D, -f or -q, too"
    }

    fn sniff(&self, head: &str) -> bool {
        head.lines().take(64).any(|line| {
            line.starts_with("PING ") || line.starts_with("PING6") || PingReply::of(line).is_some()
        }) || head.contains("ping statistics ---")
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut seen = PingTotals::default();
        while let Some(line) = file.next_line()? {
            seen.line(line).map_err(|what| format!("{what}: {line:.80}"))?;
        }
        seen.reading(means)
    }
}

/// Line of output that reports a reply.
struct PingReply {
    seq: u64,
    ns: u64,
    is_duplicate: bool,
    at_s: Option<f64>,
}

impl PingReply {
    /// Parses `64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=0.045 ms`, preceded by `[1795197783.752285] ` under
    /// -D, with `seq=` in BusyBox, and with other words in other languages.
    fn of(line: &str) -> Option<PingReply> {
        let (at_s, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((at, rest)) => (at.parse().ok(), rest),
            None => (None, line),
        };
        let digits = |text: &str| -> Option<u64> {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            text[..end].parse().ok()
        };
        let (_, behind) = line.split_once("seq=")?;
        let seq = digits(behind)?;
        // In any language, the time is the last number after `=` or `<`, with its unit.
        let sign = behind.rfind(['=', '<'])?;
        let mut words = behind[sign + 1..].split_whitespace();
        let value: f64 = words.next()?.replace(',', ".").parse().ok()?;
        let scale = Scale::named(words.next()?).filter(|scale| scale.unit == Unit::Nanos)?;
        let ns = scale.whole(value).ok()?;
        Some(PingReply { seq, ns, is_duplicate: line.contains("DUP!"), at_s })
    }
}

/// Totals of the lines read so far.
#[derive(Default)]
struct PingTotals {
    /// Replies: unwrapped sequence number, round trip, and time of arrival in seconds.
    replies: Vec<(u64, u64, Option<f64>)>,
    highest: u64,
    duplicates: u64,
    reordered: u64,
    errors: u64,
    fate: Option<EchoCounts>,
    /// Minimum, mean and maximum, in nanoseconds.
    summary: Option<[u64; 3]>,
    runs: u64,
}

impl PingTotals {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(reply) = PingReply::of(line) {
            self.reply(&reply);
        } else if line.starts_with("PING ") || line.starts_with("PING6") {
            self.runs += 1;
        } else if line.contains("packets transmitted") || is_transmitted(line) {
            let numbers = whole_numbers(line);
            let [sent, received] = numbers[..].first_chunk::<2>().ok_or("a count is missing")?;
            self.fate =
                Some(EchoCounts { sent: *sent, received: *received, ..EchoCounts::default() });
        } else if line.contains("min/avg/max") {
            self.summary = Some(summary(line).ok_or("not three times and a unit")?);
        } else if line.contains("icmp_seq") {
            self.errors += 1;
        }
        Ok(())
    }

    fn reply(&mut self, reply: &PingReply) {
        if reply.is_duplicate {
            self.duplicates += 1;
            return;
        }
        // The number has 16 bits: one far below the highest so far has wrapped around.
        let turn = self.highest & !0xffff;
        let near = [turn.checked_sub(0x1_0000), Some(turn), Some(turn + 0x1_0000)];
        let candidates = near.into_iter().flatten().map(|turn| turn + (reply.seq & 0xffff));
        let seq = candidates.min_by_key(|seq| seq.abs_diff(self.highest)).unwrap_or(reply.seq);
        let seq = if self.replies.is_empty() || reply.seq > 0xffff { reply.seq } else { seq };
        self.reordered += u64::from(seq < self.highest);
        self.highest = self.highest.max(seq);
        self.replies.push((seq, reply.ns, reply.at_s));
    }

    fn reading(mut self, means: &mut ReaderContext<'_>) -> Result<FileContent, String> {
        if self.runs > 1 {
            return Err(format!("{} runs of ping in one file; give one each", self.runs));
        }
        if self.replies.is_empty() && self.summary.is_none() && self.fate.is_none() {
            return Err("there is neither an answer nor a summary of ping in it".into());
        }
        let mut unknown = vec![
            "Round trips count from when a request was sent; ping keeps no schedule that a late one \
             could be held against."
                .to_owned(),
        ];
        if self.errors > 0 {
            unknown.push(format!("{} errors came back instead of answers.", self.errors));
        }
        let naming = MetricNaming::rtt();
        let (mut trial, mut metrics) = if self.replies.is_empty() {
            self.summed(&mut unknown)
        } else {
            (self.sampled(&naming, means, &mut unknown)?, naming.metrics(Role::Claim))
        };
        if let Some(fate) = &self.fate {
            let (duplicates, reordered) = (self.duplicates, self.reordered);
            EchoCounts { duplicates, reordered, ..*fate }.enter(&mut trial);
        }
        metrics.push(loss_metric());
        let began = self.replies.iter().find_map(|(.., at)| *at);
        Ok(FileContent {
            began: began
                .and_then(|at| UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(at).ok()?)),
            program: Some("ping".into()),
            unit: "ms".into(),
            trial: "a run of ping".into(),
            arms: vec![Arm { metrics, trials: vec![trial], ..Arm::default() }],
            unknown,
            ..FileContent::default()
        })
    }

    fn sampled(
        &mut self,
        naming: &MetricNaming,
        means: &mut ReaderContext<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<ImportedTrial, String> {
        self.replies.sort_by_key(|(seq, ..)| *seq);
        let first_at = self.replies.iter().find_map(|(.., at)| *at);
        let mut values = SampleBuffer::default();
        let mut missing = 0;
        let mut expected = self.replies.first().map_or(0, |(seq, ..)| *seq);
        for (seq, ns, at) in &self.replies {
            let gap = seq.saturating_sub(expected);
            if gap > LONGEST_GAP {
                return Err(format!("the sequence numbers jump from {expected} to {seq}"));
            }
            for _ in 0..gap {
                values.lost_at(0)?;
            }
            missing += gap;
            expected = seq + 1;
            let at_ns = at.zip(first_at).map_or(0.0, |(at, first)| (at - first).max(0.0) * 1e9);
            values.push_at(*ns, at_ns as u64)?;
        }
        let received = self.replies.len() as u64;
        let fate = self.fate.get_or_insert_with(|| {
            unknown.push(
                "It has no summary at its end: losses after the last answer are not in it.".into(),
            );
            EchoCounts { sent: received + missing, received, ..EchoCounts::default() }
        });
        for _ in (received + missing)..fate.sent {
            values.lost_at(0)?;
        }
        values.trial(naming, means)
    }

    /// Returns a trial made from the summary.
    fn summed(&self, unknown: &mut Vec<String>) -> (ImportedTrial, Vec<Metric>) {
        unknown.push(
            "Only ping's summary is there: no distribution, no percentiles, nothing over time. A mean \
             leaves lost ones out and follows outliers."
                .into(),
        );
        let metric = Metric {
            name: "rtt_mean_ns".into(),
            label: "RTT mean".into(),
            unit: Unit::Nanos,
            better: Better::Lower,
            role: Role::Claim,
            clock: ClockNeed::None,
        };
        let mut record = blank();
        let mut spreads = Vec::new();
        if let Some([min, mean, max]) = self.summary {
            record.metrics.insert(metric.name.clone(), mean as f64);
            let fate = self.fate.unwrap_or_default();
            spreads.push(FiveNumberSummary {
                what: "RTT".into(),
                unit: Unit::Nanos,
                over: SpreadOver::Samples,
                n: fate.received,
                lost: fate.sent.saturating_sub(fate.received),
                min: min as f64,
                q1: None,
                median: None,
                q3: None,
                max: max as f64,
            });
        }
        (ImportedTrial { record, spreads, ..ImportedTrial::default() }, vec![metric])
    }
}

/// Returns true for `30 packets transmitted, 30 received, 0% packet loss, time 465ms`, in any language: two counts
/// and a share.
fn is_transmitted(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit())
        && line.contains('%')
        && line.matches(',').count() >= 2
}

fn whole_numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// Parses `rtt min/avg/max/mdev = 0.026/0.034/0.054/0.006 ms, ipg/ewma …` or, with BSD, `round-trip …`.
fn summary(line: &str) -> Option<[u64; 3]> {
    let (_, behind) = line.split_once('=')?;
    let (numbers, unit) = behind.trim().split_once(' ')?;
    let unit = unit.split(|c: char| !c.is_alphabetic() && c != 'µ').next()?;
    let scale = Scale::named(unit)?;
    let read = |text: &str| scale.whole(text.replace(',', ".").parse().ok()?).ok();
    let mut numbers = numbers.split('/').map(read);
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_in_any_dialect() {
        for (line, seq, ns) in [
            ("64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.028 ms", 1, 28_000),
            ("[1795197783.752285] 64 bytes from ::1: icmp_seq=2 ttl=64 time=12 ms", 2, 12_000_000),
            ("64 bytes from 127.0.0.1: seq=0 ttl=64 time=0.043 ms", 0, 43_000),
            ("64 Bytes von 10.0.0.1: icmp_seq=7 ttl=64 Zeit=0,5 ms", 7, 500_000),
            ("64 bytes from 10.0.0.1: icmp_seq=9 ttl=64 time<1 ms", 9, 1_000_000),
        ] {
            let reply = PingReply::of(line).unwrap();
            assert_eq!((reply.seq, reply.ns, reply.is_duplicate), (seq, ns, false), "{line}");
        }
        assert!(
            PingReply::of("64 bytes from h: icmp_seq=1 ttl=64 time=1 ms (DUP!)")
                .unwrap()
                .is_duplicate
        );
        for line in ["From 10.0.0.1 icmp_seq=1 Destination Host Unreachable", "", "seq=="] {
            assert!(PingReply::of(line).is_none(), "{line}");
        }
    }

    #[test]
    fn sequence_numbers_turn_over() {
        let mut seen = PingTotals::default();
        for seq in [65_534, 65_535, 0, 2, 1] {
            seen.reply(&PingReply { seq, ns: 1, is_duplicate: false, at_s: None });
        }
        let seqs: Vec<u64> = seen.replies.iter().map(|(seq, ..)| *seq).collect();
        assert_eq!(seqs, [65_534, 65_535, 65_536, 65_538, 65_537]);
        assert_eq!(seen.reordered, 1);
    }

    #[test]
    fn summaries_are_read_in_both_dialects() {
        let gnu = "rtt min/avg/max/mdev = 0.003/0.004/0.039/0.002 ms, ipg/ewma 0.011/0.005 ms";
        assert_eq!(summary(gnu), Some([3_000, 4_000, 39_000]));
        let bsd = "round-trip min/avg/max/stddev = 14.1/15.0/16.2/0.8 ms";
        assert_eq!(summary(bsd), Some([14_100_000, 15_000_000, 16_200_000]));
        assert_eq!(summary("rtt min/avg/max/mdev = x/y/z ms"), None);
    }
}
