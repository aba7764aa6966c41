//! Ways in a network: from each host to each other by the least delay, and among those by the fewest links. Pure.

use super::network::{Impairments, Link, Network};
use deadheat_base::ends::Direction;

/// Hop of a way: a link, and the direction in which it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link.
    pub link: usize,
    /// Direction of the link.
    pub direction: Direction,
}

/// Returns the way from one host to another; empty from a host to itself, `None` where no hosts that forward connect the
/// two.
pub fn way(network: &Network, from: usize, to: usize) -> Option<Vec<Hop>> {
    back_to(network, &reached(network, from), from, to)
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
pub fn first_links(network: &Network, from: usize) -> Vec<Option<usize>> {
    let reached = reached(network, from);
    let first = |to| Some(back_to(network, &reached, from, to)?.first()?.link);
    (0..network.hosts.len()).map(first).collect()
}

/// Returns the impairments on the way of a packet that visits these hosts, in order; of no way between two of them, none.
pub fn along<'a>(network: &'a Network, hosts: &[usize]) -> Vec<&'a Impairments> {
    let steps = hosts.windows(2).filter_map(|pair| way(network, pair[0], pair[1])).flatten();
    steps.map(|step| network.links[step.link].toward(step.direction)).collect()
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
    let on = |step: &Hop| network.links[step.link].toward(step.direction);
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
            up: up.map(|step| on(&step)).collect(),
            down: down.map(|step| on(&step)).collect(),
        })
    };
    network.links_of(network.near).filter_map(by).collect()
}

/// Cost of a way, and its last hop.
type Arrival = ((u64, usize), Hop);

/// Returns how each host is reached, by Dijkstra's algorithm: networks have few hosts, so the nearest is searched for.
fn reached(network: &Network, from: usize) -> Vec<Option<Arrival>> {
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
                if tail != host || done[head] {
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
fn hosts_of(link: &Link, direction: Direction) -> [usize; 2] {
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
    fn near_and_far_pass_nothing_on() {
        let typed = "near--x:delay=1ms + near--y:delay=1ms + x--far:delay=9ms + y--far:delay=9ms";
        let network = Network::parse(&format!("{typed},near=near,far=far")).unwrap();
        assert_eq!(names(&network, "x", "y"), None);
        assert_eq!(first_links(&network, 0), [None, Some(0), Some(1), Some(0)]);
    }
}
