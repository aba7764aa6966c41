//! Metrics that several formats share: rates as delivered and as sent, transactions, times with a name.

use super::gather::{MessageCounts, MetricNaming, blank, loss_metric};
use super::{Arm, ImportedTrial};
use crate::measurements::{Better, ClockNeed, Ledger, Metric, Role, Unit};
use crate::trial::Record;

/// Rate at which the receiver had the data, as in this program's `bulk`.
pub(super) const GOODPUT: &str = "goodput_bps";

/// Rate at which the sender sent, or handed over to its kernel.
pub(super) const SENT: &str = "sent_bps";

/// Transactions in a second.
pub(super) const TRANSACTIONS: &str = "transactions_per_s";

/// Messages in a second, as sent.
pub(super) const MESSAGES: &str = "sent_messages_per_s";

/// Returns the metric with one of these names.
pub(super) fn rate(name: &str, role: Role) -> Metric {
    let (label, unit) = match name {
        GOODPUT => ("goodput", Unit::BitRate),
        SENT => ("sent", Unit::BitRate),
        TRANSACTIONS => ("transactions/s", Unit::Count),
        _ => ("messages/s sent", Unit::Count),
    };
    Metric {
        name: name.to_owned(),
        label: label.to_owned(),
        unit,
        better: Better::Higher,
        role,
        clock: ClockNeed::None,
    }
}

/// Returns the metric of a time that has one value in a trial.
pub(super) fn time(stem: &str, label: &str, role: Role) -> Metric {
    let MetricNaming { unit, better, .. } = MetricNaming::time(stem, label);
    Metric {
        name: format!("{stem}_ns"),
        label: label.to_owned(),
        unit,
        better,
        role,
        clock: ClockNeed::None,
    }
}

/// Figures of one trial, with their metrics.
pub(super) struct TrialFigures {
    pub record: Record,
    pub metrics: Vec<Metric>,
}

impl TrialFigures {
    pub(super) fn new() -> TrialFigures {
        TrialFigures { record: blank(), metrics: Vec::new() }
    }

    /// Adds a figure, if it is a number that a measurement can have. Bits in a second are whole.
    pub(super) fn add(&mut self, metric: Metric, value: f64) {
        let value = if metric.unit == Unit::BitRate { value.round() } else { value };
        if value.is_finite() && value >= 0.0 {
            self.record.metrics.insert(metric.name.clone(), value);
            self.metrics.push(metric);
        }
    }

    /// Adds the account of messages that went one way, and the lost share. No more were received than sent.
    pub(super) fn one_way(&mut self, sent: u64, received: u64) {
        let counts = MessageCounts { sent, received, ..MessageCounts::default() };
        self.record.ledger = Ledger { up: Some(counts.account()), ..Ledger::default() };
        if sent > 0 {
            self.add(loss_metric(), (sent - received) as f64 / sent as f64);
        }
    }
}

/// Adds a trial to an arm, with its metrics.
pub(super) fn push(arm: &mut Arm, trial: ImportedTrial, metrics: Vec<Metric>) {
    for metric in metrics {
        match arm.metrics.iter_mut().find(|known| known.name == metric.name) {
            Some(known) if metric.role == Role::Claim => known.role = Role::Claim,
            Some(_) => {}
            None => arm.metrics.push(metric),
        }
    }
    arm.trials.push(trial);
}

/// Returns the bits in a second of a unit of iperf, netperf and wget: `10^6bits/s`, `Mbits/sec`, `KBytes/sec`, `MB/s`.
pub(super) fn bits_of(unit: &str) -> Option<f64> {
    let unit = unit.trim();
    bits_in(["/second", "/sec", "/s"].iter().find_map(|end| unit.strip_suffix(end))?)
}

/// Returns the bits in a unit of these programs: `Mbits`, `KBytes`. Bytes have prefixes of 1024 in them, and bits of 1000.
pub(super) fn bits_in(base: &str) -> Option<f64> {
    let (prefix, bits) = ["bits", "bit", "b"]
        .iter()
        .find_map(|name| base.strip_suffix(name).map(|prefix| (prefix, 1.0)))
        .or_else(|| {
            let bytes = ["Bytes", "bytes", "Byte", "B"];
            bytes.iter().find_map(|name| base.strip_suffix(name).map(|prefix| (prefix, 8.0)))
        })?;
    let power = match prefix {
        "" | "10^0" => 0,
        "10^3" | "k" | "K" => 1,
        "10^6" | "m" | "M" => 2,
        "10^9" | "g" | "G" => 3,
        "10^12" | "t" | "T" => 4,
        "P" => 5,
        "2^10" | "2^20" | "2^30" => return Some(bits * binary(prefix)),
        _ => return None,
    };
    let step: f64 = if bits > 1.0 && !prefix.starts_with("10") { 1024.0 } else { 1000.0 };
    Some(bits * step.powi(power))
}

fn binary(prefix: &str) -> f64 {
    match prefix {
        "2^10" => 1024.0,
        "2^20" => 1_048_576.0,
        _ => 1_073_741_824.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_prefixes_of_1024_and_bits_of_1000() {
        for (unit, bits) in [
            ("10^6bits/s", 1e6),
            ("Mbits/sec", 1e6),
            ("Kbits/sec", 1e3),
            ("bits/sec", 1.0),
            ("Gbits/sec", 1e9),
            ("MBytes/sec", 8.0 * 1_048_576.0),
            ("KB/s", 8.0 * 1_024.0),
            ("B/s", 8.0),
            ("Mb/s", 1e6),
        ] {
            assert_eq!(bits_of(unit), Some(bits), "{unit}");
        }
        for none in ["", "/s", "apples/s", "Trans/s", "Mbit", "ms"] {
            assert_eq!(bits_of(none), None, "{none}");
        }
    }
}
