//! The sending half of an end: cuts a stream into packets, sends what the windows have room for, and again what was lost.
//!
//! A packet is lost once three that left after it were acknowledged (BEP 29), or when nothing is acknowledged within the
//! congestion timeout of RFC 6817, which is the retransmission timeout of RFC 6298. What was cut once goes again as it was,
//! since numbers count packets.

use std::collections::VecDeque;

use super::MOST_PACKETS;
use super::ledbat::{AckSample, Ledbat, Reaction};
use super::wire::{HEADER, Header, PacketKind, UtpPacket, write};
use crate::measurements::TcpView;
use crate::time::Nanos;
use crate::transport::userspace::{RoundTrip, SendBuffer};

/// Number of packets that left later and were acknowledged, after which one is lost.
const OVERTAKEN_BY: usize = 3;

/// Congestion windows of bytes that are taken before they leave.
const WINDOWS_AHEAD: u64 = 2;

/// Parameters of a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct UtpTerms {
    /// Bytes that are kept until the peer has them.
    pub(super) buffer: usize,
    /// Bytes of the largest message, which is taken whole.
    pub(super) message: usize,
    /// The most bytes under way.
    pub(super) window: u64,
    /// The largest number of bytes of the stream in one packet.
    pub(super) segment: u64,
    /// Queueing delay that is aimed at.
    pub(super) target: Nanos,
    /// The shortest time after which the timer fires.
    pub(super) least_timeout: Nanos,
}

/// Fate of a packet, as far as this end knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketFate {
    UnderWay,
    /// Lost, and to be sent again.
    Lost,
    /// There, behind one that is not.
    Here,
}

/// Packet that left and was not acknowledged in order.
#[derive(Debug, Clone, Copy)]
struct PacketInFlight {
    offset: u64,
    len: u16,
    kind: PacketKind,
    fate: PacketFate,
    /// Its place among all that left, from 1 on, and the time when it last did.
    order: u64,
    left: Nanos,
    /// Number of times that it left.
    times: u32,
}

/// Next packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextPacket {
    /// One that was lost, by its place among those that are kept.
    Again(usize),
    New,
}

/// What one acknowledgement told of.
#[derive(Debug, Default)]
struct AckEffects {
    packets: u64,
    bytes: u64,
    /// Time at which the latest of them left, of those that left once: of others nobody knows which of them came (Karn).
    left: Option<Nanos>,
}

pub(super) struct UtpSender {
    terms: UtpTerms,
    buffer: SendBuffer,
    control: Ledbat,
    /// Number of the first packet that is not acknowledged, and those from it on.
    base: u16,
    flights: VecDeque<PacketInFlight>,
    /// Bytes that left and are not acknowledged; those of them that are not lost; and number of packets that are.
    outstanding: u64,
    under_way: u64,
    lost: usize,
    /// Places of the latest packets that left once and were acknowledged, the latest first.
    latest: [u64; OVERTAKEN_BY],
    order: u64,
    peer_window: u64,
    /// True if one packet may leave whatever the windows say: the first one after a loss, or one to ask for room.
    is_free: bool,
    round_trip: RoundTrip,
    timer: Option<Nanos>,
    backoff: u32,
    pub(super) sent: u64,
    pub(super) resent: u64,
}

impl UtpSender {
    /// Creates a sender whose first packet has the number `first`.
    pub(super) fn new(terms: UtpTerms, first: u16) -> UtpSender {
        UtpSender {
            buffer: SendBuffer::new(terms.buffer),
            control: Ledbat::new(terms.target, terms.segment),
            base: first,
            flights: VecDeque::new(),
            outstanding: 0,
            under_way: 0,
            lost: 0,
            latest: [0; OVERTAKEN_BY],
            order: 0,
            peer_window: 0,
            is_free: false,
            round_trip: RoundTrip::default(),
            timer: None,
            backoff: 0,
            sent: 0,
            resent: 0,
            terms,
        }
    }

    /// Notes that the peer is there, with its room, and the round trip of the handshake if it was measured.
    pub(super) fn begin(&mut self, window: u32, took: Option<Nanos>) {
        self.peer_window = window.into();
        if let Some(took) = took {
            self.round_trip.note(took);
        }
    }

    /// Returns the time after which a handshake is tried again that was tried so many times before.
    pub(super) fn first_timeout(&self, times: u32) -> Nanos {
        self.round_trip.timeout(self.terms.least_timeout, times)
    }

    /// Returns the number of the next packet that never left.
    pub(super) fn next_number(&self) -> u16 {
        self.base.wrapping_add(self.flights.len() as u16)
    }

    /// Returns the number of bytes that there is room for: in the buffer, and among those that leave soon, so that nobody
    /// hands over now what leaves in a minute.
    pub(super) fn room(&self) -> u64 {
        let ahead = (WINDOWS_AHEAD * self.control.window()).max(self.terms.message as u64);
        let ahead = ahead.saturating_sub(self.buffer.uncut());
        ahead.min(self.buffer.room())
    }

    /// Puts bytes in, no more than there is room for.
    pub(super) fn put(&mut self, now: Nanos, bytes: &[u8]) {
        self.buffer.put(bytes);
        self.set_timer(now);
    }

    /// Ends the stream behind what was put in.
    pub(super) fn finish(&mut self) {
        self.buffer.finish();
    }

    /// Returns true if the peer has all that was put in, the end included.
    pub(super) fn is_drained(&self) -> bool {
        self.flights.is_empty() && !self.buffer.has_new()
    }

    /// Returns its congestion control and round-trip time.
    pub(super) fn view(&self) -> TcpView {
        TcpView {
            cwnd_bytes: self.control.window().min(self.terms.window),
            mss_bytes: self.terms.segment,
            lost_segments: self.lost as u64,
            unacked_segments: self.flights.len() as u64,
            bytes_acked: Some(self.buffer.begin()),
            notsent_bytes: Some(self.buffer.uncut()),
            ..self.round_trip.view(self.sent, self.resent)
        }
    }

    /// Appends packets that leave at `now` to `batch`, behind headers like `header`: all as long as the answer says but for
    /// the last one, which may be shorter, and `most` of them or fewer.
    pub(super) fn transmit(
        &mut self,
        now: Nanos,
        most: usize,
        header: &Header,
        batch: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut length = None;
        for _ in 0..most.max(1) {
            let Some(next) = self.next() else { break };
            let len = HEADER + self.len_of(next) as usize;
            if length.is_some_and(|first| len > first) {
                break;
            }
            self.send(now, next, header, batch);
            if *length.get_or_insert(len) > len {
                break;
            }
        }
        length
    }

    /// Returns what is next to send and may leave: first what was lost, then what is new.
    fn next(&self) -> Option<NextPacket> {
        if self.lost > 0 {
            let at = self.flights.iter().position(|flight| flight.fate == PacketFate::Lost)?;
            return self.fits(NextPacket::Again(at)).then_some(NextPacket::Again(at));
        }
        let is_new = self.buffer.has_new()
            && self.flights.len() < MOST_PACKETS
            && self.fits(NextPacket::New);
        is_new.then_some(NextPacket::New)
    }

    fn len_of(&self, next: NextPacket) -> u64 {
        match next {
            NextPacket::Again(at) => self.flights.get(at).map_or(0, |flight| flight.len.into()),
            NextPacket::New => self.buffer.uncut().min(self.terms.segment),
        }
    }

    /// Returns true if the windows have room for a packet. What was sent before had room at the peer then.
    fn fits(&self, next: NextPacket) -> bool {
        let len = self.len_of(next);
        let has_room = match next {
            NextPacket::Again(_) => true,
            NextPacket::New => self.outstanding + len <= self.peer_window,
        };
        let window = self.control.window().min(self.terms.window);
        self.is_free || (has_room && self.under_way + len <= window)
    }

    /// Appends the next packet.
    fn send(&mut self, now: Nanos, next: NextPacket, header: &Header, batch: &mut Vec<u8>) {
        let len = self.len_of(next);
        self.order += 1;
        self.is_free = false;
        let at = match next {
            NextPacket::Again(at) => {
                self.lost -= 1;
                self.resent += 1;
                at
            }
            NextPacket::New => {
                let kind = if len > 0 { PacketKind::Data } else { PacketKind::Fin };
                if kind == PacketKind::Fin {
                    self.buffer.cut_end();
                }
                let (offset, fate) = (self.buffer.cut(len), PacketFate::UnderWay);
                let flight = PacketInFlight {
                    offset,
                    len: len as u16,
                    kind,
                    fate,
                    order: 0,
                    left: now,
                    times: 0,
                };
                self.flights.push_back(flight);
                self.outstanding += len;
                self.sent += 1;
                self.flights.len() - 1
            }
        };
        self.under_way += len;
        let number = self.base.wrapping_add(at as u16);
        let Some(flight) = self.flights.get_mut(at) else { return };
        (flight.fate, flight.order, flight.left) = (PacketFate::UnderWay, self.order, now);
        flight.times += 1;
        write(&Header { kind: flight.kind, sequence: number, ..*header }, batch);
        self.buffer.append(flight.offset, len, batch);
        self.timer
            .get_or_insert(now + self.round_trip.timeout(self.terms.least_timeout, self.backoff));
    }

    /// Handles what a packet of the peer says of this stream. One that acknowledges what never left, or less than one
    /// before it did, is ignored.
    pub(super) fn acknowledge(&mut self, now: Nanos, packet: &UtpPacket<'_>) {
        let header = &packet.header;
        let in_order = usize::from(header.acknowledged.wrapping_sub(self.base).wrapping_add(1));
        if in_order > self.flights.len() {
            return;
        }
        let flight_size = self.outstanding;
        let mut news = AckEffects::default();
        for _ in 0..in_order {
            let Some(flight) = self.flights.pop_front() else { break };
            self.base = self.base.wrapping_add(1);
            self.buffer.acknowledge(flight.offset + u64::from(flight.len));
            self.came(&flight, &mut news);
        }
        // The first one that is kept is the first behind the one acknowledged.
        for at in packet.selected().map(|distance| usize::from(distance) - 1) {
            let Some(flight) = self.flights.get_mut(at) else { break };
            let was = *flight;
            flight.fate = PacketFate::Here;
            self.came(&was, &mut news);
        }
        if news.packets > 0 {
            if let Some(left) = news.left {
                self.round_trip.note(now - left);
            }
            let round_trip = Nanos(self.round_trip.smoothed.unwrap_or(u64::MAX));
            let sample = AckSample { delay: header.difference, round_trip };
            self.control.acknowledged(now, sample, flight_size, news.bytes);
            (self.backoff, self.timer, self.is_free) = (0, None, false);
            self.find_losses(now);
        }
        self.take_window(header.window);
        self.set_timer(now);
    }

    /// Notes that a packet is at the peer.
    fn came(&mut self, flight: &PacketInFlight, news: &mut AckEffects) {
        let len = u64::from(flight.len);
        match flight.fate {
            PacketFate::Here => return,
            PacketFate::Lost => self.lost -= 1,
            PacketFate::UnderWay => self.under_way -= len,
        }
        self.outstanding -= len;
        news.packets += 1;
        news.bytes += len;
        if flight.times > 1 {
            return;
        }
        news.left = news.left.max(Some(flight.left));
        let at = self.latest.partition_point(|order| *order > flight.order);
        if at < OVERTAKEN_BY {
            self.latest[at..].rotate_right(1);
            self.latest[at] = flight.order;
        }
    }

    /// Finds what was overtaken.
    fn find_losses(&mut self, now: Nanos) {
        let overtaken = self.latest[OVERTAKEN_BY - 1];
        for flight in &mut self.flights {
            if flight.order >= overtaken && flight.times == 1 {
                // Those behind it left later still, but for what left again.
                break;
            }
            if flight.fate == PacketFate::UnderWay && flight.order < overtaken {
                flight.fate = PacketFate::Lost;
                self.under_way -= u64::from(flight.len);
                self.lost += 1;
                self.is_free |= self.control.lost(now, flight.left) == Reaction::Halved;
            }
        }
    }

    /// Takes over what the peer has room for. What was sent while it had none leaves at once when it has.
    fn take_window(&mut self, window: u32) {
        let was_shut = self.peer_window < self.terms.segment;
        self.peer_window = window.into();
        if was_shut && self.peer_window >= self.terms.segment && self.backoff > 0 {
            self.backoff = 0;
            self.lose_all();
        }
    }

    fn lose_all(&mut self) {
        for flight in self.flights.iter_mut().filter(|flight| flight.fate == PacketFate::UnderWay) {
            flight.fate = PacketFate::Lost;
            self.lost += 1;
        }
        self.under_way = 0;
    }

    /// Sets the timer where something waits: for an acknowledgement, or for room at the peer.
    fn set_timer(&mut self, now: Nanos) {
        if self.is_drained() {
            self.timer = None;
        } else {
            let timeout = self.round_trip.timeout(self.terms.least_timeout, self.backoff);
            self.timer.get_or_insert(now + timeout);
        }
    }

    pub(super) fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// Handles the timer, which may have fired: nothing was acknowledged, so all is lost. Where the peer has no room, one
    /// packet asks for some, and says nothing of the path.
    pub(super) fn on_timer(&mut self, now: Nanos) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        if self.peer_window >= self.terms.segment {
            self.control.timed_out(now);
        } else {
            self.is_free = true;
        }
        self.lose_all();
        self.backoff += 1;
        self.timer = None;
        self.set_timer(now);
    }
}
