//! Pipes (pipe(7)): as a channel of their own, and as the buffer inside splice(2).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{fs, io};

use super::call;
use super::channel::{Calls, Channel, SystemCalls, done, interrupted, no_sigpipe};
use deadheat_contract::contract::{GUARD, Patience};

/// Timeout of [`GUARD`] as poll(2) takes it.
pub(super) const GUARD_MS: libc::c_int = (GUARD.0 / 1_000_000) as libc::c_int;

/// Default size of a pipe, for a kernel that reports no limit.
const DEFAULT_SIZE: usize = 64 * 1024;

/// Both ends of one pipe, in blocking mode.
#[derive(Debug)]
pub struct Pipe {
    /// Descriptor to read from.
    pub reader: OwnedFd,
    /// Descriptor to write to.
    pub writer: OwnedFd,
}

impl Pipe {
    /// Opens a pipe of the default size.
    ///
    /// # Errors
    /// The error of pipe2(2).
    pub fn open() -> io::Result<Pipe> {
        let mut fds = [0; 2];
        // SAFETY: `fds` has room for the two descriptors that pipe2 writes.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both descriptors are fresh and have no other owner.
        let [reader, writer] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Pipe { reader, writer })
    }

    /// Opens a pipe of the largest size that this process may have: `fs.pipe-max-size`, or less where the user has
    /// too many pages in pipes already (pipe(7)).
    ///
    /// # Errors
    /// The error of pipe2(2).
    pub fn largest() -> io::Result<Pipe> {
        let pipe = Pipe::open()?;
        let limit = fs::read_to_string("/proc/sys/fs/pipe-max-size");
        let mut size = limit.ok().and_then(|size| size.trim().parse().ok()).unwrap_or(DEFAULT_SIZE);
        while size > DEFAULT_SIZE && set_capacity(pipe.writer.as_fd(), size).is_err() {
            size /= 2;
        }
        Ok(pipe)
    }
}

/// Sets the capacity of a pipe in bytes; the kernel rounds up to a power of two pages.
///
/// # Errors
/// The error of fcntl(2): `EPERM` above `fs.pipe-max-size` without `CAP_SYS_RESOURCE`, `EBUSY` where it holds more.
pub fn set_capacity(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: F_SETPIPE_SZ takes an integer.
    let done = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the capacity of a pipe in bytes.
///
/// # Errors
/// The error of fcntl(2).
pub fn capacity(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: F_GETPIPE_SZ takes no argument.
    let size = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) };
    usize::try_from(size).map_err(|_| io::Error::last_os_error())
}

/// Channel of two pipes, one for each direction.
///
/// Pipes have no timeout, so a call that may wait for [`GUARD`] is tried first and, if nothing can move, made again
/// after poll(2). Where every call sleeps, that is more calls than with blocking calls that may wait without a
/// limit. The reader is in blocking mode, so that [`Patience::UntilNudged`] is one call; the writer is not.
#[derive(Debug)]
pub struct Pipes {
    reader: OwnedFd,
    writer: Option<OwnedFd>,
    capacity: usize,
    /// True once a sending call filled the outgoing pipe, so that the next one need not try.
    is_full: bool,
    calls: Calls,
}

impl Pipes {
    /// Takes over one end of each of two pipes.
    ///
    /// # Errors
    /// The error of fcntl(2).
    pub fn new(reader: OwnedFd, writer: OwnedFd) -> io::Result<Pipes> {
        no_sigpipe();
        let set = |fd: &OwnedFd, flags: libc::c_int| {
            // SAFETY: F_SETFL takes an integer.
            let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) };
            if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        set(&reader, 0)?;
        set(&writer, libc::O_NONBLOCK)?;
        let capacity = capacity(writer.as_fd())?;
        Ok(Pipes {
            reader,
            writer: Some(writer),
            capacity,
            is_full: false,
            calls: Calls::default(),
        })
    }

    /// Returns the capacity in bytes of the outgoing direction, also after this end has ended it.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Reads without waiting. Where the kernel has no call for that, it polls first: nothing else reads this pipe,
    /// so the bytes that poll(2) found are still there.
    #[inline]
    fn read_now(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        self.calls.receive += 1;
        match call::read_now(self.reader.as_fd(), room) {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            other => return done(other),
        }
        self.calls.receive += 1;
        if !call::poll(self.reader.as_fd(), libc::POLLIN, 0).or_else(interrupted)? {
            return Ok(None);
        }
        self.calls.receive += 1;
        done(call::read(self.reader.as_fd(), room))
    }
}

/// Returns the error of writing to a direction that this end has ended.
fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "this end has ended its direction already")
}

impl Channel for Pipes {
    const IS_PIPE: bool = true;

    #[inline]
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        if patience != Patience::None {
            return self.push(bytes.len(), |pipe| call::write(pipe, bytes));
        }
        self.calls.send += 1;
        let writer = self.writer.as_ref().ok_or_else(ended)?;
        done(call::write(writer.as_fd(), bytes))
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>> {
        match patience {
            Patience::None => self.read_now(room),
            Patience::UntilNudged => {
                self.calls.receive += 1;
                done(call::read(self.reader.as_fd(), room))
            }
            Patience::Block => match self.read_now(room)? {
                None => {
                    self.calls.receive += 1;
                    call::poll(self.reader.as_fd(), libc::POLLIN, GUARD_MS)
                        .or_else(interrupted)?
                        .then(|| self.read_now(room))
                        .map_or(Ok(None), |read| read)
                }
                some => Ok(some),
            },
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer = None;
        Ok(())
    }

    fn inlet(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    fn calls(&self) -> Calls {
        self.calls
    }
}

impl SystemCalls for Pipes {
    fn discard(&mut self, _most: usize, _patience: Patience) -> io::Result<Option<usize>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a pipe cannot drop what it holds; splice it to /dev/null",
        ))
    }

    #[inline]
    fn push(
        &mut self,
        len: usize,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        let writer = self.writer.as_ref().ok_or_else(ended)?.as_fd();
        let mut moved = None;
        if !self.is_full {
            self.calls.send += 1;
            moved = done(call(writer))?;
        }
        if moved.is_none() {
            self.calls.send += 1;
            if !call::poll(writer, libc::POLLOUT, GUARD_MS).or_else(interrupted)? {
                return Ok(None);
            }
            self.calls.send += 1;
            moved = done(call(writer))?;
        }
        self.is_full = moved.is_none_or(|moved| moved < len);
        Ok(moved)
    }

    #[inline]
    fn pull(
        &mut self,
        patience: Patience,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        let reader = self.reader.as_fd();
        self.calls.receive += 1;
        let ms = match (done(call(reader))?, patience) {
            (Some(moved), _) => return Ok(Some(moved)),
            (None, Patience::None) => return Ok(None),
            (None, Patience::Block) => GUARD_MS,
            (None, Patience::UntilNudged) => -1,
        };
        self.calls.receive += 1;
        if !call::poll(reader, libc::POLLIN, ms).or_else(interrupted)? {
            return Ok(None);
        }
        self.calls.receive += 1;
        done(call(reader))
    }

    fn holds(&self) -> usize {
        self.capacity
    }

    fn count(&mut self) -> &mut Calls {
        &mut self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::pipes;
    use super::*;
    use deadheat_base::time::{Clock, Monotonic, Nanos};

    #[test]
    fn bytes_cross_both_ways_and_calls_are_counted() {
        let (mut near, mut far) = pipes();
        let mut room = [0; 8];
        assert_eq!(far.receive(&mut room, Patience::None).unwrap(), None);
        assert_eq!(near.send(b"abc", Patience::None).unwrap(), Some(3));
        assert_eq!(far.receive(&mut room, Patience::UntilNudged).unwrap(), Some(3));
        assert_eq!(far.send(&room[..3], Patience::Block).unwrap(), Some(3));
        assert_eq!(near.receive(&mut room, Patience::Block).unwrap(), Some(3));
        assert_eq!(&room[..3], b"abc");
        assert_eq!((near.calls().send, far.calls().send), (1, 1));
        assert!(far.calls().receive >= 2, "{:?}", far.calls());
    }

    #[test]
    fn no_call_sleeps_longer_than_the_guard() {
        let (mut near, mut far) = pipes();
        let bytes = [7; 40_000];
        while near.send(&bytes, Patience::None).unwrap().is_some() {}
        let began = Monotonic.now();
        assert_eq!(near.send(&bytes, Patience::Block).unwrap(), None);
        assert_eq!(near.receive(&mut [0; 8], Patience::Block).unwrap(), None);
        let waited = Monotonic.now() - began;
        assert!(waited >= GUARD && waited < Nanos::from_secs(5), "{waited}");
        let mut room = vec![0; 1 << 20];
        assert!(far.receive(&mut room, Patience::Block).unwrap().is_some());
        assert_eq!(near.send(&bytes, Patience::Block).unwrap(), Some(bytes.len()));
    }

    #[test]
    fn an_ended_direction_shows_and_takes_no_more() {
        let (mut near, mut far) = pipes();
        near.finish().unwrap();
        assert_eq!(far.receive(&mut [0; 8], Patience::UntilNudged).unwrap(), Some(0));
        assert_eq!(near.send(b"x", Patience::None).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(far.send(b"x", Patience::None).unwrap(), Some(1));
        drop(near);
        assert_eq!(far.send(b"x", Patience::None).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_largest_pipe_is_larger_than_the_default_one_where_it_may_be() {
        let size = |pipe: Pipe| capacity(pipe.reader.as_fd()).unwrap();
        let limit = fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let largest = size(Pipe::largest().unwrap());
        assert!(largest >= size(Pipe::open().unwrap()) && largest <= limit.max(DEFAULT_SIZE));
    }
}
