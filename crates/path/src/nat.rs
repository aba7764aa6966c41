//! NAT and stateful firewall at the first host's end of a link: pure, time is an argument.
//!
//! A packet that leaves by the link opens a binding, or keeps one open; a packet from outside passes where a binding and
//! its filter let it. A NAT gives a binding an endpoint of its own public address (RFC 4787, RFC 5382, RFC 5508); a
//! firewall changes no address, and neither of them one of IPv6; a NAT64 makes IPv4 of IPv6 ([`nat64`]).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use self::bindings::{Bindings, Flow};
use self::view::{PacketEnd, PacketView, PayloadKind};
use super::segment::{VNET, partial_checksum};
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

mod bindings;
pub mod nat64;
#[cfg(test)]
mod tests;
mod view;

/// Time for which later fragments of a packet follow the first: that of Linux (`ipfrag_time`).
const FRAGMENTS: Nanos = Nanos::from_secs(30);
/// Largest number of packets whose later fragments are waited for.
const MOST_FRAGMENTED: usize = 1_024;

/// NAT or stateful firewall, as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Middlebox {
    /// Mapping of a NAT (RFC 4787, section 4.1); `None` for a firewall, which changes no address.
    pub mapping: Option<Dependence>,
    /// Filtering of packets from outside (RFC 4787, section 5).
    pub filtering: Dependence,
    /// Time without packets after which a binding of UDP ends (RFC 4787, section 4.3).
    pub timeout: Nanos,
    /// True if hosts inside reach each other by the public address (RFC 4787, section 6).
    pub hairpin: bool,
    /// True if packets of IPv6 leave as IPv4 (RFC 6146).
    pub is_nat64: bool,
}

/// Dependence of a mapping or a filter on the remote endpoint (RFC 4787, sections 4.1 and 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependence {
    /// Endpoint-independent: the same for all remote endpoints.
    Independent,
    /// Address-dependent: the same for all ports of a remote address.
    Address,
    /// Address- and port-dependent.
    AddressAndPort,
}

/// Verdict on a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It passes, translated where that is due.
    Passes,
    /// It returns to the host that sent it, since it is to the public address of a host inside (hairpinning).
    Returns,
    /// It is dropped.
    Blocked,
}

/// Middlebox with its bindings.
#[derive(Debug)]
pub struct Translator {
    /// Address of a NAT outside; `None` for a firewall.
    public: Option<IpAddr>,
    hairpin: bool,
    is_nat64: bool,
    /// Largest packet of IPv6 that a NAT64 need not fragment, in bytes.
    mtu: usize,
    /// Identification of the last packet of IPv4 that a NAT64 made.
    id: u32,
    bindings: Bindings,
    fragments: HashMap<FragmentedPacket, (IpAddr, Nanos)>,
}

/// Fields that are the same in all fragments of a packet (RFC 791, section 2.3; RFC 8200, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FragmentedPacket {
    addresses: [IpAddr; 2],
    protocol: u8,
    id: u32,
}

impl FragmentedPacket {
    /// Returns the fields of a fragment; `None` for a whole packet.
    fn of(packet: &PacketView) -> Option<FragmentedPacket> {
        let PacketView { addresses, protocol, fragment, .. } = *packet;
        fragment.map(|(id, _)| FragmentedPacket { addresses, protocol, id })
    }
}

impl Translator {
    /// Creates a middlebox without bindings. `public` is the address that a NAT has outside, `mtu` the largest packet that
    /// passes the links inside, in bytes.
    pub fn new(middlebox: &Middlebox, public: IpAddr, mtu: u16) -> Translator {
        Translator {
            public: middlebox.mapping.map(|_| public),
            hairpin: middlebox.hairpin,
            is_nat64: middlebox.is_nat64,
            mtu: mtu.into(),
            id: 0,
            bindings: Bindings::new(middlebox),
            fragments: HashMap::new(),
        }
    }

    /// Returns the largest packet that a NAT64 need not fragment, in bytes; `None` for others, which change no length.
    pub fn longest_inside(&self) -> Option<usize> {
        Some(self.mtu).filter(|_| self.is_nat64)
    }

    /// Forgets all bindings.
    pub fn clear(&mut self) {
        self.bindings.clear();
        self.fragments.clear();
    }

    /// Translates the packet that leaves in a frame of `len` bytes, or in the beginning of the frame with all headers. A
    /// NAT64, which changes the length, takes whole frames.
    pub fn outward(&mut self, now: Nanos, room: &mut [u8], len: &mut usize) -> Verdict {
        if self.translate(now, room, len, Direction::Up).is_none() {
            return Verdict::Blocked;
        }
        let bytes = room.get(VNET..*len).unwrap_or_default();
        let to = PacketView::of(bytes).map(|packet| packet.address(PacketEnd::Destination));
        if self.public.is_none() || to != self.public {
            return Verdict::Passes;
        }
        if self.hairpin && self.inward(now, room, len) {
            Verdict::Returns
        } else {
            Verdict::Blocked
        }
    }

    /// Translates a packet from outside, likewise; for a NAT64 `room` has 64 bytes more than the frame. Returns false if
    /// the packet is dropped.
    pub fn inward(&mut self, now: Nanos, room: &mut [u8], len: &mut usize) -> bool {
        self.translate(now, room, len, Direction::Down).is_some()
    }

    fn translate(
        &mut self,
        now: Nanos,
        room: &mut [u8],
        len: &mut usize,
        way: Direction,
    ) -> Option<()> {
        let end = PacketEnd::inside(way);
        let frame = room.get_mut(..*len)?;
        let partial = partial_checksum(frame);
        let bytes = frame.get_mut(VNET..)?;
        let packet = PacketView::of(bytes)?;
        if self.is_nat64 {
            let is_ours = Some(packet.address(end)) == self.public;
            return match (way, packet.address(end)) {
                (Direction::Up, IpAddr::V6(_)) => self.cross(now, room, len, way),
                (Direction::Down, IpAddr::V4(_)) if is_ours => self.cross(now, room, len, way),
                // IPv4 of both sides is not its work, and there is no IPv6 outside.
                (_, IpAddr::V4(_)) => Some(()),
                (Direction::Down, IpAddr::V6(_)) => None,
            };
        }
        let fragmented = FragmentedPacket::of(&packet);
        if packet.content == PayloadKind::Fragment {
            let to = self.known_fragment(now, fragmented?)?;
            packet.readdress(bytes, end, to);
            return Some(());
        }
        let public = self.public.filter(|_| packet.address(end).is_ipv4());
        if packet.content == PayloadKind::Other && public.is_some() {
            // Nothing in it would tell the hosts inside apart.
            return None;
        }
        let to = if packet.content == PayloadKind::Error {
            // The packet in it went the other way.
            let (quoted, other) = (packet.quoted(bytes)?, end.other());
            let new = self.endpoint(now, &quoted.flow(bytes, other, false), way, public)?;
            packet.rewrite_quoted(bytes, &quoted, other, new);
            match way {
                Direction::Up => public.unwrap_or(packet.address(end)),
                Direction::Down => new.ip(),
            }
        } else {
            let new = self.endpoint(now, &packet.flow(bytes, end, true), way, public)?;
            packet.rewrite(bytes, end, new, partial);
            new.ip()
        };
        packet.readdress(bytes, end, to);
        if let Some(first) = fragmented {
            self.remember(now, first, to);
        }
        Some(())
    }

    /// Returns the endpoint that takes the place of the local one of a flow.
    fn endpoint(
        &mut self,
        now: Nanos,
        flow: &Flow,
        way: Direction,
        public: Option<IpAddr>,
    ) -> Option<SocketAddr> {
        match way {
            Direction::Up => self.bindings.leave(now, flow, public),
            Direction::Down => self.bindings.enter(now, flow),
        }
    }

    /// Returns the address that took the place of the one inside in the first fragment of a packet.
    fn known_fragment(&self, now: Nanos, packet: FragmentedPacket) -> Option<IpAddr> {
        let (to, _) = self.fragments.get(&packet).filter(|(_, until)| now < *until)?;
        Some(*to)
    }

    /// Remembers the translation of a packet's first fragment for later fragments.
    fn remember(&mut self, now: Nanos, first: FragmentedPacket, to: IpAddr) {
        if self.fragments.len() >= MOST_FRAGMENTED {
            self.fragments.retain(|_, (_, until)| now < *until);
        }
        if self.fragments.len() < MOST_FRAGMENTED {
            self.fragments.insert(first, (to, now + FRAGMENTS));
        }
    }
}
