//! Connections of a capture: TCP, QUIC, and other flows over UDP. Their number and the memory of each have limits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::net::SocketAddr;

use super::packet::{Packet, PacketContent, Segment};
use super::points::{Points, WayPoint};
use super::quic::Quic;
use super::way::{Acknowledgement, Way};

/// Largest number of connections that are followed.
pub(super) const MOST_CONNECTIONS: usize = 4_096;
/// Packets among which the same one is captured twice, and the time.
const REPEATS: usize = 4;
const REPEAT_NS: u64 = 10_000_000;
/// Largest number of round trips of a spin bit in memory.
const MOST_SPINS: usize = 8_192;

/// Connection between two ends.
pub(super) struct Connection {
    /// Client and server.
    pub ends: [SocketAddr; 2],
    /// Contender, if deadheat wrote the capture.
    pub title: Option<String>,
    pub first_ns: u64,
    pub last_ns: u64,
    /// Of each end: packets and their bytes, the largest, and the packets noted as lost.
    pub packets: [u64; 2],
    pub bytes: [u64; 2],
    pub largest: [u64; 2],
    pub lost: [u64; 2],
    /// True if the capture notes the outcome of each packet.
    pub has_outcomes: bool,
    /// Packets captured at another place, too, and captured twice at one.
    pub elsewhere: u64,
    pub twice: u64,
    /// True if the clock of the capture was set back amid it.
    pub is_stepped: bool,
    clock: u64,
    places: [Option<(u32, u32)>; 2],
    recent: [[(u64, u64); REPEATS]; 2],
    pub points: Points,
    pub state: ConnectionState,
}

/// ConnectionState of a connection's protocol.
pub(super) enum ConnectionState {
    Tcp(Box<Tcp>),
    Udp(Box<Udp>),
}

/// Connection of TCP: what the client sends, and what the server sends.
#[derive(Default)]
pub(super) struct Tcp {
    pub ways: [Way; 2],
    /// Times of the first SYN of each end.
    syn_at: [Option<u64>; 2],
    pub syns: u64,
    pub connect_ns: Option<u64>,
    /// True for each end that reset it.
    pub resets: [bool; 2],
}

/// Flow over UDP.
#[derive(Default)]
pub(super) struct Udp {
    pub quic: Option<Quic>,
    pub round_trips: Vec<u64>,
    pub payload: [u64; 2],
}

/// All connections of a capture.
#[derive(Default)]
pub(super) struct Connections {
    open: HashMap<(u32, bool, [SocketAddr; 2]), usize>,
    pub all: Vec<Connection>,
    /// Packets of connections beyond the largest number, and their bytes.
    pub left_out: (u64, u64),
}

impl Connections {
    /// Takes a packet of a section, which counts for captures of deadheat alone. `clock` is the number of times at which
    /// the clock was set back before.
    pub(super) fn take(&mut self, packet: &Packet<'_>, from: (u32, Option<&str>), clock: u64) {
        let (section, title) = from;
        let is_tcp = matches!(packet.content, PacketContent::Tcp(_));
        let mut ends = packet.ends;
        ends.sort_unstable();
        let section = if title.is_some() { section } else { 0 };
        let room = self.all.len() < MOST_CONNECTIONS;
        let at = match self.open.entry((section, is_tcp, ends)) {
            Entry::Occupied(own) if !self.all[*own.get()].is_replaced_by(packet) => *own.get(),
            _ if !room => {
                self.left_out.0 += 1;
                self.left_out.1 = self.left_out.1.saturating_add(packet.bytes);
                return;
            }
            entry => {
                entry.insert_entry(self.all.len());
                self.all.push(Connection::begin(packet, title, clock));
                self.all.len() - 1
            }
        };
        self.all[at].take(packet, clock, self.open.hasher());
    }
}

impl Connection {
    fn begin(packet: &Packet<'_>, title: Option<&str>, clock: u64) -> Connection {
        let [from, to] = packet.ends;
        let is_from_server = match &packet.content {
            PacketContent::Tcp(own) if own.is_syn => own.ack.is_some(),
            PacketContent::Tcp(_) => from.port() < to.port(),
            PacketContent::Udp(..) => from.port() < 1_024 && to.port() >= 1_024,
        };
        Connection {
            ends: if is_from_server { [to, from] } else { [from, to] },
            title: title.map(str::to_owned),
            first_ns: packet.at_ns,
            last_ns: packet.at_ns,
            packets: [0; 2],
            bytes: [0; 2],
            largest: [0; 2],
            lost: [0; 2],
            has_outcomes: false,
            elsewhere: 0,
            twice: 0,
            is_stepped: false,
            clock,
            places: [None; 2],
            recent: [[(0, 0); REPEATS]; 2],
            points: Points::default(),
            state: match packet.content {
                PacketContent::Tcp(_) => ConnectionState::Tcp(Box::default()),
                PacketContent::Udp(..) => ConnectionState::Udp(Box::default()),
            },
        }
    }

    /// Returns true if a packet begins another connection between the same ports.
    fn is_replaced_by(&self, packet: &Packet<'_>) -> bool {
        let side = self.side(packet);
        match (&self.state, &packet.content) {
            (ConnectionState::Tcp(tcp), PacketContent::Tcp(segment)) => {
                let is_first = segment.is_syn && segment.ack.is_none();
                let has_ended = tcp.ways[side].syn.map(|syn| syn.seq) != Some(segment.seq);
                is_first && has_ended
            }
            (ConnectionState::Udp(udp), PacketContent::Udp(bytes, _)) => {
                side == 0 && udp.quic.as_ref().is_some_and(|quic| quic.is_other(bytes))
            }
            _ => false,
        }
    }

    /// Returns the sender of a packet: the client (0) or the server (1).
    fn side(&self, packet: &Packet<'_>) -> usize {
        usize::from(packet.ends[0] != self.ends[0])
    }

    fn take(&mut self, packet: &Packet<'_>, clock: u64, hasher: &impl BuildHasher) {
        let side = self.side(packet);
        // A packet on its way through a host passes several interfaces.
        if *self.places[side].get_or_insert(packet.place) != packet.place {
            self.elsewhere += 1;
            return;
        }
        if self.is_twice(packet, side, hasher) {
            self.twice += 1;
            return;
        }
        self.is_stepped |= clock != self.clock;
        self.clock = clock;
        let at = packet.at_ns.max(self.last_ns);
        if let Some(due) = self.points.due(at - self.first_ns) {
            self.point(due);
        }
        self.last_ns = at;
        self.packets[side] += 1;
        self.bytes[side] += packet.bytes;
        self.largest[side] = self.largest[side].max(packet.bytes);
        self.has_outcomes |= packet.is_lost.is_some();
        self.lost[side] += u64::from(packet.is_lost == Some(true));
        match (&mut self.state, &packet.content) {
            (ConnectionState::Tcp(tcp), PacketContent::Tcp(segment)) => tcp.take(at, side, segment),
            (ConnectionState::Udp(udp), PacketContent::Udp(bytes, len)) => {
                udp.take(at, side, bytes, *len)
            }
            _ => {}
        }
    }

    /// Returns true if one of the last packets was the same.
    fn is_twice(&mut self, packet: &Packet<'_>, side: usize, hasher: &impl BuildHasher) -> bool {
        let is_quic = matches!(&self.state, ConnectionState::Udp(udp) if udp.quic.is_some());
        let hash = match &packet.content {
            // deadheat notes each packet once.
            _ if self.title.is_some() => return false,
            // Without an identification, acknowledgements and datagrams may be alike.
            PacketContent::Tcp(own) if packet.id == 0 && own.len == 0 => return false,
            PacketContent::Udp(..) if packet.id == 0 && !is_quic => return false,
            PacketContent::Tcp(own) => hasher.hash_one((packet.id, own)),
            PacketContent::Udp(bytes, len) => hasher.hash_one((packet.id, bytes, len)),
        };
        let recent = &mut self.recent[side];
        let is_same =
            |(own, at): &(u64, u64)| *own == hash && packet.at_ns.abs_diff(*at) < REPEAT_NS;
        if recent.iter().any(is_same) {
            return true;
        }
        recent.rotate_right(1);
        recent[0] = (hash, packet.at_ns);
        false
    }

    /// Ends the connection with its last packet.
    pub(super) fn finish(&mut self) {
        if let ConnectionState::Tcp(tcp) = &mut self.state {
            tcp.ways.iter_mut().for_each(|way| way.finish(self.last_ns));
        }
        self.point(self.last_ns - self.first_ns);
    }

    /// Adds a point of the counters as they are.
    fn point(&mut self, at: u64) {
        let now = self.first_ns + at;
        let ways = match &mut self.state {
            ConnectionState::Tcp(tcp) => tcp.ways.each_mut().map(|way| way.point(now)),
            ConnectionState::Udp(udp) => {
                udp.payload.map(|sent| WayPoint { sent, arrived: sent, ..WayPoint::default() })
            }
        };
        self.points.push(at, ways);
    }
}

impl Tcp {
    fn take(&mut self, at: u64, side: usize, segment: &Segment) {
        let other = 1 - side;
        self.resets[side] |= segment.is_reset;
        self.handshake(at, side, segment);
        self.stamps(at, side, segment);
        if let Some(number) = segment.ack.filter(|_| !segment.is_reset) {
            let ack = Acknowledgement {
                at,
                number,
                window: self.window(side, segment),
                is_zero: segment.window == 0,
                is_pure: segment.len == 0 && !segment.is_syn && !segment.is_fin,
                says_twice: segment.says_twice,
                least_answer: self.ways[side].least_answer,
            };
            if let Some(took) = self.ways[other].is_acknowledged(&ack) {
                self.answered(side, took);
                let way = &mut self.ways[other];
                let to_sender = way.answer.or(way.least_answer).unwrap_or(0);
                way.keep(took.saturating_add(to_sender));
            }
        }
        if !segment.is_reset {
            self.ways[side].sends(at, segment);
        }
    }

    /// Takes options and times of the handshake.
    fn handshake(&mut self, at: u64, side: usize, segment: &Segment) {
        if segment.is_syn {
            self.syns += u64::from(segment.ack.is_none());
            let is_first = self.syn_at[side].is_none();
            self.syn_at[side].get_or_insert(at);
            if let ([Some(syn), Some(_)], true, 1) = (self.syn_at, is_first, side) {
                // An answer to a SYN that was sent again may be to either of them.
                if self.syns == 1 {
                    self.answered(1, at.saturating_sub(syn));
                }
            }
        } else if let ([Some(syn), Some(answer)], None, 0) = (self.syn_at, self.connect_ns, side) {
            self.connect_ns = Some(at.saturating_sub(syn));
            self.answered(0, at.saturating_sub(answer));
            self.agree();
        }
    }

    /// Fixes the largest segments, once both SYNs are known.
    fn agree(&mut self) {
        let [Some(near), Some(far)] = [0, 1].map(|side: usize| self.ways[side].syn) else { return };
        let mss = |own: Segment| u64::from(own.mss.unwrap_or(536)).max(1);
        let has_stamps = near.stamps.is_some() && far.stamps.is_some();
        let largest =
            mss(near).min(mss(far)).saturating_sub(if has_stamps { 12 } else { 0 }).max(1);
        self.ways.iter_mut().for_each(|way| way.largest = Some(largest));
    }

    /// Returns the receive window that a segment advertises, if its scale is known.
    fn window(&self, side: usize, segment: &Segment) -> Option<u64> {
        let [near, far] = [0, 1].map(|at: usize| self.ways[at].syn);
        let bits = if segment.is_syn {
            0
        } else {
            // Both must have the option (RFC 7323, 2.2).
            let both = near?.scale.zip(far?.scale);
            both.map_or(0, |bits| if side == 0 { bits.0 } else { bits.1 })
        };
        Some(u64::from(segment.window) << bits)
    }

    /// Takes the time between a time stamp and its echo.
    fn stamps(&mut self, at: u64, side: usize, segment: &Segment) {
        let Some((own, echoed)) = segment.stamps else { return };
        let sent = segment.ack.and_then(|_| self.ways[1 - side].stamped_at(echoed));
        let took = sent.map(|sent| at.saturating_sub(sent));
        if let Some(took) = took {
            self.answered(side, took);
        }
        if segment.len > 0 {
            self.ways[side].answers(at, took);
        }
        self.ways[side].stamp(own, at);
    }

    /// Notes the time in which an end answered the other, as the capture saw it.
    fn answered(&mut self, side: usize, took: u64) {
        let least = &mut self.ways[side].least_answer;
        *least = Some(least.map_or(took, |least| least.min(took)));
        if let [Some(near), Some(far)] = [0, 1].map(|at: usize| self.ways[at].least_answer) {
            self.ways.iter_mut().for_each(|way| way.round_trip = Some(near.saturating_add(far)));
        }
    }
}

impl Udp {
    fn take(&mut self, at: u64, side: usize, bytes: &[u8], len: u64) {
        self.payload[side] += len;
        if self.quic.is_none() && side == 0 && self.payload[1] == 0 {
            self.quic = Quic::begin(bytes);
        }
        if let Some(took) = self.quic.as_mut().and_then(|quic| quic.take(at, side, bytes))
            && self.round_trips.len() < MOST_SPINS
        {
            self.round_trips.push(took);
        }
    }
}
