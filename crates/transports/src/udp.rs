//! UDP (RFC 768): datagrams of the kernel, without additions. Lost datagrams are not repaired, and nothing slows the
//! sender down.
//!
//! Each message takes a send(2) and a recv(2). Bulk data uses the engines of the knobs `io` and `rx`: a datagram per
//! call, many per call, and either with segmentation and coalescing by the kernel.

use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::stamps::Stamps;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Protocol;

use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::{Guarantees, Inbox, Lane, Patience, Side, Sink, Source};
use deadheat_contract::measurements::{ConnStats, Headers};
use deadheat_datapath::datapath::datagram::{
    Binding, DatagramSocket, Peer, ReceiveBatch, ReceiveEngine, SendBatch, SendEngine, is_full,
    is_network_error, past_network_errors,
};
use deadheat_datapath::datapath::ip_header::ArrivedHeader;
use deadheat_datapath::datapath::option::{self, Buffer, Fragmenting};
use deadheat_datapath::datapath::origin;
use deadheat_datapath::transport::hello::{self, Hello};
use deadheat_datapath::transport::plain::{Greeting, PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::udp_handshake::{
    self, DatagramListener, DialledFlow, FlowTerms, LateDatagram, UDP, Variant,
};
use deadheat_datapath::transport::*;

mod bulk;
mod knobs;

use knobs::{EngineInUse, KEYS, Knobs};

pub(super) use knobs::{BATCH, CONNECTED, COVERAGE, DF, IO, RCVBUF, RX, SNDBUF};

/// Largest payload over IPv4: an IP packet of 65,535 bytes (RFC 791) less 20 for its header and 8 for UDP's. IPv6 does
/// not count its own header and so allows 65,527 (RFC 8200), but a message has to fit either family.
pub(super) const LARGEST: u64 = 65_535 - 20 - 8;

/// UDP of the kernel.
pub(super) struct Udp;

static INFO: Info = Info {
    id: "udp",
    label: "UDP",
    colour: "#e6762e",
    summary: "plain datagrams: no order, no repair, no congestion control",
    guarantees: Guarantees { largest_message: Some(LARGEST), ..Guarantees::DATAGRAMS },
    keys: KEYS,
    is_over_udp: true,
    ..Info::KERNEL
};

impl Transport for Udp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        udp_handshake::check(INFO.id)
    }

    fn check_knob(&self, key: &str, value: &str, _: Place) -> Result<()> {
        knobs::check(key, value)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }

    fn dial(&self, to: &Dial<'_>) -> Result<Box<dyn Conn>> {
        dial(UDP, to)
    }

    fn listen(&self, at: Listen<'_>) -> Result<Box<dyn Listener>> {
        listen(UDP, at)
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::UDP, opening: PlainOpening::Greeted(open_plain) };

/// Opens a connected socket, whatever the knob says: a program of others is one peer.
fn open_plain(dial: &Dial<'_>, greeting: &Greeting<'_>) -> Result<Box<dyn Conn>> {
    let to = dial.to.ip(UDP.id)?;
    let deadline = Monotonic.now() + dial.timeout;
    let knobs = Knobs { binding: Binding::Connected, ..Knobs::new(UDP, dial.knobs) };
    let engines = UdpEngines::new(&knobs)?;
    let socket = udp_handshake::connected(UDP, to, &|socket| knobs.prepare(socket))?;
    greeting(&socket, to, deadline)?;
    let socket = take_over(socket, to, knobs.binding)
        .map_err(|e| Error::setup(format!("set up a {} socket to {to}", UDP.label), e))?;
    let (hello, largest) = (dial.hello, dial.largest_message);
    Ok(Box::new(UdpConn::new(socket, hello, Side::Near, (knobs, engines), largest)))
}

/// Opens a near end.
///
/// # Errors
/// As [`Transport::dial`].
pub(super) fn dial(variant: Variant, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
    let to = dial.to.ip(variant.id)?;
    let knobs = Knobs::new(variant, dial.knobs);
    let engines = UdpEngines::new(&knobs)?;
    let prepare = |socket: &socket2::Socket| knobs.prepare(socket);
    let (hello, timeout, binding) = (dial.hello, dial.timeout, knobs.binding);
    let flow = FlowTerms { hello, timeout, binding };
    let DialledFlow { socket, arrived } = udp_handshake::dial(variant, to, flow, &prepare)?;
    let socket = take_over(socket, to, binding)
        .map_err(|e| Error::setup(format!("set up a {} socket to {to}", variant.label), e))?;
    let largest = dial.largest_message;
    let conn = UdpConn::new(socket, hello, Side::Near, (knobs, engines), largest);
    Ok(Box::new(UdpConn { arrived, ..conn }))
}

/// Opens a far end.
///
/// # Errors
/// As [`Transport::listen`].
pub(super) fn listen(variant: Variant, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
    let at = listen.at.ip(variant.id)?;
    let knobs = Knobs::new(variant, listen.knobs);
    UdpEngines::new(&knobs)?;
    Ok(Box::new(UdpListener {
        gate: DatagramListener::open(variant, at, listen.token, listen.door)?,
        knobs,
        largest_message: listen.largest_message,
    }))
}

struct UdpListener {
    gate: DatagramListener,
    knobs: Knobs,
    largest_message: usize,
}

impl Listener for UdpListener {
    fn endpoint(&self) -> Address {
        Address::Ip(self.gate.at())
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let knobs = self.knobs;
        let guest = self.gate.accept(timeout, &|socket| knobs.prepare(socket))?;
        let (hello, largest) = (guest.hello, self.largest_message);
        let what = || format!("set up a {} socket on {}", knobs.variant.label, self.gate.at());
        let socket = take_over(guest.socket, guest.peer, knobs.binding)
            .map_err(|e| Error::setup(what(), e))?;
        let engines = UdpEngines::new(&knobs)?;
        let conn = UdpConn::new(socket, hello, Side::Far, (knobs, engines), largest);
        Ok((hello.flow, Box::new(UdpConn { arrived: guest.arrived, ..conn })))
    }
}

/// Creates a socket and sets how its calls address the peer, by the knob. The far end's socket is connected in both
/// cases, because the kernel distinguishes the flows on one port by that; its calls still carry the address.
fn take_over(
    socket: socket2::Socket,
    peer: SocketAddr,
    binding: Binding,
) -> io::Result<DatagramSocket> {
    let peer = match binding {
        Binding::Connected => Peer::Bound,
        Binding::Loose => Peer::Addressed(peer.into()),
    };
    DatagramSocket::with_peer(socket, peer)
}

/// Engines in use.
#[derive(Debug)]
struct UdpEngines {
    io: EngineInUse<SendEngine>,
    rx: EngineInUse<ReceiveEngine>,
}

impl UdpEngines {
    fn new(knobs: &Knobs) -> Result<UdpEngines> {
        knobs.check_together()?;
        Ok(UdpEngines {
            io: EngineInUse::sending(knobs.io)?,
            rx: EngineInUse::receiving(knobs.rx)?,
        })
    }
}

struct UdpConn {
    socket: DatagramSocket,
    hello: [u8; hello::LEN],
    welcome: [u8; hello::LEN],
    side: Side,
    knobs: Knobs,
    engines: UdpEngines,
    largest_message: usize,
    message: Box<[u8]>,
    outbound: Option<SendBatch>,
    inbound: Option<ReceiveBatch>,
    /// Drops before coalescing was switched on, each of one datagram.
    early_drops: Option<u64>,
    network_errors: u64,
    arrived: ArrivedHeader,
}

impl UdpConn {
    fn new(
        socket: DatagramSocket,
        hello: Hello,
        side: Side,
        (knobs, engines): (Knobs, UdpEngines),
        largest_message: usize,
    ) -> UdpConn {
        UdpConn {
            socket,
            hello: hello.encode(),
            welcome: hello.encode_welcome(),
            side,
            knobs,
            engines,
            largest_message,
            // One byte more than any message, so that the length shows a longer stray datagram.
            message: vec![0xA5; largest_message.max(hello::LEN) + 1].into(),
            outbound: None,
            inbound: None,
            early_drops: None,
            network_errors: 0,
            arrived: ArrivedHeader::default(),
        }
    }

    fn headers(&self) -> Headers {
        udp_handshake::headers(self.socket.socket(), self.path_mtu())
    }

    fn path_mtu(&self) -> Option<u64> {
        let mtu = match self.socket.peer() {
            Peer::Bound => option::path_mtu(self.socket.socket()),
            Peer::Addressed(to) => origin::path_mtu_to(to),
        };
        mtu.map(|mtu| mtu as u64)
    }

    /// Returns the error of a send, with the sizes if the message was too large.
    #[cold]
    fn explain(&self, error: io::Error, len: usize) -> io::Error {
        if error.raw_os_error() != Some(libc::EMSGSIZE) {
            return error;
        }
        let packet = len as u64 + self.headers().in_each_packet();
        let label = self.knobs.variant.label;
        let what = match (self.path_mtu(), self.knobs.df) {
            (Some(mtu), Some(df @ (Fragmenting::Refused | Fragmenting::Probed)))
                if packet > mtu && len as u64 <= LARGEST =>
            {
                let df = df.word();
                let most = mtu.saturating_sub(self.headers().in_each_packet());
                format!(
                    "a message of {len} B makes a packet of {packet} B, the path MTU is {mtu} B, \
                     and df={df} allows no fragments: send at most {most} B, or use df=off"
                )
            }
            _ => format!("a message of {len} B; {label} carries at most {LARGEST} B"),
        };
        io::Error::new(io::ErrorKind::InvalidInput, format!("{what} ({error})"))
    }
}

impl Conn for UdpConn {
    fn readiness(&self) -> Readiness<'_> {
        Readiness::of(self.socket.as_fd())
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    #[inline]
    fn send(&mut self, _lane: Lane, message: &[u8]) -> io::Result<Progress> {
        // IPv6 would allow 20 bytes more; the limit is the same for both, so that races are comparable.
        if message.len() as u64 > LARGEST {
            let error = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(self.explain(error, message.len()));
        }
        let Self { socket, network_errors, .. } = self;
        match past_network_errors(network_errors, || socket.send(message)) {
            Ok(_) => Ok(Progress::Moved),
            Err(error) if is_full(&error) => Ok(Progress::Idle),
            Err(error) => Err(self.explain(error, message.len())),
        }
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        match self.socket.receive(patience, &mut self.message) {
            Ok(len) => {
                let message = &self.message[..len];
                match udp_handshake::late(message, &self.hello, &self.welcome) {
                    None => inbox.message(Lane::default(), message),
                    late => self.answer(late),
                }
                Ok(Progress::Moved)
            }
            Err(error) => self.missed(error),
        }
    }

    /// Does nothing: there is no backlog.
    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Moved)
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
                let engine = self.engines.rx.engine;
                let (batch, largest) =
                    (self.knobs.receive_batch(engine), self.largest_message.max(hello::LEN));
                self.early_drops = self.socket.drops();
                ReceiveBatch::new(&self.socket, batch, largest, engine)?
            }
        };
        let done = match batch.receive(&mut self.socket, patience) {
            Ok(_) => {
                let mut late = None;
                batch.each(|bytes| match udp_handshake::late(bytes, &self.hello, &self.welcome) {
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

    /// Does nothing: UDP has no end of stream, and the peer learns over control how much was sent.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns true: nothing is acknowledged.
    fn is_drained(&self) -> bool {
        true
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        self.socket.stamps()
    }

    /// Returns the options; `io`, `rx` and `batch` apply to bulk data only.
    fn effective(&self) -> Effective {
        let socket = self.socket.socket();
        let connected = match self.socket.peer() {
            Peer::Bound => "on",
            Peer::Addressed(_) => "off",
        };
        let mut shown: Effective = [
            ("rcvbuf", Buffer::Receive.describe(socket, self.knobs.rcvbuf)),
            ("sndbuf", Buffer::Send.describe(socket, self.knobs.sndbuf)),
            ("io", self.engines.io.describe()),
            ("rx", self.engines.rx.describe()),
            ("batch", self.batch()),
            ("connected", connected.to_owned()),
            ("df", Fragmenting::describe(socket)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if self.knobs.variant.protocol == Protocol::UDPLITE {
            shown.insert(COVERAGE.name().to_owned(), option::coverage(socket));
        }
        if let Some(mtu) = self.path_mtu() {
            shown.insert("path_mtu".to_owned(), mtu.to_string());
        }
        self.knobs.header.report(self.socket.as_fd(), &mut shown);
        header::report_arrived(self.arrived, &mut shown);
        shown
    }

    /// Returns the counters. The kernel counts a dropped coalesced buffer once, so drops are scaled by the datagrams in
    /// other buffers: exact if the sender's buffers are alike, otherwise an estimate.
    fn info(&self) -> ConnInfo {
        let (early, each) = match &self.inbound {
            Some(batch) => (self.early_drops.unwrap_or(0), batch.datagrams_per_drop()),
            None => (0, 1),
        };
        let scaled = |drops: u64| early + drops.saturating_sub(early).saturating_mul(each);
        ConnInfo::counted(ConnStats {
            send_calls: self.socket.send_calls(),
            receive_calls: self.socket.receive_calls(),
            socket_drops: self.socket.drops().map(scaled),
            network_errors: self.network_errors,
            headers: Some(self.headers()),
            ..ConnStats::default()
        })
    }
}

impl UdpConn {
    /// Answers a repeated hello, since its welcome was lost.
    fn answer(&mut self, late: Option<LateDatagram>) {
        if late == Some(LateDatagram::Hello) && self.side == Side::Far {
            // The peer repeats its hello if this welcome is lost.
            let _ = self.socket.send(&self.welcome);
        }
    }

    /// Returns the buffers per call: of the engines in use once bulk data has moved, otherwise of the engines chosen.
    fn batch(&self) -> String {
        let out = match &self.outbound {
            Some(batch) => batch.buffers(),
            None if self.engines.io.engine.batches() => self.knobs.send_batch(),
            None => 1,
        };
        let rx = self.engines.rx.engine;
        let into = if rx.batches() { self.knobs.receive_batch(rx) } else { 1 };
        let into = if rx.is_ring() { deadheat_datapath::datapath::uring::BUFFERS } else { into };
        format!("{out} out, {into} in")
    }

    fn missed(&mut self, error: io::Error) -> io::Result<Progress> {
        if is_network_error(&error) {
            self.network_errors += 1;
            return Ok(Progress::Moved);
        }
        if is_full(&error) { Ok(Progress::Idle) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ConnRig, HELLO, Kept, knobs};

    /// Returns both ends of a connection over loopback.
    fn open(address: &str, spec: &str, largest_message: usize) -> [Box<dyn Conn>; 2] {
        let knobs = knobs(spec, KEYS);
        let at = Address::Ip(SocketAddr::new(address.parse().unwrap(), 0));
        ConnRig::best_effort(&Udp, &knobs, largest_message).ends(&at)
    }

    impl Sink for Kept {
        fn take(&mut self, bytes: &[u8]) {
            self.0.push(bytes.to_vec());
        }
        fn pass(&mut self, _: u64) {
            panic!("messages are never passed by");
        }
    }

    /// Source of `total` numbered messages of `size` bytes, `call` bytes per call, and a budget of `grant` bytes.
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
            let [mut near, mut far] = open(address, "udp", LARGEST as usize);
            for len in [0, 1, 24, 1_472, LARGEST as usize] {
                let message = vec![7; len];
                assert_eq!(near.send(Lane::default(), &message).unwrap(), Progress::Moved);
                let mut kept = Kept::default();
                assert_eq!(far.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
                assert_eq!(kept.0, [message]);
            }
            let mut kept = Kept::default();
            assert_eq!(far.receive(Patience::None, &mut kept).unwrap(), Progress::Idle);
            let stats = near.info().stats;
            assert_eq!((stats.send_calls, stats.network_errors), (5, 0));
            assert_eq!(stats.connect_ns, 0, "it has no handshake");
            assert_eq!(far.info().stats.receive_calls, 6);
            assert_eq!(far.info().stats.socket_drops, Some(0));
        }
    }

    #[test]
    fn a_message_too_large_is_refused_with_its_size() {
        let [mut near, _far] = open("127.0.0.1", "udp", LARGEST as usize);
        let error = near.send(Lane::default(), &[0; LARGEST as usize + 1]).unwrap_err();
        assert!(error.to_string().contains("65508 B; UDP carries at most 65507 B"), "{error}");
    }

    #[test]
    fn bulk_arrives_complete_with_every_mix_of_engines() {
        let mut mixes = vec!["udp:rcvbuf=4MiB".to_owned()];
        for io in SendEngine::WORDS {
            for rx in ReceiveEngine::WORDS {
                let ring = [*io, *rx].contains(&"uring");
                if let (true, Err(why)) = (ring, Udp.check_knob("io", "uring", Place::Loopback)) {
                    println!("skipped: {why}");
                    continue;
                }
                for more in ["batch=7", "connected=off", "df=on"] {
                    if (ring, more) == (true, "connected=off") {
                        continue;
                    }
                    mixes.push(format!("udp:rcvbuf=4MiB,io={io},rx={rx},{more}"));
                }
            }
        }
        for address in ["127.0.0.1", "::1"] {
            for spec in &mixes {
                let [mut near, mut far] = open(address, spec, 1_400);
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
    fn one_call_is_one_datagram_where_that_was_asked() {
        let [mut near, mut far] = open("127.0.0.1", "udp:rcvbuf=4MiB,io=send,rx=recv", 100);
        let (sends, receives) = (near.info().stats.send_calls, far.info().stats.receive_calls);
        let mut source =
            Numbered { size: 100, call: 131_072, grant: 5_000, stamped: 0, accepted: 0 };
        near.pump(&mut source).unwrap();
        let mut kept = Kept::default();
        while kept.0.len() < 50 {
            far.drain(Patience::Block, &mut kept).unwrap();
        }
        assert_eq!(near.info().stats.send_calls - sends, 50);
        // The confirmation of the welcome may arrive first.
        assert!((50..=51).contains(&(far.info().stats.receive_calls - receives)));
    }

    #[test]
    fn effective_shows_what_is_in_use_and_why_not_what_was_asked() {
        let [mut near, _far] = open("127.0.0.1", "udp:rx=recv,batch=9,df=probe", 65_507);
        let shown = near.effective();
        assert_eq!((shown["io"].as_str(), shown["rx"].as_str()), ("gso", "recv"));
        assert_eq!((shown["df"].as_str(), shown["connected"].as_str()), ("probe", "on"));
        assert_eq!(shown["batch"], "1 out, 1 in");
        // Loopback's 65,536, limited by the size of an IPv4 packet.
        assert_eq!(shown["path_mtu"], "65535");
        assert!(shown["rcvbuf"].parse::<u64>().unwrap() > 0);
        // Beyond loopback's MTU with its headers, but within a datagram over IPv6.
        let [mut wide, _far] = open("::1", "udp:connected=off", 65_507);
        assert_eq!(wide.effective()["df"], "want");
        assert_eq!(wide.effective()["connected"], "off");
        for (conn, size, io, batch) in [
            (&mut near, 1_400, "gso", "1 out, 1 in"),
            (
                &mut wide,
                65_500,
                "sendmmsg (gso: a message of 65500 B exceeds the path MTU of 65536 B)",
                "2 out, 8 in",
            ),
        ] {
            let mut source = Numbered { size, call: 131_072, grant: 1, stamped: 0, accepted: 0 };
            conn.pump(&mut source).unwrap();
            assert_eq!(source.accepted, size as u64);
            assert_eq!(conn.effective()["io"], io);
            assert_eq!(conn.effective()["batch"], batch);
        }
    }

    #[test]
    fn segmentation_by_name_is_had_or_refused() {
        for io in ["gso", "gso+sendmmsg"] {
            let [mut near, _far] = open("::1", &format!("udp:io={io}"), 65_507);
            let mut source =
                Numbered { size: 65_500, call: 65_500, grant: 1, stamped: 0, accepted: 0 };
            let error = near.pump(&mut source).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            let want = format!(
                "udp:io={io}: a message of 65500 B exceeds the path MTU of 65536 B; io=send and \
                 io=sendmmsg work everywhere"
            );
            assert_eq!(error.to_string(), want);
            assert_eq!(source.accepted, 0);
        }
    }

    #[test]
    fn a_message_over_the_path_mtu_is_refused_with_the_sizes_where_fragments_are() {
        let [mut near, _far] = open("::1", "udp:df=on,io=send", 65_507);
        let mut source = Numbered { size: 65_500, call: 65_500, grant: 1, stamped: 0, accepted: 0 };
        let bulk = near.pump(&mut source).unwrap_err();
        let single = near.send(Lane::default(), &[0; 65_500]).unwrap_err();
        let want = "a message of 65500 B makes a packet of 65548 B, the path MTU is 65536 B, and \
                    df=on allows no fragments: send at most 65488 B, or use df=off";
        for error in [bulk, single] {
            assert!(error.to_string().starts_with(want), "{error}");
        }
        let [mut near, _far] = open("::1", "udp:df=off,io=send", 65_507);
        assert_eq!(near.send(Lane::default(), &[0; 65_500]).unwrap(), Progress::Moved);
    }

    #[test]
    fn every_engine_of_the_knobs_is_checked_and_nothing_else() {
        for (key, words) in [("io", SendEngine::WORDS), ("rx", ReceiveEngine::WORDS)] {
            for word in words {
                match Udp.check_knob(key, word, Place::Loopback) {
                    Err(error) if *word == "uring" => println!("skipped: {error}"),
                    other => other.unwrap(),
                }
            }
        }
        Udp.check_knob("df", "on", Place::Loopback).unwrap();
        let refused = knobs::unsupported("rx", "gro", "no such option").to_string();
        assert_eq!(refused, "udp:rx=gro: no such option; rx=recv and rx=recvmmsg work everywhere");
    }

    #[test]
    fn a_ring_is_for_connected_sockets() {
        for knob in ["io", "rx"] {
            let spec = format!("udp:{knob}=uring,connected=off");
            let knobs = Knobs::new(UDP, &knobs(&spec, KEYS));
            let error = UdpEngines::new(&knobs).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("udp:{knob}=uring: ")), "{text}");
            assert!(text.contains("connected=on"), "{text}");
        }
    }

    #[test]
    fn a_buffer_beyond_the_limit_is_granted_or_explained() {
        let [near, _far] = open("127.0.0.1", "udp:rcvbuf=64MiB,sndbuf=64KiB", 64);
        let shown = near.effective();
        assert_eq!(shown["sndbuf"], "131072");
        let granted = shown["rcvbuf"] == (128 << 20).to_string();
        assert!(granted || shown["rcvbuf"].ends_with("(net.core.rmem_max allows no more)"));
    }

    #[test]
    fn late_hellos_and_welcomes_are_not_handed_over() {
        let [mut near, mut far] = open("127.0.0.1", "udp", 64);
        near.send(Lane::default(), &HELLO.encode()).unwrap();
        let mut kept = Kept::default();
        assert_eq!(far.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
        assert_eq!(near.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
        far.send(Lane::default(), &HELLO.encode_welcome()).unwrap();
        assert_eq!(near.drain(Patience::Block, &mut kept).unwrap(), Progress::Moved);
        assert!(kept.0.is_empty());
        // The welcome to the repeated hello, and the one sent by hand.
        assert_eq!(near.info().stats.receive_calls, 2);
    }

    #[test]
    fn drops_at_the_receiver_close_the_account() {
        for spec in ["udp:rcvbuf=64KiB", "udp:rcvbuf=64KiB,rx=recvmmsg", "udp:rcvbuf=64KiB,rx=gro"]
        {
            let [mut near, mut far] = open("127.0.0.1", spec, 1_000);
            let mut kept = Kept::default();
            // The first drain switches coalescing on; after that, whole buffers are dropped.
            assert_eq!(far.drain(Patience::None, &mut kept).unwrap(), Progress::Idle);
            let mut source =
                Numbered { size: 1_000, call: 40_000, grant: 2_000_000, stamped: 0, accepted: 0 };
            near.pump(&mut source).unwrap();
            while far.drain(Patience::None, &mut kept).unwrap() == Progress::Moved {}
            let dropped = far.info().stats.socket_drops.unwrap();
            assert!(dropped > 0);
            assert_eq!(kept.0.len() as u64 + dropped, 2_000, "{spec}");
        }
    }

    #[test]
    fn a_vanished_peer_is_counted_and_ends_nothing() {
        let [mut near, far] = open("127.0.0.1", "udp", 64);
        drop(far);
        let mut source = Numbered { size: 64, call: 640, grant: 6_400, stamped: 0, accepted: 0 };
        assert_eq!(near.pump(&mut source).unwrap(), Progress::Moved);
        assert_eq!(source.accepted, 6_400);
        assert_eq!(near.send(Lane::default(), &[1; 64]).unwrap(), Progress::Moved);
        assert!(near.info().stats.network_errors > 0);
    }
}
