//! Contract of a protocol in user space: a state machine with datagrams in, datagrams out, and time as an argument.
//! Its adapter decides how its datagrams are carried and what time it is, so the same code runs over a UDP socket
//! ([`super::over_udp`]) and on a simulated path in virtual time ([`super::over_path`]).

use std::io;

use crate::datapath::datagram::{Received, Transmit};
use crate::transport::hello::Token;
use crate::transport::plain::PlainTransport;
use crate::transport::{Effective, Info, Tickets};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Settings;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Lane, Service, Side};
use deadheat_contract::measurements::TcpView;

/// Bytes of a UDP header (RFC 768), which every datagram has in front of it.
pub const UDP_HEADER: u32 = 8;

/// Transport with a protocol in user space. An implementation is a [`crate::transport::Transport`] on real and
/// on simulated paths.
pub trait Userspace: Sync {
    /// Returns the description of the transport, with its guarantees.
    fn info(&self) -> &'static Info;

    /// Opens one end of a new connection.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] where the knobs do not suit the path, with knobs that would.
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>>;

    /// Returns the way in which it opens connections to programs of others, as
    /// [`Transport::plain`](crate::transport::Transport::plain); `None` if it does not.
    fn plain(&self) -> Option<&'static PlainTransport> {
        None
    }
}

/// Parameters of one end of a new connection.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// Side of this end.
    pub side: Side,
    /// Token that the two ends of this trial share, and no other trial has.
    pub token: Token,
    /// Knobs of the contender.
    pub knobs: &'a Settings,
    /// Services of its lanes, all of which the transport offers.
    pub lanes: &'a [Service],
    /// Size of the largest message in bytes. There has to be room for one, framing included.
    pub largest_message: usize,
    /// Size of the largest IP packet of the path in bytes.
    pub mtu: u32,
    /// Bytes of an IP header: 20 (RFC 791) or 40 (RFC 8200).
    pub ip_header: u32,
    /// Session tickets that connections of the same trial have left for this one.
    pub tickets: &'a Tickets,
}

impl Opening<'_> {
    /// Returns the number of bytes of the headers in front of each datagram's payload.
    pub fn headers(&self) -> u32 {
        self.ip_header + UDP_HEADER
    }

    /// Returns the largest number of bytes of a datagram's payload, which is `least` or more.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the transport `id` where the path's packets have room for less.
    pub fn payload(&self, id: &str, least: u32) -> Result<u32> {
        let payload = self.mtu.saturating_sub(self.headers());
        if payload >= least {
            return Ok(payload);
        }
        Err(Error::usage(format!(
            "`{id}` takes packets of {} bytes and more, and the path takes packets of {} bytes; raise its mtu",
            least + self.headers(),
            self.mtu
        )))
    }
}

/// Returns the error of writing bytes that nothing carries: without a connection, or on a missing lane.
pub fn nowhere(lane: Lane) -> io::Error {
    let why = format!("lane {} has no connection that takes its bytes", lane.0);
    io::Error::new(io::ErrorKind::NotConnected, why)
}

/// State of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Setting up; it accepts no data yet.
    Handshaking,
    /// Open: both ends may send.
    Open,
    /// Closed, for this reason.
    Closed(String),
}

/// End of one connection. No call allocates once warm, unless the library behind it does, which is its cost.
pub trait Protocol: Send {
    /// Returns the state of the connection.
    fn state(&self) -> State;

    /// Takes a datagram. It ignores invalid ones.
    fn handle(&mut self, datagram: Received<'_>);

    /// Appends datagrams that leave at `now` to `batch`, at most `most` of them. `None` if nothing is to leave.
    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit>;

    /// Returns the time at which [`Protocol::on_deadline`] is due; `None` for not before another event. A near end
    /// with a handshake is due at once, before any other event: it then begins. A far end waits for its first
    /// datagram.
    fn next_deadline(&self) -> Option<Nanos>;

    /// Handles the deadline, which has passed.
    fn on_deadline(&mut self, now: Nanos);

    /// Returns the largest number of bytes that [`Protocol::write`] accepts on a lane now.
    fn room(&self, lane: Lane) -> usize;

    /// Accepts bytes to send, no more than there is room for, and returns how many: all of a message, or none; of a byte
    /// stream fewer where `rest` stays with the caller.
    ///
    /// # Errors
    /// Fails if the connection is closed, or nothing carries the bytes.
    fn write(&mut self, now: Nanos, lane: Lane, bytes: &[u8], rest: Rest) -> io::Result<usize>;

    /// Hands over all that arrived, in the order of its lane: pieces of a byte stream, or whole messages. `take`
    /// returns the number of bytes that it accepted: all bytes of a message; the remaining bytes of a stream are
    /// handed over again later. The adapter calls this again only once more arrives.
    fn read(&mut self, now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize);

    /// Ends this direction of a lane after the bytes written so far.
    fn finish(&mut self, now: Nanos, lane: Lane);

    /// Returns true if the peer's direction of a lane has ended and all of it was read.
    fn has_ended(&self, lane: Lane) -> bool;

    /// Returns true if the peer has all written data that must arrive.
    fn is_drained(&self) -> bool;

    /// Returns the counters so far, and the current state.
    fn stats(&self) -> ProtocolStats;

    /// Returns the effective options, by the names of knobs where there is one.
    fn effective(&self) -> Effective;
}

/// Owner of bytes of a stream that a protocol cannot put on the path at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// The protocol, which had room for them.
    Kept,
    /// The caller, which offers them again.
    Left,
}

/// Counters of a protocol, and its state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProtocolStats {
    /// Datagrams with data that were sent for the first time; absent if each message is one.
    pub packets: Option<u64>,
    /// Datagrams, or segments in them, that were sent again; absent if none ever is.
    pub resent: Option<u64>,
    /// Lost datagrams that this end recovered from others; absent without forward error correction.
    pub recovered: Option<u64>,
    /// Bytes of the protocol's own header in each datagram with data.
    pub header_bytes: u64,
    /// Current congestion control and round-trip time; absent if it has neither.
    pub view: Option<TcpView>,
}

impl ProtocolStats {
    /// Creates the counters of a protocol that sends lost data again.
    pub fn of(packets: u64, resent: u64, header_bytes: u64) -> ProtocolStats {
        ProtocolStats {
            packets: Some(packets),
            resent: Some(resent),
            header_bytes,
            ..ProtocolStats::default()
        }
    }

    /// Returns the same with this view.
    pub fn seen(self, view: TcpView) -> ProtocolStats {
        ProtocolStats { view: Some(view), ..self }
    }
}
