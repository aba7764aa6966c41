//! Reads and writes at an offset, pread(2) and pwrite(2); the file's cursor is unchanged.

use std::io;
use std::os::fd::AsRawFd;

use super::call;
use deadheat_contract::contract::FileAt;

/// Reads into `room`; returns the number of bytes read, fewer than asked for only at the end of the file.
///
/// # Errors
/// The error of pread(2).
pub fn read_at(from: FileAt<'_>, room: &mut [u8]) -> io::Result<usize> {
    read_counted(from, room, &mut 0)
}

/// Reads as [`read_at`] does, and counts each system call.
///
/// # Errors
/// As for [`read_at`].
pub(super) fn read_counted(
    from: FileAt<'_>,
    room: &mut [u8],
    calls: &mut u64,
) -> io::Result<usize> {
    let mut done = 0;
    while done < room.len() {
        let offset = place(from.offset, done)?.cast_unsigned();
        *calls += 1;
        match call::pread(FileAt { offset, ..from }, &mut room[done..]) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`.
///
/// # Errors
/// The error of pwrite(2); `WriteZero` where it writes nothing and reports no error.
pub fn write_at(to: FileAt<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let offset = place(to.offset, done)?;
        let fd = to.file.as_raw_fd();
        // SAFETY: the pointer and length describe a live slice.
        let put = unsafe { libc::pwrite64(fd, rest.as_ptr().cast(), rest.len(), offset) };
        match usize::try_from(put).map_err(|_| io::Error::last_os_error()) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(put) => done += put,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn place(offset: u64, done: usize) -> io::Result<libc::off64_t> {
    let offset = offset.checked_add(done as u64).and_then(|at| i64::try_from(at).ok());
    offset.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
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
