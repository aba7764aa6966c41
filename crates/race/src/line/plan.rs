//! Plan of a survey: the kinds of trials for which its time has room, so that each has rounds enough for an interval, or
//! at least one. Pure.

use deadheat_base::time::Nanos;
use deadheat_result::line::part::{LinePart, LineTimes};

/// Kinds of trials, the most important first.
pub(super) const BY_IMPORTANCE: [LinePart; 7] = [
    LinePart::Idle,
    LinePart::Down8,
    LinePart::Up8,
    LinePart::Paced,
    LinePart::Down1,
    LinePart::Up1,
    LinePart::Both8,
];

/// Number of the first of these kinds that stay together, even in fewer rounds than an interval takes.
pub(super) const CORE: usize = 4;

/// Expected durations of trials.
#[derive(Debug, Clone)]
pub(super) struct LineCosts {
    times: LineTimes,
    /// Time that the start and the end of a trial's processes take.
    overhead: Nanos,
    /// Durations of trials so far.
    took: Vec<(LinePart, Nanos)>,
}

impl LineCosts {
    pub(super) fn new(times: LineTimes, overhead: Nanos) -> LineCosts {
        LineCosts { times, overhead, took: Vec::new() }
    }

    pub(super) fn add(&mut self, part: LinePart, took: Nanos) {
        self.took.push((part, took));
    }

    /// Returns the mean duration of the trials of a kind so far, or else what its work and its processes take.
    pub(super) fn of(&self, part: LinePart) -> Nanos {
        let own = || self.took.iter().filter(|(one, _)| *one == part);
        let sum: u64 = own().map(|(_, took)| took.0).sum();
        sum.checked_div(own().count() as u64).map_or_else(
            || match part.load() {
                // A load has processes and connections of its own.
                Some(_) => part.lasts(&self.times) + Nanos(self.overhead.0 / 2 * 3),
                None => part.lasts(&self.times) + self.overhead,
            },
            Nanos,
        )
    }

    /// Returns the duration of a round of these kinds.
    pub(super) fn round(&self, parts: &[LinePart]) -> Nanos {
        Nanos(parts.iter().map(|part| self.of(*part).0).sum())
    }

    /// Returns the first of `parts`, which are in the order of importance, of which `rounds` rounds fit into `left`. If
    /// not even the core fits so often, it is the core where that fits twice, or as many kinds as fit once.
    pub(super) fn fitting(&self, parts: &[LinePart], left: Nanos, rounds: u64) -> Vec<LinePart> {
        let takes = |n: usize, rounds: u64| self.round(&parts[..n]).0.saturating_mul(rounds);
        let most = |rounds| (1..=parts.len()).rev().find(|n| takes(*n, rounds) <= left.0);
        let core = CORE.min(parts.len());
        let n = match most(rounds) {
            Some(n) if n >= core => n,
            _ if takes(core, 2) <= left.0 => core,
            _ => most(1).unwrap_or(core.min(1)),
        };
        parts[..n].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(round_trip_ms: u64, overhead_ms: u64) -> LineCosts {
        let times = LineTimes::on(Nanos::from_millis(round_trip_ms));
        LineCosts::new(times, Nanos::from_millis(overhead_ms))
    }

    #[test]
    fn a_minute_has_six_rounds_on_a_usual_line() {
        let left = Nanos::from_secs(48);
        for (round_trip, overhead) in [(1, 100), (20, 300), (50, 300), (20, 700)] {
            let costs = costs(round_trip, overhead);
            let parts = costs.fitting(&BY_IMPORTANCE, left, 6);
            assert!(parts.len() >= CORE, "{round_trip} ms: {parts:?}");
            assert!(Nanos(6 * costs.round(&parts).0) <= left, "{round_trip} ms: {parts:?}");
        }
        let all = costs(1, 100).fitting(&BY_IMPORTANCE, left, 6);
        assert_eq!(all.len(), 7, "a fast host runs all kinds");
    }

    /// A load takes 12 s there.
    #[test]
    fn a_satellite_has_one_round_of_what_matters_most_and_no_trial_beyond_the_time() {
        let costs = costs(600, 500);
        let left = Nanos::from_secs(43);
        let parts = costs.fitting(&BY_IMPORTANCE, left, 6);
        assert_eq!(parts, BY_IMPORTANCE[..5]);
        assert!(costs.round(&parts) <= left);
        assert_eq!(costs.fitting(&BY_IMPORTANCE, Nanos::from_secs(20), 6).len(), 2);
        assert_eq!(costs.fitting(&BY_IMPORTANCE, Nanos::ZERO, 6), [LinePart::Idle]);
        assert_eq!(costs.fitting(&[], left, 6), []);
    }

    #[test]
    fn trials_that_ran_correct_the_expectation() {
        let mut costs = costs(20, 300);
        let expected = costs.of(LinePart::Up8);
        costs.add(LinePart::Up8, Nanos::from_secs(4));
        costs.add(LinePart::Up8, Nanos::from_secs(6));
        assert_eq!(costs.of(LinePart::Up8), Nanos::from_secs(5));
        assert_eq!(costs.of(LinePart::Down8), expected);
    }
}
