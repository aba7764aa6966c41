//! Bytes in both directions over TLS, encrypted by either party.

use std::io;
use std::os::fd::BorrowedFd;

use super::kernel::KernelTls;
use super::process::ProcessTls;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::channel::{Calls, Channel, SystemCalls};
use deadheat_datapath::datapath::stream::CountedSocket;

/// Socket with TLS on it.
pub(crate) enum TlsChannel {
    /// This process encrypts.
    Process(Box<ProcessTls>),
    /// The kernel encrypts.
    Kernel(Box<KernelTls>),
}

/// Does the same with either variant.
macro_rules! either {
    ($channel:expr, $tls:ident => $done:expr) => {
        match $channel {
            TlsChannel::Process($tls) => $done,
            TlsChannel::Kernel($tls) => $done,
        }
    };
}

impl TlsChannel {
    /// Returns the socket, for options.
    pub(super) fn wire(&self) -> &CountedSocket {
        either!(self, tls => tls.wire())
    }

    /// Returns the resumption of the handshake, as a value of the knob.
    pub(super) fn resumed(&self) -> &'static str {
        either!(self, tls => tls.resumed())
    }

    /// Returns the cipher that both ends agreed on, as a value of the knob; `None` before they have.
    pub(super) fn cipher(&self) -> Option<&'static str> {
        either!(self, tls => tls.cipher())
    }

    /// Returns the protocol inside that both ends agreed on (RFC 7301), once they have.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        either!(self, tls => tls.protocol())
    }

    /// Returns true if data may leave before the handshake has ended.
    pub(super) fn is_early(&self) -> bool {
        match self {
            TlsChannel::Process(tls) => tls.is_early(),
            TlsChannel::Kernel(_) => false,
        }
    }

    /// Returns the duration of the handshake.
    pub(super) fn handshake(&self) -> Nanos {
        either!(self, tls => tls.handshake())
    }

    /// Returns the party that encrypts, as a value of the knob.
    pub(super) fn offload(&self) -> &'static str {
        match self {
            TlsChannel::Process(_) => "off",
            TlsChannel::Kernel(tls) => tls.offload(),
        }
    }
}

impl Channel for TlsChannel {
    const IS_PIPE: bool = false;

    #[inline]
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        either!(self, tls => tls.send(bytes, patience))
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>> {
        either!(self, tls => tls.receive(room, patience))
    }

    fn holds_more(&self) -> bool {
        match self {
            TlsChannel::Process(tls) => tls.holds_more(),
            // poll(2) shows decrypted data, too.
            TlsChannel::Kernel(_) => false,
        }
    }

    fn has_backlog(&self) -> bool {
        match self {
            TlsChannel::Process(tls) => tls.has_backlog(),
            TlsChannel::Kernel(_) => false,
        }
    }

    fn flush(&mut self, patience: Patience) -> io::Result<()> {
        match self {
            TlsChannel::Process(tls) => tls.flush(patience),
            TlsChannel::Kernel(_) => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        either!(self, tls => tls.finish())
    }

    fn inlet(&self) -> BorrowedFd<'_> {
        self.wire().inlet()
    }

    fn calls(&self) -> Calls {
        self.wire().calls()
    }
}

impl SystemCalls for TlsChannel {
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

    fn holds(&self) -> usize {
        0
    }

    fn count(&mut self) -> &mut Calls {
        either!(self, tls => tls.wire_mut()).count()
    }
}

/// Returns the error for engines that bypass this process: the kernel cannot move bytes that this process must encrypt.
fn passes_through() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "what is encrypted passes through this process")
}
