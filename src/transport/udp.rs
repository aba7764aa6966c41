//! UDP (RFC 768): datagrams over the kernel, nothing added. What is lost is gone, and nobody slows
//! the sender down.
//!
//! Messages travel one to a send(2) and one to a recv(2). Bulk travels as the host can best:
//! segmentation and coalescing by the kernel (`gso`, `gro`), or many datagrams a system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::hello::{self, Hello};
use super::knock::{self, Gate, Late};
use super::*;
use crate::contract::{Congestion, Delivery, Framing, Ordering, Side};
use crate::datapath::datagram::{
    self, Coalescing, DatagramSocket, Offload, ReceiveBatch, Segmentation, SendBatch, is_full,
    is_network_error, is_segmentation_refused,
};
use crate::datapath::option::{self, Buffer};
use crate::error::Error;
use crate::spec::Kind;
use crate::units::Bytes;

/// The largest payload over IPv4: an IP packet of 65,535 bytes (RFC 791) less 20 for its header and
/// 8 for that of UDP. IPv6 does not count its own header and so takes 65,527 (RFC 8200), but a
/// message has to fit either family.
pub(super) const LARGEST: u64 = 65_535 - 20 - 8;

/// Buffers per receive where the kernel coalesces: half a megabyte stays within a core's cache.
const COALESCED_SLOTS: usize = 8;

const KEYS: &[Key] = &[
    RCVBUF,
    SNDBUF,
    Key {
        name: "gso",
        kind: Kind::Switch,
        default: "on",
        doc: "let the kernel cut bulk data into datagrams (UDP_SEGMENT), where it can",
    },
    Key {
        name: "gro",
        kind: Kind::Switch,
        default: "on",
        doc: "let the kernel put arriving bulk datagrams together (UDP_GRO), where it can",
    },
    Key {
        name: "batch",
        kind: Kind::Count(1, 1024),
        default: "64",
        doc: "most datagrams per system call for bulk data, where gso or gro is off",
    },
];

/// The knob for the receive buffer. Not set by default: the host's own (`net.core.rmem_default`).
pub(super) const RCVBUF: Key = Key {
    name: "rcvbuf",
    kind: Kind::Size(4_096, 1 << 29),
    default: "",
    doc: "receive buffer (SO_RCVBUF; the kernel doubles it for its own overhead)",
};

const SNDBUF: Key = Key {
    name: "sndbuf",
    kind: Kind::Size(4_096, 1 << 29),
    default: "",
    doc: "send buffer (SO_SNDBUF; the kernel doubles it for its own overhead)",
};

/// UDP over the kernel.
pub(super) struct Udp;

static INFO: Info = Info {
    id: "udp",
    label: "UDP",
    colour: "#e6762e",
    implementation: "linux",
    summary: "datagrams, nothing added: no order, no repair, no congestion control",
    guarantees: Guarantees {
        delivery: Delivery::BestEffort,
        ordering: Ordering::Unordered,
        framing: Framing::Messages,
        congestion: Congestion::Uncontrolled,
        encrypted: false,
        largest_message: Some(LARGEST),
    },
    peer: PeerKind::Process,
    reach: Reach::Network,
    framing_bytes: 0,
    keys: KEYS,
};

impl Transport for Udp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        // Either family is enough: a host may have IPv6 only.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0");
        match socket.or_else(|_| std::net::UdpSocket::bind("[::1]:0")) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::unsupported(
                "udp",
                format!("no UDP socket on loopback ({error}); is the interface lo up?"),
            )),
        }
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let Endpoint::Ip(to) = dial.to else {
            return Err(not_ip("udp", dial.to));
        };
        let knobs = Knobs::new(dial.knobs);
        let prepare = |socket: &socket2::Socket| knobs.prepare(socket);
        let (socket, took) = knock::dial(*to, dial.hello, dial.timeout, &prepare)?;
        let conn = UdpConn::new(socket, dial.hello, Side::Near, knobs, dial.largest_message, took);
        Ok(Box::new(conn.map_err(|e| Error::setup(format!("set up a UDP socket to {to}"), e))?))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let Endpoint::Ip(at) = listen.at else {
            return Err(not_ip("udp", listen.at));
        };
        Ok(Box::new(UdpListener {
            gate: Gate::open(*at, listen.token, listen.door)?,
            knobs: Knobs::new(listen.knobs),
            largest_message: listen.largest_message,
        }))
    }
}

/// The error for an endpoint that is not an IP address.
pub(super) fn not_ip(transport: &str, endpoint: &Endpoint) -> Error {
    Error::usage(format!("{transport} needs an IP address and port, not `{endpoint}`"))
}

struct UdpListener {
    gate: Gate,
    knobs: Knobs,
    largest_message: usize,
}

impl Listener for UdpListener {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Ip(self.gate.at())
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let knobs = self.knobs;
        let guest = self.gate.accept(timeout, &|socket| knobs.prepare(socket))?;
        let (hello, largest) = (guest.hello, self.largest_message);
        let conn = UdpConn::new(guest.socket, hello, Side::Far, knobs, largest, Nanos::ZERO)
            .map_err(|e| Error::setup(format!("set up a UDP socket on {}", self.gate.at()), e))?;
        Ok((hello.flow, Box::new(conn)))
    }
}

/// The knobs as values.
#[derive(Debug, Clone, Copy)]
struct Knobs {
    rcvbuf: Option<Bytes>,
    sndbuf: Option<Bytes>,
    segmentation: Segmentation,
    coalescing: Coalescing,
    batch: usize,
}

impl Knobs {
    fn new(settings: &Settings) -> Knobs {
        let on = |key| settings.switch(key) == Some(true);
        Knobs {
            rcvbuf: settings.size("rcvbuf"),
            sndbuf: settings.size("sndbuf"),
            segmentation: if on("gso") { Segmentation::Kernel } else { Segmentation::Application },
            coalescing: if on("gro") { Coalescing::Kernel } else { Coalescing::None },
            batch: settings.count("batch").map_or(1, |n| n as usize),
        }
    }

    fn prepare(&self, socket: &socket2::Socket) -> Result<()> {
        Buffer::Receive.ask(socket, self.rcvbuf)?;
        Buffer::Send.ask(socket, self.sndbuf)
    }
}

struct UdpConn {
    socket: DatagramSocket,
    hello: [u8; hello::LEN],
    welcome: [u8; hello::LEN],
    side: Side,
    knobs: Knobs,
    largest_message: usize,
    segmentation: Offload<Segmentation>,
    coalescing: Offload<Coalescing>,
    message: Box<[u8]>,
    outbound: Option<SendBatch>,
    inbound: Option<ReceiveBatch>,
    /// Drops before the kernel was told to coalesce, each of one datagram.
    early_drops: Option<u64>,
    connect: Nanos,
    network_errors: u64,
}

impl UdpConn {
    fn new(
        socket: socket2::Socket,
        hello: Hello,
        side: Side,
        knobs: Knobs,
        largest_message: usize,
        connect: Nanos,
    ) -> io::Result<UdpConn> {
        let fd = socket.as_fd();
        let segmentation = Offload::probe(knobs.segmentation, Segmentation::Application, || {
            datagram::probe_segmentation(fd)
        });
        let coalescing =
            Offload::probe(knobs.coalescing, Coalescing::None, || datagram::probe_coalescing(fd));
        Ok(UdpConn {
            socket: DatagramSocket::new(socket)?,
            hello: hello.encode(),
            welcome: hello.encode_welcome(),
            side,
            knobs,
            largest_message,
            segmentation,
            coalescing,
            // One byte more than any message, so that a longer stray shows by its length.
            message: vec![0xA5; largest_message.max(hello::LEN) + 1].into(),
            outbound: None,
            inbound: None,
            early_drops: None,
            connect,
            network_errors: 0,
        })
    }

    /// Makes the buffers for bulk sending: as many messages as the application hands over per call.
    fn start_pumping(&mut self, source: &dyn Source) -> io::Result<SendBatch> {
        let size = source.message_size().max(1);
        let per_call = (source.call_size() / size).max(1);
        let headers = if option::is_ipv6(self.socket.socket()) { 48 } else { 28 };
        if self.segmentation.mode() == Segmentation::Kernel
            && let Some(mtu) = option::path_mtu(self.socket.socket())
            && size + headers > mtu
        {
            self.segmentation = Offload::instead(
                Segmentation::Application,
                format!("a message of {size} B exceeds the path MTU of {mtu} B"),
            );
        }
        let most = match self.segmentation.mode() {
            Segmentation::Kernel => per_call,
            Segmentation::Application => per_call.min(self.knobs.batch),
        };
        SendBatch::new(&self.socket, size, most, self.segmentation.mode())
    }

    /// Sends what waits in `batch`; how many messages left, the ones the network refused included.
    fn send_batch(&mut self, batch: &mut SendBatch) -> io::Result<usize> {
        // An error that an earlier datagram brought back takes the place of one send: try again.
        // A refusal that stays is this host's own, and the messages are lost like any others.
        for _ in 0..2 {
            match batch.send(&mut self.socket) {
                Err(error) if is_network_error(&error) => self.network_errors += 1,
                Err(error)
                    if self.segmentation.mode() == Segmentation::Kernel
                        && is_segmentation_refused(&error) =>
                {
                    batch.stop_segmenting(&self.socket)?;
                    self.segmentation =
                        Offload::instead(Segmentation::Application, error.to_string());
                }
                Err(error) if is_oversize(&error) => {
                    return Err(oversize(error, batch.size()));
                }
                other => return other,
            }
        }
        Ok(batch.discard())
    }
}

impl Conn for UdpConn {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    #[inline]
    fn send(&mut self, _lane: Lane, message: &[u8]) -> io::Result<Progress> {
        // IPv6 would take 20 bytes more; the limit is the same for both, so that a race is, too.
        if message.len() as u64 > LARGEST {
            let error = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(oversize(error, message.len()));
        }
        for _ in 0..2 {
            match self.socket.send(message) {
                Ok(()) => return Ok(Progress::Moved),
                Err(error) if is_full(&error) => return Ok(Progress::Idle),
                Err(error) if is_network_error(&error) => self.network_errors += 1,
                Err(error) if is_oversize(&error) => return Err(oversize(error, message.len())),
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::Moved)
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        match self.socket.receive(patience, &mut self.message) {
            Ok(len) => {
                let message = &self.message[..len];
                match knock::late(message, &self.hello, &self.welcome) {
                    None => inbox.message(Lane::default(), message),
                    late => self.answer(late),
                }
                Ok(Progress::Moved)
            }
            Err(error) => self.missed(error),
        }
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let mut batch = match self.outbound.take() {
            Some(batch) => batch,
            None => self.start_pumping(source)?,
        };
        let done = self.pump_batches(&mut batch, source);
        self.outbound = Some(batch);
        done
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        let mut batch = match self.inbound.take() {
            Some(batch) => batch,
            None => {
                let slots = match self.coalescing.mode() {
                    Coalescing::Kernel => COALESCED_SLOTS,
                    Coalescing::None => self.knobs.batch,
                };
                let largest = self.largest_message.max(hello::LEN);
                self.early_drops = self.socket.drops();
                ReceiveBatch::new(&self.socket, slots, largest, self.coalescing.mode())?
            }
        };
        let done = match batch.receive(&mut self.socket, patience) {
            Ok(_) => {
                let mut late = None;
                batch.each(|bytes| match knock::late(bytes, &self.hello, &self.welcome) {
                    None => sink.take(bytes),
                    found => late = found,
                });
                self.answer(late);
                Ok(Progress::Moved)
            }
            Err(error) => self.missed(error),
        };
        self.inbound = Some(batch);
        done
    }

    /// Nothing to do: UDP has no end, and the peer learns over control what was sent.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn instrument(&mut self) -> io::Result<()> {
        self.socket.switch_stamps_on()
    }

    fn stamps(&mut self) -> Option<&mut Stamps> {
        self.socket.stamps()
    }

    /// `gso` and `gro` say what bulk data is moved with; messages never are.
    fn effective(&self) -> Effective {
        let socket = self.socket.socket();
        [
            ("rcvbuf", Buffer::Receive.tell(socket, self.knobs.rcvbuf)),
            ("sndbuf", Buffer::Send.tell(socket, self.knobs.sndbuf)),
            ("gso", self.segmentation.tell(Segmentation::Kernel)),
            ("gro", self.coalescing.tell(Coalescing::Kernel)),
            ("batch", self.knobs.batch.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Drops of coalesced buffers, which the kernel counts once each, are scaled by what the
    /// others held: exact where the sender's buffers are alike, otherwise an estimate.
    fn stats(&self) -> ConnStats {
        let (early, each) = match &self.inbound {
            Some(batch) => (self.early_drops.unwrap_or(0), batch.datagrams_per_drop()),
            None => (0, 1),
        };
        let scaled = |drops: u64| early + drops.saturating_sub(early).saturating_mul(each);
        ConnStats {
            connect_ns: self.connect.0,
            send_calls: self.socket.send_calls(),
            receive_calls: self.socket.receive_calls(),
            socket_drops: self.socket.drops().map(scaled),
            retransmits: None,
            network_errors: self.network_errors,
        }
    }
}

impl UdpConn {
    fn pump_batches(
        &mut self,
        batch: &mut SendBatch,
        source: &mut dyn Source,
    ) -> io::Result<Progress> {
        let size = batch.size() as u64;
        let mut progress = Progress::Idle;
        while source.budget() > 0 {
            if batch.waiting() == 0 {
                // A message is never cut, so the last one may go beyond the budget.
                for _ in 0..source.budget().div_ceil(size).min(batch.capacity() as u64) {
                    if let Some(slot) = batch.push() {
                        source.stamp(slot);
                    }
                }
            }
            match self.send_batch(batch) {
                Ok(sent) => {
                    source.accepted(sent as u64 * size);
                    progress = Progress::Moved;
                }
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(progress)
    }

    /// Answers a hello that came again: its welcome was lost.
    fn answer(&mut self, late: Option<Late>) {
        if late == Some(Late::Hello) && self.side == Side::Far {
            // Another hello will come where this does not get through.
            let _ = self.socket.send(&self.welcome);
        }
    }

    fn missed(&mut self, error: io::Error) -> io::Result<Progress> {
        if is_network_error(&error) {
            self.network_errors += 1;
            return Ok(Progress::Moved);
        }
        if is_full(&error) { Ok(Progress::Idle) } else { Err(error) }
    }
}

fn is_oversize(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

fn oversize(error: io::Error, len: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("a message of {len} B; UDP carries at most {LARGEST} B ({error})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello { token: hello::Token::from_bytes([5; 16]), flow: 1 };
    const SECOND: Nanos = Nanos::from_secs(1);

    fn settings(spec: &str) -> Settings {
        Settings::check(&Spec::parse(spec).unwrap(), KEYS).unwrap()
    }

    /// Both ends of a connection over loopback.
    fn open(address: &str, spec: &str, largest_message: usize) -> (Box<dyn Conn>, Box<dyn Conn>) {
        let knobs = settings(spec);
        let at = Endpoint::Ip(SocketAddr::new(address.parse().unwrap(), 0));
        let mut listener = Udp
            .listen(Listen {
                at: &at,
                token: HELLO.token,
                knobs: &knobs,
                largest_message,
                door: Door::Own,
            })
            .unwrap();
        let to = listener.endpoint();
        let near_knobs = knobs.clone();
        let near = std::thread::spawn(move || {
            Udp.dial(&Dial {
                to: &to,
                hello: HELLO,
                knobs: &near_knobs,
                largest_message,
                timeout: SECOND,
            })
            .unwrap()
        });
        let (flow, far) = listener.accept(SECOND).unwrap();
        assert_eq!(flow, HELLO.flow);
        (near.join().unwrap(), far)
    }

    #[derive(Default)]
    struct Kept(Vec<Vec<u8>>);

    impl Inbox for Kept {
        fn message(&mut self, _: Lane, bytes: &[u8]) {
            self.0.push(bytes.to_vec());
        }
    }

    impl Sink for Kept {
        fn take(&mut self, bytes: &[u8]) {
            self.0.push(bytes.to_vec());
        }
        fn pass(&mut self, _: u64) {
            panic!("messages are never passed by");
        }
    }

    /// `total` messages of `size` bytes, numbered, `call` bytes a call; `grant` bytes a budget.
    struct Numbered {
        size: usize,
        call: usize,
        grant: u64,
        stamped: u32,
        accepted: u64,
    }

    impl Source for Numbered {
        fn budget(&self) -> u64 {
            self.grant
        }
        fn message_size(&self) -> usize {
            self.size
        }
        fn call_size(&self) -> usize {
            self.call
        }
        fn stamp(&mut self, message: &mut [u8]) {
            message[..4].copy_from_slice(&self.stamped.to_be_bytes());
            self.stamped += 1;
        }
        fn accepted(&mut self, bytes: u64) {
            self.accepted += bytes;
            self.grant = self.grant.saturating_sub(bytes);
        }
    }

    fn numbers(kept: &Kept) -> Vec<u32> {
        kept.0.iter().map(|m| u32::from_be_bytes(m[..4].try_into().unwrap())).collect()
    }

    #[test]
    fn messages_cross_whole_from_the_smallest_to_the_largest() {
        for address in ["127.0.0.1", "::1"] {
            let (mut near, mut far) = open(address, "udp", LARGEST as usize);
            for len in [0, 1, 24, 1_472, LARGEST as usize] {
                let message = vec![7; len];
                assert_eq!(near.send(Lane::default(), &message).unwrap(), Progress::Moved);
                let mut kept = Kept::default();
                assert_eq!(far.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
                assert_eq!(kept.0, [message]);
            }
            let mut kept = Kept::default();
            assert_eq!(far.receive(Patience::None, &mut kept).unwrap(), Progress::Idle);
            let stats = near.stats();
            assert_eq!((stats.send_calls, stats.network_errors), (5, 0));
            assert!(stats.connect_ns > 0);
            assert_eq!(far.stats().receive_calls, 6);
            assert_eq!(far.stats().socket_drops, Some(0));
        }
    }

    #[test]
    fn a_message_too_large_is_refused_with_its_size() {
        let (mut near, _far) = open("127.0.0.1", "udp", LARGEST as usize);
        let error = near.send(Lane::default(), &[0; LARGEST as usize + 1]).unwrap_err();
        assert!(error.to_string().contains("65508 B; UDP carries at most 65507 B"), "{error}");
    }

    #[test]
    fn bulk_arrives_complete_with_every_mix_of_offloads() {
        for address in ["127.0.0.1", "::1"] {
            for spec in [
                "udp:rcvbuf=4MiB",
                "udp:rcvbuf=4MiB,gso=off",
                "udp:rcvbuf=4MiB,gro=off",
                "udp:rcvbuf=4MiB,gso=off,gro=off,batch=7",
                "udp:rcvbuf=4MiB,gso=off,gro=off,batch=1",
            ] {
                let (mut near, mut far) = open(address, spec, 1_400);
                let mut source = Numbered {
                    size: 1_400,
                    call: 131_072,
                    grant: 280_001,
                    stamped: 0,
                    accepted: 0,
                };
                assert_eq!(near.pump(&mut source).unwrap(), Progress::Moved);
                assert_eq!(source.accepted, 201 * 1_400, "{spec}");
                let mut kept = Kept::default();
                while kept.0.len() < 201 {
                    assert_eq!(far.drain(Patience::Block, &mut kept).unwrap(), Progress::Moved);
                }
                assert_eq!(numbers(&kept), (0..201).collect::<Vec<_>>());
                assert!(kept.0.iter().all(|message| message.len() == 1_400));
            }
        }
    }

    #[test]
    fn effective_shows_what_is_in_use_and_why_not_what_was_asked() {
        let (mut near, _far) = open("127.0.0.1", "udp:gro=off,batch=9", 65_507);
        let shown = near.effective();
        assert_eq!(shown["gso"], "on");
        assert_eq!(shown["gro"], "off");
        assert_eq!(shown["batch"], "9");
        assert!(shown["rcvbuf"].parse::<u64>().unwrap() > 0);
        // Beyond loopback's MTU with its headers, though not beyond a datagram over IPv6.
        let (mut wide, _far) = open("::1", "udp", 65_507);
        for (conn, size, want) in [
            (&mut near, 1_400, "on"),
            (&mut wide, 65_500, "off (a message of 65500 B exceeds the path MTU of 65536 B)"),
        ] {
            let mut source = Numbered { size, call: 131_072, grant: 1, stamped: 0, accepted: 0 };
            conn.pump(&mut source).unwrap();
            assert_eq!(source.accepted, size as u64);
            assert_eq!(conn.effective()["gso"], want);
        }
    }

    #[test]
    fn a_buffer_beyond_the_limit_is_granted_or_explained() {
        let (near, _far) = open("127.0.0.1", "udp:rcvbuf=64MiB,sndbuf=64KiB", 64);
        let shown = near.effective();
        assert_eq!(shown["sndbuf"], "131072");
        let granted = shown["rcvbuf"] == (128 << 20).to_string();
        assert!(granted || shown["rcvbuf"].ends_with("(net.core.rmem_max allows no more)"));
    }

    #[test]
    fn late_hellos_and_welcomes_are_not_handed_over() {
        let (mut near, mut far) = open("127.0.0.1", "udp", 64);
        near.send(Lane::default(), &HELLO.encode()).unwrap();
        let mut kept = Kept::default();
        assert_eq!(far.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
        assert_eq!(near.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
        far.send(Lane::default(), &HELLO.encode_welcome()).unwrap();
        assert_eq!(near.drain(Patience::Block, &mut kept).unwrap(), Progress::Moved);
        assert!(kept.0.is_empty());
        // The welcome to the repeated hello, and the one sent by hand.
        assert_eq!(near.stats().receive_calls, 2);
    }

    #[test]
    fn drops_at_the_receiver_close_the_account() {
        for spec in ["udp:rcvbuf=64KiB", "udp:rcvbuf=64KiB,gro=off"] {
            let (mut near, mut far) = open("127.0.0.1", spec, 1_000);
            let mut kept = Kept::default();
            // The first drain turns coalescing on; from then on, whole buffers are dropped.
            assert_eq!(far.drain(Patience::None, &mut kept).unwrap(), Progress::Idle);
            let mut source =
                Numbered { size: 1_000, call: 40_000, grant: 2_000_000, stamped: 0, accepted: 0 };
            near.pump(&mut source).unwrap();
            while far.drain(Patience::None, &mut kept).unwrap() == Progress::Moved {}
            let dropped = far.stats().socket_drops.unwrap();
            assert!(dropped > 0);
            assert_eq!(kept.0.len() as u64 + dropped, 2_000, "{spec}");
        }
    }

    #[test]
    fn a_vanished_peer_is_counted_and_ends_nothing() {
        let (mut near, far) = open("127.0.0.1", "udp", 64);
        drop(far);
        let mut source = Numbered { size: 64, call: 640, grant: 6_400, stamped: 0, accepted: 0 };
        assert_eq!(near.pump(&mut source).unwrap(), Progress::Moved);
        assert_eq!(source.accepted, 6_400);
        assert_eq!(near.send(Lane::default(), &[1; 64]).unwrap(), Progress::Moved);
        assert!(near.stats().network_errors > 0);
    }
}
