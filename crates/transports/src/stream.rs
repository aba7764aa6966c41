//! Connection over a byte stream of the kernel, TCP, Unix or pipes: framed messages, or raw bulk bytes, moved by the
//! engines of the knobs. A [`Flavour`] has the differences between the transports, options and counters.

use std::io;
use std::os::fd::BorrowedFd;

use socket2::{SockRef, Socket};

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Settings;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Side, Sink, Source};
use deadheat_contract::measurements::{ConnStats, Headers, TcpView, ZeroCopy};
use deadheat_datapath::datapath::channel::{Channel, SystemCalls};
use deadheat_datapath::datapath::drain::{Drain, ReceiveBy};
use deadheat_datapath::datapath::ip_header::ArrivedHeader;
use deadheat_datapath::datapath::pump::{Pump, SendBy, Step};
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::datapath::{option, tcp_info};
use deadheat_datapath::transport::frame::{Decoder, Encoder};
use deadheat_datapath::transport::header::{self, HeaderTerms};
use deadheat_datapath::transport::{Conn, ConnInfo, Effective, Progress, Readiness, lane_0_only};

use crate::tcp::ecn::EcnRequest;

/// Time until a backlog is tried again, if no descriptor shows room.
const TRY_AGAIN: Nanos = Nanos::from_micros(100);

/// Properties in which one kind of byte stream differs from another.
pub(super) trait Flavour: Clone + Send + 'static {
    /// Channel that carries the bytes once a connection is open.
    type Channel: Channel;

    /// Returns its constant facts.
    fn facts(&self) -> FlavourFacts;

    /// Sets the options of the knobs: before the handshake, so that it sees them, and again on a connection that a
    /// server hands over.
    fn apply(&self, socket: &Socket) -> Result<()>;

    /// Returns the kernel's stamps, like [`Conn::stamps`]; `None` if its bytes pass no device.
    fn stamps<'a>(&self, _channel: &'a mut Self::Channel) -> Option<io::Result<&'a mut Stamps>> {
        None
    }

    /// Sets the options that need an established connection.
    fn connected(&self, _socket: &Socket) -> Result<()> {
        Ok(())
    }

    /// Creates a connection from a connected, welcomed socket.
    ///
    /// # Errors
    /// As [`StreamConn::new`].
    fn connection(
        &self,
        socket: Socket,
        side: Side,
        largest_message: usize,
        connect_ns: u64,
    ) -> io::Result<Box<dyn Conn>> {
        let conn = StreamConn::new(socket, side, self.clone(), largest_message, connect_ns)?;
        Ok(Box::new(conn))
    }

    /// Creates a channel from a connected, welcomed socket.
    fn open(&self, socket: Socket, side: Side) -> io::Result<Self::Channel>;

    /// Returns the options as the kernel reports them.
    fn effective(&self, channel: &Self::Channel) -> Effective;

    /// Returns the counters of a channel that took `connect_ns` to connect, and its state as the kernel's TCP reports it.
    fn info(&self, channel: &Self::Channel, connect_ns: u64) -> ConnInfo {
        counted(channel, connect_ns)
    }
}

/// Facts of a flavour.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlavourFacts {
    /// Engines that move bulk bytes.
    pub(super) engines: StreamEngines,
    /// Fields of the IP header; none without IP.
    pub(super) header: HeaderTerms,
    /// True if a connection opens with data in the first packet (RFC 7413).
    pub(super) opens_fast: bool,
    /// Use of ECN by connections; `None` leaves it to the host.
    pub(super) ecn: Option<EcnRequest>,
    /// True if further connections join an open connection, through its listener.
    pub(super) joins: bool,
    /// True if `TCP_QUICKACK`, which the kernel forgets, is set again after each receive that returned data.
    pub(super) rearms: bool,
    /// True if the peer's kernel acknowledges bytes, and this one repeats lost bytes.
    pub(super) acknowledges: bool,
    /// True if the kernel counts packets with data that arrived in any order.
    pub(super) counts_arrivals: bool,
}

impl FlavourFacts {
    /// Creates the facts of a flavour that needs engines only.
    pub(super) fn moved_by(engines: StreamEngines) -> FlavourFacts {
        FlavourFacts {
            engines,
            header: HeaderTerms::default(),
            opens_fast: false,
            ecn: None,
            joins: false,
            rearms: false,
            acknowledges: false,
            counts_arrivals: false,
        }
    }

    /// Returns true if the peer has acknowledged everything, or nothing is ever retransmitted.
    pub(super) fn all_acknowledged<C: Channel>(&self, channel: &C) -> bool {
        !self.acknowledges || option::is_acknowledged(&SockRef::from(&channel.inlet()))
    }
}

/// Returns the counters of a channel that took `connect_ns` to connect.
pub(super) fn counted<C: Channel>(channel: &C, connect_ns: u64) -> ConnInfo {
    let calls = channel.calls();
    ConnInfo::counted(ConnStats {
        connect_ns,
        send_calls: calls.send,
        receive_calls: calls.receive,
        ..ConnStats::default()
    })
}

/// Adds the report of the kernel's TCP to `info`.
pub(super) fn reported(info: ConnInfo, view: TcpView, headers: Headers) -> ConnInfo {
    let stats = ConnStats {
        retransmits: Some(view.retransmits),
        wire: view.wire(&headers),
        headers: Some(headers),
        ..info.stats
    };
    ConnInfo { stats, view: Some(view) }
}

/// Engines by which both ends of a connection move bulk bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamEngines {
    send: SendBy,
    receive: ReceiveBy,
}

/// Key for the engine that sends. Each transport lists the words that it supports.
pub(super) const IO: Preset<SendBy> = Optional::choice(
    "io",
    &["write", "writev", "sendfile", "splice", "vmsplice", "zerocopy", "uring", "uring+zerocopy"],
    &[
        SendBy::Write,
        SendBy::Writev,
        SendBy::Sendfile,
        SendBy::Splice,
        SendBy::Vmsplice,
        SendBy::Zerocopy,
        SendBy::Uring,
        SendBy::UringZerocopy,
    ],
)
.or("write")
.doc("how bulk data is sent");

/// Key for the engine that receives. Each transport lists the words that it supports.
pub(super) const RX: Preset<ReceiveBy> = Optional::choice(
    "rx",
    &["read", "trunc", "splice", "uring"],
    &[ReceiveBy::Read, ReceiveBy::Trunc, ReceiveBy::Splice, ReceiveBy::Uring],
)
.or("read")
.doc("how bulk data is received");

impl From<&Settings> for StreamEngines {
    fn from(knobs: &Settings) -> StreamEngines {
        StreamEngines { send: knobs.get(&IO), receive: knobs.get(&RX) }
    }
}

impl StreamEngines {
    fn effective(self, pump: &Pump) -> Effective {
        let mut io = IO.word(self.send).to_owned();
        if let Some(pages) = pump.pages() {
            io.push_str(&format!(" (from {pages})"));
        }
        let zerocopy = pump.zerocopy();
        match zerocopy {
            Some(ZeroCopy { completed, copied }) if copied > 0 && copied == completed => {
                io.push_str(" (the kernel copied every call after all, as it does on loopback)");
            }
            Some(ZeroCopy { copied: 1.., .. }) => {
                io.push_str(" (the kernel copied some calls after all)");
            }
            _ => {}
        }
        [("io".to_owned(), io), ("rx".to_owned(), RX.word(self.receive).to_owned())].into()
    }
}

/// Checks that this host has the engine that a knob's value names, tried on `channel`.
///
/// # Errors
/// [`Error::Unsupported`] with the kernel's error.
pub(super) fn check_engine<C: Channel>(
    id: &str,
    key: &str,
    value: &str,
    channel: impl FnOnce() -> io::Result<C>,
) -> Result<()> {
    let tried = match key {
        "io" => {
            IO.read(value).map(|by| channel().and_then(|channel| Pump::new(by, &channel).map(drop)))
        }
        "rx" => RX.read(value).map(|by| Drain::new::<C>(by).map(drop)),
        _ => None,
    };
    tried.unwrap_or(Ok(())).map_err(|e| {
        let default = if key == "io" { "io=write" } else { "rx=read" };
        Error::unsupported(
            format!("{id}:{key}={value}"),
            format!("the kernel refuses it ({e}); {default} works everywhere"),
        )
    })
}

/// End of an open byte stream.
pub(super) struct StreamConn<F: Flavour> {
    channel: F::Channel,
    flavour: F,
    facts: FlavourFacts,
    outgoing: Encoder,
    incoming: Decoder,
    pump: Pump,
    drain: Drain,
    /// Time at which to look for room for a backlog, if no descriptor shows it.
    try_again_at: Option<Nanos>,
    connect_ns: u64,
    side: Side,
}

impl<F: Flavour> StreamConn<F> {
    /// Takes over a connected, welcomed socket.
    ///
    /// # Errors
    /// The error of fcntl(2) or setsockopt(2), or the kernel's error for an engine that it lacks.
    pub(super) fn new(
        socket: Socket,
        side: Side,
        flavour: F,
        largest_message: usize,
        connect_ns: u64,
    ) -> io::Result<StreamConn<F>> {
        let channel = flavour.open(socket, side)?;
        let facts = flavour.facts();
        Ok(StreamConn {
            side,
            outgoing: Encoder::new(largest_message),
            incoming: Decoder::new(largest_message),
            pump: Pump::new(facts.engines.send, &channel)?,
            drain: Drain::new::<F::Channel>(facts.engines.receive)?,
            channel,
            flavour,
            facts,
            try_again_at: None,
            connect_ns,
        })
    }

    #[inline]
    fn has_backlog(&self) -> bool {
        !self.outgoing.pending().is_empty() || self.channel.has_backlog()
    }

    /// The driver does not poll the pipe that this end sends into, so its backlog has a time.
    #[inline]
    fn plan_to_try_again(&mut self) {
        if F::Channel::IS_PIPE {
            let is_left = !self.outgoing.pending().is_empty();
            self.try_again_at = is_left.then(|| Monotonic.now() + TRY_AGAIN);
        }
    }

    #[inline]
    fn brought(&mut self) -> io::Result<()> {
        if self.facts.rearms {
            self.channel.count().receive += 1;
            SockRef::from(&self.channel.inlet()).set_tcp_quickack(true)?;
        }
        Ok(())
    }

    fn say_arrived(&self, sink: &mut dyn Sink) {
        let info = self
            .facts
            .counts_arrivals
            .then(|| tcp_info::read(&SockRef::from(&self.channel.inlet())));
        sink.arrived(info.and_then(Result::ok).and_then(|info| info.arrived_in_any_order));
    }
}

impl<F: Flavour> Conn for StreamConn<F> {
    fn readiness(&self) -> Readiness<'_> {
        let has_backlog = self.has_backlog();
        Readiness { has_backlog, ..Readiness::of(self.channel.inlet()) }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.channel.inlet()]
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        lane_0_only(lane)?;
        if self.has_backlog() {
            self.flush()?;
            if self.has_backlog() {
                return Ok(Progress::Idle);
            }
        }
        self.outgoing.put(message)?;
        match self.channel.send(self.outgoing.pending(), Patience::None)? {
            Some(sent) => {
                self.outgoing.sent(sent);
                self.plan_to_try_again();
                Ok(Progress::Moved)
            }
            None => {
                self.outgoing.clear();
                Ok(Progress::Idle)
            }
        }
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        let mut progress = Progress::Idle;
        let mut patience = patience;
        loop {
            match self.channel.receive(self.incoming.room(), patience)? {
                None => return Ok(progress),
                Some(0) => return self.incoming.ended().map(|()| Progress::Closed),
                Some(got) => {
                    self.brought()?;
                    self.incoming.received(got, inbox)?;
                    progress = Progress::Moved;
                }
            }
            if !self.channel.holds_more() {
                return Ok(progress);
            }
            patience = Patience::None;
        }
    }

    /// Returns an immediate time if data waits that no descriptor shows: it arrived with the end of a handshake.
    fn next_deadline(&self) -> Option<Nanos> {
        if self.channel.holds_more() { Some(Nanos::ZERO) } else { self.try_again_at }
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        self.flush().map(|_| ())
    }

    fn flush(&mut self) -> io::Result<Progress> {
        if !self.has_backlog() {
            return Ok(Progress::Moved);
        }
        if self.outgoing.pending().is_empty() {
            self.channel.flush(Patience::None)?;
            return Ok(if self.channel.has_backlog() { Progress::Idle } else { Progress::Moved });
        }
        let sent = self.channel.send(self.outgoing.pending(), Patience::None)?;
        self.outgoing.sent(sent.unwrap_or(0));
        self.plan_to_try_again();
        Ok(if sent.is_some() { Progress::Moved } else { Progress::Idle })
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let call = source.call_size().max(1);
        let mut progress = Progress::Idle;
        loop {
            let len = usize::try_from(source.budget()).map_or(call, |budget| budget.min(call));
            if len == 0 {
                return Ok(Progress::Moved);
            }
            match self.pump.step(&mut self.channel, source, len)? {
                Step::All(_) => progress = Progress::Moved,
                // A socket's short call has slept as long as it may. A pipe's has not slept, and the next one will.
                Step::Part(_) if !F::Channel::IS_PIPE => {
                    return Ok(Progress::Moved);
                }
                Step::Part(_) => progress = Progress::Moved,
                Step::Nothing => return Ok(progress),
            }
        }
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        let mut progress = Progress::Idle;
        let mut patience = patience;
        if sink.wants_arrived() {
            self.say_arrived(sink);
        }
        loop {
            match self.drain.step(&mut self.channel, patience, sink)? {
                None => {
                    if sink.wants_arrived() {
                        self.say_arrived(sink);
                    }
                    return Ok(progress);
                }
                Some(0) => {
                    self.say_arrived(sink);
                    return Ok(Progress::Closed);
                }
                Some(_) => self.brought()?,
            }
            if sink.wants_arrived() {
                self.say_arrived(sink);
            }
            progress = Progress::Moved;
            if !self.channel.holds_more() {
                return Ok(progress);
            }
            patience = Patience::None;
        }
    }

    /// Sends a backlog first; it is an error if there is no room for it within
    /// [`deadheat_contract::contract::GUARD`].
    fn finish(&mut self) -> io::Result<()> {
        while !self.outgoing.pending().is_empty() {
            let Some(sent) = self.channel.send(self.outgoing.pending(), Patience::Block)? else {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!(
                        "{} bytes of the last message found no room",
                        self.outgoing.pending().len()
                    ),
                ));
            };
            self.outgoing.sent(sent);
        }
        self.channel.finish()?;
        self.pump.finish(&mut self.channel)
    }

    fn is_drained(&self) -> bool {
        !self.has_backlog() && self.facts.all_acknowledged(&self.channel)
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        self.flavour.stamps(&mut self.channel).unwrap_or_else(|| {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "its bytes pass no device, so the kernel stamps nothing",
            ))
        })
    }

    fn effective(&self) -> Effective {
        let mut all = self.flavour.effective(&self.channel);
        all.extend(self.facts.engines.effective(&self.pump));
        let socket = self.channel.inlet();
        self.facts.header.report(socket, &mut all);
        if self.side == Side::Far {
            header::report_arrived(ArrivedHeader::of_accepted(socket), &mut all);
        }
        all
    }

    fn info(&self) -> ConnInfo {
        let mut info = self.flavour.info(&self.channel, self.connect_ns);
        info.stats.zerocopy = self.pump.zerocopy();
        info
    }
}
