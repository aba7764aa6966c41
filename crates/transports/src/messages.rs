//! Common part of the kernel's protocols that have connections, as TCP, and messages, as UDP:
//! opening a connection, and one message a call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use crate::contract::{Inbox, Lane, Patience, Sink, Source};
use crate::datapath::buffer::prefaulted;
use crate::datapath::stamps::Stamps;
use crate::datapath::stream::Counted;
use crate::error::Result;
use crate::measurements::ConnStats;
use crate::pending::PendingAccepts;
use crate::tcp::{self, Variant};
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::Address;
use crate::transport::bulk_message::BulkMessage;
use crate::transport::hello::{Hello, Token};
use crate::transport::{
    Conn, ConnInfo, Effective, Listen, Listener, Progress, Readiness, refuse_server, unstamped,
};

/// Result of a receiving call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reception {
    /// Nothing was received.
    Nothing,
    /// A datagram that is no message: a part of one, or what belongs to opening the connection.
    Other,
    /// A message of a lane and of so many bytes, which stand at the start of the room.
    Message(Lane, usize),
    /// The end: the peer sends no more.
    End,
}

/// End of an open connection.
pub(super) trait Messenger: Send {
    /// Returns its socket.
    fn socket(&self) -> &Counted;
    /// Returns the largest message in bytes, and why that is so.
    fn largest(&self) -> (usize, &'static str);
    /// Makes one call that sends a message; whether it went.
    fn send(&mut self, lane: Lane, message: &[u8], patience: Patience) -> io::Result<bool>;
    /// Makes one receiving call into `room`.
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Reception>;
    /// Returns true if the peer has acknowledged all that was sent and is sent again until then.
    fn is_acknowledged(&self) -> bool;
    /// Returns the options as read back.
    fn effective(&self) -> Effective;
    /// Returns the counters so far, but for those of calls and of connecting.
    fn stats(&self) -> ConnStats;
}

/// Lets connections in and has each welcomed.
pub(super) struct MessageListener<W> {
    pending: PendingAccepts,
    endpoint: Address,
    token: Token,
    welcome: W,
}

/// Listens as `variant` says, with each socket prepared by `apply`; `welcome` makes a connection of one
/// that was let in, or nothing of one that is gone.
///
/// # Errors
/// As [`crate::transport::Transport::listen`].
pub(super) fn listen<W>(
    variant: Variant,
    listen: &Listen<'_>,
    apply: impl FnOnce(&Socket) -> Result<()>,
    welcome: W,
) -> Result<Box<dyn Listener>>
where
    W: Fn(Socket, Hello, Nanos) -> Result<Option<Box<dyn Conn>>> + Send + 'static,
{
    refuse_server(&listen.door, variant.id)?;
    let (socket, endpoint) = tcp::bind(variant, tcp::ip(variant, listen.at)?, apply)?;
    let pending = PendingAccepts::open(socket, &endpoint)?;
    Ok(Box::new(MessageListener { pending, endpoint, token: listen.token, welcome }))
}

impl<W> Listener for MessageListener<W>
where
    W: Fn(Socket, Hello, Nanos) -> Result<Option<Box<dyn Conn>>> + Send,
{
    fn endpoint(&self) -> Address {
        self.endpoint.clone()
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let (deadline, token) = (Monotonic.now() + timeout, self.token);
        loop {
            let (flow, socket) = self.pending.next(token, &self.endpoint, deadline, timeout)?;
            // Whoever is gone before its welcome is no reason to stop waiting for the others.
            if let Some(conn) = (self.welcome)(socket, Hello { token, flow }, deadline)? {
                return Ok((flow, conn));
            }
        }
    }
}

/// A connection of messages.
pub(super) struct MessageConn<M> {
    messenger: M,
    incoming: Box<[u8]>,
    bulk: BulkMessage,
    connect_ns: u64,
}

impl<M: Messenger> MessageConn<M> {
    /// Takes an open connection over, for messages of at most `largest` bytes.
    pub(super) fn new(messenger: M, largest: usize, connect_ns: u64) -> MessageConn<M> {
        // One byte more than any message, so that a longer one shows by its length; and never less than
        // what opens a connection.
        let room = largest.max(crate::transport::hello::LEN) + 1;
        let (incoming, bulk) = (prefaulted(room), BulkMessage::of(room));
        MessageConn { messenger, incoming, bulk, connect_ns }
    }

    fn next(&mut self, patience: Patience) -> io::Result<Reception> {
        self.messenger.receive(&mut self.incoming, patience)
    }
}

/// Checks that a messenger takes a message of `len` bytes.
fn fits<M: Messenger>(messenger: &M, len: usize) -> io::Result<()> {
    let (largest, why) = messenger.largest();
    if (1..=largest).contains(&len) {
        return Ok(());
    }
    let what = format!("a message of {len} B where 1 to {largest} B fit ({why})");
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

impl<M: Messenger> Conn for MessageConn<M> {
    fn readiness(&self) -> Readiness<'_> {
        Readiness::of(self.messenger.socket().as_fd())
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.messenger.socket().as_fd()]
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        fits(&self.messenger, message.len())?;
        let went = self.messenger.send(lane, message, Patience::None)?;
        Ok(if went { Progress::Moved } else { Progress::Idle })
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        Ok(match self.next(patience)? {
            Reception::Nothing => Progress::Idle,
            Reception::Other => Progress::Moved,
            Reception::Message(lane, len) => {
                inbox.message(lane, &self.incoming[..len]);
                Progress::Moved
            }
            Reception::End => Progress::Closed,
        })
    }

    /// Does nothing: it keeps no backlog.
    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Moved)
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let messenger = &mut self.messenger;
        self.bulk.pump(source, |message| {
            fits(messenger, message.len())?;
            let went = messenger.send(Lane(0), message, Patience::Block)?;
            Ok(if went { Progress::Moved } else { Progress::Idle })
        })
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        Ok(match self.next(patience)? {
            Reception::Nothing => Progress::Idle,
            Reception::Other => Progress::Moved,
            Reception::Message(_, len) => {
                sink.take(&self.incoming[..len]);
                Progress::Moved
            }
            Reception::End => Progress::Closed,
        })
    }

    /// Does nothing: neither protocol ends one direction alone (RFC 9260, 9.2; RFC 4340, 8.3).
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.messenger.is_acknowledged()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        self.messenger.effective()
    }

    fn info(&self) -> ConnInfo {
        let socket = self.messenger.socket();
        ConnInfo::counted(ConnStats {
            connect_ns: self.connect_ns,
            send_calls: socket.send_calls(),
            receive_calls: socket.receive_calls(),
            ..self.messenger.stats()
        })
    }
}
