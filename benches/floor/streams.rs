//! TCP one way for two seconds with each way that Linux has to move bytes; what counts is what the
//! receiver had, over the receiver's span.

use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr::null_mut;
use std::time::Duration;

use super::Cpus;
use super::span::{Span, rate};
use super::sys::{self, Arena, End};

const SECONDS: u64 = 2;
/// What one receiving call may bring.
const READ: usize = 512 << 10;
/// The file behind sendfile(2) and splice(2), sent again and again.
const FILE: usize = 8 << 20;
const PIPE: usize = 1 << 20;
/// Calls between two looks at a zero-copy socket's completions.
const REAP_EVERY: u64 = 16;

/// How the sender hands bytes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Give {
    /// send(2).
    Write,
    /// writev(2) of 16 pieces.
    Writev,
    /// sendfile(2) from memory (memfd_create(2)).
    Sendfile,
    /// splice(2) from there through a pipe.
    Splice,
    /// send(2) with `MSG_ZEROCOPY`.
    Zerocopy,
}

/// How the receiver takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// recv(2).
    Read,
    /// recv(2) with `MSG_TRUNC`: dropped in the kernel.
    Trunc,
    /// splice(2) through a pipe to /dev/null.
    Splice,
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream<'a> {
    /// How it is sent.
    pub(crate) give: Give,
    /// How it is received.
    pub(crate) take: Take,
    /// Bytes a sending call.
    pub(crate) call: usize,
    /// Where.
    pub(crate) cpus: Cpus,
    /// The congestion control.
    pub(crate) congestion: &'a str,
}

impl Stream<'_> {
    /// Measures; bits per second at the receiver.
    pub(crate) fn run(self) -> io::Result<f64> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let to = listener.local_addr()?;
        let far = End::fork(self.cpus.far, || self.take(&listener))?;
        let near = End::fork(self.cpus.near, || self.give(to))?;
        near.figures::<1>()?;
        rate(far.figures()?)
    }

    fn give(self, to: SocketAddr) -> io::Result<[u64; 1]> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        sys::set_congestion(&stream, self.congestion)?;
        let mut buffer = Arena::new(self.call.max(16))?;
        buffer.fill(1);
        match self.give {
            Give::Write => until_over(|| sys::send(&stream, &buffer)),
            Give::Writev => {
                let pieces = pieces(&buffer);
                until_over(|| {
                    let (fd, many) = (stream.as_raw_fd(), pieces.len() as i32);
                    // SAFETY: the pieces lie in `buffer`, which lives as long as the call.
                    sys::check(unsafe { libc::writev(fd, pieces.as_ptr(), many) } as i64)
                })
            }
            Give::Sendfile => {
                let file = memory_file()?;
                until_over(|| sendfile(stream.as_raw_fd(), &file, self.call))
            }
            Give::Splice => {
                let (file, pipe) = (memory_file()?, Pipe::new()?);
                let mut at = 0;
                until_over(|| {
                    let got = splice(file.as_raw_fd(), Some(&mut at), pipe.into, self.call)?;
                    at %= FILE as i64;
                    splice_all(pipe.from, stream.as_raw_fd(), got)
                })
            }
            Give::Zerocopy => {
                const SO_ZEROCOPY: i32 = 60;
                sys::set(&stream, libc::SOL_SOCKET, SO_ZEROCOPY, 1)?;
                let mut calls = 0;
                until_over(|| {
                    calls += 1;
                    if calls % REAP_EVERY == 0 {
                        reap(&stream);
                    }
                    send_zerocopy(&stream, &buffer)
                })
            }
        }
    }

    fn take(self, listener: &TcpListener) -> io::Result<[u64; 2]> {
        let (stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut buffer = Arena::new(READ)?;
        match self.take {
            Take::Read => until_closed(|| sys::receive(&stream, &mut buffer, 0)),
            Take::Trunc => until_closed(|| sys::receive(&stream, &mut buffer, libc::MSG_TRUNC)),
            Take::Splice => {
                let (pipe, null) = (Pipe::new()?, File::options().write(true).open("/dev/null")?);
                until_closed(|| {
                    let got = splice(stream.as_raw_fd(), None, pipe.into, PIPE)?;
                    splice_all(pipe.from, null.as_raw_fd(), got)
                })
            }
        }
    }
}

fn until_over(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<[u64; 1]> {
    let end = sys::now() + SECONDS * 1_000_000_000;
    let mut bytes = 0;
    while sys::now() < end {
        bytes += call()? as u64;
    }
    Ok([bytes])
}

fn until_closed(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<[u64; 2]> {
    let mut span = Span::default();
    let mut calls = 0_u64;
    loop {
        match call() {
            Ok(0) => return Ok(span.figures()),
            Ok(n) => span.add(n as u64, calls.is_multiple_of(16)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(span.figures()),
            Err(e) => return Err(e),
        }
        calls += 1;
    }
}

fn pieces(buffer: &[u8]) -> Vec<libc::iovec> {
    let piece = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    buffer.chunks(buffer.len().div_ceil(16)).map(piece).collect()
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a valid C string, and the descriptor is owned by nobody else.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"floor".as_ptr(), libc::MFD_CLOEXEC);
        sys::check(fd)?;
        File::from_raw_fd(fd)
    };
    file.write_all(&vec![1; FILE])?;
    Ok(file)
}

fn sendfile(socket: RawFd, file: &File, call: usize) -> io::Result<usize> {
    let mut at = 0;
    // SAFETY: `at` is a valid offset to read and write.
    sys::check(unsafe { libc::sendfile(socket, file.as_raw_fd(), &mut at, call) } as i64)
}

struct Pipe {
    from: RawFd,
    into: RawFd,
}

impl Pipe {
    /// Closed with the process.
    fn new() -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        sys::check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
        // SAFETY: a size for an own pipe; no memory is involved.
        sys::check(unsafe { libc::fcntl(ends[1], libc::F_SETPIPE_SZ, PIPE as libc::c_int) })?;
        Ok(Pipe { from: ends[0], into: ends[1] })
    }
}

fn splice(from: RawFd, at: Option<&mut i64>, into: RawFd, most: usize) -> io::Result<usize> {
    let at = at.map_or(null_mut(), |at| at as *mut i64);
    // SAFETY: the offset is absent or valid to read and write.
    sys::check(unsafe { libc::splice(from, at, into, null_mut(), most, libc::SPLICE_F_MOVE) } as i64)
}

fn splice_all(from: RawFd, into: RawFd, bytes: usize) -> io::Result<usize> {
    let mut left = bytes;
    while left > 0 {
        left -= splice(from, None, into, left)?;
    }
    Ok(bytes)
}

fn send_zerocopy(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: `bytes` is readable for the length given and outlives the socket.
        let sent = sys::check(unsafe {
            libc::send(
                socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY,
            )
        } as i64);
        match sent {
            // Too many completions wait to be read (net.core.optmem_max).
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => reap(socket),
            other => return other,
        }
    }
}

/// Reads all completions that are there.
fn reap(socket: &TcpStream) {
    let mut control = [0_u64; 32];
    loop {
        // SAFETY: an all-zero message header is valid and describes nothing.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header points to a live control buffer of the length given.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE) };
        if got < 0 {
            return;
        }
    }
}
