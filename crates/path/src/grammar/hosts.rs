//! Hosts of a network as typed: `hamburg--router` in front of the words of a link, and the roles `near=` and `far=`.

use super::words::Word;
use crate::network::{FAR, NEAR, Network};
use crate::routes;
use deadheat_base::error::{Error, Result, unknown};

/// Largest length of a host's name, in bytes: that of a label of DNS (RFC 1035, section 2.3.4).
const LONGEST: usize = 63;

/// Sign between the two hosts of a link.
const BETWEEN: &str = "--";

/// Checks the name of a host, which is a label of DNS in lower case (RFC 1123, section 2.1).
///
/// # Errors
/// [`Error::Usage`] with the name and what a name consists of.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=LONGEST).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains(BETWEEN);
    if is_name {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{name}` is no name of a host: it has lower-case letters, digits and single dashes between them, at most {LONGEST}"
    )))
}

/// Splits a link as typed into the names of its hosts, if it has some, and its words.
///
/// # Errors
/// [`Error::Usage`] for a name that no host can have, and for a link from a host to itself.
pub(super) fn split(text: &str) -> Result<(Option<[&str; 2]>, &str)> {
    let (front, words) = text.split_once([':', ',']).unwrap_or((text, ""));
    let Some((a, b)) = front.split_once(BETWEEN).filter(|_| !front.contains('=')) else {
        return Ok((None, text));
    };
    let ends = [a.trim(), b.trim()];
    for name in ends {
        check_name(name).map_err(|error| Error::usage(format!("path: link `{front}`: {error}")))?;
    }
    if ends[0] == ends[1] {
        return Err(Error::usage(format!(
            "path: link `{front}` joins a host to itself; a link has two hosts"
        )));
    }
    if words.trim().is_empty() && front.len() < text.len() {
        return Err(Error::usage(format!(
            "path: link `{text}` ends in the middle; write {front} for a link without impairments, or its words behind \
             the colon"
        )));
    }
    Ok((Some(ends), words.trim()))
}

/// Gives the links of a network their hosts, and the hosts their roles.
///
/// # Errors
/// [`Error::Usage`] if some links name hosts and others none, if a role is given to a host that no link names or to
/// none, and if a host has no way to the near or the far host, or from there.
pub(super) fn place(
    network: &mut Network,
    ends: &[Option<[&str; 2]>],
    whole: &[Word<'_>],
) -> Result<()> {
    let role = |key: &str| whole.iter().find(|word| word.key.name == key).map(|word| word.value);
    if ends.iter().all(Option::is_none) {
        if let Some(word) = whole.iter().find(|word| [NEAR, FAR].contains(&word.key.name)) {
            return Err(Error::usage(format!(
                "path: `{word}` has no effect: no link names its hosts, as `a--b:delay=5ms` does"
            )));
        }
        return Ok(());
    }
    network.hosts.clear();
    for (at, named) in ends.iter().enumerate() {
        let Some(named) = named else {
            return Err(Error::usage(format!(
                "path: link {} names no hosts, and others do; write `a--b:` in front of it",
                at + 1
            )));
        };
        network.links[at].ends = named.map(|name| index(&mut network.hosts, name));
    }
    let found = |key: &str, usual: usize| match role(key) {
        None => Ok(usual),
        Some(name) => network.hosts.iter().position(|host| host == name).ok_or_else(|| {
            let names: Vec<&str> = network.hosts.iter().map(String::as_str).collect();
            Error::usage(format!("path: {key}: {}", unknown("host", name, &names)))
        }),
    };
    let (near, far) = (found(NEAR, 0)?, found(FAR, network.hosts.len() - 1)?);
    if near == far {
        let host = &network.hosts[near];
        return Err(Error::usage(format!(
            "path: `{host}` is both near and far; near= and far= name two hosts"
        )));
    }
    (network.near, network.far) = (near, far);
    check_ways(network)
}

/// Returns the index of a host, and adds it if it is new.
fn index(hosts: &mut Vec<String>, name: &str) -> usize {
    hosts.iter().position(|host| host == name).unwrap_or_else(|| {
        hosts.push(name.to_owned());
        hosts.len() - 1
    })
}

/// Checks that each host can reach the near and the far host, and they it.
fn check_ways(network: &Network) -> Result<()> {
    for role in [network.near, network.far] {
        for host in 0..network.hosts.len() {
            let ways = [(host, role), (role, host)];
            if let Some((from, to)) =
                ways.into_iter().find(|(from, to)| routes::way(network, *from, *to).is_none())
            {
                let [from, to] = [from, to].map(|host| &network.hosts[host]);
                return Err(Error::usage(format!(
                    "path: `{from}` has no way to `{to}`: no links lead there over hosts that pass packets on (all with \
                     two links or more but near and far); add a link"
                )));
            }
        }
    }
    Ok(())
}
