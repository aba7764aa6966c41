//! Contenders that share a path with a load: what each load leaves of their figures, and what it takes of the path. The
//! ratios are the analysis's; nothing is computed here.

use std::collections::BTreeMap;

use super::OpeningFigure;
use crate::document::{Line, Tone};
use crate::names::label;
use crate::words;
use deadheat_base::figures::{percent, percent_range, times};
use deadheat_contract::measurements::name::GOODPUT;
use deadheat_contract::measurements::{Metric, Role};
use deadheat_contract::workload::load;
use deadheat_result::outcome::{Factor, LevelRatio, Outcome, ShareKind, Summary};

/// Most contenders whose share a sentence lists.
const MOST_LISTED: usize = 3;

/// Returns the settings of a race that varies the load and nothing else, by their names in tables, `load=tcp`, with their
/// words in a sentence: `alone`, `beside a load of tcp`; `None` for other races.
pub(super) fn names(outcome: &Outcome) -> Option<BTreeMap<String, String>> {
    let [only] = outcome.factors.as_slice() else { return None };
    let words = |level: &String| {
        let words = load::beside(level).map_or_else(|| "alone".to_owned(), |one| beside(&one));
        (format!("{}={level}", only.name), words)
    };
    load::is_key(&only.name).then(|| only.levels.iter().map(words).collect())
}

fn beside(contender: &str) -> String {
    format!("beside a load of {contender}")
}

/// Returns, for each claim, what each load leaves of the figure without one.
pub(super) fn harm(outcome: &Outcome) -> Vec<Line> {
    let claims = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    let texts = claims.filter_map(|metric| {
        let parts: Vec<String> =
            ratios(outcome, metric).enumerate().map(|(at, one)| one.words(at == 0)).collect();
        (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
    });
    texts.map(|text| Line::new(text, Tone::Plain)).collect()
}

/// Returns what the first load leaves of the first claim.
pub(super) fn figure(outcome: &Outcome) -> Option<OpeningFigure> {
    let metric = outcome.metrics.iter().find(|metric| metric.role == Role::Claim)?;
    let first = ratios(outcome, metric).next()?;
    let level = words::level(outcome.asked.confidence);
    let interval = first.range().map(|range| format!("{range} at {level} confidence"));
    Some(OpeningFigure {
        value: if first.is_goodput() {
            format!("{} of that alone", first.size())
        } else {
            first.size()
        },
        interval: interval.unwrap_or_default(),
        about: format!("{}{}", metric.label, first.figures()),
    })
}

/// Returns what the load has of all goodput while it and the work send, where trials have such a phase.
pub(super) fn taken(outcome: &Outcome) -> Option<Line> {
    let shares = outcome.summary.iter().filter(|summary| summary.metric == load::SHARE);
    let mut shares: Vec<&Summary> = shares.collect();
    shares.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
    let one = |summary: &Summary| {
        format!("{} beside {}", percent(summary.estimate), label(outcome, summary.contender))
    };
    let listed = match shares.as_slice() {
        [] => return None,
        few if few.len() <= MOST_LISTED => {
            words::list(&few.iter().map(|summary| one(summary)).collect::<Vec<_>>())
        }
        [least, .., most] => format!("from {} to {}", one(least), one(most)),
        [only] => one(only),
    };
    let text = format!("While both send, the load has of all goodput {listed}.");
    Some(Line::new(text, Tone::Plain))
}

/// Figure beside a load, against that without one.
struct LoadEffect<'a> {
    outcome: &'a Outcome,
    metric: &'a Metric,
    factor: &'a Factor,
    ratio: &'a LevelRatio,
    contender: String,
}

/// Returns the ratios of a metric beside each load to that without one; none if the race has no part without a load.
fn ratios<'a>(
    outcome: &'a Outcome,
    metric: &'a Metric,
) -> impl Iterator<Item = LoadEffect<'a>> + 'a {
    let factor = outcome.factors.iter().find(|factor| load::is_key(&factor.name));
    let shares = outcome.shares.iter().filter(move |share| {
        share.kind == ShareKind::Factor
            && share.metric == metric.name
            && factor.is_some_and(|factor| factor.name == share.factor)
    });
    let alone = |ratio: &&LevelRatio| load::beside(&ratio.against).is_none();
    let ratios = shares.flat_map(|share| &share.levels).filter(alone);
    ratios.filter_map(move |ratio| {
        let (factor, contender) = (factor?, load::beside(&ratio.level)?);
        Some(LoadEffect { outcome, metric, factor, ratio, contender })
    })
}

impl LoadEffect<'_> {
    fn is_goodput(&self) -> bool {
        self.metric.name == GOODPUT
    }

    /// Returns `49 %` of goodput, `4.3 times` of other figures.
    fn size(&self) -> String {
        if self.is_goodput() {
            percent(self.ratio.ratio)
        } else {
            format!("{} times", times(self.ratio.ratio))
        }
    }

    /// Returns the interval; `None` with too few blocks.
    fn range(&self) -> Option<String> {
        let (low, high) = (self.ratio.low?, self.ratio.high?);
        Some(if self.is_goodput() {
            percent_range(low, high)
        } else {
            format!("{} to {}", times(low), times(high))
        })
    }

    /// Returns the only contender; `None` if the ratio is an average over several, or over other conditions.
    fn alone(&self) -> Option<String> {
        let outcome = self.outcome;
        let is_alone = outcome.asked.contenders.len() == 1 && outcome.factors.len() == 1;
        is_alone.then(|| outcome.contender(0))
    }

    /// Returns the effect in words: a sentence without its end for the first load, a part of it for any other.
    fn words(&self, is_first: bool) -> String {
        let range = self.range().map(|range| format!(" ({range})")).unwrap_or_default();
        let size = self.size();
        if !is_first {
            return format!("{} {size}{range}", beside(&self.contender));
        }
        let (head, quantity) = (words::capital(&beside(&self.contender)), &self.metric.label);
        match (self.is_goodput(), self.alone()) {
            (true, Some(name)) => {
                format!("{head} {name} delivers {size} of what it delivers alone{range}")
            }
            (true, None) => format!(
                "{head} contenders deliver, on average, {size} of what they deliver alone{range}"
            ),
            (false, Some(name)) => {
                format!("{head} the {quantity} of {name} is {size} as high as alone{range}")
            }
            (false, None) => {
                format!("{head} the {quantity} is, on average, {size} as high as alone{range}")
            }
        }
    }

    /// Returns the figures that the ratio is of: ` of udp: 86.9 ms beside a load of tcp, against 20.1 ms alone`.
    fn figures(&self) -> String {
        let beside = beside(&self.contender);
        let both = self.alone().and_then(|name| {
            Some((name, self.own(&self.ratio.level)?, self.own(&self.ratio.against)?))
        });
        match both {
            Some((name, with, without)) => {
                format!(" of {name}: {with} {beside}, against {without} alone")
            }
            None => format!(" {beside}, against that alone: averages over all contenders"),
        }
    }

    /// Returns the figure of the only contender at a level.
    fn own(&self, level: &str) -> Option<String> {
        let LoadEffect { outcome, metric, .. } = self;
        let at = self.factor.levels.iter().position(|other| other == level)?;
        let mut entrants = outcome.contenders.iter();
        let entrant =
            entrants.find(|one| one.cell.as_ref().is_some_and(|cell| cell.levels == [at]))?;
        let mut all = outcome.summary.iter();
        let found = all.find(|one| one.contender == entrant.id && one.metric == metric.name)?;
        let show = if found.censored { words::beyond } else { words::figure };
        Some(show(found.estimate, metric.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::{Opening, of_race};
    use deadheat_base::rng::SplitMix64;
    use deadheat_race::race::{Request, testing};

    /// Returns the first screen of a race of `contenders`, alone and beside a load of tcp. The figures of udp are 100 and 300;
    /// other contenders have 50 and `loaded`.
    fn first_screen(contenders: &[&str], loaded: f64) -> Opening {
        let request = Request::new(contenders.iter().copied())
            .workload(testing::WORKLOAD)
            .vary("load", ["none", "tcp"])
            .blocks(12)
            .seed(1);
        let mut rng = SplitMix64::new(1);
        let outcome = testing::run(&request, |order| {
            let level = match (order.contender().as_str(), order.pairing.load.is_some()) {
                ("udp", false) => 100.0,
                ("udp", true) => 300.0,
                (_, false) => 50.0,
                (_, true) => loaded,
            };
            testing::ran(order, level * (1e-4 * rng.normal()).exp())
        });
        of_race(&outcome.unwrap())
    }

    fn texts(opening: &Opening) -> Vec<&str> {
        opening.headlines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn one_contender_beside_a_load_has_its_figure_without_one() {
        let opening = first_screen(&["udp"], 0.0);
        let [only] = texts(&opening)[..] else { panic!("{opening:?}") };
        let start = "Beside a load of tcp the RTT p50 of udp is 3.0 times as high as alone (";
        assert!(only.starts_with(start) && only.ends_with(")."), "{only}");
        let figure = opening.figure.unwrap();
        assert_eq!(figure.value, "3.0 times");
        assert!(figure.interval.ends_with(" at 95 % confidence"), "{figure:?}");
        let about = "RTT p50 of udp: 300 ns beside a load of tcp, against 100 ns alone";
        assert_eq!(figure.about, about);
    }

    #[test]
    fn of_several_the_leader_beside_each_load_is_named_first() {
        let opening = first_screen(&["udp", "tcp"], 600.0);
        let all = texts(&opening);
        assert_eq!(all[0], "It depends on the load: tcp is ahead alone; udp beside a load of tcp.");
        let start = "Beside a load of tcp the RTT p50 is, on average, 6.0 times as high as alone (";
        assert!(all[1].starts_with(start), "{all:?}");
        let about = opening.figure.unwrap().about;
        assert!(about.contains("the widest lead, "), "{about}");

        let opening = first_screen(&["udp", "tcp"], 150.0);
        let all = texts(&opening);
        assert_eq!(all[0], "tcp is ahead alone and beside a load of tcp.");
        let opening = first_screen(&["udp", "tcp"], 300.0);
        let all = texts(&opening);
        assert_eq!(all[0], "tcp is ahead alone, and no other contender anywhere.");
        assert_eq!(all[2], "Beside a load of tcp: a dead heat of the best.");
    }

    #[test]
    fn the_share_of_the_load_is_said_beside_each_contender() {
        let mut outcome = testing::outcome(3);
        let one = |contender: usize, estimate: f64| Summary {
            contender,
            metric: load::SHARE.to_owned(),
            estimate,
            low: None,
            high: None,
            trials: 8,
            censored: false,
            regimes: None,
            clock_bound_ns: None,
        };
        assert_eq!(taken(&outcome), None);
        outcome.summary = vec![one(0, 0.52), one(1, 0.35)];
        let said = taken(&outcome).unwrap().text;
        assert_eq!(
            said,
            "While both send, the load has of all goodput 35 % beside udp and 52 % beside tcp."
        );
    }
}
