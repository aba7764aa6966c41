//! Seam between an end of a connection and the library behind it: its state machine. Only what differs between libraries is behind it; lanes, sessions, qlog and the options in effect are
//! the same for all.

use std::time::Instant;

use super::connection::{ConnectionLook, QuicConnection, StreamWays};
use super::terms::{Configuration, OwnSizes};
use deadheat_base::ecn::Codepoint;
use deadheat_base::spec::Settings;
use deadheat_datapath::transport::identity::Failure;

/// Library of the protocol, which creates state machines.
pub(crate) trait QuicLibrary: QuicMachine + Sized {
    /// Defaults of the library.
    const OWN: OwnSizes;

    /// Returns the congestion control that the knobs of a contender request.
    fn control(knobs: &Settings) -> &'static str;

    /// Creates an end.
    ///
    /// # Errors
    /// The library's reason, or a certificate that cannot be read.
    fn new(configuration: &Configuration<'_>) -> Result<Self, Failure>;

    /// Begins the handshake with the peer of this name, at the near end.
    ///
    /// # Errors
    /// The library's reason.
    fn connect(&mut self, now: Instant, name: &str) -> Result<(), String>;
}

/// State machine of a library: one end of one connection, without socket and clock.
pub(crate) trait QuicMachine: Send {
    /// Connection of the library.
    type Connection: QuicConnection;

    /// Takes a datagram, with the codepoint that it had where ECN is in use.
    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: Codepoint) -> Arrival;

    /// Returns a datagram of this end outside of its connection.
    fn answer(&mut self) -> Option<Vec<u8>>;

    /// Writes datagrams of the connection behind the bytes in `batch`, at most `most` of them.
    fn transmit(&mut self, now: Instant, most: usize, batch: &mut Vec<u8>) -> Option<Outgoing>;

    /// Returns the next event of the connection that ends handle; `None` if there is none.
    fn poll(&mut self) -> Option<MachineEvent>;

    /// Returns the time at which [`QuicMachine::on_timeout`] is due.
    fn deadline(&mut self) -> Option<Instant>;

    /// Handles the deadline, which has passed.
    fn on_timeout(&mut self, now: Instant);

    /// Returns the connection, once there is one.
    fn connection(&mut self) -> Option<&mut Self::Connection>;

    /// Returns the counters and the state of the connection, once there is one.
    fn look(&self) -> Option<ConnectionLook>;
}

/// Result of a datagram that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the connection's, or invalid.
    Taken,
    /// The far end has its connection.
    Connected,
    /// The far end cannot have a connection, for this reason.
    Refused(String),
}

/// Datagrams that leave, all of `segment` bytes but the last.
pub(crate) struct Outgoing {
    pub(crate) segment: usize,
    pub(crate) ecn: Codepoint,
}

/// Event of a connection.
pub(crate) enum MachineEvent {
    Connected,
    Lost(String),
    /// The peer opened a stream with these directions.
    Opened(StreamWays),
    Readable(u64),
}
