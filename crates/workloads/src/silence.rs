//! Times without an arrival at one end of a flow; long ones are outages.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{FEWEST_IN_OUTAGE, MOST_OUTAGES, Outage, SHORTEST_OUTAGE};

/// Monitor of the time without an arrival while messages are on their way.
#[derive(Debug)]
pub(super) struct Silence {
    /// Start of the flow at this end.
    began: Option<Nanos>,
    /// Send time of the latest message that is known to have got through; at first, the time of the first message.
    since: Option<Nanos>,
    /// Number of messages that were due or sent since the last arrival.
    waiting: u64,
    /// Shortest time of a message, there and back or one way.
    least: Option<Nanos>,
    found: Vec<Outage>,
}

impl Silence {
    pub(super) fn new() -> Silence {
        let found = Vec::with_capacity(MOST_OUTAGES);
        Silence { began: None, since: None, waiting: 0, least: None, found }
    }

    /// Notes that the flow is under way at `now`.
    #[inline]
    pub(super) fn begin(&mut self, now: Nanos) {
        self.began.get_or_insert(now);
    }

    /// Notes that the flow is under way at `now`, at an end that only receives, over a path that takes `transit`.
    #[inline]
    pub(super) fn begin_receiving(&mut self, now: Nanos, transit: Nanos) {
        if self.began.is_none() {
            (self.began, self.since, self.least) = (Some(now), Some(now), Some(transit));
        }
    }

    /// Notes the number of messages that were due since the last arrival, at an end that only receives.
    #[inline]
    pub(super) fn were_due(&mut self, messages: u64) {
        self.waiting = messages;
    }

    /// Notes that a message left at `now` that will be answered or acknowledged.
    #[inline]
    pub(super) fn sent(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
        self.waiting += 1;
    }

    /// Notes an arrival at `now`; its message took `way`, if that is known.
    #[inline]
    pub(super) fn arrived(&mut self, now: Nanos, way: Option<Nanos>) {
        self.least = match (self.least, way) {
            (Some(least), Some(way)) => Some(least.min(way)),
            (least, way) => least.or(way),
        };
        if let Some(outage) = self.until(now) {
            self.keep(outage);
        }
        (self.since, self.waiting) = (Some(now - self.least.unwrap_or_default()), 0);
    }

    /// Returns the outages so far; an outage that goes on ends at `now`.
    pub(super) fn outages(&self, now: Nanos) -> Vec<Outage> {
        let open = self.until(now).map(|outage| Outage { ended: Some(false), ..outage });
        self.found.iter().copied().chain(open).collect()
    }

    /// Returns the silence up to an arrival at `now`, if it is an outage.
    #[inline]
    fn until(&self, now: Nanos) -> Option<Outage> {
        let since = self.since.filter(|_| self.waiting >= FEWEST_IN_OUTAGE)?;
        let length = now - since - self.least.unwrap_or_default();
        (length >= SHORTEST_OUTAGE).then(|| Outage {
            from_ns: (since - self.began.unwrap_or(since)).0,
            length_ns: length.0,
            messages: self.waiting,
            ended: Some(true),
        })
    }

    /// Stores an outage, in place of the shortest if the list is full.
    #[cold]
    fn keep(&mut self, outage: Outage) {
        if self.found.len() < MOST_OUTAGES {
            self.found.push(outage);
            return;
        }
        let shortest = self.found.iter_mut().min_by_key(|outage| outage.length_ns);
        if let Some(shortest) = shortest.filter(|kept| kept.length_ns < outage.length_ns) {
            *shortest = outage;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn ended(from: u64, length: u64, messages: u64) -> Outage {
        Outage { from_ns: ms(from).0, length_ns: ms(length).0, messages, ended: Some(true) }
    }

    /// Sends a message each 20 ms for 10 s; those that `back` says come back, after 50 ms or then.
    fn run(back: impl Fn(Nanos) -> Option<Nanos>) -> Vec<Outage> {
        let mut silence = Silence::new();
        let mut events: Vec<(Nanos, Option<Nanos>)> = Vec::new();
        for at in (1_000..11_000).step_by(20).map(ms) {
            events.push((at, None));
            events.extend(back(at).map(|then| (then, Some(then - at))));
        }
        events.sort_by_key(|(at, _)| *at);
        silence.begin(ms(1_000));
        for (at, came) in events {
            match came {
                None => silence.sent(at),
                Some(way) => silence.arrived(at, Some(way)),
            }
        }
        silence.outages(ms(11_050))
    }

    #[test]
    fn a_link_that_is_down_is_an_outage_of_its_length_whether_messages_are_lost_or_late() {
        let down = ms(4_000)..ms(7_000);
        let lost = run(|at| (!down.contains(&at)).then(|| at + ms(50)));
        assert_eq!(lost, [ended(2_980, 3_020, 151)]);
        let late = run(|at| Some(if down.contains(&at) { ms(7_010) } else { at + ms(50) }));
        assert_eq!(late, [ended(2_980, 2_980, 149)]);
    }

    #[test]
    fn a_long_way_and_single_losses_are_none() {
        assert_eq!(run(|at| Some(at + ms(600))), []);
        assert_eq!(run(|at| (at.0 / 20_000_000 % 7 != 0).then(|| at + ms(50))), []);
    }

    #[test]
    fn one_that_outlasts_the_flow_is_told_up_to_its_end() {
        let cut = run(|at| (at < ms(9_000)).then(|| at + ms(50)));
        let last =
            Outage { messages: cut[0].messages, ended: Some(false), ..ended(7_980, 2_020, 0) };
        assert_eq!(cut, [last]);
    }

    #[test]
    fn the_longest_are_kept() {
        let mut silence = Silence::new();
        let mut now = ms(0);
        silence.begin(now);
        for length in 1..40 {
            (0..3).for_each(|_| silence.sent(now));
            now += ms(500 + length);
            silence.arrived(now, Some(ms(0)));
        }
        let outages = silence.outages(now);
        assert_eq!(outages.len(), MOST_OUTAGES);
        assert!(outages.iter().all(|outage| outage.length_ns > ms(520).0), "{outages:?}");
    }
}
