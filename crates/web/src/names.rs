//! Names by which browsers may ask for the page. A name of a stranger that leads to this host's address would make the
//! stranger's page one of this server (DNS rebinding), so only addresses and the host's own names are answered.

use std::net::IpAddr;

/// Answer to a request by another name.
pub(crate) const UNKNOWN: &str = "this server does not know itself by that name: ask by its address, or its operator names it (--web-name)";

/// Names of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostNames {
    /// Any: TLS proves the name to the browser.
    Any,
    /// Addresses, `localhost`, and these, in lower case.
    These(Vec<String>),
}

impl HostNames {
    /// Returns the names of this host, and the names that its operator gives.
    pub(crate) fn here(given: &[String]) -> HostNames {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own = own.trim();
        let short = own.split('.').next().unwrap_or_default();
        let local = format!("{short}.local");
        let given = given.iter().map(String::as_str);
        let all = given.chain([own, short, &local]).filter(|name| !name.is_empty());
        HostNames::These(all.map(str::to_ascii_lowercase).collect())
    }

    /// Returns true for the host of a request that is answered; its port does not matter.
    pub(crate) fn has(&self, host: &str) -> bool {
        let HostNames::These(names) = self else { return true };
        let bare = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let bare = bare.trim_end_matches('.').to_ascii_lowercase();
        bare.parse::<IpAddr>().is_ok()
            || bare == "localhost"
            || bare.ends_with(".localhost")
            || names.contains(&bare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_answered_and_a_rebound_name_is_not() {
        let names = HostNames::These(vec!["far".to_owned(), "far.example".to_owned()]);
        for host in [
            "192.0.2.1:5280",
            "192.0.2.1",
            "[2001:db8::1]:5280",
            "[::1]",
            "localhost:5280",
            "a.localhost",
            "FAR:5280",
            "far.example.",
        ] {
            assert!(names.has(host), "{host}");
        }
        for host in [
            "evil.example:5280",
            "",
            "far.example.evil",
            "192.0.2.1.evil",
            "localhost.evil:1",
            "[",
            ":",
        ] {
            assert!(!names.has(host), "{host}");
            assert!(HostNames::Any.has(host));
        }
        let HostNames::These(here) = HostNames::here(&["Far.Example".to_owned()]) else { panic!() };
        assert!(here.contains(&"far.example".to_owned()), "{here:?}");
    }
}
