//! Translation of addresses between the two ends: a port-forward, a NAT or a load balancer.
//!
//! The server then sees the connection at another address than the dialled one. TCP and UDP to the server's port
//! arrive all the same. Echo requests have no port: the host with the dialled address answers them, which may be a
//! router in front of the server.

use std::net::IpAddr;

use super::kind::address;
use crate::outcome::Outcome;
use deadheat_records::host::HostFacts;
use deadheat_records::trial::PathFacts;

/// Two addresses of the far end that should be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslatedAddress {
    /// Address dialled by the race.
    pub dialled: IpAddr,
    /// Address at which the server received the connection.
    pub reached: IpAddr,
}

/// Returns both addresses of the far end if they differ; `None` if they are equal, or if one is not known.
pub fn translated(outcome: &Outcome) -> Option<TranslatedAddress> {
    TranslatedAddress::of(&outcome.path, outcome.peer_host.as_ref())
}

impl TranslatedAddress {
    /// Returns both addresses of the far end of a path, as [`translated`] does.
    pub fn of(path: &PathFacts, far: Option<&HostFacts>) -> Option<TranslatedAddress> {
        let dialled = address(path)?;
        let reached = far?.reached_at?.to_canonical();
        (dialled != reached).then_some(TranslatedAddress { dialled, reached })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn addresses_that_differ_are_found_however_they_are_written() {
        let mut outcome = testing::outcome(2);
        outcome.path.address = "192.0.2.7:5210".into();
        assert_eq!(translated(&outcome), None);
        let reached_at = |text: &str| {
            let reached_at = Some(text.parse().unwrap());
            Some(HostFacts { reached_at, ..HostFacts::default() })
        };
        for same in ["192.0.2.7", "::ffff:192.0.2.7"] {
            outcome.peer_host = reached_at(same);
            assert_eq!(translated(&outcome), None, "{same}");
        }
        outcome.peer_host = reached_at("10.0.0.5");
        let seen = translated(&outcome).unwrap();
        assert_eq!(
            (seen.dialled.to_string(), seen.reached.to_string()),
            ("192.0.2.7".into(), "10.0.0.5".into())
        );
        outcome.path.address = String::new();
        assert_eq!(translated(&outcome), None);
    }
}
