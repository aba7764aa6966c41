//! Verdict: from log-ratios to `ahead`, `dead heat` or `undecided`.
//!
//! Everything follows from one kind of interval: that of the signed-rank test around the Hodges–Lehmann
//! estimate, widened for serial dependence ([`super::serial`]) and for what lateness of the
//! generator could have done to the figures ([`Slack`]). With `m` claims each is held to the level `a / m`
//! of the look (Bonferroni), so that all intervals of a race hold together.
//!
//! * `ahead`: the interval at `1 - a / m` leaves out a ratio of 1, and the estimate is beyond the
//!   margin.
//! * `dead heat`: the interval at `1 - 2 a / m` lies within the margin, which are two one-sided
//!   tests at `a / m` (TOST: Schuirmann 1987, J. Pharmacokin. Biopharm. 15). A difference that was
//!   measured and yet lies within the margin is a dead heat with `detectable_but_small`.
//! * `undecided`: neither, with what would decide. Where the interval leaves out 1 the direction is known
//!   all the same.
//!
//! The chance of any false `ahead` in a race is at most the level, and so is that of any false
//! `dead heat`.
//!
//! The interval shown is the one at `1 - a / m`; only where a dead heat needs the one at `1 - 2 a / m`
//! that one is shown. Looks and claims share the error, so its confidence is more than that of
//! the race: over all of them the statement holds at the race's level (repeated confidence intervals:
//! Jennison & Turnbull 1989, J. R. Stat. Soc. B 51). Where blocks are too few for it, the
//! interval is the span of the blocks, with the confidence that it has.

use super::planning::{POWER, REASONABLE_BLOCKS, distance, needed, scatter_of};
use super::signed_rank::{self, Walsh};
use super::{Estimate, serial};
use crate::Better;
use serde::{Deserialize, Serialize};

/// Outcome of a race for two contenders and one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Ahead: one contender is better, by more than the margin as far as the estimate goes.
    Ahead,
    /// Dead heat: equivalent within the margin.
    DeadHeat,
    /// Undecided: not enough blocks to say either.
    Undecided,
}

/// Contender that is ahead: the numerator or the denominator of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Winner {
    /// The numerator.
    A,
    /// The denominator.
    B,
}

/// Number of blocks that would decide an undecided claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// None: it is decided.
    Nothing,
    /// About as many more, with 80 % power if estimate and scatter stay the same.
    Blocks(u64),
    /// No reasonable number: the estimate lies on the margin, or so near to it that more than
    /// [`REASONABLE_BLOCKS`] would be needed.
    Never,
}

impl Missing {
    /// Returns the number of blocks, if there is one.
    pub fn blocks(self) -> Option<u64> {
        match self {
            Missing::Blocks(more) => Some(more),
            Missing::Nothing | Missing::Never => None,
        }
    }
}

/// Bounds on the error of every log-ratio from lateness of the generator: how far the truth may lie from what was
/// measured, at least 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slack {
    /// Bound below: the truth may be lower by as much.
    pub below: f64,
    /// Bound above: the truth may be higher by as much.
    pub above: f64,
}

/// Claim: a comparison of contenders a and b.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Log-ratios `ln(a / b)`, one per block in which both trials are valid, in the order of the blocks. Must be
    /// finite: what has no ratio (a trial without a result) has to be excluded by the gate before.
    pub log_ratios: &'a [f64],
    /// Bounds on the effect of lateness on them.
    pub slack: Slack,
}

/// Ruling on one [`Claim`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ruling {
    /// Outcome of the race.
    pub outcome: Outcome,
    /// Contender that is ahead; set if and only if the outcome is `Ahead`.
    pub winner: Option<Winner>,
    /// Ratio of a over b, with the interval that decided. With no usable block it is 1 with confidence 0.
    pub ratio: Estimate,
    /// Better contender wherever the interval at `1 - a / m` leaves out a ratio of 1, decided or not.
    pub direction: Option<Winner>,
    /// Difference, as a fraction, that these blocks find with 80 % power. `None` with too few.
    pub resolution: Option<f64>,
    /// Number of blocks that would decide.
    pub missing: Missing,
    /// True for a dead heat whose difference was nevertheless measured: real, but below the margin.
    pub detectable_but_small: bool,
}

/// Share of a difference from which on a resolution is fine enough for it, however small the margin.
const SHARP: f64 = 0.25;

impl Ruling {
    /// Returns true if the resolution is at most `wanted` (a fraction), or a quarter of the difference seen.
    ///
    /// A race that ends early because of what it found ends only on a sharp ruling. It then gives the
    /// resolution that was asked for, and few blocks, which cannot show how alike neighbours are
    /// ([`super::serial`]), decide only what is far from open.
    pub fn is_sharp(&self, wanted: f64) -> bool {
        let seen = self.ratio.point.ln().abs().exp_m1();
        self.resolution.is_some_and(|resolution| resolution <= wanted.max(SHARP * seen))
    }
}

/// Rules on all claims of a race together.
///
/// `margin` is a ratio (0.05 for 5 %), `alpha_now` the level that this look may spend on all of them.
pub fn rule(claims: &[Claim], better: Better, margin: f64, alpha_now: f64) -> Vec<Ruling> {
    let level = alpha_now / claims.len().max(1) as f64;
    let criterion = Criterion { better, limit: margin.max(0.0).ln_1p(), level };
    claims.iter().map(|claim| criterion.rule(claim)).collect()
}

/// Values that are the same for all claims. Logarithms throughout.
struct Criterion {
    better: Better,
    limit: f64,
    /// Level of one claim, two-sided for a difference, one-sided for each edge of the margin.
    level: f64,
}

impl Criterion {
    fn rule(&self, claim: &Claim) -> Ruling {
        let Some(walsh) = Walsh::of(claim.log_ratios) else {
            return self.without_blocks();
        };
        let inflation = serial::inflation(claim.log_ratios);
        let widened = |interval: Estimate| claim.slack.widen(interval.widened(inflation));
        let wide = walsh.interval(1.0 - self.level).map(widened);
        let narrow = walsh.interval(1.0 - 2.0 * self.level).map(widened);
        let differs = wide.is_some_and(|interval| interval.excludes(0.0));
        let within = |interval: &Estimate| interval.within(-self.limit, self.limit);
        let shown = wide.or_else(|| walsh.widest().map(widened)).unwrap_or(NOTHING);
        let (outcome, shown) = match (wide, narrow.filter(within)) {
            (Some(wide), _) if differs && wide.point.abs() > self.limit => (Outcome::Ahead, wide),
            // A tie of two tests takes fewer blocks than the interval does; it waits for those.
            (Some(wide), Some(_)) if within(&wide) => (Outcome::DeadHeat, wide),
            (Some(_), Some(narrow)) => (Outcome::DeadHeat, narrow),
            _ => (Outcome::Undecided, shown),
        };
        let direction = differs.then(|| self.better_one(shown.point));
        let scatter = scatter_of(&walsh, inflation);
        let decided = outcome != Outcome::Undecided;
        Ruling {
            outcome,
            winner: direction.filter(|_| outcome == Outcome::Ahead),
            ratio: shown.map(f64::exp),
            direction,
            resolution: self.resolution(claim, scatter),
            missing: if decided { Missing::Nothing } else { self.missing(claim, &shown, scatter) },
            detectable_but_small: outcome == Outcome::DeadHeat && differs,
        }
    }

    fn without_blocks(&self) -> Ruling {
        Ruling {
            outcome: Outcome::Undecided,
            winner: None,
            ratio: NOTHING.map(f64::exp),
            direction: None,
            resolution: None,
            missing: self.at_least(0, 0),
            detectable_but_small: false,
        }
    }

    fn better_one(&self, log_ratio: f64) -> Winner {
        match (self.better, log_ratio < 0.0) {
            (Better::Lower, true) | (Better::Higher, false) => Winner::A,
            (Better::Lower, false) | (Better::Higher, true) => Winner::B,
        }
    }

    fn resolution(&self, claim: &Claim, scatter: Option<f64>) -> Option<f64> {
        let blocks = claim.log_ratios.len() as u64;
        let reach = distance(scatter?, blocks, self.level, 1.0 - POWER)?;
        Some((reach + claim.slack.below.max(claim.slack.above)).exp_m1())
    }

    /// Returns the blocks that are missing. For an estimate beyond the margin the distance is that from a ratio of 1;
    /// for one within, that from the nearer edge, and each side may fail half as often.
    fn missing(&self, claim: &Claim, shown: &Estimate, scatter: Option<f64>) -> Missing {
        let (centre, Slack { below, above }) = (shown.point, claim.slack);
        // Without a scatter, as before the third block, only the fewest possible are known.
        let scatter = scatter.unwrap_or(0.0);
        let needed = if centre.abs() > self.limit {
            let distance = centre.abs() - if centre > 0.0 { below } else { above };
            needed(scatter, distance, self.level, 1.0 - POWER)
        } else {
            let distance = (self.limit - centre - above).min(self.limit + centre - below);
            needed(scatter, distance, 2.0 * self.level, 0.5 * (1.0 - POWER))
        };
        self.at_least(needed, claim.log_ratios.len() as u64)
    }

    /// Returns `needed` blocks, or the fewest that the level takes, less those done.
    fn at_least(&self, needed: u64, done: u64) -> Missing {
        let fewest = signed_rank::fewest(self.level).map_or(u64::MAX, |fewest| fewest as u64);
        let more = needed.max(fewest).saturating_sub(done).max(1);
        if more > REASONABLE_BLOCKS { Missing::Never } else { Missing::Blocks(more) }
    }
}

impl Slack {
    fn widen(self, interval: Estimate) -> Estimate {
        let (low, high) = (interval.low - self.below.max(0.0), interval.high + self.above.max(0.0));
        Estimate { low, high, ..interval }
    }
}

/// Estimate without any ratio: nothing is known.
const NOTHING: Estimate = Estimate { point: 0.0, low: 0.0, high: 0.0, confidence: 0.0 };

#[cfg(test)]
mod tests {
    use super::*;

    fn ruled(log_ratios: &[f64], better: Better, margin: f64, slack: Slack) -> Ruling {
        rule(&[Claim { log_ratios, slack }], better, margin, 0.05)[0]
    }

    fn one(log_ratios: &[f64], better: Better, margin: f64) -> Ruling {
        ruled(log_ratios, better, margin, Slack::default())
    }

    /// Returns twelve distinct values, evenly spread by `spread` on both sides of `centre`, in an order in which
    /// neighbours are not alike.
    fn around(centre: f64, spread: f64) -> Vec<f64> {
        let order = [0, 7, 2, 9, 4, 11, 6, 1, 8, 3, 10, 5].map(f64::from);
        order.iter().map(|i| centre + spread * (i - 5.5) / 5.5).collect()
    }

    #[test]
    fn clear_lead() {
        let ruling = one(&around(-0.2, 0.05), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::Ahead, Some(Winner::A)));
        assert!((ruling.ratio.point - (-0.2f64).exp()).abs() < 1e-9 && ruling.ratio.high < 1.0);
        assert_eq!((ruling.missing, ruling.detectable_but_small), (Missing::Nothing, false));
        assert_eq!((ruling.direction, ruling.ratio.confidence), (ruling.winner, 0.95));
        let ruling = one(&around(-0.2, 0.05), Better::Higher, 0.05);
        assert_eq!(ruling.winner, Some(Winner::B));
    }

    #[test]
    fn tie() {
        let ruling = one(&around(0.001, 0.03), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::DeadHeat, None));
        assert!(ruling.ratio.within(1.0 / 1.05, 1.05) && !ruling.detectable_but_small);
        assert_eq!((ruling.ratio.confidence, ruling.direction), (0.95, None));
        // A little more scatter, and only the interval of two one-sided tests is within.
        let mut wider =
            (30..200).map(|i| one(&around(0.001, 1e-3 * f64::from(i)), Better::Lower, 0.05));
        let last = wider.rfind(|ruling| ruling.outcome == Outcome::DeadHeat).unwrap();
        assert!(last.ratio.confidence == 0.9 && last.ratio.within(1.0 / 1.05, 1.05), "{last:?}");
    }

    #[test]
    fn small_but_real() {
        let ruling = one(&around(0.02, 0.015), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::DeadHeat, None));
        assert!(ruling.detectable_but_small && ruling.ratio.excludes(1.0));
        assert_eq!(ruling.direction, Some(Winner::B));
    }

    /// A difference that is there, and may or may not be within the margin.
    #[test]
    fn direction_is_kept_where_the_margin_is_open() {
        let ruling = one(&around(-0.045, 0.06), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::Undecided, None));
        assert_eq!(ruling.direction, Some(Winner::A));
        assert!(ruling.ratio.high < 1.0 && ruling.ratio.low < 1.0 / 1.05, "{ruling:?}");
    }

    #[test]
    fn noise_is_undecided_and_says_how_much_more() {
        let ruling = one(&around(0.02, 0.3), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.direction), (Outcome::Undecided, None));
        assert!(!ruling.ratio.excludes(1.0));
        let Missing::Blocks(more) = ruling.missing else { panic!("{ruling:?}") };
        assert!((100..2_000).contains(&more), "{more}");
        // On the edge of the margin no number of blocks would tell.
        let edge = one(&around(1.05f64.ln() - 1e-6, 0.3), Better::Lower, 0.05);
        assert_eq!((edge.outcome, edge.missing), (Outcome::Undecided, Missing::Never));
    }

    /// The resolution says what was to be found: beyond the interval's half-width by the power.
    #[test]
    fn resolution_follows_from_scatter() {
        let calm = one(&around(0.0, 0.03), Better::Lower, 0.05).resolution.unwrap();
        let wild = one(&around(0.0, 0.3), Better::Lower, 0.05);
        assert!((0.01..0.04).contains(&calm), "{calm}");
        let half = (wild.ratio.high / wild.ratio.low).ln() / 2.0;
        let resolved = wild.resolution.unwrap().ln_1p() / half;
        assert!((1.2..1.8).contains(&resolved), "{resolved}");
        assert_eq!(one(&around(0.0, 0.03)[..5], Better::Lower, 0.05).resolution, None);
    }

    /// More claims, wider intervals: all of them hold together.
    #[test]
    fn claims_share_the_level() {
        let data = around(-0.2, 0.05);
        let claim = Claim { log_ratios: &data, slack: Slack::default() };
        let alone = rule(&[claim], Better::Lower, 0.05, 0.05)[0];
        let among = rule(&[claim; 5], Better::Lower, 0.05, 0.05)[4];
        assert_eq!((alone.ratio.confidence, among.ratio.confidence), (0.95, 0.99));
        assert!(among.ratio.low < alone.ratio.low && among.ratio.high > alone.ratio.high);
        assert!(among.resolution > alone.resolution);
    }

    #[test]
    fn slack_widens_to_its_side_before_anything_is_decided() {
        let data = around(-0.2, 0.05);
        let plain = one(&data, Better::Lower, 0.05);
        let late = ruled(&data, Better::Lower, 0.05, Slack { below: 0.0, above: 0.3 });
        assert_eq!((late.outcome, late.direction), (Outcome::Undecided, None));
        assert_eq!((late.ratio.low, late.missing), (plain.ratio.low, Missing::Never));
        assert!(((late.ratio.high / plain.ratio.high).ln() - 0.3).abs() < 1e-9);
        let other = ruled(&data, Better::Lower, 0.05, Slack { below: 0.3, above: 0.0 });
        assert_eq!((other.outcome, other.ratio.high), (Outcome::Ahead, plain.ratio.high));
        let tie = ruled(&around(0.0, 0.02), Better::Lower, 0.05, Slack { below: 0.0, above: 0.05 });
        assert_eq!((tie.outcome, tie.missing), (Outcome::Undecided, Missing::Never));
    }

    #[test]
    fn without_a_margin_there_is_no_dead_heat() {
        assert_eq!(one(&around(0.001, 0.03), Better::Lower, 0.0).outcome, Outcome::Undecided);
        assert_eq!(one(&around(0.02, 0.015), Better::Lower, 0.0).outcome, Outcome::Ahead);
        let same = one(&[0.0; 12], Better::Lower, 0.0);
        assert_eq!((same.outcome, same.missing), (Outcome::Undecided, Missing::Never));
    }

    #[test]
    fn identical_results_are_a_tie() {
        let ruling = one(&[0.0; 12], Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.ratio.point), (Outcome::DeadHeat, 1.0));
        assert_eq!(ruling.resolution, Some(0.0));
    }

    #[test]
    fn too_few_blocks() {
        for n in 0..6 {
            for centre in [0.0, 0.5] {
                let ruling = one(&around(centre, 0.01)[..n], Better::Lower, 0.05);
                assert_eq!((ruling.outcome, ruling.direction), (Outcome::Undecided, None));
                assert_eq!(ruling.missing, Missing::Blocks(6 - n as u64));
                let range = [ruling.ratio.low, ruling.ratio.point, ruling.ratio.high];
                assert!(range.is_sorted() && range.iter().all(|v| v.is_finite()), "{ruling:?}");
                assert!(ruling.ratio.confidence < 0.95);
            }
        }
    }

    #[test]
    fn values_without_a_ratio_decide_nothing() {
        let ruling = one(&[f64::INFINITY; 12], Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.ratio.confidence), (Outcome::Undecided, 0.0));
        assert!(rule(&[], Better::Lower, 0.05, 0.05).is_empty());
    }

    /// Whatever the noise, number of claims and level: the picture and the word never disagree.
    #[test]
    fn interval_agrees_with_outcome() {
        let mut rng = crate::rng::SplitMix64::new(9);
        let mut seen = [0; 3];
        for round in 0..3_000 {
            let (m, n) = (1 + rng.below(6) as usize, 2 + rng.below(30) as usize);
            // Every third race is measured with a coarse clock, for ties.
            let grid = if round % 3 == 0 { 0.01 } else { 1e-9 };
            let data: Vec<Vec<f64>> = (0..m)
                .map(|_| {
                    let (centre, sd) = (0.1 * rng.normal(), 0.1 * rng.unit());
                    (0..n).map(|_| ((centre + sd * rng.normal()) / grid).round() * grid).collect()
                })
                .collect();
            let claim = |d| Claim { log_ratios: d, slack: Slack::default() };
            let claims: Vec<Claim> = data.iter().map(|d| claim(d)).collect();
            let alpha = [0.05, 0.02, 0.003][rng.below(3) as usize];
            let level = alpha / m as f64;
            for ruling in rule(&claims, Better::Lower, 0.05, alpha) {
                seen[ruling.outcome as usize] += 1;
                let ratio = ruling.ratio;
                let whole = ratio.confidence == 1.0 - level;
                let within = ratio.within(1.0 / 1.05, 1.05);
                assert_eq!(
                    ruling.missing == Missing::Nothing,
                    ruling.outcome != Outcome::Undecided
                );
                assert_eq!(ruling.winner.is_some(), ruling.outcome == Outcome::Ahead);
                match ruling.outcome {
                    Outcome::Ahead => assert!(ratio.excludes(1.0) && whole, "{ruling:?}"),
                    Outcome::DeadHeat => {
                        assert!(within && ratio.confidence >= 1.0 - 2.0 * level, "{ruling:?}");
                    }
                    Outcome::Undecided if whole => {
                        assert_eq!(ruling.direction.is_some(), ratio.excludes(1.0));
                        let beyond = ratio.point.ln().abs() > 1.05f64.ln();
                        assert!(!(within || beyond && ratio.excludes(1.0)), "{ruling:?}");
                    }
                    // The span of too few blocks, which is what there is and proves nothing.
                    Outcome::Undecided => assert!(ratio.confidence < 1.0 - level, "{ruling:?}"),
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
    }

    #[test]
    fn json_words() {
        assert_eq!(serde_json::to_value(Outcome::DeadHeat).unwrap(), "dead_heat");
        assert_eq!(serde_json::to_value(Winner::A).unwrap(), "a");
        assert_eq!(serde_json::to_value(Missing::Never).unwrap(), "never");
        assert_eq!(serde_json::to_value(Missing::Blocks(9)).unwrap()["blocks"], 9);
    }
}
