//! From the trials of a survey to figures with intervals. A round is the replicate: an interval is one of order
//! statistics over the rounds (the inverted sign test), so that it holds for noise of any shape. Pure.

use super::outcome::{LineFigure, LineFilling, LineTrial, Survey};
use super::part::LinePart;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::name::RTT_P50;
use deadheat_contract::measurements::{Account, Better, Unit};
use deadheat_contract::workload::load;
use deadheat_stats::quantile::{median, median_ranks};
use deadheat_stats::serial::median_interval;

/// Error level of intervals, where there are enough rounds.
const ERROR: f64 = 0.05;

/// Metric of paced datagrams: the median of their delay beyond the least.
const DELAY_VARIATION: &str = "pdv_p50_ns";

/// Returns the metric of paced datagrams that is their median delay one way.
fn delay_of(direction: Direction) -> String {
    format!("one_way_{direction}_p50_ns")
}

/// Returns the name of the median round trip of a part: `rtt_idle_ns`.
pub fn rtt(part: LinePart) -> String {
    format!("rtt_{}_ns", part.name())
}

/// Returns the name of the goodput of a part's load: `goodput_up_8_bps`.
pub fn goodput(part: LinePart) -> String {
    format!("goodput_{}_bps", part.name())
}

/// Returns the name of the delay that a part's load adds to the round trip of the idle line: `added_up_8_ns`.
pub fn added(part: LinePart) -> String {
    format!("added_{}_ns", part.name())
}

/// Returns the name of the share of paced datagrams that were lost in a direction.
pub fn lost(direction: Direction) -> String {
    format!("loss_{direction}_share")
}

/// Returns the name of the share of paced datagrams that arrived out of order in a direction.
pub fn reordered(direction: Direction) -> String {
    format!("reordered_{direction}_share")
}

/// Returns the name of the median delay of paced datagrams in a direction.
pub fn one_way(direction: Direction) -> String {
    format!("one_way_{direction}_ns")
}

/// Ratio of the goodput in the second half of a load's time to that in the first half from which on it counts as growing.
const GROWTH: f64 = 1.1;

/// Delay that a load adds to the round trip from which on messages count as waiting in its queue: this share of the idle
/// round trip, and at least this time in nanoseconds.
const QUEUE: (f64, f64) = (0.1, 500_000.0);

/// Name of the delay variation of paced datagrams.
pub const PDV: &str = "pdv_paced_ns";

/// Returns the figures of trials, in the order of a report. Trials that do not count are left out, unless none of
/// their kind counts: then the figure is not to be trusted, and better than none.
pub fn figures(trials: &[LineTrial]) -> Vec<LineFigure> {
    let trials = RoundTrials(trials);
    let loaded = || LinePart::ALL.into_iter().filter(|part| part.load().is_some());
    let mut all = Vec::new();
    all.extend(trials.times(rtt(LinePart::Idle), LinePart::Idle, RTT_P50));
    all.extend(loaded().filter_map(|part| trials.times(rtt(part), part, RTT_P50)));
    all.extend(loaded().filter_map(|part| trials.added(part)));
    all.extend(loaded().filter_map(|part| trials.goodput(part)));
    for direction in [Direction::Up, Direction::Down] {
        all.extend(trials.share(lost(direction), direction, Account::lost));
        let out_of_order = |account: &Account| account.reordered.unwrap_or(0);
        all.extend(trials.share(reordered(direction), direction, out_of_order));
    }
    all.extend([Direction::Up, Direction::Down].into_iter().filter_map(|way| trials.one_way(way)));
    all.extend(trials.times(PDV.to_owned(), LinePart::Paced, DELAY_VARIATION));
    all
}

/// Returns the median of values, one a round, with its interval; `None` without values. With too few rounds for
/// `ERROR`, the interval is from the least to the greatest value, with the confidence that it has.
pub fn figure(name: String, (unit, better): (Unit, Better), values: &[f64]) -> Option<LineFigure> {
    let point = median(values)?;
    let (low, high, confidence) = match median_interval(values, ERROR) {
        Some(found) => (found.low, found.high, found.confidence),
        None => {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (low, high, 1.0 - 0.5f64.powi(values.len() as i32 - 1))
        }
    };
    let rounds = values.len() as u64;
    Some(LineFigure {
        name,
        unit,
        better,
        rounds,
        point,
        low,
        high,
        confidence,
        censored: false,
        untrusted: false,
        filling: None,
        clock_bound_ns: None,
    })
}

/// Trials of all rounds.
struct RoundTrials<'a>(&'a [LineTrial]);

impl<'a> RoundTrials<'a> {
    /// Returns the trials of a kind that count, in order of rounds.
    fn of(&self, part: LinePart) -> impl Iterator<Item = &'a LineTrial> {
        let is_trusted = self.is_trusted(part);
        let counts = move |trial: &LineTrial| !is_trusted || trial.why_invalid.is_none();
        self.0.iter().filter(move |trial| trial.part == part && counts(trial))
    }

    /// Returns true if any trial of a kind counts.
    fn is_trusted(&self, part: LinePart) -> bool {
        self.0.iter().any(|trial| trial.part == part && trial.why_invalid.is_none())
    }

    fn metric(&self, part: LinePart, metric: &str) -> Vec<f64> {
        let value = |trial: &LineTrial| trial.metrics.get(metric).copied();
        self.of(part).filter_map(value).filter(|value| value.is_finite()).collect()
    }

    fn times(&self, name: String, part: LinePart, metric: &str) -> Option<LineFigure> {
        let found = figure(name, (Unit::Nanos, Better::Lower), &self.metric(part, metric))?;
        let is_censored = |trial: &LineTrial| trial.censored.iter().any(|name| name == metric);
        let untrusted = !self.is_trusted(part);
        Some(LineFigure { censored: self.of(part).any(is_censored), untrusted, ..found })
    }

    /// Returns the median delay of paced datagrams one way, with the largest error that the clocks of any round allow.
    fn one_way(&self, direction: Direction) -> Option<LineFigure> {
        let found = self.times(one_way(direction), LinePart::Paced, &delay_of(direction))?;
        let bounds = self.of(LinePart::Paced).filter_map(|trial| trial.clock.as_ref());
        Some(LineFigure { clock_bound_ns: bounds.map(|clock| clock.error_bound_ns).max(), ..found })
    }

    /// Returns the difference between the round trip beside a load and that of the idle line in the same round.
    fn added(&self, part: LinePart) -> Option<LineFigure> {
        let at = |trial: &LineTrial| trial.metrics.get(RTT_P50).copied();
        let idle = |round: u64| self.of(LinePart::Idle).find(|trial| trial.round == round);
        let pair = |trial: &LineTrial| Some(at(trial)? - at(idle(trial.round)?)?);
        let values: Vec<f64> = self.of(part).filter_map(pair).collect();
        let found = figure(added(part), (Unit::Nanos, Better::Lower), &values)?;
        let is_censored = |trial: &LineTrial| trial.censored.iter().any(|name| name == RTT_P50);
        let untrusted = !self.is_trusted(part) || !self.is_trusted(LinePart::Idle);
        Some(LineFigure { censored: self.of(part).any(is_censored), untrusted, ..found })
    }

    /// Returns the goodput of a part's load, and how far it filled the line.
    fn goodput(&self, part: LinePart) -> Option<LineFigure> {
        let values = self.metric(part, load::GOODPUT);
        let found = figure(goodput(part), (Unit::BitRate, Better::Higher), &values)?;
        let untrusted = !self.is_trusted(part);
        Some(LineFigure { filling: self.filling(part), untrusted, ..found })
    }

    /// Returns how far a part's load filled the line; `None` if its course is not known.
    fn filling(&self, part: LinePart) -> Option<LineFilling> {
        let courses = || self.of(part).filter_map(|trial| trial.load);
        let growth: Vec<f64> =
            courses().map(|load| load.halves_bps[1] / load.halves_bps[0].max(1.0)).collect();
        if median(&growth)? > GROWTH {
            return Some(LineFilling::Growing);
        }
        let lost: Vec<f64> = courses().map(|load| load.retransmits as f64).collect();
        let idle = median(&self.metric(LinePart::Idle, RTT_P50));
        let busy = median(&self.metric(part, RTT_P50));
        let queue = idle.zip(busy).map(|(idle, busy)| (busy - idle, (QUEUE.0 * idle).max(QUEUE.1)));
        let has_queue = queue.map(|(added, least)| added > least);
        if has_queue == Some(true) || median(&lost)? > 0.0 {
            return Some(LineFilling::Full);
        }
        // Without a round trip of the idle line nobody knows whether anything waited.
        has_queue.map(|_| LineFilling::Unfilled)
    }

    /// Returns the share over all rounds, from the least to the greatest share of a round.
    fn share(
        &self,
        name: String,
        direction: Direction,
        of: impl Fn(&Account) -> u64,
    ) -> Option<LineFigure> {
        let account = |trial: &'a LineTrial| match direction {
            Direction::Up => trial.ledger.up.as_ref(),
            Direction::Down => trial.ledger.down.as_ref(),
        };
        let has_sent = |account: &&Account| account.sent > 0;
        let all: Vec<&Account> =
            self.of(LinePart::Paced).filter_map(account).filter(has_sent).collect();
        let share = |account: &&Account| of(account) as f64 / account.sent as f64;
        let shares: Vec<f64> = all.iter().map(share).collect();
        let found = figure(name, (Unit::Share, Better::Lower), &shares)?;
        let sent: u64 = all.iter().map(|account| account.sent).sum();
        let counted: u64 = all.iter().map(|account| of(account)).sum();
        Some(LineFigure {
            point: counted as f64 / sent as f64,
            low: shares.iter().copied().fold(f64::INFINITY, f64::min),
            high: shares.iter().copied().fold(0.0, f64::max),
            untrusted: !self.is_trusted(LinePart::Paced),
            ..found
        })
    }
}

/// Returns the round trips per minute at this round trip in nanoseconds: a minute, divided by it.
pub fn per_minute(round_trip_ns: f64) -> f64 {
    60e9 / round_trip_ns.max(1.0)
}

/// Returns the number of rounds from which on intervals have their full confidence.
pub fn enough_rounds() -> u64 {
    (1..).find(|n| median_ranks(*n, ERROR).is_some()).unwrap_or(usize::MAX) as u64
}

/// Returns a note if the rounds of a survey are too few for intervals of full confidence.
pub fn few_rounds(survey: &Survey) -> Option<String> {
    (survey.rounds < enough_rounds()).then(|| {
        let (rounds, s) = (survey.rounds, if survey.rounds == 1 { "" } else { "s" });
        format!(
            "{rounds} round{s}; intervals of 95 % need {}: a longer --budget has more",
            enough_rounds()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::outcome::LoadCourse;
    use deadheat_contract::measurements::{ClockEstimate, Ledger};

    fn trial(round: u64, part: LinePart, ms: f64) -> LineTrial {
        let rtt = (RTT_P50.to_owned(), ms * 1e6);
        LineTrial {
            round,
            part,
            workload: "ping".into(),
            why_invalid: None,
            started_ms: 0,
            took_ns: 0,
            metrics: [rtt, (load::GOODPUT.to_owned(), ms * 1e6)].into_iter().collect(),
            censored: Vec::new(),
            load: None,
            load_causes: Vec::new(),
            ledger: Ledger::default(),
            clock: None,
        }
    }

    fn paced(round: u64, sent: u64, lost: u64) -> LineTrial {
        let account = Account {
            unit: "messages".into(),
            sent,
            delivered: sent - lost,
            lost_on_path: lost,
            ..Account::default()
        };
        let ledger = Ledger { up: Some(account), ..Ledger::default() };
        LineTrial { ledger, ..trial(round, LinePart::Paced, 1.0) }
    }

    fn found(trials: &[LineTrial], name: &str) -> LineFigure {
        figures(trials).into_iter().find(|figure| figure.name == name).unwrap()
    }

    #[test]
    fn six_rounds_have_an_interval_of_95_percent_and_three_one_of_75() {
        assert_eq!(enough_rounds(), 6);
        let rounds = |n: u64| -> Vec<LineTrial> {
            let value = |round: u64| 20.0 + [3.0, 0.0, 9.0, 1.0, 7.0, 2.0][round as usize];
            (0..n).map(|round| trial(round, LinePart::Idle, value(round))).collect()
        };
        let six = found(&rounds(6), "rtt_idle_ns");
        assert_eq!((six.point, six.rounds, six.confidence), (22.5e6, 6, 0.95));
        assert!(six.low <= 20e6 && six.high >= 29e6, "{six:?}");
        let three = found(&rounds(3), "rtt_idle_ns");
        assert_eq!((three.low, three.high, three.confidence), (20e6, 29e6, 0.75));
        assert_eq!(found(&rounds(1), "rtt_idle_ns").confidence, 0.0, "one round shows no scatter");
    }

    /// The idle line drifts from 20 to 70 ms, and the load adds 5 ms to it throughout.
    #[test]
    fn the_added_delay_is_that_within_a_round() {
        let drift = |round: u64| 20.0 + 10.0 * round as f64;
        let trials: Vec<LineTrial> = (0..6)
            .flat_map(|round| {
                let idle = trial(round, LinePart::Idle, drift(round));
                [idle, trial(round, LinePart::Up8, drift(round) + 5.0)]
            })
            .collect();
        let added = found(&trials, "added_up_8_ns");
        assert_eq!((added.point, added.low, added.high), (5e6, 5e6, 5e6));
    }

    #[test]
    fn a_trial_that_does_not_count_is_left_out_of_everything() {
        let mut trials: Vec<LineTrial> = (0..6).map(|n| trial(n, LinePart::Idle, 20.0)).collect();
        trials[2] =
            LineTrial { why_invalid: Some("late".into()), ..trial(2, LinePart::Idle, 900.0) };
        let idle = found(&trials, "rtt_idle_ns");
        assert_eq!((idle.rounds, idle.high), (5, 20e6));
    }

    #[test]
    fn where_no_trial_counts_the_figures_are_those_that_were_measured() {
        let late =
            |n| LineTrial { why_invalid: Some("late".into()), ..trial(n, LinePart::Idle, 20.0) };
        let trials: Vec<LineTrial> = (0..6).map(late).collect();
        let idle = found(&trials, "rtt_idle_ns");
        assert_eq!((idle.rounds, idle.untrusted), (6, true));
    }

    /// A burst in one round: the share over all rounds stands beside the least and the greatest of a round.
    #[test]
    fn loss_is_the_share_over_all_rounds() {
        let mut trials: Vec<LineTrial> = (0..9).map(|round| paced(round, 100, 0)).collect();
        trials.push(paced(9, 100, 40));
        let lost = found(&trials, "loss_up_share");
        assert_eq!((lost.point, lost.low, lost.high), (0.04, 0.0, 0.4));
        assert!(figures(&trials).iter().all(|figure| figure.name != "loss_down_share"));
    }

    #[test]
    fn delays_one_way_are_off_by_what_the_clocks_were_at_worst() {
        let trials: Vec<LineTrial> = (0..6)
            .map(|round| {
                let mut trial = paced(round, 100, 0);
                trial.metrics.insert("one_way_up_p50_ns".into(), 20e6);
                trial.metrics.insert("one_way_down_p50_ns".into(), 5e6);
                let error_bound_ns = 400_000 + 1_000 * round;
                trial.clock = Some(ClockEstimate { error_bound_ns, ..ClockEstimate::default() });
                trial
            })
            .collect();
        let [up, down] = ["one_way_up_ns", "one_way_down_ns"].map(|name| found(&trials, name));
        assert_eq!((up.point, up.clock_bound_ns), (20e6, Some(405_000)));
        assert_eq!((down.point, down.clock_bound_ns), (5e6, Some(405_000)));
        assert_eq!(found(&trials, "loss_up_share").clock_bound_ns, None);
    }

    /// A satellite: within a second of its start a connection is at 4 of 100 Mbit/s, and nothing waits.
    #[test]
    fn a_load_that_has_not_filled_the_line_is_named() {
        let filling = |halves_bps: [f64; 2], retransmits: u64, busy_ms: f64| {
            let load = LoadCourse { from_ns: 0, to_ns: 2, halves_bps, retransmits };
            let trials: Vec<LineTrial> = (0..6)
                .flat_map(|n| {
                    let busy = trial(n, LinePart::Down1, busy_ms);
                    [trial(n, LinePart::Idle, 600.0), LineTrial { load: Some(load), ..busy }]
                })
                .collect();
            found(&trials, "goodput_down_1_bps").filling
        };
        assert_eq!(filling([3e6, 6e6], 0, 601.0), Some(LineFilling::Growing));
        assert_eq!(filling([3e6, 6e6], 9, 900.0), Some(LineFilling::Growing));
        assert_eq!(filling([54e6, 55e6], 0, 601.0), Some(LineFilling::Unfilled));
        assert_eq!(filling([96e6, 96e6], 0, 700.0), Some(LineFilling::Full));
        assert_eq!(filling([96e6, 60e6], 5, 601.0), Some(LineFilling::Full), "a shallow queue");
        let old = [trial(0, LinePart::Down1, 600.0)];
        assert_eq!(found(&old, "goodput_down_1_bps").filling, None);
    }

    #[test]
    fn a_figure_with_a_censored_round_says_so() {
        let mut trials: Vec<LineTrial> = (0..6).map(|n| trial(n, LinePart::Up8, 20.0)).collect();
        trials[0].censored = vec![RTT_P50.to_owned()];
        assert!(found(&trials, "rtt_up_8_ns").censored);
        assert!(!found(&trials, "goodput_up_8_bps").censored);
        assert_eq!(per_minute(50e6), 1_200.0);
    }
}
