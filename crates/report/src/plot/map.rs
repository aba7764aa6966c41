//! Drawing of a map: a cell for each point, in the colours of its leaders and with their letters.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Frame, Panel, SMALL, Size, TEXT};
use super::ink::Ink;
use super::label::{cut, width};
use super::{MOST_ROWS, drawn, left_out, numbers};
use crate::figure::Figure;
use crate::map::sheet::{
    self, Sheet, axis, is_alone, mark, outcome_text, sentence, subtitle, title,
};
use deadheat_result::map::file::Map;
use deadheat_result::map::point::{MapPoint, PointAnswer};

/// Heights: of a row of cells, of the title over a panel, and of the levels below it.
const ROW: f64 = 26.0;
const TITLE: f64 = 22.0;
const BELOW: f64 = 44.0;
/// Height of a line of the key.
const LINE: f64 = 20.0;
/// Half the side of a sample in the key.
const SAMPLE: f64 = 8.0;

/// Place where a map is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapPlace {
    /// A page, which has the title and the subject of the map above the drawing.
    Page,
    /// A picture of its own, which has them in it.
    Picture,
}

/// Draws a map.
pub(super) fn figure(map: &Map, place: MapPlace) -> Figure {
    let sheet = Sheet::of(map);
    let told = if is_alone(map) { map.metric.label.as_str() } else { "ahead" };
    let headings: Vec<&str> =
        map.asked.over.iter().map(|key| key.name.as_str()).chain([told]).collect();
    let row = |point: &MapPoint| {
        point.at.iter().cloned().chain([outcome_text(map, Some(point))]).collect::<Vec<String>>()
    };
    let cells = format!("{}{}", cells_text(map), left_out(sheet.panels.len(), MOST_ROWS));
    let (title, caption) = match place {
        MapPlace::Picture => (title(map), format!("{}. {cells}", subtitle(map))),
        MapPlace::Page if is_alone(map) => (format!("{} at each point", map.metric.label), cells),
        MapPlace::Page => ("Who is ahead at each point".to_owned(), cells),
    };
    let numbers = numbers(&headings, map.points.iter().map(row).collect());
    drawn("map".into(), title, caption, numbers, |size| draw(map, &sheet, size, place))
}

/// Returns the meaning of the cells.
fn cells_text(map: &Map) -> &'static str {
    if is_alone(map) {
        "A cell for each point, filled from the least figure of the map (empty, 0) to the largest (full, 9); grey \
         where a race is not to be trusted."
    } else {
        "A cell for each point, with the letter and colour of who is ahead there; those in a dead heat share a \
         cell; grey where it is undecided."
    }
}

fn draw(map: &Map, sheet: &Sheet<'_>, size: Size, place: MapPlace) -> String {
    let panels = &sheet.panels[..sheet.panels.len().min(MOST_ROWS)];
    let key = key(map, sheet, size);
    let height = ROW * sheet.rows.len() as f64;
    let titles = if panels.len() > 1 { TITLE } else { 0.0 };
    let each = titles + height + BELOW;
    let head = if place == MapPlace::Picture { 2.0 * LINE } else { 0.0 };
    let top = head + key.last().map_or(0.0, |entry| entry.at.1 + LINE) + LINE;
    let canvas = Canvas::new(size, top + each * panels.len() as f64);
    let room = canvas.width - 4.0;
    if place == MapPlace::Picture {
        canvas.fitted((2.0, 9.0), &title(map), Ink::Strong, Anchor::Left, room * 0.95);
        canvas.fitted((2.0, 9.0 + LINE), &subtitle(map), Ink::Small, Anchor::Left, room);
    }
    for entry in &key {
        entry.draw(&canvas, head);
    }
    let names = sheet.rows.iter().map(|name| width(name, SMALL)).fold(0.0, f64::max);
    for (at, panel) in panels.iter().enumerate() {
        let top = top + each * at as f64 + titles;
        let frame =
            Frame { left: names + 14.0, top, right: canvas.width - 8.0, bottom: top + height };
        if titles > 0.0 {
            canvas.fitted(
                (frame.right, top - 10.0),
                &panel.title,
                Ink::Text,
                Anchor::Right,
                room / 2.0,
            );
        }
        cells(map, &canvas, sheet, panel, frame);
    }
    canvas.finish()
}

/// Draws the cells of a panel, and the levels beside and below.
fn cells(map: &Map, canvas: &Canvas, sheet: &Sheet<'_>, panel: &sheet::MapPanel<'_>, frame: Frame) {
    let (across, up) = (sheet.columns.len().max(1) as f64, sheet.rows.len().max(1) as f64);
    let cell = (frame.right - frame.left) / across;
    let drawn = canvas.panel(frame, Axis::exact(0.0, across), Axis::exact(0.0, up));
    for (row, points) in panel.rows.iter().enumerate() {
        for (column, point) in points.iter().enumerate() {
            let Some(point) = point else { continue };
            let at = (column as f64, row as f64);
            let words = sentence(map, point);
            match point.outcome {
                PointAnswer::Figure if point.trusted => {
                    level(&drawn, at, sheet.share(point), &words)
                }
                _ => fill(&drawn, at, point, &words),
            }
            let mark = mark(sheet, point);
            let fits = width(&mark, TEXT) < cell - 2.0;
            let mark = if fits { mark } else { sheet.letter(Some(point)).to_string() };
            let middle = drawn.at(at.0 + 0.5, at.1 + 0.5);
            let ink = if fits { Ink::Text } else { Ink::Small };
            canvas.text(middle, &mark, ink, Anchor::Middle);
        }
    }
    for (row, name) in sheet.rows.iter().enumerate() {
        let (_, y) = drawn.at(0.0, row as f64 + 0.5);
        canvas.text((frame.left - 6.0, y), name, Ink::Small, Anchor::Right);
    }
    let widest = sheet.columns.iter().map(|name| width(name, SMALL)).fold(0.0, f64::max) + 6.0;
    let every = (widest / cell).ceil().max(1.0) as usize;
    for (column, name) in sheet.columns.iter().enumerate().step_by(every) {
        let (x, _) = drawn.at(column as f64 + 0.5, 0.0);
        canvas.text((x, frame.bottom + 12.0), name, Ink::Small, Anchor::Middle);
    }
    let middle = (frame.left + frame.right) / 2.0;
    canvas.text((middle, frame.bottom + 30.0), &axis(sheet.x), Ink::Text, Anchor::Middle);
    if !sheet.y.is_empty() {
        canvas.text((2.0, frame.top - 10.0), &axis(sheet.y), Ink::Text, Anchor::Left);
    }
}

/// Fills the cell with its corner at `(x, y)`: in stripes if several contenders lead.
fn fill(panel: &Panel<'_>, (x, y): (f64, f64), point: &MapPoint, words: &str) {
    let inks: Vec<Ink> = match point.outcome {
        PointAnswer::Undecided | PointAnswer::Figure => vec![Ink::Unknown],
        PointAnswer::Failed => vec![Ink::NobodyHollow],
        PointAnswer::Ahead | PointAnswer::Alone | PointAnswer::DeadHeat => {
            point.leaders.iter().map(|id| Ink::BarTwo(*id)).collect()
        }
    };
    let stripe = 1.0 / inks.len().max(1) as f64;
    for (at, ink) in inks.into_iter().enumerate() {
        let left = x + at as f64 * stripe;
        panel.rectangle((left, y), (left + stripe, y + 1.0), ink, words);
    }
}

/// Fills the cell with its corner at `(x, y)` from below, to the place of its figure among all.
fn level(panel: &Panel<'_>, (x, y): (f64, f64), share: f64, words: &str) {
    panel.rectangle((x, y), (x + 1.0, y + 1.0), Ink::NobodyHollow, words);
    panel.rectangle((x, y), (x + 1.0, y + share), Ink::BarTwo(0), words);
}

/// Entry of the key: a sample of a cell, its letter, and the meaning.
struct KeyEntry {
    at: (f64, f64),
    ink: Ink,
    letter: String,
    text: String,
}

impl KeyEntry {
    fn draw(&self, canvas: &Canvas, down: f64) {
        let (x, y) = (self.at.0 + SAMPLE, self.at.1 + down + 9.0);
        // A keyboard does not stop at this mark: the words are beside it.
        canvas.mark((x, y), 1, self.ink, SAMPLE, "");
        canvas.text((x, y), &self.letter, Ink::Small, Anchor::Middle);
        canvas.text((x + SAMPLE + 5.0, y), &self.text, Ink::Text, Anchor::Left);
    }
}

/// Returns the key: the contenders, and the other signs of the map, in rows.
fn key(map: &Map, sheet: &Sheet<'_>, size: Size) -> Vec<KeyEntry> {
    let alone = sheet.digits().filter(|_| is_alone(map));
    let contenders = map.contenders.iter().map(|one| match &alone {
        Some(digits) => (Ink::BarTwo(one.id), "9".to_owned(), digits.clone()),
        None => (Ink::BarTwo(one.id), sheet.letter_of(one.id).to_string(), one.label.clone()),
    });
    let others = sheet.signs().map(|(sign, text)| {
        let ink = if sign == '?' { Ink::Unknown } else { Ink::NobodyHollow };
        (ink, sign.to_string(), text.to_owned())
    });
    let (mut x, mut y) = (2.0, 0.0);
    let place = |(ink, letter, text): (Ink, String, String)| {
        let text = cut(&text, TEXT, size.width() * 0.6);
        let wide = 2.0 * SAMPLE + 5.0 + width(&text, TEXT) + 16.0;
        if x > 2.0 && x + wide > size.width() {
            (x, y) = (2.0, y + LINE);
        }
        let at = (x, y);
        x += wide;
        KeyEntry { at, ink, letter, text }
    };
    contenders.chain(others).map(place).collect()
}
