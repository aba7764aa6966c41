//! Bytes both ways over TLS records on a socket.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use rustls::{Connection, HandshakeKind};

use crate::contract::Patience;
use crate::datapath::channel::{Calls, Channel, Kind};
use crate::datapath::stream::Counted;
use crate::time::{Clock, Monotonic, Nanos};

/// Bytes that are received at once.
const ROOM: usize = 256 * 1024;

/// Longest time of a handshake.
const HANDSHAKE: Nanos = Nanos::from_secs(10);

/// A socket with TLS on it.
pub(in crate::transport) struct TlsChannel {
    wire: Counted,
    tls: Connection,
    /// Received bytes, from the first that TLS has not had to the last.
    received: Box<[u8]>,
    from: usize,
    to: usize,
    /// Decrypted bytes that were not taken yet.
    decrypted: usize,
    /// True if the peer said that it ends its direction.
    is_over: bool,
    /// True if this direction ends once all is sent.
    ends: bool,
    /// Duration of the handshake.
    handshake: Nanos,
}

impl TlsChannel {
    /// Sees the handshake through.
    ///
    /// # Errors
    /// The error of the socket or of TLS; `TimedOut` if the peer takes too long.
    pub(super) fn open(wire: Counted, tls: Connection) -> io::Result<TlsChannel> {
        let mut channel = TlsChannel {
            wire,
            tls,
            received: vec![0; ROOM].into(),
            from: 0,
            to: 0,
            decrypted: 0,
            is_over: false,
            ends: false,
            handshake: Nanos::ZERO,
        };
        channel.tls.set_buffer_limit(None);
        let began = Monotonic.now();
        while channel.tls.is_handshaking() || channel.tls.wants_write() {
            channel.flush(Patience::Block)?;
            if channel.tls.is_handshaking() && channel.take_in(Patience::Block)? == Some(0) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if Monotonic.now() - began > HANDSHAKE {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the TLS handshake did not end",
                ));
            }
        }
        channel.handshake = Monotonic.now() - began;
        Ok(channel)
    }

    /// Returns the socket, for options.
    pub(super) fn wire(&self) -> &Counted {
        &self.wire
    }

    /// Returns `on` if the handshake resumed a connection before, otherwise `off`: the words of the
    /// knob.
    pub(super) fn resumed(&self) -> &'static str {
        match self.tls.handshake_kind() {
            Some(HandshakeKind::Resumed) => "on",
            _ => "off",
        }
    }

    /// Returns the duration of the handshake.
    pub(super) fn handshake(&self) -> Nanos {
        self.handshake
    }

    /// Hands what was received to TLS, and receives once where nothing is left of that. `None` if nothing came,
    /// 0 at the end.
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
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

/// The kernel cannot move for this process what this process has to encrypt.
fn passes_through() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "what is encrypted passes through this process")
}

impl Channel for TlsChannel {
    const KIND: Kind = Kind::Socket;

    /// Takes all of `bytes` as soon as nothing is left of those before.
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        self.flush(patience)?;
        if self.has_backlog() {
            return Ok(None);
        }
        let taken = self.tls.writer().write(bytes)?;
        self.flush(patience)?;
        Ok(Some(taken))
    }

    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>> {
        let mut has_waited = false;
        loop {
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
                // The end, with TLS's goodbye or without it, as of a process that is gone.
                Some(0) => return Ok(Some(0)),
                Some(_) => {}
            }
        }
    }

    fn discard(&mut self, _most: usize, _patience: Patience) -> io::Result<Option<usize>> {
        Err(passes_through())
    }

    fn push(
        &mut self,
        _len: usize,
        _call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        Err(passes_through())
    }

    fn pull(
        &mut self,
        _patience: Patience,
        _call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        Err(passes_through())
    }

    fn holds_more(&self) -> bool {
        self.decrypted > 0 || self.from < self.to
    }

    fn has_backlog(&self) -> bool {
        self.tls.wants_write()
    }

    fn flush(&mut self, patience: Patience) -> io::Result<()> {
        while self.tls.wants_write() {
            let mut wire = Wire { wire: &mut self.wire, patience };
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

    /// Says goodbye (RFC 8446, 6.1), and ends the socket's direction behind that.
    fn finish(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.ends = true;
        self.flush(Patience::Block)
    }

    fn holds(&self) -> usize {
        0
    }

    fn inlet(&self) -> BorrowedFd<'_> {
        self.wire.inlet()
    }

    fn calls(&self) -> Calls {
        self.wire.calls()
    }

    fn count(&mut self) -> &mut Calls {
        self.wire.count()
    }
}

/// Destination of records.
struct Wire<'a> {
    wire: &'a mut Counted,
    patience: Patience,
}

impl Write for Wire<'_> {
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
