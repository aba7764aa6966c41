//! STAMP (RFC 8762, with the session number of RFC 8972), unauthenticated: reflectors in routers and probes. A reflector of
//! TWAMP Light (RFC 5357, appendix I) answers the same packets.
//!
//! ```text
//! sender     0 number | 4 time | 12 error | 14 session | 16 zero … | 44 padding (RFC 8972, 4.1)
//! reflector  0 number | 4 time of sending | 12 error | 14 session | 16 time of receiving | 24 number of the sender |
//!            28 time of the sender | 36 its error | 40 its TTL | 44 padding
//! ```
//! Numbers are big-endian; a time is of NTP (RFC 5905: seconds since 1900, and their fraction) or of PTP, as the error says.
//! There is no handshake: the first packets are sent until one comes back.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use socket2::Socket;

use crate::around::{Around, Codec, HEADERS};
use crate::contract::PeerKind;
use crate::error::Result;
use crate::exchange::Question;
use crate::reflected::SentMessages;
use crate::time::Nanos;
use crate::transport::far_end::{Carried, FarEnd, FarEndInfo};
use crate::transport::plain::{Greeting, PlainProtocol, PlainTransport};
use crate::transport::{Conn, Dial};
use crate::workload::TaskInfo;
use crate::workload::header::FarStamps;

/// Reflector of STAMP.
pub(super) struct Stamp;

static INFO: FarEndInfo = FarEndInfo {
    id: "stamp",
    label: "a STAMP reflector",
    summary: "RFC 8762, and TWAMP Light: routers and probes; sends messages back with its times",
    port: 862,
    carries: &[Carried { over: PlainProtocol::Udp, peer: PeerKind::Echo }],
    counts: Some("its times of receiving and sending of each message"),
    unknown: &[
        "on which of the two ways a message was lost",
        "whether the payload arrived as it was sent: the reflector need not return it",
        "whether the reflector limits the rate of its answers: those are then lost, too",
        "cost and options of the far end",
    ],
};

/// Bytes of a packet without padding.
const BASE_LEN: usize = 44;
/// Least bytes of a reflector's packet: those of TWAMP.
const LEAST_REPLY: usize = 41;
/// Bytes in front of padding: flags, type and length.
const PADDING_HEAD: usize = 4;
const EXTRA_PADDING: u8 = 1;

/// Error of a clock that nobody compared: multiplier 1, which must not be 0.
const ERROR: u16 = 1;
/// Bit of the error that says that times are of PTP.
const IS_PTP: u16 = 0x4000;

/// Seconds from 1900 to 1970.
const NTP_AHEAD: u64 = 2_208_988_800;

/// First packets sent before a path counts as blocked, few enough for a rate limit.
const PROBES: u32 = 10;

impl FarEnd for Stamp {
    fn info(&self) -> &'static FarEndInfo {
        &INFO
    }

    fn misfit(&self, _over: PlainProtocol, task: &TaskInfo) -> Option<String> {
        let least = BASE_LEN;
        (task.largest_message < least).then(|| {
            format!("a packet of STAMP has {least} bytes at least; give size={least}, or more")
        })
    }

    fn dial(
        &self,
        inside: &dyn PlainTransport,
        dial: &Dial<'_>,
        _task: &TaskInfo,
    ) -> Result<Box<dyn Conn>> {
        // Number 0 stands for no session.
        let session = (dial.hello.token.tag() as u16).max(1);
        let largest = dial.largest_message;
        let dial = Dial { largest_message: largest + HEADERS, ..*dial };
        let conn = inside.open(&dial, &Probe { session })?;
        // The probe had number 0.
        let codec = StampPackets { session, sent: SentMessages::new(largest, 1) };
        Ok(Around::datagrams(conn, Box::new(codec), largest))
    }
}

/// Writes a packet into the start of `packet`, of `len` bytes in all; returns its length.
fn write(number: u32, session: u16, len: usize, packet: &mut [u8]) -> usize {
    let len = len.max(BASE_LEN);
    let packet = &mut packet[..len];
    packet.fill(0);
    packet[..4].copy_from_slice(&number.to_be_bytes());
    packet[4..12].copy_from_slice(&ntp_now().to_be_bytes());
    packet[12..14].copy_from_slice(&ERROR.to_be_bytes());
    packet[14..16].copy_from_slice(&session.to_be_bytes());
    if let Some(padding) = len.checked_sub(BASE_LEN + PADDING_HEAD) {
        packet[BASE_LEN + 1] = EXTRA_PADDING;
        packet[BASE_LEN + 2..BASE_LEN + 4].copy_from_slice(&(padding as u16).to_be_bytes());
    }
    len
}

/// Returns the time of day as NTP has it.
fn ntp_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    ((now.as_secs() + NTP_AHEAD) << 32) | fraction
}

/// Returns a reflector's time in nanoseconds.
fn nanos(time: u64, error: u16) -> u64 {
    let (secs, rest) = (time >> 32, time & 0xffff_ffff);
    let rest = if error & IS_PTP != 0 { rest } else { (rest * 1_000_000_000) >> 32 };
    secs * 1_000_000_000 + rest
}

/// Reply of a reflector.
#[derive(Debug, PartialEq)]
struct StampReply {
    /// Number of the packet that it answers.
    number: u32,
    stamps: FarStamps,
}

impl StampReply {
    fn read(session: u16, packet: &[u8]) -> Option<StampReply> {
        if packet.len() < LEAST_REPLY {
            return None;
        }
        let (sent, rest) = packet.get(4..)?.split_first_chunk::<8>()?;
        let (error, rest) = rest.split_first_chunk::<2>()?;
        let (own, rest) = rest.split_first_chunk::<2>()?;
        let (received, rest) = rest.split_first_chunk::<8>()?;
        let (number, _) = rest.split_first_chunk::<4>()?;
        // A reflector of RFC 8762 alone, or of TWAMP, has zeros in its place.
        if ![0, session].contains(&u16::from_be_bytes(*own)) {
            return None;
        }
        let error = u16::from_be_bytes(*error);
        let time = |bytes: &[u8; 8]| nanos(u64::from_be_bytes(*bytes), error);
        let stamps = FarStamps { received_ns: time(received), sent_ns: time(sent) };
        Some(StampReply { number: u32::from_be_bytes(*number), stamps })
    }
}

/// First packet of a session.
struct Probe {
    session: u16,
}

impl Greeting for Probe {
    fn datagrams(&self, socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
        let mut packet = [0; BASE_LEN];
        write(0, self.session, BASE_LEN, &mut packet);
        let question = Question { what: "STAMP packets of 44 B", bytes: &packet, most: PROBES };
        question.ask(socket, to, deadline, |got| StampReply::read(self.session, got).is_some())
    }
}

/// Packets of a session.
struct StampPackets {
    session: u16,
    sent: SentMessages,
}

impl Codec for StampPackets {
    fn encode(&mut self, message: &[u8], packet: &mut [u8]) -> usize {
        self.sent.keep(message);
        write(self.sent.next(), self.session, message.len(), packet)
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn sent(&mut self) {
        self.sent.sent();
    }

    fn stamp(&mut self, _message: &mut [u8]) {}

    fn decode(&mut self, packet: &[u8], message: &mut [u8]) -> Option<usize> {
        let StampReply { number, stamps } = StampReply::read(self.session, packet)?;
        self.sent.answer(number, Some(stamps), message)
    }

    /// Returns `None`: a session has no end on the wire.
    fn farewell(&mut self, _packet: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Readers for fuzz targets.
pub(crate) mod reading {
    use super::*;
    use crate::readers::{MESSAGE, decode};

    /// Reads replies to packets.
    pub(crate) fn replies(bytes: &[u8]) {
        decode(&mut StampPackets { session: 9, sent: SentMessages::new(MESSAGE, 1) }, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::header::Header;

    /// Returns what a stateful reflector answers, with PTP times.
    fn reflect(packet: &[u8], number: u32, received: u64, sent: u64) -> Vec<u8> {
        let mut reply = packet.to_vec();
        reply[..4].copy_from_slice(&number.to_be_bytes());
        reply[4..12].copy_from_slice(&sent.to_be_bytes());
        reply[12..14].copy_from_slice(&(IS_PTP | 1).to_be_bytes());
        reply[16..24].copy_from_slice(&received.to_be_bytes());
        reply[24..38].copy_from_slice(&[&packet[..4], &packet[4..14]].concat());
        reply
    }

    #[test]
    fn a_reply_is_the_message_of_its_number_with_the_times_of_the_reflector() {
        let mut own = StampPackets { session: 9, sent: SentMessages::new(64, 1) };
        let (mut message, mut packet) = ([7; 64], [0; 64 + HEADERS]);
        Header { tag: 1, seq: 5 }.write(&mut message);
        let len = own.encode(&message, &mut packet);
        own.sent();
        assert_eq!((len, &packet[44..48]), (64, &[0, 1, 0, 16][..]));
        let reply = reflect(&packet[..len], 33, 1 << 32 | 5, 2 << 32 | 6);
        let mut into = [0; 200];
        assert_eq!(own.decode(&reply, &mut into), Some(64));
        assert_eq!(Header::read(&into), Some(Header { tag: 1, seq: 5 }));
        let stamps = FarStamps { received_ns: 1_000_000_005, sent_ns: 2_000_000_006 };
        assert_eq!(FarStamps::read(&into), Some(stamps));
        for cut in 0..LEAST_REPLY {
            assert_eq!(own.decode(&reply[..cut], &mut into), None);
        }
        let mut of_another = reply.clone();
        of_another[15] = 8;
        assert_eq!(own.decode(&of_another, &mut into), None);
        let mut without = reply;
        without[14..16].fill(0);
        assert_eq!(own.decode(&without, &mut into), Some(64));
    }

    #[test]
    fn times_of_ntp_are_read_to_the_nanosecond() {
        assert_eq!(nanos(3 << 32 | 1 << 31, 1), 3_500_000_000);
        assert_eq!(nanos(3 << 32 | 500, IS_PTP), 3_000_000_500);
        let now = nanos(ntp_now(), ERROR) / 1_000_000_000;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!((now - NTP_AHEAD).abs_diff(unix) <= 1);
    }
}
