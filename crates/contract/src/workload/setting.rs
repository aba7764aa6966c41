//! Setting of a race, on which defaults depend: its path, and the shortest length of a trial on it.

use crate::contract::Direction;
use crate::measurements::{Better, ClockNeed, Metric, Role, Unit};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_path::PathKind;

/// Path between the two ends, as far as a workload's defaults depend on it. It is the same for every
/// contender of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The kind of path.
    pub kind: PathKind,
    /// Round trip of an empty path; `None` if unknown.
    pub rtt: Option<Nanos>,
    /// Lowest rate on the path; `None` if there is no limit, or it is unknown.
    pub rate: Option<BitRate>,
    /// Bounds of the direction from near to far.
    pub up: Bounds,
    /// Bounds of the direction from far to near.
    pub down: Bounds,
    /// Source of the answers of work that asks.
    pub answers: AnswerSource,
    /// Kind of ends that the contenders of the race have.
    pub ends: Ends,
}

/// Kind of ends that the contenders of a race have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ends {
    /// Ends of ours, which are connected when the work begins.
    #[default]
    Connected,
    /// Programs of others beside ours: their time begins with their start, before they connect.
    Programs,
}

/// Source of the answers of work that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerSource {
    /// A far end of ours, whose answers are as long as the work asks for.
    #[default]
    Ours,
    /// An origin: a far end of others, whose documents are as long as they are.
    Origin,
}

impl AnswerSource {
    /// Refuses settings of the length of an answer, or of a request, where an origin decides them.
    ///
    /// # Errors
    /// [`Error::Usage`] with the first of `keys` that is given.
    pub fn check(self, settings: &Settings, keys: &[&str]) -> Result<()> {
        match keys.iter().find(|key| self == AnswerSource::Origin && settings.given(key)) {
            None => Ok(()),
            Some(key) => Err(Error::usage(format!(
                "`{key}`: this far end answers with documents as they are, to requests of its own form; leave {key} out"
            ))),
        }
    }

    /// Returns the settings for results, without the settings that an origin decides.
    pub fn filled(self, mut spec: Spec, keys: &[&str]) -> Spec {
        if self == AnswerSource::Origin {
            spec.options.retain(|(key, _)| !keys.contains(&key.as_str()));
        }
        spec
    }
}

/// Bounds of a direction, if known for all routes that it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Shortest time on the path.
    pub delay: Option<Nanos>,
    /// Rate; `None` if there is no limit.
    pub rate: Option<BitRate>,
}

impl Bounds {
    /// Unknown bounds.
    pub const UNKNOWN: Bounds = Bounds { delay: None, rate: None };
}

impl Setting {
    /// This machine's loopback.
    pub const LOOPBACK: Setting =
        Setting { kind: PathKind::Loopback, rtt: Some(Nanos::ZERO), ..Setting::REMOTE };

    /// The path to a remote server, which is unknown before the first trial.
    pub const REMOTE: Setting = Setting {
        kind: PathKind::Remote,
        rtt: None,
        rate: None,
        up: Bounds::UNKNOWN,
        down: Bounds::UNKNOWN,
        answers: AnswerSource::Ours,
        ends: Ends::Connected,
    };

    /// Returns the bounds of this direction.
    pub fn bounds(&self, direction: Direction) -> Bounds {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }

    /// Returns the round trip, or 50 ms if it is unknown, as for a long distance.
    pub fn rtt_or_long(&self) -> Nanos {
        self.rtt.unwrap_or(Nanos::from_millis(50))
    }

    /// Returns the time until a connection reaches its steady state: twenty round trips. Slow start doubles the window
    /// from ten segments with each round trip, so that seven round trips fill a path of 1 Gbit/s and 10 ms; then follow
    /// the first loss or the end of slow start, its recovery, and the time in which CUBIC regains its window.
    pub fn start_up(&self) -> Nanos {
        Nanos(self.rtt_or_long().0.saturating_mul(20)).clamp(LEAST_START_UP, MOST_START_UP)
    }

    /// Returns the shortest steady time for a meaningful rate: as long as the start-up. Seven blocks of two contenders
    /// and the control then fit into a minute.
    pub fn steady(&self) -> Nanos {
        Nanos(self.rtt_or_long().0.saturating_mul(20)).clamp(LEAST_STEADY, MOST_STEADY)
    }
}

/// Shortest start-up: on loopback, windows and buffers have grown within 50 ms.
const LEAST_START_UP: Nanos = Nanos::from_millis(50);
const MOST_START_UP: Nanos = Nanos::from_millis(1_300);
/// Shortest steady time: many ticks of the scheduler (4 to 10 ms).
const LEAST_STEADY: Nanos = Nanos::from_millis(300);
/// Longest steady time: with the longest start-up a trial takes less than 3 s.
const MOST_STEADY: Nanos = Nanos::from_millis(1_300);

/// Shortest length of a trial, if its settings do not give one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Minimum number of units for the claimed figure.
    pub fewest: u64,
    /// Duration of one unit, in nanoseconds; for a closed loop an estimate.
    pub unit_ns: u64,
    /// Key of the workload that sets the number of units.
    pub key: &'static str,
}

impl Lengths {
    /// Returns true if a unit is an item of the work, and not a time.
    pub fn counts_items(&self) -> bool {
        self.key != "time"
    }

    /// Returns the lengths of work with a duration.
    pub fn steady(setting: &Setting) -> Lengths {
        Lengths { fewest: setting.steady().0 / 1_000_000, unit_ns: 1_000_000, key: "time" }
    }

    /// Extends the length to cover `span`, up to the longest steady time.
    pub fn at_least(self, span: Nanos) -> Lengths {
        let units = span.min(MOST_STEADY).0.div_ceil(self.unit_ns);
        Lengths { fewest: self.fewest.max(units), ..self }
    }

    /// Returns the same work with a length of `units`.
    pub fn apply(&self, mut spec: Spec, units: u64) -> Spec {
        let value = if self.key == "time" { format!("{units}ms") } else { units.to_string() };
        set(&mut spec, self.key, value);
        spec
    }
}

/// Sets an option of a spec to this value, and sorts the options.
pub fn set(spec: &mut Spec, key: &str, value: String) {
    spec.options.retain(|(name, _)| name != key);
    spec.options.push((key.to_owned(), value));
    spec.options.sort();
}

/// Returns the settings for results: with defaults, and with the values in `options` of keys that were not given.
pub fn filled(
    id: &str,
    settings: &Settings,
    options: impl IntoIterator<Item = (impl AsRef<str>, String)>,
) -> Spec {
    let given = settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let open = options.into_iter().filter(|(key, _)| !settings.given(key.as_ref()));
    let open = open.map(|(key, value)| (key.as_ref().to_owned(), value));
    let mut all: Vec<_> = given.chain(open).collect();
    all.sort();
    Spec { name: id.to_owned(), options: all }
}

/// Formats a duration for people: `20 ms`.
pub fn spoken(span: Nanos) -> String {
    match span.0 {
        ns if ns % 1_000_000_000 == 0 => format!("{} s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        _ => span.to_string(),
    }
}

/// Refuses work that offers more bits per second of data in one direction than the path carries, without headers: the
/// queue would grow throughout the trial, and every figure with it.
pub fn fits_rate(
    workload: &str,
    setting: &Setting,
    direction: Direction,
    offered_bps: f64,
) -> Result<()> {
    match setting.bounds(direction).rate {
        Some(rate) if offered_bps > rate.0 as f64 => Err(Error::usage(format!(
            "{workload}: it offers {} of data {direction}, and the path carries {rate}, so the queue would grow for as long as \
             it lasts; offer less, or give the path a higher rate",
            BitRate(offered_bps.round() as u64)
        ))),
        _ => Ok(()),
    }
}

/// Returns the name of the first of `keys` that is set to a value other than its default. A saved race has all keys, so
/// a key with its default does not count.
pub fn set_apart(settings: &Settings, keys: &[Key]) -> Option<&'static str> {
    let is_set = |key: &&Key| {
        settings.given(key.name) && settings.text(key.name).unwrap_or_default() != key.default
    };
    keys.iter().find(is_set).map(|key| key.name)
}

/// Returns the names of equal lanes: their numbers; empty for a single lane.
pub fn numbered(lanes: u16) -> Vec<String> {
    (0..lanes).filter(|_| lanes > 1).map(|lane| lane.to_string()).collect()
}

/// Formats the directions of work for people.
pub fn ways(directions: &[Direction]) -> &'static str {
    match directions {
        [Direction::Up] => "up",
        [Direction::Down] => "down",
        _ => "both ways",
    }
}

/// Returns the metrics of a workload from name, label, unit and the better end of each; the claimed one comes first.
pub fn claiming(figures: &[(&str, &str, Unit, Better)], claimed: &str) -> Vec<Metric> {
    let metric = |(name, label, unit, better): &(&str, &str, Unit, Better)| Metric {
        name: (*name).to_owned(),
        label: (*label).to_owned(),
        unit: *unit,
        better: *better,
        role: if *name == claimed { Role::Claim } else { Role::Descriptive },
        clock: ClockNeed::None,
    };
    let mut metrics: Vec<Metric> = figures.iter().map(metric).collect();
    metrics.sort_by_key(|metric| metric.role != Role::Claim);
    metrics
}

/// Sets the clocks that metrics need, by name; others need none.
pub fn needing(mut metrics: Vec<Metric>, clocks: &[(&str, ClockNeed)]) -> Vec<Metric> {
    for metric in &mut metrics {
        let declared = clocks.iter().find(|(name, _)| *name == metric.name);
        metric.clock = declared.map_or(ClockNeed::None, |(_, need)| *need);
    }
    metrics
}

/// Formats a duration as typed.
pub fn typed(span: Nanos) -> String {
    match span.0 {
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt_ms: u64) -> Setting {
        let rtt = Some(Nanos::from_millis(rtt_ms));
        Setting { kind: PathKind::Emulated, rtt, ..Setting::REMOTE }
    }

    #[test]
    fn a_trial_takes_less_than_three_seconds_on_any_path() {
        let times = |setting: Setting| (setting.start_up(), setting.steady());
        let ms = Nanos::from_millis;
        assert_eq!(times(Setting::LOOPBACK), (ms(50), ms(300)));
        assert_eq!(times(path(50)), (ms(1_000), ms(1_000)));
        assert_eq!(times(path(600)), (ms(1_300), ms(1_300)));
        assert_eq!(times(Setting::REMOTE), times(path(50)));
    }

    #[test]
    fn a_length_takes_the_place_of_the_one_before() {
        let lengths = Lengths { fewest: 100, unit_ns: 1, key: "count" };
        let spec = Spec::parse("ping:count=100,size=64").unwrap();
        assert_eq!(lengths.apply(spec, 250).to_string(), "ping:count=250,size=64");
        let lengths = Lengths { fewest: 300, unit_ns: 1_000_000, key: "time" };
        let spec = Spec::parse("bulk:warmup=50ms").unwrap();
        assert_eq!(lengths.apply(spec, 500).to_string(), "bulk:time=500ms,warmup=50ms");
    }
}
