//! SCTP (RFC 9260) of the kernel: reliable, ordered messages with congestion control. A lane is a stream, which may be
//! unordered, and may give up messages after a lifetime or at their first loss (RFC 3758). Options and control messages
//! follow RFC 6458 and include/uapi/linux/sctp.h.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use socket2::{Protocol, Socket, Type};

use crate::messages::{self, MessageConn, Messenger, Reception};
use crate::pending::present;
use crate::tcp::{self, Variant};
use crate::udp::{RCVBUF, SNDBUF};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Settings;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{
    Delivery, Ending, Framing, Guarantees, Lane, Offer, Offers, Ordering, Patience, Reach, Service,
};
use deadheat_contract::measurements::{ConnStats, Headers};
use deadheat_datapath::datapath::control::Control;
use deadheat_datapath::datapath::option::{
    Buffer, get, ip_header_bytes, memory_of_unacknowledged, set_words,
};
use deadheat_datapath::datapath::origin::path_mtu_to;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::equal::{self, OwnDefault};
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::hello::{Hello, LEN};
use deadheat_datapath::transport::own_port::OwnPort;
use deadheat_datapath::transport::plain::{Greeting, PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{
    Conn, Dial, Effective, Info, Listen, Listener, Transport, effective_options, options,
};

/// SCTP of the kernel.
pub(super) struct Sctp;

const SCTP: Variant =
    Variant { id: "sctp", kind: Type::STREAM, protocol: IPPROTO, request: "INIT" };

/// Largest message in bytes, the default of sctp-proto at both ends.
pub(super) const LARGEST: u64 = 65_536;

/// Most lanes of a connection, each a stream.
pub(super) const MOST_LANES: u16 = 256;

/// Services of a lane beside reliable and ordered.
const OTHERS: &[Offer] = &[
    Offer { service: Service::UNORDERED, largest_message: Some(LARGEST) },
    Offer { service: Service::EXPIRING, largest_message: Some(LARGEST) },
    Offer { service: Service::BEST_EFFORT, largest_message: Some(LARGEST) },
];

/// Guarantees of SCTP, in both implementations.
pub(super) const PROMISED: Guarantees = Guarantees {
    others: Offers::of(OTHERS),
    lanes: MOST_LANES,
    framing: Framing::Messages,
    ending: Ending::Silent,
    largest_message: Some(LARGEST),
    ..Guarantees::BYTE_STREAM
};

/// Name of its congestion control, for which there is no choice (RFC 9260, 7).
pub(super) const CC: &str = "sctp";

/// Bytes of the common header (RFC 9260, 3) and of a DATA chunk's (3.3.1).
const HEADERS: u64 = 12 + 16;

const IPPROTO: Protocol = Protocol::SCTP;
const LEVEL: libc::c_int = libc::IPPROTO_SCTP;
const RTO_INFO: libc::c_int = 0;
const INIT_MESSAGE: libc::c_int = 2;
const SCTP_NODELAY: libc::c_int = 3;
const RECEIVE_INFO: libc::c_int = 32;
const STATISTICS: libc::c_int = 112;

/// Types of control messages.
const SEND_INFO: libc::c_int = 2;
const RECEIVED_INFO: libc::c_int = 3;
const RELIABILITY_INFO: libc::c_int = 5;

/// Flag of an unordered message.
const UNORDERED: u16 = 1;

static INFO: Info = Info {
    id: SCTP.id,
    label: "SCTP",
    colour: "#a0522d",
    summary: "the kernel's SCTP: reliable messages in many streams",
    guarantees: PROMISED,
    reach: Reach::OwnPort,
    options: &[options::NODELAY],
    keys: &[NODELAY.key(), MIN_RTO.key(), SNDBUF.key(), RCVBUF.key()],
    deployed: &[OwnDefault {
        knob: NODELAY.name(),
        value: "off",
        source: "RFC 6458, 8.1.5: Nagle's algorithm by default",
    }],
    own_port: Some(own_port),
    ..Info::KERNEL
};

const NODELAY: Preset<bool> = Optional::switch("nodelay")
    .or(equal::NODELAY)
    .doc("send small messages at once (SCTP_NODELAY); off: Nagle's algorithm, RFC 896");

const MIN_RTO: Optional<Nanos> = Optional::span("min-rto", (1_000_000, 60_000_000_000))
    .doc("the shortest retransmission timeout, in milliseconds (SCTP_RTOINFO); not set: the host's (`net.sctp.rto_min`), \
     mostly RFC 9260's 1s");

impl Transport for Sctp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        tcp::any(SCTP).map(drop).map_err(|e| {
            let why = match e.raw_os_error() {
                Some(libc::EPROTONOSUPPORT) => "EPROTONOSUPPORT".to_owned(),
                _ => e.to_string(),
            };
            let lacks = format!("kernel has no SCTP (socket: {why}); sctp-udp works");
            Error::unsupported(INFO.id, lacks)
        })
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let options = SctpOptions::new(dial.knobs, dial.lanes, dial.largest_message);
        let deadline = Monotonic.now() + dial.timeout;
        let (socket, connect_ns) = tcp::connect(SCTP, dial, |socket| options.apply(socket))?;
        present(&socket, &dial.hello, dial.to, deadline)?;
        options
            .open(socket, connect_ns)
            .map_err(|e| Error::setup(format!("set up an SCTP connection to {}", dial.to), e))
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let options = SctpOptions::new(listen.knobs, listen.lanes, listen.largest_message);
        let prepared = options.clone();
        let at = listen.at.clone();
        let welcome = move |socket: Socket, hello: Hello, _: Nanos| {
            options.apply(&socket)?;
            let welcomed = socket.send_with_flags(&hello.encode_welcome(), libc::MSG_NOSIGNAL);
            if welcomed.ok() != Some(LEN) {
                return Ok(None);
            }
            options
                .open(socket, 0)
                .map(Some)
                .map_err(|e| Error::setup(format!("set up an SCTP connection on {at}"), e))
        };
        messages::listen(SCTP, listen, |socket| prepared.apply(socket), welcome)
    }
}

/// Opens the port of a server for this protocol.
fn own_port(at: SocketAddr) -> Result<Box<dyn OwnPort>> {
    Sctp.check()?;
    // As many streams as any trial may ask for; the near end's number is the bound. All else is set for each trial.
    let options = SctpOptions {
        nodelay: true,
        min_rto_ms: None,
        sndbuf: None,
        rcvbuf: None,
        header: HeaderTerms::default(),
        lanes: vec![Service::ORDERED; MOST_LANES.into()],
        largest_message: 0,
    };
    messages::own_port(SCTP, at, |socket| options.apply(socket))
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::SCTP, opening: PlainOpening::Greeted(open_plain) };

fn open_plain(dial: &Dial<'_>, greeting: &Greeting<'_>) -> Result<Box<dyn Conn>> {
    let options = SctpOptions::new(dial.knobs, dial.lanes, dial.largest_message);
    let deadline = Monotonic.now() + dial.timeout;
    let to = dial.to.ip(SCTP.id)?;
    let (socket, connect_ns) = tcp::connect(SCTP, dial, |socket| options.apply(socket))?;
    greeting(&socket, to, deadline)?;
    options
        .open(socket, connect_ns)
        .map_err(|e| Error::setup(format!("set up an SCTP connection to {}", dial.to), e))
}

/// Knobs as the socket takes them, with lanes and message length of the work.
#[derive(Debug, Clone)]
struct SctpOptions {
    nodelay: bool,
    min_rto_ms: Option<u32>,
    sndbuf: Option<Bytes>,
    rcvbuf: Option<Bytes>,
    header: HeaderTerms,
    lanes: Vec<Service>,
    largest_message: usize,
}

impl SctpOptions {
    fn new(knobs: &Settings, lanes: &[Service], largest_message: usize) -> SctpOptions {
        let ms = |span: Nanos| u32::try_from((span.0 / 1_000_000).max(1)).unwrap_or(u32::MAX);
        SctpOptions {
            nodelay: knobs.get(&NODELAY),
            min_rto_ms: knobs.find(&MIN_RTO).map(ms),
            sndbuf: knobs.find(&SNDBUF),
            rcvbuf: knobs.find(&RCVBUF),
            header: HeaderTerms::of(knobs),
            lanes: lanes.to_vec(),
            largest_message,
        }
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.header.set(socket)?;
        Buffer::Send.request(socket, self.sndbuf)?;
        Buffer::Receive.request(socket, self.rcvbuf)?;
        self.takes_messages(socket)?;
        let set = |name, what: &str, words: &[u32]| {
            set_words(socket.as_fd(), LEVEL, name, words)
                .map_err(|e| Error::setup(format!("set {what} on an SCTP socket"), e))
        };
        set(SCTP_NODELAY, "SCTP_NODELAY", &[u32::from(self.nodelay)])?;
        set(RECEIVE_INFO, "SCTP_RECVRCVINFO", &[1])?;
        // Outgoing streams, most incoming streams, attempts and their longest timeout; 0 is the kernel's default.
        let streams = self.lanes.len().clamp(1, MOST_LANES.into()) as u16;
        set(INIT_MESSAGE, "SCTP_INITMSG", &halves([streams, MOST_LANES, 0, 0]))?;
        let Some(min) = self.min_rto_ms else { return Ok(()) };
        // Applies to the socket's association, if it has one; the first and the longest timeout stay unchanged.
        let mut now = [0; 4];
        let (first, longest) = match get(socket.as_fd(), LEVEL, RTO_INFO, &mut now) {
            Some(4) => (now[1].max(min), now[2].max(min)),
            _ => (0, 0),
        };
        set(RTO_INFO, "SCTP_RTOINFO", &[0, first, longest, min])
    }

    /// Refuses messages that exceed the send buffer, before anything is sent.
    fn takes_messages(&self, socket: &Socket) -> Result<()> {
        let most = socket
            .send_buffer_size()
            .map_err(|e| Error::setup("read SO_SNDBUF of an SCTP socket", e))?;
        if self.largest_message <= most {
            return Ok(());
        }
        Err(Error::unsupported(
            format!("{} with messages of {} bytes", INFO.id, self.largest_message),
            format!("at most {most} fit its send buffer; raise sndbuf, or take smaller messages"),
        ))
    }

    fn open(&self, socket: Socket, connect_ns: u64) -> io::Result<Box<dyn Conn>> {
        let association = Association {
            mtu: socket.peer_addr().ok().and_then(|peer| path_mtu_to(&peer)),
            socket: CountedSocket::new(socket)?,
            beside: (0..)
                .zip(&self.lanes)
                .map(|(stream, service)| beside(stream, *service))
                .collect(),
            have: 0,
            options: self.clone(),
        };
        Ok(Box::new(MessageConn::new(association, self.largest_message, connect_ns)))
    }
}

/// Returns four half words as the two words that they are in memory.
fn halves(all: [u16; 4]) -> [u32; 2] {
    let word = |a: u16, b: u16| {
        let ([a, b], [c, d]) = (a.to_ne_bytes(), b.to_ne_bytes());
        u32::from_ne_bytes([a, b, c, d])
    };
    [word(all[0], all[1]), word(all[2], all[3])]
}

/// Returns the control data of each message of a stream: `struct sctp_sndinfo`, and `struct sctp_prinfo` if messages
/// may be given up.
fn beside(stream: u16, service: Service) -> Control {
    let flags = if service.ordering == Ordering::Unordered { UNORDERED } else { 0 };
    let words = |first: [u16; 2]| halves([first[0], first[1], 0, 0])[0].to_ne_bytes();
    let send_info = [&words([stream, flags])[..], &[0; 12]].concat();
    let (policy, value) = match service.delivery {
        Delivery::Reliable => return Control::new(&[(LEVEL, SEND_INFO, &send_info)]),
        // SCTP_PR_SCTP_TTL, in milliseconds; 0 would mean no limit.
        Delivery::Within(life) => (0x10, life.0.div_ceil(1_000_000).max(1)),
        // SCTP_PR_SCTP_RTX: number of retransmissions.
        Delivery::BestEffort => (0x20, 0),
    };
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    let reliability = [words([policy, 0]), value.to_ne_bytes()].concat();
    Control::new(&[(LEVEL, SEND_INFO, &send_info), (LEVEL, RELIABILITY_INFO, &reliability)])
}

/// End of an association.
struct Association {
    socket: CountedSocket,
    /// Control data of the messages of each lane.
    beside: Vec<Control>,
    /// Bytes of an incomplete message.
    have: usize,
    mtu: Option<usize>,
    options: SctpOptions,
}

impl Association {
    /// Returns the kernel's counts (`struct sctp_assoc_stats`): packets with data, and retransmitted chunks. It counts
    /// packets of all kinds, and chunks, of which a packet may hold several; the number of packets with data is at most
    /// either.
    fn counts(&self) -> Option<(u64, u64)> {
        // The association's number, an address of 128 bytes aligned to 8, and 15 counters of two words.
        const FIRST: usize = 2 + 32;
        const WORDS: usize = FIRST + 2 * 15;
        let mut words = [0; WORDS];
        let got = get(self.socket.as_fd(), LEVEL, STATISTICS, &mut words)?;
        let counter = |n: usize| {
            let [low, high] = [words[FIRST + 2 * n], words[FIRST + 2 * n + 1]];
            let [a, b, c, d] = low.to_ne_bytes();
            let [e, f, g, h] = high.to_ne_bytes();
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        };
        let (packets, again, chunks) = (counter(3), counter(5), counter(9) + counter(11));
        (got == WORDS).then(|| (packets.saturating_sub(again).min(chunks), again))
    }
}

impl Messenger for Association {
    fn socket(&self) -> &CountedSocket {
        &self.socket
    }

    fn largest(&self) -> (usize, &'static str) {
        (LARGEST as usize, "the largest message that this contender promises")
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8], patience: Patience) -> io::Result<bool> {
        let Some(beside) = self.beside.get(usize::from(lane.0)) else {
            let what = format!("lane {} of {} lanes", lane.0, self.beside.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        };
        Ok(self.socket.send_beside(message, beside, patience)?.is_some())
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Reception> {
        let wanted = (LEVEL, RECEIVED_INFO);
        let rest = &mut room[self.have..];
        let Some(arrived) = self.socket.receive_beside::<2>(rest, wanted, patience)? else {
            return Ok(Reception::Nothing);
        };
        if arrived.len == 0 {
            return Ok(Reception::End);
        }
        self.have += arrived.len;
        if arrived.ends {
            let lane = Lane(arrived.beside.map_or(0, u16::from_ne_bytes));
            return Ok(Reception::Message(lane, std::mem::take(&mut self.have)));
        }
        if self.have == room.len() {
            let what = format!("a message of more than {} B", room.len() - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Reception::Other)
    }

    /// Returns true if no chunk is left: each is charged to the socket until it is acknowledged or given up.
    fn is_acknowledged(&self) -> bool {
        memory_of_unacknowledged(self.socket.as_fd()).is_none_or(|bytes| bytes == 0)
    }

    fn effective(&self) -> Effective {
        let socket = self.socket.socket();
        let read = |name, words: &mut [u32]| get(socket.as_fd(), LEVEL, name, words).is_some();
        let (mut nodelay, mut rto) = ([0], [0; 4]);
        let unknown = || "unknown".to_owned();
        let mut shown = effective_options([
            ("cc", CC.to_owned()),
            (
                "nodelay",
                match (read(SCTP_NODELAY, &mut nodelay), nodelay[0]) {
                    (false, _) => unknown(),
                    (_, 0) => "off".to_owned(),
                    _ => "on".to_owned(),
                },
            ),
            (
                "min-rto",
                if read(RTO_INFO, &mut rto) { format!("{} ms", rto[3]) } else { unknown() },
            ),
            ("sndbuf", Buffer::Send.describe(socket, self.options.sndbuf)),
            ("rcvbuf", Buffer::Receive.describe(socket, self.options.rcvbuf)),
        ]);
        self.options.header.report(self.socket.as_fd(), &mut shown);
        shown
    }

    fn stats(&self) -> ConnStats {
        let counts = self.counts();
        ConnStats {
            retransmits: counts.map(|(_, again)| again),
            headers: Some(Headers {
                ip_bytes: ip_header_bytes(self.socket.socket()),
                transport_bytes: HEADERS,
                framing_bytes: 0,
                mtu: self.mtu.map(|mtu| mtu as u64),
                packets: counts.map(|(packets, _)| packets),
            }),
            ..ConnStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in `struct sctp_initmsg`: four half words, one after the other.
    #[test]
    fn half_words_keep_their_order_in_memory() {
        let bytes: Vec<u8> = halves([1, 2, 3, 4]).iter().flat_map(|w| w.to_ne_bytes()).collect();
        let want: Vec<u8> = [1u16, 2, 3, 4].iter().flat_map(|half| half.to_ne_bytes()).collect();
        assert_eq!(bytes, want);
    }

    #[test]
    fn a_kernel_without_it_is_told_apart() {
        let Err(error) = Sctp.check() else { return };
        let said = error.to_string();
        assert!(said.starts_with("sctp: kernel has no SCTP (socket: "), "{said}");
        assert!(said.ends_with("); sctp-udp works"), "{said}");
    }
}
