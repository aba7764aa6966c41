//! Source of a listener's connections: its own socket, or a server that owns the port, reads the hello first, and
//! hands over the connections of this trial.
//!
//! The hand-over runs over a `SOCK_SEQPACKET` Unix socket pair. A stream connection travels as a descriptor
//! (`SCM_RIGHTS`, unix(7)); a datagram flow as its peer's verified address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use deadheat_base::descriptor;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use deadheat_base::time::Nanos;

pub use deadheat_base::descriptor::{fill, readable};

/// Source of a listener's connections.
#[derive(Debug)]
pub enum ConnectionSource {
    /// The listener binds its own socket and checks hellos itself.
    Own,
    /// A server hands over connections after it has read and verified their hello.
    Handed(HandOver),
}

/// Connection that a server handed over.
#[derive(Debug)]
pub enum HandedConnection {
    /// Connected stream socket; its hello was read, its welcome was not sent.
    Stream {
        /// The flow from the hello.
        flow: u16,
        /// The socket.
        socket: OwnedFd,
    },
    /// Peer with a hello that arrived on the server's datagram port `local`; not welcomed yet.
    Datagrams {
        /// True if the peer's address has been proved; else it must be, before it gets more than it sends.
        is_proved: bool,
        /// The flow from the hello.
        flow: u16,
        /// Address to bind (with `SO_REUSEADDR`), so that the peer receives from the same port.
        local: SocketAddr,
        /// The address to connect to.
        peer: SocketAddr,
    },
}

/// End of the hand-over channel.
#[derive(Debug)]
pub struct HandOver(OwnedFd);

#[derive(Serialize, Deserialize)]
enum HandOverNote {
    Stream { flow: u16 },
    Datagrams { flow: u16, local: SocketAddr, peer: SocketAddr, is_proved: bool },
    Fd,
}

const NOTE_MAX: usize = 512;

impl HandOver {
    /// Creates a connected pair: one end for the server, one for the agent.
    ///
    /// # Errors
    /// Fails if the kernel gives no socket pair.
    pub fn pair() -> io::Result<(HandOver, HandOver)> {
        let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
        Ok((HandOver(one.into()), HandOver(other.into())))
    }

    /// Returns the end that a parent process left at the descriptor `fd`.
    pub fn from_fd(fd: OwnedFd) -> HandOver {
        HandOver(fd)
    }

    /// Hands over a connected stream socket.
    ///
    /// # Errors
    /// Fails if the agent is gone.
    pub fn give_stream(&self, flow: u16, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.write(&HandOverNote::Stream { flow }, Some(socket))
    }

    /// Hands over the verified address of a datagram peer.
    ///
    /// # Errors
    /// Fails if the agent is gone.
    pub fn give_datagrams(&self, flow: u16, local: SocketAddr, peer: SocketAddr) -> io::Result<()> {
        self.write(&HandOverNote::Datagrams { flow, local, peer, is_proved: true }, None)
    }

    /// Hands over the address of a datagram peer that has presented the token and nothing else.
    ///
    /// # Errors
    /// Fails if the agent is gone.
    pub fn give_unproved(&self, flow: u16, local: SocketAddr, peer: SocketAddr) -> io::Result<()> {
        self.write(&HandOverNote::Datagrams { flow, local, peer, is_proved: false }, None)
    }

    /// Hands over a descriptor that needs no description (one end of a pipe, a namespace), to the caller of
    /// [`HandOver::take_fd`]. This works over a stream socket, too: no read goes past a descriptor (unix(7)).
    ///
    /// # Errors
    /// Fails if the other end is gone.
    pub fn give_fd(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.write(&HandOverNote::Fd, Some(fd))
    }

    /// Waits for a descriptor, at most `timeout`; `None` if none arrived.
    ///
    /// # Errors
    /// Fails if the other end is gone or sent something else.
    pub fn take_fd(&self, timeout: Nanos) -> io::Result<Option<OwnedFd>> {
        if !readable(self.0.as_fd(), timeout)? {
            return Ok(None);
        }
        match self.read()? {
            (HandOverNote::Fd, Some(fd)) => Ok(Some(fd)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "expected a descriptor")),
        }
    }

    /// Waits for the next hand-over, at most `timeout`; `None` if none arrived.
    ///
    /// # Errors
    /// Fails if the server is gone or sent something else.
    pub fn take(&self, timeout: Nanos) -> io::Result<Option<HandedConnection>> {
        if !readable(self.0.as_fd(), timeout)? {
            return Ok(None);
        }
        let (note, socket) = self.read()?;
        Ok(Some(match (note, socket) {
            (HandOverNote::Stream { flow }, Some(socket)) => {
                HandedConnection::Stream { flow, socket }
            }
            (HandOverNote::Datagrams { flow, local, peer, is_proved }, None) => {
                HandedConnection::Datagrams { flow, local, peer, is_proved }
            }
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "hand-over without its socket",
                ));
            }
        }))
    }

    fn write(&self, note: &HandOverNote, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
        descriptor::send(self.0.as_fd(), &deadheat_base::json::line(note)?, socket)
    }

    fn read(&self) -> io::Result<(HandOverNote, Option<OwnedFd>)> {
        let mut bytes = [0u8; NOTE_MAX];
        let (got, socket) = descriptor::receive(self.0.as_fd(), &mut bytes)?;
        if got == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end is gone"));
        }
        Ok((deadheat_base::json::read(&bytes[..got])?, socket))
    }
}

impl AsFd for HandOver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_stream_crosses_and_still_works() {
        let (server, agent) = HandOver::pair().unwrap();
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        server.give_stream(3, far.as_fd()).unwrap();
        drop(far);
        let Some(HandedConnection::Stream { flow: 3, socket }) =
            agent.take(Nanos::from_secs(1)).unwrap()
        else {
            panic!("no stream of flow 3")
        };
        std::os::unix::net::UnixStream::from(socket).write_all(b"hi").unwrap();
        let mut got = String::new();
        near.read_to_string(&mut got).unwrap();
        assert_eq!(got, "hi");
    }

    #[test]
    fn an_address_crosses_silence_is_none_and_a_gone_server_is_an_error() {
        let (server, agent) = HandOver::pair().unwrap();
        assert!(agent.take(Nanos::ZERO).unwrap().is_none());
        let (local, peer) = ("[::1]:5210".parse().unwrap(), "[::1]:4444".parse().unwrap());
        server.give_datagrams(1, local, peer).unwrap();
        let got = agent.take(Nanos::from_secs(1)).unwrap();
        let want = (1, local, peer);
        assert!(
            matches!(got, Some(HandedConnection::Datagrams { flow, local, peer, is_proved: true }) if (flow, local, peer) == want)
        );
        drop(server);
        assert!(agent.take(Nanos::from_secs(1)).is_err());
    }
}
