//! Settings of the calling thread's network namespace (Documentation/networking/ip-sysctl.rst). A new namespace has
//! the kernel's defaults or the first namespace's values, neither of which suits measurements.

use std::io;
use std::path::Path;

/// Largest buffer that TCP may grow to, in bytes: as much as 1 Gbit/s carries in two seconds. The kernel's default
/// of 4 to 6 MB limits a connection to 1.3 Gbit/s at 20 ms, whatever the rate of the link.
const TCP_BUFFER: u64 = 256 << 20;

/// Memory of a host for incomplete fragmented datagrams, in bytes. They stay for 30 s, so the kernel's 4 MiB would
/// fill up with the losses of one trial, and the next trial's datagrams would be refused.
const FRAGMENTS: &str = "268435456";

/// Settings that a host needs besides [`QUIET`]: name, value, and the consequence if it cannot be set.
const HOST: &[(&str, &str, &str)] = &[
    // A link's packets may arrive by another link than the one that the route back would take.
    ("ipv4/conf/all/rp_filter", "0", "packets of several links may be dropped as martians"),
    ("ipv4/conf/default/rp_filter", "0", "packets of several links may be dropped as martians"),
    ("ipv4/ip_forward", "0", ""),
    // What a connection learns (ssthresh, RTT) must not reach the next one: trials are separate.
    ("ipv4/tcp_no_metrics_save", "1", "TCP connections learn from those before them"),
    // A socket still has to request it, at either end.
    ("ipv4/tcp_fastopen", "3", "TCP Fast Open may not be available"),
    (
        "ipv4/ipfrag_high_thresh",
        FRAGMENTS,
        "fragments that one trial left may take the room of the next",
    ),
    // Absent where there is no IPv6.
    ("ipv6/ip6frag_high_thresh", FRAGMENTS, ""),
];

/// Settings that make a host silent: no router solicitations, no duplicate address detection, no link-local
/// addresses, no answers to routers. Stray packets would be in every count.
const QUIET: &[(&str, &str)] = &[
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("router_solicitations", "0"),
    ("dad_transmits", "0"),
    ("accept_dad", "0"),
    ("use_tempaddr", "0"),
    // None (RFC 4291 requires one on each link; nothing here uses it).
    ("addr_gen_mode", "1"),
    ("disable_ipv6", "0"),
];

/// Returns true if this kernel has IPv6.
pub(super) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6/conf").exists()
}

/// Silences devices that are added to this namespace.
pub(super) fn quiet() {
    for (name, value) in QUIET {
        // If a kernel does not have a setting, it does not send such packets either.
        let _ = set(&format!("ipv6/conf/default/{name}"), value);
    }
}

/// Disables IPv6 for devices that are added to this namespace.
pub(super) fn mute() {
    let _ = set("ipv6/conf/default/disable_ipv6", "1");
}

/// Prepares this namespace for a host; adds to `notes` the settings that could not be made and matter.
pub(super) fn host(notes: &mut Vec<String>) {
    for (name, value, trouble) in HOST {
        if let (Err(e), false) = (set(name, value), trouble.is_empty()) {
            notes.push(format!("{} could not be set ({e}): {trouble}", dotted(name)));
        }
    }
    for name in ["ipv4/tcp_rmem", "ipv4/tcp_wmem"] {
        if let Err(e) = raise_last(name, TCP_BUFFER) {
            let trouble = "TCP may be held back by its buffers on a long path";
            notes.push(format!("{} could not be raised ({e}): {trouble}", dotted(name)));
        }
    }
    // For ping without privileges; in a user namespace only its own group has a number.
    let groups = set("ipv4/ping_group_range", "0 2147483647");
    if groups.or_else(|_| set("ipv4/ping_group_range", "0 0")).is_err() {
        notes.push("ICMP sockets are not allowed: `ping` may not work".to_owned());
    }
}

/// Lets this namespace's host pass packets on, of IPv6 where there is any.
///
/// # Errors
/// The error of the kernel, if a setting cannot be made.
pub(super) fn forward() -> io::Result<()> {
    set("ipv4/ip_forward", "1")?;
    // The change resets others (ip-sysctl.rst).
    set("ipv4/conf/all/rp_filter", "0")?;
    set("ipv4/conf/default/rp_filter", "0")?;
    set("ipv4/conf/all/send_redirects", "0")?;
    set("ipv4/conf/default/send_redirects", "0")?;
    if has_ipv6() { set("ipv6/conf/all/forwarding", "1") } else { Ok(()) }
}

fn set(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/{name}"), value)
}

/// Raises the last of a setting's numbers, unless it is larger already.
fn raise_last(name: &str, least: u64) -> io::Result<()> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{name}"))?;
    match raised(&text, least) {
        Some(value) => set(name, &value),
        None => Ok(()),
    }
}

fn raised(text: &str, least: u64) -> Option<String> {
    let (others, last) = text.trim().rsplit_once(char::is_whitespace)?;
    let is_less = last.parse::<u64>().is_ok_and(|last| last < least);
    is_less.then(|| format!("{} {least}", others.trim()))
}

/// Returns the name in the form of sysctl(8).
fn dotted(name: &str) -> String {
    format!("net.{}", name.replace('/', "."))
}

/// Returns true if packet sockets take super-packets of UDP, with their segments' size: Linux 6.2.
pub(super) fn takes_udp_super_packets() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .is_ok_and(|release| at_least(&release, (6, 2)))
}

fn at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().ok());
    let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
    (major.unwrap_or(0), minor.unwrap_or(0)) >= version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_raised_and_never_lowered() {
        assert_eq!(raised("4096\t131072\t6291456\n", 10_000_000).unwrap(), "4096\t131072 10000000");
        assert_eq!(raised("4096 131072 6291456", 1_000), None);
        assert_eq!(raised("nonsense", 1_000), None);
        assert_eq!(dotted("ipv4/tcp_rmem"), "net.ipv4.tcp_rmem");
    }

    #[test]
    fn releases_are_compared_by_number() {
        for (release, is) in [
            ("6.18.44-fc", true),
            ("6.2.0", true),
            ("6.1.170", false),
            ("5.15", false),
            ("10.0", true),
            ("", false),
        ] {
            assert_eq!(at_least(release, (6, 2)), is, "{release}");
        }
    }
}
