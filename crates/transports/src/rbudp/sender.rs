//! Sending half of an end: rounds of datagrams, each followed by an ask, and the datagrams that tallies show as missing
//! in the next round.

use std::collections::VecDeque;

use super::pace::{Pace, RateSource};
use super::wire::{DataDatagram, HEADER, Tally, write_ask, write_data};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::userspace::{RoundTrip, SendBuffer};

/// Shortest time after which an ask is repeated: the granularity of RFC 9002 (6.1.2).
pub(super) const LEAST_TIMEOUT: Nanos = Nanos::from_millis(1);

/// Most rounds with stored asks, to time their answers.
const MOST_ROUNDS: usize = 1 << 12;

/// A round takes at most this fraction of the window: while three such rounds wait for their tallies, a fourth leaves.
const ROUNDS_PER_WINDOW: u64 = 4;

/// Number of rounds of bytes that are accepted before they leave.
const ROUNDS_AHEAD: u64 = 2;

/// Parameters of a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct RbudpTerms {
    /// Bytes stored until the peer has them.
    pub(super) buffer: usize,
    /// Bytes of the largest message, which is accepted whole.
    pub(super) message: usize,
    /// Most datagrams stored.
    pub(super) most: usize,
    /// Most bytes of the stream in one datagram.
    pub(super) segment: u64,
    /// Bytes of the headers of a packet, this protocol's included.
    pub(super) headers: u64,
    pub(super) rate: RateSource,
}

/// Fate of a datagram, as far as this end knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatagramFate {
    /// Sent, and not in any tally yet.
    Unknown,
    /// Missing; to be sent again.
    Missing,
    /// Arrived behind a missing one.
    Here,
}

/// Datagram that the peer lacks, or has behind a gap.
#[derive(Debug, Clone, Copy)]
struct DatagramInFlight {
    offset: u64,
    len: u16,
    ends: bool,
    fate: DatagramFate,
    /// Round in which it last left.
    round: u64,
    /// True if its retransmission is pending.
    is_listed: bool,
}

/// Round after its ask has left.
#[derive(Debug, Clone, Copy)]
struct Round {
    number: u64,
    asked: Nanos,
    datagrams: u64,
    /// Rate at which it left.
    rate: Option<u64>,
}

/// Next datagram to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextDatagram {
    Again(u64),
    New,
}

pub(super) struct RbudpSender {
    terms: RbudpTerms,
    pub(super) buffer: SendBuffer,
    /// Number of the first datagram that the peer lacks, and the datagrams from it on.
    base: u64,
    flights: VecDeque<DatagramInFlight>,
    /// Numbers to retransmit, some of which may have arrived meanwhile.
    missing: VecDeque<u64>,
    /// Number of datagrams of unknown fate.
    unknown: usize,
    /// Number of the round under way, and the bytes that have left in it.
    round: u64,
    datagrams: u64,
    bytes: u64,
    rounds: VecDeque<Round>,
    /// Latest round with an answer.
    answered: u64,
    /// Round that needs an ask without data.
    ask: Option<u64>,
    pace: Pace,
    round_trip: RoundTrip,
    timer: Option<Nanos>,
    backoff: u32,
    pub(super) sent: u64,
    pub(super) resent: u64,
}

impl RbudpSender {
    pub(super) fn new(terms: RbudpTerms) -> RbudpSender {
        RbudpSender {
            buffer: SendBuffer::new(terms.buffer),
            base: 0,
            flights: VecDeque::new(),
            missing: VecDeque::new(),
            unknown: 0,
            round: 1,
            datagrams: 0,
            bytes: 0,
            rounds: VecDeque::new(),
            answered: 0,
            ask: None,
            pace: Pace::new(terms.rate),
            round_trip: RoundTrip::default(),
            timer: None,
            backoff: 0,
            sent: 0,
            resent: 0,
            terms,
        }
    }

    /// Returns the number of bytes that there is room for: in the window and in the next rounds, so that accepted bytes
    /// leave soon.
    pub(super) fn room(&self) -> u64 {
        self.buffer.room_ahead((ROUNDS_AHEAD * self.longest_round()).max(self.terms.message as u64))
    }

    /// Returns true if the peer has all bytes and the end of the stream.
    pub(super) fn is_drained(&self) -> bool {
        self.flights.is_empty() && !self.buffer.has_new()
    }

    /// Returns the number of datagrams stored, and of those to retransmit.
    #[cfg(test)]
    pub(super) fn stored(&self) -> usize {
        self.flights.len() + self.missing.len()
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Returns round-trip time, rate, and datagrams under way.
    pub(super) fn view(&self) -> TcpView {
        TcpView {
            cwnd_bytes: self.buffer.capacity(),
            mss_bytes: self.terms.segment,
            lost_segments: self.flights.iter().filter(|f| f.fate == DatagramFate::Missing).count()
                as u64,
            unacked_segments: self.flights.len() as u64,
            delivery_rate_bps: self.pace.delivered(),
            pacing_rate_bps: self.pace.rate(),
            bytes_acked: Some(self.buffer.begin()),
            notsent_bytes: Some(self.buffer.uncut()),
            rounds: Some(self.round - 1),
            ..self.round_trip.view(self.sent, self.resent)
        }
    }

    /// Appends up to `most` datagrams that leave at `now` to `batch`, all of the returned length except the last, which
    /// may be shorter.
    pub(super) fn transmit(
        &mut self,
        now: Nanos,
        most: usize,
        batch: &mut Vec<u8>,
    ) -> Option<usize> {
        if let Some(round) = self.ask.take() {
            let from = batch.len();
            write_ask(round, batch);
            return Some(batch.len() - from);
        }
        let mut length = None;
        for _ in 0..most.max(1) {
            let Some(next) = self.next() else {
                self.end_early(now);
                break;
            };
            let len = self.len_of(next);
            if length.is_some_and(|first| len > first) || !self.pace.is_open(now) {
                break;
            }
            self.send(now, next, batch);
            if *length.get_or_insert(len) > len {
                break;
            }
        }
        if let (None, Some(round)) = (length, self.ask.take()) {
            let from = batch.len();
            write_ask(round, batch);
            return Some(batch.len() - from);
        }
        length
    }

    /// Returns the next datagram to send, regardless of the rate: first missing ones, then new ones.
    fn next(&mut self) -> Option<NextDatagram> {
        if self.pace.train().is_some_and(|most| self.unknown as u64 >= most) {
            return None;
        }
        while let Some(number) = self.missing.front().copied() {
            if self.flight(number).is_some_and(|flight| flight.fate == DatagramFate::Missing) {
                return Some(NextDatagram::Again(number));
            }
            self.missing.pop_front();
            if let Some(flight) = self.flight(number) {
                flight.is_listed = false;
            }
        }
        (self.flights.len() < self.terms.most && self.buffer.has_new()).then_some(NextDatagram::New)
    }

    fn flight(&mut self, number: u64) -> Option<&mut DatagramInFlight> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.flights.get_mut(at)
    }

    /// Returns the length of a datagram.
    fn len_of(&mut self, next: NextDatagram) -> usize {
        let left = self.buffer.uncut().min(self.terms.segment) as usize;
        let len = match next {
            NextDatagram::Again(number) => {
                self.flight(number).map_or(left, |flight| flight.len.into())
            }
            NextDatagram::New => left,
        };
        HEADER + len
    }

    /// Appends the next datagram. The last of a round asks.
    fn send(&mut self, now: Nanos, next: NextDatagram, batch: &mut Vec<u8>) {
        let (number, flight) = match next {
            NextDatagram::Again(number) => {
                self.missing.pop_front();
                let round = self.round;
                let Some(flight) = self.flight(number) else { return };
                (flight.fate, flight.round, flight.is_listed) =
                    (DatagramFate::Unknown, round, false);
                let flight = *flight;
                self.resent += 1;
                (number, flight)
            }
            NextDatagram::New => {
                let len = self.buffer.uncut().min(self.terms.segment);
                let (offset, round) = (self.buffer.cut(len), self.round);
                let ends = self.buffer.is_at_end();
                if ends {
                    self.buffer.cut_end();
                }
                let (fate, len16, is_listed) = (DatagramFate::Unknown, len as u16, false);
                let flight = DatagramInFlight { offset, len: len16, ends, fate, round, is_listed };
                self.flights.push_back(flight);
                self.sent += 1;
                (self.base + self.flights.len() as u64 - 1, flight)
            }
        };
        self.unknown += 1;
        self.datagrams += 1;
        let len = u64::from(flight.len);
        self.bytes += len + self.terms.headers;
        self.pace.spend(now, len + self.terms.headers);
        let is_over = self.bytes >= self.longest_round();
        let asks = is_over || self.next().is_none();
        let (offset, ends) = (flight.offset, flight.ends);
        let data = DataDatagram { round: self.round, number, offset, ends, asks, bytes: &[] };
        write_data(&data, flight.len.into(), batch);
        self.buffer.append(offset, len, batch);
        if asks {
            if !is_over {
                self.pace.rest();
            }
            self.end_round(now);
        }
    }

    /// Returns the number of bytes of packets after which a round ends.
    fn longest_round(&self) -> u64 {
        let packet = self.terms.segment + self.terms.headers;
        self.pace.round(packet).min(self.buffer.capacity() / ROUNDS_PER_WINDOW)
    }

    /// Ends a round early because the rest of it is not missing after all.
    fn end_early(&mut self, now: Nanos) {
        if self.datagrams > 0 {
            self.pace.rest();
            self.ask = Some(self.round);
            self.end_round(now);
        }
    }

    /// Ends the round under way, after its ask.
    fn end_round(&mut self, now: Nanos) {
        if self.rounds.len() == MOST_ROUNDS {
            self.rounds.pop_front();
        }
        let (number, datagrams) = (self.round, self.datagrams);
        self.rounds.push_back(Round { number, asked: now, datagrams, rate: self.pace.rate() });
        self.round += 1;
        (self.datagrams, self.bytes) = (0, 0);
        self.timer = Some(now + self.timeout());
    }

    fn timeout(&self) -> Nanos {
        self.round_trip.timeout(LEAST_TIMEOUT, self.backoff)
    }

    /// Handles a tally. Ignores a tally with numbers that were never sent.
    pub(super) fn answered(&mut self, now: Nanos, tally: &Tally<'_>) {
        let known = self.base + self.flights.len() as u64;
        if tally.round >= self.round || tally.missing > known || tally.from < tally.missing {
            return;
        }
        self.learn(now, tally);
        while self.base < tally.missing {
            self.base += 1;
            let Some(flight) = self.flights.pop_front() else { break };
            self.unknown -= usize::from(flight.fate == DatagramFate::Unknown);
            self.buffer.acknowledge(flight.offset + u64::from(flight.len));
        }
        let mut next = tally.from;
        for (number, is_here) in tally.bits().take_while(|(number, _)| *number < known) {
            self.note(number, is_here, tally.round);
            next = number + 1;
        }
        if tally.is_last {
            for number in next.max(self.base)..known {
                self.note(number, false, tally.round);
            }
        }
        if tally.round > self.answered {
            (self.answered, self.backoff) = (tally.round, 0);
            self.timer = Some(now + self.timeout());
        }
    }

    /// Notes whether a datagram that left in `round` or before has arrived, by an answer to that round.
    fn note(&mut self, number: u64, is_here: bool, round: u64) {
        let is_latest = round >= self.answered;
        let Some(flight) = self.flight(number) else { return };
        let was = flight.fate;
        // A datagram that has arrived stays so, unless it was damaged.
        let is_missing = !is_here
            && flight.round <= round
            && (was == DatagramFate::Unknown || (was == DatagramFate::Here && is_latest));
        if is_here {
            flight.fate = DatagramFate::Here;
        } else if is_missing {
            flight.fate = DatagramFate::Missing;
        }
        let is_new = flight.fate == DatagramFate::Missing && !flight.is_listed;
        flight.is_listed |= is_new;
        self.unknown -=
            usize::from(was == DatagramFate::Unknown && flight.fate != DatagramFate::Unknown);
        if is_new {
            self.missing.push_back(number);
        }
    }

    /// Learns round trip and rate from an answer.
    fn learn(&mut self, now: Nanos, tally: &Tally<'_>) {
        let of = |number: u64| {
            let at = self.rounds.binary_search_by_key(&number, |round| round.number).ok()?;
            self.rounds.get(at).copied()
        };
        let (asked, counted) = (of(tally.round), of(tally.census.round));
        if let Some(round) = asked {
            self.round_trip.note(now - round.asked);
        }
        if let Some(round) = counted {
            let headers = self.terms.headers;
            self.pace.learn(round.datagrams, round.rate, &tally.census, headers);
        }
        while self.rounds.front().is_some_and(|round| round.number <= tally.round) {
            self.rounds.pop_front();
        }
    }

    /// Returns the time at which the timer fires or more may leave, whichever is sooner.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let timer = self.timer.filter(|_| self.waits_for_answer());
        [timer, self.pace.opens_at()].into_iter().flatten().min()
    }

    /// Returns true if only an answer, and no datagram that is due, makes progress.
    fn waits_for_answer(&self) -> bool {
        let is_asking = self.datagrams > 0 || (self.unknown == 0 && !self.missing.is_empty());
        !self.flights.is_empty() && !is_asking
    }

    /// Asks again if no answer arrived in time: in a round without datagrams, so that its answer cannot be confused
    /// with another's.
    pub(super) fn on_timer(&mut self, now: Nanos) {
        self.pace.on_timer(now);
        if !self.waits_for_answer() || self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.backoff += 1;
        self.ask = Some(self.round);
        self.end_round(now);
    }
}
