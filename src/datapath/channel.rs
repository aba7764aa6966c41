//! What engines ask of a byte stream, so that each is written once for sockets and pipes.

use std::io;
use std::os::fd::BorrowedFd;

use crate::contract::Patience;

/// What a channel is for splice(2), one side of which must be a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A socket: what is spliced goes through a pipe of its own.
    Socket,
    /// Two pipes: what is spliced goes straight into one, or out of the other.
    Pipe,
}

/// System calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Those that sent, with what they took to fetch what to send, to wait for room, and to hear
    /// that it went.
    pub send: u64,
    /// Those that received, with what they took to wait, and to pass it on.
    pub receive: u64,
}

/// Bytes both ways, in order, as the kernel has them. No call sleeps longer than
/// [`crate::contract::GUARD`], save with [`Patience::UntilNudged`].
pub trait Channel: Send {
    /// What it is for splice(2).
    const KIND: Kind;

    /// Sends from the front of `bytes` with one call: how many went, `None` where there was no room
    /// or a signal came first.
    ///
    /// # Errors
    /// What the system call says otherwise. A peer that is gone is an error, never a signal.
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>>;

    /// Receives into `room` with one call: how many bytes came, `None` where there were none or a
    /// signal came first. Zero means that the peer ended its direction.
    ///
    /// # Errors
    /// What the system call says otherwise.
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>>;

    /// Takes up to `most` bytes and forgets them, without a copy; otherwise as
    /// [`Channel::receive`].
    ///
    /// # Errors
    /// `Unsupported` where the kernel does not have this.
    fn discard(&mut self, most: usize, patience: Patience) -> io::Result<Option<usize>>;

    /// Makes a system call that sends `len` bytes by the descriptor it is given, and waits for room
    /// as with [`Patience::Block`].
    ///
    /// # Errors
    /// As [`Channel::send`].
    fn push(
        &mut self,
        len: usize,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>>;

    /// Makes a system call that receives by the descriptor it is given, and waits as asked.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    fn pull(
        &mut self,
        patience: Patience,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>>;

    /// Whether there is more to receive though [`Channel::inlet`] may not show it.
    fn holds_more(&self) -> bool {
        false
    }

    /// Whether bytes that [`Channel::send`] took still wait for room.
    fn has_backlog(&self) -> bool {
        false
    }

    /// Sends such bytes as far as there is room.
    ///
    /// # Errors
    /// As [`Channel::send`].
    fn flush(&mut self, _patience: Patience) -> io::Result<()> {
        Ok(())
    }

    /// Ends this direction: the peer receives what is under way, and then zero bytes.
    ///
    /// # Errors
    /// What the system call says.
    fn finish(&mut self) -> io::Result<()>;

    /// How many bytes may be under way that are still the sender's memory where it was not copied.
    fn holds(&self) -> usize;

    /// Where bytes come in, to poll; for a socket, where they go out, too.
    fn inlet(&self) -> BorrowedFd<'_>;

    /// The counters.
    fn calls(&self) -> Calls;

    /// The counters, for whoever makes further calls because of this channel.
    fn count(&mut self) -> &mut Calls;
}

/// A result of nothing, where nothing could move or a signal came first.
#[inline]
pub(super) fn done(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(moved) => Ok(Some(moved)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// A wait that a signal ended found nothing.
pub(super) fn interrupted(error: io::Error) -> io::Result<bool> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}

/// Sees to it that writing to an ended pipe or socket is an error and not the end of the process:
/// sendfile(2), splice(2), vmsplice(2) and write(2) know no `MSG_NOSIGNAL`. Rust's run time ignores
/// SIGPIPE before `main`; where somebody has undone that, it is done again. A handler is left alone.
pub(super) fn no_sigpipe() {
    // SAFETY: all-zero is a valid sigaction: the default disposition, an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are null or to a live sigaction; no handler is set.
    unsafe {
        let asked = libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action);
        if asked == 0 && action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut());
        }
    }
}
