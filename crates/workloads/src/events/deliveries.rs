//! Deliveries of events: their times, the causes of their waiting, and the age of the state beside them.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use crate::paced::{ArrivalTimes, Measure, Quantiles, saw, waits};
use deadheat_contract::workload::load::Item;

/// A message of either kind.
#[derive(Debug, Clone, Copy)]
struct Message {
    is_event: bool,
    /// Due time and arrival.
    arrival: Option<(Nanos, Nanos)>,
}

/// Messages by number.
pub(crate) struct Deliveries {
    messages: Vec<Message>,
    event_size: usize,
    state_size: usize,
    /// Number of events that have not arrived.
    missing: u64,
    /// Times of the events that arrived since the last report.
    times: RoundTrips,
}

/// Numbers of the streams, which may hold each other back.
const STATE: usize = 0;
const EVENTS: usize = 1;

impl Deliveries {
    /// Creates the deliveries of messages, which are events where `kinds` is true, and else updates of the state.
    pub(crate) fn new(kinds: Vec<bool>, event_size: usize, state_size: usize) -> Deliveries {
        let missing = kinds.iter().filter(|is_event| **is_event).count() as u64;
        let message = |is_event| Message { is_event, arrival: None };
        let messages = kinds.into_iter().map(message).collect();
        let times = RoundTrips::default();
        Deliveries { messages, event_size, state_size, missing, times }
    }

    /// Returns the deliveries of a receiver that gets the updates of the state alone.
    pub(crate) fn of_state_alone(self) -> Deliveries {
        Deliveries { missing: 0, ..self }
    }

    fn arrived(&self) -> impl Iterator<Item = ArrivalTimes> + '_ {
        self.messages.iter().filter_map(|message| {
            let (due, came) = message.arrival?;
            Some(ArrivalTimes { stream: if message.is_event { EVENTS } else { STATE }, due, came })
        })
    }

    /// Returns the mean age of the state, over time.
    fn age(&self) -> Option<f64> {
        let state = self.arrived().filter(|message| message.stream == STATE);
        let mut arrivals: Vec<(Nanos, Nanos)> =
            state.map(|update| (update.due, update.came)).collect();
        arrivals.sort_by_key(|(_, came)| *came);
        saw::mean(&saw::teeth(arrivals.iter().copied()))
    }
}

impl Measure for Deliveries {
    const BYTES_EACH: u64 = size_of::<Message>() as u64;

    #[inline]
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, _received: &Tally) {
        let message = self.messages.get_mut(seq as usize).filter(|one| one.arrival.is_none());
        if let (Some(message), Some(due)) = (message, due) {
            message.arrival = Some((due, now));
            if message.is_event {
                self.missing = self.missing.saturating_sub(1);
                self.times.add((now - due).0);
            }
        }
    }

    fn numbered(&self, seq: u64, _bytes: &[u8]) -> (u64, Option<usize>) {
        (seq, self.length(seq))
    }

    fn items(&self) -> Vec<Item> {
        let event = |message: &Message| Item {
            due: message.arrival.map(|(due, _)| due),
            took: message.arrival.map(|(due, came)| came - due),
            bytes: if message.arrival.is_some() { self.event_size as u64 } else { 0 },
        };
        self.messages.iter().filter(|message| message.is_event).map(event).collect()
    }

    fn take_times(&mut self) -> RoundTrips {
        std::mem::take(&mut self.times)
    }

    fn is_waiting(&self) -> bool {
        self.missing > 0
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let events = || self.arrived().filter(|message| message.stream == EVENTS);
        let age = self.age().map(|age| ("state_age_mean_ns", age));
        let times = Quantiles::of(events().map(|event| (event.came - event.due).0).collect());
        let Some(times) = times else { return age.map(|age| vec![age]) };
        let sent = times.count() as usize + self.missing as usize;
        let held = waits(self.arrived(), 2, Nanos(times.least()));
        let mut figures = vec![
            ("delivery_mean_ns", times.mean()),
            ("delivery_max_ns", times.greatest() as f64),
            ("undelivered_share", self.missing as f64 / sent as f64),
            ("held_by_events_mean_ns", held[EVENTS].by_own as f64 / times.count()),
            ("held_by_state_mean_ns", held[EVENTS].by_others as f64 / times.count()),
        ];
        let quantiles = [("delivery_p50_ns", 0.5), ("delivery_p99_ns", 0.99)];
        let known = quantiles.map(|(name, q)| Some((name, times.among(q, sent)? as f64)));
        figures.extend(known.into_iter().flatten());
        figures.extend(age);
        Some(figures)
    }
}

impl Deliveries {
    /// Returns the length of message `seq`; `None` if it is not of the work.
    fn length(&self, seq: u64) -> Option<usize> {
        let message = self.messages.get(seq as usize)?;
        Some(if message.is_event { self.event_size } else { self.state_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Messages that are events or not, when they were due and when they came, in ms; 0 for one that did not.
    fn deliveries(messages: &[(bool, u64, u64)]) -> Deliveries {
        let kinds = messages.iter().map(|(is_event, ..)| *is_event).collect();
        let mut deliveries = Deliveries::new(kinds, 64, 200);
        for (seq, (_, due, came)) in messages.iter().enumerate().filter(|(_, one)| one.2 > 0) {
            let (due, now) = (Nanos(due * MS), Nanos(came * MS));
            deliveries.note(now, seq as u64, Some(due), &Tally::default());
        }
        deliveries
    }

    fn figure(deliveries: &Deliveries, name: &str) -> f64 {
        deliveries.figures().unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1 / MS as f64
    }

    /// The state of time 10 is lost and comes at 60 where it is sent again.
    #[test]
    fn an_event_waits_for_state_only_where_they_share_an_order() {
        let shared = [
            (false, 0, 10),
            (true, 5, 15),
            (false, 10, 60),
            (true, 12, 60),
            (false, 20, 60),
            (true, 25, 60),
            (false, 60, 90),
        ];
        let shared = deliveries(&shared);
        // Both could have been there 10 ms after they were due.
        assert_eq!(figure(&shared, "held_by_state_mean_ns"), (38.0 + 25.0) / 3.0);
        assert_eq!(figure(&shared, "held_by_events_mean_ns"), 0.0);
        assert_eq!(figure(&shared, "delivery_mean_ns"), (10.0 + 48.0 + 35.0) / 3.0);
        assert_eq!(figure(&shared, "delivery_p50_ns"), 35.0);
        assert_eq!(figure(&shared, "delivery_max_ns"), 48.0);
        // 10 to 60 ms for 50 ms, then, as the newest is of 20, 40 to 70 for 30.
        assert_eq!(figure(&shared, "state_age_mean_ns"), 42.5);
        let apart = deliveries(&[
            (false, 0, 10),
            (true, 5, 15),
            (false, 10, 0),
            (true, 12, 22),
            (false, 20, 30),
        ]);
        assert_eq!(figure(&apart, "held_by_state_mean_ns"), 0.0);
        assert_eq!(figure(&apart, "state_age_mean_ns"), 20.0);
    }

    #[test]
    fn events_in_order_wait_for_lost_ones() {
        let lost = deliveries(&[(true, 0, 10), (true, 5, 60), (true, 12, 60), (true, 60, 70)]);
        assert_eq!(figure(&lost, "held_by_events_mean_ns"), 38.0 / 4.0);
        assert_eq!(figure(&lost, "held_by_state_mean_ns"), 0.0);
    }

    #[test]
    fn a_receiver_of_the_state_alone_waits_for_no_event_and_has_the_age() {
        let state = deliveries(&[(false, 0, 10), (true, 5, 0), (false, 10, 20), (false, 20, 30)]);
        let mut state = state.of_state_alone();
        assert!(!state.is_waiting());
        assert_eq!(state.figures().unwrap(), [("state_age_mean_ns", 15.0 * MS as f64)]);
        // A peer that sends one nevertheless.
        state.note(Nanos(40 * MS), 1, Some(Nanos(5 * MS)), &Tally::default());
        assert!(!state.is_waiting());
    }

    #[test]
    fn what_is_not_delivered_is_slower_than_all() {
        let mut some = deliveries(&[(true, 0, 10), (true, 5, 0), (true, 12, 0), (false, 12, 22)]);
        assert!(some.is_waiting());
        assert_eq!((some.length(0), some.length(3), some.length(4)), (Some(64), Some(200), None));
        let figures = some.figures().unwrap();
        assert!(figures.contains(&("undelivered_share", 2.0 / 3.0)));
        assert!(figures.iter().all(|(name, _)| *name != "delivery_p50_ns"));
        for seq in [1, 2, 2] {
            some.note(Nanos(90 * MS), seq, Some(Nanos(MS)), &Tally::default());
        }
        assert!(!some.is_waiting());
        assert!(Deliveries::new(vec![true], 64, 200).figures().is_none());
    }
}
