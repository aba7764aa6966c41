//! The first sentences of advice, for a person who has to choose: what to take and what not, what it costs beside time, and
//! whether it gets through where UDP is blocked.

use crate::document::{Line, Tone};
use crate::words;
use deadheat_result::advise::outcome::{ContenderFigure, RankedContender};

/// Maximum number of names in a sentence; more are counted.
const MOST_NAMES: usize = 3;

/// Returns the sentences; none without a place.
pub(super) fn lines(places: &[RankedContender]) -> Vec<Line> {
    let Some(first) = places.first() else { return Vec::new() };
    let best: Vec<&RankedContender> =
        places.iter().take_while(|placed| placed.place == first.place).collect();
    let mut lines = vec![Line::new(choice(&best, places), Tone::Good)];
    lines.extend(costs(&best).map(|text| Line::new(text, Tone::Plain)));
    lines.extend(reach(&best, places).map(|text| Line::new(text, Tone::Plain)));
    lines
}

/// Returns what to take, with its figure, and the worst of the rest with its own.
fn choice(best: &[&RankedContender], places: &[RankedContender]) -> String {
    let first = best[0];
    let mut text = match best.len() {
        1 => format!("Take {}", first.contender),
        _ => format!("Take any of {}, which no verdict sets apart", names(best)),
    };
    if let Some(figure) = &first.figure {
        let label = &figure.metric.label;
        text.push_str(&format!(": {label} of `{}` about {}", figure.traffic, value(figure)));
    }
    text.push('.');
    let rest = places[best.len()..].iter().rev();
    let worst =
        rest.filter_map(|placed| Some((placed, placed.figure.as_ref()?))).find(|(_, figure)| {
            let same = |own: &ContenderFigure| {
                (&own.traffic, &own.metric.name) == (&figure.traffic, &figure.metric.name)
            };
            first.figure.as_ref().is_some_and(same)
        });
    if let Some((placed, figure)) = worst {
        text.push_str(&format!(" Not {}: {}.", placed.contender, value(figure)));
    }
    text
}

/// Returns what the best take beside time: bytes on the wire and CPU time, from the least to the most.
fn costs(best: &[&RankedContender]) -> Option<String> {
    let range = |of: &dyn Fn(&ContenderFigure) -> Option<f64>, unit: &dyn Fn(f64) -> String| {
        let known = best.iter().filter_map(|one| Some((of(one.figure.as_ref()?)?, one)));
        let mut known: Vec<(f64, &&RankedContender)> = known.collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let of_one = |(value, one): &(f64, &&RankedContender)| {
            format!("{} ({})", unit(*value), one.contender)
        };
        match known.as_slice() {
            [] => None,
            [only] => Some(of_one(only)),
            [least, .., most] => Some(format!("{} to {}", of_one(least), of_one(most))),
        }
    };
    let bytes = range(&|figure| figure.wire_ratio, &|ratio| format!("{ratio:.2}"));
    let cpu = range(&|figure| figure.cpu_ns, &|ns| format!("{:.1} µs", ns / 1e3));
    let bytes =
        bytes.map(|text| format!("Bytes on the wire for each of the application's: {text}."));
    let cpu = cpu.map(|text| format!("CPU time of both ends a message: {text}."));
    let said: Vec<String> = bytes.into_iter().chain(cpu).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Returns what gets through where a network blocks UDP; `None` if an older file does not say.
fn reach(best: &[&RankedContender], places: &[RankedContender]) -> Option<String> {
    places.iter().all(|placed| placed.needs_udp.is_some()).then_some(())?;
    let passes = |placed: &&&RankedContender| placed.needs_udp == Some(false);
    let of_best: Vec<&RankedContender> = best.iter().filter(passes).copied().collect();
    let where_blocked = "Where a network blocks UDP";
    Some(match (of_best.len(), places.iter().find(|placed| placed.needs_udp == Some(false))) {
        (0, None) => {
            format!("{where_blocked}, none of these gets through: race one over TCP, too.")
        }
        (0, Some(other)) => {
            let figure = other.figure.as_ref();
            let figure =
                figure.map_or_else(String::new, |figure| format!(", with {}", value(figure)));
            format!("{where_blocked}, {} is the best that gets through{figure}.", other.contender)
        }
        (n, _) if n == best.len() => "It does not take UDP, which some networks block.".into(),
        _ => format!("{where_blocked}, of these {} gets through.", names(&of_best)),
    })
}

fn value(figure: &ContenderFigure) -> String {
    words::figure(figure.estimate, figure.metric.unit)
}

fn names(of: &[&RankedContender]) -> String {
    let mut named: Vec<String> =
        of.iter().take(MOST_NAMES).map(|one| one.contender.clone()).collect();
    if of.len() > MOST_NAMES {
        named.push(format!("{} more", of.len() - MOST_NAMES));
    }
    words::list(&named)
}
