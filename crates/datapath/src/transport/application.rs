//! Application protocols of others over an encrypted connection with streams, such as HTTP: state machines without socket
//! and clock, which turn requests of the work into bytes on streams, and bytes on streams into answers.
//!
//! ```text
//! driver      connection            application                         far end
//! send    →   bytes, encryption  ←  ask(request)  → Streams::write   →  a server of others
//! receive ←   bytes, decryption  →  read          ← Streams::read    ←
//! ```

use super::Effective;

/// Application protocol of a far end of others, at the end that asks.
///
/// Errors are sentences about the far end, and end the connection.
pub trait Application: Send {
    /// Begins on an open connection, whose ends agreed on `protocol` (RFC 7301); `None` if they agreed on none.
    ///
    /// # Errors
    /// The reason why it cannot run over that protocol.
    fn begin(&mut self, protocol: Option<&[u8]>, streams: &mut dyn Streams) -> Result<(), String>;

    /// Takes a message of the work, which asks for an answer; returns false if there is no room for it now.
    ///
    /// # Errors
    /// The reason why no more can be asked on this connection.
    fn ask(&mut self, message: &[u8], streams: &mut dyn Streams) -> Result<bool, String>;

    /// Reads arrived bytes of the streams, and hands over messages of the work, or the bytes of bulk data.
    ///
    /// # Errors
    /// A violation of the protocol, or an answer that is none.
    fn read(
        &mut self,
        streams: &mut dyn Streams,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String>;

    /// Returns true if nothing more will arrive.
    fn has_ended(&self) -> bool;

    /// Returns the facts that are known of the far end, as options in effect.
    fn effective(&self) -> Effective;
}

/// Streams of a connection, by their numbers. A byte stream is a connection with the one stream 0, which is open already.
pub trait Streams {
    /// Opens a stream in both directions; `None` if the peer allows no more now.
    fn open(&mut self) -> Option<u64>;

    /// Opens a stream in this end's direction; `None` if the peer allows no more now.
    fn open_one_way(&mut self) -> Option<u64>;

    /// Returns the next stream that the peer opened in its direction.
    fn accept_one_way(&mut self) -> Option<u64>;

    /// Writes as many of `bytes` as there is room for; returns their number.
    ///
    /// # Errors
    /// The reason why the stream takes no more, such as that the peer stopped it.
    fn write(&mut self, stream: u64, bytes: &[u8]) -> Result<usize, String>;

    /// Ends this end's direction of a stream.
    fn finish(&mut self, stream: u64);

    /// Hands over all bytes that arrived on a stream; returns true at the end of the stream.
    ///
    /// # Errors
    /// The reason why nothing more arrives, such as that the peer reset the stream.
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String>;

    /// Wants no more of a stream of the peer's, for the reason `code`.
    fn stop(&mut self, stream: u64, code: u32);
}

/// Terms of a connection to a program of others.
pub struct ApplicationTerms {
    /// Name of the host, which its certificate has to prove.
    pub name: String,
    /// Protocols that this end speaks, the preferred first (RFC 7301).
    pub protocols: &'static [&'static str],
    /// Application protocol.
    pub application: Box<dyn Application>,
}
