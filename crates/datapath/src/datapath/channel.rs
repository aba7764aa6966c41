//! Byte-stream interface of the engines, so that each is written once for sockets and pipes.

use std::io;
use std::os::fd::BorrowedFd;

use deadheat_contract::contract::Patience;

/// System calls so far, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Calls that sent, including calls that read the data to send, waited for room, or fetched completions.
    pub send: u64,
    /// Calls that received, including calls that waited, and that passed the bytes on.
    pub receive: u64,
}

/// Ordered byte stream of the kernel, in both directions. No call sleeps longer than [`deadheat_contract::contract::GUARD`],
/// save with [`Patience::UntilNudged`].
pub trait Channel: SystemCalls {
    /// True for two pipes, with which splice(2) needs no other: spliced bytes of a socket go through a pipe of its own.
    const IS_PIPE: bool;

    /// Sends from the front of `bytes` with one call. Returns the number of bytes sent, `None` if there was no room
    /// or a signal interrupted the call.
    ///
    /// # Errors
    /// Any other error of the system call. A lost peer is an error, never a signal.
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>>;

    /// Receives into `room` with one call. Returns the number of bytes received, `None` if there were none or a
    /// signal interrupted the call. Zero means that the peer ended its direction.
    ///
    /// # Errors
    /// Any other error of the system call.
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>>;

    /// Returns true if there is more to receive even though [`Channel::inlet`] may not be readable.
    fn holds_more(&self) -> bool {
        false
    }

    /// Returns true if bytes that [`Channel::send`] accepted still wait for room.
    fn has_backlog(&self) -> bool {
        false
    }

    /// Sends these bytes as far as there is room.
    ///
    /// # Errors
    /// As for [`Channel::send`].
    fn flush(&mut self, _patience: Patience) -> io::Result<()> {
        Ok(())
    }

    /// Ends this direction: the peer receives the bytes under way, and then zero bytes.
    ///
    /// # Errors
    /// The error of the system call.
    fn finish(&mut self) -> io::Result<()>;

    /// Returns the descriptor to poll for incoming bytes; for a socket, for outgoing bytes, too.
    fn inlet(&self) -> BorrowedFd<'_>;

    /// Returns the counters.
    fn calls(&self) -> Calls;
}

/// System calls of a channel by its descriptor, for engines that move bytes in other ways.
pub trait SystemCalls: Send {
    /// Discards up to `most` received bytes, without a copy; otherwise as [`Channel::receive`].
    ///
    /// # Errors
    /// `Unsupported` where the kernel does not support this.
    fn discard(&mut self, most: usize, patience: Patience) -> io::Result<Option<usize>>;

    /// Makes a system call that sends `len` bytes by the descriptor that it is given, and waits for room as with
    /// [`Patience::Block`].
    ///
    /// # Errors
    /// As for [`Channel::send`].
    fn push(
        &mut self,
        len: usize,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>>;

    /// Makes a system call that receives by the descriptor that it is given, and waits as `patience` allows.
    ///
    /// # Errors
    /// As for [`Channel::receive`].
    fn pull(
        &mut self,
        patience: Patience,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>>;

    /// Returns the largest number of bytes under way that the kernel may still read from the sender's memory, where
    /// it does not copy.
    fn holds(&self) -> usize;

    /// Returns the counters, for code that makes further calls on behalf of this channel.
    fn count(&mut self) -> &mut Calls;
}

/// Turns an error into `None` if nothing could move or a signal interrupted the call.
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

/// Returns `Ok(false)` if a signal ended the wait, which then found nothing.
pub(super) fn interrupted(error: io::Error) -> io::Result<bool> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}

/// Makes writing to a closed pipe or socket an error that does not end the process: sendfile(2), splice(2),
/// vmsplice(2) and write(2) have no `MSG_NOSIGNAL`. Rust's run time ignores SIGPIPE before `main`; if a program has
/// undone that, this ignores it again. It leaves a handler alone.
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
