//! Exchange with a server about probes of the path to it, between two trials.

use std::sync::atomic::AtomicBool;

use crate::control::remote::RemoteServer;
use crate::control::{FromServer, ToAgent};
use crate::lead::exchange::{answer, say, who};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::measurements::path_mtu::PathMtu;
use deadheat_datapath::datapath::datagram::Binding;
use deadheat_datapath::datapath::origin;
use deadheat_datapath::transport::hello::{Hello, Token};
use deadheat_datapath::transport::path_mtu::{self, LARGEST, SearchLimits};
use deadheat_datapath::transport::udp_handshake::{self, FlowTerms, UDP};
use deadheat_records::probed::UnknownMtu;

/// Longest time for a welcome over UDP.
const WELCOME_TIMEOUT: Nanos = Nanos::from_secs(2);

/// Longest time for a search.
const SEARCH_TIMEOUT: Nanos = Nanos::from_secs(20);

/// Result of probing a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathFinding {
    /// Within this host, or like it: no packet is too large for such a path.
    Local,
    /// Datagrams get through, in packets of this size.
    Through(PathMtu),
    /// No datagram got through, and control did.
    Blocked {
        /// True if hellos arrived at the server, so that only its answers are lost.
        arrived: bool,
        /// Hellos that were sent, and for how long.
        evidence: String,
    },
    /// Unknown: the path was not probed to the end.
    Unknown(UnknownMtu),
}

impl PathFinding {
    /// Returns true if it says the same; the evidence of each may differ.
    pub(super) fn is_like(&self, other: &PathFinding) -> bool {
        match (self, other) {
            (PathFinding::Blocked { arrived, .. }, PathFinding::Blocked { arrived: other, .. }) => {
                arrived == other
            }
            _ => self == other,
        }
    }
}

/// Probes the path to a server, which runs no trial of this race now. A failure stops no trial: it leaves the path
/// unknown.
pub(super) fn probe(server: &RemoteServer, stop: &AtomicBool) -> PathFinding {
    let kernel = origin::path_mtu_to(&server.address.into());
    if kernel.is_some_and(|mtu| mtu > LARGEST as usize) {
        return PathFinding::Local;
    }
    if !server.spoken.answers_probes {
        return PathFinding::Unknown(UnknownMtu::OldServer);
    }
    exchange(server, stop).unwrap_or_else(|_| {
        // An answer that is still to come would be taken for one to the next trial.
        server.control.lose();
        PathFinding::Unknown(UnknownMtu::Silent)
    })
}

fn exchange(server: &RemoteServer, stop: &AtomicBool) -> Result<PathFinding> {
    let token = Token::fresh()?;
    say(server, &ToAgent::Probe { token }, "probes")?;
    match answer(server, stop)? {
        FromServer::Probing => {}
        FromServer::Refused(_) => return Ok(PathFinding::Unknown(UnknownMtu::Refused)),
        _ => return Err(Error::peer(who(server), "it answered no request for probes")),
    }
    let found = search(server, Hello { token, flow: 0 }, stop);
    say(server, &ToAgent::Stop, "probes")?;
    let FromServer::Probed { arrived } = answer(server, stop)? else {
        return Err(Error::peer(who(server), "it did not end the probes"));
    };
    Ok(match found {
        Ok(Some(mtu)) => PathFinding::Through(mtu),
        Err(Error::Blocked { evidence }) => PathFinding::Blocked { arrived, evidence },
        Ok(None) | Err(_) => PathFinding::Unknown(UnknownMtu::Silent),
    })
}

fn search(server: &RemoteServer, hello: Hello, stop: &AtomicBool) -> Result<Option<PathMtu>> {
    let to = server.address;
    // The server takes datagrams from the address that control comes from.
    let prepare = &|socket: &socket2::Socket| server.origin().bind(socket, to);
    let began = Monotonic.now();
    let terms = FlowTerms { hello, timeout: WELCOME_TIMEOUT, binding: Binding::Connected };
    let flow = udp_handshake::dial(UDP, to, terms, prepare)?;
    let now = Monotonic.now();
    let limits = SearchLimits { deadline: now + SEARCH_TIMEOUT, round_trip: now - began, stop };
    path_mtu::find(flow.socket, hello, limits)
        .map_err(|e| Error::setup(format!("probe the path to {to}"), e))
}
