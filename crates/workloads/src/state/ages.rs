//! Age of a receiver's state over time, and error of the shown position.
//!
//! The age at a time is the time since the newest arrived update was due (age of information: Kaul, Yates and Gruteser,
//! INFOCOM 2012). It grows with time and falls with each newer update, so its mean is the area of a saw divided by its
//! length, and its quantiles are over time, not over updates.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Tally;
use deadheat_stats::quantile::{nearest_rank, quantile_sorted};

use super::motion::{Display, Motion};
use crate::paced::Measure;
use crate::paced::saw::{self, Tooth};

/// Motion of a state, and its display.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Showing {
    pub(crate) motion: Motion,
    pub(crate) display: Display,
    /// Phase by which its motion is ahead of the others'.
    pub(crate) phase: Nanos,
    /// Interval between two updates.
    pub(crate) period: Nanos,
}

/// Arrivals in their order.
pub(crate) struct Ages {
    showing: Showing,
    /// Due time and arrival of each update.
    arrivals: Vec<(Nanos, Nanos)>,
    /// Number of updates that were or will be sent.
    count: u64,
}

/// Frames per second of the display.
const FRAMES: u64 = 60;

impl Ages {
    pub(crate) fn new(count: u64, showing: Showing) -> Ages {
        Ages { showing, arrivals: Vec::with_capacity(count as usize), count }
    }

    /// Returns the age over time, from the first arrival to the last.
    pub(super) fn teeth(&self) -> Vec<Tooth> {
        saw::teeth(self.arrivals.iter().copied())
    }

    /// Returns the total and the longest time in which the newest state was older than two periods and the least delay:
    /// one update may be missing, two may not.
    fn stalls(&self, teeth: &[Tooth]) -> (u64, u64) {
        let delays = self.arrivals.iter().map(|(due, came)| (*came - *due).0);
        let bound = delays.min().unwrap_or(0) + 2 * self.showing.period.0;
        let (mut sum, mut longest, mut running) = (0, 0, 0);
        for tooth in teeth {
            let stalled = (tooth.from + tooth.lasted).saturating_sub(bound.max(tooth.from));
            // An arrival that leaves the age above the bound does not end a stall.
            running = if tooth.from > bound { running + stalled } else { stalled };
            sum += stalled;
            longest = longest.max(running);
        }
        (sum, longest)
    }

    /// Returns the playout delay with which at most one update in a hundred is late or lost; `None` if more are lost.
    fn playout(&self) -> Option<u64> {
        let mut delays: Vec<u64> =
            self.arrivals.iter().map(|(due, came)| (*came - *due).0).collect();
        delays.sort_unstable();
        let rank = nearest_rank(self.count, 0.99)? as usize;
        delays.get(rank - 1).copied()
    }

    /// Returns the position and the speed at a time.
    fn moved(&self, time: Nanos) -> (f64, f64) {
        self.showing.motion.at(time + self.showing.phase)
    }

    /// Returns the error of the shown position, in each frame.
    pub(super) fn errors(&self) -> Vec<f64> {
        let (Some(first), Some(last)) = (self.arrivals.first(), self.arrivals.last()) else {
            return Vec::new();
        };
        let frame = Nanos(1_000_000_000 / FRAMES);
        let mut errors = Vec::new();
        let (mut now, mut arrived) = (first.1, 0);
        // Due times of the updates that have arrived.
        let mut known: Vec<Nanos> = Vec::new();
        while now <= last.1 {
            while let Some((due, _)) = self.arrivals.get(arrived).filter(|(_, came)| *came <= now) {
                let place = known.partition_point(|other| other < due);
                known.insert(place, *due);
                arrived += 1;
            }
            if let Some(shown) = self.shown(&known, now) {
                errors.push((shown - self.moved(now).0).abs().min(1.0));
            }
            now += frame;
        }
        errors
    }

    /// Returns the position shown at `now`; `None` before the first update.
    fn shown(&self, known: &[Nanos], now: Nanos) -> Option<f64> {
        let newest = *known.last()?;
        match self.showing.display {
            Display::Hold => Some(self.moved(newest).0),
            Display::Extrapolate => {
                let (position, speed) = self.moved(newest);
                Some(position + speed * (now - newest).0 as f64 / 1e9)
            }
            Display::Interpolate(playout) => {
                let then = now - playout;
                let after = known.partition_point(|due| *due <= then);
                match (after.checked_sub(1).map(|at| known[at]), known.get(after)) {
                    (Some(before), Some(after)) => {
                        let share = (then - before).0 as f64 / (*after - before).0.max(1) as f64;
                        let (from, to) = (self.moved(before).0, self.moved(*after).0);
                        Some(from + (to - from) * share)
                    }
                    (Some(before), None) => Some(self.moved(before).0),
                    (None, after) => after.map(|due| self.moved(*due).0),
                }
            }
        }
    }
}

/// Returns the mean and the 99th percentile of errors; empty without errors.
pub(super) fn summed(mut errors: Vec<f64>) -> Vec<(&'static str, f64)> {
    errors.sort_unstable_by(f64::total_cmp);
    let Some(p99) = quantile_sorted(&errors, 0.99) else { return Vec::new() };
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    vec![("error_mean_share", mean), ("error_p99_share", p99)]
}

impl Measure for Ages {
    const BYTES_EACH: u64 = size_of::<(Nanos, Nanos)>() as u64;

    #[inline]
    fn note(&mut self, now: Nanos, _seq: u64, due: Option<Nanos>, _received: &Tally) {
        if let Some(due) = due.filter(|_| (self.arrivals.len() as u64) < self.count) {
            self.arrivals.push((due, now));
        }
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let teeth = self.teeth();
        let total: f64 = teeth.iter().map(|tooth| tooth.lasted as f64).sum();
        let mean = saw::mean(&teeth)?;
        let greatest = teeth.iter().map(|tooth| tooth.from + tooth.lasted).max()?;
        let (stalled, longest) = self.stalls(&teeth);
        let mut figures = vec![
            ("age_mean_ns", mean),
            ("age_p99_ns", saw::quantile(&teeth, 0.99)),
            ("age_max_ns", greatest as f64),
            ("stall_share", stalled as f64 / total),
            ("stall_max_ns", longest as f64),
        ];
        figures.extend(summed(self.errors()));
        figures.extend(self.playout().map(|delay| ("playout_p99_ns", delay as f64)));
        Some(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Updates every 10 ms, with what came when, in ms.
    fn ages(display: Display, arrivals: &[(u64, u64)]) -> Ages {
        let showing =
            Showing { motion: Motion::Sine, display, phase: Nanos::ZERO, period: Nanos(10 * MS) };
        let mut ages = Ages::new(100, showing);
        for (due, came) in arrivals {
            let (due, now) = (Nanos(due * MS), Nanos(came * MS));
            ages.note(now, due.0, Some(due), &Tally::default());
        }
        ages
    }

    fn figure(ages: &Ages, name: &str) -> f64 {
        ages.figures().unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn an_even_stream_ages_from_the_delay_to_a_period_more() {
        let arrivals: Vec<(u64, u64)> = (0..101).map(|n| (10 * n, 10 * n + 25)).collect();
        let ages = ages(Display::Hold, &arrivals[..100]);
        assert_eq!(figure(&ages, "age_mean_ns"), (25 + 5) as f64 * MS as f64);
        assert_eq!(figure(&ages, "age_max_ns"), 35.0 * MS as f64);
        assert_eq!(figure(&ages, "age_p99_ns"), 34.9 * MS as f64);
        assert_eq!(figure(&ages, "stall_max_ns"), 0.0);
        assert_eq!(figure(&ages, "playout_p99_ns"), 25.0 * MS as f64);
    }

    #[test]
    fn a_gap_is_a_stall_and_what_is_overtaken_changes_nothing() {
        // 10 comes late and is old then; 20 and 30 are lost; 40 ends it.
        let ages = ages(Display::Hold, &[(0, 5), (10, 32), (40, 45)]);
        let teeth =
            [Tooth { from: 5 * MS, lasted: 27 * MS }, Tooth { from: 22 * MS, lasted: 13 * MS }];
        assert_eq!(ages.teeth(), teeth);
        // Older than 5 + 20 ms: from 25 to 32, and from 35 to 45.
        assert_eq!(ages.stalls(&teeth), (17 * MS, 10 * MS));
        let overtaken = super::tests::ages(Display::Hold, &[(10, 15), (0, 20), (20, 60)]);
        let teeth = overtaken.teeth();
        assert_eq!(teeth[1], Tooth { from: 10 * MS, lasted: 40 * MS });
    }

    #[test]
    fn lost_updates_are_late_for_any_playout() {
        let almost: Vec<(u64, u64)> = (0..98).map(|n| (10 * n, 10 * n + 1)).collect();
        assert_eq!(ages(Display::Hold, &almost).playout(), None);
    }

    #[test]
    fn what_is_shown_is_wrong_by_the_way_since_its_update() {
        let arrivals: Vec<(u64, u64)> = (0..100).map(|n| (10 * n, 10 * n + 50)).collect();
        let error = |display| figure(&ages(display, &arrivals), "error_mean_share");
        // A swing passes two ranges a second: 50 to 60 ms later it is 0.11 away, on average.
        let hold = error(Display::Hold);
        assert!((0.10..0.12).contains(&hold), "{hold}");
        // With its speed known, only the bend is missed.
        assert!(error(Display::Extrapolate) < hold / 5.0);
        // Later by 60 ms, but on the curve.
        let late = error(Display::Interpolate(Nanos(60 * MS)));
        assert!((0.11..0.13).contains(&late), "{late}");
    }
}
