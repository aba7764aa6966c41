//! A connection over a kernel byte stream, TCP or Unix: framed messages, or bulk bytes as they are.
//! What differs between the two are options and counters, and that is a [`Flavour`].

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use super::frame::{Decoder, Encoder};
use super::{Conn, Effective, Progress};
use crate::contract::{Inbox, Lane, Patience, Sink, Source};
use crate::datapath::buffer::{PERIOD, pattern, prefaulted};
use crate::datapath::file::read_at;
use crate::datapath::stream::Counted;
use crate::error::Result;
use crate::figures::{ConnStats, Headers, TcpView};

/// Bytes one draining call may bring. On loopback 512 KiB moved 15 % more than 128 KiB, and larger
/// no more: fewer calls, while the copied bytes still fit a core's second-level cache.
const DRAIN_ROOM: usize = 512 * 1024;

/// Bytes a pumping call sends at most, unless the source asks for larger calls.
const PUMP_CALL: usize = 128 * 1024;

/// What one kind of byte stream has that another has not.
pub(super) trait Flavour: Clone + Send + 'static {
    /// Sets the options that were asked for: before the handshake, so that it sees them, and again
    /// on a connection that came from elsewhere.
    fn apply(&self, socket: &Socket) -> Result<()>;

    /// Sets the options that a connection must be established for.
    fn connected(&self, _socket: &Socket) -> Result<()> {
        Ok(())
    }

    /// Whether [`Flavour::rearm`] must follow each receive that brought something.
    fn rearms(&self) -> bool {
        false
    }

    /// Sets again, with one system call, what the kernel forgets after a receive.
    fn rearm(&self, _socket: &Socket) -> io::Result<()> {
        Ok(())
    }

    /// The options as the kernel tells them.
    fn effective(&self, socket: &Socket) -> Effective;

    /// What the kernel's TCP says of the connection; `None` where it is none.
    fn view(&self, _socket: &Socket) -> Option<TcpView> {
        None
    }

    /// The headers around its data; `None` where there are none.
    fn headers(&self, _socket: &Socket) -> Option<Headers> {
        None
    }
}

/// One end of an open byte stream.
pub(super) struct StreamConn<F> {
    socket: Counted,
    flavour: F,
    outgoing: Encoder,
    incoming: Decoder,
    /// What every stream carries, long enough for a call that starts anywhere in its period.
    pump_from: Box<[u8]>,
    /// Where in it the next byte is.
    pump_at: usize,
    /// What the last call read from a file; empty where there is none.
    file_from: Box<[u8]>,
    drain_to: Box<[u8]>,
    connect_ns: u64,
}

impl<F: Flavour> StreamConn<F> {
    /// Takes over a connected, welcomed socket.
    ///
    /// # Errors
    /// What fcntl(2) or setsockopt(2) says.
    pub(super) fn new(
        socket: Socket,
        flavour: F,
        largest_message: usize,
        connect_ns: u64,
    ) -> io::Result<StreamConn<F>> {
        Ok(StreamConn {
            socket: Counted::new(socket)?,
            flavour,
            outgoing: Encoder::new(largest_message),
            incoming: Decoder::new(largest_message),
            pump_from: repeated(PERIOD + PUMP_CALL),
            pump_at: 0,
            file_from: Box::default(),
            drain_to: prefaulted(DRAIN_ROOM),
            connect_ns,
        })
    }

    #[inline]
    fn brought(&mut self) -> io::Result<()> {
        if self.flavour.rearms() {
            self.socket.count_receive_call();
            self.flavour.rearm(self.socket.socket())?;
        }
        Ok(())
    }
}

impl<F: Flavour> Conn for StreamConn<F> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        if lane != Lane(0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a byte stream has lane 0 only, not {}", lane.0),
            ));
        }
        if self.has_backlog() {
            self.flush()?;
            if self.has_backlog() {
                return Ok(Progress::Idle);
            }
        }
        self.outgoing.put(message)?;
        match self.socket.send(self.outgoing.pending(), Patience::None)? {
            Some(sent) => {
                self.outgoing.sent(sent);
                Ok(Progress::Moved)
            }
            None => {
                self.outgoing.clear();
                Ok(Progress::Idle)
            }
        }
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        match self.socket.receive(self.incoming.room(), patience)? {
            None => Ok(Progress::Idle),
            Some(0) => self.incoming.ended().map(|()| Progress::Closed),
            Some(got) => {
                self.brought()?;
                self.incoming.received(got, inbox)?;
                Ok(Progress::Moved)
            }
        }
    }

    fn has_backlog(&self) -> bool {
        !self.outgoing.pending().is_empty()
    }

    fn flush(&mut self) -> io::Result<Progress> {
        if !self.has_backlog() {
            return Ok(Progress::Moved);
        }
        match self.socket.send(self.outgoing.pending(), Patience::None)? {
            Some(sent) => {
                self.outgoing.sent(sent);
                Ok(Progress::Moved)
            }
            None => Ok(Progress::Idle),
        }
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let call = source.call_size().max(1);
        if PERIOD + call > self.pump_from.len() {
            self.pump_from = repeated(PERIOD + call);
        }
        let mut progress = Progress::Idle;
        loop {
            let len = usize::try_from(source.budget()).map_or(call, |budget| budget.min(call));
            if len == 0 {
                return Ok(Progress::Moved);
            }
            let bytes = match source.file() {
                None => &self.pump_from[self.pump_at..][..len],
                Some(from) => {
                    if self.file_from.len() < call {
                        self.file_from = prefaulted(call);
                    }
                    if read_at(from, &mut self.file_from[..len])? < len {
                        return Err(too_short());
                    }
                    &self.file_from[..len]
                }
            };
            match self.socket.send(bytes, Patience::Block)? {
                Some(sent) => {
                    self.pump_at = (self.pump_at + sent) % PERIOD;
                    source.accepted(sent as u64);
                    progress = Progress::Moved;
                    // A blocking call that comes back short has slept for as long as it may.
                    if sent < len {
                        return Ok(progress);
                    }
                }
                None => return Ok(progress),
            }
        }
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        if let Some(room) = sink.room() {
            return match self.socket.receive(room, patience)? {
                None => Ok(Progress::Idle),
                Some(0) => Ok(Progress::Closed),
                Some(got) => {
                    self.brought()?;
                    sink.pass(got as u64);
                    Ok(Progress::Moved)
                }
            };
        }
        match self.socket.receive(&mut self.drain_to, patience)? {
            None => Ok(Progress::Idle),
            Some(0) => Ok(Progress::Closed),
            Some(got) => {
                self.brought()?;
                sink.take(&self.drain_to[..got]);
                Ok(Progress::Moved)
            }
        }
    }

    /// A backlog is sent first; it is an error if there is no room for it within
    /// [`crate::contract::GUARD`].
    fn finish(&mut self) -> io::Result<()> {
        while self.has_backlog() {
            let Some(sent) = self.socket.send(self.outgoing.pending(), Patience::Block)? else {
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
        match self.socket.socket().shutdown(Shutdown::Write) {
            // The connection is gone, and this direction with it.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }

    fn effective(&self) -> Effective {
        self.flavour.effective(self.socket.socket())
    }

    fn stats(&self) -> ConnStats {
        ConnStats {
            connect_ns: self.connect_ns,
            send_calls: self.socket.send_calls(),
            receive_calls: self.socket.receive_calls(),
            retransmits: self.view().map(|view| view.retransmits),
            headers: self.flavour.headers(self.socket.socket()),
            ..ConnStats::default()
        }
    }

    fn view(&self) -> Option<TcpView> {
        self.flavour.view(self.socket.socket())
    }
}

/// `len` bytes of the content that every byte stream has.
fn repeated(len: usize) -> Box<[u8]> {
    pattern().iter().copied().cycle().take(len).collect()
}

fn too_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file has become shorter since the trial began",
    )
}
