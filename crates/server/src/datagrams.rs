//! UDP side of the port: receives hellos, hands them over, and never sends a byte.

use std::io;
use std::os::fd::AsFd;

use super::Shared;
use super::socket::{Sockets, beside, receive as receive_one};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::hello::{self, Hello};

/// Number of datagrams received per call, so that a flood of them leaves time for connections.
const AT_ONCE: usize = 64;

/// Receives the datagrams that have arrived. A datagram that is not a hello is dropped without a log line: the tail of
/// an ended trial looks just like it.
pub(super) fn receive(sockets: &Sockets, shared: &Shared, now: Nanos) {
    // One byte more than a hello, so that a longer datagram is not mistaken for one.
    let mut buffer = [0; hello::LEN + 1];
    for _ in 0..AT_ONCE {
        let got = match receive_one(sockets.udp.as_fd(), &mut buffer) {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            // The socket sends nothing, so this is no ICMP answer; receive the next one.
            Err(_) => continue,
        };
        let Some(hello) = Hello::decode(&buffer[..got.len]) else {
            continue;
        };
        let ip = got.to.unwrap_or(sockets.local.ip());
        let local = beside(got.peer, ip, sockets.local.port());
        if let Err(why) = shared.token_table.hand_datagrams("UDP", &hello, local, (got.peer, now)) {
            shared.scribe.stranger(now, got.peer, &why);
        }
    }
}
