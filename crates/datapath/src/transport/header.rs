//! Fields of the IP header that a contender asks for, DSCP and TTL, and the pace of its sockets. Every contender over IP
//! takes these keys, with one meaning: `race udp udp:dscp=EF`.
//!
//! Both ends set them. The fields that arrive are read once for each connection, from the packets that open it, so that no
//! message costs a system call more ([`ArrivedHeader`]).

use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, io};

use socket2::{SockRef, Socket, Type};

use super::{Effective, Info};
use crate::datapath::ip_header::{self, ArrivedHeader, set_field, set_hops};
use crate::datapath::option::{get, set_words};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::Optional;
use deadheat_base::spec::{Key, Kind, Settings, Spec, plain};
use deadheat_base::units::BitRate;
use deadheat_contract::contract::Reach;
use deadheat_contract::dscp::{self, ARRIVED_DSCP, Dscp};
use deadheat_contract::recorded::Meaning;

/// DSCP (RFC 2474): six bits of the IP header by which routers may treat packets differently.
pub const DSCP: Optional<Dscp> = Optional::form(dscp::DSCP, Kind::Own {
        form: "EF|AF41|CS1|LE|…|0-63",
        check: |value| Dscp::parse(value).map(drop),
        refers: plain,
    }, Dscp::parse, Dscp::DEFAULT)
    .doc("DSCP of all packets, both ways (IP_TOS, IPV6_TCLASS): a name of RFC 2474, 2597, 3246, 5865 or 8622, or a number. \
     The result has the value that arrived; not set: the host's, CS0");

/// TTL of IPv4 (RFC 791), hop limit of IPv6 (RFC 8200).
pub const TTL: Optional<u64> = Optional::count("ttl", (1, 255))
    .doc("most hops, both ways (IP_TTL, IPV6_UNICAST_HOPS); not set: the host's, 64 on Linux");

/// Greatest rate of a socket.
pub const PACE: Optional<BitRate> = Optional::rate("pace", (8_000, 1_000_000_000_000))
    .doc("greatest rate of each connection, as IP packets, both ways (SO_MAX_PACING_RATE); of datagrams only where the \
     interface's queue is fq alone");

/// Keys that contenders over IP take beside their own.
pub const KEYS: &[Key] = &[DSCP.key(), TTL.key(), PACE.key()];

/// Name of the TTL that arrived, among the options read back.
pub const ARRIVED_TTL: &str = "arrived_ttl";

/// Meanings of the options.
pub(super) const OPTIONS: &[Meaning] = &[
    Meaning::always(
        dscp::DSCP,
        "routers may queue packets of one DSCP before those of another, or drop them first",
    ),
    Meaning::where_asked("ttl", "packets that take more hops than this are dropped"),
    Meaning::where_asked(
        "pace",
        "a paced sender fills no queue beyond its rate, and carries no more than it",
    ),
    Meaning::always(
        ARRIVED_DSCP,
        "routers behind the one that rewrote it treat these packets by what it is there",
    ),
    Meaning::always(ARRIVED_TTL, "another number of hops is another path"),
];

/// Fields and pace that a contender asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderTerms {
    dscp: Option<Dscp>,
    ttl: Option<u8>,
    pace: Option<BitRate>,
}

impl HeaderTerms {
    /// Reads them from the knobs of a contender.
    pub fn of(knobs: &Settings) -> HeaderTerms {
        HeaderTerms {
            dscp: knobs.find(&DSCP),
            ttl: knobs.find(&TTL).map(|ttl| ttl as u8),
            pace: knobs.find(&PACE),
        }
    }

    /// Removes the keys from the options that were typed for a contender, and returns them as knobs, with each codepoint
    /// by its name.
    ///
    /// # Errors
    /// [`Error::Usage`] where a value is invalid, or where the transport has no IP header of its own.
    pub fn take(spec: &mut Spec, info: &Info) -> Result<Settings> {
        let mut ours = spec.split_off(KEYS);
        if let Some((key, _)) = ours.options.first()
            && let Some(why) = lacks_header(info)
        {
            return Err(Error::usage(format!("{}: {why}; leave out {key}", info.id)));
        }
        for (key, value) in &mut ours.options {
            if key == DSCP.name()
                && let Ok(dscp) = Dscp::parse(value)
            {
                *value = dscp.to_string();
            }
        }
        Settings::check(&ours, KEYS)
    }

    /// Returns the name of the first key that was typed; `None` if none was.
    pub fn typed(knobs: &Settings) -> Option<&'static str> {
        KEYS.iter().map(|key| key.name).find(|name| knobs.given(name))
    }

    /// Sets them on a socket, before it connects or listens. ECN bits that are set stay.
    ///
    /// # Errors
    /// The failed option with a remedy.
    pub fn set(&self, socket: &Socket) -> Result<()> {
        if let Some(dscp) = self.dscp {
            set_field(socket, |field| dscp.field(field))
                .map_err(|e| failed("dscp", &dscp, "IP_TOS", e))?;
        }
        if let Some(ttl) = self.ttl {
            set_hops(socket, ttl).map_err(|e| failed("ttl", &ttl, "IP_TTL", e))?;
        }
        let Some(pace) = self.pace else { return Ok(()) };
        // Bytes per second, as 64 bits since Linux 4.20 (commit 76a9ebe811fb).
        let bytes = pace.0 / 8;
        let words = [bytes as u32, (bytes >> 32) as u32];
        let words = if cfg!(target_endian = "little") { words } else { [words[1], words[0]] };
        set_words(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &words)
            .map_err(|e| failed("pace", &pace, "SO_MAX_PACING_RATE", e))
    }

    /// Adds the requested ones, as a socket reports them, to its options.
    pub fn report(&self, socket: BorrowedFd<'_>, into: &mut Effective) {
        let mut put = |key: &str, value: Option<String>| {
            into.insert(key.to_owned(), value.unwrap_or_else(|| "unknown".to_owned()));
        };
        if self.dscp.is_some() {
            put(DSCP.name(), ip_header::field(socket).map(|field| Dscp::of(field).to_string()));
        }
        if self.ttl.is_some() {
            put(TTL.name(), ip_header::hops(socket).map(|ttl| ttl.to_string()));
        }
        if self.pace.is_some() {
            put(PACE.name(), pace(socket));
        }
    }
}

/// Adds the fields that arrived, as far as they are known, to the options of a connection.
pub fn report_arrived(arrived: ArrivedHeader, into: &mut Effective) {
    into.extend(arrived.dscp.map(|dscp| (ARRIVED_DSCP.to_owned(), dscp.to_string())));
    into.extend(arrived.ttl.map(|ttl| (ARRIVED_TTL.to_owned(), ttl.to_string())));
}

/// Returns the reason why a contender has no IP header to set; `None` if it has one.
fn lacks_header(info: &Info) -> Option<&'static str> {
    match (info.reach, info.peer.is_group) {
        (Reach::Machine, _) => Some("its messages stay on this machine, without an IP header"),
        (Reach::Process, _) => Some("it is a model in virtual time, without an IP header"),
        (_, true) => Some("the fields of packets to a group are its own"),
        (Reach::Network | Reach::Path | Reach::OwnPort, false) => None,
    }
}

#[cold]
fn failed(key: &str, value: &dyn fmt::Display, option: &str, error: io::Error) -> Error {
    let advice = match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT) => {
            "the kernel has no such option for sockets of this kind; leave the key out"
        }
        Some(libc::EPERM | libc::EACCES) => "the kernel allows it to root alone (CAP_NET_ADMIN)",
        _ => "",
    };
    Error::setup_advice(format!("set {key}={value} ({option})"), error, advice)
}

/// Returns the pace of a socket in words, with a remark where it may have no effect.
fn pace(socket: BorrowedFd<'_>) -> Option<String> {
    let mut words = [0u32; 2];
    let read = get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut words)?;
    let bytes = match (read, cfg!(target_endian = "little")) {
        (2, true) => u64::from(words[0]) | u64::from(words[1]) << 32,
        (2, false) => u64::from(words[1]) | u64::from(words[0]) << 32,
        _ => u64::from(words[0]),
    };
    let rate = BitRate(bytes.saturating_mul(8));
    let is_stream = SockRef::from(&socket).r#type().is_ok_and(|kind| kind == Type::STREAM);
    Some(if is_stream {
        rate.to_string()
    } else {
        format!("{rate} (no effect on datagrams unless the interface's queue is fq)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(typed: &str) -> HeaderTerms {
        HeaderTerms::of(&Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap())
    }

    fn reported(terms: HeaderTerms, socket: &Socket) -> Effective {
        let mut all = Effective::new();
        terms.report(socket.as_fd(), &mut all);
        all
    }

    #[test]
    fn all_are_set_and_read_back_on_each_kind_of_socket() {
        let terms = terms("x:dscp=af41,ttl=9,pace=20mbit");
        for (address, kind) in [
            ("127.0.0.1:0", Type::STREAM),
            ("127.0.0.1:0", Type::DGRAM),
            ("[::1]:0", Type::STREAM),
            ("[::1]:0", Type::DGRAM),
        ] {
            let address: std::net::SocketAddr = address.parse().unwrap();
            let socket = Socket::new(socket2::Domain::for_address(address), kind, None).unwrap();
            terms.set(&socket).unwrap();
            let found = reported(terms, &socket);
            assert_eq!((found["dscp"].as_str(), found["ttl"].as_str()), ("AF41", "9"));
            assert!(found["pace"].starts_with("20"), "{found:?}");
            assert_eq!(found["pace"].contains("fq"), kind == Type::DGRAM);
        }
        let socket = Socket::new(socket2::Domain::IPV4, Type::DGRAM, None).unwrap();
        assert_eq!(reported(HeaderTerms::default(), &socket), Effective::new());
    }
}
