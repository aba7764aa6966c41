//! Hosts of a network as typed: `hamburg--router` in front of the words of a link, and their roles: `near=`, `far=`,
//! `relay=`, `receivers=`, `load=` and `people=`.

use super::host_keys::{HOST_DOWN, ROUTE};
use super::words::Word;
use crate::down::DownTimes;
use crate::network::{FAR, LEAST_IPV6_MTU, LOAD, NEAR, Network, PEOPLE, RECEIVERS, RELAY};
use crate::{Family, routes};
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result, unknown};

/// Largest length of a host's name, in bytes: that of a label of DNS (RFC 1035, section 2.3.4).
const LONGEST: usize = 63;

/// Sign between the two hosts of a link.
pub(super) const BETWEEN: &str = "--";

/// Sign between the hosts of one role.
pub(super) const LISTED: &str = "/";

/// Sign between several routes.
pub(super) const SEVERAL: &str = "|";

/// Names of the roles, which are keys of a whole path.
const ROLES: [&str; 6] = [NEAR, FAR, RELAY, RECEIVERS, LOAD, PEOPLE];

/// Returns true if a key gives hosts a role.
pub fn is_role(key: &str) -> bool {
    ROLES.contains(&key)
}

/// Returns the sign between the values of a key that takes a list of words; `None` for other keys.
pub(super) fn between(key: &str) -> Option<&'static str> {
    let is_route = key == ROUTE.name;
    if is_route { Some(SEVERAL) } else { is_role(key).then_some(LISTED) }
}

/// Checks the names of the hosts of routes.
///
/// # Errors
/// As of [`check_name`].
pub(super) fn check_routes(routes: &str) -> Result<()> {
    routes.split(SEVERAL).try_for_each(check_names)
}

/// Checks names of hosts as of [`check_name`], with slashes between them.
///
/// # Errors
/// As of [`check_name`].
pub(super) fn check_names(names: &str) -> Result<()> {
    names.split(LISTED).try_for_each(check_name)
}

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
/// none, or to too few or too many, and if two hosts that send to each other have no way, or a host none to near or far.
pub(super) fn place(
    network: &mut Network,
    ends: &[Option<[&str; 2]>],
    whole: &[Word<'_>],
) -> Result<()> {
    if ends.iter().all(Option::is_none) {
        if let Some(word) = whole.iter().find(|word| between(word.key.name).is_some()) {
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
    give_roles(network, whole)?;
    give_routes(network, whole)?;
    check_ways(network)
}

/// Gives the hosts their roles.
fn give_roles(network: &mut Network, whole: &[Word<'_>]) -> Result<()> {
    let hosts = network.hosts.clone();
    let found = |role: &str| role_hosts(&hosts, role, whole);
    network.relay = found(RELAY)?.first().copied();
    network.receivers = found(RECEIVERS)?;
    network.people = found(PEOPLE)?;
    network.load = match found(LOAD)?[..] {
        [] => None,
        [near, far] => Some([near, far]),
        _ => {
            return Err(Error::usage(
                "path: load= names two hosts, as in load=a/b: its near end and its far one",
            ));
        }
    };
    let [near, far] = network.usual_ends();
    network.near = found(NEAR)?.first().copied().unwrap_or(near);
    network.far = found(FAR)?.first().copied().unwrap_or(far);
    let name = |host: usize| &hosts[host];
    let wrong = match () {
        () if network.receivers.contains(&network.near) => format!(
            "`{}` is the near host, which sends to the receivers; receivers= names others, and near= the near one",
            name(network.near)
        ),
        () if network.people.len() == 1 => {
            format!(
                "people= names `{}` alone; a session has two people or more",
                name(network.people[0])
            )
        }
        () if network.near == network.far => {
            format!("`{}` is both near and far; near= and far= name two hosts", name(network.near))
        }
        () => return Ok(()),
    };
    Err(Error::usage(format!("path: {wrong}")))
}

/// Gives the network its routes as written.
fn give_routes(network: &mut Network, whole: &[Word<'_>]) -> Result<()> {
    let typed = whole.iter().find(|word| word.key.name == ROUTE.name);
    for text in typed.iter().flat_map(|word| word.value.split(SEVERAL)) {
        let place = format!("`route={text}`");
        let names = text.split(LISTED).map(|name| known(&network.hosts, name, &place));
        let route: Vec<usize> = names.collect::<Result<_>>()?;
        if let Some(wrong) = wrong_route(network, &route) {
            return Err(Error::usage(format!("path: {place}: {wrong}")));
        }
        network.routes.push(route);
    }
    Ok(())
}

/// Returns the fault of a route; `None` if it has none.
fn wrong_route(network: &Network, route: &[usize]) -> Option<String> {
    let name = |host: usize| &network.hosts[host];
    let joins = |pair: &[usize]| {
        network.links_of(pair[0]).any(|link| network.links[link].ends.contains(&pair[1]))
    };
    let others = network.routes.iter().filter(|other| other.last() == route.last());
    let steps =
        |route: &[usize]| route.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>();
    let taken: Vec<[usize; 2]> = others.flat_map(|other| steps(other)).collect();
    let [_, inner @ .., last] = route else {
        return Some("a route has two hosts or more, as in a/r/b".to_owned());
    };
    let twice = (1..route.len()).find(|at| route[..*at].contains(&route[*at]));
    if let Some(at) = twice {
        return Some(format!("a loop: it comes to `{}` twice", name(route[at])));
    }
    if let Some(pair) = route.windows(2).find(|pair| !joins(pair)) {
        let (a, b) = (name(pair[0]), name(pair[1]));
        return Some(format!(
            "no link is between `{a}` and `{b}`; name each host on the way, or add {a}--{b}"
        ));
    }
    if let Some(host) = inner.iter().find(|host| !network.forwards(**host)) {
        return Some(format!("`{}` passes nothing on, as a host with a role does", name(*host)));
    }
    let differs = |[at, next]: &[usize; 2]| taken.iter().any(|[a, b]| a == at && b != next);
    let [at, _] = steps(route).into_iter().find(differs)?;
    Some(format!(
        "`{}` sends to `{}` by another host on a route before it; it has one way",
        name(at),
        name(*last)
    ))
}

/// Returns the indices of the hosts that a role is given to, in the order typed; none if it is not.
fn role_hosts(hosts: &[String], role: &str, whole: &[Word<'_>]) -> Result<Vec<usize>> {
    let mut found: Vec<usize> = Vec::new();
    let typed = whole.iter().find(|word| word.key.name == role);
    for name in typed.iter().flat_map(|word| word.value.split(LISTED)) {
        let at = known(hosts, name, role)?;
        if found.contains(&at) {
            return Err(Error::usage(format!(
                "path: {role}= names `{name}` twice; each host once"
            )));
        }
        found.push(at);
    }
    Ok(found)
}

/// Parses the times at which hosts are down, by name: `a@10s-13s/20s-21s/b@5s-6s`.
///
/// # Errors
/// As for [`DownTimes::parse`] and [`check_name`].
pub(super) fn down(typed: &str) -> Result<Vec<(&str, DownTimes)>> {
    // The times of a host go on until the next name.
    let starts = typed.split_inclusive('/').scan(0, |at, part| {
        let start = *at;
        *at += part.len();
        Some((start, part.contains('@')))
    });
    let mut starts: Vec<usize> = starts
        .filter(|(start, is_named)| *start == 0 || *is_named)
        .map(|(start, _)| start)
        .collect();
    starts.push(typed.len());
    let of_host = |span: &[usize]| {
        let text = typed[span[0]..span[1]].trim_end_matches('/');
        let Some((name, times)) = text.split_once('@') else {
            return Err(Error::usage(format!("`{text}` names no host; write vancouver@10s-13s")));
        };
        check_name(name)?;
        Ok((name, DownTimes::parse(times)?))
    };
    starts.windows(2).map(of_host).collect()
}

/// Takes down all links of the hosts that are to be down.
///
/// # Errors
/// [`Error::Usage`] for a host that no link names.
pub(super) fn take_down(network: &mut Network, whole: &[Word<'_>]) -> Result<()> {
    let Some(word) = whole.iter().find(|word| word.key.name == HOST_DOWN.name) else {
        return Ok(());
    };
    for (name, times) in down(word.value)? {
        let host = known(&network.hosts, name, &format!("`{word}`"))?;
        for link in network.links.iter_mut().filter(|link| link.ends.contains(&host)) {
            link.up.down.add(&times);
            link.down.down.add(&times);
        }
    }
    Ok(())
}

/// Returns the index of the host of this name, which stands in `place`.
fn known(hosts: &[String], name: &str, place: &str) -> Result<usize> {
    hosts.iter().position(|host| host == name).ok_or_else(|| {
        let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
        Error::usage(format!("path: {place}: {}", unknown("host", name, &names)))
    })
}

/// Returns the index of a host, and adds it if it is new.
fn index(hosts: &mut Vec<String>, name: &str) -> usize {
    hosts.iter().position(|host| host == name).unwrap_or_else(|| {
        hosts.push(name.to_owned());
        hosts.len() - 1
    })
}

/// Checks that each host can reach the near and the far host, and hosts that send to each other each other, both ways.
fn check_ways(network: &Network) -> Result<()> {
    let hosts = 0..network.hosts.len();
    let all = hosts.flat_map(|host| [network.near, network.far].map(|end| vec![host, end, host]));
    let journeys: Vec<Vec<usize>> = all.chain(network.journeys()).collect();
    for steps in journeys.iter().flat_map(|journey| journey.windows(2)) {
        if routes::way(network, steps[0], steps[1]).is_none() {
            let [from, to] = [steps[0], steps[1]].map(|host| &network.hosts[host]);
            return Err(Error::usage(format!(
                "path: `{from}` has no way to `{to}`: no links lead there over hosts that pass packets on (all with \
                 two links or more and no role, such as near, far and relay); add a link"
            )));
        }
    }
    check_middleboxes(network)
}

/// Returns the hosts that connect to another by their roles, each with that one.
fn openings(network: &Network) -> Vec<[usize; 2]> {
    let onward = |from: usize| network.far_hosts().iter().map(move |far| [from, *far]);
    let by_relay = network.relay.map(|relay| onward(relay).chain([[network.near, relay]]));
    onward(network.near).chain(by_relay.into_iter().flatten()).chain(network.load).collect()
}

/// Checks that a NAT64 stands between links of both versions of IP, and that hosts which connect have one in common.
///
/// # Errors
/// [`Error::Usage`] with the link or the hosts, and what would be right.
pub(super) fn check_versions(network: &Network) -> Result<()> {
    for (at, link) in network.links.iter().enumerate() {
        let host = link.ends[0];
        let mut others = network.links_of(host).filter(|other| *other != at);
        let mut has_inside = || others.any(|other| network.links[other].carries(Family::V6));
        let wrong = match () {
            () if !link.is_nat64() && link.carries(Family::V4) => continue,
            () if network.mtu() < LEAST_IPV6_MTU => "IPv6 needs an MTU of 1280 on each link",
            () if !link.is_nat64() => continue,
            () if !link.carries(Family::V4) => "outside a NAT64 there is IPv4; leave out ip=6",
            () if network.forwards(host) && has_inside() => continue,
            () => {
                "a NAT64 stands at a host that passes packets on from a link with IPv6, as in a--r:ip=6 + r--b:nat=64"
            }
        };
        let word = if link.is_nat64() { "nat=64" } else { "ip=6" };
        let [a, b] = link.ends.map(|host| &network.hosts[host]);
        return Err(Error::usage(format!("path: link `{a}--{b}`: `{word}`: {wrong}")));
    }
    for ends in openings(network) {
        if !routes::connects(network, ends) {
            let [from, to] = ends.map(|host| &network.hosts[host]);
            return Err(Error::usage(format!(
                "path: `{from}` and `{to}` have no version of IP in common on the links between them; leave out `ip=`, or \
                 write nat=64 at the link where IPv4 begins, from its first host on"
            )));
        }
    }
    Ok(())
}

/// Checks that no NAT or firewall stands in front of a host that others connect to.
fn check_middleboxes(network: &Network) -> Result<()> {
    for [from, to] in openings(network) {
        let way = routes::way(network, from, to).unwrap_or_default();
        let mut inward = way.iter().filter(|hop| hop.direction == Direction::Down);
        if let Some(hop) = inward.find(|hop| network.links[hop.link].middlebox.is_some()) {
            let [inside, outside] = network.links[hop.link].ends.map(|host| &network.hosts[host]);
            let [from, to] = [from, to].map(|host| &network.hosts[host]);
            return Err(Error::usage(format!(
                "path: link `{inside}--{outside}`: its NAT or firewall stands at `{inside}` and lets in nothing but \
                 answers, and `{from}` connects to `{to}` from outside; write {outside}--{inside} to have it at \
                 `{outside}`, or give the roles to other hosts"
            )));
        }
    }
    Ok(())
}
