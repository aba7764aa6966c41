//! Independent samples: trials of two races, or of an import, that are not paired.
//!
//! Contenders that did not run interleaved are independent samples. They are compared by the interval of the
//! Mann–Whitney test around the Hodges–Lehmann shift, on logarithms of the figure per trial: the shift is a
//! log-ratio. Consecutive trials may be alike, so the interval is widened by the serial dependence of the more
//! dependent sample. Claims share the error by Bonferroni's inequality, so their intervals hold together.

use super::lost_shares::PairLost;
use super::sentence;
use crate::analysis::claims::{alpha, claimed};
use crate::outcome::{Effect, Entrant, Outcome, Ratio, Verdict};
use deadheat_contract::measurements::{Better, Metric};
use deadheat_stats::runs::RunCentre;
use deadheat_stats::{self as stats, Outcome as Ruled, mann_whitney, serial};

/// Figures of one contender under one metric.
pub(crate) struct Figures {
    /// Figure per trial, in block order.
    values: Vec<f64>,
    /// Their logarithms; `None` if one does not exist.
    logs: Option<Vec<f64>>,
    /// Number of valid trials with the figure.
    pub trials: u64,
    /// True if any figure is censored at the timeout.
    pub censored: bool,
    /// Least of the censored figures; infinite if there is none.
    least_bound: f64,
}

impl Figures {
    /// Collects one figure per block; trials of the hidden copy, and trials that failed their gate, do not count. There
    /// are no logarithms if a figure is not positive.
    pub(crate) fn of(outcome: &Outcome, contender: &Entrant, metric: &Metric) -> Figures {
        let own = outcome.trials.iter().filter(|trial| trial.contender == contender.id);
        let counts = own.filter(|trial| trial.record.valid && !trial.control);
        let mut trials: Vec<(u64, f64, bool)> = counts
            .filter_map(|trial| {
                let value = trial.record.metrics.get(&metric.name)?;
                Some((trial.block, *value, trial.record.censored.contains(&metric.name)))
            })
            .collect();
        // A repeat ran at the end of its block.
        trials.sort_by_key(|(block, ..)| *block);
        let log = |value: f64| Some(value.ln()).filter(|log| log.is_finite());
        Figures {
            logs: trials.iter().map(|(_, value, _)| log(*value)).collect(),
            values: trials.iter().map(|(_, value, _)| *value).collect(),
            trials: trials.len() as u64,
            censored: trials.iter().any(|(.., censored)| *censored),
            least_bound: trials
                .iter()
                .filter(|(.., censored)| *censored)
                .fold(f64::INFINITY, |least, (_, value, _)| least.min(*value)),
        }
    }

    /// Collects figures of which some may be 0: their logarithm is −∞, and they count by their rank.
    fn with_zeros(outcome: &Outcome, contender: &Entrant, metric: &Metric) -> Figures {
        let figures = Figures::of(outcome, contender, metric);
        let log = |value: &f64| Some(value.ln()).filter(|log| *log < f64::INFINITY);
        Figures { logs: figures.values.iter().map(log).collect(), ..figures }
    }

    /// Returns the number of figures that are 0.
    fn zeros(&self) -> u64 {
        self.values.iter().filter(|value| **value == 0.0).count() as u64
    }

    /// Returns the figure of the whole run; `None` without trials, or if a figure has no logarithm.
    pub(crate) fn centre(&self) -> Option<RunCentre> {
        RunCentre::of(self.logs.as_deref()?)
    }
}

/// Two independent samples: `a` over `b`.
pub(crate) struct SamplePair<'a> {
    pub a: &'a Figures,
    pub b: &'a Figures,
}

impl SamplePair<'_> {
    /// Returns the shift of the logarithms with its interval; `None` with too few trials for the level, or if a
    /// figure has no logarithm.
    ///
    /// With a figure of 0 its ends may be infinite; only verdicts on imports have such figures.
    pub(crate) fn interval(&self, error: f64) -> Option<stats::Estimate> {
        let (a, b) = (self.a.logs.as_deref()?, self.b.logs.as_deref()?);
        if !a.iter().chain(b).all(|log| log.is_finite()) {
            return mann_whitney::interval_of_ranks(a, b, 1.0 - error);
        }
        let interval = mann_whitney::interval(a, b, 1.0 - error)?;
        Some(interval.widened(serial::inflation(a).max(serial::inflation(b))))
    }

    fn ratio(&self, error: f64) -> Option<Ratio> {
        let logs = self.interval(error)?;
        if ![logs.low, logs.point, logs.high].iter().all(|log| log.is_finite()) {
            return None;
        }
        let ratio = logs.map(f64::exp);
        Some(Ratio { point: ratio.point, low: ratio.low, high: ratio.high })
    }

    /// Returns the difference in the unit of the figures, where a figure of 0 leaves no ratio.
    fn difference(&self, error: f64) -> Option<Effect> {
        let (a, b) = (&self.a.values, &self.b.values);
        let shift = mann_whitney::interval(a, b, 1.0 - error)?;
        let shift = shift.widened(serial::inflation(a).max(serial::inflation(b)));
        Some(Effect { point: shift.point, low: shift.low, high: shift.high })
    }

    fn is_censored(&self) -> bool {
        self.a.censored || self.b.censored
    }

    /// Returns for each of the two whether one of its figures is a bound below a figure of the other.
    fn low_bounds(&self) -> [bool; 2] {
        let greatest = |of: &Figures| of.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        [self.a.least_bound < greatest(self.b), self.b.least_bound < greatest(self.a)]
    }

    fn has_ratio(&self) -> bool {
        self.a.logs.is_some() && self.b.logs.is_some()
    }
}

/// Test of a claim within a family that shares an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankTest {
    margin: f64,
    /// Error of the interval that must exclude 1 for a difference: one minus its level.
    difference: f64,
    /// Error of the interval that must lie within the margin for equivalence.
    equivalence: f64,
}

/// Result of testing a claim.
pub(crate) struct ClaimFinding {
    pub outcome: Ruled,
    /// True if the first contender has the lower figure; valid only for `ahead`.
    pub is_lower: bool,
    /// Error of the deciding interval: one minus its level.
    pub error: f64,
}

impl RankTest {
    /// Returns the test of each of `claims` claims that share the error `alpha`. A claim that cannot be tested uses
    /// its share too.
    pub(crate) fn of(claims: usize, alpha: f64, margin: f64) -> RankTest {
        let difference = alpha / claims.max(1) as f64;
        // Two one-sided tests at `a` are an interval at `1 - 2a` inside the margin.
        RankTest { margin, difference, equivalence: 2.0 * difference }
    }

    pub(crate) fn rule(self, samples: &SamplePair<'_>) -> ClaimFinding {
        let limit = self.margin.max(0.0).ln_1p();
        let is_beyond = |logs: &stats::Estimate| logs.excludes(0.0) && logs.point.abs() > limit;
        if let Some(logs) = samples.interval(self.difference).filter(is_beyond) {
            let is_lower = logs.point < 0.0;
            return ClaimFinding { outcome: Ruled::Ahead, is_lower, error: self.difference };
        }
        let equivalence = samples.interval(self.equivalence);
        // Two figures at the timeout may differ although they look alike.
        let is_tie = equivalence.is_some_and(|logs| logs.within(-limit, limit));
        if is_tie && !samples.is_censored() {
            ClaimFinding { outcome: Ruled::DeadHeat, is_lower: false, error: self.equivalence }
        } else {
            ClaimFinding { outcome: Ruled::Undecided, is_lower: false, error: self.difference }
        }
    }
}

/// Returns verdicts on contenders with independent trials: one for each claimed metric and each pair in which both
/// have it in more than one trial. `blocks` is the smaller number of trials.
pub fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    let mut questions = Vec::new();
    for metric in claimed(&outcome.metrics) {
        for (at, a) in outcome.contenders.iter().enumerate() {
            for b in &outcome.contenders[at + 1..] {
                let figures = |entrant| Figures::with_zeros(outcome, entrant, metric);
                let (first, second) = (figures(a), figures(b));
                if first.trials.min(second.trials) > 1 {
                    questions.push((metric, a, b, first, second));
                }
            }
        }
    }
    let alpha = alpha(outcome.asked.confidence);
    let test = RankTest::of(questions.len(), alpha, outcome.plan.margin);
    let ruled = questions.iter().map(|(metric, a, b, first, second)| {
        let samples = SamplePair { a: first, b: second };
        let lost = PairLost::of(outcome, metric, [a.id, b.id], samples.low_bounds());
        verdict(metric, [a, b], &samples, test, &lost)
    });
    ruled.collect()
}

fn verdict(
    metric: &Metric,
    [a, b]: [&Entrant; 2],
    samples: &SamplePair<'_>,
    test: RankTest,
    lost: &PairLost,
) -> Verdict {
    let mut finding = test.rule(samples);
    let a_wins = finding.is_lower == (metric.better == Better::Lower);
    let leader = (finding.outcome == Ruled::Ahead).then_some(usize::from(!a_wins));
    let is_withheld = lost.withholds(finding.outcome, leader, test.margin);
    if is_withheld {
        finding.outcome = Ruled::Undecided;
    }
    let ratio = samples.ratio(finding.error);
    let pair = sentence::ContenderPair { a: &a.label, b: &b.label, metric };
    let seen = sentence::PairLosses { censored: samples.is_censored(), ..Default::default() };
    let mut verdict = Verdict {
        metric: metric.name.clone(),
        a: a.id,
        b: b.id,
        outcome: finding.outcome,
        ahead: (finding.outcome == Ruled::Ahead).then_some(if a_wins { a.id } else { b.id }),
        ratio,
        margin: test.margin,
        confidence: 1.0 - finding.error,
        blocks: samples.a.trials.min(samples.b.trials),
        ..Verdict::default()
    };
    if ratio.is_none() && samples.interval(finding.error).is_some() {
        verdict.effect = samples.difference(finding.error);
    }
    verdict.note = match (verdict.ratio, verdict.effect) {
        (Some(_), _) => pair.of_independent(&verdict, &seen),
        (None, Some(by)) => pair.by_rank(&verdict, &by),
        (None, None) if !samples.has_ratio() => {
            format!(
                "{} and {}: undecided: a {} below 0 has no ratio",
                a.label, b.label, metric.label
            )
        }
        (None, None) => format!(
            "{} and {}: undecided: {} and {} trials are too few for an interval of {}",
            a.label,
            b.label,
            samples.a.trials,
            samples.b.trials,
            deadheat_base::figures::percent(1.0 - finding.error)
        ),
    };
    verdict.note += &of_zeros([a, b], samples, &verdict);
    verdict.note += &lost.sentence([&a.label, &b.label], &metric.label, is_withheld);
    verdict
}

/// Returns the sentence on figures that are 0: what they do to the ratio. Empty if there are none.
fn of_zeros([a, b]: [&Entrant; 2], samples: &SamplePair<'_>, verdict: &Verdict) -> String {
    let zeros = [(a, samples.a), (b, samples.b)].map(|(entrant, figures)| {
        let zeros = figures.zeros();
        (zeros > 0).then(|| format!("{zeros} of {} trials of {}", figures.trials, entrant.label))
    });
    let zeros: Vec<String> = zeros.into_iter().flatten().collect();
    if zeros.is_empty() {
        return String::new();
    }
    let effect = match verdict.ratio {
        Some(_) => "such a trial has no ratio, and counts by its rank, below all others",
        None => "no ratio exists, and the verdict is by ranks",
    };
    let end = if verdict.note.ends_with('.') { "" } else { "." };
    format!("{end} The figure is 0 in {}: {effect}.", zeros.join(" and in "))
}
