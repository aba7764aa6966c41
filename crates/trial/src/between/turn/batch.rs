//! Datagrams in batches: recvmmsg(2), a header added or removed without a copy, sendmmsg(2).

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;

use socket2::{SockAddr, SockAddrStorage};

use super::OVERHEAD;

/// Datagrams per call.
pub(super) const DATAGRAMS: usize = 64;
/// Space for a datagram, with a header in front.
const ROOM: usize = OVERHEAD + (1 << 16);

/// Batch of received datagrams, each with space for a header in front.
pub(super) struct Batch {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    from: Vec<SockAddrStorage>,
    from_lengths: Vec<libc::socklen_t>,
}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch {
            bytes: vec![0; DATAGRAMS * ROOM],
            lengths: Vec::with_capacity(DATAGRAMS),
            from: (0..DATAGRAMS).map(|_| SockAddrStorage::zeroed()).collect(),
            from_lengths: vec![0; DATAGRAMS],
        }
    }

    /// Receives the available datagrams, at most [`DATAGRAMS`].
    ///
    /// # Errors
    /// Fails with the system's error.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.lengths.clear();
        let mut into: Vec<libc::iovec> = self
            .bytes
            .chunks_exact_mut(ROOM)
            .map(|slot| libc::iovec {
                iov_base: slot[OVERHEAD..].as_mut_ptr().cast(),
                iov_len: ROOM - OVERHEAD,
            })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = into
            .iter_mut()
            .zip(&mut self.from)
            .map(|(into, from)| {
                let len = size_of::<SockAddrStorage>() as libc::socklen_t;
                message(into, Some((std::ptr::from_mut(from).cast(), len)))
            })
            .collect();
        let (fd, count) = (socket.as_raw_fd(), headers.len() as libc::c_uint);
        // SAFETY: the headers point to slots and names that outlive the call, with their lengths.
        let got = unsafe {
            libc::recvmmsg(
                fd,
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (header, len) in headers[..got].iter().zip(&mut self.from_lengths) {
            self.lengths.push(header.msg_len as usize);
            *len = header.msg_hdr.msg_namelen;
        }
        Ok(got)
    }

    /// Returns the place of a datagram's content.
    pub(super) fn place(&self, number: usize) -> Range<usize> {
        let start = number * ROOM + OVERHEAD;
        start..start + self.lengths[number]
    }

    /// Returns the bytes at a place.
    pub(super) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.bytes[place]
    }

    /// Returns the source address of a datagram.
    pub(super) fn from(&self, number: usize) -> Option<SocketAddr> {
        // SAFETY: the name is plain bytes, so that it can be read twice; the kernel wrote an address of this length, or none, and
        // zeros are of no family.
        let name = unsafe {
            SockAddr::new(std::ptr::read(&raw const self.from[number]), self.from_lengths[number])
        };
        name.as_socket()
    }

    /// Writes a header in front of a datagram; returns the place of both.
    pub(super) fn put_in_front(&mut self, number: usize, header: [u8; OVERHEAD]) -> Range<usize> {
        let place = self.place(number);
        let start = place.start - OVERHEAD;
        self.bytes[start..place.start].copy_from_slice(&header);
        start..place.end
    }

    /// Sends the datagrams at these places, to the socket's peer or to an address. A datagram that does not fit is
    /// lost, as on any path; a datagram that the network refuses is lost, too.
    pub(super) fn send(
        &mut self,
        socket: &UdpSocket,
        places: &[Range<usize>],
        to: Option<&SockAddr>,
    ) {
        let base = self.bytes.as_mut_ptr();
        let mut out: Vec<libc::iovec> = places
            .iter()
            .map(|place| libc::iovec {
                // SAFETY: places are of slots, within the bytes.
                iov_base: unsafe { base.add(place.start) }.cast(),
                iov_len: place.len(),
            })
            .collect();
        let name = to.map(|to| (to.as_ptr().cast_mut().cast(), to.len()));
        let mut headers: Vec<libc::mmsghdr> =
            out.iter_mut().map(|out| message(out, name)).collect();
        let (mut done, mut is_again) = (0, false);
        while done < headers.len() {
            let left = &mut headers[done..];
            // SAFETY: the headers point to bytes and to an address that outlive the call; the kernel only reads them.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    left.as_mut_ptr(),
                    left.len() as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => (done, is_again) = (done + sent, false),
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => return,
                // An error about an earlier datagram is reported once, by the next call.
                Err(_) if !is_again => is_again = true,
                Err(_) => (done, is_again) = (done + 1, false),
            }
        }
    }
}

/// Returns the header of one datagram, with an address if it needs one.
fn message(
    part: &mut libc::iovec,
    name: Option<(*mut libc::c_void, libc::socklen_t)>,
) -> libc::mmsghdr {
    // SAFETY: an all-zero header is valid.
    let mut header: libc::mmsghdr = unsafe { zeroed() };
    if let Some((name, len)) = name {
        (header.msg_hdr.msg_name, header.msg_hdr.msg_namelen) = (name, len);
    }
    (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (part, 1);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_in_front_and_the_content_goes_on_as_it_was() {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (from, through, to) = (bind(), bind(), bind());
        let largest = vec![7; 65_507 - OVERHEAD];
        let messages: [&[u8]; 3] = [b"one", b"", &largest];
        for content in messages {
            from.send_to(content, through.local_addr().unwrap()).unwrap();
        }
        let mut batch = Batch::new();
        assert_eq!(batch.receive(&through).unwrap(), messages.len());
        let places: Vec<Range<usize>> = (0..messages.len())
            .map(|number| {
                assert_eq!(batch.from(number), Some(from.local_addr().unwrap()));
                batch.put_in_front(number, [b'h', b'e', b'a', number as u8])
            })
            .collect();
        batch.send(&through, &places, Some(&to.local_addr().unwrap().into()));
        let mut into = vec![0; 1 << 16];
        for (number, content) in messages.iter().enumerate() {
            let (len, peer) = to.recv_from(&mut into).unwrap();
            assert_eq!(into[..OVERHEAD], [b'h', b'e', b'a', number as u8]);
            assert!(into[OVERHEAD..len] == **content);
            assert_eq!(peer, through.local_addr().unwrap());
        }
        let nothing = batch.receive(&through).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
