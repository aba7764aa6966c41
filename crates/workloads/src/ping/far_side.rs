//! Far end as its answers show it: its clock, delays one way, and the way on which messages were lost.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::clock::{ClockTrack, Echo};
use deadheat_contract::measurements::far_view::DelaySums;
use deadheat_contract::measurements::moments::Delays;
use deadheat_contract::measurements::{ClockEstimate, FarView};
use deadheat_contract::workload::header::{FarStamps, Reflected, ReflectorClock};

use super::far_counts::FarCounts;

/// Times of one round trip on the near clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct TripTimes {
    pub(super) due: Nanos,
    pub(super) sent: Nanos,
    pub(super) answered: Nanos,
}

/// Sums of the far end's statements.
#[derive(Default)]
pub(super) struct FarSide {
    pub(super) counts: FarCounts,
    clock: ClockTrack,
    up: DelaySummary,
    down: DelaySummary,
    on_path: DelaySummary,
    clock_error_us: Option<u32>,
    is_remade: bool,
}

impl FarSide {
    /// Adds the far end's times of a round trip.
    pub(super) fn note(&mut self, times: TripTimes, measures: bool, stamps: FarStamps) {
        let clock = stamps.reflected.map(|Reflected { clock, .. }| clock);
        self.is_remade |= clock.is_some();
        if clock == Some(ReflectorClock::Unsaid) {
            return;
        }
        let TripTimes { due, sent, answered } = times;
        let far_received = stamps.received_ns;
        let far_sent = stamps.sent_ns.max(far_received);
        if clock != Some(ReflectorClock::Unsynchronised) {
            self.clock.note(&Echo {
                near_sent: sent.0,
                far_received,
                far_sent,
                near_received: answered.0,
            });
        }
        if let Some(ReflectorClock::Synchronised { error_us }) = clock {
            self.clock_error_us = self.clock_error_us.max(Some(error_us));
        }
        [&mut self.up, &mut self.down, &mut self.on_path]
            .into_iter()
            .for_each(DelaySummary::prepare);
        if !measures {
            return;
        }
        let between = |from: u64, to: u64| to.wrapping_sub(from) as i64;
        let round_trip = between(due.0, answered.0);
        self.on_path.add(round_trip.saturating_sub(between(far_received, far_sent)));
        if clock != Some(ReflectorClock::Unsynchronised) {
            self.up.add(between(due.0, far_received));
            self.down.add(between(far_sent, answered.0));
        }
    }

    /// Returns the far clock against the near one; `None` without times of a clock that may be compared.
    pub(super) fn clock(&self) -> Option<ClockEstimate> {
        self.clock.estimate()
    }

    /// Returns the sums; `None` without a statement. Measured messages are numbered from `first` to before `end`.
    pub(super) fn view(&self, first: u64, end: u64) -> Option<Box<FarView>> {
        let (on_path, split) = (self.on_path.sums(), self.counts.split(first, end));
        let says_something = self.is_remade || on_path.is_some();
        says_something.then(|| {
            Box::new(FarView {
                up: self.up.sums(),
                down: self.down.sums(),
                on_path,
                split,
                echoes: self.clock.echoes(),
                clock_error_us: self.clock_error_us,
                is_remade: self.is_remade,
            })
        })
    }
}

/// Delays of measured messages. Their memory is taken with the first answer that says times, which is in the warm-up.
#[derive(Default)]
struct DelaySummary(Option<Delays>);

impl DelaySummary {
    fn prepare(&mut self) {
        if self.0.is_none() {
            self.0 = Delays::new().ok();
        }
    }

    #[inline]
    fn add(&mut self, ns: i64) {
        if let Some(delays) = &mut self.0 {
            delays.add(ns);
        }
    }

    fn sums(&self) -> Option<DelaySums> {
        let delays = self.0.as_ref()?;
        Some(DelaySums { least_ns: delays.least()?, above: delays.above_least() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Round trips of 100 messages over 7 ms up and 2 ms down, to a clock that is `ahead` and takes 1 ms to answer.
    fn seen(ahead: i64, clock: Option<ReflectorClock>) -> FarSide {
        let mut far = FarSide::default();
        for number in 0..120 {
            let due = Nanos(10 * MS * (number + 1));
            let sent = due + Nanos(1_000);
            let there = sent.0 + 7 * MS;
            let far_time = |near: u64| near.wrapping_add_signed(ahead);
            let reflected = clock.map(|clock| Reflected { count: None, clock });
            let stamps = FarStamps {
                received_ns: far_time(there),
                sent_ns: far_time(there + MS),
                reflected,
            };
            let times = TripTimes { due, sent, answered: Nanos(there + 3 * MS) };
            let measures = number >= 20;
            far.note(times, measures, stamps);
        }
        far
    }

    #[test]
    fn delays_one_way_are_those_of_the_path_once_the_clocks_are_known() {
        for ahead in [0, 4_000_000_000_000_000_000, -900_000] {
            let view = seen(ahead, Some(ReflectorClock::Steady)).view(20, 120).unwrap();
            let median = |sums: &Option<DelaySums>, offset| sums.as_ref()?.median_ns(offset);
            assert_eq!(median(&view.up, ahead), Some(7.001e6), "from the due time");
            assert_eq!(median(&view.down, -ahead), Some(2e6));
            assert_eq!(median(&view.on_path, 0), Some(9.001e6), "without the far end's time");
            assert_eq!(view.on_path.unwrap().above.n, 100, "the warm-up is left out");
            assert!(view.is_remade && view.split.is_none() && !view.echoes.is_empty());
            assert_eq!(view.echoes[0].round_trip(), 9 * MS);
        }
    }

    #[test]
    fn a_clock_that_is_not_synchronised_gives_the_round_trip_alone() {
        let far = seen(5_000, Some(ReflectorClock::Unsynchronised));
        let view = far.view(20, 120).unwrap();
        assert_eq!((view.up, view.down, far.clock()), (None, None, None));
        assert!(view.on_path.is_some() && view.echoes.is_empty());
        let error = ReflectorClock::Synchronised { error_us: 30 };
        assert_eq!(seen(5_000, Some(error)).view(20, 120).unwrap().clock_error_us, Some(30));
        let unsaid = seen(0, Some(ReflectorClock::Unsaid)).view(20, 120).unwrap();
        assert_eq!((unsaid.on_path, unsaid.is_remade), (None, true));
        let ours = seen(0, None).view(20, 120).unwrap();
        assert!(!ours.is_remade && ours.up.is_some());
    }

    #[test]
    fn a_far_end_without_times_is_not_seen() {
        assert_eq!(FarSide::default().view(0, 9), None);
    }
}
