//! Sockets of another host, or of this one, for a check: this process does all the work, in threads that stay in its
//! own namespaces.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use socket2::{Domain, Socket, Type};

use deadheat_base::error::{Error, Result};
use deadheat_path::emulated::entry::Entry;
use deadheat_path::emulated::socket::{self, SocketRequest};

/// Number of sockets of each kind that one check needs at a host.
const EACH: usize = 8;

/// Host at one end of the path: an address, and sockets that belong to the host.
#[derive(Debug)]
pub struct Site {
    address: IpAddr,
    datagrams: Vec<OwnedFd>,
    streams: Vec<OwnedFd>,
}

impl Site {
    /// Returns the site of this host itself.
    ///
    /// # Errors
    /// Fails with the error of socket(2).
    pub fn here(address: IpAddr) -> Result<Site> {
        Site::from_made(address, socket::here(&wanted(address)))
    }

    /// Returns the site of a host of an emulated network, with its address.
    ///
    /// # Errors
    /// [`Error::Setup`] if this process may not enter it.
    pub fn behind(entry: Entry<'_>, address: IpAddr) -> Result<Site> {
        Site::from_made(address, socket::behind(&entry, &wanted(address)))
    }

    fn from_made(address: IpAddr, made: io::Result<Vec<OwnedFd>>) -> Result<Site> {
        let mut datagrams =
            made.map_err(|e| Error::setup(format!("make sockets at the host {address}"), e))?;
        let streams = datagrams.split_off(EACH.min(datagrams.len()));
        Ok(Site { address, datagrams, streams })
    }

    /// Returns the address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Creates a datagram socket, bound to any free port of the host's address.
    ///
    /// # Errors
    /// Fails with the error of bind(2), or if all prepared sockets are used.
    pub fn datagrams(&mut self) -> Result<Socket> {
        let fd = self.datagrams.pop();
        self.bound(fd)
    }

    /// Creates a stream socket, bound likewise.
    ///
    /// # Errors
    /// Fails like [`Site::datagrams`].
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

/// Lists datagram sockets and then stream sockets, of the address's family; [`EACH`] of both.
fn wanted(address: IpAddr) -> Vec<SocketRequest> {
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let kinds = [Type::DGRAM, Type::STREAM].into_iter().flat_map(|kind| [kind; EACH]);
    kinds.map(|kind| SocketRequest::new(domain, kind, None)).collect()
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
    fn an_entry_that_leads_nowhere_is_an_error() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let error = Site::behind(Entry::new(None, file.as_fd()), localhost()).unwrap_err();
        assert!(error.to_string().starts_with("make sockets at the host 127.0.0.1: "), "{error}");
    }
}
