//! TLS by this process, over records on a socket.

use std::io::{self, Read, Write};

use rustls::{Connection, HandshakeKind};

use super::invalid;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::channel::Channel;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::identity::cipher_word;
use deadheat_datapath::transport::step::StepBudget;

/// Bytes received at once.
const ROOM: usize = 256 * 1024;

/// Socket with TLS on it.
pub(crate) struct ProcessTls {
    wire: CountedSocket,
    tls: Connection,
    /// Received bytes that TLS has not read.
    received: Box<[u8]>,
    from: usize,
    to: usize,
    /// Decrypted bytes that were not consumed.
    decrypted: usize,
    early: EarlyData,
    /// True if data arrived with the handshake.
    was_early: bool,
    /// True if more of it may be left.
    holds_early: bool,
    /// True if the peer has ended its direction.
    is_over: bool,
    /// True if this direction ends once all bytes are sent.
    ends: bool,
    /// Duration of the handshake.
    handshake: Nanos,
}

/// State of data before the end of the handshake (RFC 8446, 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlyData {
    /// None, or all of it was read.
    No,
    /// It leaves with the handshake, which the far end has not answered.
    Sending,
    /// It arrives with the handshake, or some may be left.
    Receiving,
}

impl ProcessTls {
    /// Completes the handshake, or the part of it that early data needs.
    ///
    /// # Errors
    /// The error of the socket or of TLS; `TimedOut` if the peer takes too long.
    pub(super) fn open(
        wire: CountedSocket,
        tls: Connection,
        mut step: StepBudget,
    ) -> io::Result<ProcessTls> {
        let mut channel = ProcessTls {
            wire,
            tls,
            received: vec![0; ROOM].into(),
            from: 0,
            to: 0,
            decrypted: 0,
            early: EarlyData::No,
            was_early: false,
            holds_early: false,
            is_over: false,
            ends: false,
            handshake: Nanos::ZERO,
        };
        channel.tls.set_buffer_limit(None);
        let began = Monotonic.now();
        if let Connection::Client(near) = &mut channel.tls
            && near.early_data().is_some()
        {
            channel.early = EarlyData::Sending;
            channel.flush(Patience::Block)?;
        }
        while channel.early == EarlyData::No
            && (channel.tls.is_handshaking() || channel.tls.wants_write())
        {
            channel.flush(Patience::Block)?;
            if channel.tls.is_handshaking() {
                match channel.take_in(Patience::Block)? {
                    Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    got => step.take(got.unwrap_or(0)).map_err(endless)?,
                }
            }
            channel.look_for_early_data();
            if Monotonic.now() > step.deadline(began) {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the TLS handshake did not end",
                ));
            }
        }
        // The answers of the far end to early data follow its part of the handshake.
        channel.flush(Patience::Block)?;
        channel.handshake = Monotonic.now() - began;
        Ok(channel)
    }

    /// Notes that the near end's first data arrived with its first message, and is accepted.
    fn look_for_early_data(&mut self) {
        if let Connection::Server(far) = &mut self.tls
            && far.early_data().is_some()
        {
            (self.early, self.was_early, self.holds_early) = (EarlyData::Receiving, true, true);
        }
    }

    /// Returns the socket, for options.
    pub(super) fn wire(&self) -> &CountedSocket {
        &self.wire
    }

    /// Returns the socket, for its counters.
    pub(super) fn wire_mut(&mut self) -> &mut CountedSocket {
        &mut self.wire
    }

    /// Returns the resumption of the handshake, as a value of the knob: `0rtt` if early data was sent and accepted.
    pub(super) fn resumed(&self) -> &'static str {
        let was_early = match &self.tls {
            Connection::Client(near) => near.is_early_data_accepted(),
            Connection::Server(_) => self.was_early,
        };
        match self.tls.handshake_kind() {
            _ if was_early => "0rtt",
            Some(HandshakeKind::Resumed) => "on",
            _ => "off",
        }
    }

    /// Returns the protocol inside that both ends agreed on; `None` before they have.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// Returns true if data may leave before the handshake has ended.
    pub(super) fn is_early(&self) -> bool {
        self.early == EarlyData::Sending
    }

    /// Returns the cipher that both ends agreed on; `None` before they have.
    pub(super) fn cipher(&self) -> Option<&'static str> {
        cipher_word(self.tls.negotiated_cipher_suite()?.suite())
    }

    /// Returns the duration of the handshake, as far as data had to wait for it.
    pub(super) fn handshake(&self) -> Nanos {
        self.handshake
    }

    /// Passes received bytes to TLS, and receives once if none are left. Returns `None` if nothing arrived, 0 at the
    /// end.
    fn take_in(&mut self, patience: Patience) -> io::Result<Option<usize>> {
        if self.from == self.to {
            let Some(got) = self.wire.receive(&mut self.received, patience)? else {
                return Ok(None);
            };
            (self.from, self.to) = (0, got);
            if got == 0 {
                return Ok(Some(0));
            }
        }
        let mut rest = &self.received[self.from..self.to];
        let taken = self.tls.read_tls(&mut rest)?;
        self.from += taken;
        let state = self.tls.process_new_packets().map_err(invalid)?;
        self.decrypted = state.plaintext_bytes_to_read();
        self.is_over |= state.peer_has_closed();
        Ok(Some(taken))
    }

    /// Ends the early data once the far end has answered the handshake.
    fn settle_early(&mut self) -> io::Result<()> {
        if self.early != EarlyData::Sending || self.tls.is_handshaking() {
            return Ok(());
        }
        self.early = EarlyData::No;
        if let Connection::Client(near) = &self.tls
            && !near.is_early_data_accepted()
        {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "TLS: the far end refused early data",
            ));
        }
        // Sends the last message of the handshake, which the far end can answer without.
        self.flush(Patience::None)
    }

    /// Reads data that arrived with the handshake.
    fn take_early(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Connection::Server(far) = &mut self.tls else { return Ok(0) };
        if self.early != EarlyData::Receiving {
            return Ok(0);
        }
        let read = far.early_data().map_or(Ok(0), |mut early| early.read(room))?;
        self.holds_early = read == room.len();
        if read == 0 && !far.is_handshaking() {
            self.early = EarlyData::No;
        }
        Ok(read)
    }

    /// Sends all of `bytes` as soon as no earlier bytes are left.
    pub(super) fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        self.flush(patience)?;
        if self.has_backlog() {
            return Ok(None);
        }
        let taken = match &mut self.tls {
            Connection::Client(near) if self.early == EarlyData::Sending => {
                // `None`: the far end accepts no more early data, and the rest waits for its answer.
                near.early_data().map_or(Ok(0), |mut early| early.write(bytes))?
            }
            tls => tls.writer().write(bytes)?,
        };
        self.flush(patience)?;
        Ok(Some(taken).filter(|taken| *taken > 0 || bytes.is_empty()))
    }

    pub(super) fn receive(
        &mut self,
        room: &mut [u8],
        patience: Patience,
    ) -> io::Result<Option<usize>> {
        let mut has_waited = false;
        loop {
            let early = self.take_early(room)?;
            if early > 0 {
                return Ok(Some(early));
            }
            if self.decrypted > 0 {
                let read = self.tls.reader().read(room)?;
                self.decrypted = self.decrypted.saturating_sub(read);
                return Ok(Some(read));
            }
            if self.is_over {
                return Ok(Some(0));
            }
            let is_first = self.from == self.to;
            if is_first && has_waited {
                return Ok(None);
            }
            has_waited |= is_first;
            match self.take_in(patience)? {
                None => return Ok(None),
                // End of the byte stream, with or without TLS's close alert, as of a killed process.
                Some(0) => return Ok(Some(0)),
                Some(_) => self.settle_early()?,
            }
        }
    }

    /// Returns true if there is more to receive that the socket may not show.
    pub(super) fn holds_more(&self) -> bool {
        self.decrypted > 0 || self.from < self.to || self.holds_early
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.tls.wants_write()
    }

    pub(super) fn flush(&mut self, patience: Patience) -> io::Result<()> {
        while self.tls.wants_write() {
            let mut wire = RecordSink { wire: &mut self.wire, patience };
            match self.tls.write_tls(&mut wire) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        if std::mem::take(&mut self.ends) {
            self.wire.finish()?;
        }
        Ok(())
    }

    /// Sends the close alert (RFC 8446, 6.1), and then ends the socket's direction.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.ends = true;
        self.flush(Patience::Block)
    }
}

/// Returns the error of a handshake that has no end.
pub(super) fn endless(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {why}"))
}

/// Destination of records.
struct RecordSink<'a> {
    wire: &'a mut CountedSocket,
    patience: Patience,
}

impl Write for RecordSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.send(bytes, self.patience)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Writes many records with one call.
    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.wire
            .send_pieces(pieces, self.patience)?
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
