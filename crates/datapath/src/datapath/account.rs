//! Account of the bytes of a process, in memory that it shares with the process that started it. A parent that
//! kills it, or sees it crash, still knows how much it sent. Several processes may share one account: their bytes then
//! add up, and so does the time that these bytes take at the rate that all of them together may have.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use deadheat_base::time::Nanos;

/// Counters in the shared memory.
#[derive(Debug)]
#[repr(C)]
struct Counters {
    /// Bytes sent and received, as packets: payloads with the headers of IP and of the transport.
    bytes: [AtomicU64; 2],
    /// Time at which all bytes so far would have passed at the allowed rate, sent and received, in nanoseconds of the
    /// monotonic clock.
    due: [AtomicU64; 2],
}

/// Account in shared memory (memfd_create(2)). It can neither shrink nor grow (`F_SEAL_SHRINK`), so that no other
/// process can take away the memory that this one reads.
#[derive(Debug)]
pub struct Account {
    file: OwnedFd,
    counters: NonNull<Counters>,
}

// SAFETY: the memory is atomics, mapped for as long as the account lives.
unsafe impl Send for Account {}
// SAFETY: as above.
unsafe impl Sync for Account {}

impl Account {
    /// Creates an account with zero bytes in both directions.
    ///
    /// # Errors
    /// The error of memfd_create(2), ftruncate(2), fcntl(2) or mmap(2).
    pub fn new() -> io::Result<Account> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a NUL-terminated string.
        let fd = unsafe { libc::memfd_create(c"deadheat-account".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: both calls take integers, and a descriptor that is open.
        let done = unsafe {
            libc::ftruncate(fd, size_of::<Counters>() as libc::off_t) == 0
                && libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0
        };
        if !done {
            return Err(io::Error::last_os_error());
        }
        Account::shared(file)
    }

    /// Opens the account that another process made.
    ///
    /// # Errors
    /// The error of mmap(2); `InvalidData` where the file is too short for the counters.
    pub fn shared(file: OwnedFd) -> io::Result<Account> {
        let file = std::fs::File::from(file);
        if file.metadata()?.len() < size_of::<Counters>() as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no account of bytes"));
        }
        // SAFETY: a fresh shared mapping of a file that is long enough, at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Counters>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let counters = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Account { file: file.into(), counters })
    }

    /// Adds bytes sent and received; returns the sums of all processes.
    #[inline]
    pub fn add(&self, more: [u64; 2]) -> [u64; 2] {
        let [sent, received] = &self.counters().bytes;
        let add = |counter: &AtomicU64, more| {
            counter.fetch_add(more, Ordering::Relaxed).saturating_add(more)
        };
        [add(sent, more[0]), add(received, more[1])]
    }

    /// Returns the bytes sent and received so far.
    pub fn read(&self) -> [u64; 2] {
        self.counters().bytes.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Lets no direction be due before `now`: time that passed before the first byte is no credit.
    pub fn begin(&self, now: Nanos) {
        for due in &self.counters().due {
            due.fetch_max(now.0, Ordering::Relaxed);
        }
    }

    /// Adds, for each direction, the time that its bytes take at the allowed rate, from `last` on at the earliest;
    /// returns the times at which all bytes so far would have passed.
    #[inline]
    pub fn charge(&self, last: Nanos, takes: [Nanos; 2]) -> [Nanos; 2] {
        let [sent, received] = &self.counters().due;
        let charge = |due: &AtomicU64, takes: Nanos| {
            let after = |due: u64| due.max(last.0).saturating_add(takes.0);
            let step = |due| Some(after(due));
            match due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
                Ok(before) | Err(before) => Nanos(after(before)),
            }
        };
        [charge(sent, takes[0]), charge(received, takes[1])]
    }

    fn counters(&self) -> &Counters {
        // SAFETY: the mapping is as long as the counters, aligned to a page, and lives as long as `self`; any bits
        // are valid atomics.
        unsafe { self.counters.as_ref() }
    }
}

impl AsFd for Account {
    /// Returns the file, for the other process.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // SAFETY: the mapping is this account's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.counters.as_ptr().cast(), size_of::<Counters>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_see_what_either_adds_and_neither_can_take_the_memory_away() {
        let ours = Account::new().unwrap();
        let theirs = Account::shared(ours.as_fd().try_clone_to_owned().unwrap()).unwrap();
        theirs.add([3, 5]);
        ours.add([1, 0]);
        assert_eq!((ours.read(), theirs.read()), ([4, 5], [4, 5]));
        // SAFETY: the call takes integers, and a descriptor that is open.
        assert_ne!(unsafe { libc::ftruncate(theirs.as_fd().as_raw_fd(), 0) }, 0);
        drop(theirs);
        assert_eq!(ours.read(), [4, 5]);
    }

    #[test]
    fn two_processes_share_one_rate() {
        let ours = Account::new().unwrap();
        let theirs = Account::shared(ours.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let [second, third] = [Nanos::from_secs(1), Nanos::from_secs(3)];
        ours.begin(second);
        assert_eq!(
            ours.charge(Nanos::ZERO, [third, Nanos(1)]),
            [Nanos::from_secs(4), Nanos(1_000_000_001)]
        );
        theirs.begin(Nanos::from_secs(2));
        assert_eq!(
            theirs.charge(third, [second, second]),
            [Nanos::from_secs(5), Nanos::from_secs(4)]
        );
    }

    #[test]
    fn a_file_that_is_too_short_is_no_account() {
        let empty = tempfile::tempfile().unwrap();
        assert_eq!(Account::shared(empty.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
