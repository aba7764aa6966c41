//! Packet as a NAT sees it: its endpoints, and the places of what changes with them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::bindings::Flow;
use crate::segment::Payload;
use deadheat_base::checksum::{fold, sum};
use deadheat_base::ends::Direction;

pub(super) const ICMP: u8 = 1;
const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP_V6: u8 = 58;
const UDP_LITE: u8 = 136;

/// Bytes of a message of ICMP before the packet that it quotes (RFC 792, RFC 4443).
pub(super) const BEFORE_QUOTE: usize = 8;
/// Offset of the identifier of an echo.
const IDENTIFIER: usize = 4;
/// Bytes of a quoted packet that a translation may change: the longest header of IPv4, and that of TCP.
const LONGEST_QUOTE: usize = 80;

/// End of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketEnd {
    Source,
    Destination,
}

impl PacketEnd {
    /// Returns the end inside of a packet that goes this way.
    pub(super) fn inside(way: Direction) -> PacketEnd {
        match way {
            Direction::Up => PacketEnd::Source,
            Direction::Down => PacketEnd::Destination,
        }
    }

    /// Returns the opposite end.
    pub(super) fn other(self) -> PacketEnd {
        match self {
            PacketEnd::Source => PacketEnd::Destination,
            PacketEnd::Destination => PacketEnd::Source,
        }
    }
}

/// Contents of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// Ports in the first four bytes, and a checksum at this offset.
    Ports(usize),
    /// Request or answer of ICMP with an identifier.
    Query,
    /// Error of ICMP, with the beginning of the packet that it is about.
    Error,
    /// Fragment of a packet, not the first.
    Fragment,
    /// Other protocol.
    Other,
}

/// Endpoints of a packet, and the places of its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketView {
    pub(super) protocol: u8,
    /// Addresses of source and destination.
    pub(super) addresses: [IpAddr; 2],
    pub(super) content: PayloadKind,
    /// Of a fragment: its identification, and true if it is the first.
    pub(super) fragment: Option<(u32, bool)>,
    ports: [u16; 2],
    /// Offset of the packet in the bytes that are passed along with it.
    pub(super) start: usize,
    /// Offset of the transport header in the same bytes.
    pub(super) transport: usize,
}

impl PacketView {
    /// Parses the beginning of an IP packet; `None` if it is none, or if headers are cut off.
    pub(super) fn of(bytes: &[u8]) -> Option<PacketView> {
        PacketView::at(bytes, 0)
    }

    fn at(bytes: &[u8], start: usize) -> Option<PacketView> {
        let packet = bytes.get(start..)?;
        let Payload { protocol, at, fragment } = Payload::of(packet)?;
        let addresses = if packet[0] >> 4 == 4 {
            [12, 16].map(|at| IpAddr::V4(Ipv4Addr::from(array::<4>(packet, at))))
        } else {
            [8, 24].map(|at| IpAddr::V6(Ipv6Addr::from(array::<16>(packet, at))))
        };
        let inside = packet.get(at..)?;
        let content = match (protocol, *inside.first()?) {
            _ if fragment.is_some_and(|(_, is_first)| !is_first) => PayloadKind::Fragment,
            (TCP, _) => PayloadKind::Ports(16),
            (UDP | UDP_LITE, _) => PayloadKind::Ports(6),
            (ICMP, 0 | 8 | 13 | 14) | (ICMP_V6, 128 | 129) => PayloadKind::Query,
            (ICMP, 3 | 11 | 12) | (ICMP_V6, 1..=4) => PayloadKind::Error,
            _ => PayloadKind::Other,
        };
        let ports = match content {
            PayloadKind::Ports(_) => [word(inside, 0)?, word(inside, 2)?],
            PayloadKind::Query => [word(inside, IDENTIFIER)?; 2],
            PayloadKind::Error | PayloadKind::Fragment | PayloadKind::Other => [0; 2],
        };
        let transport = start + at;
        Some(PacketView { protocol, addresses, content, fragment, ports, start, transport })
    }

    /// Returns the address of an end.
    pub(super) fn address(&self, end: PacketEnd) -> IpAddr {
        self.addresses[end as usize]
    }

    /// Parses the packet that an error of ICMP quotes.
    pub(super) fn quoted(&self, bytes: &[u8]) -> Option<PacketView> {
        PacketView::at(bytes, self.transport + BEFORE_QUOTE)
    }

    /// Returns the flow, with its local endpoint at an end.
    pub(super) fn flow(&self, bytes: &[u8], local: PacketEnd, renews: bool) -> Flow {
        let endpoint =
            |end: PacketEnd| SocketAddr::new(self.address(end), self.ports[end as usize]);
        let mut remote = endpoint(local.other());
        if self.content == PayloadKind::Query {
            // The identifier belongs to the end that asks.
            remote.set_port(0);
        }
        let flags = bytes.get(self.transport + 13).filter(|_| self.protocol == TCP);
        let flags = flags.copied().unwrap_or_default();
        Flow { protocol: self.protocol, local: endpoint(local), remote, flags, renews }
    }

    /// Writes the address of an end, and the header's checksum.
    pub(super) fn readdress(&self, bytes: &mut [u8], end: PacketEnd, to: IpAddr) {
        if let (IpAddr::V4(_), IpAddr::V4(to)) = (self.address(end), to) {
            let change = replace(bytes, self.start + 12 + 4 * end as usize, &to.octets());
            adjust(bytes, self.start + 10, change);
        }
    }

    /// Writes the port of an end, and the transport's checksum for the port and the address, which
    /// [`PacketView::readdress`] writes. `partial` is the offset of a checksum that covers the pseudo-header only.
    pub(super) fn rewrite(
        &self,
        bytes: &mut [u8],
        end: PacketEnd,
        to: SocketAddr,
        partial: Option<usize>,
    ) {
        let (IpAddr::V4(from), IpAddr::V4(address)) = (self.address(end), to.ip()) else { return };
        let pseudo = difference(&from.octets(), &address.octets());
        self.put_port(bytes, end, to.port(), pseudo, partial);
    }

    /// Writes the port of an end, and the transport's checksum for it and for the change of the pseudo-header's sum.
    /// `partial` is as of [`PacketView::rewrite`].
    pub(super) fn put_port(
        &self,
        bytes: &mut [u8],
        end: PacketEnd,
        port: u16,
        pseudo: u32,
        partial: Option<usize>,
    ) {
        let port = port.to_be_bytes();
        match self.content {
            PayloadKind::Query => {
                let change = replace(bytes, self.transport + IDENTIFIER, &port);
                adjust(bytes, self.transport + 2, change);
            }
            PayloadKind::Ports(check) => {
                let check = self.transport + check;
                let ports = replace(bytes, self.transport + 2 * end as usize, &port);
                let Some(before) = word(bytes, check) else { return };
                let after = match (partial == Some(check), before) {
                    (true, sum) => fold(u32::from(sum) + pseudo),
                    // UDP without a checksum (RFC 768).
                    (false, 0) if self.protocol == UDP => 0,
                    (false, before) => match corrected(before, pseudo + ports) {
                        0 if self.protocol != TCP => 0xffff,
                        after => after,
                    },
                };
                bytes[check..check + 2].copy_from_slice(&after.to_be_bytes());
            }
            PayloadKind::Error | PayloadKind::Fragment | PayloadKind::Other => {}
        }
    }

    /// Writes an end of a packet that this error of ICMP quotes, and the error's own checksum.
    pub(super) fn rewrite_quoted(
        &self,
        bytes: &mut [u8],
        quoted: &PacketView,
        end: PacketEnd,
        to: SocketAddr,
    ) {
        let quote = quoted.start..bytes.len().min(quoted.start + LONGEST_QUOTE);
        let before = sum(&bytes[quote.clone()]);
        quoted.rewrite(bytes, end, to, None);
        quoted.readdress(bytes, end, to.ip());
        let change = u32::from(!fold(before)) + sum(&bytes[quote]);
        if self.protocol == ICMP {
            adjust(bytes, self.transport + 2, change);
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[at + n])
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

/// Returns the difference that a change makes to a sum of 16-bit words.
fn difference(before: &[u8], after: &[u8]) -> u32 {
    u32::from(!fold(sum(before))) + sum(after)
}

/// Writes bytes over others, and returns the difference that it makes to a sum.
pub(super) fn replace(bytes: &mut [u8], at: usize, after: &[u8]) -> u32 {
    let Some(place) = bytes.get_mut(at..at + after.len()) else { return 0 };
    let change = difference(place, after);
    place.copy_from_slice(after);
    change
}

/// Returns a checksum after a change (RFC 1624, equation 3).
fn corrected(check: u16, change: u32) -> u16 {
    !fold(u32::from(!check) + change)
}

/// Corrects the checksum at an offset after a change.
pub(super) fn adjust(bytes: &mut [u8], at: usize, change: u32) {
    if let Some(check) = word(bytes, at) {
        bytes[at..at + 2].copy_from_slice(&corrected(check, change).to_be_bytes());
    }
}
