//! `MSG_ZEROCOPY` (Documentation/networking/msg_zerocopy.rst): the kernel sends from the caller's pages and reports
//! on the socket's error queue when it no longer reads them.
//!
//! Each successful call has a number, from 0 on and modulo 2^32; a completion names a range of them, and whether
//! the kernel has copied the bytes after all, as it does on loopback.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use deadheat_base::cmsg::{self, Room};

use super::channel::{Channel, interrupted};
use super::control::extended_error;
use super::pipe::GUARD_MS;
use super::{call, option};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::measurements::ZeroCopy;

/// Largest number of calls under way.
const MOST_CALLS: usize = 16 * 1024;

/// Number of calls between two reads of the error queue. On loopback 16 calls complete in one notification.
const LOOK_EVERY: u32 = 16;

/// Longest wait for the last completions while none arrives.
const LAST: Nanos = Nanos::from_secs(1);

/// `SO_EE_ORIGIN_ZEROCOPY` of linux/errqueue.h.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;

/// `SO_EE_CODE_ZEROCOPY_COPIED` of linux/errqueue.h.
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Mark of a call that is complete, in [`Completions::sizes`].
const COMPLETE: u32 = 1 << 31;

/// State of the calls under way on one socket.
#[derive(Debug)]
pub(super) struct Completions {
    /// Sizes of calls in bytes; call `n` is at `n % MOST_CALLS`.
    sizes: Box<[u32]>,
    next: u32,
    /// Number of the oldest incomplete call; [`Completions::next`] if all are complete.
    oldest: u32,
    /// Number of bytes from the oldest call on.
    under_way: u64,
    unlooked: u32,
    outcome: ZeroCopy,
}

/// Range of completed calls, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    copied: bool,
}

/// Enables it for a socket, if this kernel supports it for sockets of this kind.
///
/// # Errors
/// The error of setsockopt(2).
pub fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    option::set_int(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
}

impl Completions {
    pub(super) fn new() -> Completions {
        Completions {
            sizes: vec![0; MOST_CALLS].into_boxed_slice(),
            next: 0,
            oldest: 0,
            under_way: 0,
            unlooked: 0,
            outcome: ZeroCopy::default(),
        }
    }

    /// Returns the completions reported so far.
    pub(super) fn outcome(&self) -> ZeroCopy {
        self.outcome
    }

    /// Sends `bytes` while no more than `most` bytes are under way. The caller must not change them before `most`
    /// further bytes have been sent.
    ///
    /// # Errors
    /// The error of send(2); `OutOfMemory` where the kernel may pin no page for this user.
    #[inline]
    pub(super) fn send<C: Channel>(
        &mut self,
        channel: &mut C,
        bytes: &[u8],
        most: u64,
    ) -> io::Result<Option<usize>> {
        self.unlooked += 1;
        if self.unlooked >= LOOK_EVERY {
            self.look(channel)?;
        }
        for _ in 0..2 {
            let room = self.next.wrapping_sub(self.oldest) < MOST_CALLS as u32
                && (self.under_way == 0 || self.under_way + bytes.len() as u64 <= most);
            if room {
                let flags = libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY;
                match channel.push(bytes.len(), |socket| call::send(socket, bytes, flags)) {
                    Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => self.may_wait()?,
                    other => {
                        return other.inspect(|sent| {
                            sent.map(|sent| self.sent(sent));
                        });
                    }
                }
            }
            if !self.await_some(channel)? {
                break;
            }
        }
        Ok(None)
    }

    /// Checks the reason for `ENOBUFS`: more calls under way than fit. If no call is under way, waiting will not
    /// change it.
    fn may_wait(&self) -> io::Result<()> {
        if self.oldest != self.next {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            "the kernel pins no page for a zero-copy call (ENOBUFS); raise net.core.optmem_max or \
             the limit on locked memory (RLIMIT_MEMLOCK), or use io=write",
        ))
    }

    fn sent(&mut self, bytes: usize) {
        // A call is at most 2^31 - 4096 bytes (read(2)), so the mark is free.
        self.sizes[self.next as usize % MOST_CALLS] = bytes as u32;
        self.under_way += bytes as u64;
        self.next = self.next.wrapping_add(1);
    }

    /// Waits for completions at most [`GUARD`](deadheat_contract::contract::GUARD); returns true if any arrived.
    fn await_some<C: Channel>(&mut self, channel: &mut C) -> io::Result<bool> {
        let before = self.outcome.completed;
        self.look(channel)?;
        if self.outcome.completed == before {
            channel.count().send += 1;
            let ready = call::poll(channel.inlet(), 0, GUARD_MS).or_else(interrupted)?;
            if ready {
                self.look(channel)?;
            }
            if ready && self.outcome.completed == before {
                // An error of the connection, not a completion, has ended the wait.
                let error = socket2::SockRef::from(&channel.inlet()).take_error()?;
                error.map_or(Ok(()), Err)?;
            }
        }
        Ok(self.outcome.completed > before)
    }

    /// Reads the completions that are queued.
    fn look<C: Channel>(&mut self, channel: &mut C) -> io::Result<()> {
        self.unlooked = 0;
        while self.oldest != self.next {
            channel.count().send += 1;
            match next_range(channel.inlet()) {
                Ok(Some(range)) => self.complete(range),
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn complete(&mut self, range: Range) {
        let mut call = range.first;
        loop {
            let size = &mut self.sizes[call as usize % MOST_CALLS];
            let under_way = call.wrapping_sub(self.oldest) < self.next.wrapping_sub(self.oldest);
            if under_way && *size & COMPLETE == 0 {
                *size |= COMPLETE;
                self.outcome.completed += 1;
                self.outcome.copied += u64::from(range.copied);
            }
            if call == range.last {
                break;
            }
            call = call.wrapping_add(1);
        }
        while self.oldest != self.next {
            let size = self.sizes[self.oldest as usize % MOST_CALLS];
            if size & COMPLETE == 0 {
                break;
            }
            self.under_way -= u64::from(size & !COMPLETE);
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Waits for the remaining completions, as long as some arrive. A peer that is gone leaves some out;
    /// [`Completions::outcome`] shows that.
    ///
    /// # Errors
    /// The error of recvmsg(2).
    pub(super) fn finish<C: Channel>(&mut self, channel: &mut C) -> io::Result<()> {
        let mut last = Monotonic.now();
        while self.oldest != self.next && Monotonic.now() - last < LAST {
            if self.await_some(channel)? {
                last = Monotonic.now();
            }
        }
        Ok(())
    }
}

/// Reads the next completion on the error queue; `None` for a message about something else.
///
/// # Errors
/// The error of recvmsg(2): `WouldBlock` where there is none.
fn next_range(socket: BorrowedFd<'_>) -> io::Result<Option<Range>> {
    let mut control = Room::<128>::default();
    let mut header = cmsg::header();
    control.offer(&mut header);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `header` points to a control buffer of the length that it gives.
    let got =
        unsafe { libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), &raw mut header, flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled in `control`.
    let error = unsafe { cmsg::messages(&header) }.find_map(|message| extended_error(&message));
    Ok(error.and_then(range))
}

fn range(error: libc::sock_extended_err) -> Option<Range> {
    (error.ee_origin == SO_EE_ORIGIN_ZEROCOPY).then_some(Range {
        first: error.ee_info,
        last: error.ee_data,
        copied: error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under_way(sizes: &[usize]) -> Completions {
        let mut calls = Completions::new();
        sizes.iter().for_each(|size| calls.sent(*size));
        calls
    }

    fn range(first: u32, last: u32, copied: bool) -> Range {
        Range { first, last, copied }
    }

    #[test]
    fn completions_count_once_in_whatever_order_they_come() {
        let mut calls = under_way(&[10, 20, 30, 40]);
        calls.complete(range(1, 2, false));
        assert_eq!((calls.oldest, calls.under_way), (0, 100));
        calls.complete(range(0, 1, true));
        assert_eq!((calls.oldest, calls.under_way), (3, 40));
        assert_eq!(calls.outcome(), ZeroCopy { completed: 3, copied: 1 });
        calls.complete(range(3, 3, true));
        assert_eq!((calls.oldest, calls.under_way), (4, 0));
        calls.complete(range(3, 9, true));
        assert_eq!(calls.outcome(), ZeroCopy { completed: 4, copied: 2 });
    }

    #[test]
    fn numbers_wrap_around() {
        let mut calls = under_way(&[]);
        (calls.next, calls.oldest) = (u32::MAX, u32::MAX);
        [1, 2, 3].into_iter().for_each(|size| calls.sent(size));
        calls.complete(range(u32::MAX, 1, false));
        assert_eq!((calls.oldest, calls.under_way), (2, 0));
        assert_eq!(calls.outcome(), ZeroCopy { completed: 3, copied: 0 });
    }

    #[test]
    fn only_a_range_of_calls_is_one() {
        // SAFETY: the structure is plain numbers, for which all-zero is valid.
        let mut error: libc::sock_extended_err = unsafe { std::mem::zeroed() };
        error.ee_data = 4;
        assert_eq!(super::range(error), None);
        error.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
        assert_eq!(super::range(error), Some(range(0, 4, false)));
        error.ee_code = SO_EE_CODE_ZEROCOPY_COPIED;
        assert_eq!(super::range(error), Some(range(0, 4, true)));
    }
}
