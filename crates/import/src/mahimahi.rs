//! mahimahi: the log of a link (`mm-link --uplink-log`, `--downlink-log`), with arrivals at its queue, departures, and drops.

use super::foreign_file::ForeignFile;
use super::rates::metric;
use super::samples::{MessageCounts, MetricNaming, SampleBuffer};
use super::text::MILLIS;
use super::{FileContent, Format, NONE, ReaderContext};
use deadheat_contract::measurements::{Role, Unit};

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "mahimahi",
    summary: "logs of mm-link (--uplink-log, --downlink-log): what went through the link, and how long it waited",
    sniff: |head| {
        head.lines().any(|line| line.starts_with(FIRST) || line.starts_with("# base timestamp: "))
    },
    read: Some(read),
    program: "mahimahi",
    implementation: "mahimahi",
    unit: "ms",
    trial: "a log of a link",
    unknown: &["goodput"],
    says: &["Its throughput is of packets with their headers, and of what was sent again."],
    nothing: "no packet left the link",
    ..NONE
};

/// First words of a log.
const FIRST: &str = "# mahimahi mm-link";

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let (mut content, mut log) = (FileContent::default(), LinkLog::default());
    while let Some(line) = file.next_line()? {
        if line.starts_with(FIRST) {
            std::mem::take(&mut log).end(&mut content, context)?;
        }
        log.line(line)?;
    }
    log.end(&mut content, context)?;
    Ok(content)
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
                let at_ns = at.saturating_sub(first).saturating_mul(1_000_000);
                self.delays.put(Some(ns), Some(at_ns))?;
            }
            ("d", _) => self.dropped = self.dropped.saturating_add(value),
            _ => {}
        }
        Ok(())
    }

    /// Adds the trial of the log, if any packet left the link.
    fn end(self, into: &mut FileContent, context: &mut ReaderContext<'_>) -> Result<(), String> {
        let Some((first, last)) = self.span.filter(|_| self.departed > 0) else { return Ok(()) };
        let naming = MetricNaming::time("queue_delay", "queueing delay");
        let mut trial = self.delays.trial(&naming, context)?;
        if last > first {
            let throughput = metric("throughput_bps", "throughput", Unit::BitRate, Role::Claim);
            trial.add(throughput, self.bytes as f64 * 8e3 / (last - first) as f64);
        }
        let sent = self.departed.saturating_add(self.dropped);
        MessageCounts::of(sent, self.departed).enter_one_way(&mut trial);
        trial.record.took_ns = (last - first).saturating_mul(1_000_000);
        into.add("", trial);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_the_link_is_its_throughput_and_drops_are_lost() {
        let mut text =
            "# mahimahi mm-link (uplink) [a.trace] > up.log\n# base timestamp: 100\n".to_owned();
        for at in 0..100 {
            text +=
                &format!("{} + 1504\n{} # 1504\n{} - 1504 {}\n", 100 + at, 105 + at, 105 + at, 5);
        }
        text += "210 d 25 37600\n";
        assert!(FORMAT.is_of(&text));
        let read = FORMAT.content(&text.repeat(2)).unwrap();
        assert_eq!(read.arms[0].trials.len(), 2);
        for trial in &read.arms[0].trials {
            let metrics = &trial.record.metrics;
            assert_eq!(metrics["queue_delay_p50_ns"], 5e6);
            assert_eq!(metrics["loss_share"], 0.2);
            assert_eq!(metrics["throughput_bps"], (150_400.0f64 * 8e3 / 110.0).round());
        }
    }
}
