//! Connections to programs of others over UDP: the protocol's own handshake is the first packet.

use super::over_udp::{ConnParameters, Ends, Sockets, connect, prepare_with};
use super::session::Make;
use crate::contract::Side;
use crate::datapath::ip_header::ArrivedHeader;
use crate::error::Result;
use crate::time::{Clock, Monotonic};
use crate::transport::header::HeaderTerms;
use crate::transport::udp_handshake::{self, UDP};
use crate::transport::{Address, Conn, Dial, Info, not_ip};

/// Opens a connection to a program of others, with the protocol that `make` returns and without a flow of ours below it.
///
/// # Errors
/// As [`connect`].
pub fn dial_others(info: &'static Info, dial: &Dial<'_>, make: Make<'_>) -> Result<Box<dyn Conn>> {
    let Address::Ip(to) = *dial.to else {
        return Err(not_ip(info.id, dial.to));
    };
    let deadline = Monotonic.now() + dial.timeout;
    let terms = HeaderTerms::of(dial.knobs);
    let out = udp_handshake::connected(UDP, to, &|socket| prepare_with(socket, terms))?;
    let ends = Ends { side: Side::Near, hello: dial.hello, peer: to };
    let asked = ConnParameters {
        knobs: dial.knobs,
        lanes: dial.lanes,
        largest_message: dial.largest_message,
        tickets: dial.tickets,
    };
    let sockets = Sockets { out, arrivals: None, arrived: ArrivedHeader::default() };
    connect(info, sockets, &ends, asked, deadline, make)
}
