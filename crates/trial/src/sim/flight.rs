//! Datagrams in flight, in reused memory.

use super::header::{Endpoint, PacketHeader, UDP};
use deadheat_base::ecn::Codepoint;
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::userspace::UDP_HEADER;
use deadheat_path::impair::packet::Packet;

/// Packet of a datagram, as a channel refers to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketRef {
    slot: u32,
    part: u16,
    /// Length as an IP packet.
    bytes: u32,
    /// Side that it goes to.
    pub(super) to: Side,
    /// Source and destination in its headers.
    pub(super) ends: [Endpoint; 2],
    /// True once a queue has marked it.
    pub(super) is_marked: bool,
    /// True once a bit of it was flipped.
    pub(super) is_flipped: bool,
}

impl PacketRef {
    /// Creates a packet of this many bytes, the IP header included, as it is sent.
    pub(super) fn new(
        slot: u32,
        part: u16,
        bytes: u32,
        to: Side,
        ends: [Endpoint; 2],
    ) -> PacketRef {
        PacketRef { slot, part, bytes, to, ends, is_marked: false, is_flipped: false }
    }

    /// Returns true if its headers have these ends; of a later fragment, whose ports the first one has, these addresses.
    pub(super) fn is_between(&self, ends: [Endpoint; 2]) -> bool {
        let is_same = |(own, other): (&Endpoint, Endpoint)| {
            let port = if self.part > 0 { own.port } else { other.port };
            *own == Endpoint::new(other.link(), other.end(), port)
        };
        self.ends.iter().zip(ends).all(is_same)
    }
}

/// Largest number of packets that one datagram may be fragmented into.
pub(super) const MOST_PARTS: u64 = 128;

struct Flight {
    bytes: Vec<u8>,
    /// End that it goes to, and the number of the connection there.
    to: (usize, u16),
    /// Number of the strand within the connection.
    strand: u8,
    codepoint: Codepoint,
    /// Hash of its flow, by which queues tell flows apart.
    flow: u64,
    /// Identification of its fragments.
    id: u32,
    parts: u32,
    /// Bytes of content of each fragment but the last.
    room: u32,
    /// Packets that arrived, a bit each.
    arrived: u128,
    /// Number of departures still to come.
    left: u32,
}

/// All datagrams in flight.
#[derive(Default)]
pub(super) struct Flights {
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Number of datagrams so far.
    launched: u32,
}

impl Flights {
    /// Launches a datagram to the end and connection `to`. `fill` may write it, and then returns its strand and its
    /// codepoint; without them nothing is launched.
    pub(super) fn launch(
        &mut self,
        to: (usize, u16),
        fill: impl FnOnce(&mut Vec<u8>) -> Option<(u8, Codepoint)>,
    ) -> Option<u32> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(Flight {
                bytes: Vec::new(),
                to,
                strand: 0,
                codepoint: Codepoint::NotEct,
                flow: 0,
                id: 0,
                parts: 0,
                room: 0,
                arrived: 0,
                left: 0,
            });
            (self.flights.len() - 1) as u32
        });
        let flight = &mut self.flights[slot as usize];
        flight.bytes.clear();
        (flight.to, flight.parts, flight.arrived, flight.left) = (to, 0, 0, 0);
        let Some((strand, codepoint)) = fill(&mut flight.bytes) else {
            self.free.push(slot);
            return None;
        };
        self.launched = self.launched.wrapping_add(1);
        (flight.strand, flight.codepoint, flight.id) = (strand, codepoint, self.launched);
        Some(slot)
    }

    /// Returns what a channel needs of a packet.
    pub(super) fn packet(&self, part: PacketRef) -> Packet {
        let Flight { flow, codepoint, .. } = self.flights[part.slot as usize];
        Packet { bytes: part.bytes, flow, protocol: UDP, codepoint }
    }

    /// Returns the headers of a packet with these ends.
    pub(super) fn header(&self, part: PacketRef) -> PacketHeader {
        let Flight { bytes, codepoint, id, room, parts, .. } = &self.flights[part.slot as usize];
        let before = usize::from(part.part) * *room as usize;
        PacketHeader {
            ends: part.ends,
            bytes: part.bytes as usize,
            datagram: bytes.len() + UDP_HEADER as usize,
            codepoint: *codepoint,
            fragment: (*parts > 1).then_some((*id, before)),
        }
    }

    /// Appends the first bytes of a packet as it would be on the wire, without checksums.
    pub(super) fn beginning(&self, part: PacketRef, ip_header: usize, room: &mut Vec<u8>) {
        let start = room.len();
        let before = self.header(part).write(ip_header, room);
        let bytes = &self.flights[part.slot as usize].bytes;
        room.extend_from_slice(bytes.get(before - UDP_HEADER as usize..).unwrap_or_default());
        room.truncate(start + part.bytes as usize);
    }

    pub(super) fn len(&self, slot: u32) -> u64 {
        self.flights[slot as usize].bytes.len() as u64
    }

    /// Notes the hash of the datagram's flow, and that it is fragmented into `parts` packets of `room` bytes of content but
    /// for the last. It stays until [`Flights::gone`].
    pub(super) fn cut(&mut self, slot: u32, (parts, room): (u64, u64), flow: u64) {
        let flight = &mut self.flights[slot as usize];
        (flight.parts, flight.room, flight.left, flight.flow) =
            (parts as u32, room as u32, 1, flow);
    }

    /// Makes one of its packets enter a channel, which returns the number of its departures.
    pub(super) fn enter(&mut self, part: PacketRef, enter: impl FnOnce(PacketRef) -> u32) {
        let departures = enter(part);
        self.flights[part.slot as usize].left += departures;
    }

    /// Notes that all its packets have entered.
    pub(super) fn gone(&mut self, slot: u32) {
        self.depart(slot);
    }

    /// Handles the arrival of a packet. If a queue has marked it, the datagram is marked (RFC 3168, 5.3).
    /// Returns true if the datagram is complete now, and was not before.
    pub(super) fn arrive(&mut self, part: PacketRef) -> bool {
        let flight = &mut self.flights[part.slot as usize];
        if part.is_marked {
            flight.codepoint = Codepoint::Ce;
        }
        let before = flight.arrived.count_ones();
        flight.arrived |= 1u128.unbounded_shl(u32::from(part.part));
        let is_new = flight.arrived.count_ones() > before;
        let is_whole = flight.arrived.count_ones() == flight.parts;
        // A copy of a datagram in one packet is a datagram; a copy of a fragment is not.
        is_whole && (is_new || flight.parts == 1)
    }

    /// Returns the datagram that the packet is part of, with its end, connection and strand.
    pub(super) fn datagram(&self, part: PacketRef) -> ((usize, u16), u8, Codepoint, &[u8]) {
        let flight = &self.flights[part.slot as usize];
        (flight.to, flight.strand, flight.codepoint, &flight.bytes)
    }

    /// Returns the end and the connection that a packet's datagram goes to.
    pub(super) fn receiver(&self, part: PacketRef) -> (usize, u16) {
        self.flights[part.slot as usize].to
    }

    /// Notes that one departure is over.
    pub(super) fn departed(&mut self, part: PacketRef) {
        self.depart(part.slot);
    }

    fn depart(&mut self, slot: u32) {
        let flight = &mut self.flights[slot as usize];
        flight.left = flight.left.saturating_sub(1);
        if flight.left == 0 {
            self.free.push(slot);
        }
    }
}

/// Fragmentation of datagrams into IP packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cutter {
    /// Largest IP packet in bytes.
    pub(super) mtu: u64,
    /// Length of an IP header in bytes.
    pub(super) ip_header: u64,
}

impl Cutter {
    /// Returns the number of bytes of content in each fragment but the last: a multiple of 8 (RFC 791, 3.2), behind a
    /// header that is 8 bytes longer over IPv6 (RFC 8200, 4.5).
    pub(super) fn room(&self) -> u64 {
        (self.mtu.saturating_sub(self.fragment_header()) / 8 * 8).max(8)
    }

    fn fragment_header(&self) -> u64 {
        self.ip_header + if self.ip_header >= 40 { 8 } else { 0 }
    }

    /// Returns the number of packets that carry a datagram of `bytes`, the UDP header included.
    pub(super) fn parts(&self, bytes: u64) -> u64 {
        if bytes + self.ip_header <= self.mtu { 1 } else { bytes.div_ceil(self.room()) }
    }

    /// Returns the lengths of these packets in bytes.
    pub(super) fn packets(&self, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let (parts, room, cutter) = (self.parts(bytes), self.room(), *self);
        (0..parts).map(move |part| match parts {
            1 => bytes + cutter.ip_header,
            _ => room.min(bytes - part * room) + cutter.fragment_header(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [Endpoint; 2] = [Endpoint::new(0, 0, 1), Endpoint::new(0, 1, 2)];

    fn launch(flights: &mut Flights, parts: usize) -> Vec<PacketRef> {
        let fill = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(b"x");
            Some((2, Codepoint::Ect0))
        };
        let slot = flights.launch((3, 0), fill).unwrap();
        flights.cut(slot, (parts as u64, 8), 0);
        let mut all = Vec::new();
        for part in 0..parts as u16 {
            flights.enter(PacketRef::new(slot, part, 100, Side::Far, ENDS), |part| {
                all.push(part);
                2
            });
        }
        flights.gone(slot);
        all
    }

    #[test]
    fn a_datagram_is_there_once_all_its_packets_are_and_copies_only_where_it_is_one() {
        let mut flights = Flights::default();
        let whole = launch(&mut flights, 1);
        let cut = launch(&mut flights, 128);
        for _ in 0..2 {
            assert!(flights.arrive(whole[0]));
            flights.departed(whole[0]);
        }
        for part in cut.iter().rev().take(127) {
            assert!(!flights.arrive(*part));
        }
        assert!(!flights.arrive(PacketRef { is_marked: true, ..cut[1] }));
        assert!(flights.arrive(cut[0]));
        assert!(!flights.arrive(cut[0]));
        // One of its packets was marked.
        assert_eq!(flights.datagram(cut[0]), ((3, 0), 2, Codepoint::Ce, &b"x"[..]));
        // The first slot is free again, the second is not.
        assert_eq!(flights.free, [0]);
        assert!(flights.launch((0, 0), |_| None).is_none());
        assert_eq!(flights.free, [0]);
    }

    #[test]
    fn packets_are_as_ip_cuts_them() {
        let lengths = |ip_header, bytes| -> Vec<u64> {
            Cutter { mtu: 1500, ip_header }.packets(bytes).collect()
        };
        assert_eq!(lengths(20, 1480), [1500]);
        assert_eq!(lengths(20, 1481), [1500, 21]);
        assert_eq!(lengths(20, 3000), [1500, 1500, 60]);
        assert_eq!(lengths(40, 1460), [1500]);
        assert_eq!(lengths(40, 1461), [1496, 61]);
    }
}
