//! Contenders beside a load at one bottleneck: shares, a ruling on their fairness, and harm.
//!
//! A block gives the logarithm of the goodput of a flow of the contender over that of a flow of the load, in the same
//! trial. Its fair value is 0, and a share is fair if it is equivalent to that within the margin. The pairs of a matrix
//! have verdicts, in which each of both is the measured one in turn ([`Cell::rivals`]); other contests share the error
//! among themselves.
//!
//! [`Cell::rivals`]: crate::outcome::Cell::rivals

use super::claims::{alpha, claimed};
use super::spread::valid_trials;
use super::table::{Column, Pairs, Table, TrialFilter};
use crate::contest::{Contest, Harm, Portion};
use crate::outcome::{Entrant, Outcome};
use deadheat_contract::measurements::path::{DirectionFigures, Quantile};
use deadheat_contract::measurements::{Better, Metric};
use deadheat_contract::workload::load::{self, Observed};
use deadheat_contract::workload::{self, Task};
use deadheat_stats::quantile::median;
use deadheat_stats::{self as stats, Claim, Estimate, Slack, signed_rank};

/// Least share of a side. A smaller share counts as this one, so that it has a logarithm.
const LEAST: f64 = 1e-6;

/// Work beside a load.
struct BesideLoad<'a> {
    entrant: &'a Entrant,
    /// Load, as it would be typed on its own.
    load: String,
    /// Flows of the work and of the load.
    flows: [f64; 2],
    /// Logarithm, by block, of the goodput of a flow of the work over that of a flow of the load.
    log_ratios: Vec<f64>,
    /// Number of blocks with a valid trial.
    blocks: u64,
}

/// Returns a contest for each contender, or cell, with a load beside it. All rulings on fairness share the error that the
/// last look may spend, so that the looks of a race spend no more than its confidence leaves; verdicts have their own.
pub fn contests(outcome: &Outcome) -> Vec<Contest> {
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    let all: Vec<BesideLoad<'_>> =
        racing.filter_map(|entrant| BesideLoad::of(outcome, entrant, &table)).collect();
    let level = alpha(outcome.asked.confidence);
    let done = all.iter().map(|one| one.blocks).max().unwrap_or(0);
    let looks = outcome.plan.looks.iter().take_while(|look| look.blocks as u64 <= done);
    let spent = looks.last().or(outcome.plan.looks.first()).map_or(level, |look| look.alpha);
    let claims = all.iter().filter(|one| one.is_ruled()).map(BesideLoad::claim);
    let claims: Vec<Claim<'_>> = claims.collect();
    let margin = outcome.plan.margin;
    let mut rulings = stats::rule(&claims, stats::Better::Higher, margin, spent).into_iter();
    let contest = |one: &BesideLoad<'_>| {
        let ruling = if one.is_ruled() { rulings.next() } else { None };
        let share = match &ruling {
            Some(ruling) => Some(ruling.ratio),
            None => estimate(&one.log_ratios, level).map(|log| log.map(f64::exp)),
        };
        let [flows, others] = one.flows;
        let share = share.filter(|_| !one.log_ratios.is_empty());
        let path = PathAccount::of(outcome, one.entrant.id);
        Contest {
            contender: one.entrant.id,
            load: one.load.clone(),
            fair_share: share.map(|_| flows / (flows + others)),
            share: share
                .map(|ratio| portion(ratio.map(|x| flows * x / (flows * x + others)), level)),
            flow_shares: flow_shares(outcome, one.entrant.id),
            outcome: ruling.map(|ruling| ruling.outcome),
            harms: harms(outcome, one.entrant, &table),
            queued_ns: median(&path.queued_ns),
            dropped_share: path.share(path.dropped),
            marked_share: path.share(path.marked).filter(|share| *share > 0.0),
            blocks: one.blocks,
        }
    };
    all.iter().map(contest).collect()
}

impl<'a> BesideLoad<'a> {
    /// Returns the work of `entrant` with what it shared in valid trials; `None` without a load.
    fn of(outcome: &Outcome, entrant: &'a Entrant, table: &Table<'_>) -> Option<BesideLoad<'a>> {
        let typed = entrant.cell.as_ref().map_or(&outcome.asked.workload, |cell| &cell.workload);
        let task = workload::parse(typed).ok()?;
        let asked = task.info().load.clone()?;
        let flows = |task: &dyn Task| task.info().flows.len() as f64;
        let others = flows(&*workload::parse(&asked.workload).ok()?);
        let is_bulk = matches!(task.info().observed, Some(Observed::Bytes(_)));
        let share = if is_bulk { table.own(entrant.id, load::SHARE) } else { Column::new() };
        let logs = share.values().map(|figure| {
            let others_share = figure.value.clamp(LEAST, 1.0 - LEAST);
            ((1.0 - others_share) / others_share).ln() - (flows(&*task) / others).ln()
        });
        let trials = outcome
            .trials
            .iter()
            .filter(|trial| trial.contender == entrant.id && trial.record.valid && !trial.control);
        Some(BesideLoad {
            entrant,
            load: asked.contender,
            flows: [flows(&*task), others],
            log_ratios: logs.collect(),
            blocks: trials.count() as u64,
        })
    }

    /// Returns true if its share has a ruling of its own.
    fn is_ruled(&self) -> bool {
        let rivals = self.entrant.cell.as_ref().and_then(|cell| cell.rivals.as_ref());
        !self.log_ratios.is_empty() && rivals.is_none_or(Vec::is_empty)
    }

    fn claim(&self) -> Claim<'_> {
        Claim::on_ratios(&self.log_ratios, Slack::default())
    }
}

/// Returns the median share of each flow beside a load over the valid trials of a cell.
fn flow_shares(outcome: &Outcome, contender: usize) -> Vec<f64> {
    let trials: Vec<&[f64]> =
        valid_trials(outcome, contender).map(|trial| &trial.record.flow_shares[..]).collect();
    let flows = trials.iter().map(|shares| shares.len()).max().unwrap_or(0);
    let of = |flow: usize| -> Vec<f64> {
        trials.iter().filter_map(|shares| shares.get(flow).copied()).collect()
    };
    (0..flows).filter_map(|flow| median(&of(flow))).collect()
}

/// Returns the estimate of the centre, with an interval where there are enough values.
fn estimate(values: &[f64], level: f64) -> Option<Estimate> {
    let bare = |point| Estimate { point, low: point, high: point, confidence: 0.0 };
    signed_rank::interval(values, 1.0 - level)
        .or_else(|| signed_rank::hodges_lehmann(values).map(bare))
}

/// Returns an estimate, without the ends of an interval below the confidence of a dead heat at this error level: it is the
/// range of too few blocks.
fn portion(of: Estimate, level: f64) -> Portion {
    let has_interval = of.confidence >= 1.0 - 2.0 * level - 1e-9;
    let end = |end: f64| Some(end).filter(|_| has_interval);
    Portion { point: of.point, low: end(of.low), high: end(of.high) }
}

/// Returns the harm to each claimed figure of a cell, against the same contender under the same conditions without the
/// load. A figure that is censored in any block has none: only a bound on it is known.
fn harms(outcome: &Outcome, beside: &Entrant, table: &Table<'_>) -> Vec<Harm> {
    let Some(alone) = outcome.contenders.iter().find(|other| is_alone(outcome, other, beside))
    else {
        return Vec::new();
    };
    let level = alpha(outcome.asked.confidence);
    let harm = |metric: &Metric| {
        let own = |entrant: &Entrant| table.own(entrant.id, &metric.name);
        let pairs = Pairs::of(&own(beside), &own(alone));
        let log = estimate(&pairs.log_ratios, level).filter(|_| !pairs.censored)?;
        // The part that is left, of the figure or of its reciprocal.
        let sign = if metric.better == Better::Higher { 1.0 } else { -1.0 };
        let left = |log: f64| 1.0 - (sign * log).exp();
        let ends = [left(log.low), left(log.high)];
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let portion = portion(Estimate { point: left(log.point), low, high, ..log }, level);
        Some(Harm { metric: metric.name.clone(), portion })
    };
    claimed(&outcome.metrics).filter_map(harm).collect()
}

/// Returns true if `other` is the same contender as `beside` under the same conditions, but without a load.
fn is_alone(outcome: &Outcome, other: &Entrant, beside: &Entrant) -> bool {
    let (Some(own), Some(cell)) = (&other.cell, &beside.cell) else { return false };
    let mut factors = outcome.factors.iter().zip(own.levels.iter().zip(&cell.levels));
    let fits = factors.all(|(factor, (level, with))| {
        if load::is_key(&factor.name) {
            factor.levels.get(*level).is_some_and(|typed| load::beside(typed).is_none())
        } else {
            level == with
        }
    });
    own.contender == cell.contender && other.id != beside.id && fits
}

/// Account of the queues at the bottleneck over the trials of a cell.
#[derive(Default)]
struct PathAccount {
    queued_ns: Vec<f64>,
    /// Packets that came to the queue.
    queued: u64,
    dropped: u64,
    marked: u64,
}

impl PathAccount {
    fn of(outcome: &Outcome, contender: usize) -> PathAccount {
        let trials = outcome
            .trials
            .iter()
            .filter(|trial| trial.contender == contender && trial.record.valid && !trial.control);
        let mut account = PathAccount::default();
        for figures in trials.filter_map(|trial| trial.record.path.as_ref()) {
            let ways = figures.links.iter().flat_map(|link| [&link.up, &link.down]);
            let Some(DirectionFigures { fates, queued_ns, .. }) =
                ways.max_by_key(|way| way.fates.busy_ns)
            else {
                continue;
            };
            if let Some(Quantile::Ns(ns)) = queued_ns.as_ref().and_then(|queued| queued.p50) {
                account.queued_ns.push(ns as f64);
            }
            let came = fates.arrived.saturating_add(fates.duplicated);
            let gone = [fates.lost, fates.blocked, fates.down].into_iter();
            let queued = gone.fold(came, u64::saturating_sub);
            account.queued = account.queued.saturating_add(queued);
            let dropped = fates.full.saturating_add(fates.early);
            account.dropped = account.dropped.saturating_add(dropped);
            account.marked = account.marked.saturating_add(fates.marked);
        }
        account
    }

    fn share(&self, packets: u64) -> Option<f64> {
        (self.queued > 0).then(|| packets as f64 / self.queued as f64)
    }
}
