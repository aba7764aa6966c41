//! Packets of a frame: the result of one read from a device, as the packets that a link would carry. With
//! segmentation offload that is a super-packet: one header, and the payload of up to 64 KiB of segments. Their
//! fates are decided one by one, and neighbours that survive continue as one super-packet again, with the headers
//! that the kernel's own segmentation would have written.
//!
//! A frame is a `struct virtio_net_hdr` (10 bytes, in the host's byte order; Virtio 1.2, section 5.1.6, and
//! linux/virtio_net.h) and an IP packet. Nothing in it is trusted: an inconsistent frame is one opaque packet.

use std::ops::Range;

use super::impair::packet::Changes;
use deadheat_base::checksum::{fold, sum};
use deadheat_base::ecn::Codepoint;
use deadheat_base::rng::first;

/// Bytes of the header in front of each IP packet.
pub const VNET: usize = 10;

/// Flag for a checksum at `csum_start + csum_offset` that holds the sum of the pseudo-header only.
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Flag beside the type: the first segment alone carries CWR (RFC 3168, section 6.1.2).
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

/// Longest headers in front of a payload that is split.
const LONGEST_HEAD: usize = 320;

/// Frame as packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoFrame {
    /// Number of packets, at least 1.
    pub segments: u32,
    /// Flow: a hash of addresses, protocol and, where there are any, ports.
    pub flow: u64,
    /// Protocol number of their payload, behind IPv6 extension headers; 0 if unknown.
    pub protocol: u8,
    /// Codepoint of ECN (RFC 3168).
    pub codepoint: Codepoint,
    /// Length of the frame in bytes.
    frame: u32,
    version: Version,
    split: Option<Split>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
    Unknown,
}

/// Layout of a super-packet's segments. Offsets are counted from the start of the IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Split {
    protocol: SegmentProtocol,
    /// Offset of the transport header.
    transport: u16,
    /// Offset of the payload.
    head: u16,
    /// Payload bytes of every segment but the last.
    size: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentProtocol {
    Tcp,
    Udp,
}

/// Room for the headers of one frame.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    bytes: [u8; VNET + LONGEST_HEAD],
    len: usize,
}

impl Default for Head {
    fn default() -> Head {
        Head { bytes: [0; VNET + LONGEST_HEAD], len: 0 }
    }
}

impl Head {
    /// Returns the headers written last; empty if the frame's own can be used.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Moves the beginning of the part of a frame that follows here, all its headers included, and returns it to be
    /// changed.
    pub(crate) fn take(&mut self, frame: &[u8], rest: &mut Range<usize>) -> &mut [u8] {
        let taken = rest.len().min(self.bytes.len() - self.len);
        let (from, to) = (rest.start, self.len + taken);
        self.bytes[self.len..to].copy_from_slice(&frame[from..from + taken]);
        (self.len, rest.start) = (to, from + taken);
        &mut self.bytes[..to]
    }
}

/// Payload of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Protocol number, behind IPv6 extension headers; 0 if unknown.
    pub(crate) protocol: u8,
    /// Offset in the packet.
    pub(crate) at: usize,
    /// Of a fragment: its identification, and true if it is the first.
    pub(crate) fragment: Option<(u32, bool)>,
}

impl Payload {
    /// Finds the payload of an IP packet; `None` if it is none.
    pub(crate) fn of(packet: &[u8]) -> Option<Payload> {
        match version(packet) {
            Version::V4 => {
                let field = get(packet, 6);
                let is_first = field & 0x1fff == 0;
                // More fragments follow, or it is not the first.
                let fragment = field & 0x3fff != 0;
                let fragment = fragment.then(|| (u32::from(get(packet, 4)), is_first));
                let at = usize::from(packet[0] & 15) * 4;
                (at >= 20).then_some(Payload { protocol: packet[9], at, fragment })
            }
            Version::V6 => Some(behind_extensions(packet)),
            Version::Unknown => None,
        }
    }
}

/// Returns the offset in the IP packet of a checksum that holds the sum of the pseudo-header only, if the frame has one.
pub(crate) fn partial_checksum(frame: &[u8]) -> Option<usize> {
    let vnet = frame.get(..VNET).filter(|vnet| vnet[0] & NEEDS_CSUM != 0)?;
    Some(usize::from(get_native(vnet, 6)) + usize::from(get_native(vnet, 8)))
}

/// Returns true for a TCP segment that only acknowledges: without payload, SYN, FIN and RST.
pub(crate) fn is_only_ack(frame: &[u8]) -> bool {
    let packet = frame.get(VNET..).unwrap_or_default();
    let Some(Payload { protocol: TCP, at, fragment: None }) = Payload::of(packet) else {
        return false;
    };
    let Some([offset, flags]) = packet.get(at + 12..at + 14) else { return false };
    packet.len() == at + usize::from(offset >> 4) * 4 && flags & (ACK | SYN | FIN | RST) == ACK
}

/// Changes the header in front of an IP packet whose payload has moved from one offset in the packet to another, behind a
/// header of the other version of IP.
pub(crate) fn move_payload(vnet: &mut [u8], from: usize, to: usize) {
    let ecn = vnet[1] & GSO_ECN;
    vnet[1] = match vnet[1] & !GSO_ECN {
        GSO_TCP_V4 => GSO_TCP_V6 | ecn,
        GSO_TCP_V6 => GSO_TCP_V4 | ecn,
        _ => vnet[1],
    };
    for at in [2, 6] {
        if let Some(behind) = usize::from(get_native(vnet, at)).checked_sub(from) {
            put_native(vnet, at, (behind + to) as u16);
        }
    }
}

impl GsoFrame {
    /// Parses a frame. Never fails: a frame that cannot be split is one packet.
    #[inline]
    pub fn parse(frame: &[u8]) -> GsoFrame {
        let packet = frame.get(VNET..).unwrap_or_default();
        let version = version(packet);
        let split = split(frame, packet, version);
        let segments = split.map_or(1, |split| {
            let payload = packet.len() - usize::from(split.head);
            payload.div_ceil(usize::from(split.size)) as u32
        });
        GsoFrame {
            segments,
            flow: flow(packet, version),
            protocol: protocol(packet, version),
            codepoint: codepoint(packet, version),
            frame: frame.len() as u32,
            version,
            split,
        }
    }

    /// Returns the length of segment `n` as an IP packet, in bytes.
    #[inline]
    pub fn segment_bytes(&self, n: u32) -> u32 {
        let packet = self.frame.saturating_sub(VNET as u32);
        let Some(split) = self.split else { return packet };
        let (head, size) = (u32::from(split.head), u32::from(split.size));
        let payload = packet.saturating_sub(head).saturating_sub(n.saturating_mul(size));
        head + payload.min(size)
    }

    /// Prepares segments `from..to` as one frame: the bytes in `head`, then this part of the frame, which is all of
    /// it if nothing changes. It ignores `changes.flipped`: a packet with flipped bits travels alone, see
    /// [`GsoFrame::copy`].
    #[inline]
    pub fn run(
        &self,
        frame: &[u8],
        from: u32,
        to: u32,
        changes: Changes,
        head: &mut Head,
    ) -> Range<usize> {
        head.len = 0;
        let whole = from == 0 && to >= self.segments;
        if whole && !changes.marked {
            return 0..frame.len();
        }
        let Some(split) = self.split.filter(|_| !whole) else {
            return self.marked_whole(frame, head);
        };
        let (start, size) = (VNET + usize::from(split.head), usize::from(split.size));
        let begin = (start + from as usize * size).min(frame.len());
        let end = (start + to as usize * size).min(frame.len());
        head.bytes[..start].copy_from_slice(&frame[..start]);
        head.len = start;
        let last = end == frame.len();
        self.rewrite(&mut head.bytes[..start], split, (from, to), end - begin, last);
        if changes.marked {
            mark(&mut head.bytes[VNET..start], self.version);
        }
        begin..end
    }

    /// Appends the first bytes of segment `n`, at most `most`, from its IP header on; its checksum may hold the sum of the
    /// pseudo-header only.
    pub(crate) fn beginning(&self, frame: &[u8], n: u32, most: usize, room: &mut Vec<u8>) {
        let mut head = Head::default();
        let rest = &frame[self.run(frame, n, n + 1, Changes::default(), &mut head)];
        room.extend(head.bytes().iter().chain(rest).skip(VNET).take(most));
    }

    /// Writes segment `n` as a frame of its own into `room`, its checksum complete, with the changes, and returns
    /// its length in bytes; `None` if there is too little room.
    pub fn copy(&self, frame: &[u8], n: u32, changes: Changes, room: &mut [u8]) -> Option<usize> {
        let mut head = Head::default();
        let rest = &frame[self.run(frame, n, n + 1, changes, &mut head)];
        let len = head.len + rest.len();
        let out = room.get_mut(..len)?;
        out[..head.len].copy_from_slice(head.bytes());
        out[head.len..].copy_from_slice(rest);
        complete_checksum(out);
        if let Some(bit) = changes.flipped {
            let at = VNET + bit as usize / 8;
            if let Some(byte) = out.get_mut(at) {
                *byte ^= 0x80 >> (bit % 8);
            }
        }
        Some(len)
    }

    /// Marks the whole frame with a congestion mark.
    fn marked_whole(&self, frame: &[u8], head: &mut Head) -> Range<usize> {
        // The fixed part of either version's header holds everything that a mark changes.
        let fixed = match self.version {
            Version::V4 => VNET + 20,
            Version::V6 => VNET + 40,
            Version::Unknown => return 0..frame.len(),
        };
        head.bytes[..fixed].copy_from_slice(&frame[..fixed]);
        head.len = fixed;
        mark(&mut head.bytes[VNET..fixed], self.version);
        fixed..frame.len()
    }

    /// Rewrites the headers of the whole frame to the headers of a run of its segments, as Linux does in
    /// `inet_gso_segment`, `tcp_gso_segment` and `__udp_gso_segment`.
    fn rewrite(
        &self,
        head: &mut [u8],
        split: Split,
        (from, to): (u32, u32),
        payload: usize,
        last: bool,
    ) {
        let many = to - from > 1 && payload > usize::from(split.size);
        let (vnet, packet) = head.split_at_mut(VNET);
        vnet[1] = match (many, from) {
            (false, _) => GSO_NONE,
            (true, 0) => vnet[1],
            (true, _) => vnet[1] & !GSO_ECN,
        };
        put_native(vnet, 2, split.head);
        put_native(vnet, 4, if many { split.size } else { 0 });
        let total = packet.len() + payload;
        match self.version {
            Version::V4 => {
                put(packet, 2, total as u16);
                let id = get(packet, 4).wrapping_add(from as u16);
                put(packet, 4, id);
                put(packet, 10, 0);
                let header = usize::from(packet[0] & 15) * 4;
                let sum = !fold(sum(&packet[..header]));
                put(packet, 10, sum);
            }
            Version::V6 => put(packet, 4, (total - 40) as u16),
            Version::Unknown => {}
        }
        let transport = usize::from(split.transport);
        let whole = self.frame as usize - VNET - transport;
        let now = total - transport;
        let header = &mut packet[transport..];
        let check = match split.protocol {
            SegmentProtocol::Tcp => {
                let seq = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let seq = seq.wrapping_add(from.wrapping_mul(u32::from(split.size)));
                header[4..8].copy_from_slice(&seq.to_be_bytes());
                if !last {
                    header[13] &= !(FIN | PSH);
                }
                if from > 0 {
                    header[13] &= !CWR;
                }
                16
            }
            SegmentProtocol::Udp => {
                put(header, 4, now as u16);
                6
            }
        };
        // The pseudo-header's sum holds the length; one's complement subtracts the old one again.
        let before = u32::from(get(header, check));
        put(header, check, fold(before + u32::from(!(whole as u16)) + now as u32));
    }
}

#[inline]
fn version(packet: &[u8]) -> Version {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => Version::V4,
        Some(6) if packet.len() >= 40 => Version::V6,
        _ => Version::Unknown,
    }
}

#[inline]
fn split(frame: &[u8], packet: &[u8], version: Version) -> Option<Split> {
    let vnet = frame.get(..VNET)?;
    let (kind, size) = (vnet[1] & !GSO_ECN, get_native(vnet, 4));
    let protocol = match (kind, version) {
        (GSO_TCP_V4, Version::V4) | (GSO_TCP_V6, Version::V6) => SegmentProtocol::Tcp,
        (GSO_UDP, Version::V4 | Version::V6) => SegmentProtocol::Udp,
        _ => return None,
    };
    // The kernel leaves the checksum of a super-packet to the code that segments it, so this is where its transport
    // header is, extension headers or not.
    let transport = usize::from(get_native(vnet, 6));
    let fixed = if version == Version::V4 { 20 } else { 40 };
    if vnet[0] & NEEDS_CSUM == 0 || transport < fixed || size == 0 {
        return None;
    }
    let head = match protocol {
        SegmentProtocol::Tcp => transport + usize::from(packet.get(transport + 12)? >> 4) * 4,
        SegmentProtocol::Udp => transport + 8,
    };
    let shortest = transport + if protocol == SegmentProtocol::Tcp { 20 } else { 8 };
    let whole_header = version != Version::V4 || usize::from(packet[0] & 15) * 4 <= transport;
    let fits = (shortest..=LONGEST_HEAD).contains(&head) && head < packet.len();
    (fits && whole_header && packet.len() <= usize::from(u16::MAX)).then_some(Split {
        protocol,
        transport: transport as u16,
        head: head as u16,
        size,
    })
}

#[inline]
fn codepoint(packet: &[u8], version: Version) -> Codepoint {
    Codepoint::of(match version {
        Version::V4 => packet[1],
        Version::V6 => packet[1] >> 4,
        Version::Unknown => 0,
    })
}

/// Largest number of IPv6 extension headers that are skipped.
const MOST_EXTENSIONS: usize = 8;

/// Returns the number of the protocol inside, which every fragment has; 0 if there is none.
#[inline]
fn protocol(packet: &[u8], version: Version) -> u8 {
    match version {
        Version::V4 => packet[9],
        Version::V6 => behind_extensions(packet).protocol,
        Version::Unknown => 0,
    }
}

/// Finds the payload behind the extension headers of an IPv6 packet (RFC 8200, section 4): hop-by-hop options, routing,
/// fragment, destination options.
#[inline]
fn behind_extensions(packet: &[u8]) -> Payload {
    let mut found = Payload { protocol: packet[6], at: 40, fragment: None };
    for _ in 0..MOST_EXTENSIONS {
        let at = found.at;
        let length = match (found.protocol, packet.get(at + 1)) {
            (44, _) => 8,
            (0 | 43 | 60, Some(eights)) => 8 + 8 * usize::from(*eights),
            _ => return found,
        };
        if let (44, Some(field)) = (found.protocol, packet.get(at + 2..at + 8)) {
            let id = u32::from_be_bytes([field[2], field[3], field[4], field[5]]);
            found.fragment = Some((id, get(field, 0) & 0xfff8 == 0));
        }
        let Some(behind) = packet.get(at) else { break };
        (found.protocol, found.at) = (*behind, at + length);
    }
    Payload { protocol: 0, ..found }
}

/// Hashes the fields that distinguish flows (RFC 8290, section 4.1.1). Only TCP and UDP have ports here; fragments
/// and packets behind IPv6 extension headers have none.
#[inline]
fn flow(packet: &[u8], version: Version) -> u64 {
    let (protocol, addresses, ports) = match version {
        Version::V4 => {
            let whole = get(packet, 6) & 0x3fff == 0;
            let at = usize::from(packet[0] & 15) * 4;
            (packet[9], &packet[12..20], whole.then_some(at))
        }
        Version::V6 => (packet[6], &packet[8..40], Some(40)),
        Version::Unknown => return 0,
    };
    let ports = ports.filter(|_| [TCP, UDP].contains(&protocol));
    let ports = ports.and_then(|at| packet.get(at..at + 4)).unwrap_or_default();
    let mut hash = u64::from(protocol) + 1;
    for word in addresses.chunks(4).chain(ports.chunks(4)) {
        let word = word.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        hash = first(hash ^ word);
    }
    hash
}

/// Sets the congestion mark, CE (RFC 3168, section 5).
fn mark(packet: &mut [u8], version: Version) {
    match version {
        Version::V4 => {
            let before = get(packet, 0);
            packet[1] |= 3;
            // RFC 1624, equation 3.
            let check =
                u32::from(!get(packet, 10)) + u32::from(!before) + u32::from(get(packet, 0));
            put(packet, 10, !fold(check));
        }
        Version::V6 => packet[1] |= 3 << 4,
        Version::Unknown => {}
    }
}

/// Completes the transport's checksum, which the frame's header leaves to the device.
pub(crate) fn complete_checksum(frame: &mut [u8]) {
    let Some((vnet, packet)) = frame.split_at_mut_checked(VNET) else { return };
    if vnet[0] & NEEDS_CSUM == 0 {
        return;
    }
    let (start, offset) = (usize::from(get_native(vnet, 6)), usize::from(get_native(vnet, 8)));
    vnet.fill(0);
    let Some(covered) = packet.get(start..).filter(|rest| rest.len() >= offset + 2) else { return };
    let udp = offset == 6;
    let check = match !fold(sum(covered)) {
        // A sum of zero means "none" to UDP (RFC 768).
        0 if udp => 0xffff,
        check => check,
    };
    put(packet, start + offset, check);
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn get_native(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn put_native(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::rng::SplitMix64;

    const NONE: Changes = Changes { marked: false, flipped: None };
    const MARKED: Changes = Changes { marked: true, flipped: None };

    /// Builds a super-packet of TCP over IPv4 with `payload` bytes, 12 bytes of options, ECT(0), CWR, PSH and FIN.
    fn tcp_v4(payload: usize, size: u16) -> Vec<u8> {
        let mut frame = vec![0; VNET + 20 + 32];
        frame[0] = NEEDS_CSUM;
        frame[1] = GSO_TCP_V4 | GSO_ECN;
        put_native(&mut frame, 2, 52);
        put_native(&mut frame, 4, size);
        put_native(&mut frame, 6, 20);
        put_native(&mut frame, 8, 16);
        frame.extend((0..payload).map(|n| (n * 7 + n / 256) as u8));
        let packet = &mut frame[VNET..];
        let total = packet.len() as u16;
        packet[..20].copy_from_slice(&[
            0x45, 0x02, 0, 0, 0xff, 0xfe, 0x40, 0, 64, TCP, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2,
        ]);
        put(packet, 2, total);
        let check = !fold(sum(&packet[..20]));
        put(packet, 10, check);
        packet[20..24].copy_from_slice(&[0x10, 0x00, 0x14, 0x5a]);
        packet[24..28].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
        packet[32] = 8 << 4;
        packet[33] = 0x10 | FIN | PSH | CWR;
        let pseudo = sum(&packet[12..20]) + u32::from(TCP) + u32::from(total - 20);
        put(packet, 36, fold(pseudo));
        frame
    }

    #[test]
    fn the_protocol_is_found_behind_extension_headers() {
        let of = |frame: &[u8]| GsoFrame::parse(frame).protocol;
        assert_eq!(of(&tcp_v4(3_000, 1_000)), TCP);
        let mut packet = vec![0; VNET + 40 + 8 + 16 + 8];
        packet[VNET] = 0x60;
        assert_eq!(of(&packet[..VNET + 40]), 0, "hop-by-hop options that are cut off");
        // Hop-by-hop options of 8 bytes, destination options of 16, a fragment of UDP.
        let inside = VNET + 40;
        packet[inside] = 60;
        (packet[inside + 8], packet[inside + 9]) = (44, 1);
        packet[inside + 24] = UDP;
        assert_eq!(of(&packet), UDP);
        packet[VNET + 6] = 58;
        assert_eq!(of(&packet), 58);
        assert_eq!(of(&packet[..VNET]), 0);
        // The parser stops after a number of headers.
        let endless: Vec<u8> = packet[..VNET + 40].iter().copied().chain([0; 400]).collect();
        assert_eq!(of(&[&endless[..VNET + 6], &[0], &endless[VNET + 7..]].concat()), 0);
    }

    fn joined(super_: &GsoFrame, frame: &[u8], from: u32, to: u32, changes: Changes) -> Vec<u8> {
        let mut head = Head::default();
        let rest = super_.run(frame, from, to, changes, &mut head);
        [head.bytes(), &frame[rest]].concat()
    }

    /// Returns true if every checksum that a receiver checks is right.
    fn checksums_hold(frame: &[u8]) -> bool {
        let packet = &frame[VNET..];
        let pseudo = sum(&packet[12..20]) + u32::from(TCP) + u32::from(get(packet, 2) - 20);
        fold(sum(&packet[..20])) == 0xffff && fold(pseudo + sum(&packet[20..])) == 0xffff
    }

    #[test]
    fn a_super_packet_is_its_segments() {
        let frame = tcp_v4(2_500, 1_000);
        let seen = GsoFrame::parse(&frame);
        assert_eq!((seen.segments, seen.codepoint), (3, Codepoint::Ect0));
        let lengths: Vec<u32> = (0..3).map(|n| seen.segment_bytes(n)).collect();
        assert_eq!(lengths, [1_052, 1_052, 552]);
        assert_eq!(joined(&seen, &frame, 0, 3, NONE), frame);
    }

    #[test]
    fn each_segment_has_the_headers_that_the_kernel_gives_it() {
        let frame = tcp_v4(2_500, 1_000);
        let seen = GsoFrame::parse(&frame);
        let mut room = vec![0; 4_096];
        let mut data = Vec::new();
        for n in 0..3 {
            let len = seen.copy(&frame, n, NONE, &mut room).unwrap();
            let (out, packet) = (&room[..len], &room[VNET..len]);
            assert_eq!(out[..VNET], [0; VNET]);
            assert!(checksums_hold(out), "segment {n}");
            assert_eq!(usize::from(get(packet, 2)), packet.len());
            assert_eq!(get(packet, 4), 0xfffeu16.wrapping_add(n as u16));
            let seq = u32::from_be_bytes([packet[24], packet[25], packet[26], packet[27]]);
            assert_eq!(seq, 0xffff_fff0u32.wrapping_add(1_000 * n));
            let flags = [0x10 | CWR, 0x10, 0x10 | FIN | PSH][n as usize];
            assert_eq!(packet[33], flags, "segment {n}");
            data.extend_from_slice(&packet[52..]);
        }
        assert_eq!(data, frame[VNET + 52..]);
    }

    #[test]
    fn a_run_is_a_super_packet_whose_segments_are_the_same() {
        let frame = tcp_v4(9_999, 1_000);
        let seen = GsoFrame::parse(&frame);
        let (mut ours, mut theirs) = (vec![0; 4_096], vec![0; 4_096]);
        for (from, to) in [(0, 4), (3, 9), (5, 10), (9, 10), (0, 1)] {
            let run = joined(&seen, &frame, from, to, NONE);
            let again = GsoFrame::parse(&run);
            assert_eq!((again.segments, again.flow), (to - from, seen.flow));
            for n in from..to {
                let a = seen.copy(&frame, n, NONE, &mut ours).unwrap();
                let b = again.copy(&run, n - from, NONE, &mut theirs).unwrap();
                assert_eq!(ours[..a], theirs[..b], "segment {n} of {from}..{to}");
            }
        }
        let middle = joined(&seen, &frame, 3, 9, NONE);
        assert_eq!(middle[1], GSO_TCP_V4, "CWR is the first segment's alone");
    }

    #[test]
    fn a_mark_changes_two_bits_and_the_checksum() {
        let frame = tcp_v4(2_500, 1_000);
        let seen = GsoFrame::parse(&frame);
        let mut room = vec![0; 4_096];
        for (from, to) in [(0, 3), (1, 2), (1, 3)] {
            let run = joined(&seen, &frame, from, to, MARKED);
            assert_eq!(run[VNET + 1] & 3, 3);
            let len = GsoFrame::parse(&run).copy(&run, 0, NONE, &mut room).unwrap();
            assert!(checksums_hold(&room[..len]));
        }
    }

    #[test]
    fn a_flipped_bit_is_flipped_after_the_checksum_was_made() {
        let frame = tcp_v4(2_500, 1_000);
        let seen = GsoFrame::parse(&frame);
        let (mut whole, mut broken) = (vec![0; 4_096], vec![0; 4_096]);
        let len = seen.copy(&frame, 1, NONE, &mut whole).unwrap();
        for bit in [0, 7, 160, 8 * 52, 8 * 1_052 - 1] {
            let changes = Changes { marked: false, flipped: Some(bit) };
            assert_eq!(seen.copy(&frame, 1, changes, &mut broken), Some(len));
            let differ = |(a, b): (&u8, &u8)| (a ^ b).count_ones();
            let flipped: u32 = whole[..len].iter().zip(&broken[..len]).map(differ).sum();
            assert_eq!(flipped, 1);
            assert_eq!(
                whole[VNET + bit as usize / 8] ^ broken[VNET + bit as usize / 8],
                0x80 >> (bit % 8)
            );
            assert!(!checksums_hold(&broken[..len]));
        }
        assert_eq!(seen.copy(&frame, 1, NONE, &mut [0; 99]), None);
    }

    #[test]
    fn flows_are_told_apart_by_ports() {
        let frame = tcp_v4(100, 1_000);
        let mut other = frame.clone();
        other[VNET + 21] ^= 1;
        assert_eq!(GsoFrame::parse(&frame).flow, GsoFrame::parse(&frame).flow);
        assert_ne!(GsoFrame::parse(&frame).flow, GsoFrame::parse(&other).flow);
        // The same packet as a later fragment: its first bytes are no ports.
        let fragment = |mut frame: Vec<u8>| {
            frame[1] = GSO_NONE;
            put(&mut frame[VNET..], 6, 0x0001);
            frame
        };
        assert_eq!(GsoFrame::parse(&fragment(frame)).flow, GsoFrame::parse(&fragment(other)).flow);
    }

    /// Tests arbitrary input: no panic, and segments that add up to it.
    #[test]
    fn garbage_is_one_packet_or_adds_up() {
        let mut rng = SplitMix64::new(20);
        let mut room = vec![0; 70_000];
        let mut split = 0;
        for round in 0..20_000u64 {
            let mut frame = tcp_v4(rng.below(6_000) as usize, rng.below(1_500) as u16);
            for _ in 0..rng.below(4) {
                let at = rng.below(62) as usize;
                frame[at] = rng.next_u64() as u8;
            }
            frame.truncate(if round % 3 == 0 { rng.below(120) as usize } else { frame.len() });
            let seen = GsoFrame::parse(&frame);
            split += u32::from(seen.segments > 1);
            let mut head = Head::default();
            let mut covered = 0;
            for n in 0..seen.segments {
                let rest = seen.run(&frame, n, n + 1, MARKED, &mut head);
                covered += rest.len();
                let flipped = Some(rng.next_u64() as u32);
                let _ = seen.copy(&frame, n, Changes { marked: true, flipped }, &mut room);
            }
            if seen.segments > 1 {
                let head = seen.split.map_or(0, |split| usize::from(split.head));
                assert_eq!(covered, frame.len() - VNET - head);
            }
        }
        assert!(split > 1_000, "{split} super-packets survived");
    }
}
