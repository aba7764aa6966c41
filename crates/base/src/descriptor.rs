//! Descriptors: passing one to another process (`SCM_RIGHTS`, unix(7)), and waiting for one.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::cmsg::{self, Room};
use crate::time::{Clock, Monotonic, Nanos};

/// Sends `bytes`, at least one, over a Unix socket, and a descriptor with them.
///
/// # Errors
/// The error of sendmsg(2).
pub fn send(over: BorrowedFd<'_>, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut room = Room::<ONE>::default();
    let mut header = cmsg::header();
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    if let Some(fd) = fd {
        let number = fd.as_raw_fd().to_ne_bytes();
        let len = room.put(0, libc::SOL_SOCKET, libc::SCM_RIGHTS, &number);
        room.beside(&mut header, len);
    }
    // SAFETY: `header` points to buffers that outlive the call.
    let sent = unsafe { libc::sendmsg(over.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives the bytes and the descriptor of one [`send`]. Returns the number of bytes, 0 if the other end is closed,
/// and the descriptor, which is closed on exec.
///
/// # Errors
/// The error of recvmsg(2).
pub fn receive(over: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut iov = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut room = Room::<ONE>::default();
    let mut header = cmsg::header();
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    room.offer(&mut header);
    // SAFETY: `header` points to buffers that outlive the call.
    let got = unsafe { libc::recvmsg(over.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
    let Ok(got) = usize::try_from(got) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel filled in `room`.
    let number = unsafe { cmsg::messages(&header) }
        .find(|message| message.kind == libc::SCM_RIGHTS)
        .and_then(|message| message.read::<i32>());
    // SAFETY: it was received just now, and has no other owner.
    Ok((got, number.map(|number| unsafe { OwnedFd::from_raw_fd(number) })))
}

/// Size of a message with one descriptor.
const ONE: usize = cmsg::space(size_of::<i32>());

/// Waits until `fd` becomes readable (or ends), at most `timeout`; returns true if it did.
///
/// # Errors
/// Fails if poll(2) fails.
pub fn readable(fd: BorrowedFd<'_>, timeout: Nanos) -> io::Result<bool> {
    Ok(ready([(fd, libc::POLLIN)], Some(timeout))?.contains(&true))
}

/// Fills `into` from a byte stream until `deadline`; returns the number of bytes that arrived. Bytes that wait at the
/// descriptor when the time is over count: a busy host may have held up the reader alone.
///
/// # Errors
/// The error of poll(2) or of a read; `UnexpectedEof` if the peer ended the stream before.
pub fn fill<S: AsFd>(stream: &S, into: &mut [u8], deadline: Nanos) -> io::Result<usize>
where
    for<'a> &'a S: Read,
{
    let mut have = 0;
    while have < into.len() {
        let left = deadline - Monotonic.now();
        if !readable(stream.as_fd(), left)? {
            if left == Nanos::ZERO {
                break;
            }
            continue;
        }
        let mut stream = stream;
        match stream.read(&mut into[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => have += got,
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

/// Waits until one of `fds` has one of its events, ends or fails, at most `timeout`, or without a limit. Returns for
/// each whether it has; none has if a signal interrupts the wait. A `None` in place of a descriptor has no event, not
/// even its end.
///
/// # Errors
/// Fails if poll(2) fails.
pub fn ready<'a, F: Into<Option<BorrowedFd<'a>>>>(
    fds: impl IntoIterator<Item = (F, libc::c_short)>,
    timeout: Option<Nanos>,
) -> io::Result<Vec<bool>> {
    // poll(2) passes over a negative descriptor.
    let number = |fd: F| fd.into().map_or(-1, |fd: BorrowedFd<'_>| fd.as_raw_fd());
    let entry = |(fd, events)| libc::pollfd { fd: number(fd), events, revents: 0 };
    let mut fds: Vec<libc::pollfd> = fds.into_iter().map(entry).collect();
    let in_ms = |span: Nanos| i32::try_from(span.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: `fds` is a live vector of valid pollfds.
    let found = unsafe {
        libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout.map_or(-1, in_ms))
    };
    if found < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; fds.len()]);
    }
    Ok(fds.iter().map(|fd| fd.revents != 0).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_buffer_is_filled_until_the_deadline_or_the_end() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut bytes = [0; 3];
        here.write_all(b"abcdefg").unwrap();
        let late = Monotonic.now() + Nanos::from_secs(60);
        assert_eq!((fill(&there, &mut bytes, late).unwrap(), &bytes), (3, b"abc"));
        assert_eq!((fill(&there, &mut bytes, Nanos::ZERO).unwrap(), &bytes), (3, b"def"));
        let soon = Monotonic.now() + Nanos::from_millis(10);
        assert_eq!(fill(&there, &mut bytes, soon).unwrap(), 1);
        drop(here);
        let ended = fill(&there, &mut bytes, late).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_descriptor_crosses_with_its_bytes() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut kept, given) = UnixStream::pair().unwrap();
        assert!(!readable(there.as_fd(), Nanos::ZERO).unwrap());
        let both = [(there.as_fd(), libc::POLLIN), (here.as_fd(), libc::POLLOUT)];
        assert_eq!(ready(both, None).unwrap(), [false, true]);
        let none = [(None, libc::POLLIN), (Some(here.as_fd()), libc::POLLOUT)];
        assert_eq!(ready(none, None).unwrap(), [false, true]);
        send(here.as_fd(), b"two", Some(given.as_fd())).unwrap();
        drop(given);
        let mut bytes = [0; 8];
        let (got, fd) = receive(there.as_fd(), &mut bytes).unwrap();
        assert_eq!(&bytes[..got], b"two");
        UnixStream::from(fd.unwrap()).write_all(b"hi").unwrap();
        let mut heard = String::new();
        kept.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hi");
        drop(here);
        assert!(matches!(receive(there.as_fd(), &mut bytes), Ok((0, None))));
    }
}
