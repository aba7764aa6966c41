//! Way through a relay, as a race finds it: the server, its credentials, and the largest packet that passes.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::lead::far::Far;
use deadheat_base::error::{Error, Result};
use deadheat_base::units::hex::hex;
use deadheat_datapath::datapath::origin::path_mtu_to;
use deadheat_datapath::transport::via::Via;
use deadheat_path::Family;

use super::{OVERHEAD, TurnCredentials};

/// Relay between two ends.
#[derive(Debug)]
pub(crate) struct RelayWay {
    /// Address of an existing TURN server.
    pub(crate) server: Option<SocketAddr>,
    /// Name and password that the TURN server asks for.
    pub(crate) credentials: Option<TurnCredentials>,
    /// Largest IP packet that an end may send unfragmented. A relay at an end's own host hides the path from it.
    pub(crate) mtu: Option<u32>,
}

impl RelayWay {
    /// Finds the way of a contender to the far end; `None` if there is no relay on it.
    ///
    /// # Errors
    /// [`Error::Usage`] if the way cannot lead there; [`Error::Setup`] if a host has no address, or without a source of
    /// randomness.
    pub(crate) fn of(via: &Via, far: &Far) -> Result<Option<RelayWay>> {
        let (server, credentials) = match via {
            Via::Direct => return Ok(None),
            Via::Relay | Via::RelayAt { .. } => (None, None),
            Via::Coturn => (None, Some(fresh()?)),
            Via::Turn { host, port } => {
                (Some(find(host, *port, far)?), TurnCredentials::from_environment()?)
            }
        };
        let relay = match via {
            Via::RelayAt { host } => far.relay(host).map(|relay| relay.address),
            _ => None,
        };
        let overhead = if via.is_turn() { OVERHEAD as u32 } else { 0 };
        let mtu = match (far, server.or(relay)) {
            (Far::Emulated(path), _) => Some(path.mtu()),
            (Far::Loopback(_) | Far::Servers(_) | Far::Others { .. }, Some(server)) => {
                mtu_to(server)
            }
            (Far::Loopback(family), None) => mtu_to(SocketAddr::new(family.loopback(), 9)),
            (Far::Servers(_), None) => far.first_server().and_then(|far| mtu_to(far.address)),
            (Far::Others { address, .. }, None) => mtu_to(*address),
        };
        let mtu = mtu.map(|mtu| mtu.saturating_sub(overhead));
        Ok(Some(RelayWay { server, credentials, mtu }))
    }
}

fn mtu_to(at: SocketAddr) -> Option<u32> {
    path_mtu_to(&at.into()).and_then(|mtu| u32::try_from(mtu).ok())
}

/// Generates a name and a password for one trial.
fn fresh() -> Result<TurnCredentials> {
    let mut password = [0; 16];
    getrandom::fill(&mut password)
        .map_err(|why| Error::setup("make a password", std::io::Error::other(why.to_string())))?;
    Ok(TurnCredentials { user: "deadheat".into(), password: hex(&password) })
}

/// Finds the address of a TURN server, of the far end's IP version.
fn find(host: &str, port: u16, far: &Far) -> Result<SocketAddr> {
    let is_v4 = match far {
        Far::Emulated(_) => {
            return Err(Error::usage(format!(
                "via=turn:{host}: no host of an emulated path has it; via=coturn starts a TURN server there"
            )));
        }
        Far::Loopback(Family::V6) => false,
        Far::Loopback(_) => true,
        Far::Servers(_) => {
            far.first_server().is_none_or(|far| far.address.ip().to_canonical().is_ipv4())
        }
        Far::Others { address, .. } => address.ip().to_canonical().is_ipv4(),
    };
    let failed = |e| Error::setup(format!("find the TURN server {host}:{port}"), e);
    let mut found = (host, port).to_socket_addrs().map_err(failed)?;
    found.find(|at| at.is_ipv4() == is_v4).ok_or_else(|| {
        let version = if is_v4 { "IPv4" } else { "IPv6" };
        Error::usage(format!(
            "the TURN server {host} has no {version} address, which the far end has"
        ))
    })
}
