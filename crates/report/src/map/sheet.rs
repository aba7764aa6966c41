//! Points of a map by rows and columns, and the letters that stand for them.

use super::super::text::wrap;
use super::super::words::{self, Scale};
use deadheat_contract::measurements::Better;
use deadheat_path::grammar;
use deadheat_result::map::file::Map;
use deadheat_result::map::point::{MapPoint, PointAnswer};

/// Width of a line of the legend.
const LEGEND: usize = 76;

/// Points of a map, laid out: the first key across, the second upwards, and a panel for each combination
/// of the others.
pub(crate) struct Sheet<'a> {
    map: &'a Map,
    /// Name of the key across.
    pub x: &'a str,
    /// Levels of the key across.
    pub columns: &'a [String],
    /// Name of the key upwards; empty if there is none.
    pub y: &'a str,
    /// Levels of the key upwards, from the bottom.
    pub rows: Vec<String>,
    /// Panels, one at least.
    pub panels: Vec<MapPanel<'a>>,
    letters: Vec<char>,
    /// Range of the figures of a map of one contender; absent without figures.
    range: Option<(f64, f64)>,
}

/// Points under one combination of the keys beyond the second.
pub(crate) struct MapPanel<'a> {
    /// The combination: `rate=1mbit`; empty with two keys.
    pub title: String,
    /// Rows of points, from the bottom; `None` for a point that is not done.
    pub rows: Vec<Vec<Option<&'a MapPoint>>>,
}

impl<'a> Sheet<'a> {
    pub(crate) fn of(map: &'a Map) -> Sheet<'a> {
        let keys = &map.asked.over;
        let (x, columns) = keys.first().map_or(("", &[][..]), |key| (&key.name, &key.levels));
        let y = keys.get(1);
        let others = keys.get(2..).unwrap_or_default();
        let rows = y.map_or_else(|| vec![String::new()], |key| key.levels.clone());
        // The last keys run fastest: the first points have every combination of them.
        let panel = |index: usize| {
            let levels = map.asked.at(index).split_off(keys.len().min(2));
            let point = |x: &String, y: &String| {
                let both = [x].into_iter().chain((!y.is_empty()).then_some(y));
                let at: Vec<String> = both.chain(&levels).cloned().collect();
                map.point(map.asked.index(&at)?)
            };
            let row = |y: &String| columns.iter().map(|x| point(x, y)).collect();
            let named =
                others.iter().zip(&levels).map(|(key, level)| format!("{}={level}", key.name));
            MapPanel {
                title: named.collect::<Vec<_>>().join(", "),
                rows: rows.iter().map(row).collect(),
            }
        };
        let combinations: usize = others.iter().map(|key| key.levels.len()).product();
        Sheet {
            map,
            x,
            columns,
            y: y.map_or("", |key| &key.name),
            panels: (0..combinations).map(panel).collect(),
            rows,
            letters: letters(map),
            range: range(map),
        }
    }

    /// Returns the letter of a contender.
    pub(crate) fn letter_of(&self, id: usize) -> char {
        self.letters.get(id).copied().unwrap_or('?')
    }

    /// Returns the letter of a point: the letter of its leader, small where others had no part in it.
    pub(crate) fn letter(&self, point: Option<&MapPoint>) -> char {
        let Some(point) = point else { return '·' };
        let leader = point.leaders.first().map_or('?', |id| self.letter_of(*id));
        match point.outcome {
            PointAnswer::Ahead if point.out.is_empty() => leader,
            PointAnswer::Ahead | PointAnswer::Alone => leader.to_ascii_lowercase(),
            PointAnswer::DeadHeat => '=',
            PointAnswer::Undecided => '?',
            PointAnswer::Failed => '×',
            PointAnswer::Figure if !point.trusted => '?',
            PointAnswer::Figure => self.digit(point),
        }
    }

    /// Returns the contender that leads in the figures of an undecided point, by more than the margin; `None` where none
    /// does, and where the race is not trusted.
    pub(crate) fn leaning(&self, point: &MapPoint) -> Option<usize> {
        let front = point.summary.iter().filter(|one| point.leaders.contains(&one.contender));
        let mut front: Vec<(f64, usize)> = front
            .map(|one| match self.map.metric.better {
                Better::Lower => (one.estimate, one.contender),
                Better::Higher => (1.0 / one.estimate, one.contender),
            })
            .collect();
        front.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let [(best, id), (next, _), ..] = front[..] else { return None };
        let leads = point.outcome == PointAnswer::Undecided && best > 0.0;
        (leads && next / best > 1.0 + self.map.asked.margin).then_some(id)
    }

    /// Returns the place of a point's figure among all, from 0 to 1: by ratios where the largest is ten times the least
    /// or more, by differences otherwise.
    pub(crate) fn share(&self, point: &MapPoint) -> f64 {
        let Some((least, most)) = self.range else { return 0.0 };
        let own = point.summary.first().map_or(least, |summary| summary.estimate);
        let share = if is_geometric(least, most) {
            (own / least).ln() / (most / least).ln()
        } else {
            (own - least) / (most - least)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the digit of a figure: 0 for the least, 9 for the largest.
    fn digit(&self, point: &MapPoint) -> char {
        let digit = (9.0 * self.share(point)).round() as u32;
        char::from_digit(digit, 10).unwrap_or('?')
    }

    /// Returns the meaning of the digits.
    pub(crate) fn digits(&self) -> Option<String> {
        let (least, most) = self.range?;
        let text = |value: f64| Scale::of([value], self.map.metric.unit).with_unit(value);
        let steps = if is_geometric(least, most) { "ratios" } else { "steps" };
        Some(format!("0 {} to 9 {}, in equal {steps}", text(least), text(most)))
    }

    /// Returns the meaning of each letter and sign on the map.
    pub(super) fn legend(&self) -> Vec<String> {
        let contenders = self.map.contenders.iter();
        let names: Vec<String> = if is_alone(self.map) {
            self.digits().into_iter().collect()
        } else {
            contenders.map(|one| format!("{} {}", self.letter_of(one.id), one.label)).collect()
        };
        let signs: Vec<String> =
            self.signs().map(|(sign, text)| format!("{sign} {text}")).collect();
        let lines = [names, signs].into_iter().filter(|line| !line.is_empty());
        lines.flat_map(|line| wrap(&line.join(", "), LEGEND)).collect()
    }

    /// Returns the signs on the map other than contenders, with their meaning.
    pub(crate) fn signs(&self) -> impl Iterator<Item = (char, &'static str)> {
        let points = &self.map.points;
        let has = |standing| points.iter().any(|point| point.outcome == standing);
        let doubted = points.iter().any(|p| p.outcome == PointAnswer::Figure && !p.trusted);
        let leaning = points.iter().any(|point| self.leaning(point).is_some());
        let small = points.iter().find(|point| self.letter(Some(point)).is_ascii_lowercase());
        let all = [
            (has(PointAnswer::DeadHeat).then_some('='), "dead heat"),
            (has(PointAnswer::Undecided).then_some('?'), "undecided"),
            (
                leaning.then_some('?'),
                "before a letter: undecided, but that one leads in the figures",
            ),
            (doubted.then_some('?'), "not to be trusted"),
            (small.map(|point| self.letter(Some(point))), "small: ahead where others had no part"),
            (has(PointAnswer::Failed).then_some('×'), "no contender got through"),
            ((points.len() < self.map.asked.points()).then_some('·'), "not run"),
        ];
        all.into_iter().filter_map(|(sign, text)| Some((sign?, text)))
    }
}

/// Returns true if figures are put in order by ratios.
fn is_geometric(least: f64, most: f64) -> bool {
    least > 0.0 && most / least >= 10.0
}

/// Returns a unique letter for each contender, from its name if one is free.
fn letters(map: &Map) -> Vec<char> {
    let mut taken: Vec<char> = Vec::new();
    for contender in &map.contenders {
        let name = contender.label.chars().filter(char::is_ascii_alphabetic);
        let mut wanted = name.map(|c| c.to_ascii_uppercase()).chain('A'..='Z');
        let free = wanted.find(|letter| !taken.contains(letter));
        taken.push(free.unwrap_or('?'));
    }
    taken
}

/// Returns the name of a key for an axis.
pub(crate) fn axis(key: &str) -> String {
    if let Some(key) = key.strip_prefix(deadheat_result::map::request::OF_WORK) {
        return format!("{key} of the work");
    }
    let is_both_ways =
        grammar::LINK.iter().any(|link| link.name == key) && !grammar::OF_BOTH.contains(&key);
    if is_both_ways { format!("{key}, each way") } else { key.to_owned() }
}

/// Returns the leaders of a point as letters: `K`, `K=Q`, or `?K` where only the figures have a leader.
pub(crate) fn mark(sheet: &Sheet<'_>, point: &MapPoint) -> String {
    match point.outcome {
        PointAnswer::DeadHeat => {
            let letters: Vec<String> =
                point.leaders.iter().map(|id| sheet.letter_of(*id).to_string()).collect();
            letters.join("=")
        }
        _ => match sheet.leaning(point) {
            Some(id) => format!("?{}", sheet.letter_of(id)),
            None => sheet.letter(Some(point)).to_string(),
        },
    }
}

/// Returns the outcome at a point, in a sentence.
pub(crate) fn sentence(map: &Map, point: &MapPoint) -> String {
    let mut text = format!("{}: {}", map.asked.name(&point.at), outcome_text(map, Some(point)));
    let nearest = super::nearest(map, point);
    if !nearest.is_empty() {
        text += &format!(", {nearest}");
    }
    for out in &point.out {
        let label = map.contenders.get(out.contender).map_or("", |one| one.label.as_str());
        text += &format!(", {label} out");
    }
    text
}
/// Returns the range of the figures of a map of one contender; `None` without figures.
fn range(map: &Map) -> Option<(f64, f64)> {
    let figures = || {
        let figures = map.points.iter().filter(|point| point.outcome == PointAnswer::Figure);
        figures.filter_map(|point| point.summary.first()).map(|summary| summary.estimate)
    };
    Some((figures().reduce(f64::min)?, figures().reduce(f64::max)?))
}

/// Returns the subject of a map, in words.
pub(crate) fn subtitle(map: &Map) -> String {
    let asked = &map.asked;
    let path = match asked.path.trim() {
        "" => "an emulated path".to_owned(),
        path => format!("path {path}"),
    };
    let sizes: Vec<String> = asked.over.iter().map(|key| key.levels.len().to_string()).collect();
    let blocks = asked.blocks.map(|blocks| format!(", up to {}", words::count(blocks, "block")));
    format!(
        "{} over {path} · {} points{} · margin {}",
        asked.workload,
        sizes.join(" × "),
        blocks.unwrap_or_default(),
        words::margin(asked.margin)
    )
}

/// Returns the title of a map.
pub(crate) fn title(map: &Map) -> String {
    let labels: Vec<&str> = map.contenders.iter().map(|c| c.label.as_str()).collect();
    if let [only] = labels[..] {
        let keys: Vec<String> = map.asked.over.iter().map(|key| axis(&key.name)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        return format!("{} of {only} over {}", map.metric.label, words::list(&keys));
    }
    format!("Who is ahead where in {}: {}", map.metric.label, words::list(&labels))
}

/// Returns the outcome at a point, in a few words: `kcp`, `dead heat of quic and kcp`, `undecided`.
pub(crate) fn outcome_text(map: &Map, point: Option<&MapPoint>) -> String {
    let Some(point) = point else { return "not run".to_owned() };
    let label = |id: &usize| map.contenders.get(*id).map_or("", |one| one.label.as_str());
    let leaders: Vec<&str> = point.leaders.iter().map(label).collect();
    match point.outcome {
        PointAnswer::Ahead => leaders.concat(),
        PointAnswer::DeadHeat if leaders.len() == map.contenders.len() && leaders.len() > 2 => {
            "dead heat of all".to_owned()
        }
        PointAnswer::DeadHeat => format!("dead heat of {}", words::list(&leaders)),
        PointAnswer::Undecided => match Sheet::of(map).leaning(point) {
            Some(id) => format!("undecided, {} leads in the figures", label(&id)),
            None => "undecided".to_owned(),
        },
        PointAnswer::Alone => format!("{} alone", leaders.concat()),
        PointAnswer::Failed => "no contender".to_owned(),
        PointAnswer::Figure => figure_text(map, point),
    }
}

/// Returns the figure of a map's only contender with its interval: `12.3 ms (11.0 to 14.2)`.
pub(super) fn figure_text(map: &Map, point: &MapPoint) -> String {
    let Some(summary) = point.summary.first() else { return words::NOTHING.to_owned() };
    let scale = Scale::of([summary.estimate], map.metric.unit);
    let figure = scale.with_unit(summary.estimate);
    let doubt = if point.trusted { "" } else { ", not to be trusted" };
    match (summary.low, summary.high) {
        (Some(low), Some(high)) => {
            format!("{figure} ({} to {}){doubt}", scale.number(low), scale.number(high))
        }
        _ => format!("{figure}{doubt}"),
    }
}

/// Returns true for a map of one contender, which has figures and no leads.
pub(crate) fn is_alone(map: &Map) -> bool {
    map.contenders.len() == 1
}
