//! Names of metrics: no other module parses or writes them. A name has a quantity, optionally a percentile and a phase,
//! and its unit last: `rtt_p50_during_ns`.

use std::fmt;

use super::Unit;

/// Goodput, in bits per second.
pub const GOODPUT: &str = "goodput_bps";
/// Rate that the sender reached, in bits per second.
pub const SENT: &str = "sent_bps";
/// Rate that the settings ask of the sender, in bits per second.
pub const OFFERED: &str = "offered_bps";
/// Median round trip, in nanoseconds.
pub const RTT_P50: &str = "rtt_p50_ns";
/// Mean round trip, in nanoseconds.
pub const RTT_MEAN: &str = "rtt_mean_ns";
/// Share of messages that were lost.
pub const LOST: &str = "loss_share";

/// Name of a metric in its parts. A name of other forms, such as one of an imported file, is all quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricName<'a> {
    /// Quantity: `rtt`, `loss`, `rtt_pdv`.
    pub quantity: &'a str,
    /// Percentile of the quantity, if it is one.
    pub percentile: Option<Percentile>,
    /// Phase of the trial, if not the whole.
    pub phase: Option<Phase>,
    /// Last part of the name, which gives the unit.
    pub suffix: Suffix,
}

impl<'a> MetricName<'a> {
    /// Returns the name of a quantity over a whole trial.
    pub const fn new(quantity: &'a str, suffix: Suffix) -> MetricName<'a> {
        MetricName { quantity, percentile: None, phase: None, suffix }
    }

    /// Returns the name of a percentile of a quantity.
    #[must_use]
    pub const fn at(self, percentile: Percentile) -> MetricName<'a> {
        MetricName { percentile: Some(percentile), ..self }
    }

    /// Returns the name of the same figure in one phase of a trial.
    #[must_use]
    pub const fn in_phase(self, phase: Phase) -> MetricName<'a> {
        MetricName { phase: Some(phase), ..self }
    }

    /// Returns true for a figure that is over arrived messages alone: a mean of times. A percentile counts lost messages as
    /// the longest, and a mean age is over the whole time, in which a lost update makes the state older.
    pub fn is_of_arrived(self) -> bool {
        let is_mean = self.percentile.is_none() && self.quantity.ends_with("_mean");
        is_mean && !self.quantity.ends_with("age_mean")
    }

    /// Parses a name. Written again it is the same.
    pub fn parse(name: &'a str) -> MetricName<'a> {
        let (rest, suffix) = last(name, Suffix::ALL, Suffix::word).unwrap_or((name, Suffix::None));
        let (rest, phase) = optional(rest, last(rest, Phase::ALL, Phase::name));
        let (quantity, percentile) = optional(rest, last(rest, Percentile::ALL, Percentile::name));
        MetricName { quantity, percentile, phase, suffix }
    }
}

impl fmt::Display for MetricName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percentile = self.percentile.map(Percentile::name);
        let phase = self.phase.map(Phase::name);
        let suffix = Some(self.suffix.word()).filter(|word| !word.is_empty());
        f.write_str(self.quantity)?;
        [percentile, phase, suffix].into_iter().flatten().try_for_each(|part| write!(f, "_{part}"))
    }
}

/// Splits the last part off a name if it is one of `all`; `None` if the rest is empty.
fn last<T: Copy, const N: usize>(
    name: &str,
    all: [T; N],
    word: fn(T) -> &'static str,
) -> Option<(&str, T)> {
    all.into_iter().find_map(|one| {
        let rest = name.strip_suffix(word(one))?.strip_suffix('_')?;
        (!rest.is_empty()).then_some((rest, one))
    })
}

fn optional<'a, T>(name: &'a str, found: Option<(&'a str, T)>) -> (&'a str, Option<T>) {
    found.map_or((name, None), |(rest, one)| (rest, Some(one)))
}

/// Percentile that metrics have, by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
}

impl Percentile {
    /// All percentiles, the lowest first.
    pub const ALL: [Percentile; 4] =
        [Percentile::P50, Percentile::P90, Percentile::P99, Percentile::P999];

    /// Returns its name in names of metrics: `p50`.
    pub fn name(self) -> &'static str {
        ["p50", "p90", "p99", "p999"][self as usize]
    }

    /// Returns its name for people: `p99.9`.
    pub fn label(self) -> &'static str {
        ["p50", "p90", "p99", "p99.9"][self as usize]
    }

    /// Returns it in thousandths.
    pub fn per_mille(self) -> u64 {
        [500, 900, 990, 999][self as usize]
    }

    /// Returns the minimum number of samples with ten beyond it.
    pub fn fewest(self) -> u64 {
        [20, 100, 1_000, 10_000][self as usize]
    }
}

/// Phase of a trial, beside a load that lasts for a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the load.
    Before,
    /// During the load.
    During,
    /// After the load.
    After,
}

impl Phase {
    /// All phases, in their order.
    pub const ALL: [Phase; 3] = [Phase::Before, Phase::During, Phase::After];

    /// Returns its name: `before`.
    pub fn name(self) -> &'static str {
        ["before", "during", "after"][self as usize]
    }
}

/// Last part of a metric's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suffix {
    /// Nanoseconds.
    Nanos,
    /// Bits per second.
    BitRate,
    /// Fraction from 0 to 1.
    Share,
    /// Number of things.
    Count,
    /// Times per minute.
    PerMinute,
    /// Ratio of a figure during a load to the same figure before it.
    UnderLoadRatio,
    /// Ratio of two figures.
    Ratio,
    /// No known suffix.
    None,
}

impl Suffix {
    /// Suffixes of names. A suffix that ends in another suffix is listed before it.
    const ALL: [Suffix; 7] = [
        Suffix::Nanos,
        Suffix::BitRate,
        Suffix::Share,
        Suffix::Count,
        Suffix::PerMinute,
        Suffix::UnderLoadRatio,
        Suffix::Ratio,
    ];

    fn word(self) -> &'static str {
        match self {
            Suffix::Nanos => "ns",
            Suffix::BitRate => "bps",
            Suffix::Share => "share",
            Suffix::Count => "count",
            Suffix::PerMinute => "rpm",
            Suffix::UnderLoadRatio => "under_load_ratio",
            Suffix::Ratio => "ratio",
            Suffix::None => "",
        }
    }

    /// Returns the unit of a metric with this suffix; `None` if the suffix gives none.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Suffix::Nanos => Some(Unit::Nanos),
            Suffix::BitRate => Some(Unit::BitRate),
            Suffix::Share => Some(Unit::Share),
            Suffix::Count | Suffix::PerMinute | Suffix::UnderLoadRatio | Suffix::Ratio => {
                Some(Unit::Count)
            }
            Suffix::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_age_counts_what_is_missing_and_a_mean_of_times_does_not() {
        let is_of_arrived = |name| MetricName::parse(name).is_of_arrived();
        assert!(is_of_arrived("rtt_mean_ns") && is_of_arrived("latency_mean_ns"));
        assert!(!["age_mean_ns", "near_age_mean_ns", "rtt_p99_ns"].into_iter().any(is_of_arrived));
    }

    #[test]
    fn a_name_is_taken_apart_and_written_as_it_was() {
        let rtt = MetricName::new("rtt", Suffix::Nanos);
        for (name, parts) in [
            ("rtt_p50_ns", rtt.at(Percentile::P50)),
            ("rtt_p999_ns", rtt.at(Percentile::P999)),
            ("rtt_p50_during_ns", rtt.at(Percentile::P50).in_phase(Phase::During)),
            ("rtt_pdv_p99_ns", MetricName::new("rtt_pdv", Suffix::Nanos).at(Percentile::P99)),
            ("rtt_jitter_rfc3550_ns", MetricName::new("rtt_jitter_rfc3550", Suffix::Nanos)),
            ("goodput_up_bps", MetricName::new("goodput_up", Suffix::BitRate)),
            ("loss_after_share", MetricName::new("loss", Suffix::Share).in_phase(Phase::After)),
            (
                "rtt_p50_under_load_ratio",
                MetricName::new("rtt", Suffix::UnderLoadRatio).at(Percentile::P50),
            ),
            (
                "probe_before_rpm",
                MetricName::new("probe", Suffix::PerMinute).in_phase(Phase::Before),
            ),
            ("p50_ns", MetricName::new("p50", Suffix::Nanos)),
            ("_ns", MetricName::new("_ns", Suffix::None)),
            ("", MetricName::new("", Suffix::None)),
            ("requests per second", MetricName::new("requests per second", Suffix::None)),
        ] {
            assert_eq!(MetricName::parse(name), parts, "{name}");
            assert_eq!(parts.to_string(), name);
        }
    }
}
