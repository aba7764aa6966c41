#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | contents |
//! |---|---|
//! | [`grammar`], [`profile`], [`mod@files`], [`trace`] | parsers, from words and files to a network |
//! | [`network`], [`routes`], [`addresses`], [`mod@kind`] | network of hosts, as plain data; the ways in it; its kind |
//! | [`impair`] | fate of each packet: pure, time is an argument |
//! | [`nat`] | NAT and stateful firewall of a link, pure as well |
//! | [`observe`] | observers of packets: captures, trains and gaps |
//! | [`emulator`] | running network: sockets and commands at its hosts, its account |
//! | [`measurements`], [`gate`] | figures of a network, and their check against the request |
//! | [`mod@run`] | any program on an emulated network |
//! | [`emulated`], [`netem`], [`segment`] | hosts, devices and threads; the kernel's own emulator; super-packets and their segments |

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use self::files::ReadFile;
use self::grammar::Carrier;

pub mod addresses;
pub mod block;
pub mod down;
pub mod emulated;
pub mod emulator;
pub mod files;
pub mod gate;
pub mod grammar;
pub mod impair;
pub mod kind;
pub mod measurements;
pub mod nat;
pub mod netem;
pub mod network;
pub mod observe;
pub mod profile;
pub mod routes;
pub mod run;
pub mod segment;
pub mod trace;

pub use deadheat_base::ends::{Direction, Side};
pub use deadheat_base::error::{Error, Result};
pub use deadheat_base::time::Nanos;
pub use emulated::lag::SenderCpus;
pub use emulator::{Emulator, Host};
pub use impair::Channel;
pub use impair::packet::{Departure, End, Packet};
pub use kind::PathKind;
pub use network::Network;

/// Beginning of a path in virtual time, as typed.
const SIMULATED: &str = "sim:";

/// Path between two ends on this machine, as typed.
#[derive(Debug, Clone, PartialEq)]
pub enum PathSpec {
    /// Loopback interface.
    Loopback,
    /// Network of its own, in real time.
    Emulated(Network),
    /// Network of its own, in virtual time.
    Simulated(Network),
}

impl PathSpec {
    /// Reads a path as typed: `loopback`, links as [`Network::parse`] does, or `sim:` and links.
    ///
    /// # Errors
    /// As for [`Network::parse`].
    pub fn parse(typed: &str) -> Result<PathSpec> {
        PathSpec::parse_with(typed, &mut files::read)
    }

    /// Parses as [`PathSpec::parse`] does, with files from `read`.
    ///
    /// # Errors
    /// As for [`Network::parse_with`].
    pub fn parse_with(typed: &str, read: ReadFile<'_>) -> Result<PathSpec> {
        let typed = typed.trim();
        if typed == "loopback" {
            return Ok(PathSpec::Loopback);
        }
        match typed.strip_prefix(SIMULATED) {
            Some(links) => grammar::parse(links, Carrier::Simulated, read).map(PathSpec::Simulated),
            None => grammar::parse(typed, Carrier::Emulated, read).map(PathSpec::Emulated),
        }
    }
}

impl fmt::Display for PathSpec {
    /// Writes it as [`PathSpec::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathSpec::Loopback => f.write_str("loopback"),
            PathSpec::Emulated(network) => network.fmt(f),
            PathSpec::Simulated(network) => write!(f, "sim:{network}"),
        }
    }
}

/// Address family: the IP version to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// First address that the name resolves to; IPv4 on loopback.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Returns true if an address is of this family.
    pub fn has(self, address: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }

    /// Returns the loopback address of this family.
    pub fn loopback(self) -> IpAddr {
        match self {
            Family::Any | Family::V4 => IpAddr::from([127, 0, 0, 1]),
            Family::V6 => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_loopback_emulated_or_simulated() {
        assert_eq!(PathSpec::parse("loopback").unwrap(), PathSpec::Loopback);
        let network = Network::parse("delay=25ms,loss=1%").unwrap();
        assert_eq!(
            PathSpec::parse("delay=25ms,loss=1%").unwrap(),
            PathSpec::Emulated(network.clone())
        );
        assert_eq!(
            PathSpec::parse("sim:delay=25ms,loss=1%").unwrap(),
            PathSpec::Simulated(network)
        );
        let say = |typed: &str| PathSpec::parse(typed).unwrap_err().to_string();
        assert!(say("lopback").contains("did you mean `loopback`?"));
        assert!(say("sim:loopback").contains("stands alone"));
        assert!(say("loopback,delay=1ms").contains("stands alone"));
        assert!(say("delay=1ms + sim:delay=1ms").contains("in front of the whole path"));
        assert!(say("sim:").contains("a link without words"));
        for whole in ["mtu=1280", "backend=tun", "wait=spin", "mode=strict"] {
            assert!(say(&format!("sim:delay=1ms,{whole}")).contains("no devices"), "{whole}");
        }
    }

    #[test]
    fn a_path_prints_as_it_is_read() {
        for typed in ["loopback", "delay=25ms,loss=1%", "sim:delay=25ms,seed=7"] {
            assert_eq!(PathSpec::parse(typed).unwrap().to_string(), typed);
        }
    }
}
