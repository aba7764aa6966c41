//! Endpoint on the clock of another host: it gets and gives times of the near host's clock, while connection and driver
//! run on this host's. Both ends of a trial so write and read stamps of one clock.

use deadheat_base::clocks::ClockMap;

use deadheat_base::error::Error;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{
    BulkPart, Endpoint, EndpointReport, FlowEvent, RecentTimes, Standing,
};

/// Endpoint behind a map of the clock.
pub(super) struct ShiftedEndpoint {
    half: Box<dyn Endpoint>,
    /// Map from this host's clock to the endpoint's.
    inward: ClockMap,
    /// Map from the endpoint's clock to this host's.
    outward: ClockMap,
}

impl ShiftedEndpoint {
    /// Puts `half` behind `clock`, the map from this host's clock to the endpoint's.
    pub(super) fn new(half: Box<dyn Endpoint>, clock: ClockMap) -> ShiftedEndpoint {
        ShiftedEndpoint { half, inward: clock, outward: clock.inverse() }
    }

    /// Returns the first time on this host's clock at which the endpoint's clock shows at least `due`.
    fn outward(&self, due: Nanos) -> Nanos {
        let time = self.outward.apply(due);
        // Both maps round.
        if self.inward.apply(time) < due { time + Nanos(1) } else { time }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Endpoint for ShiftedEndpoint {
    #[inline]
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        match self.half.poll(self.inward.apply(now), out) {
            Action::Wait(Some(due)) => Action::Wait(Some(self.outward(due))),
            action => action,
        }
    }

    fn on_sent(&mut self, now: Nanos) {
        self.half.on_sent(self.inward.apply(now));
    }

    fn on_no_room(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.half.on_no_room(self.inward.apply(now));
        due.map(|due| self.outward(due))
    }

    #[inline]
    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) {
        self.half.on_message(self.inward.apply(now), lane, bytes);
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        self.half.on_event(self.inward.apply(now), event);
    }

    fn bulk(&mut self) -> BulkPart<'_> {
        self.half.bulk()
    }

    fn failure(&mut self) -> Option<Error> {
        self.half.failure()
    }

    fn has_sent_all(&self) -> bool {
        self.half.has_sent_all()
    }

    fn standing(&mut self, now: Nanos) -> Standing {
        self.half.standing(self.inward.apply(now))
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.half.take_recent()
    }

    fn items(&self) -> Vec<Item> {
        self.half.items()
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        self.half.report(self.inward.apply(now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Half that waits for a time, and notes each time that it is given.
    struct Waiting {
        due: Nanos,
        given: Arc<Mutex<Vec<Nanos>>>,
    }

    impl Endpoint for Waiting {
        fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
            self.given.lock().unwrap().push(now);
            if now >= self.due { Action::Done } else { Action::Wait(Some(self.due)) }
        }
        fn on_sent(&mut self, _now: Nanos) {}
        fn on_message(&mut self, now: Nanos, _lane: Lane, _bytes: &[u8]) {
            self.given.lock().unwrap().push(now);
        }
        fn on_event(&mut self, _now: Nanos, _event: FlowEvent) {}
        fn has_sent_all(&self) -> bool {
            true
        }
        fn standing(&mut self, _now: Nanos) -> Standing {
            Standing::default()
        }
        fn report(&mut self, _now: Nanos) -> EndpointReport {
            EndpointReport::default()
        }
    }

    #[test]
    fn a_due_time_is_reached_once_and_on_both_clocks_however_far_they_are_apart() {
        const DAY: u64 = 86_400_000_000_000;
        for (here, there) in [(DAY, 400 * DAY), (400 * DAY, DAY)] {
            for gain_ppm in [100.0, -100.0, 33.3] {
                let clock = ClockMap { from_ns: Nanos(here), to_ns: Nanos(there), gain_ppm };
                let given = Arc::default();
                // 10 s later on the other clock.
                let due = Nanos(there + 10_000_000_000);
                let half = Box::new(Waiting { due, given: Arc::clone(&given) });
                let mut half = ShiftedEndpoint::new(half, clock);
                let Action::Wait(Some(until)) = half.poll(Nanos(here), &mut []) else {
                    panic!("it waits")
                };
                let here_ns = (until.0 - here) as f64 * (1.0 + gain_ppm * 1e-6);
                assert!((here_ns - 10e9).abs() < 3.0, "{here_ns}");
                assert_eq!(half.poll(until, &mut []), Action::Done, "{gain_ppm}");
                half.on_message(Nanos(here), Lane(0), b"x");
                assert_eq!(given.lock().unwrap().last(), Some(&Nanos(there)));
            }
        }
    }
}
