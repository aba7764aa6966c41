//! Two hosts of a network, for a program that tests itself over it.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use socket2::{Domain, Protocol, Socket, Type};

use super::Emulator;
use crate::emulated::socket::{self, SocketRequest};
use deadheat_base::error::{Error, Result};

/// Number of connections that may wait to be accepted, as with the standard library.
const BACKLOG: i32 = 128;

/// Host of the network. Its sockets are ordinary ones, for any thread of this process, and stay on its network
/// wherever they are used.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    emulator: &'a Emulator,
    /// Index among the hosts of the network.
    index: usize,
}

impl<'a> Host<'a> {
    pub(super) fn new(emulator: &'a Emulator, index: usize) -> Host<'a> {
        Host { emulator, index }
    }

    /// Returns its IPv4 address on the first link: 198.18.0.1 is near, 198.18.0.2 far.
    pub fn address(&self) -> IpAddr {
        self.addresses().next().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// Returns its addresses, link by link: IPv4 and, where there is IPv6, IPv6.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.emulator.built().of_host(self.index)
    }

    /// Opens a datagram socket bound to a port of [`Host::address`]; 0 is any.
    ///
    /// # Errors
    /// [`Error::Setup`] with the error of socket(2) or bind(2).
    pub fn udp(&self, port: u16) -> Result<UdpSocket> {
        self.bound(Type::DGRAM, SocketAddr::new(self.address(), port)).map(UdpSocket::from)
    }

    /// Opens a listener at a port of [`Host::address`]; 0 is any.
    ///
    /// # Errors
    /// As for [`Host::udp`], and with the error of listen(2).
    pub fn listen(&self, port: u16) -> Result<TcpListener> {
        let at = SocketAddr::new(self.address(), port);
        let socket = self.bound(Type::STREAM, at)?;
        socket.listen(BACKLOG).map_err(|e| Error::setup(format!("listen at {at}"), e))?;
        Ok(socket.into())
    }

    /// Connects from here, and waits until the other end has answered.
    ///
    /// # Errors
    /// [`Error::Setup`] with the error of connect(2).
    pub fn connect(&self, to: impl Into<SocketAddr>) -> Result<TcpStream> {
        let to = to.into();
        let socket = self.socket(Domain::for_address(to), Type::STREAM, None)?;
        socket.connect(&to.into()).map_err(|e| Error::setup(format!("connect to {to}"), e))?;
        Ok(socket.into())
    }

    /// Opens an unbound socket of any kind, raw ones included.
    ///
    /// # Errors
    /// [`Error::Setup`] with the error of socket(2).
    pub fn socket(&self, domain: Domain, kind: Type, protocol: Option<Protocol>) -> Result<Socket> {
        self.made(SocketRequest::new(domain, kind, protocol), || "make a socket".to_owned())
    }

    /// Opens a datagram or stream socket bound to any address of the host.
    ///
    /// # Errors
    /// As for [`Host::udp`].
    pub fn bound(&self, kind: Type, at: SocketAddr) -> Result<Socket> {
        self.made(SocketRequest::at(kind, at), || format!("bind to {at}"))
    }

    fn made(&self, wanted: SocketRequest, what: impl Fn() -> String) -> Result<Socket> {
        let failed = |e| Error::setup(format!("{} at a host of the network", what()), e);
        let entry = self.emulator.entry(self.index)?;
        let mut made = socket::behind(&entry, &[wanted]).map_err(failed)?;
        made.pop().map(Socket::from).ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
    }

    /// Prepares a command that will run here, as a child of this process. It sees the files and processes of this
    /// machine, and this network alone.
    ///
    /// # Errors
    /// [`Error::Setup`] where this process has no descriptors left.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let entry = self.emulator.entry(self.index)?;
        let mut command = Command::new(program);
        let failed = |e| Error::setup("keep the namespaces of a host", e);
        entry.prepare_for_later(&mut command).map_err(failed)?;
        Ok(command)
    }
}
