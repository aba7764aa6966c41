//! Quietness of the host: echoes between blocks, independent of contenders, and their interpretation.
//!
//! Nothing here depends on a contender, removes a trial or changes a verdict. It describes the state of the host during
//! the race.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;
use deadheat_stats::changes::Detector;
use deadheat_stats::{Regime, regimes};

/// Share of CPU time that others, the hypervisor among them, may take of a calm host. It is above the error of counting
/// in steps of 10 ms over `WINDOW` of the crate host (`block_probe.rs`).
pub const CALM_SHARE: f64 = 0.1;

/// Scatter of the echo between blocks above which a host is noisy. If trials scatter as much, a hundred blocks resolve
/// 2 · √2 · 0.15 / √100 = 4.2 %: about the resolution that a race of a minute needs for a margin of 5 %.
pub const NOISY: f64 = 0.15;

/// Ratio of a change of level that is worth reporting, as for regimes.
const NOTABLE_CHANGE: f64 = 1.15;

/// Number of races with a quiet host per false change of level.
const QUIET_RACES: f64 = 100.0;

/// Fewest echoes for a judgement of the host: as many as regimes need.
const FEWEST: usize = 6;

/// Measurement of the host between two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbePoint {
    /// Time of the measurement, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Median of its round trips, in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile of its round trips, in nanoseconds.
    pub high_ns: u64,
    /// Share of CPU time that the hypervisor took since the last point.
    pub steal_share: f64,
    /// Share of CPU time of the ends' CPUs, or of all where the ends have none of their own, that other programs took since
    /// the last point; absent if unknown, and in results of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
}

/// Disturbance that keeps a host from being calm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Source of the disturbance.
    pub by: Disturber,
    /// Extent: the share of CPU time taken, or the difference between two echoes in a row.
    pub share: f64,
}

/// Source of a disturbance of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturber {
    /// Other programs, which use its CPUs.
    Programs,
    /// The hypervisor, which gives its CPUs to others.
    Hypervisor,
    /// Unknown source: echoes differ in length.
    Echo,
}

impl Disturbance {
    /// Describes the disturbance, for a message about the wait.
    pub fn words(&self) -> String {
        let share = format!("{:.0} %", 100.0 * self.share);
        match self.by {
            Disturber::Programs => format!("other programs use {share} of its CPUs"),
            Disturber::Hypervisor => format!("the hypervisor takes {share} of its CPU time"),
            Disturber::Echo => format!("two echoes in a row differ by {share}"),
        }
    }
}

/// Outcome of the wait for a calm host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SettlingOutcome {
    /// Time waited.
    pub waited: Nanos,
    /// Disturbance left at the end of the wait; absent if the host was calm.
    pub disturbed: Option<Disturbance>,
}

/// State of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// Too few echoes to judge.
    #[default]
    Unknown,
    /// Steady: a single level, and little scatter.
    Quiet,
    /// Scattered: a single level, and so much scatter that blocks resolve little.
    Noisy,
    /// The level changed permanently, once or more.
    Drifting,
    /// Alternating between two levels.
    TwoLevels,
}

/// Change of the echo's level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LevelChange {
    /// Time at which the first point on the new level was taken, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Median before the change, in nanoseconds.
    pub from_ns: f64,
    /// Median after the change, in nanoseconds.
    pub to_ns: f64,
}

/// Findings of the host probe over a race.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostQuiet {
    /// Time that the race waited for the host to settle, in nanoseconds.
    pub waited_ns: u64,
    /// Disturbance left when the race began.
    pub disturbed: Option<Disturbance>,
    /// Points, in order of time.
    pub points: Vec<ProbePoint>,
    /// Scatter of the echo's median from one block to the next, as a share of it: a standard deviation, estimated by
    /// the median of the steps, so that a few of them cannot dominate. Absent with too few points.
    pub scatter: Option<f64>,
    /// Changes of the echo's level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LevelChange>,
    /// Levels of the echo, if it has two.
    pub regimes: Option<[Regime; 2]>,
    /// State of the host that follows from all points.
    pub state: HostState,
}

impl HostQuiet {
    /// Notes that the race has waited for the host.
    pub fn settled(&mut self, settled: SettlingOutcome) {
        self.waited_ns = self.waited_ns.saturating_add(settled.waited.0);
        self.disturbed = settled.disturbed;
    }

    /// Adds a point.
    pub fn add(&mut self, point: ProbePoint) {
        self.points.push(point);
    }

    /// Updates the scatter from all points.
    pub fn measure_scatter(&mut self) {
        self.scatter = scatter(&self.medians());
    }

    /// Judges all points. Takes up to a tenth of a second with thousands of points, so it is for the end.
    pub fn conclude(&mut self) {
        let medians = self.medians();
        self.scatter = scatter(&medians);
        let notable = |from: f64, to: f64| from.max(to) > NOTABLE_CHANGE * from.min(to);
        let detector = Detector::one_in(QUIET_RACES * medians.len() as f64);
        self.changes = detector
            .changes(&medians)
            .iter()
            .filter(|change| notable(change.from, change.to))
            .filter_map(|change| {
                let at_ms = self.points.get(change.at)?.at_ms;
                Some(LevelChange { at_ms, from_ns: change.from, to_ns: change.to })
            })
            .collect();
        self.regimes = regimes(&medians);
        self.state = match self.scatter {
            None => HostState::Unknown,
            Some(_) if !self.changes.is_empty() => HostState::Drifting,
            Some(_) if self.regimes.is_some() => HostState::TwoLevels,
            Some(scatter) if scatter > NOISY => HostState::Noisy,
            Some(_) => HostState::Quiet,
        };
    }

    /// Describes the state of the host in a sentence; `None` if it was not measured.
    pub fn sentence(&self) -> Option<String> {
        let first = self.points.first()?;
        let echo = "an echo between blocks, with no contender in it,";
        let Some(scatter) = self.scatter else {
            let seen = self.points.len();
            return Some(format!("{echo} was measured {seen} times, too few to judge the host"));
        };
        let varied = format!("varied by {:.0} % from one block to the next", 100.0 * scatter);
        let time = |ns: f64| Nanos(ns as u64);
        Some(match (self.state, &self.changes[..], &self.regimes) {
            (HostState::Drifting, [change, ..], _) => format!(
                "{echo} took {} at first and {} after {:.0} s; it {varied}",
                time(change.from_ns),
                time(change.to_ns),
                change.at_ms.saturating_sub(first.at_ms) as f64 / 1e3
            ),
            (HostState::TwoLevels, _, Some([low, high])) => format!(
                "{echo} took now {} and now {}; it {varied}",
                time(low.centre),
                time(high.centre)
            ),
            _ => {
                let median = deadheat_stats::quantile::median(&self.medians()).unwrap_or_default();
                format!("{echo} took {} and {varied}", time(median))
            }
        })
    }

    /// Returns the share of CPU time that other programs took while blocks ran; `None` if it is unknown. The first point is of
    /// the time before the first block.
    pub fn others_share(&self) -> Option<f64> {
        let shares: Option<Vec<f64>> =
            self.points.iter().skip(1).map(|point| point.others_share).collect();
        let shares = shares.filter(|shares| !shares.is_empty())?;
        Some(shares.iter().sum::<f64>() / shares.len() as f64)
    }

    fn medians(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.p50_ns as f64).collect()
    }
}

/// Returns the standard deviation of a point around its level, from the steps between neighbours, in which levels and
/// drift cancel. A step of the median size is 0.6745 standard deviations of a step, and a step has the variance of two
/// points.
fn scatter(medians: &[f64]) -> Option<f64> {
    if medians.len() < FEWEST || medians.iter().any(|median| *median <= 0.0) {
        return None;
    }
    let steps: Vec<f64> = medians.windows(2).map(|two| (two[1] / two[0]).ln().abs()).collect();
    let step = deadheat_stats::quantile::median(&steps)?;
    Some((step / 0.6745 / 2.0f64.sqrt()).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::rng::SplitMix64;

    /// Judges echoes with these medians, one each second.
    fn found(medians: impl IntoIterator<Item = f64>) -> HostQuiet {
        let mut quiet = HostQuiet::default();
        for (second, median) in medians.into_iter().enumerate() {
            quiet.add(ProbePoint {
                at_ms: 1_000_000 + 1_000 * second as u64,
                p50_ns: median as u64,
                high_ns: median as u64 + 9_000,
                steal_share: 0.0,
                others_share: None,
            });
        }
        quiet.conclude();
        quiet
    }

    /// Medians around `level`, within `width` of it either way.
    fn around(level: f64, width: f64, n: usize, seed: u64) -> Vec<f64> {
        let mut rng = SplitMix64::new(seed);
        (0..n).map(|_| level * (1.0 + width * (2.0 * rng.unit() - 1.0))).collect()
    }

    #[test]
    fn quiet_and_noisy_are_told_apart() {
        let quiet = found(around(50_000.0, 0.03, 40, 1));
        assert_eq!((quiet.state, quiet.changes.len()), (HostState::Quiet, 0));
        assert!(quiet.scatter.unwrap() < 0.03, "{quiet:?}");
        let noisy = found(around(50_000.0, 0.6, 40, 2));
        assert_eq!(noisy.state, HostState::Noisy);
        assert!(noisy.scatter.unwrap() > NOISY);
        let few = found(around(50_000.0, 0.6, 5, 3));
        assert_eq!((few.state, few.scatter), (HostState::Unknown, None));
        assert!(few.sentence().unwrap().contains("5 times, too few"));
        assert_eq!(HostQuiet::default().sentence(), None);
    }

    #[test]
    fn a_change_for_good_is_drift_and_no_noise() {
        let mut medians = around(50_000.0, 0.03, 20, 4);
        medians.extend(around(80_000.0, 0.03, 20, 5));
        let quiet = found(medians);
        assert_eq!((quiet.state, quiet.changes.len()), (HostState::Drifting, 1));
        assert_eq!(quiet.changes[0].at_ms, 1_020_000);
        assert!(quiet.scatter.unwrap() < 0.05);
        let said = quiet.sentence().unwrap();
        assert!(said.contains("at first and") && said.contains("after 20 s"), "{said}");
    }

    #[test]
    fn a_host_that_goes_to_and_fro_has_two_levels() {
        let mut rng = SplitMix64::new(6);
        let low = around(50_000.0, 0.02, 60, 7);
        let medians = low.iter().map(|ns| if rng.unit() < 0.4 { ns * 1.6 } else { *ns });
        let quiet = found(medians);
        assert_eq!(quiet.state, HostState::TwoLevels, "{quiet:?}");
        let [low, high] = quiet.regimes.unwrap();
        assert!(high.centre / low.centre > 1.5);
        assert!(quiet.sentence().unwrap().contains("took now"));
    }

    #[test]
    fn what_was_found_survives_json() {
        let mut quiet = found(around(50_000.0, 0.03, 8, 8));
        quiet.settled(SettlingOutcome {
            waited: Nanos::from_secs(10),
            disturbed: Some(Disturbance { by: Disturber::Programs, share: 0.5 }),
        });
        let json = serde_json::to_string(&quiet).unwrap();
        assert_eq!(serde_json::from_str::<HostQuiet>(&json).unwrap(), quiet);
        assert!(json.contains(r#""disturbed":{"by":"programs","share":0.5}"#), "{json}");
    }
}
