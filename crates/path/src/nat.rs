//! NAT and stateful firewall at the first host's end of a link: pure, time is an argument.
//!
//! A packet that leaves by the link opens a binding, or keeps one open; a packet from outside passes where a binding and
//! its filter let it. A NAT gives a binding an endpoint of its own public address (RFC 4787, RFC 5382, RFC 5508); a
//! firewall changes no address, and neither of them one of IPv6.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use self::bindings::{Bindings, Flow};
use self::view::{PacketEnd, PacketView, PayloadKind};
use super::segment::{VNET, partial_checksum};
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

mod bindings;
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

impl Translator {
    /// Creates a middlebox without bindings. `public` is the address that a NAT has outside.
    pub fn new(middlebox: &Middlebox, public: IpAddr) -> Translator {
        Translator {
            public: middlebox.mapping.map(|_| public),
            hairpin: middlebox.hairpin,
            bindings: Bindings::new(middlebox),
            fragments: HashMap::new(),
        }
    }

    /// Forgets all bindings.
    pub fn clear(&mut self) {
        self.bindings.clear();
        self.fragments.clear();
    }

    /// Translates the frame of a packet that leaves, or the beginning of the frame with all headers.
    pub fn leave(&mut self, now: Nanos, frame: &mut [u8]) -> Verdict {
        if self.translate(now, frame, Direction::Up).is_none() {
            return Verdict::Blocked;
        }
        let bytes = frame.get(VNET..).unwrap_or_default();
        let to = PacketView::of(bytes).map(|packet| packet.address(PacketEnd::Destination));
        if self.public.is_none() || to != self.public {
            return Verdict::Passes;
        }
        if self.hairpin && self.enter(now, frame) { Verdict::Returns } else { Verdict::Blocked }
    }

    /// Translates the frame of a packet from outside, or the beginning of the frame with all headers. Returns false if
    /// the packet is dropped.
    pub fn enter(&mut self, now: Nanos, frame: &mut [u8]) -> bool {
        self.translate(now, frame, Direction::Down).is_some()
    }

    fn translate(&mut self, now: Nanos, frame: &mut [u8], way: Direction) -> Option<()> {
        let end = match way {
            Direction::Up => PacketEnd::Source,
            Direction::Down => PacketEnd::Destination,
        };
        let partial = partial_checksum(frame);
        let bytes = frame.get_mut(VNET..)?;
        let packet = PacketView::of(bytes)?;
        let fragmented = packet.fragment.map(|(id, _)| FragmentedPacket {
            addresses: packet.addresses,
            protocol: packet.protocol,
            id,
        });
        if packet.content == PayloadKind::Fragment {
            let known = self.fragments.get(&fragmented?);
            let (to, _) = known.filter(|(_, until)| now < *until)?;
            packet.readdress(bytes, end, *to);
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
