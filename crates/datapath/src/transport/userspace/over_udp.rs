//! A [`Protocol`](super::protocol::Protocol) over the kernel's UDP. Every protocol in user space has this one
//! datapath: the same system calls, batches, segmentation and coalescing, so that a difference between two
//! protocols is not one of datapaths.
//!
//! Outgoing datagrams go into as few calls as the kernel allows ([`Outgoing`]); one call receives as many datagrams
//! as the kernel has coalesced. Acknowledgements of a protocol wait until the application has run, so that they
//! travel with its answer if there is one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::parameters::{ConnParameters, Ends, ListenParameters, Sockets};
use super::protocol::{Opening, State, Userspace};
use super::session::{Make, Session};
use super::too_large;
use crate::datapath::datagram::{
    Binding, DatagramSocket, Outgoing, ReceiveBatch, ReceiveEngine, Received, is_full,
    is_network_error, probe_coalescing, probe_segmentation,
};
use crate::datapath::ip_header::ArrivedHeader;
use crate::datapath::option::{self, Buffer};
use crate::datapath::stamps::Stamps;
use crate::datapath::wait::Interest;
use crate::transport::handover::readable;
use crate::transport::header::{self, HeaderTerms};
use crate::transport::udp_handshake::{
    self, DatagramListener, DialledFlow, FlowTerms, LateDatagram, UDP,
};
use crate::transport::{
    Address, Conn, ConnInfo, Dial, Effective, Info, Listen, Listener, Progress, Readiness,
    effective_options, hello, unstamped,
};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Inbox, Lane, Patience, Side, Sink, Source};
use deadheat_contract::measurements::ConnStats;

/// Requested size of each socket buffer: a window of a long path, and more than the kernel's own default, which a
/// burst of small packets fills.
const SOCKET_BUFFER: Bytes = Bytes(4 << 20);

/// Largest IP packet where the kernel does not report it: the MTU of Ethernet.
const MTU: u64 = 1_500;

/// Time after which a full socket may have room.
const SOON: Nanos = Nanos::from_millis(1);

/// Largest number of receiving calls before a sender continues to send.
const MOST_TAKEN: usize = 64;

/// Longest datagram that arrives whole: the largest IP packet.
const LONGEST: usize = 65_535;

/// Opens a connection: first the flow of datagrams, then the protocol's own handshake.
pub(super) fn dial(transport: &dyn Userspace, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
    let to = dial.to.ip(transport.info().id)?;
    let deadline = Monotonic.now() + dial.timeout;
    let terms = HeaderTerms::of(dial.knobs);
    let prepare = |socket: &socket2::Socket| prepare_with(socket, terms);
    let flow = FlowTerms { hello: dial.hello, timeout: dial.timeout, binding: Binding::Connected };
    let DialledFlow { socket, arrived } = udp_handshake::dial(UDP, to, flow, &prepare)?;
    let ends = Ends { side: Side::Near, hello: dial.hello, peer: to };
    let asked = ConnParameters::of(dial, deadline);
    let sockets = Sockets { out: socket, arrivals: None, arrived };
    connect(transport.info(), sockets, &ends, asked, &|opening| transport.open(opening))
}

/// Opens one end over existing sockets, and runs the handshake of the protocol that `make` returns.
///
/// # Errors
/// [`Error::Blocked`] where the handshake does not end in time, or the failed operation.
pub fn connect(
    info: &'static Info,
    sockets: Sockets,
    ends: &Ends,
    asked: ConnParameters<'_>,
    make: Make<'_>,
) -> Result<Box<dyn Conn>> {
    let mut conn = OverUdp::new(info, sockets, ends, asked, make)?;
    let took = conn.shake_hands(ends, asked.deadline)?;
    if ends.side == Side::Near {
        conn.connect = took;
    }
    Ok(Box::new(conn))
}

/// Listens for flows of datagrams with a protocol on each.
pub(super) fn listen(
    transport: Box<dyn Userspace + Send>,
    listen: Listen<'_>,
) -> Result<Box<dyn Listener>> {
    let at = listen.at.ip(transport.info().id)?;
    Ok(Box::new(OverUdpListener {
        transport,
        asked: ListenParameters::of(&listen),
        gate: DatagramListener::open(UDP, at, listen.token, listen.door)?,
    }))
}

/// Sets the buffers of a socket before anything arrives on it.
pub fn prepare(socket: &socket2::Socket) -> Result<()> {
    Buffer::Receive.request(socket, Some(SOCKET_BUFFER))?;
    Buffer::Send.request(socket, Some(SOCKET_BUFFER))
}

pub(super) fn prepare_with(socket: &socket2::Socket, terms: HeaderTerms) -> Result<()> {
    terms.set(socket)?;
    prepare(socket)
}

struct OverUdpListener {
    transport: Box<dyn Userspace + Send>,
    gate: DatagramListener,
    asked: ListenParameters,
}

impl Listener for OverUdpListener {
    fn endpoint(&self) -> Address {
        Address::Ip(self.gate.at())
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let deadline = Monotonic.now() + timeout;
        let asked = self.asked.until(deadline);
        let terms = HeaderTerms::of(asked.knobs);
        let guest = self.gate.accept(timeout, &|socket| prepare_with(socket, terms))?;
        let ends = Ends { side: Side::Far, hello: guest.hello, peer: guest.peer };
        let sockets = Sockets { out: guest.socket, arrivals: None, arrived: guest.arrived };
        let make: Make<'_> = &|opening| self.transport.open(opening);
        let conn = connect(self.transport.info(), sockets, &ends, asked, make)?;
        Ok((ends.hello.flow, conn))
    }
}

/// End of a connection.
pub(super) struct OverUdp {
    pub(super) session: Session,
    socket: DatagramSocket,
    /// Socket on which datagrams arrive; absent where it is [`OverUdp::socket`].
    arrivals: Option<DatagramSocket>,
    /// Time at which to check for room again, where the socket that the caller waits on does not show it.
    again: Nanos,
    outgoing: Outgoing,
    arriving: ReceiveBatch,
    /// True if datagrams arrived since the last call of the protocol's `transmit`.
    owes_transmit: bool,
    hello: [u8; hello::LEN],
    welcome: [u8; hello::LEN],
    side: Side,
    rx: ReceiveEngine,
    pub(super) connect: Nanos,
    pub(super) network_errors: u64,
    terms: HeaderTerms,
    arrived: ArrivedHeader,
    /// True if the protocol is ended with the connection: a far end of others learns it in no other way.
    pub(super) parts: bool,
}

impl OverUdp {
    pub(super) fn new(
        info: &'static Info,
        sockets: Sockets,
        ends: &Ends,
        asked: ConnParameters<'_>,
        make: Make<'_>,
    ) -> Result<OverUdp> {
        let socket = sockets.out;
        let path = option::path_mtu(&socket).map_or(MTU, |mtu| mtu as u64);
        let opening = Opening {
            side: ends.side,
            token: ends.hello.token,
            knobs: asked.knobs,
            lanes: asked.lanes,
            largest_message: asked.largest_message,
            mtu: path as u32,
            ip_header: option::ip_header_bytes(&socket) as u32,
            tickets: asked.tickets,
        };
        let session = Session::over(info, &opening, make)?;
        let failed = |e| Error::setup(format!("set up a UDP socket to {}", ends.peer), e);
        let socket = DatagramSocket::new(socket).map_err(failed)?;
        let arrivals = sockets.arrivals.map(DatagramSocket::new).transpose().map_err(failed)?;
        let rx = match probe_coalescing(socket.as_fd()) {
            Ok(()) => ReceiveEngine::Gro,
            Err(_) => ReceiveEngine::Recv,
        };
        let outgoing = Outgoing::new(probe_segmentation(socket.as_fd()).is_ok());
        let inlet = arrivals.as_ref().unwrap_or(&socket);
        let mut arriving = ReceiveBatch::new(inlet, 1, LONGEST, rx).map_err(failed)?;
        if session.uses_ecn() {
            arriving.read_codepoints(inlet).map_err(failed)?;
        }
        Ok(OverUdp {
            session,
            arriving,
            socket,
            arrivals,
            again: Nanos::ZERO,
            outgoing,
            owes_transmit: false,
            hello: ends.hello.encode(),
            welcome: ends.hello.encode_welcome(),
            side: ends.side,
            rx,
            connect: Nanos::ZERO,
            network_errors: 0,
            terms: HeaderTerms::of(asked.knobs),
            arrived: sockets.arrived,
            parts: false,
        })
    }

    /// Runs the protocol's handshake; returns its duration.
    pub(super) fn shake_hands(&mut self, ends: &Ends, deadline: Nanos) -> Result<Nanos> {
        let began = Monotonic.now();
        let failed = |e| Error::setup(format!("shake hands with {} over UDP", ends.peer), e);
        // Comes before any arrival: a near end begins.
        self.session.on_deadline(began);
        loop {
            let now = Monotonic.now();
            self.on_deadline(now).map_err(failed)?;
            match self.session.protocol.state() {
                State::Open => return Ok(now - began),
                State::Closed(why) => {
                    return Err(Error::peer(ends.peer.to_string(), format!("it closed: {why}")));
                }
                State::Handshaking if now >= deadline => {
                    return Err(Error::blocked(format!(
                        "UDP datagrams to {} are answered, and the handshake over them did not end \
                         within {}",
                        ends.peer,
                        now - began
                    )));
                }
                State::Handshaking => {}
            }
            let until = self.next_deadline().map_or(deadline, |due| due.min(deadline));
            readable(self.inlet().as_fd(), until - now).map_err(failed)?;
        }
    }

    /// Returns the socket on which datagrams arrive.
    fn inlet(&self) -> &DatagramSocket {
        self.arrivals.as_ref().unwrap_or(&self.socket)
    }

    /// Makes one receiving call, and hands its datagrams to the protocol.
    #[inline]
    fn take_arrivals(&mut self, patience: Patience) -> io::Result<Progress> {
        let inlet = self.arrivals.as_mut().unwrap_or(&mut self.socket);
        match self.arriving.receive(inlet, patience) {
            Ok(_) => {}
            Err(error) if is_network_error(&error) => {
                self.network_errors += 1;
                return Ok(Progress::Moved);
            }
            Err(error) if is_full(&error) => return Ok(Progress::Idle),
            Err(error) => return Err(self.with_sizes(error)),
        }
        let now = Monotonic.now();
        let session = &mut self.session;
        let mut late = None;
        self.arriving.each_marked(|bytes, ecn| {
            match udp_handshake::late(bytes, &self.hello, &self.welcome) {
                None => session.handle(Received { at: now, bytes, ecn }),
                found => late = found,
            }
        });
        if late == Some(LateDatagram::Hello) && self.side == Side::Far {
            // The welcome was lost. If this one is lost too, another hello will arrive.
            let _ = self.socket.send(&self.welcome);
        }
        self.owes_transmit = true;
        Ok(Progress::Moved)
    }

    /// Sends the protocol's outgoing datagrams, as far as there is room.
    #[inline]
    pub(super) fn transmit(&mut self, now: Nanos) -> io::Result<()> {
        self.owes_transmit = false;
        loop {
            let protocol = &mut *self.session.protocol;
            self.outgoing.fill(|most, batch| protocol.transmit(now, most, batch));
            if self.outgoing.is_empty() {
                return Ok(());
            }
            match self.outgoing.send(&mut self.socket, &mut self.network_errors) {
                Ok(()) => {}
                Err(error) if is_full(&error) => {
                    self.again = now + SOON;
                    return Ok(());
                }
                Err(error) => return Err(self.with_sizes(error)),
            }
        }
    }

    /// Returns the error of a call, with the sizes where a datagram was too large for the path.
    #[cold]
    fn with_sizes(&self, error: io::Error) -> io::Error {
        too_large::with_sizes(error, self.socket.socket(), self.outgoing.datagram_len())
    }
}

impl Conn for OverUdp {
    /// Returns the readiness of the socket on which datagrams arrive. A socket that only receives always has room.
    fn readiness(&self) -> Readiness<'_> {
        let has_backlog = !self.outgoing.is_empty();
        let shows_room = has_backlog && self.arrivals.is_none();
        let room = if shows_room { Interest::ReadWrite } else { Interest::Read };
        Readiness { fd: Some(self.inlet().as_fd()), room, has_backlog }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let arrivals = self.arrivals.as_ref().map(AsFd::as_fd);
        [self.socket.as_fd()].into_iter().chain(arrivals).collect()
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let now = Monotonic.now();
        let progress = self.session.send(now, lane, message)?;
        self.transmit(now)?;
        Ok(progress)
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        let arrived = self.take_arrivals(patience)?;
        match self.session.receive(Monotonic.now(), inbox)? {
            Progress::Idle => {
                self.session.check_open()?;
                Ok(arrived)
            }
            progress => Ok(progress),
        }
    }

    fn flush(&mut self) -> io::Result<Progress> {
        self.transmit(Monotonic.now())?;
        Ok(if self.outgoing.is_empty() { Progress::Moved } else { Progress::Idle })
    }

    /// Acknowledgements make room, and all that have arrived are read here.
    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        // If a protocol processes many acknowledgements at once, it sends once for all of them.
        let mut calls = 0..MOST_TAKEN;
        while calls.next().is_some() && self.take_arrivals(Patience::None)? == Progress::Moved {}
        let now = Monotonic.now();
        let progress = self.session.pump(now, source)?;
        self.transmit(now)?;
        if progress == Progress::Idle {
            self.session.check_open()?;
        }
        Ok(progress)
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        let arrived = self.take_arrivals(patience)?;
        match self.session.drain(Monotonic.now(), sink) {
            Progress::Idle => {
                self.session.check_open()?;
                Ok(arrived)
            }
            progress => Ok(progress),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let now = Monotonic.now();
        self.session.finish(now);
        self.transmit(now)
    }

    fn is_drained(&self) -> bool {
        self.outgoing.is_empty() && self.session.protocol.is_drained()
    }

    /// Returns zero (at once) if a datagram arrived that may need an answer, otherwise the protocol's own deadline.
    fn next_deadline(&self) -> Option<Nanos> {
        if self.owes_transmit {
            return Some(Nanos::ZERO);
        }
        let waits = self.arrivals.is_some() && !self.outgoing.is_empty();
        let due = [self.session.protocol.next_deadline(), waits.then_some(self.again)];
        due.into_iter().flatten().min()
    }

    /// Handles arrivals first: a timer that fires although its answer is here makes the protocol send for nothing.
    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        if !self.owes_transmit {
            self.take_arrivals(Patience::None)?;
        }
        self.session.on_deadline(now);
        self.transmit(now)?;
        // A far end of others may fail while the flow has nothing to send or to receive any more.
        if self.parts { self.session.check_open() } else { Ok(()) }
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        let io = if self.outgoing.segments() { "gso+sendmmsg" } else { "sendmmsg" };
        let socket = self.socket.socket();
        let inlet = self.inlet().socket();
        let mut effective = self.session.protocol.effective();
        effective.extend(effective_options([
            ("io", io.to_owned()),
            ("rx", self.rx.word().to_owned()),
            ("rcvbuf", Buffer::Receive.describe(inlet, Some(SOCKET_BUFFER))),
            ("sndbuf", Buffer::Send.describe(socket, Some(SOCKET_BUFFER))),
        ]));
        self.terms.report(self.socket.as_fd(), &mut effective);
        header::report_arrived(self.arrived, &mut effective);
        effective
    }

    /// Drops at the socket are not reported: the protocol has sent the lost data again.
    fn info(&self) -> ConnInfo {
        let ConnInfo { stats, view } = self.session.info(self.outgoing.put());
        let stats = ConnStats {
            connect_ns: self.connect.0,
            send_calls: self.socket.send_calls(),
            receive_calls: self.inlet().receive_calls(),
            network_errors: self.network_errors,
            ..stats
        };
        ConnInfo { stats, view }
    }
}
