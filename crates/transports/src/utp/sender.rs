//! Sending half of an end: cuts a stream into packets, sends as many as the windows have room for, and retransmits lost
//! ones.
//!
//! A packet is lost once three that left after it were acknowledged (BEP 29), or when nothing is acknowledged within
//! the congestion timeout of RFC 6817, which is the retransmission timeout of RFC 6298. A packet is retransmitted as it
//! was cut, since numbers count packets.

use std::collections::VecDeque;

use super::MOST_PACKETS;
use super::ledbat::{AckSample, Ledbat};
use super::wire::{HEADER, Header, PacketKind, UtpPacket, write};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::userspace::{RoundTrip, SendBuffer};

/// Number of acknowledged later packets after which a packet is lost.
const OVERTAKEN_BY: usize = 3;

/// Congestion windows of bytes that are accepted before they leave.
const WINDOWS_AHEAD: u64 = 2;

/// Parameters of a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct UtpTerms {
    /// Bytes stored until the peer has them.
    pub(super) buffer: usize,
    /// Bytes of the largest message, which is accepted whole.
    pub(super) message: usize,
    /// Most bytes under way.
    pub(super) window: u64,
    /// Most bytes of the stream in one packet.
    pub(super) segment: u64,
    /// Target of the queueing delay.
    pub(super) target: Nanos,
    /// Shortest time after which the timer fires.
    pub(super) least_timeout: Nanos,
}

/// Fate of a packet, as far as this end knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketFate {
    UnderWay,
    /// Lost; to be retransmitted.
    Lost,
    /// Arrived behind a missing one.
    Here,
}

/// Packet that left and was not acknowledged in order.
#[derive(Debug, Clone, Copy)]
struct PacketInFlight {
    offset: u64,
    len: u16,
    kind: PacketKind,
    fate: PacketFate,
    /// Its place among all departures, from 1 on, and the time of the last.
    order: u64,
    left: Nanos,
    /// Number of times that it left.
    times: u32,
}

/// Next packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextPacket {
    /// Lost packet, by its index among the stored ones.
    Again(usize),
    New,
}

/// Effects of one acknowledgement.
#[derive(Debug, Default)]
struct AckEffects {
    packets: u64,
    bytes: u64,
    /// Time at which the latest of them left, of packets that left once: of others it is unknown which copy arrived
    /// (Karn).
    left: Option<Nanos>,
}

pub(super) struct UtpSender {
    terms: UtpTerms,
    pub(super) buffer: SendBuffer,
    control: Ledbat,
    /// Number of the first unacknowledged packet, and the packets from it on.
    base: u16,
    flights: VecDeque<PacketInFlight>,
    /// Bytes that left and are not acknowledged; the part of them that is not lost; and number of lost packets.
    outstanding: u64,
    under_way: u64,
    lost: usize,
    /// Places of the latest packets that left once and were acknowledged, the latest first.
    latest: [u64; OVERTAKEN_BY],
    order: u64,
    peer_window: u64,
    /// True if one packet may leave regardless of the windows: the first packet after a loss, or a probe for room.
    is_free: bool,
    round_trip: RoundTrip,
    timer: Option<Nanos>,
    backoff: u32,
    pub(super) sent: u64,
    pub(super) resent: u64,
}

impl UtpSender {
    /// Creates a sender; its first packet has the number `first`.
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

    /// Notes the peer's window, and the round trip of the handshake if it was measured.
    pub(super) fn begin(&mut self, window: u32, took: Option<Nanos>) {
        self.peer_window = window.into();
        if let Some(took) = took {
            self.round_trip.note(took);
        }
    }

    /// Returns the timeout of a handshake after `times` attempts.
    pub(super) fn first_timeout(&self, times: u32) -> Nanos {
        self.round_trip.timeout(self.terms.least_timeout, times)
    }

    /// Returns the number of the next new packet.
    pub(super) fn next_number(&self) -> u16 {
        self.base.wrapping_add(self.flights.len() as u16)
    }

    /// Returns the number of bytes that there is room for: in the buffer and in the next windows, so that accepted
    /// bytes leave soon.
    pub(super) fn room(&self) -> u64 {
        self.buffer
            .room_ahead((WINDOWS_AHEAD * self.control.window()).max(self.terms.message as u64))
    }

    /// Adds bytes to the buffer, at most [`UtpSender::room`].
    pub(super) fn put(&mut self, now: Nanos, bytes: &[u8]) {
        self.buffer.put(bytes);
        self.set_timer(now);
    }

    /// Returns true if the peer has all bytes and the end of the stream.
    pub(super) fn is_drained(&self) -> bool {
        self.flights.is_empty() && !self.buffer.has_new()
    }

    /// Returns congestion control and round-trip times.
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

    /// Appends up to `most` packets that leave at `now` to `batch`, behind headers like `header`, all of the returned
    /// length except the last, which may be shorter.
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

    /// Returns the next packet that may leave: first lost ones, then new ones.
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

    /// Returns true if the windows have room for a packet. A retransmission had room at the peer before.
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

    /// Handles the acknowledgement in a packet of the peer. Ignores an acknowledgement of packets that never left, or
    /// an outdated one.
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
            self.on_arrival(&flight, &mut news);
        }
        // The first stored packet follows the acknowledged one.
        for at in packet.selected().map(|distance| usize::from(distance) - 1) {
            let Some(flight) = self.flights.get_mut(at) else { break };
            let was = *flight;
            flight.fate = PacketFate::Here;
            self.on_arrival(&was, &mut news);
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

    /// Notes that a packet has arrived at the peer.
    fn on_arrival(&mut self, flight: &PacketInFlight, news: &mut AckEffects) {
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

    /// Finds overtaken packets.
    fn find_losses(&mut self, now: Nanos) {
        let overtaken = self.latest[OVERTAKEN_BY - 1];
        for flight in &mut self.flights {
            if flight.order >= overtaken && flight.times == 1 {
                // Later packets left later still, except retransmitted ones.
                break;
            }
            if flight.fate == PacketFate::UnderWay && flight.order < overtaken {
                flight.fate = PacketFate::Lost;
                self.under_way -= u64::from(flight.len);
                self.lost += 1;
                self.is_free |= self.control.lost(now, flight.left);
            }
        }
    }

    /// Stores the peer's window. A packet sent while it was closed is sent again at once when it opens.
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

    /// Sets the timer if an acknowledgement, or room at the peer, is awaited.
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

    /// Handles the timer if it has fired: nothing was acknowledged, so all packets are lost. If the peer has no room,
    /// one packet probes for it, and shows nothing about the path.
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
