//! Datagrams as they arrive at a responder: in bursts, so that a flood does not hold up the end, and without those that may
//! be part of a loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use deadheat_base::descriptor::ready;

use super::loops::LoopGuard;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_datapath::datapath::answering::{AnswerSocket, Arrived};
use deadheat_datapath::transport::responder::{OpenResponder, ResponderHost};

/// Number of datagrams that are taken at once.
const AT_ONCE: usize = 64;

/// Responder over UDP that handles each datagram by itself.
pub(super) trait Answerer: Send {
    /// Answers a datagram, whose bytes are at the start of `packet`, or gives it no answer.
    fn answer(
        &mut self,
        udp: &AnswerSocket,
        host: &dyn ResponderHost,
        arrived: &Arrived,
        packet: &mut [u8],
    );
}

/// Opens the socket of an answerer to these clients.
///
/// # Errors
/// The failed operation with its address.
pub(super) fn open(
    at: SocketAddr,
    clients: &'static str,
    answerer: impl Answerer + 'static,
) -> Result<Box<dyn OpenResponder>> {
    let udp = AnswerSocket::bind(at)?;
    let local = udp.local_addr().map_err(|e| Error::setup("read an address", e))?;
    Ok(Box::new(OpenAnswerer { udp, local, clients, answerer, loops: LoopGuard::new() }))
}

/// Open responder.
struct OpenAnswerer<A> {
    udp: AnswerSocket,
    local: SocketAddr,
    clients: &'static str,
    answerer: A,
    loops: LoopGuard,
}

impl<A: Answerer> OpenResponder for OpenAnswerer<A> {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn serve(&mut self, host: &dyn ResponderHost, stop: BorrowedFd<'_>) -> Result<()> {
        let OpenAnswerer { udp, clients, answerer, loops, .. } = self;
        let mut datagram = vec![0; 1 << 16];
        loop {
            let fds = [(stop, libc::POLLIN), (udp.as_fd(), libc::POLLIN)];
            let is_ready =
                ready(fds, None).map_err(|e| Error::setup(format!("wait for {clients}"), e))?;
            if is_ready[0] {
                return Ok(());
            }
            for _ in 0..AT_ONCE {
                match udp.receive(&mut datagram) {
                    Ok(arrived) => {
                        if loops.judge(&arrived, host, Monotonic.now()).is_some() {
                            answerer.answer(udp, host, &arrived, &mut datagram);
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    // An answer of ICMP to an earlier reply.
                    Err(_) => {}
                }
            }
        }
    }
}
