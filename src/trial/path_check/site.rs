//! Sockets of another host. A socket stays in the network namespace in which it was made, so a child
//! that lives for a few system calls makes some there and hands them over; everything else is done
//! in this process, by threads that are in no namespace but their own.

use std::io;
use std::mem::{size_of, size_of_val};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use socket2::Socket;

use crate::error::{Error, Result};
use crate::path::emulated::namespace::enter;

/// How many sockets of each kind one check needs at a host.
const EACH: usize = 8;

/// The way into a host.
#[derive(Debug, Clone, Copy)]
pub struct Door<'a> {
    /// Its user namespace, where this process has no rights outside of it.
    pub user: Option<BorrowedFd<'a>>,
    /// Its network namespace.
    pub net: BorrowedFd<'a>,
}

/// One of the two hosts: an address, and sockets that belong there.
#[derive(Debug)]
pub struct Site {
    address: IpAddr,
    datagrams: Vec<OwnedFd>,
    streams: Vec<OwnedFd>,
}

impl Site {
    /// This host itself.
    ///
    /// # Errors
    /// What socket(2) says.
    pub fn here(address: IpAddr) -> Result<Site> {
        Site::from_made(address, make(address, None))
    }

    /// The host behind a door, with an address of its own.
    ///
    /// # Errors
    /// [`Error::Setup`] where this process may not enter it.
    pub fn behind(door: Door<'_>, address: IpAddr) -> Result<Site> {
        Site::from_made(address, make(address, Some(door)))
    }

    fn from_made(address: IpAddr, made: io::Result<Vec<OwnedFd>>) -> Result<Site> {
        let mut datagrams =
            made.map_err(|e| Error::setup(format!("make sockets at the host {address}"), e))?;
        let streams = datagrams.split_off(EACH.min(datagrams.len()));
        Ok(Site { address, datagrams, streams })
    }

    /// The address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// A fresh datagram socket, bound to any port of the host's address.
    ///
    /// # Errors
    /// What bind(2) says; or that there is none left.
    pub fn datagrams(&mut self) -> Result<Socket> {
        let fd = self.datagrams.pop();
        self.bound(fd)
    }

    /// A fresh stream socket, bound likewise.
    ///
    /// # Errors
    /// As of [`Site::datagrams`].
    pub fn stream(&mut self) -> Result<Socket> {
        let fd = self.streams.pop();
        self.bound(fd)
    }

    fn bound(&self, fd: Option<OwnedFd>) -> Result<Socket> {
        let failed = |e| Error::setup(format!("bind to {}", self.address), e);
        let fd = fd.ok_or_else(|| failed(io::Error::other("no sockets are left")))?;
        let socket = Socket::from(fd);
        socket.bind(&SocketAddr::new(self.address, 0).into()).map_err(failed)?;
        Ok(socket)
    }
}

/// Datagram sockets and then stream sockets, of the address's family; [`EACH`] of both.
fn make(address: IpAddr, door: Option<Door<'_>>) -> io::Result<Vec<OwnedFd>> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kinds = [libc::SOCK_DGRAM, libc::SOCK_STREAM];
    let kinds = kinds.iter().flat_map(|kind| [*kind; EACH]);
    let Some(door) = door else {
        return kinds.map(|kind| owned(open(family, kind))).collect();
    };
    let (ours, theirs) = UnixStream::pair()?;
    let kinds: Vec<libc::c_int> = kinds.collect();
    let mut fds = vec![-1; kinds.len()];
    let mut parcel = Parcel::new();
    let user = door.user.map(|user| user.as_raw_fd());
    // SAFETY: the child makes system calls on integers and on memory that is there already, and
    // leaves with _exit; it allocates nothing and takes no lock.
    let child = unsafe { libc::fork() };
    match child {
        ..0 => return Err(io::Error::last_os_error()),
        0 => {
            let to = theirs.as_raw_fd();
            let code = deliver(user, door.net.as_raw_fd(), family, &kinds, &mut fds, |fds| {
                parcel.send(to, fds)
            });
            // SAFETY: ends this process, which is the child.
            unsafe { libc::_exit(code) }
        }
        _ => {}
    }
    drop(theirs);
    let got = parcel.receive(ours.as_raw_fd());
    let mut status = 0;
    // SAFETY: `status` is a live integer, and the child is ours to wait for.
    unsafe { libc::waitpid(child, &mut status, 0) };
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
        return Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status)));
    }
    let got = got?;
    if got.len() == kinds.len() { Ok(got) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// What the child does: enters, opens, sends. Answers 0 or the number of the error.
fn deliver(
    user: Option<i32>,
    net: i32,
    family: i32,
    kinds: &[i32],
    fds: &mut [i32],
    send: impl FnOnce(&[i32]) -> i32,
) -> i32 {
    if let Err(refused) = enter(user, net) {
        return refused.raw_os_error().unwrap_or(libc::EPERM);
    }
    for (fd, kind) in fds.iter_mut().zip(kinds) {
        *fd = open(family, *kind);
        if *fd < 0 {
            return errno();
        }
    }
    if send(fds) < 0 { errno() } else { 0 }
}

fn open(family: i32, kind: i32) -> i32 {
    // SAFETY: socket(2) takes integers.
    unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is fresh and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn errno() -> i32 {
    // SAFETY: it points to this thread's own number.
    unsafe { *libc::__errno_location() }
}

/// One message with descriptors (`SCM_RIGHTS`, unix(7)).
struct Parcel {
    control: [u64; 32],
}

impl Parcel {
    fn new() -> Parcel {
        Parcel { control: [0; 32] }
    }

    /// One sendmsg(2); allocates nothing.
    fn send(&mut self, to: i32, fds: &[i32]) -> i32 {
        let mut byte = 0_u8;
        let mut iovec = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let bytes = size_of_val(fds);
        let header = self.header(&mut iovec, bytes);
        // SAFETY: the control buffer is aligned, and has room for 16 descriptors and the header.
        unsafe {
            let cmsg = libc::CMSG_FIRSTHDR(&header);
            (*cmsg).cmsg_level = libc::SOL_SOCKET;
            (*cmsg).cmsg_type = libc::SCM_RIGHTS;
            (*cmsg).cmsg_len = libc::CMSG_LEN(bytes as u32) as _;
            let data = libc::CMSG_DATA(cmsg).cast::<i32>();
            for (at, fd) in fds.iter().enumerate() {
                data.add(at).write_unaligned(*fd);
            }
            libc::sendmsg(to, &header, libc::MSG_NOSIGNAL) as i32
        }
    }

    /// One recvmsg(2), which waits; no descriptor where the other end is gone.
    fn receive(&mut self, from: i32) -> io::Result<Vec<OwnedFd>> {
        let mut byte = 0_u8;
        let mut iovec = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut header = self.header(&mut iovec, size_of::<i32>() * 2 * EACH);
        let mut fds = Vec::new();
        // SAFETY: the header describes live memory; what comes is read as the kernel's own lengths
        // say, and each descriptor is fresh and owned by nobody else.
        unsafe {
            if libc::recvmsg(from, &mut header, libc::MSG_CMSG_CLOEXEC) < 0 {
                return Err(io::Error::last_os_error());
            }
            let cmsg = libc::CMSG_FIRSTHDR(&header);
            if let Some(message) = cmsg.as_ref()
                && message.cmsg_type == libc::SCM_RIGHTS
            {
                #[allow(clippy::unnecessary_cast, reason = "it has 32 bits with musl")]
                let len = message.cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(cmsg).cast::<i32>();
                for at in 0..len / size_of::<i32>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(at).read_unaligned()));
                }
            }
        }
        Ok(fds)
    }

    fn header(&mut self, iovec: &mut libc::iovec, bytes: usize) -> libc::msghdr {
        // SAFETY: an all-zero msghdr is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = iovec;
        header.msg_iovlen = 1;
        header.msg_control = self.control.as_mut_ptr().cast();
        // SAFETY: a computation on integers.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes as u32) } as _;
        header
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    fn localhost() -> IpAddr {
        IpAddr::from([127, 0, 0, 1])
    }

    #[test]
    fn sockets_of_this_host_talk() {
        let mut site = Site::here(localhost()).unwrap();
        let (a, b) = (site.datagrams().unwrap(), site.datagrams().unwrap());
        a.connect(&b.local_addr().unwrap()).unwrap();
        a.send(b"hello").unwrap();
        assert_eq!(UdpSocket::from(b).recv(&mut [0; 8]).unwrap(), 5);
        assert!(site.stream().is_ok());
    }

    #[test]
    fn sockets_run_out_with_an_error() {
        let mut site = Site::here(localhost()).unwrap();
        for _ in 0..EACH {
            site.stream().unwrap();
        }
        assert!(site.stream().unwrap_err().to_string().contains("no sockets are left"));
    }

    #[test]
    fn a_child_makes_sockets_where_the_door_leads() {
        // This namespace itself: entering it is allowed to root only, and refused otherwise.
        let net = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        let door = Door { user: None, net: net.as_fd() };
        match Site::behind(door, localhost()) {
            Ok(mut site) => {
                let (a, b) = (site.stream().unwrap(), site.stream().unwrap());
                b.listen(1).unwrap();
                a.connect(&b.local_addr().unwrap()).unwrap();
            }
            Err(error) => assert!(error.to_string().contains("Operation not permitted"), "{error}"),
        }
        // Nor does something that is no namespace lead anywhere.
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let error = Site::behind(Door { user: None, net: file.as_fd() }, localhost()).unwrap_err();
        assert!(error.to_string().starts_with("make sockets at the host 127.0.0.1: "), "{error}");
    }
}
