//! Axes along which a path can be changed: its loss, its delay, its rate.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, percent, rate_text, span_text};
use deadheat_path::PathSpec;
use deadheat_path::network::{Impairments, Loss, Network, Rate};

/// Property of a path that a search changes, in both directions alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Share of packets lost, independently.
    Loss,
    /// Delay of each direction, in nanoseconds.
    Delay,
    /// Rate of each direction, in bits per second.
    Rate,
}

/// Maximum loss of a search.
const MOST_LOSS: f64 = 0.1;

/// Minimum and maximum delay of a search, in nanoseconds.
const DELAYS: [f64; 2] = [1e6, 300e6];

/// Maximum delay as a share of the allowed time; with more, no message is in time.
const OF_LIMIT: f64 = 0.8;

/// Minimum rate of the path as a multiple of the offered rate.
const OVER_OFFERED: f64 = 2.0;

/// Maximum factor by which a search lowers or raises the rate.
const RATE_FACTOR: f64 = 10.0;

/// Bounds of a search that follow from the work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bounds {
    /// Maximum one-way delay with which messages are in time.
    pub limit: Option<Nanos>,
    /// Bits per second that the application offers.
    pub offered_bps: Option<f64>,
}

impl Axis {
    /// All axes, in the order of the searches.
    pub const ALL: [Axis; 3] = [Axis::Loss, Axis::Delay, Axis::Rate];

    /// Returns the name of the axis: a key of a path.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Loss => "loss",
            Axis::Delay => "delay",
            Axis::Rate => "rate",
        }
    }

    /// Formats a value as it is typed: `3%`, `25ms`, `20mbit`.
    pub fn text(self, value: f64) -> String {
        match self {
            Axis::Loss => percent(value),
            Axis::Delay => span_text(Nanos(value.max(0.0) as u64)),
            Axis::Rate => rate_text(BitRate(value.max(0.0) as u64)),
        }
    }

    /// Returns the value of the path, the same in both directions.
    ///
    /// # Errors
    /// A sentence with the reason why there is no such value.
    pub fn of(self, path: &PathSpec) -> Result<f64, String> {
        let (PathSpec::Emulated(network) | PathSpec::Simulated(network)) = path else {
            return Err(format!("loopback has no {} to change", self.name()));
        };
        let [link] = &network.links[..] else {
            return Err(format!("the path has several links, each with its {}", self.name()));
        };
        let value = |way: &Impairments| match (self, &way.loss, &way.rate) {
            (Axis::Loss, Loss::None, _) => Some(0.0),
            (Axis::Loss, Loss::Bernoulli(share), _) => Some(*share),
            (Axis::Delay, ..) => Some(way.delay.0 as f64),
            (Axis::Rate, _, Rate::Fixed(rate)) => Some(rate.0 as f64),
            (Axis::Loss | Axis::Rate, ..) => None,
        };
        match [&link.up, &link.down].map(value) {
            [Some(up), Some(down)] if up == down => Ok(up),
            [Some(_), Some(_)] => Err(format!("the path's {} differs by direction", self.name())),
            _ => Err(match self {
                Axis::Loss => "the path loses packets in bursts, or certain ones".into(),
                Axis::Delay | Axis::Rate => "the path has no rate that is constant".into(),
            }),
        }
    }

    /// Returns the path with another value in both directions.
    pub fn changed(self, path: &PathSpec, value: f64) -> PathSpec {
        let change = |network: &Network| {
            let mut network = network.clone();
            let ways = network.links.iter_mut().flat_map(|link| [&mut link.up, &mut link.down]);
            for way in ways {
                match self {
                    Axis::Loss if value > 0.0 => way.loss = Loss::Bernoulli(value),
                    Axis::Loss => way.loss = Loss::None,
                    Axis::Delay => way.delay = Nanos(value as u64),
                    Axis::Rate => way.rate = Rate::Fixed(BitRate(value as u64)),
                }
            }
            network
        };
        match path {
            PathSpec::Loopback => PathSpec::Loopback,
            PathSpec::Emulated(network) => PathSpec::Emulated(change(network)),
            PathSpec::Simulated(network) => PathSpec::Simulated(change(network)),
        }
    }

    /// Returns the ends of the searches from `base`: below it and above it, if there is room.
    pub fn ends(self, base: f64, bounds: Bounds) -> Vec<f64> {
        let (low, high) = match self {
            Axis::Loss => (0.0, MOST_LOSS),
            Axis::Delay => {
                let limit = bounds.limit.map(|limit| limit.0 as f64 * OF_LIMIT);
                (DELAYS[0], limit.map_or(DELAYS[1], |limit| limit.min(DELAYS[1])))
            }
            Axis::Rate => {
                let least = bounds.offered_bps.map_or(0.0, |bps| bps * OVER_OFFERED);
                (least.max(base / RATE_FACTOR), base * RATE_FACTOR)
            }
        };
        let (low, high) = (self.rounded(low), self.rounded(high));
        let mut ends = Vec::new();
        ends.extend((low < base && base - low > 0.05 * base).then_some(low));
        ends.extend((high > base * 1.05).then_some(high));
        ends
    }

    /// Returns a value between two others, with few digits; `None` if they are practically equal.
    pub fn between(self, one: f64, other: f64) -> Option<f64> {
        let (low, high) = (one.min(other), one.max(other));
        if low > 0.0 && high / low < 1.25 || high <= self.least() {
            return None;
        }
        // Bisect the ratio; values below the least are equal to zero.
        let middle = self.rounded((low.max(self.least() / 2.0) * high).sqrt());
        (middle > low && middle < high).then_some(middle)
    }

    /// Returns the least value that differs from zero in practice.
    fn least(self) -> f64 {
        match self {
            Axis::Loss => 0.001,
            Axis::Delay => DELAYS[0],
            Axis::Rate => 1e3,
        }
    }

    /// Rounds to two significant digits.
    fn rounded(self, value: f64) -> f64 {
        if value <= 0.0 {
            return 0.0;
        }
        let unit = 10f64.powi(value.log10().floor() as i32 - 1);
        let digits = (value / unit).round();
        // Use the float nearest to the decimal fraction, so that it prints with few digits.
        if unit < 1.0 { digits / (1.0 / unit).round() } else { digits * unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(typed: &str) -> PathSpec {
        PathSpec::parse(typed).unwrap()
    }

    #[test]
    fn a_path_is_changed_in_one_property() {
        let base = path("sim:delay=25ms,loss=1%,rate=20mbit,queue=64kB");
        for (axis, value, wanted) in [
            (Axis::Loss, 0.03, "sim:delay=25ms,loss=3%,rate=20mbit,queue=64kB"),
            (Axis::Loss, 0.0, "sim:delay=25ms,rate=20mbit,queue=64kB"),
            (Axis::Delay, 50e6, "sim:delay=50ms,loss=1%,rate=20mbit,queue=64kB"),
            (Axis::Rate, 2.5e6, "sim:delay=25ms,loss=1%,rate=2500kbit,queue=64kB"),
        ] {
            assert_eq!(axis.changed(&base, value), path(wanted), "{wanted}");
        }
    }

    #[test]
    fn a_value_that_is_none_says_why() {
        let why = |axis: Axis, typed: &str| axis.of(&path(typed)).unwrap_err();
        assert_eq!(Axis::Rate.of(&path("rate=20mbit")), Ok(20e6));
        assert_eq!(Axis::Loss.of(&path("delay=1ms")), Ok(0.0));
        assert!(why(Axis::Rate, "delay=1ms").contains("no rate"));
        assert!(why(Axis::Rate, "up.rate=1mbit,down.rate=2mbit").contains("by direction"));
        assert!(why(Axis::Loss, "loss=1%,burst=4").contains("in bursts"));
        assert!(why(Axis::Delay, "delay=1ms + delay=2ms").contains("several links"));
        assert!(why(Axis::Delay, "loopback").contains("loopback"));
    }

    #[test]
    fn ends_stay_where_the_application_works() {
        let bounds =
            Bounds { limit: Some(Nanos::from_millis(100)), offered_bps: Some(4_000_000.0) };
        assert_eq!(Axis::Loss.ends(0.01, bounds), [0.0, 0.1]);
        assert_eq!(Axis::Loss.ends(0.0, bounds), [0.1]);
        assert_eq!(Axis::Delay.ends(25e6, bounds), [1e6, 80e6]);
        assert_eq!(Axis::Delay.ends(25e6, Bounds::default()), [1e6, 300e6]);
        assert_eq!(Axis::Rate.ends(20e6, bounds), [8e6, 200e6]);
        assert_eq!(Axis::Rate.ends(8e6, bounds), [80e6]);
    }

    #[test]
    fn halves_have_few_digits_and_end() {
        assert_eq!(Axis::Loss.between(0.01, 0.1), Some(0.032));
        assert_eq!(Axis::Loss.text(0.032), "3.2%");
        assert_eq!(Axis::Loss.between(0.0, 0.01), Some(0.0022));
        assert_eq!(Axis::Loss.between(0.0, 0.001), None);
        assert_eq!(Axis::Delay.text(Axis::Delay.between(25e6, 300e6).unwrap()), "87ms");
        assert_eq!(Axis::Rate.between(20e6, 22e6), None);
    }
}
