//! Network of hosts for people: its hosts as a tree, the ways between its roles, and the impairments of each link. The
//! drawing of the same is in `plot/network.rs`.

use std::collections::VecDeque;

use super::document::{Block, Document, Line, Section, Tone};
use super::plot::{self, style};
use super::text::{columns, pad};
use super::{Style, terminal, words};
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_path::network::Network;
use deadheat_path::routes::{self, Hop, Routes};
use deadheat_result::analysis::path_ways;
use deadheat_result::outcome::Outcome;

/// Largest number of hosts that are drawn; of more there are the ways and the links.
pub(super) const MOST_DRAWN: usize = 16;

/// Largest number of ways in the text.
const MOST_WAYS: usize = 24;

/// Largest number of changes of ways in the text.
const MOST_CHANGES: usize = 24;

/// Columns of a line of the tree.
const WIDEST: usize = 78;

/// Renders a network for a terminal; with a newline at its end.
pub fn render(network: &Network, style: &Style) -> String {
    let links = Section::new("Links", vec![Block::Facts(links(network))]);
    let typed = network.to_string().replace(" + ", " +\n");
    let typed = typed.lines().map(|line| Line::new(line, Tone::Plain)).collect();
    let typed = Section::new("As typed", vec![Block::Sentences(typed)]);
    let seed = network.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
    let document = Document {
        title: title(network),
        subtitle: format!("MTU {} B{seed}", network.mtu()),
        sections: [drawing(network), changes(network), links, typed]
            .into_iter()
            .flatten()
            .collect(),
    };
    terminal::render(&document, style)
}

/// Returns the picture of a network, as an SVG file.
pub fn picture(network: &Network) -> String {
    style::standalone(&plot::network_figure(network, &[]), &[])
}

/// Returns the section on the network of a race over more than two hosts.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    drawing(&path_ways::network(outcome).filter(Network::has_others)?)
}

/// Returns the section on its ways that change.
pub(super) fn changed(outcome: &Outcome) -> Option<Section> {
    changes(&path_ways::network(outcome).filter(Network::has_others)?)
}

/// Names a network by its numbers of hosts and links.
pub(super) fn title(network: &Network) -> String {
    format!(
        "A network of {} and {}",
        words::count(network.hosts.len() as u64, "host"),
        words::count(network.links.len() as u64, "link")
    )
}

fn drawing(network: &Network) -> Option<Section> {
    let tree = if network.hosts.len() > MOST_DRAWN { Vec::new() } else { tree(network) };
    Section::new("The network", vec![Block::Fixed(tree), Block::Facts(ways(network))])
}

/// Returns the roles of a host, in words: `near, load`; that it passes packets on, where it has none.
pub(super) fn roles(network: &Network, host: usize) -> String {
    let own = network.roles().into_iter().filter(|(_, hosts)| hosts.contains(&host));
    let own: Vec<&str> = own.map(|(role, _)| role).collect();
    if network.forwards(host) { "passes packets on".to_owned() } else { own.join(", ") }
}

/// Hosts by the number of links from the near host.
pub(super) struct Span {
    /// Hosts in the order in which they are reached.
    pub order: Vec<usize>,
    /// Number of links to each host.
    pub depth: Vec<usize>,
    /// Link by which each host is reached first; `None` for the near host.
    pub by: Vec<Option<usize>>,
}

impl Span {
    pub(super) fn of(network: &Network) -> Span {
        let count = network.hosts.len();
        let mut span = Span { order: Vec::new(), depth: vec![0; count], by: vec![None; count] };
        let mut open = VecDeque::from([network.near]);
        while let Some(host) = open.pop_front() {
            span.order.push(host);
            for link in network.links_of(host) {
                let other = beyond(network, link, host);
                if other != network.near && span.by[other].is_none() {
                    span.by[other] = Some(link);
                    span.depth[other] = span.depth[host] + 1;
                    open.push_back(other);
                }
            }
        }
        span
    }

    /// Returns true if a host is reached before another.
    fn is_before(&self, host: usize, other: usize) -> bool {
        let at = |host| self.order.iter().position(|one| *one == host);
        at(host) < at(other)
    }
}

/// Returns the host at the other end of a link.
fn beyond(network: &Network, link: usize, host: usize) -> usize {
    let [first, second] = network.links[link].ends;
    if first == host { second } else { first }
}

/// Draws the hosts as a tree from the near one; a link that closes a circle is a leaf, `to HOST`.
fn tree(network: &Network) -> Vec<String> {
    let mut rows = Vec::new();
    branch(network, &Span::of(network), (network.near, ""), &mut rows);
    let widest = rows.iter().map(|(drawn, _)| columns(drawn)).max().unwrap_or(0);
    let lines = rows.into_iter().map(|(drawn, roles)| {
        let line = format!("{}  {roles}", pad(&drawn, widest));
        let mut line = line.trim_end().to_owned();
        if columns(&line) > WIDEST {
            line = line.chars().take(WIDEST - 1).chain(['…']).collect();
        }
        line
    });
    lines.collect()
}

/// Adds the lines of the hosts behind a host, each with `lead` in front.
fn branch(
    network: &Network,
    span: &Span,
    (host, lead): (usize, &str),
    rows: &mut Vec<(String, String)>,
) {
    if rows.is_empty() {
        rows.push((network.hosts[host].clone(), roles(network, host)));
    }
    let own = |link: &usize| {
        let other = beyond(network, *link, host);
        let is_tree = span.by[other] == Some(*link);
        span.by[host] != Some(*link) && (is_tree || span.is_before(host, other))
    };
    let links: Vec<usize> = network.links_of(host).filter(own).collect();
    for (at, link) in links.iter().enumerate() {
        let is_last = at + 1 == links.len();
        let other = beyond(network, *link, host);
        let name = &network.hosts[other];
        let sign = format!("{lead}{}", if is_last { "└─ " } else { "├─ " });
        if span.by[other] == Some(*link) {
            rows.push((format!("{sign}{name}"), roles(network, other)));
            let lead = format!("{lead}{}", if is_last { "   " } else { "│  " });
            branch(network, span, (other, &lead), rows);
        } else {
            rows.push((format!("{sign}to {name}"), String::new()));
        }
    }
}

/// Returns the ways between hosts that send to each other by their roles, and to the far host from others that pass
/// nothing on.
fn ways(network: &Network) -> Vec<(String, String)> {
    let of = |(from, to): (usize, usize)| {
        let way = routes::way(network, from, to)?;
        Some((between(network, (from, to)), way_text(network, &way)))
    };
    pairs(network).into_iter().filter_map(of).collect()
}

/// Returns the section on ways that change once a link went down or came back: from when on each is taken.
fn changes(network: &Network) -> Option<Section> {
    let all = routes::over_time(network);
    let mut facts = Vec::new();
    for routes in all.windows(2) {
        for (from, to) in pairs(network) {
            let [before, then] = [&routes[0], &routes[1]].map(|all| all.way(network, from, to));
            if let Some(way) = then.filter(|then| before.as_ref() != Some(then)) {
                let text = format!("{} {}", between(network, (from, to)), way_text(network, &way));
                facts.push((routes[1].from, format!("from {} on", routes[1].from), text));
            }
        }
    }
    facts.extend(ends(network, &all));
    facts.sort_by_key(|(from, ..)| *from);
    let facts = facts.into_iter().map(|(_, when, what)| (when, what));
    let mut facts: Vec<(String, String)> = facts.collect();
    let more = facts.len().saturating_sub(MOST_CHANGES);
    facts.truncate(MOST_CHANGES);
    facts.extend((more > 0).then(|| (format!("and {more} more"), String::new())));
    Section::new("Ways that change", vec![Block::Facts(facts)])
}

/// Returns the times at which a way has a link that is down and no change of routes leads around it, with their beginning.
fn ends(network: &Network, all: &[Routes]) -> Vec<(Nanos, String, String)> {
    let Some(after) = network.reroute else { return Vec::new() };
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    let mut times: Vec<Nanos> =
        ways.flat_map(|way| way.down.iter()).flat_map(|down| [down.from, down.to]).collect();
    times.extend(all.iter().map(|routes| routes.from));
    times.sort_unstable();
    times.dedup();
    let mut found = Vec::new();
    for (from, to) in pairs(network) {
        let by = |at: Nanos| {
            let routes = all.iter().rfind(|routes| routes.from <= at)?;
            let way = routes.way(network, from, to)?;
            let is_up = |hop: &Hop| !hop.impairments(network).down.includes(at);
            way.iter().all(is_up).then_some(())
        };
        let mut since = None;
        for at in &times {
            match (by(*at), since) {
                (None, None) => since = Some(*at),
                (Some(()), Some(began)) => {
                    since = None;
                    // Until the routes change, packets are lost on any way.
                    let is_change = all.iter().any(|routes| routes.from == *at);
                    if !is_change || *at > began + after {
                        let text = format!("{} has no way", between(network, (from, to)));
                        found.push((began, format!("from {began} to {at}"), text));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn between(network: &Network, (from, to): (usize, usize)) -> String {
    format!("{} to {}", network.hosts[from], network.hosts[to])
}

fn pairs(network: &Network) -> Vec<(usize, usize)> {
    let journeys = network.journeys();
    let steps = journeys.iter().flat_map(|hosts| hosts.windows(2)).map(|step| (step[0], step[1]));
    let others = (0..network.hosts.len()).filter(|host| roles(network, *host).is_empty());
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for pair in steps.chain(others.map(|host| (host, network.far))) {
        if pairs.len() < MOST_WAYS && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}

/// Describes a way: the hosts between its ends, its delay and its least rate.
fn way_text(network: &Network, way: &[Hop]) -> String {
    let between = way.iter().skip(1).map(|hop| ends_of(network, *hop)[0].as_str());
    let via: Vec<&str> = between.collect();
    let via = if via.is_empty() { String::new() } else { format!("by {}; ", via.join(", ")) };
    let delay = way.iter().map(|hop| hop.impairments(network).delay.0).sum();
    let delay = if delay == 0 { "no delay".to_owned() } else { Nanos(delay).to_string() };
    format!("{via}{delay}{}", bottleneck(network, way))
}

/// Describes the bottleneck of a way.
fn bottleneck(network: &Network, way: &[Hop]) -> String {
    let Some(hop) = routes::bottleneck(network, way) else {
        return ", no limit of the rate".to_owned();
    };
    let rate = hop.impairments(network).rate.mean().unwrap_or_default();
    let [a, b] = ends_of(network, hop);
    format!(", {} from {a} to {b}", BitRate(rate as u64))
}

fn ends_of(network: &Network, hop: Hop) -> [&String; 2] {
    routes::hosts_of(&network.links[hop.link], hop.direction).map(|host| &network.hosts[host])
}

/// Direction of a link, or both where they are the same, with its impairments and its part in the ways of the roles.
pub(super) struct LinkRow {
    /// Index of the link.
    pub link: usize,
    /// Direction; `None` for both.
    pub direction: Option<Direction>,
    /// Name: `home → isp`, `home ↔ isp`.
    pub name: String,
    /// Impairments, in the words of a path.
    pub words: String,
    /// Part in the way there and back, in words; empty for none.
    pub part: String,
}

/// Returns the rows of every link: one where both directions and their parts are the same, else two.
pub(super) fn rows(network: &Network) -> Vec<LinkRow> {
    let of_way = |from, to| routes::way(network, from, to).unwrap_or_default();
    let ways = [
        ("way there", of_way(network.near, network.far)),
        ("way back", of_way(network.far, network.near)),
    ];
    let part = |hop: Hop| {
        let parts = ways.iter().filter(|(_, way)| way.contains(&hop)).map(|(name, way)| {
            let is_least = routes::bottleneck(network, way) == Some(hop);
            format!("{name}{}", if is_least { ", bottleneck" } else { "" })
        });
        parts.collect::<Vec<_>>().join("; ")
    };
    let mut rows = Vec::new();
    for (link, of) in network.links.iter().enumerate() {
        let [a, b] = of.ends.map(|host| network.hosts[host].as_str());
        let number = match network.link_name(link) {
            name if name.starts_with("link") => format!("{name}, "),
            _ => String::new(),
        };
        let row = |direction: Option<Direction>, sign: &str, [a, b]: [&str; 2]| {
            let toward = direction.unwrap_or(Direction::Up);
            let words = match of.toward(toward).words() {
                words if words.is_empty() => "no impairments".to_owned(),
                words => words,
            };
            let name = format!("{number}{a} {sign} {b}");
            LinkRow { link, direction, name, words, part: part(Hop { link, direction: toward }) }
        };
        let up = row(Some(Direction::Up), "→", [a, b]);
        let down = row(Some(Direction::Down), "→", [b, a]);
        // The same there and back, or on neither way.
        let alike =
            [&up, &down].map(|row| row.part.replace("way there", "way").replace("way back", "way"));
        let is_pair = up.part.is_empty() == down.part.is_empty()
            && (up.part.is_empty() || up.part != down.part);
        if up.words == down.words && alike[0] == alike[1] && is_pair {
            let part = alike[0].replacen("way", "way there and back", 1);
            rows.push(LinkRow { part, ..row(None, "↔", [a, b]) });
        } else {
            rows.extend([up, down]);
        }
    }
    rows
}

fn links(network: &Network) -> Vec<(String, String)> {
    let text = |row: LinkRow| {
        let part = if row.part.is_empty() { String::new() } else { format!(" ({})", row.part) };
        (row.name, row.words + &part)
    };
    rows(network).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a section, up to its first empty one.
    fn section_of(typed: &str, heading: &str) -> Vec<String> {
        let text = render(&Network::parse(typed).unwrap(), &Style::default());
        assert!(text.lines().all(|line| columns(line) <= 80), "{text}");
        let lines = text.lines().skip_while(|line| *line != heading).skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        lines.map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned()).collect()
    }

    const HOME: &str = "home--isp:delay=5ms,up.rate=10mbit + friend--isp:delay=8ms + isp--cloud:delay=20ms,far=cloud";

    #[test]
    fn hosts_stand_below_each_other_with_their_roles() {
        assert_eq!(
            section_of(HOME, "The network"),
            [
                "home          near",
                "└─ isp        passes packets on",
                "   ├─ friend",
                "   └─ cloud   far",
            ]
        );
        let two = section_of("delay=1ms + delay=2ms", "The network");
        assert_eq!(two, ["near       near", "├─ far     far", "└─ to far"]);
    }

    #[test]
    fn a_link_that_closes_a_circle_stands_once() {
        let drawn = section_of("mesh:hosts=4,delay=1ms", "The network").join("\n");
        let closing = drawn.matches("─ to host-").count();
        assert_eq!((drawn.lines().count(), closing), (7, 3), "{drawn}");
    }

    #[test]
    fn a_link_says_what_it_does_in_each_direction_and_on_which_way() {
        assert_eq!(
            section_of(HOME, "Links"),
            [
                "home → isp    delay=5ms, rate=10mbit (way there, bottleneck)",
                "isp → home    delay=5ms (way back)",
                "friend ↔ isp  delay=8ms",
                "isp ↔ cloud   delay=20ms (way there and back)",
            ]
        );
        let typed = section_of("star:hosts=2,delay=1ms|2ms", "As typed");
        assert_eq!(typed, ["host-1--hub:delay=1ms +", "host-2--hub:delay=2ms"]);
    }

    #[test]
    fn a_way_that_changes_has_the_time_from_which_it_is_taken() {
        let typed = "a--r:delay=1ms + r--s:delay=1ms,down=2s-5s + s--b:delay=1ms + r--t:delay=5ms + t--s:delay=5ms,near=a,far=b";
        assert!(section_of(typed, "Ways that change").is_empty(), "they do not, without reroute=");
        assert_eq!(
            section_of(&format!("{typed},reroute=200ms"), "Ways that change")[..3],
            [
                "from 2.20 s on  a to b by r, t, s; 12.0 ms, no limit of the rate",
                "from 2.20 s on  b to a by s, t, r; 12.0 ms, no limit of the rate",
                "from 5.20 s on  a to b by r, s; 3.00 ms, no limit of the rate",
            ]
        );
        let both = typed.replace("t--s:delay=5ms", "t--s:delay=5ms,down=3s-4s");
        let ended = section_of(&format!("{both},reroute=200ms"), "Ways that change");
        assert!(
            ended.iter().any(|line| line.contains("from 3.00 s to 4.00 s  a to b has no way")),
            "{ended:?}"
        );
        let picture = picture(&Network::parse(&format!("{typed},reroute=200ms")).unwrap());
        assert!(picture.contains("taken after a link went down") && picture.contains('×'));
    }

    #[test]
    fn a_network_of_many_hosts_has_its_ways_and_links() {
        let text = render(&Network::parse("star:hosts=255,rate=1mbit").unwrap(), &Style::default());
        assert!(text.contains("A network of 256 hosts and 255 links"), "{text}");
        assert!(text.contains("host-1 to host-255") && text.contains("hub → host-255"), "{text}");
        assert!(!text.contains("└─"), "{text}");
    }
}
