//! Connection to a program of others: an application protocol on the streams of QUIC, such as HTTP/3.

use std::cell::RefCell;
use std::io;
use std::time::Instant;

use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Connection, Dir, StreamId, VarInt, WriteError};

use super::lanes::read_chunks;
use super::layer::Layer;
use super::{STREAM, end_of};
use crate::contract::{Framing, Guarantees, Lane};
use crate::error::{Error, Result};
use crate::transport::application::{Application, ApplicationTerms, Streams};
use crate::transport::identity::{NO_EARLY_DATA, Resume, Tickets, TrustedName, UNTRUSTED};
use crate::transport::userspace::{Opening, Protocol, dial_others};
use crate::transport::{Conn, Dial, Effective, Info};

/// Facts of a connection whose messages the application protocol makes and takes.
static INFO: Info = Info {
    guarantees: Guarantees { framing: Framing::Messages, ..STREAM.guarantees },
    framing_bytes: 0,
    ..STREAM
};

/// Code of a connection that this end closes: H3_NO_ERROR (RFC 9114, 8.1).
const CLOSED: VarInt = VarInt::from_u32(0x100);

/// Opens a connection to a program of others.
///
/// # Errors
/// [`Error::Blocked`] if nothing answers there; [`Error::Peer`] if the far end refuses, or cannot prove its name.
pub(super) fn dial(dial: &Dial<'_>, terms: ApplicationTerms) -> Result<Box<dyn Conn>> {
    let ApplicationTerms { name, protocols, application } = terms;
    let trusted = TrustedName::new(&name, protocols)?;
    let spoken = protocols.join(", ");
    let application = RefCell::new(Some(application));
    let make = |opening: &Opening<'_>| -> Result<Box<dyn Protocol>> {
        let own = end_of(INFO.id, &Layer::NONE, opening, Some(&trusted))?;
        let Some(application) = application.borrow_mut().take() else { return Ok(Box::new(own)) };
        let tickets = opening.tickets.clone();
        Ok(Box::new(own.asking(Asking { name: name.clone(), application, tickets })))
    };
    dial_others(&INFO, dial, &make).map_err(|error| match error {
        Error::Blocked { .. } => Error::blocked(format!(
            "sent the first packets of a QUIC connection ({spoken}) to UDP {} for {}; no handshake came about: either nothing \
             answers QUIC there, or the way drops UDP",
            dial.to, dial.timeout
        )),
        Error::Peer { who, what } if what.contains("certificate") => {
            Error::peer(who, format!("{what}; {UNTRUSTED}"))
        }
        error => error,
    })
}

/// Application protocol on a connection.
pub(super) struct Asking {
    /// Name of the far end.
    pub(super) name: String,
    application: Box<dyn Application>,
    tickets: Tickets,
}

impl Asking {
    /// Begins on a connection that takes data.
    pub(super) fn begin(&mut self, connection: &mut Connection) -> std::result::Result<(), String> {
        let data = connection.crypto_session().handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        // Early data is of the protocol of the connection before.
        let protocol =
            data.and_then(|data| data.protocol).or_else(|| self.tickets.noted_protocol());
        self.tickets.note_protocol(protocol.as_deref());
        self.application.begin(protocol.as_deref(), &mut QuicStreams(connection))
    }

    /// Takes a message of the work; returns its length, or 0 if there is no room for it.
    pub(super) fn ask(&mut self, connection: &mut Connection, message: &[u8]) -> io::Result<usize> {
        let taken = self.application.ask(message, &mut QuicStreams(connection));
        let taken = taken.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        Ok(if taken { message.len() } else { 0 })
    }

    /// Hands over the messages, or the bytes, that the application makes of arrived bytes.
    pub(super) fn read(
        &mut self,
        connection: &mut Connection,
        take: &mut dyn FnMut(Lane, &[u8]) -> usize,
    ) -> std::result::Result<(), String> {
        self.application.read(&mut QuicStreams(connection), &mut |message| {
            take(Lane(0), message);
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.application.has_ended()
    }

    pub(super) fn effective(&self) -> Effective {
        self.application.effective()
    }

    /// Returns the resumption in effect of a connection with or without an application. A far end of others need not allow
    /// early data.
    pub(super) fn resumed(asking: Option<&Asking>, asked: Resume, is_early: bool) -> &'static str {
        match (asked, asking) {
            (Resume::Early, Some(_)) if !is_early => NO_EARLY_DATA,
            _ => asked.word(),
        }
    }

    /// Closes the connection, so that the far end need not wait for its idle timeout.
    pub(super) fn close(connection: &mut Connection, now: Instant) {
        connection.close(now, CLOSED, bytes::Bytes::new());
    }
}

/// Streams of a connection.
struct QuicStreams<'a>(&'a mut Connection);

/// Returns the stream with this number.
fn stream(number: u64) -> StreamId {
    VarInt::from_u64(number).map_or(StreamId::from(VarInt::MAX), StreamId::from)
}

impl Streams for QuicStreams<'_> {
    fn open(&mut self) -> Option<u64> {
        self.0.streams().open(Dir::Bi).map(u64::from)
    }

    fn open_one_way(&mut self) -> Option<u64> {
        self.0.streams().open(Dir::Uni).map(u64::from)
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        self.0.streams().accept(Dir::Uni).map(u64::from)
    }

    fn write(&mut self, number: u64, bytes: &[u8]) -> std::result::Result<usize, String> {
        match self.0.send_stream(stream(number)).write(bytes) {
            Ok(taken) => Ok(taken),
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(code)) => {
                Err(format!("it stopped a request with the code {:#x}", code.into_inner()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn finish(&mut self, number: u64) {
        // It fails only for a stream that the peer no longer wants.
        let _ = self.0.send_stream(stream(number)).finish();
    }

    fn read(
        &mut self,
        number: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<bool, String> {
        read_chunks(self.0, stream(number), &mut |chunk| {
            take(&chunk);
            true
        })
    }

    fn stop(&mut self, number: u64, code: u32) {
        let _ = self.0.recv_stream(stream(number)).stop(VarInt::from_u32(code));
    }
}
