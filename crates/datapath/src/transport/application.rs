//! Application protocols of others over an encrypted connection with streams, such as HTTP: state machines without socket
//! and clock, which turn requests of the work into bytes on streams, and bytes on streams into answers.
//!
//! ```text
//! driver      connection            application                         far end
//! send    →   bytes, encryption  ←  ask(request)  → Streams::write   →  a server of others
//! receive ←   bytes, decryption  →  read          ← Streams::read    ←
//! ```

use super::Effective;
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

/// Application protocol of a far end of others, at the end that asks.
///
/// Errors are sentences about the far end, and end the connection.
pub trait Application: Send {
    /// Begins on an open connection, whose ends agreed on `protocol` (RFC 7301); `None` if they agreed on none.
    ///
    /// # Errors
    /// The reason why it cannot run over that protocol.
    fn begin(
        &mut self,
        _protocol: Option<&[u8]>,
        _streams: &mut dyn Streams,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Reads arrived bytes of the streams, and hands over messages of the work, or the bytes of bulk data.
    ///
    /// # Errors
    /// A violation of the protocol, or an answer that is none.
    fn read(
        &mut self,
        streams: &mut dyn Streams,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String>;

    /// Acts on arrivals, without handing anything over.
    ///
    /// # Errors
    /// A violation of the protocol.
    fn attend(&mut self, _streams: &mut dyn Streams) -> Result<(), String> {
        Ok(())
    }

    /// Returns the time at which it acts by itself; `None` for not before another call.
    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    /// Acts after that time.
    ///
    /// # Errors
    /// The step that the far end has not taken in time.
    fn on_deadline(&mut self, _now: Nanos, _streams: &mut dyn Streams) -> Result<(), String> {
        Ok(())
    }

    /// Returns its progress.
    fn state(&self) -> ApplicationState;

    /// Returns its facts: by default none.
    fn facts(&self) -> ApplicationFacts {
        ApplicationFacts::default()
    }

    /// Returns what it takes of the work.
    fn takes(&mut self) -> Takes<'_>;
}

/// Progress of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplicationState {
    /// True if nothing more will arrive.
    pub has_ended: bool,
    /// True if the far end has confirmed all that it was sent, so that the connection may be closed.
    pub is_settled: bool,
}

/// Facts of an application, which are asked for after errors and at the end.
#[derive(Debug, Default)]
pub struct ApplicationFacts {
    /// Step that it waits for, for the error of a connection that is lost: `before its first answer`; `None` where an
    /// error says enough without it.
    pub awaits: Option<String>,
    /// Facts that are known of the far end, as options in effect.
    pub effective: Effective,
}

/// Work that an application takes.
pub enum Takes<'a> {
    /// None: it asks by itself for bulk data.
    Nothing,
    /// Messages, each of which asks for an answer.
    Requests(&'a mut dyn TakesRequests),
    /// Bulk data, which it sends on one stream.
    Bulk(&'a mut dyn TakesBulk),
}

/// Application that takes messages of the work, each of which asks for an answer.
pub trait TakesRequests {
    /// Takes a message; returns false if there is no room for it now.
    ///
    /// # Errors
    /// The reason why no more can be asked on this connection.
    fn ask(&mut self, message: &[u8], streams: &mut dyn Streams) -> Result<bool, String>;
}

/// Application that takes bulk data.
pub trait TakesBulk {
    /// Takes bulk data to send; returns how many of the bytes there was room for.
    ///
    /// # Errors
    /// The reason why the far end takes no more.
    fn give(&mut self, bytes: &[u8], streams: &mut dyn Streams) -> Result<usize, String>;

    /// Ends what this end sends, after all that it has taken.
    fn finish(&mut self, streams: &mut dyn Streams);
}

impl dyn Application + '_ {
    /// Hands it a message of the work, as of [`TakesRequests::ask`].
    ///
    /// # Errors
    /// As of [`TakesRequests::ask`]; if it takes no messages.
    pub fn ask(&mut self, message: &[u8], streams: &mut dyn Streams) -> Result<bool, String> {
        match self.takes() {
            Takes::Requests(asked) => asked.ask(message, streams),
            Takes::Bulk(_) | Takes::Nothing => Err("a flow of bulk data asks nothing".to_owned()),
        }
    }

    /// Hands it bulk data of the work, as of [`TakesBulk::give`].
    ///
    /// # Errors
    /// As of [`TakesBulk::give`]; if it takes no bulk data.
    pub fn give(&mut self, bytes: &[u8], streams: &mut dyn Streams) -> Result<usize, String> {
        match self.takes() {
            Takes::Bulk(given) => given.give(bytes, streams),
            _ => Err("it takes requests, and no bulk data".to_owned()),
        }
    }

    /// Ends what this end sends.
    pub fn finish(&mut self, streams: &mut dyn Streams) {
        if let Takes::Bulk(given) = self.takes() {
            given.finish(streams);
        }
    }
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

    /// Returns a number that grows with each acknowledgement of the peer; 0 where they are not counted.
    fn acknowledged(&mut self) -> u64 {
        0
    }

    /// Wants no more of a stream of the peer's, for the reason `code`.
    fn stop(&mut self, stream: u64, code: u32);
}

/// Terms of a connection to a program of others.
pub struct ApplicationTerms {
    /// Name of the host, which its certificate has to prove.
    pub name: String,
    /// SHA-256 of the public key that its certificate has to have instead, as typed; absent if authorities vouch for it.
    pub pin: Option<String>,
    /// Protocols that this end speaks, the preferred first (RFC 7301).
    pub protocols: &'static [&'static str],
    /// Application protocol.
    pub application: Box<dyn Application>,
}

/// Application on a connection that carries bulk data one way in binary messages, and text messages beside it (WebSocket).
///
/// Errors are sentences about the far end, and end the connection.
pub trait MessageApplication: Send {
    /// Reads a text message of the far end, to which `sent` bytes of data were sent so far.
    ///
    /// # Errors
    /// What cannot be true, or has no place in the protocol.
    fn text(&mut self, message: &str, sent: u64) -> Result<(), String>;

    /// Returns the length of the next message of data, after `sent` bytes.
    fn next_len(&self, sent: u64) -> usize;

    /// Returns the step that it waits for, for errors: `amid the upload`.
    fn awaits(&self) -> String;

    /// Returns the facts that are known of the far end, as options in effect.
    fn effective(&self) -> Effective;
}

/// Terms of a connection with messages to a program of others.
pub struct MessageTerms {
    /// Name of the host, which its certificate has to prove.
    pub name: String,
    /// SHA-256 of the public key that its certificate has to have instead, as typed; absent if authorities vouch for it.
    pub pin: Option<String>,
    /// Host, with its port if one was typed.
    pub authority: String,
    /// Path of the upgrade, with its query.
    pub resource: String,
    /// Protocol of the messages (`Sec-WebSocket-Protocol`).
    pub subprotocol: &'static str,
    /// Largest message that the far end may send, in bytes.
    pub largest: usize,
    /// Way of the data.
    pub way: Direction,
    /// Time after the upgrade at which this end stops what the far end sends.
    pub stops_after: Option<Nanos>,
    /// Application.
    pub application: Box<dyn MessageApplication>,
}
