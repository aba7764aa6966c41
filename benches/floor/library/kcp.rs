//! KCP with the settings of its manual for low latency, as `kcp` has them in a race.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::rc::Rc;
use std::time::Duration;

use kcp::Kcp;

use super::{DATAGRAM, MESSAGE, TAKEN, receive_one, send_one};
use crate::floor::sys;

/// Segments that may be under way.
const WINDOW: u16 = 128;

/// Sends what the library puts out, each write a datagram.
struct Out(Rc<UdpSocket>);

impl Write for Out {
    fn write(&mut self, datagram: &[u8]) -> io::Result<usize> {
        send_one(&self.0, datagram).map(|()| datagram.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) struct Machine {
    library: Kcp<Out>,
    socket: Rc<UdpSocket>,
    buffer: Vec<u8>,
    message: [u8; MESSAGE],
    is_fresh: bool,
}

impl Machine {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Machine> {
        let socket = Rc::new(socket);
        let mut library = Kcp::new(1, Out(Rc::clone(&socket)));
        library.set_mtu(DATAGRAM).map_err(io::Error::other)?;
        library.set_nodelay(true, 10, 2, true);
        library.set_wndsize(WINDOW, WINDOW);
        Ok(Machine {
            library,
            socket,
            buffer: vec![0; 65_536],
            message: [1; MESSAGE],
            is_fresh: false,
        })
    }

    fn tick(&mut self) -> io::Result<()> {
        self.library.update((sys::now() / 1_000_000) as u32).map_err(io::Error::other)
    }
}

impl super::Machine for Machine {
    fn take(&mut self) -> io::Result<bool> {
        self.tick()?;
        let mut arrived = false;
        for _ in 0..TAKEN {
            let Some(len) = receive_one(&self.socket, &mut self.buffer)? else { break };
            self.library.input(&self.buffer[..len]).map_err(io::Error::other)?;
            arrived = true;
        }
        self.is_fresh |= arrived;
        Ok(arrived)
    }

    fn is_open(&self) -> bool {
        true
    }

    fn write(&mut self) -> io::Result<bool> {
        let mut wrote = false;
        while self.library.wait_snd() < usize::from(WINDOW) {
            self.library.send(&self.message).map_err(io::Error::other)?;
            wrote = true;
        }
        self.is_fresh |= wrote;
        Ok(wrote)
    }

    fn give(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_fresh) {
            self.tick()?;
            self.library.flush().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<u64> {
        let mut bytes = 0;
        while let Ok(len) = self.library.recv(&mut self.buffer) {
            bytes += len as u64;
        }
        Ok(bytes)
    }

    fn due(&mut self) -> Option<Duration> {
        let is_waiting = self.library.wait_snd() > 0;
        let now = (sys::now() / 1_000_000) as u32;
        is_waiting.then(|| Duration::from_millis(u64::from(self.library.check(now).max(1))))
    }
}
