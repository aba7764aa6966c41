//! End of a WebSocket over any byte stream.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::{HandshakeError, HandshakeRole};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket, accept_with_config, client::client_with_config};

use crate::stream::Flavour;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Side, Sink, Source};
use deadheat_datapath::datapath::channel::Channel;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::transport::frame::wrong_length;
use deadheat_datapath::transport::step::StepBudget;
use deadheat_datapath::transport::{
    Conn, ConnInfo, Effective, Progress, Readiness, lane_0_only, unstamped,
};

/// Address in the client's request. The far end serves this one flow, so any name will do.
const REQUEST: &str = "ws://deadheat/";

/// Longest payload of a control frame (RFC 6455, 5.5).
const CONTROL: usize = 125;

/// Byte stream below, as the library uses it.
pub(super) struct LowerStream<C> {
    channel: C,
    /// Longest wait of a call.
    pub(super) patience: Patience,
    /// Number of receiving calls that may still be made.
    pub(super) calls: u32,
}

impl<C> LowerStream<C> {
    /// Creates a stream for a handshake.
    pub(super) fn new(channel: C) -> LowerStream<C> {
        LowerStream { channel, patience: Patience::Block, calls: u32::MAX }
    }

    pub(super) fn channel(&self) -> &C {
        &self.channel
    }
}

impl<C: Channel> Read for LowerStream<C> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let patience = if self.calls > 0 { self.patience } else { Patience::None };
        if self.calls == 0 && !self.channel.holds_more() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.calls = self.calls.saturating_sub(1);
        self.channel.receive(room, patience)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl<C: Channel> Write for LowerStream<C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.channel.send(bytes, self.patience)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.channel.flush(self.patience)?;
        if self.channel.has_backlog() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

/// End of a connection.
pub(super) struct WsConn<F: Flavour> {
    socket: WebSocket<LowerStream<F::Channel>>,
    flavour: F,
    side: Side,
    largest_message: usize,
    /// Next message of bulk data, empty if the last one was sent.
    bulk: Vec<u8>,
    /// Length of the last message sent.
    last: usize,
    /// True if frames wait for room.
    has_backlog: bool,
    /// True if messages may have arrived with the end of the handshake, which no descriptor shows.
    may_hold: bool,
    /// True once the peer has ended its direction.
    is_over: bool,
    connect_ns: u64,
}

impl<F: Flavour> WsConn<F> {
    /// Completes the handshake.
    ///
    /// # Errors
    /// The error of the byte stream, or of the library about the peer's bytes; `TimedOut` if the peer takes too long.
    pub(super) fn open(
        channel: F::Channel,
        flavour: F,
        side: Side,
        largest_message: usize,
        connect_ns: u64,
    ) -> io::Result<WsConn<F>> {
        let (began, step) = (Monotonic.now(), StepBudget::default());
        let wire = LowerStream::new(channel);
        let most = Some(largest_message.max(CONTROL));
        let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
        let socket = match side {
            Side::Near => {
                let begun = client_with_config(REQUEST, wire, Some(config));
                see_through(begun, began, step)?.0
            }
            Side::Far => see_through(accept_with_config(wire, Some(config)), began, step)?,
        };
        Ok(WsConn {
            socket,
            flavour,
            side,
            largest_message,
            bulk: Vec::new(),
            last: 0,
            has_backlog: false,
            may_hold: true,
            is_over: false,
            connect_ns: connect_ns + (Monotonic.now() - began).0,
        })
    }

    fn channel(&self) -> &F::Channel {
        &self.socket.get_ref().channel
    }

    /// Handles the result of a sending call: it is complete, or frames wait for room.
    fn sent(&mut self, result: tungstenite::Result<()>) -> io::Result<()> {
        use tungstenite::Error::{AlreadyClosed, ConnectionClosed, Io, Protocol};
        self.has_backlog = false;
        match result {
            // A peer that has closed wants no more.
            Ok(())
            | Err(ConnectionClosed | AlreadyClosed | Protocol(ProtocolError::SendAfterClosing)) => {
                Ok(())
            }
            Err(Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                self.has_backlog = true;
                Ok(())
            }
            Err(e) => Err(failed(e)),
        }
    }

    /// Sends waiting frames; returns true if none are left.
    fn send_waiting(&mut self, patience: Patience) -> io::Result<bool> {
        self.socket.get_mut().patience = patience;
        let flushed = self.socket.flush();
        self.sent(flushed)?;
        Ok(!self.has_backlog)
    }

    fn put(&mut self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() || message.len() > self.largest_message {
            let kind = io::ErrorKind::InvalidInput;
            return Err(wrong_length(kind, message.len(), self.largest_message));
        }
        self.last = message.len();
        let written = self.socket.write(Message::Binary(Bytes::copy_from_slice(message)));
        self.sent(written)
    }

    /// Makes at most one receiving call, and delivers every complete message.
    fn take(&mut self, patience: Patience, mut to: impl FnMut(&[u8])) -> io::Result<Progress> {
        use tungstenite::Error::{AlreadyClosed, ConnectionClosed, Io, Protocol};
        self.may_hold = false;
        let wire = self.socket.get_mut();
        (wire.patience, wire.calls) = (patience, 1);
        let mut progress = Progress::Idle;
        while !self.is_over {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) if bytes.is_empty() => self.is_over = true,
                Ok(Message::Binary(bytes)) => {
                    to(&bytes);
                    progress = Progress::Moved;
                    self.socket.get_mut().patience = Patience::None;
                }
                Ok(Message::Close(_)) => {
                    self.is_over = true;
                    // Sends the answer to it. A peer that is gone needs none.
                    let _ = self.send_waiting(Patience::None);
                }
                Ok(_) => {}
                Err(Io(e)) if e.kind() == io::ErrorKind::WouldBlock => return Ok(progress),
                // End of the byte stream, with or without a close frame, as of a killed process.
                Err(
                    ConnectionClosed
                    | AlreadyClosed
                    | Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ) => self.is_over = true,
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(Progress::Closed)
    }

    /// Returns the number of bytes in front of the last message.
    fn header(&self) -> u64 {
        let length = match self.last {
            0..126 => 2,
            126..65_536 => 4,
            _ => 10,
        };
        length + if self.side == Side::Near { 4 } else { 0 }
    }
}

/// Continues a handshake until it is complete.
pub(super) fn see_through<R: HandshakeRole>(
    begun: Result<R::FinalResult, HandshakeError<R>>,
    began: Nanos,
    step: StepBudget,
) -> io::Result<R::FinalResult> {
    let mut result = begun;
    loop {
        match result {
            Ok(done) => return Ok(done),
            Err(HandshakeError::Failure(e)) => return Err(failed(e)),
            Err(HandshakeError::Interrupted(_)) if Monotonic.now() > step.deadline(began) => {
                let why = "the WebSocket handshake did not end";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(HandshakeError::Interrupted(on_its_way)) => result = on_its_way.handshake(),
        }
    }
}

pub(super) fn failed(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(e) => e,
        other => io::Error::new(io::ErrorKind::InvalidData, format!("WebSocket: {other}")),
    }
}

impl<F: Flavour> Conn for WsConn<F> {
    fn readiness(&self) -> Readiness<'_> {
        Readiness { has_backlog: self.has_backlog, ..Readiness::of(self.channel().inlet()) }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.channel().inlet()]
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        lane_0_only(lane)?;
        if self.has_backlog && !self.send_waiting(Patience::None)? {
            return Ok(Progress::Idle);
        }
        self.socket.get_mut().patience = Patience::None;
        self.put(message)?;
        self.send_waiting(Patience::None)?;
        Ok(Progress::Moved)
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.take(patience, |bytes| inbox.message(Lane(0), bytes))
    }

    fn flush(&mut self) -> io::Result<Progress> {
        let is_done = !self.has_backlog || self.send_waiting(Patience::None)?;
        Ok(if is_done { Progress::Moved } else { Progress::Idle })
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        if self.has_backlog && !self.send_waiting(Patience::Block)? {
            return Ok(Progress::Idle);
        }
        self.socket.get_mut().patience = Patience::Block;
        let mut bulk = std::mem::take(&mut self.bulk);
        while source.budget() > 0 && !self.has_backlog {
            // A message is never cut, so the last one may exceed the budget.
            bulk.resize(source.message_size(), 0xA5);
            source.stamp(&mut bulk);
            self.put(&bulk)?;
            source.accepted(bulk.len() as u64);
        }
        self.bulk = bulk;
        self.send_waiting(Patience::Block)?;
        Ok(Progress::Moved)
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        self.take(patience, |bytes| sink.take(bytes))
    }

    /// Ends this direction with an empty message, or both directions if the peer has ended its own. Without room it
    /// becomes backlog.
    fn finish(&mut self) -> io::Result<()> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        self.socket.get_mut().patience = Patience::Block;
        let ended = if self.is_over {
            self.socket.close(None)
        } else {
            self.socket.write(Message::Binary(Bytes::new()))
        };
        let sent = self.sent(ended).and_then(|()| self.send_waiting(Patience::Block));
        match sent {
            // The peer is gone, and so is this direction.
            Err(e) if [BrokenPipe, ConnectionReset].contains(&e.kind()) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn is_drained(&self) -> bool {
        !self.has_backlog && self.flavour.facts().all_acknowledged(self.channel())
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.may_hold.then_some(Nanos::ZERO)
    }

    /// Does nothing: the caller looks for messages next, wherever they are.
    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        self.may_hold = false;
        self.flush().map(|_| ())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        self.flavour.effective(self.channel())
    }

    fn info(&self) -> ConnInfo {
        let ConnInfo { mut stats, view } = self.flavour.info(self.channel(), self.connect_ns);
        if let Some(headers) = &mut stats.headers {
            headers.framing_bytes += self.header();
        }
        ConnInfo { stats, view }
    }
}
