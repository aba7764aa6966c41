//! Streams and datagrams of a connection of quiche. quiche names a stream by its number and creates it with its first
//! use, so numbers are assigned here.

use std::io;
use std::time::Instant;

use bytes::buf::BufMut;
use bytes::{Bytes, BytesMut};
use quiche::{Connection, ConnectionError, Error, Shutdown};

use crate::quic::connection::{QuicConnection, QuicData, StreamWays};
use crate::quic::end::PIECE;
use crate::quic::machine::MachineEvent;
use deadheat_datapath::transport::identity;

/// Urgency of every stream: quiche's default, with which streams take turns.
const URGENCY: u8 = 127;

/// First code of the errors of TLS (RFC 9001, 4.8), to which the number of an alert is added.
const ALERTS: u64 = 0x100;

/// Alert of a certificate that is not accepted (RFC 8446, 6.2).
const CERTIFICATE_UNKNOWN: u64 = ALERTS + 46;

/// Connection, with the streams in use.
pub(super) struct QuicheConnection {
    pub(super) library: Connection,
    /// Streams of each kind that this end opened, that the peer has begun, and that were accepted of these.
    opened: [u64; 2],
    begun: [u64; 2],
    accepted: [u64; 2],
    /// Stream that the peer begins with these bytes, after the event that says so.
    readable: Option<u64>,
    arrived: BytesMut,
}

/// Returns the number of a stream (RFC 9000, 2.1).
fn number(nth: u64, ways: StreamWays, is_server: bool) -> u64 {
    nth << 2 | u64::from(ways == StreamWays::One) << 1 | u64::from(is_server)
}

impl QuicheConnection {
    pub(super) fn new(library: Connection) -> QuicheConnection {
        QuicheConnection {
            library,
            opened: [0; 2],
            begun: [0; 2],
            accepted: [0; 2],
            readable: None,
            arrived: BytesMut::new(),
        }
    }

    /// Returns the next stream that has bytes, in front of it that it is new if it is.
    pub(super) fn event(&mut self) -> Option<MachineEvent> {
        if let Some(stream) = self.readable.take() {
            return Some(MachineEvent::Readable(stream));
        }
        let stream = self.library.stream_readable_next()?;
        let ways = if stream & 2 == 0 { StreamWays::Both } else { StreamWays::One };
        let is_peers = (stream & 1 == 1) != self.library.is_server();
        let begun = &mut self.begun[ways as usize];
        if is_peers && stream >> 2 >= *begun {
            // All streams below it are open, too (RFC 9000, 2.1).
            *begun = (stream >> 2) + 1;
            self.readable = Some(stream);
            return Some(MachineEvent::Opened(ways));
        }
        Some(MachineEvent::Readable(stream))
    }

    /// Returns the reason why the connection has ended; `None` if it has not.
    pub(super) fn end(&self) -> Option<String> {
        let library = &self.library;
        if let Some(error) = library.local_error() {
            return Some(match error.error_code {
                CERTIFICATE_UNKNOWN if !error.is_app => identity::OTHER_CERTIFICATE.to_owned(),
                _ => format!("this end closed it {}", said(error)),
            });
        }
        if let Some(error) = library.peer_error() {
            return Some(format!("the peer closed it {}", said(error)));
        }
        let is_over = library.is_closed() || library.is_draining();
        is_over.then(|| "it ended without a reason".to_owned())
    }
}

/// Describes the reason of a closed connection.
fn said(error: &ConnectionError) -> String {
    let reason = String::from_utf8_lossy(&error.reason);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match error.error_code {
        code if error.is_app => format!("with code {code:#x}{reason}"),
        code @ ALERTS..=0x1ff => format!("with alert {} of TLS{reason}", code - ALERTS),
        code => format!("with error {code:#x} of QUIC{reason}"),
    }
}

impl QuicData for QuicheConnection {
    fn open(&mut self, ways: StreamWays) -> Option<u64> {
        let opened = &mut self.opened[ways as usize];
        let stream = number(*opened, ways, self.library.is_server());
        // This creates the stream, or fails if the peer allows no more.
        self.library.stream_priority(stream, URGENCY, true).ok()?;
        *opened += 1;
        Some(stream)
    }

    fn accept(&mut self, ways: StreamWays) -> Option<u64> {
        let accepted = &mut self.accepted[ways as usize];
        if *accepted == self.begun[ways as usize] {
            return None;
        }
        *accepted += 1;
        Some(number(*accepted - 1, ways, !self.library.is_server()))
    }

    #[inline]
    fn write(&mut self, stream: u64, bytes: &[u8]) -> Result<usize, String> {
        match self.library.stream_send(stream, bytes, false) {
            Ok(taken) => Ok(taken),
            Err(Error::Done) => Ok(0),
            Err(Error::StreamStopped(code)) => {
                Err(format!("it stopped a request with the code {code:#x}"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn finish(&mut self, stream: u64) {
        // It fails only for a stream that the peer no longer wants.
        let _ = self.library.stream_send(stream, &[], true);
    }

    fn read(&mut self, stream: u64, keep: &mut dyn FnMut(Bytes) -> bool) -> Result<bool, String> {
        loop {
            self.arrived.reserve(PIECE);
            match self.library.stream_recv_buf(stream, (&mut self.arrived).limit(PIECE)) {
                Ok((len, has_ended)) => {
                    let wants_more = len == 0 || keep(self.arrived.split().freeze());
                    // The library says so once only.
                    if has_ended || !wants_more {
                        return Ok(has_ended);
                    }
                }
                // A stream that overtook this one opened it.
                Err(Error::Done | Error::InvalidStreamState(_)) => return Ok(false),
                Err(Error::StreamReset(code)) => {
                    return Err(format!("the peer reset its stream with code {code}"));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn stop(&mut self, stream: u64, code: u32) {
        let _ = self.library.stream_shutdown(stream, Shutdown::Read, code.into());
    }

    fn send_datagram(&mut self, datagram: &[u8]) -> io::Result<bool> {
        match self.library.dgram_send(datagram) {
            Ok(()) => Ok(true),
            Err(Error::Done) => Ok(false),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        self.library.dgram_recv_buf().ok().map(Bytes::from)
    }
}

impl QuicConnection for QuicheConnection {
    fn acknowledgements(&mut self) -> u64 {
        0
    }

    fn protocol(&self) -> Option<Vec<u8>> {
        let protocol = self.library.application_proto();
        (!protocol.is_empty()).then(|| protocol.to_vec())
    }

    fn close(&mut self, _: Instant, code: u32) {
        // It fails only if the connection is closed already.
        let _ = self.library.close(true, code.into(), &[]);
    }

    fn is_early(&self) -> bool {
        false
    }

    fn took_early(&self) -> bool {
        false
    }

    /// quiche accepts what its congestion window has room for, and so stores less by itself.
    fn keep_at_most(&mut self, _: u64, _: u64, _: u64) {}
}
