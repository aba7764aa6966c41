//! Search for the MTU of a path in one direction by probes (RFC 8899, section 5), as a state machine without socket and
//! clock.
//!
//! ```text
//! Base ──► Searching ──► Complete
//!   │          │ packets of a size that passed before vanish: a black hole (section 4.3)
//!   │          └──► Base
//!   └──► Failed: not even the smallest packets pass
//! ```
//! A size passes if any probe of that size is answered. It does not pass if none of at least `LEAST_TRIES` probes is
//! answered although as many of its companions are: a probe of the largest size that passed follows each. So neither
//! loss nor a path that is silent for a while is taken for a narrow path.

use deadheat_base::time::Nanos;

/// Least number of probes of one size without an answer after which the size does not pass (`MAX_PROBES`). It is more
/// than the 3 of the RFC, as these leave in quick succession, and one wrong conclusion would hold for a whole race.
const LEAST_TRIES: u32 = 6;

/// Largest number of probes of one size, on a path that loses most of them.
const MOST_TRIES: u32 = 30;

/// Time between two probes of one size: a quarter of the round trip, within these bounds.
const GAPS: [Nanos; 2] = [Nanos::from_millis(20), Nanos::from_millis(100)];

/// Shortest time for the answer to the last probe of a size (`PROBE_TIMER`). The RFC's second is for a sender with data
/// under way; these probes have the path for themselves, and the timer grows with the round trip.
const LEAST_TIMER: Nanos = Nanos::from_millis(200);

/// Number of round trips that the timer is long at least.
const TIMER_ROUND_TRIPS: u64 = 3;

/// Number of times that the path may fall silent until the search is given up.
const MOST_SILENCES: u32 = 3;

/// Number of probes whose times are remembered.
const REMEMBERED: usize = 64;

/// Sizes of IP packets that paths have as their MTU, in order: IPv6's least, tunnels, PPPoE, Ethernet, jumbo frames. The
/// search tries these first (RFC 8899, section 5.3.2).
const COMMON: &[u32] = &[
    576, 1_006, 1_280, 1_300, 1_340, 1_350, 1_358, 1_360, 1_372, 1_376, 1_380, 1_392, 1_400, 1_406,
    1_412, 1_420, 1_428, 1_430, 1_436, 1_440, 1_442, 1_450, 1_452, 1_454, 1_460, 1_472, 1_476,
    1_480, 1_488, 1_492, 1_500, 1_600, 2_000, 4_000, 4_352, 4_470, 8_192, 8_900, 8_950, 9_000,
    9_001, 9_180, 9_198, 9_216,
];

/// Sizes of IP packets between which the search takes place, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeBounds {
    /// Smallest size, which every path carries.
    pub least: u32,
    /// Size to begin with (`BASE_PLPMTU`).
    pub base: u32,
    /// Largest size: the MTU of the first link.
    pub most: u32,
}

impl ProbeBounds {
    /// Returns the bounds for a first link with this MTU, over IPv6 or IPv4.
    pub fn of(most: u32, is_ipv6: bool) -> ProbeBounds {
        // RFC 8200, section 5; RFC 791, section 3.1.
        let least = if is_ipv6 { 1_280 } else { 576 };
        let most = most.max(least);
        ProbeBounds { least, base: 1_280.min(most), most }
    }
}

/// Phase of a search (RFC 8899, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchPhase {
    /// Base: it is not known yet that anything passes.
    Base,
    /// Searching: larger sizes are tried.
    Searching,
    /// Complete: the largest size is known.
    Complete,
    /// Failed: nothing passes, or the path fell silent too often.
    Failed,
}

/// Reason for which packets beyond the found size do not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeBarrier {
    /// First link: it takes no larger ones.
    FirstLink,
    /// Announced by a router or host (ICMP), or refused by the kernel that sends them.
    Announced,
    /// Black hole: they vanish without a message.
    Vanished,
}

/// Next step of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchStep {
    /// Send a probe.
    Probe {
        /// Its number, which its answer repeats.
        number: u32,
        /// Size of its IP packet.
        size: u32,
    },
    /// Wait for answers, at most until this time.
    Wait(Nanos),
    /// The search is over.
    Done,
}

/// Size under test.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    size: u32,
    /// Number of its first probe.
    first: u32,
    /// Number of its probes that were sent.
    tries: u32,
    /// Number of its probes that are sent before the next conclusion.
    round: u32,
    /// True if a probe of the confirmed size is to follow the last one.
    owes_companion: bool,
    /// Number of these companions that were answered.
    companions: u32,
    /// Time of the next probe, or of the conclusion.
    due: Nanos,
}

/// Probe that was sent.
#[derive(Debug, Clone, Copy, Default)]
struct SentProbe {
    number: u32,
    size: u32,
    at: Nanos,
}

/// Search for the path MTU in one direction.
#[derive(Debug)]
pub struct MtuSearch {
    bounds: ProbeBounds,
    phase: SearchPhase,
    /// Largest size that passed; 0 for none.
    confirmed: u32,
    /// Smallest size that does not pass.
    refused: u32,
    /// Reason for which it does not.
    beyond: SizeBarrier,
    candidate: Option<Candidate>,
    /// True if no probe of the base was answered, so that the least size is tried.
    is_base_silent: bool,
    next_number: u32,
    sent: [SentProbe; REMEMBERED],
    /// Longest round trip so far.
    round_trip: Nanos,
    silences: u32,
}

impl MtuSearch {
    /// Creates a search on a path with about this round trip.
    pub fn new(bounds: ProbeBounds, round_trip: Nanos) -> MtuSearch {
        MtuSearch {
            bounds,
            phase: SearchPhase::Base,
            confirmed: 0,
            refused: bounds.most + 1,
            beyond: SizeBarrier::FirstLink,
            candidate: None,
            is_base_silent: false,
            next_number: 1,
            sent: [SentProbe::default(); REMEMBERED],
            round_trip,
            silences: 0,
        }
    }

    /// Returns the phase.
    pub fn phase(&self) -> SearchPhase {
        self.phase
    }

    /// Returns the path MTU and the reason for which larger packets do not pass, once the search is complete.
    pub fn found(&self) -> Option<(u32, SizeBarrier)> {
        (self.phase == SearchPhase::Complete).then_some((self.confirmed, self.beyond))
    }

    /// Returns the next step at `now`.
    pub fn poll(&mut self, now: Nanos) -> SearchStep {
        loop {
            if matches!(self.phase, SearchPhase::Complete | SearchPhase::Failed) {
                return SearchStep::Done;
            }
            let (timer, gap) = (self.timer(), self.gap());
            let Some(candidate) = &mut self.candidate else {
                self.choose(now);
                continue;
            };
            if candidate.owes_companion {
                candidate.owes_companion = false;
                let size = self.confirmed;
                return self.probe(now, size);
            }
            if now < candidate.due {
                return SearchStep::Wait(candidate.due);
            }
            if candidate.tries == candidate.round {
                self.conclude();
                continue;
            }
            candidate.tries += 1;
            candidate.due = now + if candidate.tries == candidate.round { timer } else { gap };
            candidate.owes_companion = self.confirmed > 0;
            let size = candidate.size;
            return self.probe(now, size);
        }
    }

    /// Returns the size of the probe with this number, if it is remembered and was not answered.
    pub fn size_of(&self, number: u32) -> Option<u32> {
        self.sent(number).map(|sent| sent.size)
    }

    /// Takes the answer to the probe with this number: its size passes.
    pub fn on_echo(&mut self, now: Nanos, number: u32) {
        let Some(SentProbe { size, at, .. }) = self.sent(number) else { return };
        // A copy of an answer proves nothing more.
        self.sent[number as usize % REMEMBERED] = SentProbe::default();
        self.round_trip = self.round_trip.max(now - at);
        if size >= self.refused {
            // It was late, and not lost.
            self.refused = self.bounds.most + 1;
            self.beyond = SizeBarrier::FirstLink;
            self.phase = SearchPhase::Searching;
        }
        self.confirmed = self.confirmed.max(size);
        if self.phase == SearchPhase::Base {
            self.phase = SearchPhase::Searching;
        }
        let gap = self.gap();
        let Some(candidate) = &mut self.candidate else { return };
        if candidate.size <= self.confirmed {
            self.candidate = None;
            return;
        }
        candidate.companions += u32::from(number >= candidate.first);
        if candidate.companions >= LEAST_TRIES && candidate.tries >= LEAST_TRIES {
            // Answers that were overtaken have a little time.
            candidate.round = candidate.tries;
            candidate.due = candidate.due.min(now + gap);
        }
    }

    /// Takes the announcement that the path carries packets of at most `mtu` bytes. It is ignored where it contradicts a
    /// size that passed, or allows the size under test (RFC 8899, section 4.6.2).
    pub fn on_announced(&mut self, mtu: u32) {
        let Some(candidate) = self.candidate else { return };
        if mtu >= candidate.size || mtu < self.confirmed.max(self.bounds.least) {
            return;
        }
        self.refused = self.refused.min(mtu + 1);
        self.beyond = SizeBarrier::Announced;
        self.candidate = None;
    }

    fn timer(&self) -> Nanos {
        LEAST_TIMER.max(Nanos(self.round_trip.0 * TIMER_ROUND_TRIPS))
    }

    fn gap(&self) -> Nanos {
        Nanos(self.round_trip.0 / 4).max(GAPS[0]).min(GAPS[1])
    }

    fn probe(&mut self, now: Nanos, size: u32) -> SearchStep {
        let number = self.next_number;
        self.next_number += 1;
        self.sent[number as usize % REMEMBERED] = SentProbe { number, size, at: now };
        SearchStep::Probe { number, size }
    }

    /// Returns the probe with a number, if it is remembered.
    fn sent(&self, number: u32) -> Option<SentProbe> {
        let sent = self.sent[number as usize % REMEMBERED];
        (sent.number == number && number > 0).then_some(sent)
    }

    /// Chooses the next size to test, or completes the search.
    fn choose(&mut self, now: Nanos) {
        let size = match self.phase {
            SearchPhase::Base if self.is_base_silent => self.bounds.least,
            SearchPhase::Base => self.bounds.base,
            _ => match self.next_size() {
                Some(size) => size,
                None => {
                    self.phase = SearchPhase::Complete;
                    return;
                }
            },
        };
        self.candidate = Some(Candidate {
            size,
            first: self.next_number,
            tries: 0,
            round: LEAST_TRIES,
            owes_companion: false,
            companions: 0,
            due: now,
        });
    }

    /// Returns the next size between the largest that passed and the smallest that does not.
    fn next_size(&self) -> Option<u32> {
        let (low, high) = (self.confirmed, self.refused);
        if high <= low + 1 {
            return None;
        }
        if high > self.bounds.most || self.beyond == SizeBarrier::Announced {
            return Some(high - 1);
        }
        // The base is the MTU of many tunnels, so one more byte often ends the search.
        if low == self.bounds.base {
            return Some(low + 1);
        }
        let between: Vec<u32> =
            COMMON.iter().copied().filter(|size| low < *size && *size < high).collect();
        let is_common = COMMON.contains(&low);
        match between.get(between.len() / 2) {
            Some(size) => Some(*size),
            None if is_common => Some(low + 1),
            None => Some(low + (high - low) / 2),
        }
    }

    /// Draws the conclusion from the silence of all probes of a size.
    fn conclude(&mut self) {
        let Some(candidate) = self.candidate.take() else { return };
        if self.phase == SearchPhase::Base {
            // Nothing passed beside it, so this is no proof that it is too large.
            if candidate.size > self.bounds.least {
                self.is_base_silent = true
            } else {
                self.phase = SearchPhase::Failed
            }
            return;
        }
        if candidate.companions >= LEAST_TRIES {
            self.refused = candidate.size;
            self.beyond = SizeBarrier::Vanished;
            return;
        }
        if candidate.companions > 0 && candidate.tries < MOST_TRIES {
            // The path loses some, and a few more probes tell.
            let more = LEAST_TRIES - candidate.companions;
            let round = (candidate.tries + more).min(MOST_TRIES);
            self.candidate = Some(Candidate { round, ..candidate });
            return;
        }
        self.silences += 1;
        if self.silences > MOST_SILENCES {
            self.phase = SearchPhase::Failed;
            return;
        }
        // Packets of the confirmed size vanish: an outage, or a black hole that was not there before.
        (self.phase, self.is_base_silent) = (SearchPhase::Base, false);
        self.refused = self.bounds.most + 1;
        self.beyond = SizeBarrier::FirstLink;
        self.confirmed = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// SplitMix64, seeded.
    struct Dice(u64);

    impl Dice {
        /// Returns a number from 0 to 1.
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Path in virtual time, with the largest size that it carries; answers have room.
    struct ModelPath {
        delay: Nanos,
        carries: u32,
        /// MTU that a router announces for packets that are too large, if it does.
        announces: bool,
        /// Share of the packets that are lost, whatever their size, and largest extra delay.
        loss: f64,
        jitter: Nanos,
        /// Time from which the path carries this much.
        later: Option<(Nanos, u32)>,
        /// Span in which nothing passes.
        outage: [Nanos; 2],
        dice: Dice,
    }

    #[derive(Debug, Clone, Copy)]
    enum Arrival {
        /// Echo of the probe with a number.
        Echo(u32),
        Announcement(u32),
    }

    fn ms(value: u64) -> Nanos {
        Nanos::from_millis(value)
    }

    impl ModelPath {
        fn of(carries: u32) -> ModelPath {
            ModelPath {
                delay: ms(10),
                carries,
                announces: false,
                loss: 0.0,
                jitter: Nanos::ZERO,
                later: None,
                outage: [Nanos::ZERO; 2],
                dice: Dice(7),
            }
        }

        fn carries(&self, now: Nanos) -> u32 {
            match self.later {
                Some((from, carries)) if now >= from => carries,
                _ => self.carries,
            }
        }

        fn loses(&mut self, now: Nanos) -> bool {
            let is_out = self.outage[0] <= now && now < self.outage[1];
            is_out || self.dice.unit() < self.loss
        }

        fn travel(&mut self) -> Nanos {
            self.delay + Nanos((self.dice.unit() * self.jitter.0 as f64) as u64)
        }

        /// Returns the answers to a probe, with their times.
        fn send(&mut self, now: Nanos, number: u32, size: u32) -> Vec<(Nanos, Arrival)> {
            let mtu = self.carries(now);
            if size > mtu {
                let announcement = (now + self.delay, Arrival::Announcement(mtu));
                return self.announces.then_some(announcement).into_iter().collect();
            }
            if self.loses(now) {
                return Vec::new();
            }
            let there = now + self.travel();
            let is_lost = self.loses(there);
            let back = (there + self.travel(), Arrival::Echo(number));
            (!is_lost).then_some(back).into_iter().collect()
        }

        /// Runs a search to its end; returns it with its duration and the number of probes.
        fn search(&mut self, bounds: ProbeBounds) -> (MtuSearch, Nanos, u32) {
            let round_trip = Nanos(2 * self.delay.0);
            let (mut search, mut now) = (MtuSearch::new(bounds, round_trip), ms(1_000));
            let mut probes = 0;
            let mut coming: BTreeMap<(Nanos, u32), Arrival> = BTreeMap::new();
            let mut order = 0;
            loop {
                let until = match search.poll(now) {
                    SearchStep::Done => return (search, now - ms(1_000), probes),
                    SearchStep::Probe { number, size } => {
                        probes += 1;
                        for (at, arrival) in self.send(now, number, size) {
                            order += 1;
                            coming.insert((at, order), arrival);
                        }
                        continue;
                    }
                    SearchStep::Wait(until) => until,
                };
                match coming.first_entry() {
                    Some(first) if first.key().0 <= until => {
                        now = first.key().0;
                        match first.remove() {
                            Arrival::Echo(number) => search.on_echo(now, number),
                            Arrival::Announcement(mtu) => search.on_announced(mtu),
                        }
                    }
                    _ => now = until,
                }
            }
        }

        fn found(&mut self, most: u32) -> Option<(u32, SizeBarrier)> {
            let (search, ..) = self.search(ProbeBounds::of(most, false));
            assert_eq!(search.phase(), SearchPhase::Complete);
            search.found()
        }
    }

    #[test]
    fn a_path_without_narrow_links_takes_two_round_trips() {
        for most in [1_500, 9_000] {
            let (search, took, probes) = ModelPath::of(most).search(ProbeBounds::of(most, false));
            assert_eq!(search.found(), Some((most, SizeBarrier::FirstLink)));
            assert_eq!(took, ms(40));
            assert!(probes <= 6, "{probes}");
        }
    }

    #[test]
    fn every_size_of_a_black_hole_is_found_to_the_byte() {
        for carries in (576..1_500).chain([1_280, 4_000, 8_999]) {
            let most = if carries < 1_500 { 1_500 } else { 9_000 };
            let (search, took, _) = ModelPath::of(carries).search(ProbeBounds::of(most, false));
            assert_eq!(search.found(), Some((carries, SizeBarrier::Vanished)));
            assert!(took < ms(2_500), "{carries}: {took}");
        }
        let (.., took, probes) = ModelPath::of(1_280).search(ProbeBounds::of(1_500, true));
        assert!(took < ms(400) && probes < 30, "{took}, {probes}");
    }

    #[test]
    fn a_satellite_gets_its_answer_as_well() {
        for (carries, beyond) in [(1_500, SizeBarrier::FirstLink), (1_440, SizeBarrier::Vanished)] {
            let mut path = ModelPath { delay: ms(300), ..ModelPath::of(carries) };
            let (search, took, _) = path.search(ProbeBounds::of(1_500, false));
            assert_eq!(search.found(), Some((carries, beyond)));
            assert!(took < ms(15_000), "{took}");
        }
    }

    #[test]
    fn a_lossy_path_is_not_taken_for_a_narrow_one() {
        for seed in 0..300 {
            let mut path = ModelPath { loss: 0.2, dice: Dice(seed), ..ModelPath::of(1_500) };
            let (search, ..) = path.search(ProbeBounds::of(1_500, false));
            let found = search.found();
            let is_whole = found.is_none_or(|found| found == (1_500, SizeBarrier::FirstLink));
            assert!(is_whole, "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn a_copy_of_an_answer_proves_nothing_more() {
        let mut search = MtuSearch::new(ProbeBounds::of(1_500, false), ms(20));
        search.poll(ms(0));
        search.on_echo(ms(20), 1);
        assert_eq!(search.poll(ms(20)), SearchStep::Probe { number: 2, size: 1_500 });
        assert_eq!(search.poll(ms(20)), SearchStep::Probe { number: 3, size: 1_280 });
        for _ in 0..2 * LEAST_TRIES {
            search.on_echo(ms(40), 3);
        }
        assert_eq!(search.candidate.map(|candidate| candidate.companions), Some(1));
    }

    #[test]
    fn an_announced_size_ends_the_search_at_once() {
        let mut path = ModelPath { announces: true, ..ModelPath::of(1_423) };
        let (search, took, _) = path.search(ProbeBounds::of(1_500, false));
        assert_eq!(search.found(), Some((1_423, SizeBarrier::Announced)));
        assert!(took < ms(80), "{took}");
        let mut search = MtuSearch::new(ProbeBounds::of(1_500, false), ms(1));
        search.poll(ms(0));
        search.on_echo(ms(1), 1);
        search.poll(ms(1));
        for lie in [0, 68, 1_279, 1_500, 9_000] {
            search.on_announced(lie);
        }
        let (confirmed, beyond) = (search.confirmed, search.beyond);
        assert_eq!((confirmed, beyond), (1_280, SizeBarrier::FirstLink), "a lie shrinks nothing");
    }

    #[test]
    fn loss_and_reordering_do_not_shrink_the_result() {
        for seed in 0..300 {
            let mut path =
                ModelPath { loss: 0.05, jitter: ms(30), dice: Dice(seed), ..ModelPath::of(1_440) };
            let found = path.found(1_500);
            assert_eq!(found, Some((1_440, SizeBarrier::Vanished)), "seed {seed}");
        }
    }

    #[test]
    fn a_silent_path_is_not_taken_for_a_narrow_one() {
        let outage = [ms(1_015), ms(1_600)];
        let mut path = ModelPath { outage, ..ModelPath::of(1_500) };
        assert_eq!(path.found(1_500), Some((1_500, SizeBarrier::FirstLink)));
        let mut dead = ModelPath { outage: [ms(0), ms(100_000)], ..ModelPath::of(1_500) };
        let (search, took, _) = dead.search(ProbeBounds::of(1_500, false));
        assert_eq!((search.phase(), search.found()), (SearchPhase::Failed, None));
        assert!(took < ms(1_000), "{took}");
    }

    #[test]
    fn a_black_hole_that_appears_amid_the_search_is_found() {
        // By then larger sizes have passed, and more are tried.
        let mut path = ModelPath { later: Some((ms(1_600), 1_300)), ..ModelPath::of(1_445) };
        assert_eq!(path.found(1_500), Some((1_300, SizeBarrier::Vanished)));
    }

    #[test]
    fn nothing_is_tried_beyond_the_first_link_or_below_the_least() {
        assert_eq!(ModelPath::of(1_400).found(1_400), Some((1_400, SizeBarrier::FirstLink)));
        let bounds = ProbeBounds::of(1_000, false);
        assert_eq!((bounds.least, bounds.base, bounds.most), (576, 1_000, 1_000));
        assert_eq!(ProbeBounds::of(1_500, true).least, 1_280);
        let (search, ..) = ModelPath::of(1_000).search(ProbeBounds::of(1_500, true));
        assert_eq!(search.phase(), SearchPhase::Failed, "no IPv6 link is as narrow");
    }
}
