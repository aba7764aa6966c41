//! Seam between an end of a connection and the library behind it: its state machine, and the streams and datagrams of
//! its connection. Only what differs between libraries is behind it; lanes, sessions, qlog and the options in effect are
//! the same for all.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::terms::{Configuration, OwnSizes};
use deadheat_base::spec::Settings;
use deadheat_datapath::datapath::ecn::Codepoint;
use deadheat_datapath::transport::identity::Failure;

/// State machine of a library: one end of one connection, without socket and clock.
pub(crate) trait QuicMachine: Send + Sized {
    /// Connection of the library.
    type Connection: QuicConnection;

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

/// Streams and datagrams of a connection, and its state. Streams have their numbers (RFC 9000, 2.1).
pub(crate) trait QuicConnection {
    /// Opens a stream; `None` if the peer allows no more now.
    fn open(&mut self, ways: StreamWays) -> Option<u64>;

    /// Returns the next stream that the peer opened.
    fn accept(&mut self, ways: StreamWays) -> Option<u64>;

    /// Writes as many of `bytes` as there is room for; returns their number.
    ///
    /// # Errors
    /// The reason why the stream takes no more.
    fn write(&mut self, stream: u64, bytes: &[u8]) -> Result<usize, String>;

    /// Ends this end's direction of a stream; no error if the peer no longer wants the stream.
    fn finish(&mut self, stream: u64);

    /// Reads a stream until `keep` wants no more or nothing is left; returns true if it has ended.
    ///
    /// # Errors
    /// The peer's code, if it reset the stream.
    fn read(&mut self, stream: u64, keep: &mut dyn FnMut(Bytes) -> bool) -> Result<bool, String>;

    /// Wants no more of a stream of the peer's, for the reason `code`.
    fn stop(&mut self, stream: u64, code: u32);

    /// Sends a datagram (RFC 9221); returns false if there is no room for it.
    ///
    /// # Errors
    /// Fails if the connection takes no datagram of this size.
    fn send_datagram(&mut self, datagram: &[u8]) -> io::Result<bool>;

    /// Returns a datagram that arrived.
    fn receive_datagram(&mut self) -> Option<Bytes>;

    /// Returns the number of the peer's acknowledgements that arrived; 0 where they are not counted.
    fn acknowledgements(&mut self) -> u64;

    /// Returns the application protocol that both ends agreed on (RFC 7301).
    fn protocol(&self) -> Option<Vec<u8>>;

    /// Closes the connection with a code of the application.
    fn close(&mut self, now: Instant, code: u32);

    /// Returns true if the first data may leave with the handshake.
    fn is_early(&self) -> bool;

    /// Returns true if the peer took that data.
    fn took_early(&self) -> bool;

    /// Limits the bytes that the library stores until they are acknowledged to `windows` congestion windows of at least
    /// `least` packets, and to `most` bytes.
    fn keep_at_most(&mut self, windows: u64, least: u64, most: u64);
}

/// Directions of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamWays {
    One,
    Both,
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

/// Counters and state of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionLook {
    /// STREAM and DATAGRAM frames that were sent.
    pub(crate) data_frames: u64,
    /// Acknowledgements of the peer that arrived.
    pub(crate) acknowledgements: u64,
    pub(crate) rtt: Duration,
    /// Least round trip; absent where the library does not say it.
    pub(crate) min_rtt: Option<Duration>,
    /// Congestion window in bytes.
    pub(crate) cwnd: u64,
    /// Largest payload of a datagram in bytes.
    pub(crate) packet: u64,
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) lost_bytes: u64,
    /// Times at which congestion was seen; absent where the library does not count them.
    pub(crate) congestion_events: Option<u64>,
    /// Bytes of packets that a program of others has acknowledged; absent where they are not counted.
    pub(crate) bytes_acked: Option<u64>,
}
