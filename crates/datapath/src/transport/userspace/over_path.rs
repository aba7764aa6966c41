//! A [`Protocol`](super::protocol::Protocol) on a simulated path: the caller fetches its datagrams one by one,
//! carries them, and sets the time.

use std::io;
use std::os::fd::BorrowedFd;

use super::protocol::{Opening, State, Userspace};
use super::session::Session;
use crate::datapath::datagram::{Received, Transmit};
use crate::datapath::stamps::Stamps;
use crate::datapath::wait::Interest;
use crate::transport::{Conn, ConnInfo, Effective, Progress, Readiness, unstamped};
use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source};
use deadheat_contract::measurements::ConnStats;

/// End of a connection in virtual time. Its calls use the clock's current time, and never wait.
pub struct OverPath {
    session: Session,
    clock: Manual,
    /// Number of calls that sent, and that received.
    calls: [u64; 2],
    /// Number of datagrams that left, and their bytes.
    left: [u64; 2],
    began: Nanos,
    opened: Nanos,
}

impl OverPath {
    /// Opens one end of a new connection. If the protocol has a handshake, it is not open before the handshake's
    /// datagrams have travelled.
    ///
    /// # Errors
    /// As for [`Userspace::open`].
    pub fn open(
        transport: &dyn Userspace,
        opening: &Opening<'_>,
        clock: &Manual,
    ) -> Result<OverPath> {
        let mut session = Session::open(transport, opening)?;
        let began = clock.now();
        // A near end begins.
        session.on_deadline(began);
        Ok(OverPath {
            session,
            clock: clock.clone(),
            calls: [0; 2],
            left: [0; 2],
            began,
            opened: began,
        })
    }

    /// Returns true if the handshake is over, and notes the time.
    ///
    /// # Errors
    /// Fails if the protocol closed the connection instead.
    pub fn has_opened(&mut self) -> io::Result<bool> {
        match self.session.protocol.state() {
            State::Open => {
                self.opened = self.clock.now();
                Ok(true)
            }
            State::Handshaking => Ok(false),
            State::Closed(why) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)),
        }
    }

    /// Handles a datagram that arrived.
    pub fn handle(&mut self, datagram: Received<'_>) {
        self.session.handle(datagram);
    }

    /// Appends the next outgoing datagram to `room`; `None` if there is none.
    pub fn transmit(&mut self, room: &mut Vec<u8>) -> Option<Transmit> {
        let before = room.len();
        let transmit = self.session.protocol.transmit(self.clock.now(), 1, room)?;
        self.left[0] += 1;
        self.left[1] += (room.len() - before) as u64;
        Some(transmit)
    }

    /// Returns the progress, or the error of a connection that the protocol has closed if there was none.
    fn unless_closed(&self, progress: Progress) -> io::Result<Progress> {
        if progress == Progress::Idle {
            self.session.check_open()?;
        }
        Ok(progress)
    }
}

impl Conn for OverPath {
    fn readiness(&self) -> Readiness<'_> {
        Readiness { fd: None, room: Interest::ReadWrite, has_backlog: false }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        self.calls[0] += 1;
        self.session.send(self.clock.now(), lane, message)
    }

    fn receive(&mut self, _patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.calls[1] += 1;
        self.session
            .receive(self.clock.now(), inbox)
            .and_then(|progress| self.unless_closed(progress))
    }

    /// Does nothing, since there is no backlog.
    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Moved)
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        self.calls[0] += 1;
        self.session
            .pump(self.clock.now(), source)
            .and_then(|progress| self.unless_closed(progress))
    }

    fn drain(&mut self, _patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        self.calls[1] += 1;
        let progress = self.session.drain(self.clock.now(), sink);
        self.unless_closed(progress)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.session.finish(self.clock.now());
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.session.protocol.is_drained()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.session.protocol.next_deadline()
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.session.on_deadline(now);
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        self.session.protocol.effective()
    }

    fn info(&self) -> ConnInfo {
        let [send_calls, receive_calls] = self.calls;
        let ConnInfo { stats, view } = self.session.info(self.left);
        let connect_ns = (self.opened - self.began).0;
        let stats =
            ConnStats { connect_ns, send_calls, receive_calls, socket_drops: Some(0), ..stats };
        ConnInfo { stats, view }
    }
}
