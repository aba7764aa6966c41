//! Welcome of a flow that was accepted, until it is confirmed.

use std::io;
use std::os::fd::AsFd;

use socket2::Socket;

use super::{HandshakeDatagram, read, read_with_header};
use crate::datapath::datagram::{is_full, is_network_error};
use crate::datapath::ip_header::ArrivedHeader;
use crate::transport::handover::readable;
use crate::transport::hello::Hello;
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Time of silence for which the far end waits for a welcome to be confirmed. A near end that has not received it
/// repeats its hello every 400 ms, so two in a row must be lost to be mistaken for a lost confirmation.
const SETTLE: Nanos = Nanos::from_secs(1);

/// Welcomes the peer until it confirms, sends data, or has been silent for so long that it must have received the
/// welcome. Returns the header of the last packet that arrived, where the kernel reports it.
///
/// # Errors
/// The errors of send(2) and recv(2), except errors about an earlier datagram.
pub fn settle(socket: &Socket, hello: &Hello, deadline: Nanos) -> io::Result<ArrivedHeader> {
    // Not all protocols of the kernel report headers.
    let is_announced = ArrivedHeader::announce(socket, true).is_ok();
    let mut arrived = ArrivedHeader::default();
    let settled = settle_noting(socket, hello, deadline, &mut arrived);
    if is_announced {
        ArrivedHeader::announce(socket, false)?;
    }
    settled.map(|()| arrived)
}

fn settle_noting(
    socket: &Socket,
    hello: &Hello,
    deadline: Nanos,
    arrived: &mut ArrivedHeader,
) -> io::Result<()> {
    let (question, welcome) = (hello.encode(), hello.encode_welcome());
    let mut since = Monotonic.now();
    let send = || match socket.send_with_flags(&welcome, libc::MSG_DONTWAIT) {
        Err(error) if !is_full(&error) && !is_network_error(&error) => Err(error),
        _ => Ok(()),
    };
    send()?;
    loop {
        let now = Monotonic.now();
        let until = (since + SETTLE).min(deadline);
        if now >= until {
            return Ok(());
        }
        if !readable(socket.as_fd(), until - now)? {
            continue;
        }
        let peeked = read_with_header(socket, libc::MSG_PEEK).map(|(datagram, header)| {
            *arrived = header.or(*arrived);
            datagram
        });
        match peeked {
            Ok(HandshakeDatagram::Exactly(bytes)) if bytes == welcome => {
                read(socket, 0)?;
                return Ok(());
            }
            Ok(HandshakeDatagram::Exactly(bytes)) if bytes == question => {
                read(socket, 0)?;
                send()?;
                since = now;
            }
            Ok(_) => return Ok(()),
            Err(error) if is_full(&error) || is_network_error(&error) => {}
            Err(error) => return Err(error),
        }
    }
}
