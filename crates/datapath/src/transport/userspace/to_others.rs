//! Connections to programs of others over UDP: the protocol's own handshake is the first packet.

use super::over_udp::{OverUdp, prepare_with};
use super::parameters::{ConnParameters, Ends, Sockets};
use super::session::Make;
use std::net::SocketAddr;

use crate::datapath::ip_header::ArrivedHeader;
use crate::transport::header::HeaderTerms;
use crate::transport::udp_handshake::{self, UDP};
use crate::transport::{Conn, Dial, Info};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;

/// Opens a connection to a program of others, with the protocol that `make` returns and without a flow of ours below it.
///
/// # Errors
/// [`deadheat_base::error::Error::Blocked`] where nothing answers or the handshake does not end in time; otherwise the failed
/// operation.
pub fn dial_others(info: &'static Info, dial: &Dial<'_>, make: Make<'_>) -> Result<Box<dyn Conn>> {
    let to = dial.to.ip(info.id)?;
    let terms = HeaderTerms::of(dial.knobs);
    let out = udp_handshake::connected(UDP, to, &|socket| prepare_with(socket, terms))?;
    let ends = Ends { side: Side::Near, hello: dial.hello, peer: to };
    let sockets = Sockets { out, arrivals: None, arrived: ArrivedHeader::default() };
    connect_others(info, sockets, &ends, dial, make)
}

/// Opens one end to a program of others over existing sockets, and runs its handshake: bulk data is bytes, and the protocol
/// ends with the connection.
///
/// # Errors
/// As [`super::over_udp::connect`], with the evidence of what the far end did.
fn connect_others(
    info: &'static Info,
    sockets: Sockets,
    ends: &Ends,
    dial: &Dial<'_>,
    make: Make<'_>,
) -> Result<Box<dyn Conn>> {
    let deadline = Monotonic.now() + dial.timeout;
    let asked = ConnParameters::of(dial, deadline);
    let mut conn = OverUdp::new(info, sockets, ends, asked, make)?;
    conn.session.carry_bulk_as_bytes();
    let shaken = conn.shake_hands(ends, deadline);
    conn.connect = shaken.map_err(|error| match error {
        Error::Blocked { .. } => conn.unanswered(ends.peer, dial.timeout),
        other => other,
    })?;
    conn.parts = true;
    Ok(Box::new(conn))
}

impl OverUdp {
    /// Returns the error of a handshake with a program of others that did not end.
    fn unanswered(&self, to: SocketAddr, timeout: Nanos) -> Error {
        let label = self.session.label();
        let evidence = match (self.session.has_received(), self.network_errors) {
            (true, _) => "its datagrams arrive, and the handshake does not end",
            (false, 0) => {
                "no datagram came back: nothing of that kind runs there, or the way drops UDP"
            }
            (false, _) => "the host reports that nothing listens on that UDP port",
        };
        Error::blocked(format!("no {label} server answered at {to} within {timeout}; {evidence}"))
    }
}

impl Drop for OverUdp {
    fn drop(&mut self) {
        if self.parts {
            let now = Monotonic.now();
            self.session.finish(now);
            // Without it the far end gives the connection up by itself.
            let _ = self.transmit(now);
        }
    }
}
