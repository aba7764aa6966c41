//! Settings of the operator, with defaults and their reasons.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use deadheat_base::clocks::ClockMap;

use super::own_ports::Also;
use super::pairs::AllowedPairs;
use super::relay_to::RelayTo;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_datapath::transport::responder::Responder;
use deadheat_trial::control::key::ServerKey;
use deadheat_trial::control::{Limits, Secret};

pub use deadheat_trial::control::DEFAULT_PORT;

/// Default limits of a trial.
///
/// - 60 s: longer than any trial that a race plans by itself (seconds), short enough that a queue moves.
/// - 100 GB: a trial at the largest rate for its whole time moves 75 GB, so this limit only stops work with a wrong
///   size (`bulk:bytes=1TB`), and does so before it starts.
/// - 10 Gbit/s: the rate of a common server port; the operator of a faster host sets `--max-rate`.
/// - One at a time: two trials on one host measure each other.
pub const DEFAULT_LIMITS: Limits = Limits {
    duration_ns: Nanos::from_secs(60),
    bytes: 100_000_000_000,
    rate_bps: BitRate(10_000_000_000),
    concurrent: 1,
};

/// Settings of the operator.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen at.
    pub bind: Bind,
    /// Limits of each trial.
    pub limits: Limits,
    /// Allowance of bytes for all trials, and for the trials of one client.
    pub allowance: Allowance,
    /// Secret that a client must know.
    pub secret: Option<Secret>,
    /// Encryption of control.
    pub encryption: Encryption,
    /// Timeouts for peers.
    pub patience: Patience,
    /// Limits of the numbers of connections and queued trials.
    pub room: Room,
    /// True if it ends once a client that had a trial has left, and admits no other beside it.
    pub serves_one: bool,
    /// Protocols other than TCP and UDP whose ports it opens, too.
    pub also: Also,
    /// Far hosts to which it relays for its clients.
    pub relay_to: RelayTo,
    /// Pairs of commands whose server command it runs for its clients.
    pub pairs: AllowedPairs,
    /// Responders to the clients of other programs.
    pub responders: Vec<ResponderSetup>,
    /// Clock of the far ends, as a map from this host's: for tests of clocks that are apart.
    pub clock: ClockMap,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            bind: Bind::Any(DEFAULT_PORT),
            limits: DEFAULT_LIMITS,
            allowance: Allowance::default(),
            secret: None,
            encryption: Encryption::Off,
            patience: Patience::default(),
            room: Room::default(),
            serves_one: false,
            also: Also::new(),
            relay_to: RelayTo::default(),
            pairs: AllowedPairs::default(),
            responders: Vec::new(),
            clock: ClockMap::SAME,
        }
    }
}

/// Encryption of control (TLS 1.3 with the server's key, which clients pin).
#[derive(Debug, Clone, Default)]
pub enum Encryption {
    /// Off: never encrypted.
    #[default]
    Off,
    /// Offered: encrypted if the client asks for it.
    Offered(ServerKey),
    /// Required: a client that does not ask for it is refused.
    Required(ServerKey),
}

impl Encryption {
    /// Returns the server's key, if there is one.
    pub fn key(&self) -> Option<&ServerKey> {
        match self {
            Encryption::Off => None,
            Encryption::Offered(key) | Encryption::Required(key) => Some(key),
        }
    }
}

/// Allowance of bytes while the server runs, as IP packets, per direction; `None` means no limit beyond that of each
/// trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Total of all trials together.
    pub total: Option<u64>,
    /// Total of the trials of one IPv4 address or one IPv6 /64.
    pub per_client: Option<u64>,
}

/// Timeouts for peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Timeout for the whole first message of an unauthenticated peer, and then for its proof.
    pub first: Nanos,
    /// Timeout for the rest of a message that has begun, and for sending one to a slow peer.
    pub partial: Nanos,
    /// Timeout for the next trial of an admitted client.
    pub idle: Nanos,
    /// Time for a trial beyond its planned duration: to connect and begin, and then for its tail and report.
    pub grace: Nanos,
    /// Time for a trial to connect and begin while trials of other origins are queued.
    pub start: Nanos,
}

impl Default for Patience {
    /// Returns the defaults. Ten seconds are three retransmissions of a lost first segment (RFC 6298: 1, 2 and 4 s);
    /// five minutes let a race compute, save or wait for its user between trials. An agent waits five seconds for its
    /// connections. A near end tries to connect for three seconds, and reports within three and a half that it is
    /// blocked.
    fn default() -> Self {
        Patience {
            first: Nanos::from_secs(10),
            partial: Nanos::from_secs(10),
            idle: Nanos::from_secs(300),
            grace: Nanos::from_secs(5),
            start: Nanos::from_millis(3_500),
        }
    }
}

/// Limits of the numbers of simultaneous connections and queued trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Number of connections that have not yet sent their first message. Each costs a descriptor and a kilobyte, or 64
    /// kilobytes if it is encrypted; a connection above the limit replaces the oldest of the origin with most
    /// connections.
    pub unauthenticated: usize,
    /// Number of control connections. Each costs a thread.
    pub sessions: usize,
    /// Number of control connections of one IPv4 address or one IPv6 /64.
    pub per_origin: usize,
    /// Number of trials in the queue.
    pub waiting: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room { unauthenticated: 1_024, sessions: 64, per_origin: 8, waiting: 16 }
    }
}

/// Address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bind {
    /// All addresses of the host, IPv6 and IPv4, at this port; 0 for any free port.
    Any(u16),
    /// Single address and port.
    At(SocketAddr),
}

impl Bind {
    /// Parses `ADDR[:PORT]`: `10.0.0.1`, `10.0.0.1:5210`, `::1`, `[::1]:5210`.
    ///
    /// # Errors
    /// [`Error::Usage`] with the valid forms.
    pub fn parse(typed: &str, port: u16) -> Result<Bind> {
        if let Ok(address) = typed.parse::<SocketAddr>() {
            return Ok(Bind::of(address));
        }
        let bare = typed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(typed);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Bind::of(SocketAddr::new(ip, port)));
        }
        Err(Error::usage(format!(
            "`--bind {typed}`: not an address of this host; examples: 10.0.0.1, 10.0.0.1:5210, ::1, \
             [::1]:5210"
        )))
    }

    fn of(address: SocketAddr) -> Bind {
        if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            Bind::Any(address.port())
        } else {
            Bind::At(address)
        }
    }

    /// Returns the addresses to try, best first: all addresses over IPv6 with IPv4 mapped into it, then all over IPv4
    /// for hosts without IPv6.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match *self {
            Bind::At(address) => vec![address],
            Bind::Any(port) => vec![
                SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
                SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            ],
        }
    }
}

/// Responder that the operator asks for.
#[derive(Debug, Clone)]
pub struct ResponderSetup {
    /// Responder.
    pub responder: &'static dyn Responder,
    /// Port.
    pub port: u16,
    /// Key that its clients must prove, if there is one.
    pub key: Option<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_and_without_a_port() {
        let at = |text: &str| Bind::parse(text, 5210).unwrap();
        assert_eq!(at("10.0.0.1"), Bind::At("10.0.0.1:5210".parse().unwrap()));
        assert_eq!(at("10.0.0.1:7"), Bind::At("10.0.0.1:7".parse().unwrap()));
        assert_eq!(at("::1"), Bind::At("[::1]:5210".parse().unwrap()));
        assert_eq!(at("[::1]"), Bind::At("[::1]:5210".parse().unwrap()));
        assert_eq!(at("[::1]:7"), Bind::At("[::1]:7".parse().unwrap()));
        assert_eq!(at("::"), Bind::Any(5210));
        assert_eq!(at("0.0.0.0"), Bind::At("0.0.0.0:5210".parse().unwrap()));
        let wrong = Bind::parse("localhost:http", 5210).unwrap_err().to_string();
        assert!(wrong.contains("[::1]:5210"), "{wrong}");
    }

    #[test]
    fn a_secret_is_trimmed_not_empty_and_not_shown() {
        let secret = Secret::new(" open sesame\n", "FILE").unwrap();
        assert_eq!(secret.text(), "open sesame");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        let empty = Secret::new("\n", "FILE").unwrap_err().to_string();
        assert!(empty.contains("the secret from FILE is empty"), "{empty}");
    }

    #[test]
    fn the_default_bytes_leave_room_for_the_default_rate_and_duration() {
        let most = DEFAULT_LIMITS.rate_bps.0 / 8 * (DEFAULT_LIMITS.duration_ns.0 / 1_000_000_000);
        assert!(most <= DEFAULT_LIMITS.bytes, "{most}");
    }
}
