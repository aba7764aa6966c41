//! Bytes that had arrived at the bounds of phases, for work without numbered messages.

use std::collections::BTreeMap;

use deadheat_base::time::Nanos;

use super::phases::{Phases, goodput_name};
use crate::measurements::Phase;

/// Bounds of the phases in order of time, with the bytes that had arrived at each.
pub(super) struct PhaseMarks {
    bounds: [Nanos; BOUNDS],
    passed: [(Nanos, u64); BOUNDS],
    next: usize,
}

/// Number of bounds: two of each phase.
const BOUNDS: usize = 2 * Phase::ALL.len();

impl PhaseMarks {
    /// Creates the bounds of the phases of work that lasts for `whole`. The last phase ends before the work does,
    /// because an idle end does not read the clock.
    pub(super) fn new(phases: &Phases, whole: Nanos) -> PhaseMarks {
        let mut bounds = [Nanos::ZERO; BOUNDS];
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            let (from, to) = phases.span(phase, whole - phases.ahead());
            (bounds[2 * at], bounds[2 * at + 1]) = (from, to);
        }
        PhaseMarks { bounds, passed: [(Nanos::ZERO, 0); BOUNDS], next: 0 }
    }

    /// Returns true if a bound has been passed at `since_begin`, so that [`PhaseMarks::pass`] must be called.
    #[inline]
    pub(super) fn is_due(&self, since_begin: Nanos) -> bool {
        self.next < BOUNDS && since_begin >= self.bounds[self.next]
    }

    /// Notes the bytes that have arrived by `since_begin`.
    pub(super) fn pass(&mut self, since_begin: Nanos, bytes: u64) {
        while self.is_due(since_begin) {
            self.passed[self.next] = (since_begin, bytes);
            self.next += 1;
        }
    }

    /// Returns the goodput in each phase that has been passed.
    pub(super) fn figures(&self) -> BTreeMap<String, f64> {
        let of = |(at, phase): (usize, Phase)| {
            let (from, to) = (self.passed[2 * at], self.passed[2 * at + 1]);
            let is_known = 2 * at + 1 < self.next && to.0 > from.0;
            let bits = 8e9 * to.1.saturating_sub(from.1) as f64;
            is_known.then(|| (goodput_name(phase), bits / (to.0 - from.0).0 as f64))
        };
        Phase::ALL.into_iter().enumerate().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::phases::Stint;
    use super::*;

    #[test]
    fn each_phase_has_the_rate_between_its_own_bounds() {
        let ms = Nanos::from_millis;
        let stint = Stint { from: ms(1_000), lasts: ms(1_000) };
        let phases = Phases { stint, guard: ms(100), judged: None };
        let mut marks = PhaseMarks::new(&phases, ms(3_000));
        // 1 MB/s alone, 0.5 beside the load: a look each millisecond.
        for at in 0..=3_000u64 {
            let loaded = at.clamp(1_000, 2_000) - 1_000;
            if marks.is_due(ms(at)) {
                marks.pass(ms(at), 1_000 * at - 500 * loaded);
            }
        }
        let figures = marks.figures();
        let goodput = |phase: &str| figures[&format!("goodput_{phase}_bps")];
        assert_eq!([goodput("before"), goodput("during"), goodput("after")], [8e6, 4e6, 8e6]);
    }

    #[test]
    fn a_phase_that_was_not_seen_to_its_end_has_no_rate() {
        let stint = Stint { from: Nanos(1_000), lasts: Nanos(1_000) };
        let phases = Phases { stint, guard: Nanos(100), judged: None };
        let mut marks = PhaseMarks::new(&phases, Nanos(3_000));
        marks.pass(Nanos(0), 0);
        marks.pass(Nanos(1_500), 7);
        assert_eq!(marks.figures().len(), 1);
    }
}
