//! Readiness of several descriptors through one: epoll(7), which has a descriptor of its own to poll.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::datapath::wait::Interest;
use deadheat_contract::contract::{GUARD, Patience};

/// Largest number of descriptors that one wait reports; the next wait reports the others.
const AT_ONCE: usize = 16;

/// Set of descriptors to wait for together. Its own descriptor is readable when any of them is ready.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Creates an empty set.
    ///
    /// # Errors
    /// The error of epoll_create1(2).
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: takes a flag and no memory.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and it has no other owner.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor, to wait until there is something to receive; `mark` identifies it.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn add(&self, fd: BorrowedFd<'_>, mark: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), Interest::Read, mark)
    }

    /// Changes the events to wait for on an added descriptor.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn change(&self, fd: BorrowedFd<'_>, interest: Interest, mark: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), interest, mark)
    }

    /// Removes an added descriptor.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_raw_fd(), Interest::Read, 0)
    }

    fn control(
        &self,
        op: libc::c_int,
        fd: RawFd,
        interest: Interest,
        mark: usize,
    ) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: events as u32, u64: mark as u64 };
        // SAFETY: `event` is valid and outlives the call, which copies it.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits as long as `patience` allows, and hands over the marks of the descriptors that are ready: none if
    /// nothing happened in time, or a signal interrupted the wait.
    ///
    /// # Errors
    /// The error of epoll_wait(2).
    pub fn wait(&self, patience: Patience, mut ready: impl FnMut(usize)) -> io::Result<()> {
        let timeout = match patience {
            Patience::None => 0,
            Patience::Block => (GUARD.0 / 1_000_000) as libc::c_int,
            Patience::UntilNudged => -1,
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        // SAFETY: `events` is a live array with as many events as the call names.
        let found = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                AT_ONCE as libc::c_int,
                timeout,
            )
        };
        let Ok(found) = usize::try_from(found) else {
            return match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
                e => Err(e),
            };
        };
        for event in &events[..found] {
            let mark = event.u64;
            ready(mark as usize);
        }
        Ok(())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::datapath::wait::{Waiter, WakeReason};
    use deadheat_base::time::{Clock, Monotonic, Nanos};
    use deadheat_contract::contract::WaitMode;

    fn ready(epoll: &Epoll, patience: Patience) -> Vec<usize> {
        let mut marks = Vec::new();
        epoll.wait(patience, |mark| marks.push(mark)).unwrap();
        marks.sort_unstable();
        marks
    }

    #[test]
    fn what_is_ready_is_told_by_its_mark_and_shows_on_one_descriptor() {
        let ((a, mut to_a), (b, mut to_b)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let epoll = Epoll::new().unwrap();
        epoll.add(a.as_fd(), 3).unwrap();
        epoll.add(b.as_fd(), 7).unwrap();
        assert!(ready(&epoll, Patience::None).is_empty());
        let waiter = Waiter::new(WaitMode::Hybrid);
        let wait = |span| {
            let until = Monotonic.now() + span;
            waiter.wait(&Monotonic, Some(epoll.as_fd()), Some(until), Interest::Read).unwrap()
        };
        assert_ne!(wait(Nanos::from_millis(2)), WakeReason::Readable);
        to_b.write_all(b"x").unwrap();
        assert_eq!(wait(Nanos::from_secs(60)), WakeReason::Readable);
        assert_eq!(ready(&epoll, Patience::UntilNudged), [7]);
        to_a.write_all(b"x").unwrap();
        assert_eq!(ready(&epoll, Patience::Block), [3, 7]);
        epoll.remove(b.as_fd()).unwrap();
        assert_eq!(ready(&epoll, Patience::Block), [3]);
    }

    #[test]
    fn room_shows_only_where_it_is_waited_for() {
        let (a, _peer) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(a.as_fd(), 0).unwrap();
        assert!(ready(&epoll, Patience::None).is_empty());
        epoll.change(a.as_fd(), Interest::ReadWrite, 0).unwrap();
        assert_eq!(ready(&epoll, Patience::Block), [0]);
    }
}
