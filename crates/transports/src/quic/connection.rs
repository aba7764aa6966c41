//! Connection of QUIC, whatever library has it: its streams and datagrams, and a look at its state.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// State of a connection, and its limits.
pub(crate) trait QuicConnection: QuicData {
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

/// Streams and datagrams of a connection. Streams have their numbers (RFC 9000, 2.1).
pub(crate) trait QuicData {
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
}

/// Directions of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamWays {
    One,
    Both,
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
    /// Window below which it is in slow start, in bytes; absent where the congestion control has or says none.
    pub(crate) threshold: Option<u64>,
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
