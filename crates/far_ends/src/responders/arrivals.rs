//! Datagrams as they arrive at a responder: in bursts, so that a flood does not hold up the end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use deadheat_base::descriptor::ready;

use crate::datapath::answering::{AnswerSocket, Arrived};
use crate::error::{Error, Result};

/// Number of datagrams that are taken at once.
const AT_ONCE: usize = 64;

/// Answers datagrams until `stop` is readable.
///
/// # Errors
/// The error of poll(2), with the name of the clients that are waited for.
pub(super) fn answer_until(
    stop: BorrowedFd<'_>,
    udp: &AnswerSocket,
    clients: &str,
    mut answer: impl FnMut(&Arrived, &mut [u8]),
) -> Result<()> {
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
                Ok(arrived) => answer(&arrived, &mut datagram),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // An answer of ICMP to an earlier reply.
                Err(_) => {}
            }
        }
    }
}
