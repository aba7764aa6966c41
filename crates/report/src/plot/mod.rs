//! The figures of a result and of a study, drawn as SVG.
//!
//! | file | content |
//! |---|---|
//! | `pairs.rs` | ratios of pairs against the margin |
//! | `trials.rs` | figures of trials in boxes, with every trial shown |
//! | `distribution.rs` | the share of round trips beyond a time |
//! | `drift.rs` | figures from block to block |
//! | `course.rs` | the work over time, before, during and after a load |
//! | `long.rs` `sender.rs` | long trials, and dense series: round trips, goodput, outages, congestion control over time |
//! | `within.rs` | course of trials from start to end |
//! | `flows.rs` | flows of dense series together, over the fullest queue |
//! | `load.rs` | windows and round trips of the flows of a load |
//! | `offered.rs` | delivered over offered load |
//! | `bars.rs` | round trips in parts, CPU time, the ladder of goodput |
//! | `levels.rs` | a race over conditions: figures by level, shares of the variation |
//! | `map.rs` | a map: the leader at each point |
//! | `network.rs` | a network of hosts: links, ways, bottleneck |
//! | `queue.rs` | queues of an emulated path over time |
//! | `line.rs` | a surveyed line: round trips, idle and loaded |
//! | `study.rs` | a study: published beside measured, claims |
//! | `claim.rs` | a claim of a study: what its tests asked for, over the range that it says |
//! | `rows.rs` `facets.rs` | layouts that these share |
//! | `canvas.rs` `axis.rs` `label.rs` | sheets and panels, axes and ticks, text that fits |
//! | `svg.rs` `ink.rs` | elements as they are written, and the meaning of each |
//! | `palette.rs` `style.rs` | colours; styles of classes, and drawings that stand alone |

use super::figure::{Figure, Numbers};
use super::{ReportInput, results, words};
use deadheat_contract::measurements::{Metric, Role, Unit};
use deadheat_path::network::Network;
use deadheat_result::analysis::{path_ways, spread};
use deadheat_result::map::file::Map;
use deadheat_result::outcome::Outcome;
use deadheat_result::path_way::PathWay;
use deadheat_result::study::outcome::StudyRun;

mod axis;
mod bars;
mod canvas;
mod claim;
mod course;
mod curves;
mod distribution;
mod drift;
mod facets;
mod flows;
mod ink;
mod label;
mod levels;
pub(super) mod line;
mod load;
mod long;
mod map;
mod network;
mod offered;
mod pairs;
pub mod palette;
mod queue;
mod rows;
mod sender;
mod study;
pub mod style;
mod svg;
mod trials;
mod within;

use canvas::Size;

/// Maximum number of metrics that have a box plot: claims, then others in their order.
const MOST_METRICS: usize = 6;
/// Maximum number of metrics that have a box plot in a race over conditions, where each has many rows.
const MOST_METRICS_VARIED: usize = 2;
/// Maximum number of metrics that are shown from block to block.
const MOST_DRIFTS: usize = 2;
/// Maximum number of rows or panels of a figure.
const MOST_ROWS: usize = 40;

/// Returns the figures of a result, in the order of a page, without empty ones.
pub fn figures(shown: &ReportInput<'_>) -> Vec<Figure> {
    let outcome = shown.outcome;
    let claims = || outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    let others = outcome.metrics.iter().filter(|metric| metric.role != Role::Claim);
    let boxed: Vec<&Metric> =
        claims().chain(others).filter(|metric| has_figures(outcome, metric)).collect();
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(claims().filter_map(|metric| pairs::figure(outcome, metric)));
    let most = if outcome.factors.is_empty() { MOST_METRICS } else { MOST_METRICS_VARIED };
    figures.extend(boxed.iter().take(most).filter_map(|m| trials::figure(outcome, m)));
    figures.extend(distribution::figure(shown));
    figures.extend(boxed.iter().take(MOST_DRIFTS).filter_map(|m| drift::figure(outcome, m)));
    figures.extend(course::figures(outcome));
    figures.extend(long::figure(outcome));
    let flows = flows::figures(outcome);
    let loads = if flows.is_empty() { load::figures(outcome) } else { Vec::new() };
    figures.extend(flows);
    figures.extend(within::figure(outcome));
    figures.extend(loads);
    figures.extend(offered::figure(outcome));
    figures.extend(bars::split(outcome));
    figures.extend(bars::cpu(outcome));
    figures.extend(bars::ladder(outcome));
    figures.extend(queue::figure(outcome));
    figures.extend(levels::figures(outcome));
    figures.extend(levels::shares(outcome));
    let network = path_ways::network(outcome).filter(Network::has_others);
    figures.extend(network.map(|network| network::figure(&network, &outcome.path_ways)));
    distinct(&mut figures);
    figures
}

/// Returns the figures of a study.
pub fn study_figures(run: &StudyRun) -> Vec<Figure> {
    let mut figures: Vec<Figure> = study::published(run).into_iter().collect();
    figures.extend(curves::figure(run));
    figures.extend(study::claims(run));
    distinct(&mut figures);
    figures
}

/// Returns a figure for each claim of a study that asks for ratios.
pub fn claim_figures(run: &StudyRun) -> Vec<Figure> {
    let mut figures: Vec<Figure> = claim::figures(run).collect();
    distinct(&mut figures);
    figures
}

/// Returns the figure of a network, with its account where a race has one.
pub(super) fn network_figure(network: &Network, account: &[PathWay]) -> Figure {
    network::figure(network, account)
}

/// Returns the figure of a map, with its title in the drawing.
pub fn map_figure(map: &Map) -> Figure {
    map::figure(map, map::MapPlace::Picture)
}

/// Returns the figure of a map for a page, which has the title above it.
pub(super) fn map_figure_of_page(map: &Map) -> Figure {
    map::figure(map, map::MapPlace::Page)
}

/// Numbers figures of one name, because a foreign file may have several metrics of one name.
fn distinct(figures: &mut [Figure]) {
    for at in 1..figures.len() {
        let (before, rest) = figures.split_at_mut(at);
        let own = rest[0].id.clone();
        let mut n = 2;
        while before.iter().any(|figure| figure.id == rest[0].id) {
            rest[0].id = format!("{own}-{n}");
            n += 1;
        }
    }
}

/// Returns a name for an id: lower case, digits and dashes.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().take(60).map(plain).collect()
}

/// Draws a figure in both sizes.
fn drawn(
    id: String,
    title: String,
    caption: String,
    numbers: Numbers,
    draw: impl Fn(Size) -> String,
) -> Figure {
    Figure { id, title, caption, wide: draw(Size::Wide), narrow: draw(Size::Narrow), numbers }
}

/// Creates rows of numbers under headings.
fn numbers(headings: &[&str], rows: Vec<Vec<String>>) -> Numbers {
    Numbers { headings: headings.iter().map(ToString::to_string).collect(), rows }
}

/// Formats a figure in words, if there is one.
fn figure_text(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| words::NOTHING.to_owned(), |value| words::figure(value, unit))
}

/// Returns true if the metric has figures other than zeros, which it has if nothing was lost.
fn has_figures(outcome: &Outcome, metric: &Metric) -> bool {
    let figures = |id| spread::figures(outcome, id, &metric.name);
    outcome.contenders.iter().any(|entrant| figures(entrant.id).iter().any(|figure| *figure != 0.0))
}

/// Returns the contenders in the order of the table of results, and a sentence on the contenders left out.
fn order(outcome: &Outcome) -> (Vec<usize>, String) {
    let mut order = results::rows(outcome);
    let all = order.len();
    order.truncate(MOST_ROWS);
    (order, left_out(all, MOST_ROWS))
}

/// Returns a sentence on omitted rows or panels.
fn left_out(all: usize, most: usize) -> String {
    if all <= most {
        return String::new();
    }
    format!(" Only the first {most} of {all} are drawn.")
}
