//! Parameters with which an end of a connection over UDP is opened.

use std::net::SocketAddr;

use crate::datapath::ip_header::ArrivedHeader;
use crate::transport::hello::Hello;
use crate::transport::{Dial, Listen, Tickets};
use deadheat_base::spec::Settings;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Service, Side};

/// Identity of a connection: this end, its token and flow, and its peer.
pub struct Ends {
    /// Side of this end.
    pub side: Side,
    /// Token and flow.
    pub hello: Hello,
    /// Address of the other end.
    pub peer: SocketAddr,
}

/// Parameters of a connection.
#[derive(Clone, Copy)]
pub struct ConnParameters<'a> {
    /// Knobs of the contender.
    pub knobs: &'a Settings,
    /// Services of its lanes.
    pub lanes: &'a [Service],
    /// Size of the largest message in bytes.
    pub largest_message: usize,
    /// Session tickets of the trial.
    pub tickets: &'a Tickets,
    /// Time by which its handshake ends.
    pub deadline: Nanos,
}

impl<'a> ConnParameters<'a> {
    /// Returns the parameters of a near end.
    pub fn of(dial: &Dial<'a>, deadline: Nanos) -> ConnParameters<'a> {
        let Dial { knobs, lanes, largest_message, tickets, .. } = *dial;
        ConnParameters { knobs, lanes, largest_message, tickets, deadline }
    }
}

/// Parameters of the connections of a listener.
pub struct ListenParameters {
    knobs: Settings,
    lanes: Vec<Service>,
    largest_message: usize,
    tickets: Tickets,
}

impl ListenParameters {
    /// Returns the parameters of far ends.
    pub fn of(listen: &Listen<'_>) -> ListenParameters {
        ListenParameters {
            knobs: listen.knobs.clone(),
            lanes: listen.lanes.to_vec(),
            largest_message: listen.largest_message,
            tickets: listen.tickets.clone(),
        }
    }

    /// Returns the parameters of one connection, whose handshake ends by `deadline`.
    pub fn until(&self, deadline: Nanos) -> ConnParameters<'_> {
        let ListenParameters { knobs, lanes, tickets, .. } = self;
        ConnParameters { knobs, lanes, largest_message: self.largest_message, tickets, deadline }
    }
}

/// Sockets of a connection.
pub struct Sockets {
    /// Socket that is connected to the destination of datagrams.
    pub out: socket2::Socket,
    /// Socket on which datagrams arrive; absent where it is the same one.
    pub arrivals: Option<socket2::Socket>,
    /// Header of a packet that arrived when the flow was opened.
    pub arrived: ArrivedHeader,
}
