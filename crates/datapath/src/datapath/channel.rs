//! Byte-stream interface of the engines, so that each is written once for sockets and pipes.

use std::io;
use std::os::fd::BorrowedFd;

use crate::contract::Patience;

/// Kind of a channel for splice(2), one side of which must be a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Socket: spliced bytes go through a pipe of its own.
    Socket,
    /// Two pipes: spliced bytes go straight into one, or out of the other.
    Pipe,
}

/// Number of system calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Calls that sent, with those that fetched what to send, waited for room, and learned of completion.
    pub send: u64,
    /// Calls that received, with those that waited, and passed the bytes on.
    pub receive: u64,
}

/// Ordered byte stream in both directions, as the kernel has it. No call sleeps longer than
/// [`crate::contract::GUARD`], save with [`Patience::UntilNudged`].
pub trait Channel: Send {
    /// Kind for splice(2).
    const KIND: Kind;

    /// Sends from the front of `bytes` with one call. Returns the number of bytes sent, `None` where there was no
    /// room or a signal came first.
    ///
    /// # Errors
    /// Any other error of the system call. A peer that is gone is an error, never a signal.
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>>;

    /// Receives into `room` with one call. Returns the number of bytes received, `None` where there were none or a
    /// signal came first. Zero means that the peer ended its direction.
    ///
    /// # Errors
    /// Any other error of the system call.
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>>;

    /// Discards up to `most` received bytes, without a copy; otherwise as [`Channel::receive`].
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

    /// Returns true if there is more to receive though [`Channel::inlet`] may not show it.
    fn holds_more(&self) -> bool {
        false
    }

    /// Returns true if bytes that [`Channel::send`] took still wait for room.
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
    /// The error of the system call.
    fn finish(&mut self) -> io::Result<()>;

    /// Returns the number of bytes that may be under way and are still the sender's memory where it was not copied.
    fn holds(&self) -> usize;

    /// Returns the descriptor to poll for incoming bytes; for a socket, for outgoing bytes, too.
    fn inlet(&self) -> BorrowedFd<'_>;

    /// Returns the counters.
    fn calls(&self) -> Calls;

    /// Returns the counters, for whoever makes further calls because of this channel.
    fn count(&mut self) -> &mut Calls;
}

/// Turns an error into `None` where nothing could move or a signal came first.
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

/// Returns `Ok(false)` for a wait that a signal ended: it found nothing.
pub(super) fn interrupted(error: io::Error) -> io::Result<bool> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}

/// Makes writing to an ended pipe or socket an error and not the end of the process: sendfile(2), splice(2),
/// vmsplice(2) and write(2) know no `MSG_NOSIGNAL`. Rust's run time ignores SIGPIPE before `main`; where somebody has
/// undone that, it is done again. A handler is left alone.
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
