//! What lies between the two ends: this machine's loopback, or the way to a server elsewhere.
//!
//! Here a path is words and addresses only. How agents are started at its ends is `trial`'s affair.

use std::net::{IpAddr, SocketAddr};

use crate::error::{Error, Result, unknown};

pub mod emulated;
pub mod impair;
pub mod network;
pub mod segment;
pub mod trace;

/// The port that servers listen on unless told otherwise, TCP and UDP.
pub const DEFAULT_PORT: u16 = 5210;

/// A path inside this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPath {
    /// The loopback interface.
    Loopback,
}

/// Keys of impairments, so that who asks for one learns that they are for a later version.
const IMPAIRMENTS: &[&str] =
    &["delay", "jitter", "loss", "rate", "queue", "trace", "sim", "backend"];

impl LocalPath {
    /// Every local path by name, with what it is.
    pub const ALL: &[(&str, &str)] =
        &[("loopback", "the far end is another process on this machine")];

    /// Reads a path as typed.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is wrong and what would be right.
    pub fn parse(typed: &str) -> Result<LocalPath> {
        if typed == "loopback" {
            return Ok(LocalPath::Loopback);
        }
        let word = typed.split(['=', ':']).next().unwrap_or(typed);
        let word = word.strip_prefix("up.").or(word.strip_prefix("down.")).unwrap_or(word);
        if IMPAIRMENTS.contains(&word) {
            return Err(Error::usage(format!(
                "path `{typed}`: emulated paths are not in this version; `loopback` and --to HOST are"
            )));
        }
        let names: Vec<&str> = LocalPath::ALL.iter().map(|(name, _)| *name).collect();
        Err(unknown("path", typed, &names))
    }
}

/// Which IP version to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Whatever the name resolves to first; IPv4 on loopback.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Whether an address is of this family.
    pub fn has(self, address: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }

    /// The loopback address of this family.
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
    fn every_listed_path_parses_and_others_are_named() {
        for (name, _) in LocalPath::ALL {
            assert!(LocalPath::parse(name).is_ok());
        }
        let say = |typed: &str| LocalPath::parse(typed).unwrap_err().to_string();
        assert!(say("lopback").contains("did you mean `loopback`?"));
        assert!(say("delay=25ms,loss=1%").contains("not in this version"));
        assert!(say("up.rate=1mbit").contains("not in this version"));
    }
}
