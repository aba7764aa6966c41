//! Independent samples: trials of two races, or of an import, that are no pairs.
//!
//! Contenders whose trials were not interleaved are independent samples. They are compared by the
//! Mann–Whitney test with the Hodges–Lehmann shift, on logarithms of the figure per trial: the shift
//! is a log-ratio. Claims share the error, by Holm's procedure for a difference and by Bonferroni's
//! inequality for sameness.

use super::sentence;
use crate::analysis::claims::{alpha, claimed};
use crate::measurements::{Better, Metric};
use crate::result::outcome::{Entrant, Outcome, Ratio, Verdict};
use crate::stats::{self, Outcome as Ruled, holm, mann_whitney};

/// Figures of one contender under one metric.
pub(crate) struct Figures {
    /// Logarithms of the figure per trial; `None` where one is not positive.
    logs: Option<Vec<f64>>,
    /// Number of valid trials that have it.
    pub trials: u64,
    /// True if any of them is censored at the timeout.
    pub censored: bool,
}

impl Figures {
    pub(crate) fn of(outcome: &Outcome, contender: &Entrant, metric: &Metric) -> Figures {
        let mut figures = Figures { logs: Some(Vec::new()), trials: 0, censored: false };
        let own = outcome.trials.iter().filter(|trial| trial.contender == contender.id);
        for trial in own.filter(|trial| trial.record.valid && !trial.control) {
            let Some(value) = trial.record.metrics.get(&metric.name) else {
                continue;
            };
            figures.trials += 1;
            figures.censored |= trial.record.censored.contains(&metric.name);
            match &mut figures.logs {
                Some(logs) if *value > 0.0 && value.is_finite() => logs.push(value.ln()),
                logs => *logs = None,
            }
        }
        figures
    }
}

/// Two independent samples: `a` over `b`.
pub(crate) struct Samples {
    pub a: Figures,
    pub b: Figures,
}

impl Samples {
    pub(crate) fn p_value(&self) -> Option<f64> {
        mann_whitney::p_value(self.a.logs.as_deref()?, self.b.logs.as_deref()?)
    }

    /// Returns the log-ratio with its interval; `None` if trials are too few for `error`.
    fn interval(&self, error: f64) -> Option<stats::Estimate> {
        let (a, b) = (self.a.logs.as_deref()?, self.b.logs.as_deref()?);
        mann_whitney::interval(a, b, 1.0 - error)
    }

    /// Returns the ratio with its interval.
    pub(crate) fn ratio(&self, error: f64) -> Option<Ratio> {
        self.interval(error).map(|logs| Ratio {
            point: logs.point.exp(),
            low: logs.low.exp(),
            high: logs.high.exp(),
        })
    }

    pub(crate) fn is_censored(&self) -> bool {
        self.a.censored || self.b.censored
    }

    fn has_ratio(&self) -> bool {
        self.a.logs.is_some() && self.b.logs.is_some()
    }
}

/// Tests that a claim has to pass.
pub(crate) struct RankTest {
    margin: f64,
    /// Error level of its step in Holm's procedure.
    difference: f64,
    /// True if that procedure rejects “no difference”.
    differs: bool,
    /// Error of the interval that must lie within the margin: one minus its level.
    equivalence: f64,
}

/// Finding on a claim.
pub(crate) struct Finding {
    pub outcome: Ruled,
    /// True if the first is the lower one; means something only for `ahead`.
    pub is_lower: bool,
    /// Error of the interval that decided: one minus its level.
    pub error: f64,
}

impl RankTest {
    /// Returns the test for each claim of a family that shares the error `alpha`. A claim that cannot be
    /// tested has no p-value and still takes its share.
    pub(crate) fn family(p_values: &[Option<f64>], alpha: f64, margin: f64) -> Vec<RankTest> {
        let p: Vec<f64> = p_values.iter().map(|p| p.unwrap_or(1.0)).collect();
        // Two one-sided tests at `a` are an interval at `1 - 2a` inside the margin; the claims share
        // by Bonferroni's inequality.
        let equivalence = 2.0 * alpha / p.len().max(1) as f64;
        let levels = holm::levels(&p, alpha).into_iter();
        let rejected = holm::holm(&p, alpha).into_iter();
        levels
            .zip(rejected)
            .map(|(difference, differs)| RankTest { margin, difference, differs, equivalence })
            .collect()
    }

    pub(crate) fn rule(&self, samples: &Samples) -> Finding {
        let limit = self.margin.max(0.0).ln_1p();
        let is_beyond = |logs: &stats::Estimate| logs.excludes(0.0) && logs.point.abs() > limit;
        let difference = samples.interval(self.difference).filter(is_beyond);
        if let (true, Some(logs)) = (self.differs, difference) {
            let is_lower = logs.point < 0.0;
            return Finding { outcome: Ruled::Ahead, is_lower, error: self.difference };
        }
        let equivalence = samples.interval(self.equivalence);
        // Two figures at the timeout are alike only in that nothing is known of them.
        let is_tie = equivalence.is_some_and(|logs| logs.within(-limit, limit));
        if is_tie && !samples.is_censored() {
            Finding { outcome: Ruled::DeadHeat, is_lower: false, error: self.equivalence }
        } else {
            Finding { outcome: Ruled::Undecided, is_lower: false, error: self.difference }
        }
    }
}

/// Returns verdicts on contenders whose trials are independent: one for each claimed metric and each pair
/// that has it in more than one trial of both. `blocks` is the smaller number of trials.
pub fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    let mut questions = Vec::new();
    for metric in claimed(&outcome.metrics) {
        for (at, a) in outcome.contenders.iter().enumerate() {
            for b in &outcome.contenders[at + 1..] {
                let figures = |entrant| Figures::of(outcome, entrant, metric);
                let samples = Samples { a: figures(a), b: figures(b) };
                if samples.a.trials.min(samples.b.trials) > 1 {
                    questions.push((metric, a, b, samples));
                }
            }
        }
    }
    let margin = outcome.plan.margin;
    let p: Vec<Option<f64>> = questions.iter().map(|(.., samples)| samples.p_value()).collect();
    let courts = RankTest::family(&p, alpha(outcome.asked.confidence), margin);
    let ruled = questions.iter().zip(courts);
    ruled.map(|((metric, a, b, samples), test)| verdict(metric, [a, b], samples, &test)).collect()
}

fn verdict(metric: &Metric, [a, b]: [&Entrant; 2], samples: &Samples, test: &RankTest) -> Verdict {
    let finding = test.rule(samples);
    let a_wins = finding.is_lower == (metric.better == Better::Lower);
    let ratio = samples.ratio(finding.error);
    let pair = sentence::Pair { a: &a.label, b: &b.label, metric };
    let seen = sentence::Seen { censored: samples.is_censored(), both_censored: 0 };
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
        more_blocks: None,
        more_ns: None,
        direction: None,
        resolution: None,
        effect: None,
        note: String::new(),
    };
    verdict.note = match verdict.ratio {
        Some(_) => pair.of_independent(&verdict, &seen),
        None if !samples.has_ratio() => {
            format!(
                "{} and {}: undecided: a {} that is not above 0 has no ratio",
                a.label, b.label, metric.label
            )
        }
        None => format!(
            "{} and {}: undecided: {} and {} trials are too few for an interval of {}",
            a.label,
            b.label,
            samples.a.trials,
            samples.b.trials,
            crate::analysis::sentence::percent(1.0 - finding.error)
        ),
    };
    verdict
}
