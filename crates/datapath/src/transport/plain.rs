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
pub struct PlainProtocol {
    /// Name for people.
    pub name: &'static str,
    /// True if a message arrives as it was sent, and not as a part of a stream of bytes.
    pub keeps_boundaries: bool,
    /// True if it sends lost bytes again.
    pub is_reliable: bool,
    /// True if a connection has several streams of bytes, none of which waits for another.
    pub has_streams: bool,
}

impl PlainProtocol {
    /// TCP (RFC 9293).
    pub const TCP: PlainProtocol = PlainProtocol {
        name: "TCP",
        keeps_boundaries: false,
        is_reliable: true,
        has_streams: false,
    };
    /// Multipath TCP (RFC 8684).
    pub const MPTCP: PlainProtocol = PlainProtocol { name: "MPTCP", ..PlainProtocol::TCP };
    /// UDP (RFC 768).
    pub const UDP: PlainProtocol = PlainProtocol {
        name: "UDP",
        keeps_boundaries: true,
        is_reliable: false,
        ..PlainProtocol::TCP
    };
    /// SCTP (RFC 9260).
    pub const SCTP: PlainProtocol =
        PlainProtocol { name: "SCTP", keeps_boundaries: true, ..PlainProtocol::TCP };
    /// TLS over TCP (RFC 8446).
    pub const TLS: PlainProtocol = PlainProtocol { name: "TLS", ..PlainProtocol::TCP };
    /// QUIC (RFC 9000).
    pub const QUIC: PlainProtocol =
        PlainProtocol { name: "QUIC", has_streams: true, ..PlainProtocol::TCP };
    /// WebSocket over TLS (RFC 6455).
    pub const WSS: PlainProtocol =
        PlainProtocol { name: "WebSocket over TLS", ..PlainProtocol::TCP };
}

impl fmt::Display for PlainProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// First bytes of a connection to a program of others, before its data: over a connected socket to this address, until
/// this deadline.
///
/// # Errors
/// [`Error::Blocked`] if no answer came in time; [`Error::Peer`] if it was a wrong one.
pub type Greeting<'a> = dyn Fn(&Socket, SocketAddr, Nanos) -> Result<()> + 'a;

/// Transport that opens connections to programs of others.
#[derive(Debug, Clone, Copy)]
pub struct PlainTransport {
    /// Protocol.
    pub protocol: PlainProtocol,
    /// Way to open a connection.
    pub opening: PlainOpening,
}

/// Way to open a connection to a program of others, with the errors of [`super::Transport::dial`].
#[derive(Debug, Clone, Copy)]
pub enum PlainOpening {
    /// With a greeting instead of a hello, and its errors.
    Greeted(fn(&Dial<'_>, &Greeting<'_>) -> Result<Box<dyn Conn>>),
    /// Encrypted, with an application protocol on its streams; [`Error::Peer`] if the far end cannot prove its name, or
    /// does not speak that protocol.
    Encrypted(fn(&Dial<'_>, ApplicationTerms) -> Result<Box<dyn Conn>>),
    /// Encrypted, with an application on its messages, and the same errors.
    Messages(fn(&Dial<'_>, MessageTerms) -> Result<Box<dyn Conn>>),
}

impl PlainTransport {
    /// Opens a connection with `greeting` instead of a hello.
    ///
    /// # Errors
    /// As of [`PlainOpening::Greeted`]; [`Error::Usage`] if the transport opens its connections otherwise.
    pub fn open(&self, dial: &Dial<'_>, greeting: &Greeting<'_>) -> Result<Box<dyn Conn>> {
        match self.opening {
            PlainOpening::Greeted(open) => open(dial, greeting),
            _ => Err(self.unfit(dial)),
        }
    }

    /// Opens an encrypted connection with an application protocol on its streams.
    ///
    /// # Errors
    /// As of [`PlainOpening::Encrypted`]; [`Error::Usage`] if the transport opens its connections otherwise.
    pub fn open_encrypted(
        &self,
        dial: &Dial<'_>,
        terms: ApplicationTerms,
    ) -> Result<Box<dyn Conn>> {
        match self.opening {
            PlainOpening::Encrypted(open) => open(dial, terms),
            _ => Err(self.unfit(dial)),
        }
    }

    /// Opens an encrypted connection with an application on its messages.
    ///
    /// # Errors
    /// As of [`PlainOpening::Messages`]; [`Error::Usage`] if the transport opens its connections otherwise.
    pub fn open_messages(&self, dial: &Dial<'_>, terms: MessageTerms) -> Result<Box<dyn Conn>> {
        match self.opening {
            PlainOpening::Messages(open) => open(dial, terms),
            _ => Err(self.unfit(dial)),
        }
    }

    fn unfit(&self, dial: &Dial<'_>) -> Error {
        Error::usage(format!("the far end at {} takes no {}", dial.to, self.protocol))
    }
}
