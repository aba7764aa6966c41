//! A race decided by the rule under test, and by those it is compared with.

use deadheat_stats::{
    Better, Claim, Missing, Outcome, Plan, Ruling, Slack, Tail, Winner, blocks_for, rule,
    rule_any_time, scatter, signed_rank,
};

use crate::world::{Noise, World};

pub(crate) const LEVEL: f64 = 0.05;
pub(crate) const MARGIN: f64 = 0.05;
/// The resolution that a race plans for, as a share of its margin.
const AIM: f64 = 0.75;

/// Whether the number of blocks is thought over half-way and before the last look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Replanning {
    None,
    /// It may become anything up to this, for a resolution of the margin.
    UpTo(usize),
}

/// A race to simulate: the true logarithm of each contender's figure, and how it is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Race<'a> {
    pub truth: &'a [f64],
    pub noise: Noise,
    pub margin: f64,
    pub blocks: usize,
    pub replanning: Replanning,
    /// Error of the whole race.
    pub level: f64,
}

/// What was said at any look about any pair of a race.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Heard {
    pub ahead: bool,
    /// The second contender is behind the first.
    pub worse: bool,
    pub dead_heat: bool,
    /// An interval of the last look leaves out 1.
    pub direction: bool,
    /// An interval of some look misses the true ratio.
    pub missed: bool,
    pub blocks: usize,
    pub resolution: f64,
}

/// Shares of races, and means.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Rates {
    pub ahead: f64,
    pub dead_heat: f64,
    pub direction: f64,
    pub missed: f64,
    pub blocks: f64,
    pub resolution: f64,
}

impl Race<'_> {
    pub(crate) fn run(&self, seed: u64) -> Heard {
        let mut world = World::new(self.noise, self.truth.len(), seed);
        let pairs: Vec<(usize, usize)> =
            (0..self.truth.len()).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        let mut plan = Plan::new(self.blocks, pairs.len(), self.level);
        let replan_at = plan.replan_at();
        let mut ratios = vec![Vec::new(); pairs.len()];
        let mut heard = Heard::default();
        let mut settled = vec![false; pairs.len()];
        while plan.looks.last().is_some_and(|look| look.blocks > heard.blocks) {
            let figures = world.block(self.truth);
            for (ratios, (a, b)) in ratios.iter_mut().zip(&pairs) {
                ratios.push(figures[*a] - figures[*b]);
            }
            heard.blocks += 1;
            let is_end = plan.looks.last().is_some_and(|look| look.blocks == heard.blocks);
            if Some(heard.blocks) == replan_at || is_end && !self.is_resolved(&plan, &ratios) {
                plan = self.replanned(&plan, &ratios);
            }
            let claim = |ratios| Claim::on_ratios(ratios, Slack::default());
            let claims: Vec<Claim> = ratios.iter().map(|r: &Vec<f64>| claim(r)).collect();
            let truths = || pairs.iter().map(|(a, b)| self.truth[*a] - self.truth[*b]);
            let is_last = plan.looks.last().is_some_and(|look| look.blocks == heard.blocks);
            let counts = |ruling: &Ruling| is_last || ruling.is_sharp(self.margin);
            if plan.any_time > 0.0 {
                let rulings =
                    rule_any_time(&claims, Better::Lower, self.margin, plan.any_time, self.level);
                let found = rulings.iter().zip(truths()).enumerate();
                let found = found.filter_map(|(at, (ruling, truth))| Some((at, (*ruling)?, truth)));
                for (at, ruling, truth) in found.filter(|(_, ruling, _)| counts(ruling)) {
                    heard.add(&[ruling], std::iter::once(truth), counts);
                    settled[at] = true;
                }
            }
            if let Some(look) = plan.at(heard.blocks) {
                let rulings = rule(&claims, Better::Lower, self.margin, look.alpha);
                heard.add(&rulings, truths(), counts);
                for (settled, ruling) in settled.iter_mut().zip(&rulings) {
                    *settled |= ruling.missing == Missing::Nothing && counts(ruling);
                }
            }
            if settled.iter().all(|settled| *settled) {
                break;
            }
        }
        heard
    }

    fn replanned(&self, plan: &Plan, ratios: &[Vec<f64>]) -> Plan {
        let Replanning::UpTo(most) = self.replanning else {
            return plan.clone();
        };
        let done = ratios[0].len();
        let needed = self.needed(plan, ratios, AIM * self.margin);
        plan.replanned(done, (needed as usize).clamp(done + 1, most.max(done + 1)))
    }

    fn is_resolved(&self, plan: &Plan, ratios: &[Vec<f64>]) -> bool {
        let done = ratios[0].len();
        let Replanning::UpTo(most) = self.replanning else {
            return true;
        };
        done >= most || self.needed(plan, ratios, self.margin) <= done as u64
    }

    /// Blocks for a resolution, by the pair that scatters most.
    fn needed(&self, plan: &Plan, ratios: &[Vec<f64>], resolution: f64) -> u64 {
        let level = self.level / plan.claims as f64;
        let needed = |ratios: &Vec<f64>| {
            scatter(ratios).map_or(u64::MAX, |s| blocks_for(s, resolution, level))
        };
        ratios.iter().map(needed).max().unwrap_or(u64::MAX)
    }

    pub(crate) fn rates(&self, races: u64, seed: u64) -> Rates {
        let heard: Vec<Heard> = (0..races).map(|race| self.run(seed + race)).collect();
        let mean = |of: &dyn Fn(&Heard) -> f64| heard.iter().map(of).sum::<f64>() / races as f64;
        let share = |of: fn(&Heard) -> bool| mean(&|heard| f64::from(u8::from(of(heard))));
        Rates {
            ahead: share(|h| h.ahead),
            dead_heat: share(|h| h.dead_heat),
            direction: share(|h| h.direction),
            missed: share(|h| h.missed),
            blocks: mean(&|h| h.blocks as f64),
            resolution: mean(&|h| h.resolution),
        }
    }

    /// All log-figures of a race without looks, by contender.
    pub(crate) fn trials(&self, seed: u64) -> Vec<Vec<f64>> {
        let mut world = World::new(self.noise, self.truth.len(), seed);
        let mut columns = vec![Vec::new(); self.truth.len()];
        for _ in 0..self.blocks {
            let figures = world.block(self.truth);
            columns.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
        }
        columns
    }
}

impl Heard {
    fn add(
        &mut self,
        rulings: &[Ruling],
        truths: impl Iterator<Item = f64>,
        counts: impl Fn(&Ruling) -> bool,
    ) {
        let says = |outcome| rulings.iter().any(|r| r.outcome == outcome && counts(r));
        self.ahead |= says(Outcome::Ahead);
        let is_first = |ruling: &&Ruling| ruling.winner == Some(Winner::A) && counts(ruling);
        self.worse |= rulings.iter().any(|ruling| is_first(&ruling));
        self.dead_heat |= says(Outcome::DeadHeat);
        self.direction = rulings.iter().any(|ruling| ruling.direction.is_some());
        let misses = |(ruling, truth): (&Ruling, f64)| ruling.ratio.excludes(truth.exp());
        self.missed |= rulings.iter().zip(truths).any(misses);
        self.resolution = rulings.iter().filter_map(|r| r.resolution).fold(0.0, f64::max);
    }
}

/// The rule of the first version: a margin of twice the noise, and exact tests that take blocks for
/// independent; one look.
pub(crate) fn widened_margin(race: &Race<'_>, seed: u64) -> Outcome {
    let columns = race.trials(seed);
    let ratios: Vec<f64> = columns[0].iter().zip(&columns[1]).map(|(a, b)| a - b).collect();
    let efficient = race.blocks as f64 * 3.0 / std::f64::consts::PI;
    let half_width = 1.96 * 2.0f64.sqrt() * race.noise.scatter() / efficient.sqrt();
    let limit = race.margin.ln_1p().max((2.0 * half_width.exp_m1()).ln_1p());
    let p = |shift, tail| signed_rank::p_value(&ratios, shift, tail).unwrap_or(1.0);
    let centre = signed_rank::hodges_lehmann(&ratios).unwrap_or(0.0);
    if p(0.0, Tail::Two) <= LEVEL && centre.abs() > limit {
        Outcome::Ahead
    } else if p(-limit, Tail::Greater) <= LEVEL && p(limit, Tail::Less) <= LEVEL {
        Outcome::DeadHeat
    } else {
        Outcome::Undecided
    }
}

/// Welch's t-test (1947) over the trials of both contenders as if they were not paired, and two one-sided
/// ones for a tie; one look.
pub(crate) fn welch(race: &Race<'_>, seed: u64) -> Outcome {
    let columns = race.trials(seed);
    let n = race.blocks as f64;
    let moments = |column: &Vec<f64>| {
        let mean = column.iter().sum::<f64>() / n;
        let squares: f64 = column.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, squares / (n - 1.0) / n)
    };
    let (a, b) = (moments(&columns[0]), moments(&columns[1]));
    let (difference, error) = (a.0 - b.0, (a.1 + b.1).sqrt());
    let freedom = (a.1 + b.1).powi(2) * (n - 1.0) / (a.1.powi(2) + b.1.powi(2));
    // Cornish & Fisher's expansion of t; three digits from 10 degrees of freedom on.
    let t = |z: f64| z + (z.powi(3) + z) / (4.0 * freedom);
    let limit = race.margin.ln_1p();
    if difference.abs() > t(1.96) * error && difference.abs() > limit {
        Outcome::Ahead
    } else if difference.abs() + t(1.645) * error < limit {
        Outcome::DeadHeat
    } else {
        Outcome::Undecided
    }
}

/// Share of races with this outcome.
pub(crate) fn share(
    race: &Race<'_>,
    decide: fn(&Race<'_>, u64) -> Outcome,
    outcome: Outcome,
    races: u64,
) -> f64 {
    (0..races).filter(|seed| decide(race, 5_000 + seed) == outcome).count() as f64 / races as f64
}
