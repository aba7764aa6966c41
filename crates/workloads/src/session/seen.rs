//! Measurement of everything that a person receives of others, and the figures of pairs of people.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Metrics, Role, Tally};
use deadheat_contract::workload::EndpointReport;

use crate::paced::Measure;
use crate::share::parts;
use crate::share::seen::{CLOCKS, FIGURES, PICTURE, SessionMeasure};

/// Figures that are reported of each pair, one for each part.
const OF_PAIRS: [&str; 4] = ["pen_mean_ns", "pose_age_mean_ns", "voice_impairment_share", PICTURE];

/// Measurements of what one person receives of others on one flow.
pub(super) struct Others {
    me: u16,
    /// Measurement of each of the others, by the person's number.
    measures: Vec<(u16, SessionMeasure)>,
}

impl Others {
    /// Creates the measurements of these others at the person `me`.
    pub(super) fn new(me: u16, measures: Vec<(u16, SessionMeasure)>) -> Others {
        Others { me, measures }
    }

    /// Returns the measurement of the person who sent a message with this number, and the number without the person.
    fn of(&self, number: u64) -> Option<(usize, u64)> {
        let (person, own) = parts::apart(number);
        let at = self.measures.iter().position(|(one, _)| u64::from(*one) == person)?;
        Some((at, own))
    }
}

impl Measure for Others {
    const BYTES_EACH: u64 = SessionMeasure::BYTES_EACH;

    /// Returns the length 0, of no message, for a number of no person among them.
    fn numbered(&self, _seq: u64, bytes: &[u8]) -> (u64, Option<usize>) {
        let number = parts::read(bytes);
        let length = self.of(number).map(|(at, own)| self.measures[at].1.length(own));
        (number, Some(length.unwrap_or(0)))
    }

    #[inline]
    fn note(&mut self, now: Nanos, number: u64, due: Option<Nanos>, received: &Tally) {
        if let Some((at, own)) = self.of(number) {
            self.measures[at].1.note(now, own, due, received);
        }
    }

    fn is_waiting(&self) -> bool {
        self.measures.iter().any(|(_, measure)| measure.is_waiting())
    }

    /// Adds the worst of all others, where all have a figure, and the figures of each.
    fn report(&mut self, ended: bool, report: &mut EndpointReport) {
        if !ended {
            return;
        }
        let each = self.measures.iter().map(|(one, measure)| (*one, measure.figures()));
        let each: Vec<_> = each.map(|(one, figures)| (one, figures.unwrap_or_default())).collect();
        for (name, _, _, better) in FIGURES {
            let of = |(one, figures): &(u16, Vec<(&str, f64)>)| {
                let (_, figure) = figures.iter().find(|(known, _)| known == name)?;
                Some((*one, *figure))
            };
            let known: Vec<(u16, f64)> = each.iter().filter_map(of).collect();
            if known.len() == each.len() {
                let figures = known.iter().map(|(_, figure)| *figure);
                let worst = figures.reduce(|a, b| worse(*better, a, b));
                report.figures.extend(worst.map(|worst| ((*name).to_owned(), worst)));
            }
            if OF_PAIRS.contains(name) {
                let pairs =
                    known.into_iter().map(|(one, figure)| (pair(name, one, self.me), figure));
                report.figures.extend(pairs);
            }
        }
    }
}

/// Returns the worse of two figures.
pub(super) fn worse(better: Better, one: f64, other: f64) -> f64 {
    match better {
        Better::Lower => one.max(other),
        Better::Higher => one.min(other),
    }
}

/// Returns the name of a figure of what one person sees of another: `pen_1_to_2_mean_ns`.
fn pair(name: &str, from: u16, to: u16) -> String {
    let (part, rest) = name.split_once('_').unwrap_or((name, ""));
    format!("{part}_{}_to_{}_{rest}", from + 1, to + 1)
}

/// Returns the metrics of all pairs of `count` people.
pub(super) fn of_pairs(count: u16, compares_clocks: bool) -> Vec<Metric> {
    let shown = FIGURES.iter().filter(|(name, ..)| OF_PAIRS.contains(name));
    let metrics = shown.flat_map(|(name, label, unit, better)| {
        let clock = CLOCKS.iter().find(|(known, _)| known == name && compares_clocks);
        let clock = clock.map_or(ClockNeed::None, |(_, need)| *need);
        pairs(count).map(move |(from, to)| Metric {
            name: pair(name, from, to),
            label: format!("{label}, {} to {}", from + 1, to + 1),
            unit: *unit,
            better: *better,
            role: Role::Descriptive,
            clock,
        })
    });
    metrics.collect()
}

/// Returns the first pair of `count` people without a figure of the part that `claimed` is of: who sends, and who
/// receives.
pub(super) fn unseen(known: &Metrics, claimed: &str, count: u16) -> Option<(u16, u16)> {
    let part = |name: &str| name.split('_').next().map(str::to_owned);
    let shown = OF_PAIRS.iter().find(|name| part(name) == part(claimed))?;
    pairs(count).find(|(from, to)| !known.contains_key(&pair(shown, *from, *to)))
}

/// Iterates over all pairs of `count` people: who sends, and who receives.
fn pairs(count: u16) -> impl Iterator<Item = (u16, u16)> {
    let all = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
}
