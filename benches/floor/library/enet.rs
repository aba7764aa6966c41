//! ENet with its own loop: `service` until there is no event, on a socket of the standard library.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rusty_enet::{Event, Host, HostSettings, MTU_MAX, Packet, PacketReceived, PeerID, Socket};

use super::{DATAGRAM, MESSAGE};

const PEER: PeerID = PeerID(0);
/// Messages that wait to be sent beside the 64 KiB that ENet has under way.
const WAITING: u64 = (64 << 10) / MESSAGE as u64;

/// The library's own socket, with the full datagrams counted that went out.
struct Counting {
    socket: UdpSocket,
    full: u64,
}

impl Socket for Counting {
    type Address = SocketAddr;
    type Error = io::Error;

    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> io::Result<usize> {
        self.full += u64::from(datagram.len() >= MESSAGE);
        Socket::send(&mut self.socket, to, datagram)
    }

    fn receive(
        &mut self,
        into: &mut [u8; MTU_MAX],
    ) -> io::Result<Option<(SocketAddr, PacketReceived)>> {
        Socket::receive(&mut self.socket, into)
    }
}

pub(super) struct Machine {
    host: Host<Counting>,
    is_open: bool,
    message: [u8; MESSAGE],
    written: u64,
    received: u64,
}

impl Machine {
    /// Creates an end, which connects `to` the other one or waits for it.
    pub(super) fn new(socket: UdpSocket, to: Option<SocketAddr>) -> io::Result<Machine> {
        let settings = HostSettings { peer_limit: 1, channel_limit: 1, ..HostSettings::default() };
        let socket = Counting { socket, full: 0 };
        let mut host = Host::new(socket, settings).map_err(|e| io::Error::other(e.to_string()))?;
        host.set_mtu(DATAGRAM as u16).map_err(io::Error::other)?;
        host.peer_mut(PEER).set_mtu(DATAGRAM as u16).map_err(io::Error::other)?;
        if let Some(to) = to {
            host.connect(to, 1, 0).map_err(|e| io::Error::other(e.to_string()))?;
        }
        Ok(Machine { host, is_open: false, message: [1; MESSAGE], written: 0, received: 0 })
    }
}

impl super::Machine for Machine {
    fn take(&mut self) -> io::Result<bool> {
        let mut arrived = false;
        while let Some(event) = self.host.service()? {
            arrived = true;
            match event {
                Event::Connect { .. } => self.is_open = true,
                Event::Receive { packet, .. } => self.received += packet.data().len() as u64,
                Event::Disconnect { .. } => return Err(io::Error::other("the peer went away")),
            }
        }
        Ok(arrived)
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn write(&mut self) -> io::Result<bool> {
        let mut wrote = false;
        while self.written.saturating_sub(self.host.socket().full) < WAITING {
            let packet = Packet::reliable(&self.message[..]);
            self.host.peer_mut(PEER).send(0, &packet).map_err(io::Error::other)?;
            self.written += 1;
            wrote = true;
        }
        Ok(wrote)
    }

    fn give(&mut self) -> io::Result<()> {
        self.host.flush();
        Ok(())
    }

    fn read(&mut self) -> io::Result<u64> {
        Ok(std::mem::take(&mut self.received))
    }

    fn due(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}
