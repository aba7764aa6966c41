//! Ways in a network: from each host to each other as written ([`Network::routes`]), else by the least delay, and among
//! those by the fewest links. With [`Network::reroute`] they are found anew after a link went down or came back. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Family;
use super::nat::nat64;
use super::network::{Impairments, Link, Network};
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

/// Hop of a way: a link, and the direction in which it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link.
    pub link: usize,
    /// Direction of the link.
    pub direction: Direction,
}

impl Hop {
    /// Returns the impairments on it.
    pub fn impairments(self, network: &Network) -> &Impairments {
        network.links[self.link].toward(self.direction)
    }
}

/// Returns the way from one host to another while no link is down; empty from a host to itself, `None` where no hosts that
/// forward connect the two.
pub fn way(network: &Network, from: usize, to: usize) -> Option<Vec<Hop>> {
    let quickest = |at| back_to(network, &reached(network, at, &|_| true), at, to);
    if network.routes.is_empty() {
        return quickest(from);
    }
    let (mut hops, mut at) = (Vec::new(), from);
    while at != to {
        let written = written(network, at, to, &|_| true).map(|(next, _)| next);
        let hop = written.or_else(|| quickest(at)?.first().copied())?;
        [_, at] = hosts_of(&network.links[hop.link], hop.direction);
        hops.push(hop);
    }
    Some(hops)
}

/// Returns the next and the last hop of the route as written on which a host sends to another; `None` where there is none,
/// or a link of the rest of it is down.
fn written(
    network: &Network,
    at: usize,
    to: usize,
    is_up: &dyn Fn(Hop) -> bool,
) -> Option<(Hop, Hop)> {
    let hop = |pair: &[usize]| {
        let links = network.links_of(pair[0]).flat_map(|link| {
            [Direction::Up, Direction::Down].map(|direction| Hop { link, direction })
        });
        let joins = |hop: &Hop| hosts_of(&network.links[hop.link], hop.direction) == pair;
        links
            .filter(|hop| joins(hop) && is_up(*hop))
            .min_by_key(|hop| hop.impairments(network).delay)
    };
    network.routes.iter().filter(|route| route.last() == Some(&to)).find_map(|route| {
        let place = route.iter().position(|host| *host == at)?;
        let hops: Vec<Hop> = route[place..].windows(2).map(hop).collect::<Option<_>>()?;
        Some((*hops.first()?, *hops.last()?))
    })
}

/// Returns the address by which a host reaches another at an address of its own: that, or one of IPv6 that a NAT64 on the
/// way makes IPv4; `None` where the links on the way do not carry it.
pub fn dialled(network: &Network, [from, to]: [usize; 2], at: IpAddr) -> Option<IpAddr> {
    let links: Vec<(&Link, Direction)> = way(network, from, to)?
        .iter()
        .map(|hop| (&network.links[hop.link], hop.direction))
        .collect();
    if links.iter().all(|(link, _)| link.carries(Family::of(at))) {
        return Some(at);
    }
    let IpAddr::V4(own) = at else { return None };
    let mapped = IpAddr::V6(nat64::mapped(own));
    let is_nat64 = |(link, way): &(&Link, Direction)| link.is_nat64() && *way == Direction::Up;
    let (inside, outside) = links.split_at(links.iter().position(is_nat64)?);
    let passes = inside.iter().all(|(link, _)| link.carries(Family::V6))
        && outside.iter().all(|(link, _)| link.carries(Family::of(at)));
    passes.then_some(mapped)
}

/// Returns true if a host reaches another with one of the versions of IP.
pub fn connects(network: &Network, ends: [usize; 2]) -> bool {
    let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    any.into_iter().any(|at| dialled(network, ends, at).is_some())
}

/// Returns the addresses for which a host's name stands: its own but for IPv6 that another host with IPv6 does not reach,
/// and the addresses that stand for it behind a NAT64.
pub fn known(network: &Network, host: usize, own: &[IpAddr]) -> Vec<IpAddr> {
    let reaches = |at: IpAddr| {
        let mut others = (0..network.hosts.len()).filter(|other| *other != host);
        let has = |other: usize| {
            network.links_of(other).any(|link| network.links[link].carries(Family::of(at)))
        };
        others.all(|other| !has(other) || dialled(network, [other, host], at) == Some(at))
    };
    let is_dual = network.links.iter().all(|link| link.family == Family::Any);
    let known = own.iter().filter(|at| is_dual || at.is_ipv4() || reaches(**at)).copied();
    let mapped = if network.has_nat64() { nat64::all_mapped(own) } else { Vec::new() };
    known.chain(mapped).collect()
}

/// Routes of all hosts, from a time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// Time from which they hold, since the path began.
    pub from: Nanos,
    /// Links by sending host, link and end of the link.
    by: Vec<Option<usize>>,
    links: usize,
}

impl Routes {
    /// Returns the link by which a host sends to the first (0) or second (1) end of a link; `None` for its own ends, and
    /// where there is no way.
    pub fn link(&self, host: usize, link: usize, end: usize) -> Option<usize> {
        self.by.get((host * self.links + link) * 2 + end).copied().flatten()
    }

    /// Returns the way from one host to the address of another on that host's first link; `None` where a host has no
    /// route, or where the routes go in a circle.
    pub fn way(&self, network: &Network, from: usize, to: usize) -> Option<Vec<Hop>> {
        let link = network.links_of(to).next()?;
        let end = network.links[link].ends.iter().position(|host| *host == to)?;
        let (mut at, mut way) = (from, Vec::new());
        while at != to && way.len() < network.hosts.len() {
            let link = self.link(at, link, end)?;
            let is_first = network.links[link].ends[0] == at;
            let direction = if is_first { Direction::Up } else { Direction::Down };
            way.push(Hop { link, direction });
            [_, at] = hosts_of(&network.links[link], direction);
        }
        (at == to).then_some(way)
    }

    fn new(network: &Network, from: Nanos, is_up: &dyn Fn(Hop) -> bool) -> Routes {
        let mut by = Vec::new();
        for host in 0..network.hosts.len() {
            let firsts = first_links(network, host, is_up);
            for (link, Link { ends: [a, b], .. }) in network.links.iter().enumerate() {
                let ends = [(*a, *b, Direction::Down), (*b, *a, Direction::Up)];
                by.extend(ends.map(|(end, peer, direction)| {
                    let last = Hop { link, direction };
                    let forwards = network.forwards(end);
                    let as_written = written(network, host, end, is_up)
                        .filter(|(_, last)| forwards || last.link == link);
                    match as_written {
                        _ if end == host => None,
                        Some((next, _)) => Some(next.link),
                        _ if peer == host && (!forwards || is_up(last)) => Some(link),
                        // An address of an end host stands for its link, also where another link is quicker; but not
                        // where the host at the other end of the link passes nothing on.
                        _ => {
                            let by_peer = !forwards && network.forwards(peer);
                            firsts[peer].filter(|_| by_peer).or(firsts[end])
                        }
                    }
                }));
            }
        }
        Routes { from, by, links: network.links.len() }
    }
}

/// Returns the routes in order of time: those with which the path begins, and those after each change of a link that
/// changes one. A host that has no way any more keeps its route.
pub fn over_time(network: &Network) -> Vec<Routes> {
    let mut all = vec![Routes::new(network, Nanos::ZERO, &|_| true)];
    let Some(after) = network.reroute else { return all };
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    let mut changes: Vec<Nanos> =
        ways.flat_map(|way| way.down.iter()).flat_map(|time| [time.from, time.to]).collect();
    changes.sort_unstable();
    changes.dedup();
    for at in changes {
        let is_up = |hop: Hop| !hop.impairments(network).down.includes(at);
        let mut next = Routes::new(network, at + after, &is_up);
        let Some(last) = all.last() else { continue };
        for (by, before) in next.by.iter_mut().zip(&last.by) {
            *by = by.or(*before);
        }
        if next.by != last.by {
            all.push(next);
        }
    }
    all
}

/// Returns the hop of the least rate on a way, that of a trace on average; `None` where no hop has a rate.
pub fn bottleneck(network: &Network, way: &[Hop]) -> Option<Hop> {
    let rate = |hop: &Hop| Some((hop.impairments(network).rate.mean()?, *hop));
    way.iter().filter_map(rate).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, hop)| hop)
}

/// Returns the way to a host by its arrivals, as of [`reached`].
fn back_to(
    network: &Network,
    reached: &[Option<Arrival>],
    from: usize,
    to: usize,
) -> Option<Vec<Hop>> {
    let mut steps = Vec::new();
    let mut at = to;
    while at != from {
        let step = reached.get(at).copied().flatten()?.1;
        steps.push(step);
        [at, _] = hosts_of(&network.links[step.link], step.direction);
    }
    steps.reverse();
    Some(steps)
}

/// Returns the link by which a host sends to each of the others; `None` for itself and for hosts without a way.
fn first_links(network: &Network, from: usize, is_up: &dyn Fn(Hop) -> bool) -> Vec<Option<usize>> {
    let reached = reached(network, from, is_up);
    let first = |to| Some(back_to(network, &reached, from, to)?.first()?.link);
    (0..network.hosts.len()).map(first).collect()
}

/// Returns the impairments on the way of a packet that visits these hosts, in order; of no way between two of them, none.
pub fn along<'a>(network: &'a Network, hosts: &[usize]) -> Vec<&'a Impairments> {
    let steps = hosts.windows(2).filter_map(|pair| way(network, pair[0], pair[1])).flatten();
    steps.map(|step| step.impairments(network)).collect()
}

/// Way between the near and the far host, there and back.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundWay<'a> {
    /// Impairments on the way from near to far, in order.
    pub up: Vec<&'a Impairments>,
    /// Impairments on the way back, in order.
    pub down: Vec<&'a Impairments>,
}

/// Returns the ways between the near and the far host: one by each link of the near host that leads there, in the order of
/// the links.
pub fn round_ways(network: &Network) -> Vec<RoundWay<'_>> {
    let by = |link: usize| {
        let [first, second] = network.links[link].ends;
        let (peer, out, back) = if first == network.near {
            (second, Direction::Up, Direction::Down)
        } else {
            (first, Direction::Down, Direction::Up)
        };
        let passes = peer == network.far || network.forwards(peer);
        let (onward, homeward) =
            (way(network, peer, network.far)?, way(network, network.far, peer)?);
        let up = std::iter::once(Hop { link, direction: out }).chain(onward);
        let down = homeward.into_iter().chain([Hop { link, direction: back }]);
        passes.then(|| RoundWay {
            up: up.map(|step| step.impairments(network)).collect(),
            down: down.map(|step| step.impairments(network)).collect(),
        })
    };
    network.links_of(network.near).filter_map(by).collect()
}

/// Cost of a way, and its last hop.
type Arrival = ((u64, usize), Hop);

/// Returns how each host is reached by links that are up, by Dijkstra's algorithm: networks have few hosts, so the nearest
/// is searched for.
fn reached(network: &Network, from: usize, is_up: &dyn Fn(Hop) -> bool) -> Vec<Option<Arrival>> {
    let mut best: Vec<Option<Arrival>> = vec![None; network.hosts.len()];
    let mut done = vec![false; network.hosts.len()];
    let mut next = Some((from, (0, 0)));
    while let Some((host, (delay, links))) = next {
        done[host] = true;
        let passes = host == from || network.forwards(host);
        for link in network.links_of(host).filter(|_| passes) {
            let ends = &network.links[link];
            for direction in [Direction::Up, Direction::Down] {
                let [tail, head] = hosts_of(ends, direction);
                if tail != host || done[head] || !is_up(Hop { link, direction }) {
                    continue;
                }
                let cost = (delay + ends.toward(direction).delay.0, links + 1);
                if best[head].is_none_or(|(known, _)| cost < known) {
                    best[head] = Some((cost, Hop { link, direction }));
                }
            }
        }
        let open = best.iter().enumerate().filter(|(host, _)| !done[*host]);
        let open = open.filter_map(|(host, arrival)| Some((host, (*arrival)?.0)));
        next = open.min_by_key(|(host, cost)| (*cost, *host));
    }
    best
}

/// Returns the hosts at which a direction of a link begins and ends.
pub fn hosts_of(link: &Link, direction: Direction) -> [usize; 2] {
    let [first, second] = link.ends;
    match direction {
        Direction::Up => [first, second],
        Direction::Down => [second, first],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(network: &Network, from: &str, to: &str) -> Option<Vec<String>> {
        let index = |name: &str| network.hosts.iter().position(|host| host == name).unwrap();
        let steps = way(network, index(from), index(to))?;
        Some(steps.iter().map(|step| network.link_name(step.link)).collect())
    }

    #[test]
    fn the_way_is_the_quickest_and_then_the_shortest() {
        let typed =
            "a--r:delay=5ms + r--b:delay=5ms + r--s:delay=1ms + s--b:delay=1ms + a--s:delay=8ms";
        let network = Network::parse(&format!("{typed},near=a,far=b")).unwrap();
        assert_eq!(names(&network, "a", "b").unwrap(), ["a--r", "r--s", "s--b"]);
        assert_eq!(names(&network, "b", "a").unwrap(), ["s--b", "r--s", "a--r"]);
        assert_eq!(names(&network, "a", "a").unwrap(), [""; 0]);
        let same = Network::parse("a--r:delay=1ms + r--b:delay=1ms + a--b:delay=2ms").unwrap();
        assert_eq!(names(&same, "a", "b").unwrap(), ["a--b"]);
    }

    #[test]
    fn directions_may_take_different_ways() {
        let typed =
            "a--b:up.delay=9ms,down.delay=1ms + a--r:delay=2ms + r--b:delay=2ms,near=a,far=b";
        let network = Network::parse(typed).unwrap();
        assert_eq!(names(&network, "a", "b").unwrap(), ["a--r", "r--b"]);
        assert_eq!(names(&network, "b", "a").unwrap(), ["a--b"]);
    }

    #[test]
    fn each_link_of_the_near_host_begins_a_way() {
        let delays = |typed: &str| -> Vec<[u64; 2]> {
            let network = Network::parse(typed).unwrap();
            let ms = |way: &[&Impairments]| way.iter().map(|on| on.delay.0 / 1_000_000).sum();
            round_ways(&network).iter().map(|way| [ms(&way.up), ms(&way.down)]).collect()
        };
        assert_eq!(delays("delay=3ms + up.delay=7ms"), [[3, 3], [7, 0]]);
        let phone = "phone--wifi:delay=1ms + phone--lte:delay=20ms + wifi--server:delay=9ms + \
                     lte--server:up.delay=5ms,down.delay=6ms,far=server";
        assert_eq!(delays(phone), [[10, 10], [25, 26]]);
    }

    #[test]
    fn a_route_as_written_is_taken_while_its_links_are_up() {
        let typed = "a--r:delay=1ms + r--b:delay=1ms + r--s:delay=9ms,down=2s-3s + s--b:delay=9ms";
        let typed = format!("{typed},near=a,far=b,route=a/r/s/b,reroute=0ms");
        let network = Network::parse(&typed).unwrap();
        assert_eq!(names(&network, "a", "b").unwrap(), ["a--r", "r--s", "s--b"]);
        assert_eq!(names(&network, "b", "a").unwrap(), ["r--b", "a--r"]);
        // To b's address on the last link of the route, from the router; that on the other link stands for it.
        let all = over_time(&network);
        let by: Vec<[Option<usize>; 2]> =
            all.iter().map(|routes| [routes.link(1, 3, 1), routes.link(1, 1, 1)]).collect();
        assert_eq!(by, [[Some(2), Some(1)], [Some(1), Some(1)], [Some(2), Some(1)]]);
    }

    #[test]
    fn the_satellite_of_a_dish_changes_each_15_seconds() {
        let network = Network::parse("starlink").unwrap();
        let host = |name: &str| network.hosts.iter().position(|own| own == name).unwrap();
        let last = network.links_of(network.far).next().unwrap();
        let of = |routes: &Routes| {
            let link = &network.links[routes.link(host("dish"), last, 1).unwrap()];
            (routes.from.0 / 1_000_000, link.up.delay.0 / 1_000_000)
        };
        let mut all: Vec<(u64, u64)> = over_time(&network).iter().map(of).collect();
        all.dedup_by_key(|(_, delay)| *delay);
        let minute = [(0, 15), (12_035, 40), (27_035, 20), (42_035, 30), (57_035, 15)];
        assert_eq!(all[..5], minute);
        assert_eq!((all.len(), all.last()), (21, Some(&(297_035, 15))));
        // Back over the same satellite, at the same times.
        let back = |routes: &Routes| routes.link(host("internet"), 0, 0).unwrap();
        let up = |routes: &Routes| routes.link(host("dish"), last, 1).unwrap();
        assert!(over_time(&network).iter().all(|routes| back(routes) == up(routes) + 1));
    }

    #[test]
    fn near_and_far_pass_nothing_on() {
        let typed = "near--x:delay=1ms + near--y:delay=1ms + x--far:delay=9ms + y--far:delay=9ms";
        let network = Network::parse(&format!("{typed},near=near,far=far")).unwrap();
        assert_eq!(names(&network, "x", "y"), None);
        assert_eq!(first_links(&network, 0, &|_| true), [None, Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn hosts_send_around_a_link_that_is_down_a_while_after_it_is() {
        let typed = "a--r:delay=1ms + r--s:delay=1ms,down=2s-5s + s--b:delay=1ms + r--t:delay=5ms + t--s:delay=5ms";
        let network = Network::parse(&format!("{typed},near=a,far=b")).unwrap();
        assert_eq!(over_time(&network).len(), 1);
        let network = Network::parse(&format!("{typed},near=a,far=b,reroute=200ms")).unwrap();
        let [r, s] =
            ["r", "s"].map(|name| network.hosts.iter().position(|own| own == name).unwrap());
        // To b's address on the third link, and back to a's on the first.
        let ways: Vec<(u64, Option<usize>, Option<usize>)> = over_time(&network)
            .iter()
            .map(|routes| (routes.from.0 / 1_000_000, routes.link(r, 2, 1), routes.link(s, 0, 0)))
            .collect();
        assert_eq!(
            ways,
            [(0, Some(1), Some(1)), (2_200, Some(3), Some(4)), (5_200, Some(1), Some(1))]
        );
        let [a, b] = [network.near, network.far];
        let links = |routes: &Routes, from, to| -> Vec<usize> {
            routes.way(&network, from, to).unwrap().iter().map(|hop| hop.link).collect()
        };
        let all = over_time(&network);
        assert_eq!((links(&all[0], a, b), links(&all[1], a, b)), (vec![0, 1, 2], vec![0, 3, 4, 2]));
        assert_eq!((links(&all[1], b, a), links(&all[2], b, a)), (vec![2, 4, 3, 0], vec![2, 1, 0]));
        assert_eq!(all[0].way(&network, a, a), Some(Vec::new()));
    }

    #[test]
    fn a_host_without_a_way_keeps_its_routes_and_an_address_of_an_end_host_its_link() {
        let typed = "a--r + r--b:down=1s-2s + a--b:delay=9ms,near=a,far=b,reroute=0ms";
        let all = over_time(&Network::parse(typed).unwrap());
        let times: Vec<u64> = all.iter().map(|routes| routes.from.0 / 1_000_000).collect();
        assert_eq!(times, [0, 1_000, 2_000]);
        // The router, host 1, keeps b's address on its own link; b reaches a's address there by the other link.
        assert_eq!((all[1].link(1, 1, 1), all[0].link(2, 0, 0)), (Some(1), Some(1)));
        assert_eq!(all[1].link(2, 0, 0), Some(2));
        // Only one direction is down: r sends to s by the other link, and s to r as before.
        let typed = "a--r + r--s:up.down=1s-2s + r--s:delay=1ms + s--b,near=a,far=b,reroute=0ms";
        let network = Network::parse(typed).unwrap();
        let all = over_time(&network);
        assert_eq!(all.len(), 3);
        let [r, s] =
            ["r", "s"].map(|name| network.hosts.iter().position(|own| own == name).unwrap());
        assert_eq!((all[1].link(r, 3, 1), all[1].link(s, 0, 0)), (Some(2), Some(1)));
        // Also to the other end of the link itself.
        assert_eq!((all[0].link(r, 1, 1), all[1].link(r, 1, 1)), (Some(1), Some(2)));
    }
}
