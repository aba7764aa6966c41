//! Headers of a captured packet, down to TCP and UDP: link layers, VLAN tags, IPv4, IPv6 with its extension headers.

use std::net::SocketAddr;

use etherparse::{
    EtherType, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TcpSlice, TransportSlice, ip_number,
};

use super::blocks::Frame;

/// `LINKTYPE` of frames that are read (www.tcpdump.org/linktypes.html).
const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW_OF_BSD: u32 = 12;
const RAW: u32 = 101;
const LOOP: u32 = 108;
const COOKED: u32 = 113;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const COOKED_2: u32 = 276;

/// Reason why a packet is of no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unusable {
    /// Its link layer is not read.
    Link(u32),
    /// Neither TCP nor UDP over IP.
    Other,
    Fragment,
    /// It was cut within its headers, or they are damaged.
    Cut,
}

/// Packet of TCP or UDP.
pub(super) struct Packet<'a> {
    pub at_ns: u64,
    /// Source and destination.
    pub ends: [SocketAddr; 2],
    /// Length as an IP packet, in bytes.
    pub bytes: u64,
    /// Place at which it was captured: the interface of the capture, and of Linux's `any`.
    pub place: (u32, u32),
    /// Identification of IPv4; 0 in IPv6.
    pub id: u16,
    pub is_lost: Option<bool>,
    pub content: PacketContent<'a>,
}

/// Content of an IP packet.
pub(super) enum PacketContent<'a> {
    Tcp(Segment),
    /// Bytes of a datagram as far as captured, and its length.
    Udp(&'a [u8], u64),
}

/// Segment of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(super) struct Segment {
    pub seq: u32,
    /// Next byte that its sender expects, if it acknowledges.
    pub ack: Option<u32>,
    pub len: u64,
    pub window: u16,
    pub is_syn: bool,
    pub is_fin: bool,
    pub is_reset: bool,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    /// Its own time stamp, and the echoed one.
    pub stamps: Option<(u32, u32)>,
    /// True if its first selective acknowledgement is of bytes received twice (RFC 2883).
    pub says_twice: bool,
}

impl<'a> Packet<'a> {
    /// Reads the headers of a frame.
    ///
    /// # Errors
    /// The reason why it is of no connection.
    pub(super) fn of(frame: &Frame<'a>) -> Result<Packet<'a>, Unusable> {
        let (kind, skipped) = link_header(frame)?;
        let bytes = frame.bytes.get(skipped..).ok_or(Unusable::Cut)?;
        let sliced = LaxSlicedPacket::from_ether_type(EtherType(kind), bytes);
        let offset = |slice: &[u8]| slice.as_ptr() as usize - bytes.as_ptr() as usize;
        let behind = |at: usize| (frame.len - skipped as u64).saturating_sub(at as u64);
        // A length of 0 is of a packet larger than 64 KiB before its segmentation.
        let whole = |length: u64, at: usize| if length == 0 { behind(at) } else { length };
        let (addresses, start, len, id, payload) = match &sliced.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let header = ip.header();
                let start = offset(header.slice());
                let ends = [header.source_addr().into(), header.destination_addr().into()];
                let len = whole(header.total_len().into(), start);
                (ends, start, len, header.identification(), ip.payload())
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let header = ip.header();
                let start = offset(header.slice());
                let ends = [header.source_addr().into(), header.destination_addr().into()];
                let len = whole(header.payload_length().into(), start + 40) + 40;
                (ends, start, len, 0, ip.payload())
            }
            Some(LaxNetSlice::Arp(_)) => return Err(Unusable::Other),
            None if sliced.stop_err.is_some() => return Err(Unusable::Cut),
            None => return Err(Unusable::Other),
        };
        if payload.fragmented {
            return Err(Unusable::Fragment);
        }
        // Bytes behind the IP header and its extensions.
        let inner = len.saturating_sub((offset(payload.payload) - start) as u64);
        let (ports, content) = match &sliced.transport {
            Some(TransportSlice::Tcp(tcp)) => {
                let len = inner.saturating_sub(tcp.header_slice().len() as u64);
                ([tcp.source_port(), tcp.destination_port()], PacketContent::Tcp(segment(tcp, len)))
            }
            Some(TransportSlice::Udp(udp)) => {
                let content = PacketContent::Udp(udp.payload(), inner.saturating_sub(8));
                ([udp.source_port(), udp.destination_port()], content)
            }
            None if matches!(payload.ip_number, ip_number::TCP | ip_number::UDP) => {
                return Err(Unusable::Cut);
            }
            _ => return Err(Unusable::Other),
        };
        let end = |at: usize| SocketAddr::new(addresses[at], ports[at]);
        Ok(Packet {
            at_ns: frame.at_ns,
            ends: [end(0), end(1)],
            bytes: len,
            place: (frame.interface, interface_of_any(frame)),
            id,
            is_lost: frame.is_lost,
            content,
        })
    }
}

/// Returns the type of the content behind the header of a link layer, and the header's length.
fn link_header(frame: &Frame<'_>) -> Result<(u16, usize), Unusable> {
    let half = |at: usize| {
        let two = frame.bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
        two.map(|two| u16::from_be_bytes(*two)).ok_or(Unusable::Cut)
    };
    let by_version = |at: usize| match frame.bytes.get(at).map(|byte| byte >> 4) {
        Some(4) => Ok((0x0800, at)),
        Some(6) => Ok((0x86dd, at)),
        Some(_) => Err(Unusable::Other),
        None => Err(Unusable::Cut),
    };
    match frame.link {
        ETHERNET => Ok((half(12)?, 14)),
        RAW | RAW_OF_BSD | IPV4 | IPV6 => by_version(0),
        NULL | LOOP => by_version(4),
        COOKED => Ok((half(14)?, 16)),
        COOKED_2 => Ok((half(0)?, 20)),
        other => Err(Unusable::Link(other)),
    }
}

/// Returns the index of the interface in the header of a capture of all interfaces; 0 where there is none.
fn interface_of_any(frame: &Frame<'_>) -> u32 {
    let index = frame.bytes.get(4..).and_then(|rest| rest.first_chunk::<4>());
    index.filter(|_| frame.link == COOKED_2).map_or(0, |four| u32::from_be_bytes(*four))
}

fn segment(tcp: &TcpSlice<'_>, len: u64) -> Segment {
    let mut segment = Segment {
        seq: tcp.sequence_number(),
        ack: tcp.ack().then(|| tcp.acknowledgment_number()),
        len,
        window: tcp.window_size(),
        is_syn: tcp.syn(),
        is_fin: tcp.fin(),
        is_reset: tcp.rst(),
        ..Segment::default()
    };
    for option in tcp.options_iterator().map_while(Result::ok) {
        match option {
            TcpOptionElement::MaximumSegmentSize(bytes) => segment.mss = Some(bytes),
            // RFC 7323, 2.3.
            TcpOptionElement::WindowScale(bits) => segment.scale = Some(bits.min(14)),
            TcpOptionElement::Timestamp(own, echoed) => segment.stamps = Some((own, echoed)),
            TcpOptionElement::SelectiveAcknowledgement((from, to), [second, ..]) => {
                let reaches = |low: u32, high: u32| high.wrapping_sub(low).cast_signed() >= 0;
                let is_old = segment.ack.is_some_and(|ack| reaches(to, ack));
                let within = |(low, high)| reaches(low, from) && reaches(to, high);
                segment.says_twice = is_old || second.is_some_and(within);
            }
            _ => {}
        }
    }
    segment
}
