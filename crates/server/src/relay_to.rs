//! Far hosts to which the operator lets this server relay (`serve --relay-to`), by their addresses.
//!
//! A relay is bound to its trial: it leads to one server, which has proved that it runs the trial's far end, and what
//! passes is held to this server's limits. The option bounds where a client may have this host connect to at all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use deadheat_base::error::{Error, Result};

/// Far hosts to which a server may relay; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayTo {
    /// True if it may relay to any address of the public Internet.
    public: bool,
    prefixes: Vec<Prefix>,
}

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    address: IpAddr,
    bits: u32,
}

/// Word for all addresses of the public Internet.
const ANY: &str = "any";

impl RelayTo {
    /// Reads the values of `--relay-to`: addresses, networks as `192.0.2.0/24`, or `any`, between commas.
    ///
    /// # Errors
    /// [`Error::Usage`] with the valid forms.
    pub fn parse(typed: &str) -> Result<RelayTo> {
        let mut all = RelayTo::default();
        for one in typed.split(',').map(str::trim) {
            match Prefix::parse(one) {
                _ if one == ANY => all.public = true,
                Some(prefix) => all.prefixes.push(prefix),
                None => {
                    return Err(Error::usage(format!(
                        "`--relay-to {one}`: no address, no network and not `any`; examples: 192.0.2.7, 192.0.2.0/24, \
                         2001:db8::/32, any (every address of the public Internet)"
                    )));
                }
            }
        }
        Ok(all)
    }

    /// Returns true if this server relays to any host.
    pub fn is_any(&self) -> bool {
        self.public || !self.prefixes.is_empty()
    }

    /// Checks that this server may relay to a far end's server.
    ///
    /// # Errors
    /// [`Error::Limited`] with the option that allows it.
    pub(super) fn check(&self, to: SocketAddr) -> Result<()> {
        let to = to.ip().to_canonical();
        if self.prefixes.iter().any(|prefix| prefix.has(to)) || (self.public && is_public(to)) {
            return Ok(());
        }
        let also = match (self.public, is_public(to)) {
            (true, _) => " (`any` are the addresses of the public Internet, and this is none)",
            (false, true) => ", or with `any` for every address of the public Internet",
            (false, false) => "",
        };
        Err(Error::limited(format!(
            "this server relays to {to} if its operator allows that: `deadheat serve --relay-to {to}`{also}"
        )))
    }
}

impl Prefix {
    fn parse(typed: &str) -> Option<Prefix> {
        let (address, bits) = typed.split_once('/').map_or((typed, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Prefix { address, bits })
    }

    fn has(self, other: IpAddr) -> bool {
        let differ = match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        differ >= self.bits
    }
}

/// Returns true for addresses of the public Internet: none of this host, of a link, a private network, a group or of
/// special use, which are no relay's to reach because a client asks for it.
fn is_public(ip: IpAddr) -> bool {
    /// Shared address space (RFC 6598), IETF assignments (RFC 6890), tests of devices (RFC 2544), reserved (RFC 1112).
    const V4: [&str; 4] = ["100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4"];
    let special = |ip: Ipv4Addr| {
        let in_list = V4.iter().filter_map(|one| Prefix::parse(one)).any(|one| one.has(ip.into()));
        let [first, ..] = ip.octets();
        first == 0
            || ip.is_loopback()
            || ip.is_private()
            || ip.is_link_local()
            || ip.is_multicast()
            || ip.is_documentation()
            || in_list
    };
    match ip {
        IpAddr::V4(ip) => !special(ip),
        // Global unicast (RFC 4291, section 2.4), without documentation (RFC 3849) and addresses that hold one of IPv4
        // (6to4, RFC 3056; Teredo, RFC 4380).
        IpAddr::V6(ip) => {
            let within = |one| Prefix::parse(one).is_some_and(|prefix| prefix.has(ip.into()));
            within("2000::/3")
                && !["2001:db8::/32", "2002::/16", "2001::/32"].into_iter().any(within)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(allowed: &str, to: &str) -> Option<String> {
        let all = if allowed.is_empty() { Ok(RelayTo::default()) } else { RelayTo::parse(allowed) };
        all.unwrap().check(to.parse().unwrap()).err().map(|why| why.to_string())
    }

    #[test]
    fn a_server_relays_nowhere_that_its_operator_has_not_named() {
        let why = refusal("", "9.9.9.9:5210").unwrap();
        assert!(why.contains("`deadheat serve --relay-to 9.9.9.9`, or with `any`"), "{why}");
        let why = refusal("", "10.0.0.1:5210").unwrap();
        assert!(why.ends_with("--relay-to 10.0.0.1`"), "{why}");
        for (allowed, to) in [
            ("192.0.2.7", "192.0.2.7:5210"),
            ("192.0.2.0/24", "192.0.2.255:1"),
            ("10.0.0.1, 2001:db8::/32", "[2001:db8:1::2]:5210"),
            ("192.0.2.7", "[::ffff:192.0.2.7]:5210"),
            ("0.0.0.0/0", "127.0.0.1:1"),
        ] {
            assert_eq!(refusal(allowed, to), None, "{allowed} {to}");
        }
        assert!(refusal("192.0.2.0/24", "192.0.3.0:1").is_some());
        assert!(refusal("0.0.0.0/0", "[2001:db8::1]:1").is_some());
    }

    #[test]
    fn any_is_the_public_internet_and_nothing_behind_the_server() {
        for to in ["9.9.9.9:1", "[2620:fe::fe]:1", "[::ffff:9.9.9.9]:1"] {
            assert_eq!(refusal("any", to), None, "{to}");
        }
        for to in [
            "127.0.0.1:1",
            "0.0.0.0:1",
            "10.1.2.3:1",
            "172.16.0.1:1",
            "192.168.1.1:1",
            "169.254.169.254:80",
            "100.64.0.1:1",
            "198.18.0.2:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "[::1]:1",
            "[fe80::1]:1",
            "[fd00::1]:1",
            "[ff02::1]:1",
            "[2002:a00:1::1]:1",
            "[::ffff:10.0.0.1]:1",
        ] {
            assert!(refusal("any", to).unwrap().contains("public Internet"), "{to}");
        }
        assert_eq!(refusal("any,10.0.0.0/8", "10.1.2.3:1"), None);
    }

    #[test]
    fn mistakes_are_answered_with_the_forms() {
        for typed in ["", "far.example", "10.0.0.1/33", "10.0.0.0/x", "10.0.0.1:5210", "all"] {
            let why = RelayTo::parse(typed).unwrap_err().to_string();
            assert!(why.contains("192.0.2.0/24"), "{typed}: {why}");
        }
    }
}
