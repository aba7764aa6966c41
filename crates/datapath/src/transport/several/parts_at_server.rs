//! Connections of several parts at a server, which has one port and one hand-over channel for a trial: the parts number
//! their connections in turns, and each part gets its own.
//!
//! ```text
//! flow 0: part a presents 0, part b 1      flow 1: part a presents 2, part b 3
//! ```

use std::os::fd::AsFd;
use std::thread;

use crate::transport::handover::{ConnectionSource, HandOver, HandedConnection};
use crate::transport::hello::Hello;
use crate::transport::{Address, Conn, Dial, Listener};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;

use super::endpoints;

/// Returns the endpoint and the hello of a part when the contender dials.
///
/// # Errors
/// [`Error::Peer`] for an address that no far end of several parts has; [`Error::Usage`] for more connections than there
/// are numbers.
pub(super) fn target(dial: &Dial<'_>, parts: usize, part: usize) -> Result<(Address, Hello)> {
    match dial.to {
        to @ Address::Ip(_) => {
            let number = usize::from(dial.hello.flow) * parts + part;
            let number = u16::try_from(number).map_err(|_| {
                Error::usage(format!(
                    "a contender of {parts} parts opens {} connections at most at a server, as their numbers have 16 \
                     bits; ask for fewer",
                    (1 << 16) / parts
                ))
            })?;
            Ok((to.clone(), Hello { flow: number, ..dial.hello }))
        }
        several => Ok((endpoints(several, parts)?[part].clone(), dial.hello)),
    }
}

/// Returns the source of connections of each part.
///
/// # Errors
/// Fails if the kernel gives no socket pair or thread.
pub(super) fn sources(door: ConnectionSource, parts: usize) -> Result<Vec<ConnectionSource>> {
    let ConnectionSource::Handed(door) = door else {
        return Ok((0..parts).map(|_| ConnectionSource::Own).collect());
    };
    let failed = |e| Error::setup("share a server's connections out among the parts", e);
    let pairs: Vec<(HandOver, HandOver)> =
        (0..parts).map(|_| HandOver::pair()).collect::<Result<_, _>>().map_err(failed)?;
    let (give, take): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    thread::Builder::new()
        .name("parts".to_owned())
        .spawn(move || share_out(&door, &give))
        .map_err(failed)?;
    Ok(take.into_iter().map(ConnectionSource::Handed).collect())
}

/// Passes each connection on to its part until the server ends the channel. A part that takes none any more gets none.
fn share_out(door: &HandOver, parts: &[HandOver]) {
    /// Time between two looks at a channel without connections.
    const LONG: Nanos = Nanos::from_secs(3_600);
    while let Ok(handed) = door.take(LONG) {
        let of = |number: u16| &parts[usize::from(number) % parts.len()];
        let _ = match handed {
            None => Ok(()),
            Some(HandedConnection::Stream { flow, socket }) => {
                of(flow).give_stream(flow, socket.as_fd())
            }
            Some(HandedConnection::Datagrams { flow, local, peer, is_proved: true }) => {
                of(flow).give_datagrams(flow, local, peer)
            }
            Some(HandedConnection::Datagrams { flow, local, peer, is_proved: false }) => {
                of(flow).give_unproved(flow, local, peer)
            }
        };
    }
}

/// Listener of a part at a server: turns the numbers of its connections into the numbers of flows.
pub(super) struct PartListener {
    pub(super) listener: Box<dyn Listener>,
    pub(super) parts: u16,
}

impl Listener for PartListener {
    fn endpoint(&self) -> Address {
        self.listener.endpoint()
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let (number, conn) = self.listener.accept(timeout)?;
        Ok((number / self.parts, conn))
    }

    fn stays(&self) -> bool {
        self.listener.stays()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_gets_the_connections_with_its_numbers() {
        let (server, agent) = HandOver::pair().unwrap();
        let at = "127.0.0.1:9".parse().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        server.give_stream(2, socket.as_fd()).unwrap();
        server.give_datagrams(3, at, at).unwrap();
        let sources = sources(ConnectionSource::Handed(agent), 2).unwrap();
        let taken = sources.into_iter().map(|source| match source {
            ConnectionSource::Handed(door) => door.take(Nanos::from_secs(10)).unwrap().unwrap(),
            ConnectionSource::Own => panic!("a socket of its own"),
        });
        let taken: Vec<HandedConnection> = taken.collect();
        assert!(matches!(taken[0], HandedConnection::Stream { flow: 2, .. }), "{taken:?}");
        assert!(matches!(taken[1], HandedConnection::Datagrams { flow: 3, .. }), "{taken:?}");
    }
}
