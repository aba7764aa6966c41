//! Translation of addresses between the two ends: a port-forward, a NAT or a load balancer.
//!
//! The address that a race dials is then not the one at which the server sees the connection. TCP and UDP of the server's port
//! reach it all the same. Echo requests have no port: they are answered by the host that has the dialled address, which may
//! be a router in front of the server.

use std::net::IpAddr;

use super::kind::address;
use crate::result::outcome::Outcome;

/// Addresses of the far end that should be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslatedAddress {
    /// Address that the race dials.
    pub dialled: IpAddr,
    /// Address at which the server sees the race's connection arrive.
    pub reached: IpAddr,
}

/// Returns both addresses of the far end where they differ; `None` where they are one, or one of them is not known.
pub fn translated(outcome: &Outcome) -> Option<TranslatedAddress> {
    let dialled = address(outcome)?;
    let reached = outcome.peer_host.as_ref()?.reached_at?.to_canonical();
    (dialled != reached).then_some(TranslatedAddress { dialled, reached })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::facts::HostFacts;
    use crate::race::testing;

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
