//! The few system calls that the standard library does not have.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest that one end may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Turns the answer of a system call into a result.
pub(super) fn check(answer: impl Into<i64>) -> io::Result<usize> {
    usize::try_from(answer.into()).map_err(|_| io::Error::last_os_error())
}

/// Nanoseconds on `CLOCK_MONOTONIC`.
#[inline]
pub(super) fn now() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Binds the calling process to one CPU.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: CPU_SET checks the index against the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is a valid set of the size given.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) })?;
    Ok(())
}

/// The CPUs that the calling process may use.
pub(super) fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero cpu_set_t is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid set of the size given.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) })?;
    Ok((0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below the size of the set.
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .collect())
}

/// Sets an integer socket option.
pub(super) fn set(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is an integer that lives as long as the call, and its size is given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Sets a congestion control by name.
pub(super) fn set_congestion(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    // SAFETY: the name's bytes live as long as the call, and their count is given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Asks for a receive buffer of 8 MiB; with root's word past `net.core.rmem_max`.
pub(super) fn ask_for_buffer(socket: &impl AsRawFd) -> io::Result<()> {
    const SIZE: i32 = 8 << 20;
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SIZE)
        .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, SIZE))
}

/// Sends the whole buffer in one call, as far as the socket takes it.
#[inline]
pub(super) fn send(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is readable for the length given.
    check(unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
            as i64
    })
}

/// Receives into the buffer in one call.
#[inline]
pub(super) fn receive(socket: &impl AsRawFd, bytes: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: `bytes` is writable for the length given.
    check(unsafe {
        libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) as i64
    })
}

/// Memory straight from mmap(2), page-aligned and present before the first use.
pub(super) struct Arena(*mut u8, usize);

impl Arena {
    pub(super) fn new(len: usize) -> io::Result<Arena> {
        // SAFETY: a fresh anonymous mapping overlaps nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Arena(start.cast(), len))
    }
}

impl std::ops::Deref for Arena {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable over its whole length and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

impl std::ops::DerefMut for Arena {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and is unmapped once.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// One end: a child process that ends with figures, or with words.
pub(super) struct End {
    pid: libc::pid_t,
    figures: UnixStream,
}

impl End {
    /// Runs `work` in a child pinned to `cpu`. The caller must be single-threaded, as a child of a
    /// threaded process may not allocate.
    pub(super) fn fork<const N: usize>(
        cpu: usize,
        work: impl FnOnce() -> io::Result<[u64; N]>,
    ) -> io::Result<End> {
        let (figures, mut mine) = UnixStream::pair()?;
        figures.set_read_timeout(Some(PATIENCE))?;
        // SAFETY: the process has one thread, so the child may go on as usual; it ends below.
        let pid = unsafe { libc::fork() };
        if check(pid)? > 0 {
            return Ok(End { pid, figures });
        }
        // SAFETY: asks for a signal when the parent ends; no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let said = match pin(cpu).and_then(|()| work()) {
            Ok(figures) => mine.write_all(&figures.map(u64::to_le_bytes).concat()),
            Err(error) => mine.write_all(error.to_string().as_bytes()),
        };
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(said.is_err())) }
    }

    /// Waits for the figures.
    pub(super) fn figures<const N: usize>(mut self) -> io::Result<[u64; N]> {
        let mut said = Vec::new();
        (&mut self.figures)
            .take(4096)
            .read_to_end(&mut said)
            .map_err(|e| io::Error::new(e.kind(), "an end of the floor did not finish"))?;
        if said.len() != N * 8 {
            return Err(io::Error::other(String::from_utf8_lossy(&said).into_owned()));
        }
        let mut figures = [0; N];
        for (figure, bytes) in figures.iter_mut().zip(said.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(bytes);
            *figure = u64::from_le_bytes(le);
        }
        Ok(figures)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: `pid` is a child of this process that has not been waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, &mut status, 0);
        }
    }
}
