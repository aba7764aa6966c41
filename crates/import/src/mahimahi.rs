//! mahimahi: the log of a link (`mm-link --uplink-log`, `--downlink-log`), with arrivals at its queue, departures, and drops.

use super::foreign::ForeignFile;
use super::gather::{MetricNaming, SampleBuffer};
use super::rates::{GOODPUT, TrialFigures, push, rate};
use super::text::MILLIS;
use super::{Arm, FileContent, FormatReader, ReaderContext};
use crate::measurements::{Metric, Role};

/// The format.
pub(super) struct Mahimahi;

/// First words of a log.
const FIRST: &str = "# mahimahi mm-link";

impl FormatReader for Mahimahi {
    fn id(&self) -> &'static str {
        "mahimahi"
    }

    fn summary(&self) -> &'static str {
        "logs of mm-link (--uplink-log, --downlink-log): what went through the link, and how long it waited"
    }

    fn sniff(&self, head: &str) -> bool {
        head.lines().any(|line| line.starts_with(FIRST) || line.starts_with("# base timestamp: "))
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut arm = Arm { implementation: "mahimahi".into(), ..Arm::default() };
        let mut log = LinkLog::default();
        while let Some(line) = file.next_line()? {
            if line.starts_with(FIRST) {
                std::mem::take(&mut log).end(&mut arm, means)?;
            }
            log.line(line)?;
        }
        log.end(&mut arm, means)?;
        if arm.trials.is_empty() {
            return Err("no packet left the link".into());
        }
        Ok(FileContent {
            program: Some("mahimahi".into()),
            unit: "ms".into(),
            trial: "a log of a link".into(),
            arms: vec![arm],
            unknown: vec!["goodput".into()],
            doubts: vec![
                "Its throughput is of packets with their headers, and of what was sent again."
                    .to_owned(),
            ],
            ..FileContent::default()
        })
    }
}

/// Log of a link.
#[derive(Default)]
struct LinkLog {
    /// First and last time, in milliseconds.
    span: Option<(u64, u64)>,
    bytes: u64,
    departed: u64,
    dropped: u64,
    delays: SampleBuffer,
}

impl LinkLog {
    /// Takes `TIME + BYTES`, `TIME - BYTES DELAY`, `TIME # BYTES` or `TIME d PACKETS BYTES`.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let (Some(at), Some(event), Some(value)) = (number(0), words.get(1), number(2)) else {
            return Ok(());
        };
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        match (*event, number(3)) {
            ("-", Some(delay)) => {
                let wrong = |why: &str| format!("a delay of {delay} ms: {why}");
                let ns = MILLIS.whole(delay as f64).map_err(wrong)?;
                self.bytes = self.bytes.saturating_add(value);
                self.departed += 1;
                self.delays.push_at(ns, at.saturating_sub(first).saturating_mul(1_000_000))?;
            }
            ("d", _) => self.dropped = self.dropped.saturating_add(value),
            _ => {}
        }
        Ok(())
    }

    /// Adds the trial of the log, if any packet left the link.
    fn end(self, arm: &mut Arm, means: &mut ReaderContext<'_>) -> Result<(), String> {
        let Some((first, last)) = self.span.filter(|_| self.departed > 0) else { return Ok(()) };
        let naming = MetricNaming::time("queue_delay", "queueing delay");
        let mut trial = self.delays.trial(&naming, means)?;
        let mut figures =
            TrialFigures { record: trial.record, metrics: naming.metrics(Role::Claim) };
        let name = "throughput_bps".to_owned();
        let throughput =
            Metric { name, label: "throughput".to_owned(), ..rate(GOODPUT, Role::Claim) };
        if last > first {
            figures.add(throughput, self.bytes as f64 * 8e3 / (last - first) as f64);
        }
        figures.one_way(self.departed.saturating_add(self.dropped), self.departed);
        figures.record.took_ns = (last - first).saturating_mul(1_000_000);
        trial.record = figures.record;
        push(arm, trial, figures.metrics);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{NumberMeaning, RowColumns};

    #[test]
    fn what_left_the_link_is_its_throughput_and_drops_are_lost() {
        let mut text =
            "# mahimahi mm-link (uplink) [a.trace] > up.log\n# base timestamp: 100\n".to_owned();
        for at in 0..100 {
            text +=
                &format!("{} + 1504\n{} # 1504\n{} - 1504 {}\n", 100 + at, 105 + at, 105 + at, 5);
        }
        text += "210 d 25 37600\n";
        assert!(Mahimahi.sniff(&text));
        let mut means = ReaderContext {
            scale: None,
            each: NumberMeaning::Sample,
            columns: RowColumns::default(),
            keep: None,
        };
        let file = &mut ForeignFile::of_text("x", &text.repeat(2));
        let read = Mahimahi.read(file, &mut means).unwrap();
        assert_eq!(read.arms[0].trials.len(), 2);
        for trial in &read.arms[0].trials {
            let metrics = &trial.record.metrics;
            assert_eq!(metrics["queue_delay_p50_ns"], 5e6);
            assert_eq!(metrics["loss_share"], 0.2);
            assert_eq!(metrics["throughput_bps"], (150_400.0f64 * 8e3 / 110.0).round());
        }
    }
}
