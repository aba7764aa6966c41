//! Files at a place, pread(2) and pwrite(2), without moving anybody's position.

use std::io;
use std::os::fd::AsRawFd;

use crate::contract::FileAt;

/// Reads into `room`; how many bytes came, fewer than asked for only at the end of the file.
///
/// # Errors
/// What pread(2) says.
pub fn read_at(from: FileAt<'_>, room: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < room.len() {
        let rest = &mut room[done..];
        let offset = place(from.offset, done)?;
        let fd = from.file.as_raw_fd();
        // SAFETY: the pointer and length are those of a live slice that nobody else reads.
        let got = unsafe { libc::pread64(fd, rest.as_mut_ptr().cast(), rest.len(), offset) };
        match moved(got)? {
            Some(0) => break,
            Some(got) => done += got,
            None => {}
        }
    }
    Ok(done)
}

/// Writes all of `bytes`.
///
/// # Errors
/// What pwrite(2) says; `WriteZero` where it writes nothing and says nothing.
pub fn write_at(to: FileAt<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let offset = place(to.offset, done)?;
        let fd = to.file.as_raw_fd();
        // SAFETY: the pointer and length are those of a live slice.
        let put = unsafe { libc::pwrite64(fd, rest.as_ptr().cast(), rest.len(), offset) };
        match moved(put)? {
            Some(0) => return Err(io::ErrorKind::WriteZero.into()),
            Some(put) => done += put,
            None => {}
        }
    }
    Ok(())
}

fn place(offset: u64, done: usize) -> io::Result<libc::off64_t> {
    let offset = offset.checked_add(done as u64).and_then(|at| i64::try_from(at).ok());
    offset.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// Bytes that were moved; `None` where a signal came first.
fn moved(result: libc::ssize_t) -> io::Result<Option<usize>> {
    match usize::try_from(result) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_written_at_a_place_is_read_there_and_the_end_is_short() {
        let file = tempfile::tempfile().unwrap();
        let at = |offset| FileAt { file: file.as_fd(), offset };
        write_at(at(5), b"hello").unwrap();
        let mut room = [9; 8];
        assert_eq!(read_at(at(3), &mut room).unwrap(), 7);
        assert_eq!(&room, b"\0\0hello\x09");
        assert_eq!(read_at(at(10), &mut room).unwrap(), 0);
        assert!(read_at(at(u64::MAX), &mut room).is_err());
    }
}
