//! Headers of packets in virtual time: IP and UDP with addresses and ports, as a NAT, a firewall and a capture see them.

use std::net::{IpAddr, Ipv4Addr};

use deadheat_base::ecn::Codepoint;
use deadheat_path::addresses::{PUBLIC, addresses, place_of};

/// Protocol number of UDP in an IP header, which all packets here have.
pub(super) const UDP: u8 = 17;
/// Protocol number of a fragment's header of IPv6 (RFC 8200, section 4.5).
const FRAGMENT: u8 = 44;

/// Address on a link, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endpoint {
    link: u8,
    end: u8,
    pub(super) port: u16,
}

impl Endpoint {
    /// Creates the endpoint of the first (0) or second (1) host of a link.
    pub(super) const fn new(link: usize, end: usize, port: u16) -> Endpoint {
        Endpoint { link: link as u8, end: end as u8, port }
    }

    /// Returns the link.
    pub(super) fn link(self) -> usize {
        self.link.into()
    }

    /// Returns the number of the end of the link: 0, 1 or [`PUBLIC`].
    pub(super) fn end(self) -> usize {
        self.end.into()
    }

    /// Returns true if it is outside of a NAT at the link's first host.
    pub(super) fn is_public(self) -> bool {
        self.end() == PUBLIC
    }

    /// Returns the position of its host among the ends of its link.
    pub(super) fn host(self) -> usize {
        if self.is_public() { 0 } else { self.end() }
    }

    fn address(self, ip_header: usize) -> IpAddr {
        let [v4, v6] = addresses(self.end(), self.link()).map(|(address, _)| address);
        if ip_header == 20 { v4 } else { v6 }
    }
}

/// Fields of a packet's headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketHeader {
    /// Source and destination.
    pub(super) ends: [Endpoint; 2],
    /// Length as an IP packet, in bytes.
    pub(super) bytes: usize,
    /// Length of the whole datagram with the header of UDP, in bytes.
    pub(super) datagram: usize,
    pub(super) codepoint: Codepoint,
    /// Of a fragment: the packet's identification, and the bytes of the datagram in front of it.
    pub(super) fragment: Option<(u32, usize)>,
}

impl PacketHeader {
    /// Appends the headers, without checksums: an IP header of 20 or 40 bytes, and that of UDP unless the packet is a later
    /// fragment. Returns the number of bytes of the datagram in front of what follows.
    pub(super) fn write(&self, ip_header: usize, room: &mut Vec<u8>) -> usize {
        let traffic_class = self.codepoint as u8;
        let own = if self.fragment.is_some() && ip_header > 20 { 8 } else { 0 };
        let content = self.bytes.saturating_sub(ip_header + own);
        let before = self.fragment.map_or(0, |(_, before)| before);
        let follow = before + content < self.datagram;
        if ip_header == 20 {
            room.extend_from_slice(&[0x45, traffic_class]);
            room.extend_from_slice(&(self.bytes as u16).to_be_bytes());
            let id = self.fragment.map_or(0, |(id, _)| id as u16);
            let flags: u16 = if self.fragment.is_none() { 0x4000 } else { u16::from(follow) << 13 };
            for word in [id, flags | (before / 8) as u16] {
                room.extend_from_slice(&word.to_be_bytes());
            }
            room.extend_from_slice(&[64, UDP, 0, 0]);
        } else {
            room.extend_from_slice(&[0x60, traffic_class << 4, 0, 0]);
            room.extend_from_slice(&((content + own) as u16).to_be_bytes());
            room.extend_from_slice(&[if own > 0 { FRAGMENT } else { UDP }, 64]);
        }
        for end in self.ends {
            match end.address(ip_header) {
                IpAddr::V4(address) => room.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => room.extend_from_slice(&address.octets()),
            }
        }
        if let Some((id, _)) = self.fragment.filter(|_| own > 0) {
            room.extend_from_slice(&[UDP, 0]);
            room.extend_from_slice(&(before as u16 | u16::from(follow)).to_be_bytes());
            room.extend_from_slice(&id.to_be_bytes());
        }
        if before > 0 {
            return before;
        }
        for word in [self.ends[0].port, self.ends[1].port, self.datagram as u16, 0] {
            room.extend_from_slice(&word.to_be_bytes());
        }
        8
    }
}

/// Returns source and destination of a packet with an IP header of 20 bytes after a translation; of others, and ports that
/// a later fragment does not have, those before.
pub(super) fn translated(packet: &[u8], before: [Endpoint; 2]) -> [Endpoint; 2] {
    if packet.len() < 20 || packet[0] != 0x45 {
        return before;
    }
    let is_first = (packet[6] & 0x1f, packet[7]) == (0, 0);
    let end = |at: usize| {
        let octets: [u8; 4] = std::array::from_fn(|n| packet[12 + 4 * at + n]);
        let (link, end) = place_of(Ipv4Addr::from(octets));
        let port = packet.get(20 + 2 * at..22 + 2 * at).filter(|_| is_first);
        let port = port.map_or(before[at].port, |port| u16::from_be_bytes([port[0], port[1]]));
        Endpoint::new(link, end, port)
    };
    [end(0), end(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_fragments_say_where_they_belong() {
        let ends = [Endpoint::new(3, 0, 50_000), Endpoint::new(7, PUBLIC, 5_210)];
        let whole = PacketHeader {
            ends,
            bytes: 128,
            datagram: 108,
            codepoint: Codepoint::Ect0,
            fragment: None,
        };
        let other = [Endpoint::new(0, 0, 1), Endpoint::new(0, 1, 2)];
        let mut room = Vec::new();
        assert_eq!(whole.write(20, &mut room), 8);
        assert_eq!(room.len(), 28);
        assert_eq!(room[12..20], [198, 18, 3, 1, 198, 18, 7, 3]);
        assert_eq!(translated(&room, other), ends);
        let first = PacketHeader { fragment: Some((9, 0)), bytes: 68, ..whole };
        let later = PacketHeader { fragment: Some((9, 48)), bytes: 80, ..whole };
        for (header, flags, behind) in [(first, [0x20, 0], 8), (later, [0, 6], 48)] {
            room.clear();
            assert_eq!(header.write(20, &mut room), behind);
            assert_eq!(room[4..8], [[0, 9], flags].concat());
        }
        let ports = translated(&room, other).map(|end| end.port);
        assert_eq!(ports, [1, 2], "a later fragment has none");
        room.clear();
        let later = PacketHeader { bytes: 40 + 8 + 60, ..later };
        assert_eq!(later.write(40, &mut room), 48);
        assert_eq!((room.len(), room[6], translated(&room, other)), (48, FRAGMENT, other));
    }
}
