//! Shared code for the kernel's protocols with connections and messages: opens a connection, and sends one message per
//! call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use crate::pending::{Entrance, PendingAccepts};
use crate::tcp::{self, Variant};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source};
use deadheat_contract::measurements::ConnStats;
use deadheat_datapath::datapath::buffer::prefaulted;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::bulk_message::BulkMessage;
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::hello::{Hello, Token};
use deadheat_datapath::transport::own_port::OwnPort;
use deadheat_datapath::transport::{
    Address, Conn, ConnInfo, Effective, Listen, Listener, Progress, Readiness, unstamped,
};

/// Result of a receiving call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reception {
    /// Nothing was received.
    Nothing,
    /// Datagram that is not a message: a part of one, or a packet of the handshake.
    Other,
    /// Message of a lane, with its length in bytes; it is at the start of the buffer.
    Message(Lane, usize),
    /// End of stream: the peer sends no more.
    End,
}

/// Socket of an open connection, as one protocol sends and receives on it.
pub(super) trait Messenger: Send {
    /// Returns the socket.
    fn socket(&self) -> &CountedSocket;
    /// Returns the largest message in bytes, and the reason for the limit.
    fn largest(&self) -> (usize, &'static str);
    /// Makes one call that sends a message; returns true if it was sent.
    fn send(&mut self, lane: Lane, message: &[u8], patience: Patience) -> io::Result<bool>;
    /// Makes one receiving call into `room`.
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Reception>;
    /// Returns true if the peer has acknowledged everything; until then it is retransmitted.
    fn is_acknowledged(&self) -> bool;
    /// Returns the options as read back.
    fn effective(&self) -> Effective;
    /// Returns the counters so far, without calls and connecting.
    fn stats(&self) -> ConnStats;
}

/// Listener that admits connections and answers their hellos.
pub(super) struct MessageListener<W> {
    entrance: Entrance,
    endpoint: Address,
    token: Token,
    welcome: W,
}

/// Listens as `variant` describes, with each socket prepared by `apply`; `welcome` turns an admitted socket into a
/// connection, or returns `None` if the peer is gone.
///
/// # Errors
/// As [`deadheat_datapath::transport::Transport::listen`].
pub(super) fn listen<W>(
    variant: Variant,
    listen: Listen<'_>,
    apply: impl FnOnce(&Socket) -> Result<()>,
    welcome: W,
) -> Result<Box<dyn Listener>>
where
    W: Fn(Socket, Hello, Nanos) -> Result<Option<Box<dyn Conn>>> + Send + 'static,
{
    let at = listen.at.ip(variant.id)?;
    let (entrance, endpoint) = match listen.door {
        ConnectionSource::Handed(door) => (Entrance::Handed(door), Address::Ip(at)),
        ConnectionSource::Own => {
            let (socket, endpoint) = tcp::bind(variant, at, apply)?;
            (Entrance::Own(PendingAccepts::open(socket, &endpoint)?), endpoint)
        }
    };
    Ok(Box::new(MessageListener { entrance, endpoint, token: listen.token, welcome }))
}

/// Opens the port of `variant` for a server, with its socket prepared by `apply`.
///
/// # Errors
/// As `own_port` of [`deadheat_datapath::transport::Info`].
pub(super) fn own_port(
    variant: Variant,
    at: SocketAddr,
    apply: impl FnOnce(&Socket) -> Result<()>,
) -> Result<Box<dyn OwnPort>> {
    let prepare = |socket: &Socket| {
        apply(socket)?;
        if at.is_ipv6() {
            socket
                .set_only_v6(false)
                .map_err(|e| Error::setup(format!("let IPv4 reach {at} ({})", variant.id), e))?;
        }
        Ok(())
    };
    let (socket, endpoint) = tcp::bind(variant, at, prepare)?;
    Ok(Box::new(PendingAccepts::open(socket, &endpoint)?))
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
            let (flow, socket) = self.entrance.next(token, &self.endpoint, deadline, timeout)?;
            // A peer that leaves before its welcome does not end the wait for the others.
            if let Some(conn) = (self.welcome)(socket, Hello { token, flow }, deadline)? {
                return Ok((flow, conn));
            }
        }
    }
}

/// Connection that carries messages.
pub(super) struct MessageConn<M> {
    messenger: M,
    incoming: Box<[u8]>,
    bulk: BulkMessage,
    connect_ns: u64,
}

impl<M: Messenger> MessageConn<M> {
    /// Takes over an open connection, for messages of at most `largest` bytes.
    pub(super) fn new(messenger: M, largest: usize, connect_ns: u64) -> MessageConn<M> {
        // One byte more than any message, so that the length shows a longer one; and enough for the hello.
        let room = largest.max(deadheat_datapath::transport::hello::LEN) + 1;
        let (incoming, bulk) = (prefaulted(room), BulkMessage::of(room));
        MessageConn { messenger, incoming, bulk, connect_ns }
    }

    fn next(&mut self, patience: Patience) -> io::Result<Reception> {
        self.messenger.receive(&mut self.incoming, patience)
    }
}

/// Checks that a messenger can send a message of `len` bytes.
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

    /// Does nothing: there is no backlog.
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

    /// Does nothing: neither protocol can end one direction (RFC 9260, 9.2; RFC 4340, 8.3).
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
