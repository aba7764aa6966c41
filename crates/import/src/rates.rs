//! Metrics that several formats share: rates as delivered and as sent, transactions, times with a name; units of rates.

pub(super) use deadheat_contract::measurements::name::{GOODPUT, SENT};
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Role, Unit};

/// Transactions in a second.
pub(super) const TRANSACTIONS: &str = "transactions_per_s";

/// Messages in a second, as sent.
pub(super) const MESSAGES: &str = "sent_messages_per_s";

/// End at which iperf ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum IperfSide {
    #[default]
    Client,
    Server,
}

/// Returns a metric. Of rates and counts in a time more is better, and of times and shares less.
pub(super) fn metric(name: &str, label: &str, unit: Unit, role: Role) -> Metric {
    let better = match unit {
        Unit::BitRate | Unit::Count => Better::Higher,
        Unit::Nanos | Unit::Share => Better::Lower,
    };
    let (name, label) = (name.to_owned(), label.to_owned());
    Metric { name, label, unit, better, role, clock: ClockNeed::None }
}

/// Returns the metric with one of these names.
pub(super) fn rate(name: &str, role: Role) -> Metric {
    let (label, unit) = match name {
        GOODPUT => ("goodput", Unit::BitRate),
        SENT => ("sent", Unit::BitRate),
        TRANSACTIONS => ("transactions/s", Unit::Count),
        _ => ("messages/s sent", Unit::Count),
    };
    metric(name, label, unit, role)
}

/// Returns the metric of a time that has one value in a trial.
pub(super) fn time(stem: &str, label: &str, role: Role) -> Metric {
    metric(&format!("{stem}_ns"), label, Unit::Nanos, role)
}

/// Returns the bits in a second of a unit of iperf, netperf and wget: `10^6bits/s`, `Mbits/sec`, `KBytes/sec`, `MB/s`.
pub(super) fn bits_of(unit: &str) -> Option<f64> {
    let unit = unit.trim();
    bits_in(["/second", "/sec", "/s"].iter().find_map(|end| unit.strip_suffix(end))?)
}

/// Returns the bits in a unit of these programs: `Mbits`, `KBytes`. Bytes have prefixes of 1024 in them, and bits of 1000.
pub(super) fn bits_in(base: &str) -> Option<f64> {
    let names = [("bits", 1.0), ("bit", 1.0), ("b", 1.0), ("Bytes", 8.0), ("bytes", 8.0)];
    let mut names = names.into_iter().chain([("Byte", 8.0), ("B", 8.0)]);
    let (prefix, bits) = names.find_map(|(name, bits)| Some((base.strip_suffix(name)?, bits)))?;
    let step: f64 = if bits > 1.0 && !prefix.starts_with("10") { 1024.0 } else { 1000.0 };
    let power = match prefix {
        "" | "10^0" => 0,
        "10^3" | "k" | "K" => 1,
        "10^6" | "m" | "M" => 2,
        "10^9" | "g" | "G" => 3,
        "10^12" | "t" | "T" => 4,
        "P" => 5,
        _ => return Some(bits * 2_f64.powi(prefix.strip_prefix("2^")?.parse::<u8>().ok()?.into())),
    };
    Some(bits * step.powi(power))
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
