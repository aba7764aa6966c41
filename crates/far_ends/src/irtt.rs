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

use std::cell::OnceCell;
use std::net::SocketAddr;

use socket2::Socket;

use crate::around::{Around, HEADERS};
use crate::codec::Codec;
use crate::exchange::Question;
use crate::reflected::SentMessages;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::PeerFacts;
use deadheat_contract::workload::TaskInfo;
use deadheat_contract::workload::header::{FarStamps, REFLECTED_LEN, Reflected, ReflectorClock};
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, FarEndVariables, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};
use parameters::{IrttParameters, RECEIVED_COUNT};
use wire::{CLOSE, IrttSeal, OPEN, REPLY};

pub(crate) mod parameters;
pub(crate) mod wire;

/// Server of irtt.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "irtt",
        label: "an irtt server",
        summary: "an irtt server, 0.9; sends messages back with its times, one each 10ms at most unless its operator allows more",
        port: 2112,
        takes_path: false,
        over: &[PlainProtocol::UDP],
        peer: PeerFacts::ECHO,
        counts: Some(
            "messages received, by which losses are of the way up or down, and its times of receiving and sending of each",
        ),
        unknown: &[
            "whether the payload arrived as it was sent: the server's fill is its own",
            "order of arrival there",
            "cost and options of the far end",
        ],
        variables: Some(FarEndVariables {
            names: &[KEY_VARIABLE],
            purpose: "The key that an irtt server asks for, with --to irtt://HOST.",
        }),
    },
    misfit: Some(misfit),
    dial,
    remarks: None,
    session: None,
};

/// Environment variable with the key of a server with `--hmac`.
pub(crate) const KEY_VARIABLE: &str = "DEADHEAT_IRTT_HMAC";

/// Waits for the reply to an open request: each request may open a connection at the server, so they are few.
const WAITS: [Nanos; 3] = [Nanos::from_secs(1), Nanos::from_secs(2), Nanos::from_secs(4)];

fn misfit(_over: PlainProtocol, task: &TaskInfo) -> Option<String> {
    let least = REFLECTED_LEN;
    if task.offered().is_none() {
        let what = "irtt's server takes messages at an interval that is agreed on before";
        return Some(format!("{what}; leave out window"));
    }
    (task.largest_message < least).then(|| {
        format!(
            "smaller messages have no room for what irtt's server says; give size={least}, or more"
        )
    })
}

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    task: &TaskInfo,
    _locator: &Locator,
) -> Result<Box<dyn Conn>> {
    let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    let seal = IrttSeal::new(key.as_deref().map(str::as_bytes));
    let largest = dial.largest_message;
    let asked = IrttParameters::asked(task, seal.header_len() + FIELDS_LEN + largest);
    let interval = Nanos(asked.interval_ns.unsigned_abs());
    let opened = OnceCell::new();
    let greeting = IrttGreeting { seal: &seal, asked, opened: &opened };
    let dial = Dial { largest_message: largest + HEADERS, ..*dial };
    let conn = inside.open(&dial, &|socket, to, deadline| greeting.greet(socket, to, deadline))?;
    let (token, allowed) = opened.into_inner().unwrap_or_default();
    let (sent, allowance) = (SentMessages::new(largest, 0), Allowance::new(interval));
    let fields = ReplyFields::of(&allowed);
    let codec = IrttPackets { seal, token, fields, sent, allowance };
    Ok(Around::datagrams(conn, Box::new(codec), largest))
}

/// Bytes of token and number.
const NUMBERS_LEN: usize = 8 + 4;
/// Bytes in front of a message: token and number, and room for the server's count and its monotonic times of receiving
/// and sending.
const FIELDS_LEN: usize = NUMBERS_LEN + 4 + 16;

/// Fields that the server writes into its replies, as its operator allows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReplyFields {
    has_count: bool,
    /// Number of its times.
    stamps: usize,
}

impl ReplyFields {
    fn of(allowed: &IrttParameters) -> ReplyFields {
        // Bits of the two ends of its work on a message; or one time amid it.
        let stamps = (allowed.stamp_at & 7).count_ones() as usize;
        ReplyFields { has_count: allowed.counts & RECEIVED_COUNT != 0, stamps }
    }

    /// Reads the fields of a reply after its numbers; `None` if they are cut off.
    fn read(self, fields: &[u8]) -> Option<FarStamps> {
        let (count, rest) = if self.has_count {
            let (count, rest) = fields.split_first_chunk::<4>()?;
            (Some(u32::from_le_bytes(*count)), rest)
        } else {
            (None, fields)
        };
        let times = rest.get(..8 * self.stamps)?;
        let (clock, [received_ns, sent_ns]) = match times.as_chunks::<8>().0 {
            [received, sent] => {
                (ReflectorClock::Steady, [received, sent].map(|at| u64::from_le_bytes(*at)))
            }
            _ => (ReflectorClock::Unsaid, [0; 2]),
        };
        Some(FarStamps { received_ns, sent_ns, reflected: Some(Reflected { count, clock }) })
    }
}

/// Open request.
struct IrttGreeting<'a> {
    seal: &'a IrttSeal,
    asked: IrttParameters,
    /// Token of the connection and what the server allows, once it is open.
    opened: &'a OnceCell<(u64, IrttParameters)>,
}

impl IrttGreeting<'_> {
    fn request(&self) -> Vec<u8> {
        let mut packet = vec![0; self.seal.header_len()];
        self.seal.begin(OPEN, &mut packet);
        self.asked.write(&mut packet);
        self.seal.close(&mut packet);
        packet
    }

    /// Asks the server to open a connection.
    fn greet(&self, socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
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
            return Err(Error::limited(format!("{} at {to}: {what}", FAR_END.info.label)));
        }
        self.asked
            .check(&reply.allowed)
            .map_err(|what| Error::limited(format!("{} at {to}: {what}", FAR_END.info.label)))?;
        let _ = self.opened.set((reply.token, reply.allowed));
        Ok(())
    }
}

/// Reply to an open request.
#[derive(Debug, Default, PartialEq)]
struct OpenReply {
    is_closed: bool,
    token: u64,
    allowed: IrttParameters,
}

impl OpenReply {
    fn read(seal: &IrttSeal, packet: &[u8]) -> Option<OpenReply> {
        let (flags, rest) = seal.read(packet)?;
        if flags & (OPEN | REPLY) != OPEN | REPLY {
            return None;
        }
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let allowed = IrttParameters::read(rest)?;
        let is_closed = flags & CLOSE != 0;
        Some(OpenReply { is_closed, token: u64::from_le_bytes(*token), allowed })
    }
}

/// Packets of an open connection.
struct IrttPackets {
    seal: IrttSeal,
    token: u64,
    fields: ReplyFields,
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
        packet[head + NUMBERS_LEN..head + FIELDS_LEN].fill(0);
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
        let stamps = self.fields.read(rest)?;
        self.sent.answer(u32::from_le_bytes(*number), stamps, message)
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
#[cfg(any(test, feature = "testing"))]
pub(crate) mod reading {
    use super::*;
    use crate::readers::datagrams::{MESSAGE, decode};

    /// Reads a reply to an open request, of a server with a key and without.
    pub(crate) fn opened(bytes: &[u8]) {
        for key in [None, Some(b"key".to_vec())] {
            let reply = OpenReply::read(&IrttSeal::new(key.as_deref()), bytes);
            let task = TaskInfo::default();
            let asked = IrttParameters::asked(&task, bytes.len());
            let _ = reply.map(|reply| asked.check(&reply.allowed));
        }
    }

    /// Reads replies to requests.
    pub(crate) fn replies(bytes: &[u8]) {
        for key in [None, Some(b"key".to_vec())] {
            let (sent, allowance) = (SentMessages::new(MESSAGE, 0), Allowance::new(Nanos(1)));
            let fields = ReplyFields { has_count: true, stamps: 2 };
            decode(
                &mut IrttPackets {
                    seal: IrttSeal::new(key.as_deref()),
                    token: 7,
                    fields,
                    sent,
                    allowance,
                },
                bytes,
            );
        }
    }
}

/// Returns an open request, for tests.
#[cfg(test)]
pub(crate) fn greeting() -> Box<deadheat_datapath::transport::plain::Greeting<'static>> {
    Box::new(|socket, to, deadline| {
        let asked = IrttParameters::asked(&TaskInfo::default(), 100);
        let (seal, opened) = (&IrttSeal::new(None), &OnceCell::new());
        IrttGreeting { seal, asked, opened }.greet(socket, to, deadline)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::tests::{garbage, greeted};
    use deadheat_contract::contract::Patience;
    use deadheat_contract::workload::header::Header;
    use deadheat_datapath::transport::mem;

    fn packets(key: Option<&str>) -> IrttPackets {
        let seal = IrttSeal::new(key.map(str::as_bytes));
        let allowance = Allowance::new(Nanos::from_millis(10));
        let fields = ReplyFields { has_count: true, stamps: 2 };
        IrttPackets { seal, token: 7, fields, sent: SentMessages::new(64, 0), allowance }
    }

    /// A work of messages never ends its direction, so the end of the connection has to say it.
    #[test]
    fn a_connection_is_closed_at_the_server_when_it_is_dropped() {
        struct Got(Vec<Vec<u8>>);
        impl deadheat_contract::contract::Inbox for Got {
            fn message(&mut self, _: deadheat_contract::contract::Lane, bytes: &[u8]) {
                self.0.push(bytes.to_vec());
            }
        }
        let clock = deadheat_base::time::Manual::default();
        let (inside, mut server) = mem::pair(&clock, mem::losing(0, 1), mem::losing(0, 1));
        drop(Around::datagrams(Box::new(inside), Box::new(packets(None)), 64));
        let mut got = Got(Vec::new());
        server.receive(Patience::None, &mut got).unwrap();
        let close = [&wire::MAGIC[..], &[CLOSE, 7, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(got.0, [close]);
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
            assert_eq!(len, head + 32 + 64);
            // The server's own fill, its count, and its times.
            packet[3] |= REPLY;
            packet[head + 12..head + 16].copy_from_slice(&3_u32.to_le_bytes());
            packet[head + 16..head + 24].copy_from_slice(&11_u64.to_le_bytes());
            packet[head + 24..head + 32].copy_from_slice(&12_u64.to_le_bytes());
            packet[head + 32..len].fill(0);
            own.seal.close(&mut packet[..len]);
            let mut into = [0; 64 + HEADERS];
            assert_eq!(own.decode(&packet[..len], &mut into), Some(64));
            assert_eq!(Header::read(&into), Some(Header { tag: 1, seq: 5 }));
            let reflected = Some(Reflected { count: Some(3), clock: ReflectorClock::Steady });
            let stamps = FarStamps { received_ns: 11, sent_ns: 12, reflected };
            assert_eq!(FarStamps::read(&into), Some(stamps));
            assert_eq!(into[36..64], [9; 28]);
            for cut in 0..head + 32 {
                assert_eq!(own.decode(&packet[..cut], &mut into), None, "{cut}");
            }
            packet[head] ^= 1;
            assert_eq!(own.decode(&packet[..len], &mut into), None, "another token");
        }
    }

    #[test]
    fn fields_are_where_the_operator_of_the_server_leaves_them() {
        let of = |counts, stamp_at| {
            let allowed = IrttParameters { counts, stamp_at, ..IrttParameters::default() };
            let fields = ReplyFields::of(&allowed);
            let len = (0..=20).find(|len| fields.read(&[1; 20][..*len]).is_some()).unwrap();
            let read = fields.read(&[1; 20]).unwrap();
            (len, read.reflected.unwrap(), read.sent_ns != 0)
        };
        let count = Some(0x0101_0101);
        let steady = |count| Reflected { count, clock: ReflectorClock::Steady };
        let unsaid = |count| Reflected { count, clock: ReflectorClock::Unsaid };
        assert_eq!(of(1, 3), (20, steady(count), true));
        assert_eq!(of(0, 3), (16, steady(None), true));
        assert_eq!(of(1, 4), (12, unsaid(count), false), "amid its work");
        assert_eq!(of(1, 0), (4, unsaid(count), false));
        assert_eq!(of(0, 0), (0, unsaid(None), false));
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
        let seal = IrttSeal::new(None);
        let mut packet = vec![0x14, 0xa7, 0x5b, OPEN | REPLY];
        packet.extend_from_slice(&9_u64.to_le_bytes());
        let asked = IrttParameters { interval_ns: 20_000_000, ..IrttParameters::default() };
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

    #[test]
    fn a_server_that_is_silent_lies_refuses_or_is_gone_is_named() {
        let seal = IrttSeal::new(Some(b"secret"));
        let asked =
            IrttParameters { interval_ns: 20_000_000, len: 120, ..IrttParameters::default() };
        let reply = |flags: u8, allowed: &IrttParameters, key: &str| {
            let own = IrttSeal::new(Some(key.as_bytes()));
            let mut packet = vec![0; own.header_len()];
            own.begin(flags, &mut packet);
            packet.extend_from_slice(&9_u64.to_le_bytes());
            allowed.write(&mut packet);
            own.close(&mut packet);
            packet
        };
        let greet = |said: Option<&[Vec<u8>]>| {
            let opened = OnceCell::new();
            let greeting = IrttGreeting { seal: &seal, asked: asked.clone(), opened: &opened };
            let greet = |socket: &Socket, to, deadline| greeting.greet(socket, to, deadline);
            let said = greeted(&greet, said).map_err(|error| error.to_string());
            said.map(|()| opened.into_inner().unwrap())
        };
        let right = reply(OPEN | REPLY, &asked, "secret");
        let wrong = [reply(OPEN | REPLY, &asked, "other"), reply(REPLY, &asked, "secret")];
        let strange: Vec<Vec<u8>> =
            garbage().chain(wrong.clone()).chain([right[..25].to_vec()]).collect();
        let silent = greet(Some(&strange)).unwrap_err();
        assert!(silent.contains("no answer came back"), "{silent}");
        let patient: Vec<Vec<u8>> = strange.into_iter().chain([right]).collect();
        assert_eq!(greet(Some(&patient)), Ok((9, asked.clone())), "and the right one counts");
        let closed = greet(Some(&[reply(OPEN | REPLY | CLOSE, &asked, "secret")])).unwrap_err();
        assert!(closed.contains("refuses the test"), "{closed}");
        let narrow = IrttParameters { interval_ns: 1_000_000_000, ..asked.clone() };
        let less = greet(Some(&[reply(OPEN | REPLY, &narrow, "secret")])).unwrap_err();
        assert!(less.contains("give interval=1000ms"), "{less}");
        let gone = greet(None).unwrap_err();
        assert!(gone.contains("network errors"), "{gone}");
    }

    #[test]
    fn garbage_is_no_message() {
        for key in [None, Some("secret")] {
            let mut own = packets(key);
            own.encode(&[7; 64], &mut [0; 64 + HEADERS]);
            own.sent();
            for datagram in garbage() {
                assert_eq!(own.decode(&datagram, &mut [0; 400]), None);
                // The beginning of a packet, and then nothing that fits.
                let framed = [&wire::MAGIC[..], &[REPLY], &datagram].concat();
                assert_eq!(own.decode(&framed, &mut [0; 400]), None);
            }
        }
    }
}
