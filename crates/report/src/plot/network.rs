//! Drawing of a network: hosts in columns by their distance from the near one, links with numbers, and what each link does
//! in a key below.

use super::canvas::{Anchor, Canvas, Size, TEXT};
use super::ink::Ink;
use super::label::width;
use super::{MOST_ROWS, drawn, figure_text, left_out, numbers};
use crate::figure::Figure;
use crate::network::{LinkRow, MOST_DRAWN, Span, roles, rows, title};
use deadheat_base::ends::Direction;
use deadheat_contract::measurements::Unit;
use deadheat_path::network::Network;
use deadheat_path::routes::{self, Routes};
use deadheat_result::path_way::PathWay;

/// Height of a host's place in its column.
const PLACE: f64 = 50.0;
/// Room beside the first and the last column.
const SIDE: f64 = 34.0;
/// Height of a line of the key.
const LINE: f64 = 16.0;
/// Distance of a link's number from its line.
const NUMBER: f64 = 8.0;
/// Radius of the mark of a host.
const RADIUS: f64 = 7.0;

/// Draws a network, with its account where a race has one.
pub(super) fn figure(network: &Network, account: &[PathWay]) -> Figure {
    let rows = rows(network);
    let caption = format!(
        "{}. Filled: hosts with a role; {} is near, {} far. Squares pass packets on. Dark links are on the way there or \
         back, the thickest is the bottleneck of the way there.{}{}{}",
        title(network),
        network.hosts[network.near],
        network.hosts[network.far],
        if turned(network).is_empty() { "" } else { " Dashed: taken after a link went down." },
        if (0..network.links.len()).any(|link| goes_down(network, link)) {
            " ×: down for a while."
        } else {
            ""
        },
        left_out(rows.len(), MOST_ROWS)
    );
    let table = table(&rows, account);
    drawn("network".into(), "The network".into(), caption, table, |size| draw(network, &rows, size))
}

/// Returns what each link does, and what it did in the valid trials of a race.
fn table(rows: &[LinkRow], account: &[PathWay]) -> super::Numbers {
    let mut headings = vec!["link", "impairments", "part"];
    if !account.is_empty() {
        headings.extend(["packets", "lost", "queue drops", "queued p50", "queued p99"]);
    }
    let had = |link, direction| {
        account.iter().find(move |way| way.link == link && way.direction == direction)
    };
    let row = |row: &LinkRow| {
        let mut cells = vec![row.name.clone(), row.words.clone(), row.part.clone()];
        let ways: Vec<&PathWay> = match row.direction {
            Some(direction) => had(row.link, direction).into_iter().collect(),
            None => [Direction::Up, Direction::Down]
                .into_iter()
                .filter_map(|direction| had(row.link, direction))
                .collect(),
        };
        let text = |of: &dyn Fn(&PathWay) -> String| {
            ways.iter().map(|way| of(way)).collect::<Vec<_>>().join(" / ")
        };
        if !account.is_empty() {
            cells.push(text(&|way| way.packets.to_string()));
            cells.push(text(&|way| way.lost.to_string()));
            cells.push(text(&|way| way.queue_drops.to_string()));
            cells.push(text(&|way| figure_text(way.queued_p50_ns, Unit::Nanos)));
            cells.push(text(&|way| figure_text(way.queued_p99_ns, Unit::Nanos)));
        }
        cells
    };
    numbers(&headings, rows.iter().map(row).collect())
}

fn draw(network: &Network, rows: &[LinkRow], size: Size) -> String {
    let shown = &rows[..rows.len().min(MOST_ROWS)];
    let is_drawn = network.hosts.len() <= MOST_DRAWN;
    let span = Span::of(network);
    let tallest = columns(&span).iter().map(Vec::len).max().unwrap_or(1);
    let graph = if is_drawn { PLACE * tallest as f64 + 12.0 } else { 4.0 };
    let canvas = Canvas::new(size, graph + LINE * shown.len() as f64 + 8.0);
    if is_drawn {
        hosts_and_links(&canvas, network, &span, graph);
    }
    for (at, row) in shown.iter().enumerate() {
        let part = if row.part.is_empty() { String::new() } else { format!(" ({})", row.part) };
        let text = format!("{}  {}: {}{part}", row.link + 1, row.name, row.words);
        let y = graph + LINE * (at as f64 + 0.5);
        canvas.fitted((4.0, y), &text, Ink::Small, Anchor::Left, canvas.width - 8.0);
    }
    canvas.finish()
}

/// Returns the hosts of each column, in the order in which they are reached.
fn columns(span: &Span) -> Vec<Vec<usize>> {
    let last = span.depth.iter().max().map_or(0, |depth| depth + 1);
    let at = |column| span.order.iter().copied().filter(move |host| span.depth[*host] == column);
    (0..last).map(|column| at(column).collect()).collect()
}

/// Returns the place of each host. A column is bent, so that no link within it runs through a third host.
fn places(network: &Network, span: &Span, wide: f64, height: f64) -> Vec<(f64, f64)> {
    let columns = columns(span);
    let step = (wide - 2.0 * SIDE) / (columns.len().max(2) - 1) as f64;
    let mut places = vec![(0.0, 0.0); network.hosts.len()];
    for (column, hosts) in columns.iter().enumerate() {
        let within =
            network.links.iter().any(|link| link.ends.iter().all(|end| hosts.contains(end)));
        let bend = if within { (0.6 * step).min(wide / 5.0) } else { 0.0 };
        for (row, host) in hosts.iter().enumerate() {
            let share = (row as f64 + 0.5) / hosts.len() as f64;
            let bent = bend * (1.0 - (2.0 * share - 1.0).powi(2));
            let x = SIDE + step * column as f64;
            let x = if column + 1 == columns.len() { x - bend + bent } else { x + bent };
            places[*host] = (x, height * share);
        }
    }
    places
}

/// Returns the links that are on the way there or back at some time, and not at the start.
fn turned(network: &Network) -> Vec<usize> {
    let all = routes::over_time(network);
    let of = |routes: &Routes| -> Vec<usize> {
        let ways = [(network.near, network.far), (network.far, network.near)];
        let ways = ways.into_iter().filter_map(|(from, to)| routes.way(network, from, to));
        ways.flatten().map(|hop| hop.link).collect()
    };
    let first = all.first().map(of).unwrap_or_default();
    let later = all.iter().skip(1).flat_map(of);
    later.filter(|link| !first.contains(link)).collect()
}

fn goes_down(network: &Network, link: usize) -> bool {
    let link = &network.links[link];
    !(link.up.down.is_empty() && link.down.down.is_empty())
}

fn hosts_and_links(canvas: &Canvas, network: &Network, span: &Span, height: f64) {
    let places = places(network, span, canvas.width, height);
    let of_way = |from, to| routes::way(network, from, to).unwrap_or_default();
    let there = of_way(network.near, network.far);
    let back = of_way(network.far, network.near);
    let bottleneck = routes::bottleneck(network, &there).map(|hop| hop.link);
    let turned = turned(network);
    for (at, link) in network.links.iter().enumerate() {
        let [from, to] = link.ends.map(|host| places[host]);
        // Links between the same two hosts lie beside each other.
        let before = network.links[..at].iter().filter(|other| same_hosts(other.ends, link.ends));
        let aside = 9.0 * before.count() as f64;
        let (from, to) = ((from.0, from.1 + aside), (to.0, to.1 + aside));
        let ink = match at {
            at if bottleneck == Some(at) => Ink::NobodyMiddle,
            at if there.iter().chain(&back).any(|hop| hop.link == at) => Ink::Interval,
            at if turned.contains(&at) => Ink::Reference,
            _ => Ink::Axis,
        };
        canvas.stroke(from, to, ink);
        if goes_down(network, at) {
            let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
            canvas.text(middle, "×", Ink::Strong, Anchor::Middle);
        }
        if network.links.len() <= MOST_ROWS {
            // Not in the middle, where links cross; beside the line, not on it.
            let on = |a: f64, b: f64| a + 0.42 * (b - a);
            let (across, down) = (to.0 - from.0, to.1 - from.1);
            let aside = NUMBER / across.hypot(down).max(1.0);
            let number = (on(from.0, to.0) + aside * down, on(from.1, to.1) - aside * across);
            canvas.text(number, &(at + 1).to_string(), Ink::Small, Anchor::Middle);
        }
    }
    let count = columns(span).len();
    let room = (canvas.width / count.max(1) as f64 * 0.95).max(40.0);
    for (host, name) in network.hosts.iter().enumerate() {
        let (x, y) = places[host];
        let has_role = network.roles().iter().any(|(_, hosts)| hosts.contains(&host));
        let ink = if has_role { Ink::Measured } else { Ink::NobodyHollow };
        let shape = usize::from(network.forwards(host));
        let words = format!("{name} {}", roles(network, host));
        canvas.mark((x, y), shape, ink, RADIUS, words.trim());
        // Above its mark in the upper half, where links within a column go down.
        let aside = if y < 0.49 * height { -9.0 - RADIUS } else { 9.0 + RADIUS };
        let half = width(name, TEXT).min(room) / 2.0;
        let x = x.min(canvas.width - half - 2.0).max(half + 2.0);
        canvas.fitted((x, y + aside), name, Ink::Text, Anchor::Middle, room);
    }
}

fn same_hosts(one: [usize; 2], other: [usize; 2]) -> bool {
    one == other || one == [other[1], other[0]]
}
