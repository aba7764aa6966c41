//! NAT64: translation between hosts inside that speak IPv6 and hosts outside that speak IPv4 (RFC 6146), of addresses
//! (RFC 6052) and of headers (RFC 7915). It has the bindings and filters of any NAT here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::bindings::Flow;
use super::view::{
    BEFORE_QUOTE, ICMP, ICMP_V6, PacketEnd, PacketView, PayloadKind, UDP, adjust, replace, word,
};
use super::{FragmentedPacket, Translator};
use crate::segment::{GsoFrame, VNET, complete_checksum, move_payload, partial_checksum};
use deadheat_base::checksum::{fold, sum};
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

/// Well-known prefix of addresses of IPv6 that stand for addresses of IPv4 (RFC 6052, section 2.1).
const PREFIX: [u8; 12] = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const FRAGMENT_HEADER: usize = 8;
/// Longest packet of IPv4 that routers may fragment: a host of IPv6 always sends up to 1280 bytes (RFC 7915,
/// section 5.1).
const FRAGMENTABLE: usize = 1_260;
/// Longest messages of errors, in packets of 576 bytes of IPv4 (RFC 1812, section 4.3.2.3) and 1280 of IPv6 (RFC 4443,
/// section 2.4).
const LONGEST_ERRORS: [usize; 2] = [556, 1_240];

/// Returns the address of IPv6 that stands for one of IPv4.
pub const fn mapped(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low)
}

/// Returns the addresses of IPv6 that stand for the addresses of IPv4 among these.
pub fn all_mapped(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let v4 = addresses.iter().filter(|address| address.is_ipv4());
    v4.filter_map(|address| across(*address)).collect()
}

/// Returns the address of IPv4 for which one of IPv6 stands; `None` for other addresses.
pub fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    octets.starts_with(&PREFIX).then(|| [octets[12], octets[13], octets[14], octets[15]].into())
}

/// Returns true for an address of IPv6 that stands for one of IPv4.
pub fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if embedded(address).is_some())
}

/// Returns the address of a host outside, as the other side knows it.
fn across(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => Some(mapped(address).into()),
        IpAddr::V6(address) => embedded(address).map(IpAddr::V4),
    }
}

/// Splits a packet of IPv6 with a fragment header into fragments that fit; returns none if it fits, or has no such header.
pub fn fragments(frame: &mut [u8], mtu: usize) -> Vec<Vec<u8>> {
    let behind = VNET + IPV6_HEADER + FRAGMENT_HEADER;
    if frame.len() <= (VNET + mtu).max(behind) || frame[VNET] >> 4 != 6 || frame[VNET + 6] != 44 {
        return Vec::new();
    }
    complete_checksum(frame);
    let (head, payload) = frame.split_at(behind);
    let room = (mtu - IPV6_HEADER - FRAGMENT_HEADER) / 8 * 8;
    let field = word(head, behind - 6).unwrap_or_default();
    let fragment = |(n, part): (usize, &[u8])| {
        let more = if (n + 1) * room < payload.len() { 1 } else { field & 1 };
        let mut fragment = [head, part].concat();
        put(&mut fragment, VNET + 4, (FRAGMENT_HEADER + part.len()) as u16);
        let offset = (field & !7).wrapping_add((n * room) as u16);
        put(&mut fragment, behind - 6, offset | more);
        fragment
    };
    payload.chunks(room).enumerate().map(fragment).collect()
}

/// Fields of an IP header that a translation keeps.
#[derive(Debug, Clone, Copy)]
struct HeaderFields {
    class: u8,
    hops: u8,
    protocol: u8,
    /// Length of the payload in bytes, extension headers not included.
    payload: usize,
    /// Offset of the payload.
    at: usize,
    id: u32,
    /// Of a fragment: offset and flag, as in a fragment header of IPv6.
    fragment: Option<u16>,
    /// True if routers may fragment it.
    is_fragmentable: bool,
    /// Offset of a checksum that covers the pseudo-header only.
    partial: Option<usize>,
}

impl HeaderFields {
    /// Reads the beginning of a packet; `None` if it is none, or is routed by its source (RFC 7915, sections 4.1 and 5.1).
    fn read(packet: &[u8]) -> Option<HeaderFields> {
        let fixed = packet.get(..IPV4_HEADER)?;
        if fixed[0] >> 4 == 6 {
            return HeaderFields::read_v6(packet);
        }
        let (at, field) = (usize::from(fixed[0] & 15) * 4, word(fixed, 6)?);
        let fragment = (field << 3) | (field >> 13 & 1);
        let is_plain = !is_source_routed(packet.get(IPV4_HEADER..at)?);
        is_plain.then_some(HeaderFields {
            class: fixed[1],
            hops: fixed[8],
            protocol: fixed[9],
            payload: usize::from(word(fixed, 2)?).checked_sub(at)?,
            at,
            id: u32::from(word(fixed, 4)?),
            fragment: Some(fragment).filter(|field| *field != 0),
            is_fragmentable: field & 0x4000 == 0,
            partial: None,
        })
    }

    fn read_v6(packet: &[u8]) -> Option<HeaderFields> {
        let fixed = packet.get(..IPV6_HEADER)?;
        let (mut protocol, mut at, mut id, mut fragment) = (fixed[6], IPV6_HEADER, 0, None);
        while matches!(protocol, 0 | 43 | 44 | 60) {
            let header = packet.get(at..at + FRAGMENT_HEADER)?;
            let is_fragment = protocol == 44;
            if fragment.is_some() || protocol == 43 && header[3] > 0 {
                return None;
            }
            if is_fragment {
                id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                fragment = word(header, 2);
            }
            at += FRAGMENT_HEADER + if is_fragment { 0 } else { 8 * usize::from(header[1]) };
            protocol = header[0];
        }
        Some(HeaderFields {
            class: fixed[0] << 4 | fixed[1] >> 4,
            hops: fixed[7],
            protocol,
            payload: (usize::from(word(fixed, 4)?) + IPV6_HEADER).checked_sub(at)?,
            at,
            id,
            fragment,
            is_fragmentable: false,
            partial: None,
        })
    }

    /// Writes the header of the other version, and returns its length; `None` if the packet is too long for it.
    fn write(&self, [from, to]: [IpAddr; 2]) -> Option<([u8; 48], usize)> {
        let mut header = [0; 48];
        let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else {
            let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) else { return None };
            let protocol = if self.protocol == ICMP { ICMP_V6 } else { self.protocol };
            let length = self.fragment.map_or(0, |_| FRAGMENT_HEADER);
            (header[0], header[1]) = (0x60 | self.class >> 4, self.class << 4);
            put(&mut header, 4, u16::try_from(self.payload + length).ok()?);
            (header[6], header[7]) = (protocol, self.hops);
            header[8..24].copy_from_slice(&from.octets());
            header[24..40].copy_from_slice(&to.octets());
            if let Some(field) = self.fragment {
                (header[6], header[40]) = (44, protocol);
                put(&mut header, 42, field);
                header[44..].copy_from_slice(&self.id.to_be_bytes());
            }
            return Some((header, IPV6_HEADER + length));
        };
        let dont = if self.is_fragmentable { 0 } else { 0x4000 };
        let field = self.fragment.map_or(dont, |field| field >> 3 | (field & 1) << 13);
        (header[0], header[1]) = (0x45, self.class);
        put(&mut header, 2, u16::try_from(self.payload + IPV4_HEADER).ok()?);
        put(&mut header, 4, self.id as u16);
        put(&mut header, 6, field);
        header[8] = self.hops;
        header[9] = if self.protocol == ICMP_V6 { ICMP } else { self.protocol };
        header[12..16].copy_from_slice(&from.octets());
        header[16..20].copy_from_slice(&to.octets());
        let check = !fold(sum(&header[..IPV4_HEADER]));
        put(&mut header, 10, check);
        Some((header, IPV4_HEADER))
    }
}

impl Translator {
    /// Translates the packet of a frame of `len` bytes into one of the other version, in place; `room` has room for what
    /// it grows by.
    pub(super) fn cross(
        &mut self,
        now: Nanos,
        room: &mut [u8],
        len: &mut usize,
        way: Direction,
    ) -> Option<()> {
        let seen = GsoFrame::parse(&room[..*len]);
        let partial = partial_checksum(&room[..*len]);
        let bytes = room.get_mut(VNET..*len)?;
        let packet = PacketView::of(bytes)?;
        let mut fields = HeaderFields { partial, ..HeaderFields::read(bytes)? };
        let end = PacketEnd::inside(way);
        if packet.content == PayloadKind::Error {
            return self.cross_error(now, room, len, way);
        }
        let peer = across(packet.address(end.other()))?;
        let local = if packet.content == PayloadKind::Fragment {
            self.known_fragment(now, FragmentedPacket::of(&packet)?)?
        } else {
            // The checksum of ICMPv6 covers a length that a fragment does not have (RFC 7915, section 1.2).
            let is_known = match packet.content {
                PayloadKind::Ports(_) => true,
                PayloadKind::Query => packet.fragment.is_none(),
                _ => false,
            };
            let flow = flow(&packet, bytes, end, true).filter(|_| is_known)?;
            let new = self.endpoint(now, &flow, way, self.public)?;
            let to = arranged(end, new.ip(), peer);
            rewrite(bytes, &packet, &fields, (end, new.port()), to)?;
            if let Some(first) = FragmentedPacket::of(&packet) {
                self.remember(now, first, new.ip());
            }
            new.ip()
        };
        let to = arranged(end, local, peer);
        let is_alone = fields.fragment.is_none() && seen.segments == 1;
        match way {
            Direction::Up if fields.fragment.is_none() => {
                let length =
                    (seen.segment_bytes(0) as usize + IPV4_HEADER).saturating_sub(fields.at);
                fields.is_fragmentable = length <= FRAGMENTABLE;
                self.id = self.id.wrapping_add(1);
                fields.id = self.id;
            }
            Direction::Down if is_alone && fields.is_fragmentable => {
                let is_long = IPV6_HEADER + fields.payload > self.mtu;
                fields.fragment = is_long.then_some(0);
            }
            Direction::Up | Direction::Down => {}
        }
        let (header, length) = fields.write(to)?;
        place(room, len, VNET + fields.at, &header[..length])?;
        move_payload(&mut room[..VNET], fields.at, length);
        Some(())
    }

    /// Translates an error of ICMP, with the packet that it quotes.
    fn cross_error(
        &mut self,
        now: Nanos,
        room: &mut [u8],
        len: &mut usize,
        way: Direction,
    ) -> Option<()> {
        let bytes = room.get_mut(VNET..*len)?;
        let (packet, fields) = (PacketView::of(bytes)?, HeaderFields::read(bytes)?);
        let quoted = packet.quoted(bytes)?;
        let mut inner = HeaderFields::read(bytes.get(quoted.start..)?)?;
        // The packet in it went the other way.
        let (end, other) = (PacketEnd::inside(way), PacketEnd::inside(way).other());
        let new = self.endpoint(now, &flow(&quoted, bytes, other, false)?, way, self.public)?;
        let of_quote = arranged(other, new.ip(), across(quoted.address(end))?);
        rewrite(bytes, &quoted, &inner, (other, new.port()), of_quote)?;
        inner.is_fragmentable = inner.payload + IPV4_HEADER <= FRAGMENTABLE;
        let (header, length) = inner.write(of_quote)?;
        let start = bytes.get(packet.transport..packet.transport + BEFORE_QUOTE)?;
        let translated = match way {
            Direction::Up => error_of_v4(start)?,
            Direction::Down => error_of_v6(start)?,
        };
        let local = if way == Direction::Up { self.public? } else { new.ip() };
        let to = arranged(end, local, across(packet.address(end.other()))?);
        let is_v6 = to[0].is_ipv6();
        let quote = bytes.get(quoted.transport..)?;
        let mut message = [&translated, &header[..length], quote].concat();
        message.truncate(LONGEST_ERRORS[usize::from(is_v6)]);
        let pseudo = pseudo_of_icmp(to, message.len()).filter(|_| is_v6).unwrap_or_default();
        let check = !fold(pseudo + sum(&message));
        put(&mut message, 2, check);
        self.id = self.id.wrapping_add(1);
        let (id, payload) = (self.id, message.len());
        let outer = HeaderFields { payload, fragment: None, id, is_fragmentable: true, ..fields };
        let (header, length) = outer.write(to)?;
        let whole = VNET + length + message.len();
        let frame = room.get_mut(..whole)?;
        frame[..VNET].fill(0);
        frame[VNET..VNET + length].copy_from_slice(&header[..length]);
        frame[VNET + length..].copy_from_slice(&message);
        *len = whole;
        Some(())
    }
}

/// Replaces the header that ends at the offset `behind` of a frame of `len` bytes.
fn place(room: &mut [u8], len: &mut usize, behind: usize, header: &[u8]) -> Option<()> {
    let to = VNET + header.len();
    let whole = to + len.checked_sub(behind)?;
    if whole > room.len() {
        return None;
    }
    room.copy_within(behind..*len, to);
    room[VNET..to].copy_from_slice(header);
    *len = whole;
    Some(())
}

/// Orders the addresses of the host inside and of its peer as source and destination.
fn arranged(inside: PacketEnd, local: IpAddr, peer: IpAddr) -> [IpAddr; 2] {
    match inside {
        PacketEnd::Source => [local, peer],
        PacketEnd::Destination => [peer, local],
    }
}

/// Returns a packet as the table of bindings sees it: remote endpoints are of IPv4, and ICMP is one protocol.
fn flow(packet: &PacketView, bytes: &[u8], local: PacketEnd, renews: bool) -> Option<Flow> {
    let flow = packet.flow(bytes, local, renews);
    let remote = match flow.remote.ip() {
        IpAddr::V6(address) => IpAddr::V4(embedded(address)?),
        address => address,
    };
    let protocol = if flow.protocol == ICMP_V6 { ICMP } else { flow.protocol };
    Some(Flow { remote: SocketAddr::new(remote, flow.remote.port()), protocol, ..flow })
}

/// Writes the port of the end inside, and the checksum for addresses `to`.
fn rewrite(
    bytes: &mut [u8],
    packet: &PacketView,
    fields: &HeaderFields,
    (end, port): (PacketEnd, u16),
    to: [IpAddr; 2],
) -> Option<()> {
    let at = packet.transport;
    if packet.content == PayloadKind::Query {
        // Only ICMPv6 has a pseudo-header.
        let (kind, pseudo) = match *bytes.get(at)? {
            128 => (8, !fold(pseudo_of_icmp(packet.addresses, fields.payload)?)),
            129 => (0, !fold(pseudo_of_icmp(packet.addresses, fields.payload)?)),
            8 => (128, fold(pseudo_of_icmp(to, fields.payload)?)),
            0 => (129, fold(pseudo_of_icmp(to, fields.payload)?)),
            _ => return None,
        };
        let kind = replace(bytes, at, &[kind, 0]);
        adjust(bytes, at + 2, kind + u32::from(pseudo));
        packet.put_port(bytes, end, port, 0, None);
        return Some(());
    }
    let change = u32::from(!fold(sum_of(packet.addresses))) + sum_of(to);
    packet.put_port(bytes, end, port, change, fields.partial);
    let is_bare =
        packet.protocol == UDP && word(bytes, at + 6) == Some(0) && fields.partial.is_none();
    if is_bare && to[0].is_ipv6() && packet.start == 0 {
        // IPv6 has no UDP without a checksum (RFC 7915, section 4.5), and a fragment's cannot be made.
        let whole = bytes.get(at..).filter(|_| packet.fragment.is_none())?;
        let pseudo = sum_of(to) + u32::from(UDP) + fields.payload as u32;
        let check = !fold(pseudo + u32::from(fold(sum(whole))));
        put(bytes, at + 6, if check == 0 { 0xffff } else { check });
    }
    Some(())
}

fn sum_of(addresses: [IpAddr; 2]) -> u32 {
    let of = |address| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    addresses.into_iter().map(of).sum()
}

/// Returns the sum of the pseudo-header of ICMPv6 (RFC 4443, section 2.3); `None` for addresses of IPv4.
fn pseudo_of_icmp(addresses: [IpAddr; 2], length: usize) -> Option<u32> {
    addresses[0].is_ipv6().then(|| sum_of(addresses) + length as u32 + u32::from(ICMP_V6))
}

/// Returns the beginning of the error of ICMPv4 for one of ICMPv6 (RFC 7915, section 5.2); `None` if there is none.
fn error_of_v4(error: &[u8]) -> Option<[u8; BEFORE_QUOTE]> {
    let value = u32::from_be_bytes([error[4], error[5], error[6], error[7]]);
    let (kind, code, rest) = match (error[0], error[1]) {
        (1, 0 | 2 | 3) => (3, 1, 0),
        (1, 1) => (3, 10, 0),
        (1, 4) => (3, 3, 0),
        (2, _) => (3, 4, value.saturating_sub(20).min(0xffff)),
        (3, code) => (11, code, 0),
        (4, 0) => (12, 0, u32::from(pointer_of_v4(value)?) << 24),
        (4, 1) => (3, 2, 0),
        _ => return None,
    };
    Some(beginning(kind, code, rest))
}

/// Returns the beginning of the error of ICMPv6 for one of ICMPv4 (RFC 7915, section 4.2); `None` if there is none.
fn error_of_v6(error: &[u8]) -> Option<[u8; BEFORE_QUOTE]> {
    let (kind, code, rest) = match (error[0], error[1]) {
        (3, 0 | 1 | 5..=8 | 11 | 12) => (1, 0, 0),
        // The pointer is to the field of the next header.
        (3, 2) => (4, 1, 6),
        (3, 3) => (1, 4, 0),
        (3, 4) => (2, 0, (u32::from(word(error, 6)?) + 20).max(1_280)),
        (3, 9 | 10 | 13 | 15) => (1, 1, 0),
        (11, code) => (3, code, 0),
        (12, 0 | 2) => (4, 0, pointer_of_v6(error[4])?),
        _ => return None,
    };
    Some(beginning(kind, code, rest))
}

fn beginning(kind: u8, code: u8, rest: u32) -> [u8; BEFORE_QUOTE] {
    let [a, b, c, d] = rest.to_be_bytes();
    [kind, code, 0, 0, a, b, c, d]
}

/// Returns the offset in a header of IPv4 of the field at an offset in one of IPv6 (RFC 7915, figure 6).
fn pointer_of_v4(pointer: u32) -> Option<u8> {
    Some(match pointer {
        0 => 0,
        1 => 1,
        4 | 5 => 2,
        6 => 9,
        7 => 8,
        8..24 => 12,
        24..40 => 16,
        _ => return None,
    })
}

/// Returns the offset in a header of IPv6 of the field at an offset in one of IPv4 (RFC 7915, figure 3).
fn pointer_of_v6(pointer: u8) -> Option<u32> {
    Some(match pointer {
        0 => 0,
        1 => 1,
        2 | 3 => 4,
        8 => 7,
        9 => 6,
        12..16 => 8,
        16..20 => 24,
        _ => return None,
    })
}

/// Returns true if options of IPv4 have a source route (RFC 791, section 3.1).
fn is_source_routed(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (kind, rest.first()) {
            (131 | 137, _) => return true,
            (0, _) => return false,
            (1, _) => rest,
            (_, Some(length)) => options.get(usize::from(*length).max(2)..).unwrap_or_default(),
            (_, None) => return false,
        };
    }
    false
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
