//! Delays of the messages of several streams, and the part of the delays due to waiting for others.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use crate::paced::{ArrivalTimes, Measure, Quantiles, Waits, waits};

/// Arrivals by number.
pub(super) struct Delays {
    streams: u16,
    /// Due time and arrival of each message.
    arrivals: Vec<Option<(Nanos, Nanos)>>,
    /// Delays of the messages that arrived since the last report.
    times: RoundTrips,
}

impl Delays {
    pub(super) fn new(messages: u64, streams: u16) -> Delays {
        Delays { streams, arrivals: vec![None; messages as usize], times: RoundTrips::default() }
    }

    /// Returns the time that messages waited for earlier ones, if the path takes `least`.
    fn waits(&self, least: Nanos) -> Waits {
        let streams = usize::from(self.streams.max(1));
        let all = self.arrivals.iter().enumerate();
        let arrived = all.filter_map(|(seq, arrival)| {
            let (due, came) = (*arrival)?;
            Some(ArrivalTimes { stream: seq % streams, due, came })
        });
        waits(arrived, streams, least).into_iter().fold(Waits::default(), |sum, one| Waits {
            by_own: sum.by_own + one.by_own,
            by_others: sum.by_others + one.by_others,
            messages: sum.messages + one.messages,
        })
    }
}

impl Measure for Delays {
    const BYTES_EACH: u64 = size_of::<Option<(Nanos, Nanos)>>() as u64;

    #[inline]
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, _received: &Tally) {
        if let (Some(slot), Some(due)) = (self.arrivals.get_mut(seq as usize), due) {
            *slot = Some((due, now));
            self.times.add((now - due).0);
        }
    }

    fn take_times(&mut self) -> RoundTrips {
        std::mem::take(&mut self.times)
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let all = self.arrivals.iter().flatten();
        let delays = Quantiles::of(all.map(|(due, came)| (*came - *due).0).collect())?;
        let (least, n) = (delays.least(), delays.count());
        let held = self.waits(Nanos(least));
        let wait = delays.sum() - least as f64 * n;
        Some(vec![
            ("delay_p99_ns", delays.at(0.99)),
            ("delay_p50_ns", delays.at(0.5)),
            ("delay_mean_ns", delays.mean()),
            ("delay_max_ns", delays.greatest() as f64),
            ("held_mean_ns", held.by_others as f64 / n),
            ("held_share", held.messages as f64 / n),
            ("held_of_wait_share", if wait > 0.0 { held.by_others as f64 / wait } else { 0.0 }),
            ("own_held_mean_ns", held.by_own as f64 / n),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Messages due every millisecond, which came at these milliseconds.
    fn delays(streams: u16, came: &[u64]) -> Delays {
        let mut delays = Delays::new(came.len() as u64, streams);
        for (seq, came) in came.iter().enumerate() {
            let (due, now) = (Nanos(seq as u64 * MS), Nanos(came * MS));
            delays.note(now, seq as u64, Some(due), &Tally::default());
        }
        delays
    }

    fn waits(delays: &Delays) -> (u64, u64, u64) {
        let Waits { by_own, by_others, messages } = delays.waits(Nanos(10 * MS));
        (by_own / MS, by_others / MS, messages)
    }

    /// The second of five is sent again and comes at 16. What shares its order waits for it.
    #[test]
    fn a_lost_message_holds_back_what_shares_its_order() {
        // One order for two streams: 12, 13 and 14 wait until 16, of which one is the lost one's own stream.
        assert_eq!(waits(&delays(2, &[10, 16, 16, 16, 16])), (3, 4 + 2, 2));
        // An order each: only the one of its own stream waits.
        assert_eq!(waits(&delays(2, &[10, 16, 12, 16, 14])), (3, 0, 0));
        // No order: nobody waits, and the lost one waited for nobody.
        assert_eq!(waits(&delays(2, &[10, 16, 12, 13, 14])), (0, 0, 0));
        // One stream: all waiting is its own.
        assert_eq!(waits(&delays(1, &[10, 16, 16, 16, 16])), (4 + 3 + 2, 0, 0));
    }

    #[test]
    fn what_does_not_come_is_in_no_delay() {
        let mut delays = Delays::new(3, 1);
        delays.note(Nanos(7), 1, Some(Nanos(2)), &Tally::default());
        delays.note(Nanos(7), 9, Some(Nanos(2)), &Tally::default());
        let figures = delays.figures().unwrap();
        assert_eq!((figures[0].1, figures[2].1), (5.0, 5.0));
        assert_eq!(Delays::new(3, 1).figures(), None);
    }

    #[test]
    fn live_times_are_those_of_the_messages_that_arrived_since_the_last_look() {
        let mut delays = delays(1, &[10, 16, 12]);
        let times = delays.take_times();
        let ms = [times.sum_ns, times.min_ns, times.max_ns].map(|ns| ns / MS);
        assert_eq!((times.n, ms), (3, [35, 10, 15]));
        assert!(delays.take_times().is_empty());
    }
}
