//! Comparison of saved races, old and new: did anything change?
//!
//! Runs of the same thing differ by more than the scatter of their trials, so the run is the replicate here, with
//! one figure for each contender and metric ([`runs`](deadheat_stats::runs)). Several old runs, or several new ones,
//! show how much runs differ. Two runs alone do not: then their trials are compared
//! ([`independent`](super::independent)), and the result holds between these two runs only. Simulated races have no
//! host, so their trials are compared too.

use serde::Serialize;

use super::independent::{Figures, SamplePair};
use super::lost_shares;
use crate::analysis::claims::alpha;
use crate::analysis::conditions::warnings;
use crate::analysis::independent::RankTest;
use crate::analysis::kind::RaceKind;
use crate::analysis::no_figures::{AbsentFigures, absent};
use crate::analysis::time_differences::clock_slack;
use crate::outcome::{Entrant, Outcome, Ratio, Warning};
use deadheat_base::error::{Error, Result};
use deadheat_contract::measurements::{Better, Metric, Role};
use deadheat_path::PathKind;
use deadheat_stats::runs::{Promise, RunCentre, RunsApart, reach};
use deadheat_stats::{self as stats, Estimate};

/// Number of runs against the same baseline for which a gate guarantees its error level.
pub const GATE_RUNS: u64 = 100;

/// Numbers of old runs considered for the advice to add more.
const MORE_RUNS: [usize; 5] = [5, 8, 12, 20, 40];

/// Minimum reduction of the smallest detectable change that makes more runs worth advising, as a share.
const WORTH: f64 = 0.25;

/// Comparison of each contender between old and new runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Format of this comparison: 1.
    pub format: u32,
    /// Start times of the old runs.
    pub old: Vec<String>,
    /// Start times of the new runs.
    pub new: Vec<String>,
    /// Number of comparisons with the same old runs that share the error level: 1, or a gate's.
    pub looks: u64,
    /// Probability that any claim of these comparisons is reported as a change without one, as a fraction.
    pub error: f64,
    /// Rows, one for each contender and metric that both old and new runs have.
    pub rows: Vec<ComparisonRow>,
    /// Claimed figures that contenders of both sides lack in a race; such a contender has no row if no race of a side has
    /// the figure.
    pub absent: Vec<AbsentFigures>,
    /// Labels of contenders that only old runs have.
    pub only_old: Vec<String>,
    /// Labels of contenders that only new runs have.
    pub only_new: Vec<String>,
    /// Differences between the races other than the figures.
    pub warnings: Vec<Warning>,
}

/// Comparison of one contender under one metric, old and new.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The contender's label.
    pub contender: String,
    /// The metric.
    pub metric: Metric,
    /// Median over trials: old, new; over several runs, their geometric mean.
    pub estimates: [Option<f64>; 2],
    /// Number of runs with this figure: old, new.
    pub runs: [u64; 2],
    /// Number of valid trials with this metric: old, new.
    pub trials: [u64; 2],
    /// Share of messages that were lost in these trials: old, new; absent if they were not counted. The largest of
    /// several runs.
    pub lost: [Option<f64>; 2],
    /// True if any figure is censored at the timeout, so that the ratio is not exact.
    pub censored: bool,
    /// Sample behind the ratio and its interval.
    pub basis: RatioBasis,
    /// Ratio of new to old; absent if a figure is not positive or trials are too few for the level.
    pub ratio: Option<Ratio>,
    /// Level of the ratio's interval, as a fraction.
    pub confidence: f64,
    /// Margin, as a fraction: the largest of all races.
    pub margin: f64,
    /// Standard deviation between runs of the same thing, as a fraction; absent if not known.
    pub between_runs: Option<f64>,
    /// Smallest change that such a comparison would find with 80 % power, as a fraction; absent if not known, and
    /// for a descriptive metric.
    pub found: Option<f64>,
    /// Number of old runs that would find a smaller change, and that change; absent if more runs would help little.
    pub with_more: Option<MoreRunsProspect>,
    /// Change; absent for a descriptive metric, because it has no claim.
    pub change: Option<Change>,
}

/// Prospect of a comparison with more old runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MoreRunsProspect {
    /// Number of old runs.
    pub runs: u64,
    /// Smallest change that a comparison would find with 80 % power, as a fraction.
    pub found: f64,
}

/// Sample behind a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioBasis {
    /// Runs: the interval includes the scatter between runs.
    Runs,
    /// Trials of two runs alone: the scatter between runs is not known, and not in the interval.
    TwoRuns,
    /// Trials in virtual time, where nothing else differs between runs.
    Simulated,
}

/// Change of a contender under a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Better, by an estimate beyond the margin.
    ChangedBetter,
    /// Worse, by an estimate beyond the margin.
    ChangedWorse,
    /// The interval lies within the margin.
    Same,
    /// These trials do not decide.
    Undecided,
}

impl Comparison {
    /// Returns true if any contender got worse, for a gate.
    pub fn is_worse(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.change == Some(Change::ChangedWorse))
    }

    /// Returns true if any claim is about two runs alone.
    pub fn is_of_two_runs(&self) -> bool {
        let mut claims = self.rows.iter().filter(|row| row.change.is_some());
        claims.any(|row| row.basis == RatioBasis::TwoRuns)
    }
}

/// Refuses races that cannot be compared: simulated figures are never compared with measured ones, and the runs of
/// one side must be runs of the same thing.
///
/// # Errors
/// [`Error::Usage`] if a side is empty, if only some races are simulated, or if two races of one side race
/// different things, with the difference.
pub fn check(old: &[&Outcome], new: &[&Outcome]) -> Result<()> {
    for (side, races) in [("old", old), ("new", new)] {
        let Some((first, more)) = races.split_first() else {
            return Err(Error::usage(format!("there is no {side} race to compare")));
        };
        is_one_kind(side, first, more)?;
    }
    let [before, after] =
        [old, new].map(|side| side.first().is_some_and(|race| is_simulated(race)));
    if before == after {
        return Ok(());
    }
    let what = |is_simulated| if is_simulated { "simulated" } else { "measured" };
    Err(Error::usage(format!(
        "the old race is {} and the new one {}; compare simulated races with simulated ones only",
        what(before),
        what(after)
    )))
}

fn is_one_kind(side: &str, first: &Outcome, more: &[&Outcome]) -> Result<()> {
    let kind = RaceKind::of(first);
    for race in more {
        if let Some(difference) = kind.difference(&RaceKind::of(race)) {
            return Err(Error::usage(format!(
                "the {side} races of {} and {} are no runs of the same thing; {difference}",
                first.started, race.started
            )));
        }
    }
    Ok(())
}

/// Returns true if a race ran in virtual time.
pub fn is_simulated(race: &Outcome) -> bool {
    race.path.kind == PathKind::Simulated
}

/// Compares every contender, by its identity, and metric that both old and new runs have. The confidence level is the highest
/// of all races, the margin the largest; the level holds for all claims of the `promise` together.
pub fn compare(old: &[&Outcome], new: &[&Outcome], promise: Promise) -> Comparison {
    let races = || old.iter().chain(new);
    let most = |of: fn(&Outcome) -> f64| races().map(|race| of(race)).fold(0.0, f64::max);
    let pairs = pairs(old, new);
    let claims = pairs.iter().filter(|pair| pair.metric.role == Role::Claim).count();
    let mut judge = PairJudge {
        margin: most(|race| race.plan.margin),
        alpha: alpha(most(|race| race.asked.confidence)),
        claims,
        promise,
        is_simulated: races().any(|race| is_simulated(race)),
        reaches: Vec::new(),
    };
    let rows: Vec<ComparisonRow> = pairs.iter().map(|pair| judge.row(pair)).collect();
    let started =
        |races: &[&Outcome]| races.iter().map(|race| race.started.clone()).collect::<Vec<_>>();
    Comparison {
        format: 1,
        old: started(old),
        new: started(new),
        looks: match promise {
            Promise::Once => 1,
            Promise::Runs(looks) => looks,
        },
        error: judge.alpha,
        rows,
        absent: absent(old, new),
        only_old: missing(old, new),
        only_new: missing(new, old),
        warnings: warnings(old, new),
    }
}

/// Returns the labels of `a` that `b` lacks.
fn missing(a: &[&Outcome], b: &[&Outcome]) -> Vec<String> {
    let has = |one: &Entrant| b.iter().any(|race| entrant(race, one.identity()).is_some());
    let mut labels: Vec<String> = Vec::new();
    for contender in a.iter().flat_map(|race| &race.contenders) {
        if !has(contender) && !labels.contains(&contender.label) {
            labels.push(contender.label.clone());
        }
    }
    labels
}

fn entrant<'a>(race: &'a Outcome, identity: &str) -> Option<&'a Entrant> {
    race.contenders.iter().find(|contender| contender.identity() == identity)
}

/// Pair of figures: a contender and metric that both old and new runs have.
struct FigurePair<'a> {
    /// Label in the first of the new races that has it.
    label: &'a str,
    /// Name by which races are compared.
    identity: &'a str,
    metric: &'a Metric,
    old: Vec<RunFigures>,
    new: Vec<RunFigures>,
}

/// Figures of one contender in one run.
struct RunFigures {
    figures: Figures,
    /// Median from the race's summary.
    estimate: Option<f64>,
    /// Largest logarithm by which two hosts' clocks may put it off.
    clock_slack: f64,
    /// Share of messages that were lost, if they were counted.
    lost: Option<f64>,
}

fn pairs<'a>(old: &[&'a Outcome], new: &[&'a Outcome]) -> Vec<FigurePair<'a>> {
    let mut pairs: Vec<FigurePair<'a>> = Vec::new();
    let metrics = new.iter().flat_map(|race| race.metrics.iter());
    let mut named: Vec<&Metric> = Vec::new();
    for metric in metrics {
        if !named.iter().any(|known| (&known.name, known.unit) == (&metric.name, metric.unit)) {
            named.push(metric);
        }
    }
    for metric in named {
        for contender in new.iter().flat_map(|race| &race.contenders) {
            let (label, identity) = (&contender.label, contender.identity());
            if pairs.iter().any(|pair| pair.metric == metric && pair.identity == identity) {
                continue;
            }
            let [old, new] = [old, new].map(|races| figures(races, identity, metric));
            if !old.is_empty() && !new.is_empty() {
                pairs.push(FigurePair { label, identity, metric, old, new });
            }
        }
    }
    pairs
}

/// Returns the figures of a contender in each race that has any.
fn figures(races: &[&Outcome], identity: &str, metric: &Metric) -> Vec<RunFigures> {
    let of = |race: &&Outcome| {
        let mut metrics = race.metrics.iter();
        metrics.find(|own| own.name == metric.name && own.unit == metric.unit)?;
        let contender = entrant(race, identity)?;
        let figures = Figures::of(race, contender, metric);
        let mut summaries = race.summary.iter();
        let own = summaries.find(|own| own.contender == contender.id && own.metric == metric.name);
        let estimate = own.map(|summary| summary.estimate);
        let clock_slack = own.map_or(0.0, clock_slack);
        let lost = lost_shares::of_contender(race, contender.id);
        (figures.trials > 0).then_some(RunFigures { figures, estimate, clock_slack, lost })
    };
    races.iter().filter_map(of).collect()
}

impl FigurePair<'_> {
    fn centres(&self) -> Option<[Vec<RunCentre>; 2]> {
        let of = |runs: &[RunFigures]| -> Option<Vec<RunCentre>> {
            runs.iter().map(|run| run.figures.centre()).collect()
        };
        Some([of(&self.old)?, of(&self.new)?])
    }

    /// Returns the scatter between runs; `None` if both sides have one run, or if a figure has no logarithm.
    fn apart(&self) -> Option<RunsApart> {
        let [old, new] = self.centres()?;
        RunsApart::of(&old, &new)
    }

    /// Returns the lost share of each side, the largest of its runs.
    fn lost(&self) -> [Option<f64>; 2] {
        [&self.old, &self.new].map(|runs| runs.iter().filter_map(|run| run.lost).reduce(f64::max))
    }

    fn is_censored(&self) -> bool {
        self.old.iter().chain(&self.new).any(|run| run.figures.censored)
    }
}

/// Returns the figure of a side: the figure of a single race, or the geometric mean over several.
fn estimate(runs: &[RunFigures]) -> Option<f64> {
    if let [only] = runs {
        return only.estimate;
    }
    let logs: Option<Vec<f64>> =
        runs.iter().map(|run| run.estimate.map(f64::ln).filter(|log| log.is_finite())).collect();
    let logs = logs?;
    Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Rules by which pairs of a comparison are judged.
struct PairJudge {
    margin: f64,
    alpha: f64,
    claims: usize,
    promise: Promise,
    is_simulated: bool,
    /// Detectable changes computed so far, by numbers of runs, promise and error.
    reaches: Vec<([usize; 2], Promise, f64, f64)>,
}

/// Result of judging a pair.
struct PairFinding {
    change: Option<Change>,
    interval: Option<Estimate>,
    error: f64,
    seen: Option<(f64, Option<MoreRunsProspect>)>,
}

impl PairJudge {
    fn row(&mut self, pair: &FigurePair<'_>) -> ComparisonRow {
        let is_claim = pair.metric.role == Role::Claim;
        let has_runs = pair.old.len() + pair.new.len() > 2;
        let basis = match (has_runs, self.is_simulated) {
            (true, _) => RatioBasis::Runs,
            (false, true) => RatioBasis::Simulated,
            (false, false) => RatioBasis::TwoRuns,
        };
        let apart = pair.apart();
        let found = match basis {
            RatioBasis::Runs => self.of_runs(pair, apart.as_ref(), is_claim),
            RatioBasis::TwoRuns | RatioBasis::Simulated => self.of_trials(pair, is_claim),
        };
        let trials = |runs: &[RunFigures]| runs.iter().map(|run| run.figures.trials).sum();
        let ratio = found.interval.map(|logs| logs.map(f64::exp));
        ComparisonRow {
            contender: pair.label.to_owned(),
            metric: pair.metric.clone(),
            estimates: [estimate(&pair.old), estimate(&pair.new)],
            runs: [pair.old.len() as u64, pair.new.len() as u64],
            trials: [trials(&pair.old), trials(&pair.new)],
            lost: pair.lost(),
            censored: pair.is_censored(),
            basis,
            ratio: ratio.map(|r| Ratio { point: r.point, low: r.low, high: r.high }),
            confidence: 1.0 - found.error,
            margin: self.margin,
            between_runs: apart.map(|apart| apart.deviation.exp_m1()),
            found: found.seen.map(|(found, _)| found),
            with_more: found.seen.and_then(|(_, more)| more),
            change: self.beyond_clocks(pair, &found).map(|change| self.beyond_losses(pair, change)),
        }
    }

    /// Returns the change, which is undecided for a figure over arrived messages if the better side lost more of them.
    fn beyond_losses(&self, pair: &FigurePair<'_>, change: Change) -> Change {
        let [old, new] = pair.lost().map(|lost| lost.unwrap_or(0.0));
        let more = match change {
            _ if !lost_shares::leaves_out_lost(pair.metric) => return change,
            Change::ChangedBetter => new - old,
            Change::ChangedWorse => old - new,
            Change::Same => (new - old).abs(),
            Change::Undecided => 0.0,
        };
        if more > self.margin { Change::Undecided } else { change }
    }

    /// Returns the change if it holds whatever the clocks of both hosts were off by in either race: within a race their
    /// offset cancels, and between races it does not.
    fn beyond_clocks(&self, pair: &FigurePair<'_>, found: &PairFinding) -> Option<Change> {
        let most = |runs: &[RunFigures]| runs.iter().map(|run| run.clock_slack).fold(0.0, f64::max);
        let slack = most(&pair.old) + most(&pair.new);
        let (Some(interval), true) = (found.interval, slack > 0.0) else { return found.change };
        let limit = self.margin.max(0.0).ln_1p();
        let (low, high) = (interval.low - slack, interval.high + slack);
        found.change.map(|change| match change {
            Change::Same if -limit <= low && high <= limit => change,
            Change::ChangedBetter | Change::ChangedWorse if low > 0.0 || high < 0.0 => change,
            _ => Change::Undecided,
        })
    }

    /// Judges a pair by its runs.
    fn of_runs(
        &mut self,
        pair: &FigurePair<'_>,
        apart: Option<&RunsApart>,
        is_claim: bool,
    ) -> PairFinding {
        let error = if is_claim { self.alpha / self.claims.max(1) as f64 } else { self.alpha };
        let Some(apart) = apart else {
            let change = is_claim.then_some(Change::Undecided);
            return PairFinding { change, interval: None, error, seen: None };
        };
        let promise = if is_claim { self.promise } else { Promise::Once };
        let reach = self.reach(apart.runs, promise, error);
        let interval = apart.interval(reach, 1.0 - error);
        if !is_claim {
            return PairFinding { change: None, interval: Some(interval), error, seen: None };
        }
        let limit = self.margin.max(0.0).ln_1p();
        let seen = Some((apart.found(reach, limit).exp_m1(), self.with_more(apart, reach, error)));
        if interval.excludes(0.0) && interval.point.abs() > limit {
            let change = Some(change(pair.metric.better, interval.point));
            return PairFinding { change, interval: Some(interval), error, seen };
        }
        // Two one-sided tests at `a` are an interval at `1 - 2a` inside the margin.
        let (error_of_tie, once) = (2.0 * error, Promise::Once);
        let narrow = apart.interval(self.reach(apart.runs, once, error_of_tie), 1.0 - error_of_tie);
        // Two figures at the timeout may differ although they look alike.
        if narrow.within(-limit, limit) && !pair.is_censored() {
            let (change, interval) = (Some(Change::Same), Some(narrow));
            return PairFinding { change, interval, error: error_of_tie, seen };
        }
        PairFinding { change: Some(Change::Undecided), interval: Some(interval), error, seen }
    }

    /// Judges a pair of two runs by their trials.
    fn of_trials(&self, pair: &FigurePair<'_>, is_claim: bool) -> PairFinding {
        let ([old], [new]) = (&pair.old[..], &pair.new[..]) else {
            return PairFinding { change: None, interval: None, error: self.alpha, seen: None };
        };
        let samples = SamplePair { a: &new.figures, b: &old.figures };
        if !is_claim {
            let interval = samples.interval(self.alpha);
            return PairFinding { change: None, interval, error: self.alpha, seen: None };
        }
        let finding = RankTest::of(self.claims, self.alpha, self.margin).rule(&samples);
        let interval = samples.interval(finding.error);
        let change = match finding.outcome {
            stats::Outcome::Ahead => {
                change(pair.metric.better, if finding.is_lower { -1.0 } else { 1.0 })
            }
            stats::Outcome::DeadHeat => Change::Same,
            stats::Outcome::Undecided => Change::Undecided,
        };
        PairFinding { change: Some(change), interval, error: finding.error, seen: None }
    }

    /// Returns the minimum number of old runs that would find clearly smaller changes.
    fn with_more(&mut self, apart: &RunsApart, reach: f64, error: f64) -> Option<MoreRunsProspect> {
        let [old, new] = apart.runs;
        let limit = self.margin.max(0.0).ln_1p();
        let now = apart.found(reach, limit).exp_m1();
        MORE_RUNS.into_iter().filter(|more| *more > old).find_map(|more| {
            let runs = [more, new];
            let reach = self.reach(runs, self.promise, error);
            let found = RunsApart { runs, ..*apart }.found(reach, limit).exp_m1();
            let is_worth = found < (1.0 - WORTH) * now;
            is_worth.then_some(MoreRunsProspect { runs: more as u64, found })
        })
    }

    fn reach(&mut self, runs: [usize; 2], promise: Promise, error: f64) -> f64 {
        let mut known = self.reaches.iter();
        if let Some((.., reach)) =
            known.find(|(r, p, e, _)| (*r, *p) == (runs, promise) && e.total_cmp(&error).is_eq())
        {
            return *reach;
        }
        let drawn = reach(runs, promise, error);
        self.reaches.push((runs, promise, error, drawn));
        drawn
    }
}

fn change(better: Better, shift: f64) -> Change {
    if (shift < 0.0) == (better == Better::Lower) {
        Change::ChangedBetter
    } else {
        Change::ChangedWorse
    }
}
