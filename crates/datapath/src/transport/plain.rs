//! Transports whose packets carry the application's bytes and nothing of ours, so that programs of others understand
//! them; and the greeting with which such a connection opens instead of our hello.

use std::fmt;
use std::net::SocketAddr;

use socket2::Socket;

use super::application::{ApplicationTerms, MessageTerms};
use super::{Conn, Dial};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;

/// Protocol whose payload is the application's bytes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainProtocol {
    /// TCP (RFC 9293).
    Tcp,
    /// Multipath TCP (RFC 8684).
    Mptcp,
    /// UDP (RFC 768).
    Udp,
    /// SCTP (RFC 9260).
    Sctp,
    /// TLS over TCP (RFC 8446).
    Tls,
    /// QUIC (RFC 9000).
    Quic,
    /// WebSocket over TLS (RFC 6455).
    Wss,
}

impl PlainProtocol {
    /// Returns true if a message arrives as it was sent, and not as a part of a stream of bytes.
    pub fn keeps_boundaries(self) -> bool {
        matches!(self, PlainProtocol::Udp | PlainProtocol::Sctp)
    }
}

impl fmt::Display for PlainProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlainProtocol::Tcp => "TCP",
            PlainProtocol::Mptcp => "MPTCP",
            PlainProtocol::Udp => "UDP",
            PlainProtocol::Sctp => "SCTP",
            PlainProtocol::Tls => "TLS",
            PlainProtocol::Quic => "QUIC",
            PlainProtocol::Wss => "WebSocket over TLS",
        })
    }
}

/// Transport that opens connections to programs of others.
pub trait PlainTransport: Send + Sync {
    /// Returns its protocol.
    fn protocol(&self) -> PlainProtocol;

    /// Opens a connection with `greeting` instead of a hello.
    ///
    /// # Errors
    /// As [`super::Transport::dial`], and the errors of the greeting; [`Error::Usage`] if the protocol has a handshake of
    /// its own.
    fn open(&self, dial: &Dial<'_>, _greeting: &dyn Greeting) -> Result<Box<dyn Conn>> {
        Err(Error::usage(format!("the far end at {} takes no {}", dial.to, self.protocol())))
    }

    /// Opens an encrypted connection with an application protocol on its streams.
    ///
    /// # Errors
    /// As [`super::Transport::dial`]; [`Error::Peer`] if the far end cannot prove its name, or does not speak the
    /// application's protocol; [`Error::Usage`] if the transport does not encrypt.
    fn open_encrypted(&self, dial: &Dial<'_>, _terms: ApplicationTerms) -> Result<Box<dyn Conn>> {
        Err(Error::usage(format!(
            "the far end at {} takes encrypted connections, not {}",
            dial.to,
            self.protocol()
        )))
    }

    /// Opens an encrypted connection with an application on its messages.
    ///
    /// # Errors
    /// As [`PlainTransport::open_encrypted`].
    fn open_messages(&self, dial: &Dial<'_>, _terms: MessageTerms) -> Result<Box<dyn Conn>> {
        Err(Error::usage(format!(
            "the far end at {} takes connections with messages, not {}",
            dial.to,
            self.protocol()
        )))
    }
}

/// First bytes of a connection to a program of others, before its data. A kind of connection that it does not take is
/// refused.
pub trait Greeting: Sync {
    /// Greets over a connected byte stream, until `deadline`.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Blocked`] if no answer came in time; [`deadheat_base::error::Error::Peer`] if it was a wrong one.
    fn stream(&self, _socket: &Socket, to: SocketAddr, _deadline: Nanos) -> Result<()> {
        Err(Error::usage(format!("the far end at {to} takes datagrams only")))
    }

    /// Greets over a connected socket of datagrams, until `deadline`.
    ///
    /// # Errors
    /// As of [`Greeting::stream`].
    fn datagrams(&self, _socket: &Socket, to: SocketAddr, _deadline: Nanos) -> Result<()> {
        Err(Error::usage(format!("the far end at {to} takes byte streams only")))
    }
}
