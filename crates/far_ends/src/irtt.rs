//! irtt's server (facts of the protocol from its source, version 0.9, and from what Debian's 0.9.0 sends). All numbers are
//! little-endian.
//!
//! ```text
//! near end                                              server
//! open: parameters ───────────────────────────────────▶
//!                   ◀── reply: token, parameters as its operator allows them
//! request: token, number, room for times, fill ───────▶
//!                   ◀── reply: the same, with its times of receiving and sending
//! close: token ───────────────────────────────────────▶
//! ```
//! The server ignores requests that come faster than it allows; the work is refused before it begins then, so that its
//! drops do not count as losses of the path. The fill of a reply is the server's own: messages are made anew here.

use std::net::SocketAddr;
use std::sync::Mutex;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use socket2::Socket;

use crate::around::{Around, Codec, HEADERS};
use crate::contract::PeerKind;
use crate::error::{Error, Result};
use crate::exchange::Question;
use crate::reflected::SentMessages;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::far_end::{Carried, FarEnd, FarEndInfo};
use crate::transport::plain::{Greeting, PlainProtocol, PlainTransport};
use crate::transport::{Conn, Dial};
use crate::workload::TaskInfo;
use crate::workload::header::FarStamps;
use parameters::Parameters;

mod parameters;

/// Server of irtt.
pub(super) struct Irtt;

static INFO: FarEndInfo = FarEndInfo {
    id: "irtt",
    label: "an irtt server",
    summary: "irtt server, 0.9; sends messages back with its times, at 10ms or slower unless its operator allows more",
    port: 2112,
    carries: &[Carried { over: PlainProtocol::Udp, peer: PeerKind::Echo }],
    counts: Some("its times of receiving and sending of each message"),
    unknown: &[
        "on which of the two ways a message was lost",
        "whether the payload arrived as it was sent: the server's fill is its own",
        "cost and options of the far end",
    ],
};

/// Environment variable with the key of a server with `--hmac`.
const KEY_VARIABLE: &str = "DEADHEAT_IRTT_HMAC";

const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];
const OPEN: u8 = 1;
const REPLY: u8 = 2;
const CLOSE: u8 = 4;
const HMAC: u8 = 8;

/// Length of an HMAC-MD5 (RFC 2104).
const MAC_LEN: usize = 16;

/// Waits for the reply to an open request: each request may open a connection at the server, so they are few.
const WAITS: [Nanos; 3] = [Nanos::from_secs(1), Nanos::from_secs(2), Nanos::from_secs(4)];

impl FarEnd for Irtt {
    fn info(&self) -> &'static FarEndInfo {
        &INFO
    }

    fn misfit(&self, _over: PlainProtocol, task: &TaskInfo) -> Option<String> {
        task.offered().is_none().then(|| {
            "irtt's server takes messages at an interval that is agreed on before; leave out window".to_owned()
        })
    }

    fn dial(
        &self,
        inside: &dyn PlainTransport,
        dial: &Dial<'_>,
        task: &TaskInfo,
    ) -> Result<Box<dyn Conn>> {
        let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
        let seal = Seal(key.map(String::into_bytes));
        let largest = dial.largest_message;
        let asked = Parameters::asked(task, seal.header_len() + FIELDS_LEN + largest);
        let interval = Nanos(asked.interval_ns.unsigned_abs());
        let opened = Mutex::new(None);
        let greeting = IrttGreeting { seal: &seal, asked, opened: &opened };
        let conn = inside.open(&Dial { largest_message: largest + HEADERS, ..*dial }, &greeting)?;
        let token = opened.into_inner().ok().flatten().unwrap_or_default();
        let (sent, allowance) = (SentMessages::new(largest, 0), Allowance::new(interval));
        let codec = IrttPackets { seal, token, sent, allowance };
        Ok(Around::datagrams(conn, Box::new(codec), largest))
    }
}

/// Bytes after the header of a request: the server's monotonic times of receiving and sending.
const STAMPS_LEN: usize = 16;
/// Bytes of token, number and times.
const FIELDS_LEN: usize = 8 + 4 + STAMPS_LEN;

/// Key of packets, if the server wants one.
struct Seal(Option<Vec<u8>>);

impl Seal {
    fn header_len(&self) -> usize {
        MAGIC.len() + 1 + if self.0.is_some() { MAC_LEN } else { 0 }
    }

    /// Writes magic and flags into the start of a packet.
    fn begin(&self, flags: u8, packet: &mut [u8]) {
        packet[..3].copy_from_slice(&MAGIC);
        packet[3] = flags | if self.0.is_some() { HMAC } else { 0 };
    }

    /// Writes the code of a whole packet into its place.
    fn close(&self, packet: &mut [u8]) {
        let Some(key) = &self.0 else { return };
        packet[4..4 + MAC_LEN].fill(0);
        let code = code(key, packet);
        packet[4..4 + MAC_LEN].copy_from_slice(&code);
    }

    /// Returns the flags and the rest of a packet of the server; `None` if it is none, or has a wrong code.
    fn read<'a>(&self, packet: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let rest = packet.strip_prefix(&MAGIC)?;
        let (flags, rest) = rest.split_first()?;
        let Some(key) = &self.0 else {
            return (flags & HMAC == 0).then_some((*flags, rest));
        };
        let (given, rest) = rest.split_first_chunk::<MAC_LEN>()?;
        let mut mac = Hmac::<Md5>::new_from_slice(key).ok()?;
        mac.update(&packet[..4]);
        mac.update(&[0; MAC_LEN]);
        mac.update(rest);
        mac.verify_slice(given).ok()?;
        Some((flags & !HMAC, rest))
    }
}

fn code(key: &[u8], packet: &[u8]) -> [u8; MAC_LEN] {
    let mut code = [0; MAC_LEN];
    // A key of any length fits (RFC 2104).
    if let Ok(mut mac) = Hmac::<Md5>::new_from_slice(key) {
        mac.update(packet);
        code.copy_from_slice(&mac.finalize().into_bytes());
    }
    code
}

/// Open request.
struct IrttGreeting<'a> {
    seal: &'a Seal,
    asked: Parameters,
    /// Token of the connection, once it is open.
    opened: &'a Mutex<Option<u64>>,
}

impl IrttGreeting<'_> {
    fn request(&self) -> Vec<u8> {
        let mut packet = vec![0; self.seal.header_len()];
        self.seal.begin(OPEN, &mut packet);
        self.asked.write(&mut packet);
        self.seal.close(&mut packet);
        packet
    }
}

impl Greeting for IrttGreeting<'_> {
    fn datagrams(&self, socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
        let request = self.request();
        let question = Question { what: "irtt open requests", bytes: &request, most: 1 };
        let mut reply = None;
        let mut asked = Ok(());
        for wait in WAITS {
            let until = deadline.min(Monotonic.now() + wait);
            asked = question.ask(socket, to, until, |got| {
                reply = OpenReply::read(self.seal, got);
                reply.is_some()
            });
            if !matches!(asked, Err(Error::Blocked { .. })) || until == deadline {
                break;
            }
        }
        asked?;
        let reply = reply.unwrap_or_default();
        if reply.is_closed {
            let what = "it refuses the test: its operator allows no such parameters";
            return Err(Error::limited(format!("{} at {to}: {what}", INFO.label)));
        }
        self.asked
            .check(&reply.allowed)
            .map_err(|what| Error::limited(format!("{} at {to}: {what}", INFO.label)))?;
        if let Ok(mut opened) = self.opened.lock() {
            *opened = Some(reply.token);
        }
        Ok(())
    }
}

/// Reply to an open request.
#[derive(Debug, Default, PartialEq)]
struct OpenReply {
    is_closed: bool,
    token: u64,
    allowed: Parameters,
}

impl OpenReply {
    fn read(seal: &Seal, packet: &[u8]) -> Option<OpenReply> {
        let (flags, rest) = seal.read(packet)?;
        if flags & (OPEN | REPLY) != OPEN | REPLY {
            return None;
        }
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let allowed = Parameters::read(rest)?;
        let is_closed = flags & CLOSE != 0;
        Some(OpenReply { is_closed, token: u64::from_le_bytes(*token), allowed })
    }
}

/// Packets of an open connection.
struct IrttPackets {
    seal: Seal,
    token: u64,
    sent: SentMessages,
    allowance: Allowance,
}

/// Messages that the server takes now: one for each interval that it allows, and few at once after a pause. The server
/// drops what comes faster (its bucket has room for 5), so a sender that is late must not catch up in a burst.
#[derive(Debug)]
struct Allowance {
    interval: Nanos,
    /// Time that is not spent yet.
    credit: Nanos,
    last: Option<Nanos>,
}

/// Messages at once after a pause.
const BURST: u64 = 3;

impl Allowance {
    fn new(interval: Nanos) -> Allowance {
        Allowance { interval, credit: Nanos(interval.0 * BURST), last: None }
    }

    fn has_room(&mut self, now: Nanos) -> bool {
        let passed = now - self.last.replace(now).unwrap_or(now);
        self.credit = (self.credit + passed).min(Nanos(self.interval.0 * BURST));
        self.credit >= self.interval
    }

    fn spend(&mut self) {
        self.credit = self.credit - self.interval;
    }
}

impl Codec for IrttPackets {
    fn encode(&mut self, message: &[u8], packet: &mut [u8]) -> usize {
        self.sent.keep(message);
        let head = self.seal.header_len();
        let len = head + FIELDS_LEN + message.len();
        let packet = &mut packet[..len];
        self.seal.begin(0, packet);
        packet[head..head + 8].copy_from_slice(&self.token.to_le_bytes());
        packet[head + 8..head + 12].copy_from_slice(&self.sent.next().to_le_bytes());
        packet[head + 12..head + FIELDS_LEN].fill(0);
        packet[head + FIELDS_LEN..].copy_from_slice(message);
        self.seal.close(packet);
        len
    }

    fn has_room(&mut self) -> bool {
        self.allowance.has_room(Monotonic.now())
    }

    fn sent(&mut self) {
        self.allowance.spend();
        self.sent.sent();
    }

    fn stamp(&mut self, _message: &mut [u8]) {}

    fn decode(&mut self, packet: &[u8], message: &mut [u8]) -> Option<usize> {
        let (flags, rest) = self.seal.read(packet)?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        if flags & (OPEN | REPLY) != REPLY || u64::from_le_bytes(*token) != self.token {
            return None;
        }
        let (received, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _) = rest.split_first_chunk::<8>()?;
        let stamps = FarStamps {
            received_ns: u64::from_le_bytes(*received),
            sent_ns: u64::from_le_bytes(*sent),
        };
        self.sent.answer(u32::from_le_bytes(*number), Some(stamps), message)
    }

    fn farewell(&mut self, packet: &mut [u8]) -> Option<usize> {
        let len = self.seal.header_len() + 8;
        let packet = packet.get_mut(..len)?;
        self.seal.begin(CLOSE, packet);
        packet[len - 8..].copy_from_slice(&self.token.to_le_bytes());
        self.seal.close(packet);
        Some(len)
    }
}

/// Readers for fuzz targets.
pub(crate) mod reading {
    use super::*;
    use crate::readers::{MESSAGE, decode};

    /// Reads a reply to an open request, of a server with a key and without.
    pub(crate) fn opened(bytes: &[u8]) {
        for key in [None, Some(b"key".to_vec())] {
            let reply = OpenReply::read(&Seal(key), bytes);
            let task = TaskInfo::default();
            let asked = Parameters::asked(&task, bytes.len());
            let _ = reply.map(|reply| asked.check(&reply.allowed));
        }
    }

    /// Reads replies to requests.
    pub(crate) fn replies(bytes: &[u8]) {
        for key in [None, Some(b"key".to_vec())] {
            let (sent, allowance) = (SentMessages::new(MESSAGE, 0), Allowance::new(Nanos(1)));
            decode(&mut IrttPackets { seal: Seal(key), token: 7, sent, allowance }, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::header::Header;

    fn packets(key: Option<&str>) -> IrttPackets {
        let seal = Seal(key.map(|key| key.as_bytes().to_vec()));
        let allowance = Allowance::new(Nanos::from_millis(10));
        IrttPackets { seal, token: 7, sent: SentMessages::new(64, 0), allowance }
    }

    #[test]
    fn a_late_sender_does_not_catch_up_in_a_burst() {
        let mut allowance = Allowance::new(Nanos(10));
        let mut at_once = |now| {
            let mut sent = 0;
            while allowance.has_room(Nanos(now)) {
                allowance.spend();
                sent += 1;
            }
            sent
        };
        assert_eq!(at_once(1_000), 3);
        assert_eq!([at_once(1_009), at_once(1_010), at_once(1_020)], [0, 1, 1]);
        assert_eq!(at_once(9_000), 3);
    }

    #[test]
    fn a_reply_is_the_message_of_its_number_with_the_times_of_the_server() {
        for key in [None, Some("secret")] {
            let mut own = packets(key);
            let (mut message, mut packet) = ([9; 64], [0; 64 + HEADERS]);
            Header { tag: 1, seq: 5 }.write(&mut message);
            let len = own.encode(&message, &mut packet);
            own.sent();
            let head = own.seal.header_len();
            assert_eq!(len, head + 28 + 64);
            // The server's own fill, and its times.
            packet[3] |= REPLY;
            packet[head + 12..head + 20].copy_from_slice(&11_u64.to_le_bytes());
            packet[head + 20..head + 28].copy_from_slice(&12_u64.to_le_bytes());
            packet[head + 28..len].fill(0);
            own.seal.close(&mut packet[..len]);
            let mut into = [0; 64 + HEADERS];
            assert_eq!(own.decode(&packet[..len], &mut into), Some(64));
            assert_eq!(Header::read(&into), Some(Header { tag: 1, seq: 5 }));
            assert_eq!(FarStamps::read(&into), Some(FarStamps { received_ns: 11, sent_ns: 12 }));
            assert_eq!(into[28..64], [9; 36]);
            for cut in 0..head + 28 {
                assert_eq!(own.decode(&packet[..cut], &mut into), None, "{cut}");
            }
            packet[head] ^= 1;
            assert_eq!(own.decode(&packet[..len], &mut into), None, "another token");
        }
    }

    #[test]
    fn packets_with_a_wrong_code_are_of_others() {
        let (mut own, mut other) = (packets(Some("a")), packets(Some("b")));
        let mut packet = [0; 64 + HEADERS];
        let len = other.encode(&[0; 64], &mut packet);
        own.encode(&[0; 64], &mut [0; 64 + HEADERS]);
        own.sent();
        packet[3] |= REPLY;
        other.seal.close(&mut packet[..len]);
        assert_eq!(own.decode(&packet[..len], &mut [0; 200]), None);
        assert_eq!(packets(None).decode(&packet[..len], &mut [0; 200]), None);
    }

    #[test]
    fn a_reply_to_an_open_request_is_read_whole_or_not_at_all() {
        let seal = Seal(None);
        let mut packet = vec![0x14, 0xa7, 0x5b, OPEN | REPLY];
        packet.extend_from_slice(&9_u64.to_le_bytes());
        let asked = Parameters { interval_ns: 20_000_000, ..Parameters::default() };
        asked.write(&mut packet);
        let reply = OpenReply::read(&seal, &packet).unwrap();
        assert_eq!((reply.token, reply.is_closed), (9, false));
        assert_eq!(reply.allowed.interval_ns, 20_000_000);
        for cut in 0..12 {
            assert_eq!(OpenReply::read(&seal, &packet[..cut]), None);
        }
        packet[3] = REPLY;
        assert_eq!(OpenReply::read(&seal, &packet), None);
    }
}
