//! Sockets of another host. A socket stays in the network namespace in which it was made, so a child process that
//! makes a few system calls opens sockets there and hands them over; threads of this process, which stay in their
//! own namespace, do everything else.

use std::io;
use std::mem::size_of_val;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use deadheat_base::cmsg::{self, Room};
use socket2::{Domain, Protocol, SockAddr, Type};

use super::entry::Entry;
use super::namespace;

/// Largest number of sockets that one call makes.
pub const MOST: usize = 16;

/// Request for a socket (socket(2), bind(2)).
#[derive(Debug, Clone)]
pub struct SocketRequest {
    domain: Domain,
    kind: Type,
    protocol: Option<Protocol>,
    at: Option<SockAddr>,
}

impl SocketRequest {
    /// Describes a socket that is not bound yet.
    pub fn new(domain: Domain, kind: Type, protocol: Option<Protocol>) -> SocketRequest {
        SocketRequest { domain, kind, protocol, at: None }
    }

    /// Describes a datagram or stream socket bound to `address`. For its port the host's own rights count: a port
    /// below 1024 is allowed. A port of streams may be used again at once (`SO_REUSEADDR`), as with a
    /// `TcpListener`.
    pub fn at(kind: Type, address: SocketAddr) -> SocketRequest {
        let domain = Domain::for_address(address);
        SocketRequest { at: Some(address.into()), ..SocketRequest::new(domain, kind, None) }
    }

    /// Opens it in the namespace of the calling thread. Allocates nothing and takes no lock; programs do not
    /// inherit the socket.
    fn open(&self) -> Result<RawFd, i32> {
        let (domain, kind) = (libc::c_int::from(self.domain), libc::c_int::from(self.kind));
        let protocol = self.protocol.map_or(0, libc::c_int::from);
        let done = |code: libc::c_int| if code < 0 { Err(errno()) } else { Ok(code) };
        // SAFETY: the calls take integers, and pointers to values that live through them.
        unsafe {
            let fd = done(libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol))?;
            let Some(at) = &self.at else { return Ok(fd) };
            if kind == libc::SOCK_STREAM {
                let (yes, name) = (1 as libc::c_int, libc::SO_REUSEADDR);
                let (place, size) = ((&raw const yes).cast(), size_of_val(&yes));
                done(libc::setsockopt(fd, libc::SOL_SOCKET, name, place, size as _))?;
            }
            done(libc::bind(fd, at.as_ptr().cast(), at.len()))?;
            Ok(fd)
        }
    }
}

/// Makes the requested sockets, at most [`MOST`], in this namespace.
///
/// # Errors
/// The error of socket(2) or bind(2).
pub fn here(wanted: &[SocketRequest]) -> io::Result<Vec<OwnedFd>> {
    let open = |wanted: &SocketRequest| wanted.open().map_err(io::Error::from_raw_os_error);
    // SAFETY: the descriptor is fresh and has no other owner.
    wanted.iter().map(|wanted| open(wanted).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })).collect()
}

/// Makes the requested sockets, at most [`MOST`], at a host.
///
/// # Errors
/// The error of socket(2) or bind(2); fails too if this process may not enter the host.
pub fn behind(host: &Entry<'_>, wanted: &[SocketRequest]) -> io::Result<Vec<OwnedFd>> {
    if wanted.len() > MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut fds = [-1; MOST];
    let mut parcel = DescriptorMessage::new();
    let (user, net) = host.raw();
    // SAFETY: the child makes system calls on integers and on memory that exists already, and leaves with _exit; it
    // allocates nothing and takes no lock.
    let child = unsafe { libc::fork() };
    match child {
        ..0 => return Err(io::Error::last_os_error()),
        0 => {
            let to = theirs.as_raw_fd();
            let code = deliver(user, net, wanted, &mut fds, |fds| parcel.send(to, fds));
            // SAFETY: ends this process, which is the child.
            unsafe { libc::_exit(code) }
        }
        _ => {}
    }
    drop(theirs);
    let got = parcel.receive(ours.as_raw_fd());
    let mut status = 0;
    // SAFETY: `status` is a live integer, and the child is ours to wait for.
    while unsafe { libc::waitpid(child, &mut status, 0) } < 0 && errno() == libc::EINTR {}
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
        return Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status)));
    }
    let got = got?;
    if got.len() == wanted.len() { Ok(got) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Runs in the child: enters, opens, sends. Returns 0 or the number of the error.
fn deliver(
    user: Option<RawFd>,
    net: RawFd,
    wanted: &[SocketRequest],
    fds: &mut [RawFd; MOST],
    send: impl FnOnce(&[RawFd]) -> i32,
) -> i32 {
    if let Err(refused) = namespace::enter(user, net) {
        return refused.raw_os_error().unwrap_or(libc::EPERM);
    }
    for (fd, wanted) in fds.iter_mut().zip(wanted) {
        match wanted.open() {
            Ok(open) => *fd = open,
            Err(number) => return number,
        }
    }
    let made = fds.len().min(wanted.len());
    if send(fds.get(..made).unwrap_or_default()) < 0 { errno() } else { 0 }
}

fn errno() -> i32 {
    // SAFETY: it points to this thread's own number.
    unsafe { *libc::__errno_location() }
}

/// Message with descriptors (`SCM_RIGHTS`, unix(7)).
struct DescriptorMessage {
    room: Room<256>,
}

impl DescriptorMessage {
    fn new() -> DescriptorMessage {
        DescriptorMessage { room: Room::default() }
    }

    /// Sends with one sendmsg(2); allocates nothing.
    fn send(&mut self, to: i32, fds: &[i32]) -> i32 {
        let mut byte = 0_u8;
        let mut iovec = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: the bytes of a slice of integers.
        let numbers = unsafe { std::slice::from_raw_parts(fds.as_ptr().cast(), size_of_val(fds)) };
        let len = self.room.put(0, libc::SOL_SOCKET, libc::SCM_RIGHTS, numbers);
        let mut header = header(&mut iovec);
        self.room.beside(&mut header, len);
        // SAFETY: the header describes live memory.
        unsafe { libc::sendmsg(to, &header, libc::MSG_NOSIGNAL) as i32 }
    }

    /// Receives with one recvmsg(2), which waits; returns no descriptor if the other end is gone.
    fn receive(&mut self, from: i32) -> io::Result<Vec<OwnedFd>> {
        let mut byte = 0_u8;
        let mut iovec = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut header = header(&mut iovec);
        self.room.offer(&mut header);
        // SAFETY: the header describes live memory.
        if unsafe { libc::recvmsg(from, &mut header, libc::MSG_CMSG_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel filled in the room.
        let messages = unsafe { cmsg::messages(&header) };
        let numbers = messages
            .filter(|message| message.kind == libc::SCM_RIGHTS)
            .flat_map(|message| message.values::<i32>().collect::<Vec<_>>());
        // SAFETY: they were received just now, and have no other owner.
        Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect())
    }
}

fn header(iovec: &mut libc::iovec) -> libc::msghdr {
    let mut header = cmsg::header();
    header.msg_iov = iovec;
    header.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::fd::AsFd;

    use socket2::Socket;

    use super::*;

    fn streams() -> [SocketRequest; 2] {
        [0, 0].map(|port| SocketRequest::at(Type::STREAM, SocketAddr::from(([127, 0, 0, 1], port))))
    }

    fn talk(made: Vec<OwnedFd>) {
        let mut made = made.into_iter().map(Socket::from);
        let (a, b) = (made.next().unwrap(), made.next().unwrap());
        b.listen(1).unwrap();
        a.connect(&b.local_addr().unwrap()).unwrap();
        assert!(TcpStream::from(a).peer_addr().is_ok());
    }

    #[test]
    fn sockets_of_this_host_talk() {
        talk(here(&streams()).unwrap());
    }

    #[test]
    fn a_child_makes_sockets_where_the_entry_leads() {
        // The calling thread's own namespace: entering it is allowed to root only, and refused otherwise.
        let net = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        match behind(&Entry::new(None, net.as_fd()), &streams()) {
            Ok(made) => talk(made),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
        // A descriptor that is no namespace is refused, too.
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let entry = Entry::new(None, file.as_fd());
        assert_eq!(behind(&entry, &streams()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let many = vec![streams()[0].clone(); MOST + 1];
        assert!(behind(&entry, &many).is_err());
    }

    #[test]
    fn an_address_that_is_not_there_is_an_error() {
        let nowhere = SocketRequest::at(Type::DGRAM, SocketAddr::from(([198, 51, 100, 1], 9)));
        let error = here(&[nowhere]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL));
    }
}
