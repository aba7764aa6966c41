//! WebSocket over TLS to a program of others: bulk data one way in binary messages, and text messages beside it, which an
//! application reads.
//!
//! Data that this end sends is confirmed by the answer to its Close frame (RFC 6455, 5.5.1): the far program reads
//! messages in order, and so has read all before it.

use deadheat_base::ends::Direction;
use std::io;
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use tungstenite::client::client_with_config;
use tungstenite::error::{Error as WsError, ProtocolError};
use tungstenite::{Message, WebSocket};

use super::conn::{LowerStream, failed, see_through};
use crate::stream::Flavour;
use crate::tls::TlsFlavour;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Side, Sink, Source};
use deadheat_datapath::datapath::channel::Channel;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::transport::application::MessageTerms;
use deadheat_datapath::transport::step::StepBudget;
use deadheat_datapath::transport::{
    Conn, ConnInfo, Dial, Effective, Progress, Readiness, unstamped,
};

mod frames;

pub use frames::read_frames;
use frames::{ArrivedMessage, arrived, config, named, upgrade};

/// Channel of the encrypted byte stream below.
type Below = LowerStream<<TlsFlavour as Flavour>::Channel>;

/// Time without an acknowledgement, after the last bytes, within which the far end has to answer the Close frame: less than
/// the driver waits for it.
const CONFIRMS_WITHIN: Nanos = Nanos::from_millis(2_500);

/// Fault of a far end that closes the connection during an upload.
const CLOSED_AMID: &str = "it closed the connection while data was sent to it";

/// Byte that fills messages.
const FILL: u8 = 0xa5;

/// Opens a connection over a byte stream below, which is set up.
///
/// # Errors
/// [`Error::Peer`] if the far end does not take the upgrade.
pub(super) fn open(
    channel: <TlsFlavour as Flavour>::Channel,
    flavour: TlsFlavour,
    terms: MessageTerms,
    (dial, connect_ns): (&Dial<'_>, u64),
) -> Result<Box<dyn Conn>> {
    let wire = LowerStream::new(channel);
    let mut conn = OthersWsConn {
        phase: WsPhase::Waits(Box::new(wire)),
        flavour,
        is_sender: terms.way == Direction::Up,
        terms,
        given: 0,
        fill: Bytes::new(),
        has_backlog: false,
        may_hold: true,
        closing: WsClosing::NotYet,
        is_over: false,
        stops_at: None,
        connect_ns,
        step: StepBudget::default(),
    };
    if conn.is_sender {
        // What a far end sends begins with the upgrade, and so with the work.
        let who = format!("the far end at {}", dial.to);
        conn.begin().map_err(|e| Error::peer(who, e.to_string()))?;
    }
    Ok(Box::new(conn))
}

/// Progress of a connection.
enum WsPhase {
    /// Encrypted, and not a WebSocket yet.
    Waits(Box<Below>),
    /// Between two phases, or failed.
    Gone,
    /// WebSocket.
    Open(Box<WebSocket<Below>>),
}

/// Progress of this end's Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WsClosing {
    NotYet,
    /// Sent; the time of the next look at the acknowledgements, which were so many at the last.
    Sent(Option<Nanos>, Option<u64>),
    /// Answered.
    Confirmed,
}

/// End of a connection to a program of others.
struct OthersWsConn {
    phase: WsPhase,
    flavour: TlsFlavour,
    terms: MessageTerms,
    is_sender: bool,
    /// Bytes of data that were sent.
    given: u64,
    /// Data of messages, as long as the longest so far.
    fill: Bytes,
    /// True if frames wait for room.
    has_backlog: bool,
    /// True if messages may have arrived that no descriptor shows.
    may_hold: bool,
    closing: WsClosing,
    /// True once nothing more will arrive.
    is_over: bool,
    /// Time at which this end stops what the far end sends.
    stops_at: Option<Nanos>,
    connect_ns: u64,
    /// Bytes of messages that carry no data.
    step: StepBudget,
}

impl OthersWsConn {
    /// Upgrades the connection.
    ///
    /// # Errors
    /// The reason, with the answer of the far end if it gave another.
    fn begin(&mut self) -> io::Result<()> {
        let wire = match std::mem::replace(&mut self.phase, WsPhase::Gone) {
            WsPhase::Waits(wire) => *wire,
            other => {
                self.phase = other;
                return Ok(());
            }
        };
        let began = Monotonic.now();
        let terms = &self.terms;
        let config = Some(config(terms.largest));
        let begun = client_with_config(upgrade(terms)?, wire, config);
        let shaken = see_through(begun, began, self.step);
        let (socket, _) = shaken.map_err(|e| {
            let what = format!("{} over WebSocket: {e}", terms.subprotocol);
            io::Error::new(e.kind(), format!("before the upgrade to {what}"))
        })?;
        self.phase = WsPhase::Open(Box::new(socket));
        let took = Monotonic.now();
        self.stops_at = terms.stops_after.map(|time| took + time);
        if self.is_sender {
            self.connect_ns += (took - began).0;
        }
        Ok(())
    }

    fn socket(&mut self) -> io::Result<&mut WebSocket<Below>> {
        match &mut self.phase {
            WsPhase::Open(socket) => Ok(socket),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn channel(&self) -> Option<&<TlsFlavour as Flavour>::Channel> {
        match &self.phase {
            WsPhase::Waits(wire) => Some(wire.channel()),
            WsPhase::Open(socket) => Some(socket.get_ref().channel()),
            WsPhase::Gone => None,
        }
    }

    /// Handles the result of a sending call: it is complete, or frames wait for room.
    fn sent(&mut self, result: tungstenite::Result<()>) -> io::Result<()> {
        self.has_backlog = false;
        match result {
            Ok(()) => Ok(()),
            Err(WsError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                self.has_backlog = true;
                Ok(())
            }
            Err(WsError::ConnectionClosed | WsError::AlreadyClosed) => Ok(()),
            Err(WsError::Protocol(ProtocolError::SendAfterClosing)) => {
                Err(self.broken(io::ErrorKind::BrokenPipe, CLOSED_AMID))
            }
            Err(e) => Err(self.named(failed(e))),
        }
    }

    fn named(&self, error: io::Error) -> io::Error {
        named(&*self.terms.application, error)
    }

    fn broken(&self, kind: io::ErrorKind, what: impl Into<String>) -> io::Error {
        self.named(io::Error::new(kind, what.into()))
    }

    /// Sends waiting frames; returns true if none are left.
    fn send_waiting(&mut self, patience: Patience) -> io::Result<bool> {
        let socket = self.socket()?;
        socket.get_mut().patience = patience;
        let flushed = socket.flush();
        self.sent(flushed)?;
        Ok(!self.has_backlog)
    }

    /// Makes at most one receiving call, and takes every message that is complete.
    fn take(&mut self, patience: Patience, take: &mut dyn FnMut(&[u8])) -> io::Result<Progress> {
        self.may_hold = false;
        let wire = self.socket()?.get_mut();
        (wire.patience, wire.calls) = (patience, 1);
        let mut progress = Progress::Idle;
        while !self.is_over {
            let read = self.socket()?.read();
            let MessageTerms { application, way, .. } = &mut self.terms;
            match arrived(read, &mut **application, (*way, self.given), &mut self.step)? {
                ArrivedMessage::Data(bytes) => {
                    take(&bytes);
                    progress = Progress::Moved;
                    self.socket()?.get_mut().patience = Patience::None;
                }
                ArrivedMessage::Read => {}
                ArrivedMessage::Close => {
                    self.is_over = true;
                    if self.closing != WsClosing::NotYet {
                        self.closing = WsClosing::Confirmed;
                    }
                    // Sends the answer to it. A peer that is gone needs none.
                    let _ = self.send_waiting(Patience::None);
                }
                ArrivedMessage::NotYet => return Ok(progress),
                ArrivedMessage::Over => self.is_over = true,
            }
        }
        Ok(Progress::Closed)
    }

    /// Sends a Close frame, once.
    fn close(&mut self) -> io::Result<()> {
        if self.closing != WsClosing::NotYet {
            return Ok(());
        }
        if self.is_over {
            // Without an answer to a Close frame the sent bytes are not confirmed.
            return if self.is_sender {
                Err(self.broken(io::ErrorKind::BrokenPipe, CLOSED_AMID))
            } else {
                Ok(())
            };
        }
        self.closing = WsClosing::Sent(None, None);
        let closed = self.socket()?.close(None);
        self.sent(closed)?;
        self.send_waiting(Patience::Block).map(drop)
    }

    fn acknowledged(&self) -> Option<u64> {
        self.info().view.and_then(|view| view.bytes_acked)
    }

    /// Waits no longer for the answer to the Close frame than acknowledgements arrive.
    fn look_at_the_close(&mut self, now: Nanos) -> io::Result<()> {
        let WsClosing::Sent(due, before) = self.closing else { return Ok(()) };
        let acknowledged = self.acknowledged();
        match due {
            Some(due) if due > now => return Ok(()),
            Some(_) if acknowledged == before => {
                let what = format!(
                    "it acknowledged nothing more for {CONFIRMS_WITHIN}, and did not answer the Close frame"
                );
                return Err(self.broken(io::ErrorKind::TimedOut, what));
            }
            _ => self.closing = WsClosing::Sent(Some(now + CONFIRMS_WITHIN), acknowledged),
        }
        Ok(())
    }
}

impl Conn for OthersWsConn {
    fn readiness(&self) -> Readiness<'_> {
        match self.channel() {
            Some(channel) => {
                Readiness { has_backlog: self.has_backlog, ..Readiness::of(channel.inlet()) }
            }
            None => Readiness {
                fd: None,
                room: deadheat_datapath::datapath::wait::Interest::Read,
                has_backlog: false,
            },
        }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.channel().map(Channel::inlet).into_iter().collect()
    }

    fn send(&mut self, _lane: Lane, _message: &[u8]) -> io::Result<Progress> {
        let what = "the far end takes bulk data, and no messages of the work";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    fn receive(&mut self, patience: Patience, _inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.take(patience, &mut |_| {})
    }

    fn flush(&mut self) -> io::Result<Progress> {
        let is_done = !self.has_backlog || self.send_waiting(Patience::None)?;
        Ok(if is_done { Progress::Moved } else { Progress::Idle })
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        self.take(Patience::None, &mut |_| {})?;
        // The library takes messages after the end without an error, and sends none.
        if self.is_over {
            return Err(self.broken(io::ErrorKind::BrokenPipe, CLOSED_AMID));
        }
        if self.has_backlog && !self.send_waiting(Patience::Block)? {
            return Ok(Progress::Idle);
        }
        self.socket()?.get_mut().patience = Patience::Block;
        while source.budget() > 0 && !self.has_backlog {
            // A message is never cut, so the last one may exceed the budget.
            let len = self.terms.application.next_len(self.given);
            if self.fill.len() < len {
                self.fill = vec![FILL; len].into();
            }
            let message = Message::Binary(self.fill.slice(..len));
            let written = self.socket()?.write(message);
            self.sent(written)?;
            self.given += len as u64;
            source.accepted(len as u64);
        }
        self.send_waiting(Patience::Block)?;
        Ok(Progress::Moved)
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        if matches!(self.phase, WsPhase::Waits(_)) {
            self.begin()?;
        }
        if self.stops_at.is_some_and(|at| Monotonic.now() >= at) {
            self.close()?;
            self.is_over = true;
            return Ok(Progress::Closed);
        }
        self.take(patience, &mut |bytes| sink.take(bytes))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.close()
    }

    fn is_drained(&self) -> bool {
        let is_confirmed = !self.is_sender || self.closing == WsClosing::Confirmed;
        is_confirmed && !self.has_backlog
    }

    fn next_deadline(&self) -> Option<Nanos> {
        if self.may_hold && matches!(self.phase, WsPhase::Open(_)) {
            return Some(Nanos::ZERO);
        }
        match self.closing {
            WsClosing::Sent(due, _) if self.is_sender => Some(due.unwrap_or(Nanos::ZERO)),
            _ => self.stops_at.filter(|_| !self.is_over),
        }
    }

    /// Reads, where data was sent: no flow does so after its end.
    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.may_hold = false;
        if !matches!(self.phase, WsPhase::Open(_)) {
            return Ok(());
        }
        self.flush()?;
        if self.is_sender && self.closing != WsClosing::NotYet {
            self.take(Patience::None, &mut |_| {})?;
            self.look_at_the_close(now)?;
        }
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        let mut all = self.channel().map_or_else(Effective::default, |channel| {
            let mut all = self.flavour.effective(channel);
            self.flavour.facts().header.report(channel.inlet(), &mut all);
            all
        });
        all.extend([("io", "write"), ("rx", "read")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        all.extend(self.terms.application.effective());
        all
    }

    fn info(&self) -> ConnInfo {
        self.channel()
            .map_or_else(ConnInfo::default, |channel| self.flavour.info(channel, self.connect_ns))
    }
}

/// Shakes hands on a socket that took `connect_ns` to connect, and opens a connection on it.
///
/// # Errors
/// [`Error::Peer`] if the far end fails the handshake or the upgrade.
pub(super) fn connect(
    socket: socket2::Socket,
    flavour: TlsFlavour,
    terms: MessageTerms,
    place: (&Dial<'_>, u64),
) -> Result<Box<dyn Conn>> {
    let channel =
        flavour.open(socket, Side::Near).map_err(|error| crate::tls::refused(place.0.to, error))?;
    open(channel, flavour, terms, place)
}
