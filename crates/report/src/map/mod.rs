//! A map as text: a letter for each point, the changes of the lead, and a table.
//!
//! | file | content |
//! |---|---|
//! | `sheet.rs` | points by rows and columns, and the letters that stand for them; for drawings, too |
//! | `borders.rs` | changes of the lead, row by row |
//! | `csv.rs` | a row for each point |
//! | `opening.rs` | the first screen of a page |

use std::collections::BTreeMap;

use super::document::{Block, Cell, Column, Document, Line, Section, Table, Tone};
use super::plot::{self, palette, style};
use super::text::{columns, pad};
use super::why;
use super::words::{self, Scale};
use super::{Detail, Style, html, markdown, terminal};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_result::causes::Cause;
use deadheat_result::layout;
use deadheat_result::map::file::{Map, MapContender};
use deadheat_result::map::point::{MapPoint, PointAnswer};
use sheet::{MapPanel, Sheet, figure_text, is_alone, outcome_text, subtitle, title};

mod borders;
mod csv;
mod opening;
pub(super) mod sheet;

/// The formats of a map; the first is the default.
pub const FORMATS: &[&str] = &["terminal", "markdown", "csv", "json", html::ID];

/// Maximum number of points whose figures a first screen lists, for a map of one contender.
const MOST_FIGURES: usize = 40;

/// Renders a map in the form called `format`; with a newline at its end.
///
/// # Errors
/// [`Error::Usage`] for a format that a map does not have.
pub fn render(map: &Map, format: &str, style: &Style) -> Result<String> {
    match format {
        "terminal" => {
            let sections = match style.detail {
                // The figures are the map, where nobody leads.
                Detail::Brief if is_alone(map) && map.asked.points() <= MOST_FIGURES => {
                    vec![points(map)]
                }
                Detail::Brief => Vec::new(),
                Detail::Full => vec![points(map)],
            };
            Ok(terminal::render(&document(map, sections), style))
        }
        "markdown" => Ok(markdown::render(&document(map, vec![points(map)]))),
        "csv" => Ok(csv::render(map)),
        html::ID => {
            let colours = map.contenders.iter().map(|contender| contender.colour.as_str());
            let document = document(map, vec![points(map)]);
            let (drawing, opening) = (plot::map_figure_of_page(map), opening::of(map));
            Ok(html::of_document(&document, &opening, Some(&drawing), &palette::areas(colours)))
        }
        "json" => {
            let text = layout::text(map);
            text.map(|text| text + "\n").map_err(|e| Error::data("map", e.to_string()))
        }
        other => Err(unknown("format", other, FORMATS)),
    }
}

/// Returns the picture of a map, as an SVG file.
pub fn picture(map: &Map) -> String {
    let colours = map.contenders.iter().map(|contender| contender.colour.as_str());
    style::standalone(&plot::map_figure(map), &palette::areas(colours))
}

fn document(map: &Map, more: Vec<Option<Section>>) -> Document {
    let sheet = Sheet::of(map);
    // Neighbours with equal figures are rare.
    let borders = if is_alone(map) { Vec::new() } else { borders::borders(map, &sheet) };
    let mut sections = vec![
        Section::new("", vec![Block::Sentences(answer(map))]),
        Section::new("Map", sheet.panels.iter().map(|panel| chart(&sheet, panel)).collect()),
        Section::new("", vec![Block::Fixed(sheet.legend())]),
        Section::new("Borders", vec![Block::Facts(borders)]),
        Section::new("Behind, and why", vec![Block::Facts(behind(map))]),
        Section::new("Did not take part everywhere", vec![Block::Facts(outs(map))]),
    ];
    sections.extend(more);
    Document {
        title: title(map),
        subtitle: subtitle(map),
        sections: sections.into_iter().flatten().collect(),
    }
}

/// Returns the number of points at which each contender is ahead, and of the other outcomes.
fn answer(map: &Map) -> Vec<Line> {
    let all = map.asked.points();
    let ends = ends(map);
    let with = |standing| map.points.iter().filter(move |point| point.outcome == standing);
    let mut parts: Vec<(String, Tone)> = Vec::new();
    let mut say = |what: &str, n: usize, tone| {
        if n > 0 {
            parts.push((format!("{what} {n}"), tone));
        }
    };
    for contender in &map.contenders {
        let ahead = with(PointAnswer::Ahead).filter(|point| point.leaders == [contender.id]);
        say(&format!("{} ahead at", contender.label), ahead.count(), Tone::Good);
    }
    for contender in &map.contenders {
        let alone = with(PointAnswer::Alone).filter(|point| point.leaders == [contender.id]);
        say(&format!("{} alone at", contender.label), alone.count(), Tone::Open);
    }
    say("Dead heat at", with(PointAnswer::DeadHeat).count(), Tone::Tie);
    let (told, doubted): (Vec<&MapPoint>, _) =
        with(PointAnswer::Undecided).partition(|point| point.trusted);
    say("Undecided at", told.len(), Tone::Open);
    say("Not to be trusted at", doubted.len(), Tone::Bad);
    say("No contender got through at", with(PointAnswer::Failed).count(), Tone::Bad);
    let doubted = with(PointAnswer::Figure).filter(|point| !point.trusted);
    say("Not to be trusted at", doubted.count(), Tone::Bad);
    say("Not run:", all - map.points.len().min(all), Tone::Open);
    let of = words::count(all as u64, "point");
    let line = |(text, tone)| Line::new(format!("{text} of {of}."), tone);
    ends.into_iter().chain(parts.into_iter().map(line)).collect()
}

/// Returns the least and the largest figure of a map of one contender, and their places.
fn ends(map: &Map) -> Option<Line> {
    let figures = map.points.iter().filter(|point| point.outcome == PointAnswer::Figure);
    let figures: Vec<(f64, &MapPoint)> =
        figures.filter_map(|point| Some((point.summary.first()?.estimate, point))).collect();
    let least = figures.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = figures.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let at = |(_, point): &(f64, &MapPoint)| {
        format!("{} at {}", figure_text(map, point), map.asked.name(&point.at))
    };
    let text = match figures.len() {
        1 => format!("{}: {}.", map.metric.label, at(least)),
        _ => format!("{} from {} to {}.", map.metric.label, at(least), at(most)),
    };
    Some(Line::new(text, Tone::Plain))
}

/// Returns the causes of each contender that is behind somewhere, the most frequent first.
fn behind(map: &Map) -> Vec<(String, String)> {
    let of = |contender: &MapContender| {
        let own = map.points.iter().flat_map(|point| &point.behind);
        let mut times: BTreeMap<Cause, usize> = BTreeMap::new();
        for behind in own.filter(|behind| behind.contender == contender.id) {
            *times.entry(behind.cause).or_default() += 1;
        }
        let mut causes: Vec<(Cause, usize)> = times.into_iter().collect();
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let at = |(cause, n): &(Cause, usize)| {
            format!("{} at {}", why::name(*cause), words::count(*n as u64, "point"))
        };
        let text = causes.iter().map(at).collect::<Vec<_>>().join(", ");
        (!causes.is_empty()).then(|| (contender.label.clone(), text))
    };
    map.contenders.iter().filter_map(of).collect()
}

/// Draws a panel with letters.
fn chart(sheet: &Sheet<'_>, panel: &MapPanel<'_>) -> Block {
    let mut lines: Vec<String> = Vec::new();
    if !panel.title.is_empty() {
        lines.push(panel.title.clone());
    }
    let names = sheet.rows.iter().map(String::as_str).chain([sheet.y]);
    let width = names.map(columns).max().unwrap_or(0);
    if !sheet.y.is_empty() {
        lines.push(format!("{}{}", " ".repeat(width - columns(sheet.y)), sheet.y));
    }
    for (name, points) in sheet.rows.iter().zip(&panel.rows).rev() {
        let before =
            |point: &MapPoint| sheet.leaning(point).map(|id| format!("?{}", sheet.letter_of(id)));
        let mark = |point: &Option<&MapPoint>| {
            point.and_then(before).unwrap_or_else(|| format!(" {}", sheet.letter(*point)))
        };
        let marks: String = points.iter().map(mark).collect();
        lines.push(format!("{}{name} {marks}", " ".repeat(width - columns(name))));
    }
    let scale = scale(sheet.columns);
    lines.push(format!("{}  {scale}", pad("", width)));
    lines.push(format!("{}  {}", pad("", width), sheet.x));
    Block::Fixed(lines)
}

/// Returns the levels that have room below their columns, two characters each: the first, the last, and
/// as many between as fit.
fn scale(levels: &[String]) -> String {
    let mut line = String::new();
    let last = levels.len().saturating_sub(1);
    let end = 2 * last;
    for (at, level) in levels.iter().enumerate() {
        let (used, from) = (columns(&line), 2 * at);
        let is_free = used == 0 || used < from;
        let leaves_room = at == 0 || from + columns(level) < end;
        if is_free && leaves_room || at == last {
            line += &" ".repeat(from.saturating_sub(used).max(usize::from(used > 0)));
            line += level;
        }
    }
    line
}

/// Returns, for each contender that was out at some points, their number and the reason at the first.
fn outs(map: &Map) -> Vec<(String, String)> {
    let fact = |contender: &deadheat_result::map::file::MapContender| {
        let mut outs = map.points.iter().filter_map(|point| {
            Some((point, point.out.iter().find(|out| out.contender == contender.id)?))
        });
        let (point, out) = outs.next()?;
        let n = words::count(outs.count() as u64 + 1, "point");
        let text = format!("at {n}, the first {}: {}", map.asked.name(&point.at), out.why);
        Some((contender.label.clone(), text))
    };
    map.contenders.iter().filter_map(fact).collect()
}

/// Returns a row for each point.
fn points(map: &Map) -> Option<Section> {
    let column = |heading: &str, cell: &dyn Fn(&MapPoint) -> Cell| {
        Column::new(heading, map.points.iter().map(cell).collect())
    };
    let mut all: Vec<Column> = map
        .asked
        .over
        .iter()
        .enumerate()
        .map(|(at, key)| column(&key.name, &|point| Cell::text(point.at[at].clone())))
        .collect();
    if is_alone(map) {
        all.push(column(&map.metric.label, &|point| Cell::text(outcome_text(map, Some(point)))));
    } else {
        all.push(column("ahead", &|point| Cell::text(outcome_text(map, Some(point)))));
        all.push(column("nearest pair", &|point| Cell::text(nearest(map, point))));
        for contender in &map.contenders {
            all.push(column(&contender.label, &|point| figure(map, point, contender.id)));
        }
    }
    all.push(column("blocks", &|point| Cell::text(point.blocks.to_string())));
    let legend = if is_alone(map) {
        format!("Medians of {} over trials, each with its interval.", map.metric.label)
    } else {
        format!(
            "Medians of {} over trials. The nearest pair is that of which it takes the most to say who leads: \
         the ratio of the two with its interval.",
            map.metric.label
        )
    };
    Section::new("Points", vec![Block::Table(Table { columns: all, legend })])
}

fn figure(map: &Map, point: &MapPoint, id: usize) -> Cell {
    let summary = point.summary.iter().find(|summary| summary.contender == id);
    let text = summary.map_or_else(
        || words::NOTHING.to_owned(),
        |summary| Scale::of([summary.estimate], map.metric.unit).with_unit(summary.estimate),
    );
    Cell::text(text)
}

/// Returns the ratio of the closest pair: `kcp / quic 0.87 [0.84, 0.90]`.
pub(super) fn nearest(map: &Map, point: &MapPoint) -> String {
    let label = |id: usize| map.contenders.get(id).map_or("", |one| one.label.as_str());
    let Some(verdict) = point.closest() else { return String::new() };
    let Some(ratio) = &verdict.ratio else { return String::new() };
    let (ratio, interval) = words::ratio(ratio);
    format!("{} / {} {ratio} {interval}", label(verdict.a), label(verdict.b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_names_the_ends_and_what_has_room_between() {
        let levels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let long: Vec<String> =
            levels(&["1ms", "1.68ms", "2.82ms", "4.74ms", "7.96ms", "13.4ms", "22.4ms", "300ms"]);
        assert_eq!(scale(&long), "1ms 2.82ms    300ms");
        assert_eq!(scale(&levels(&["0%", "10%"])), "0% 10%");
        assert_eq!(scale(&levels(&["a", "b", "c"])), "a b c");
        assert_eq!(scale(&[]), "");
    }
}
