//! Verdict: from log-ratios, or from differences, to `ahead`, `dead heat` or `undecided`.
//!
//! Every verdict follows from one kind of interval: the interval of the signed-rank test around the Hodges–Lehmann
//! estimate, widened for serial dependence ([`super::serial`]) and for the possible effect of the generator's lateness
//! on the figures ([`Slack`]). Between looks it is the confidence sequence of [`super::eprocess`], widened in the same
//! way, which is valid after any block ([`rule_any_time`]). With `m` claims each has the level `a / m` of the look
//! (Bonferroni), so that all intervals of a race hold together.
//!
//! * `ahead`: the interval at `1 - a / m` excludes a ratio of 1, does not lie within the margin, and the lead holds for
//!   the mean and for the medians, too (`agreement.rs`). It says that there is a difference, and in which direction;
//!   [`Ruling::is_beyond`] says whether it is shown to exceed the margin.
//! * `dead heat`: the interval at `1 - 2 a / m` lies within the margin, which is equivalent to two one-sided tests at
//!   `a / m` (TOST: Schuirmann 1987, J. Pharmacokin. Biopharm. 15), and the mean and the medians agree. A significant
//!   difference within the margin is a dead heat with `detectable_but_small`.
//! * `undecided`: neither, with the number of blocks that would decide, or with the figure that disagrees.
//!
//! The estimate has no part in a ruling, so that a race does not end where the estimate is high by chance.
//!
//! Where ratios do not exist, or where figures have a common unknown error, blocks give differences in the unit of the
//! figure, with a margin in that unit ([`Scale::Differences`]). All of the above holds with 0 in place of a ratio of 1.
//!
//! The probability of any false `ahead` in a race is at most the level, and so is the probability of any false `dead
//! heat`.
//!
//! The reported interval is at `1 - a / m`, or at `1 - 2 a / m` if a dead heat needs that. Looks and claims share the
//! error, so its confidence is higher than the race's: over all looks and claims the statement holds at the race's
//! level (repeated confidence intervals: Jennison & Turnbull 1989, J. R. Stat. Soc. B 51). With too few blocks, the
//! interval is the range of the blocks, with its actual confidence.

use super::agreement::{self, Disagreement, Sample};
use super::eprocess::{self, Side, evidence};
use super::estimate::Slack;
use super::planning::{self, OpenClaim, POWER, REASONABLE_BLOCKS, distance, scatter_of};
use super::signed_rank::{self, Walsh};
use super::{Estimate, serial};
use crate::Better;
use serde::{Deserialize, Serialize};

/// Outcome of a race for two contenders and one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Ahead: one contender is better, and not shown to be so by less than the margin.
    Ahead,
    /// Dead heat: equivalent within the margin.
    DeadHeat,
    /// Undecided: not enough blocks for either.
    #[default]
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
    /// About this number of further blocks, which decide it in four races of five.
    Blocks(u64),
    /// About this number of further blocks, which may decide it: the estimate lies within its standard error of the
    /// margin, so that half of such races are then still undecided, or the blocks are too few to estimate their
    /// scatter.
    Perhaps(u64),
    /// No reasonable number: the estimate lies on the margin, or so near to it that more than [`REASONABLE_BLOCKS`] are
    /// needed.
    Never,
}

impl Missing {
    /// Returns the number of blocks, if there is one.
    pub fn blocks(self) -> Option<u64> {
        match self {
            Missing::Blocks(more) | Missing::Perhaps(more) => Some(more),
            Missing::Nothing | Missing::Never => None,
        }
    }
}

/// Scale of a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Log-ratios `ln(a / b)`, with the margin of the race.
    LogRatios,
    /// Differences `a - b` in the unit of the figure.
    Differences {
        /// Margin in that unit.
        margin: f64,
    },
}

/// Claim: a comparison of contenders a and b.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Log-ratios or differences, one per block with two valid trials, in the order of the blocks. They must be finite:
    /// the gate excludes trials without a ratio before.
    pub values: &'a [f64],
    /// Logarithms of the figures, or the figures, of a and of b in the same blocks; `None` if only values are known.
    pub columns: Option<(&'a [f64], &'a [f64])>,
    /// Scale of the values.
    pub scale: Scale,
    /// Bounds on the effect of lateness on them.
    pub slack: Slack,
}

impl<'a> Claim<'a> {
    /// Creates a claim on log-ratios.
    pub fn on_ratios(values: &'a [f64], slack: Slack) -> Claim<'a> {
        Claim { values, columns: None, scale: Scale::LogRatios, slack }
    }

    /// Adds the figures of both contenders, whose medians then have to agree with a ruling.
    #[must_use]
    pub fn with_columns(self, a: &'a [f64], b: &'a [f64]) -> Claim<'a> {
        Claim { columns: Some((a, b)), ..self }
    }
}

/// Ruling on one [`Claim`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ruling {
    /// Outcome of the race.
    pub outcome: Outcome,
    /// Contender that is ahead; set if and only if the outcome is `Ahead`.
    pub winner: Option<Winner>,
    /// Ratio of a over b, with the decisive interval. Without a usable block, and for a claim on differences, it is 1
    /// with confidence 0.
    pub ratio: Estimate,
    /// Difference a - b with the decisive interval, for a claim on differences; 0 with confidence 0 without a usable
    /// block.
    pub difference: Option<Estimate>,
    /// Better contender if the interval at `1 - a / m` excludes a ratio of 1 and no figure disagrees.
    pub direction: Option<Winner>,
    /// True for `ahead` by more than the margin: the whole interval lies beyond it.
    pub is_beyond: bool,
    /// Figure that disagrees with what the ranks alone would have decided.
    pub disagreement: Option<Disagreement>,
    /// Difference, as a fraction or in the unit of the figure, that these blocks find with 80 % power. `None` with too
    /// few blocks.
    pub resolution: Option<f64>,
    /// Number of blocks that would decide, or that would tell whether a lead exceeds the margin.
    pub missing: Missing,
    /// True for a dead heat with a significant difference: real, but below the margin.
    pub detectable_but_small: bool,
}

/// Largest resolution that is sharp enough, as a share of the difference, independent of the margin.
const SHARP: f64 = 0.25;

/// Minimum number of blocks with a reliable scatter: with fewer, seven of ten predictions held (`tests/rules.rs`).
const KNOWN_FROM: u64 = 40;

impl Ruling {
    /// Returns the confidence of the decisive interval.
    pub fn confidence(&self) -> f64 {
        self.difference.map_or(self.ratio.confidence, |difference| difference.confidence)
    }

    /// Returns true if the ruling [`is_sharp`] enough.
    pub fn is_sharp(&self, wanted: f64) -> bool {
        let seen = match self.difference {
            Some(difference) => difference.point.abs(),
            None => self.ratio.point.ln().abs().exp_m1(),
        };
        self.resolution.is_some_and(|resolution| is_sharp(resolution, wanted, seen))
    }
}

/// Returns true if a resolution is at most `wanted` (in its own unit), or a quarter of the difference `seen`.
///
/// A race that ends early because of its result ends only on a sharp ruling. It then has the requested resolution,
/// and few blocks, from which serial dependence ([`super::serial`]) cannot be estimated, decide only clear
/// differences.
pub fn is_sharp(resolution: f64, wanted: f64, seen: f64) -> bool {
    resolution <= wanted.max(SHARP * seen)
}

/// Rules on all claims of a race together.
///
/// `margin` is a ratio (0.05 for 5 %), `alpha_now` the level that this look may spend on all of them.
pub fn rule(claims: &[Claim], better: Better, margin: f64, alpha_now: f64) -> Vec<Ruling> {
    let criterion = Criterion::of(Intervals::Planned, claims, better, margin, alpha_now);
    claims.iter().map(|claim| criterion.rule(claim)).collect()
}

/// Rules on all claims of a race together after any block, by the confidence sequence of [`eprocess`]; `None` for an
/// undecided claim.
///
/// `alpha` is the level that all such rulings of a race share, for any number of them and any reason to end; `whole` is
/// the level of the race, for the resolution.
pub fn rule_any_time(
    claims: &[Claim],
    better: Better,
    margin: f64,
    alpha: f64,
    whole: f64,
) -> Vec<Option<Ruling>> {
    let criterion = Criterion::of(Intervals::AnyTime, claims, better, margin, alpha);
    let resolves = whole / claims.len().max(1) as f64;
    let criterion = Criterion { resolves, ..criterion };
    claims.iter().map(|claim| criterion.rule_if_decided(claim)).collect()
}

/// Intervals that decide claims.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intervals {
    /// Intervals of the signed-rank test, at a planned look.
    Planned,
    /// Confidence sequence, at any block.
    AnyTime,
}

/// Values common to all claims, as logarithms.
struct Criterion {
    intervals: Intervals,
    better: Better,
    limit: f64,
    /// Level of a claim, two-sided for a difference, one-sided for each edge of the margin.
    level: f64,
    /// Level of a claim for its resolution.
    resolves: f64,
}

impl Intervals {
    /// Returns the interval of these differences at the two-sided `level`.
    fn at(self, walsh: &Walsh, claim: &Claim, level: f64) -> Option<Estimate> {
        match self {
            Intervals::Planned => walsh.interval(1.0 - level),
            Intervals::AnyTime => eprocess::sequence(walsh, claim.values, level),
        }
    }

    /// Returns the minimum number of blocks that can decide a claim.
    fn fewest(self, level: f64) -> Option<usize> {
        match self {
            Intervals::Planned => signed_rank::fewest(level),
            Intervals::AnyTime => eprocess::fewest(level),
        }
    }
}

impl Criterion {
    fn of(
        intervals: Intervals,
        claims: &[Claim],
        better: Better,
        margin: f64,
        alpha: f64,
    ) -> Criterion {
        let level = alpha / claims.len().max(1) as f64;
        Criterion { intervals, better, limit: margin.max(0.0).ln_1p(), level, resolves: level }
    }

    /// Returns the ruling by the confidence sequence, if it decides. After most blocks it does not, and the evidence at
    /// three shifts shows that faster than an interval.
    fn rule_if_decided(&self, claim: &Claim) -> Option<Ruling> {
        let rejects = |shift, side, level: f64| {
            let evidence = evidence(claim.values, shift, side);
            evidence.is_some_and(|evidence| evidence >= -level.ln())
        };
        let differs = [Side::Above, Side::Below].map(|side| rejects(0.0, side, self.level / 2.0));
        let limit = self.limit(claim);
        let ties = [(-limit, Side::Above), (limit, Side::Below)]
            .map(|(edge, side)| rejects(edge, side, self.level));
        if !differs.contains(&true) && ties.contains(&false) {
            return None;
        }
        Some(self.rule(claim)).filter(|ruling| ruling.outcome != Outcome::Undecided)
    }

    /// Returns the margin in the scale of the claim.
    fn limit(&self, claim: &Claim) -> f64 {
        match claim.scale {
            Scale::LogRatios => self.limit,
            Scale::Differences { margin } => margin.max(0.0),
        }
    }

    fn rule(&self, claim: &Claim) -> Ruling {
        let Some(walsh) = Walsh::of(claim.values) else {
            return self.without_blocks(claim);
        };
        let limit = self.limit(claim);
        let inflation = serial::inflation(claim.values);
        let widening = match self.intervals {
            Intervals::Planned => inflation,
            Intervals::AnyTime => serial::any_time_inflation(claim.values),
        };
        let widened = |interval: Estimate| claim.slack.widen(interval.widened(widening));
        let wide = self.intervals.at(&walsh, claim, self.level).map(widened);
        let narrow = self.intervals.at(&walsh, claim, 2.0 * self.level).map(widened);
        let differs = wide.is_some_and(|interval| interval.excludes(0.0));
        let within = |interval: &Estimate| interval.within(-limit, limit);
        let shown = wide.or_else(|| walsh.widest().map(widened)).unwrap_or(NOTHING);
        // The two tests of a tie need fewer blocks than the interval; the ruling waits for the interval.
        let tie = wide.filter(within).or(narrow.filter(within)).filter(|_| wide.is_some());
        let by_rank = match tie {
            Some(_) => Outcome::DeadHeat,
            None if differs => Outcome::Ahead,
            None => Outcome::Undecided,
        };
        let shown = tie.unwrap_or(shown);
        let disagreement = self.disagreement(claim, (&walsh, inflation), by_rank);
        let outcome = if disagreement.is_none() { by_rank } else { Outcome::Undecided };
        let differs = differs && outcome != Outcome::Undecided;
        let direction = differs.then(|| self.better_one(shown.point));
        let is_beyond = outcome == Outcome::Ahead && (shown.low > limit || shown.high < -limit);
        let scatter = scatter_of(&walsh, inflation);
        let missing = match outcome {
            Outcome::DeadHeat => Missing::Nothing,
            Outcome::Ahead if is_beyond => Missing::Nothing,
            // No number of blocks makes unlike figures agree.
            _ if disagreement.is_some() => Missing::Never,
            Outcome::Ahead | Outcome::Undecided => {
                let (done, point) = (claim.values.len() as u64, shown.point);
                let beyond = if outcome == Outcome::Ahead { limit } else { 0.0 };
                let known = OpenClaim {
                    point,
                    scatter: 0.0,
                    done,
                    beyond,
                    wide,
                    narrow,
                    slack: claim.slack,
                };
                self.missing(known, limit, scatter)
            }
        };
        Ruling {
            outcome,
            winner: direction.filter(|_| outcome == Outcome::Ahead),
            ratio: claim.scale.ratio(shown),
            difference: claim.scale.difference(shown),
            direction,
            is_beyond,
            disagreement,
            resolution: self.resolution(claim, scatter),
            missing,
            detectable_but_small: outcome == Outcome::DeadHeat && differs,
        }
    }

    /// Returns the figure that disagrees with the outcome of the ranks.
    fn disagreement(
        &self,
        claim: &Claim,
        (walsh, inflation): (&Walsh, f64),
        by_rank: Outcome,
    ) -> Option<Disagreement> {
        let interval = self.intervals.at(walsh, claim, self.level)?;
        let (values, columns) = (claim.values, claim.columns);
        let sample = Sample { values, columns, interval, inflation };
        let reach = agreement::reach(self.level, self.intervals == Intervals::AnyTime);
        match by_rank {
            Outcome::Ahead => sample.against_lead(reach),
            Outcome::DeadHeat => sample.against_tie(self.limit(claim), reach),
            Outcome::Undecided => None,
        }
    }

    fn without_blocks(&self, claim: &Claim) -> Ruling {
        Ruling {
            outcome: Outcome::Undecided,
            winner: None,
            ratio: NOTHING.map(f64::exp),
            difference: claim.scale.difference(NOTHING),
            direction: None,
            is_beyond: false,
            disagreement: None,
            resolution: None,
            missing: self.at_least(0, 0, false),
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
        let blocks = claim.values.len() as u64;
        let reach = distance(scatter?, blocks, self.resolves, 1.0 - POWER)?;
        let whole = reach + claim.slack.below.max(claim.slack.above);
        Some(match claim.scale {
            Scale::LogRatios => whole.exp_m1(),
            Scale::Differences { .. } => whole,
        })
    }

    /// Returns the number of further blocks until the claim is decided, in either way, given the present data. `known`
    /// lacks only a scatter.
    fn missing(&self, known: OpenClaim, limit: f64, scatter: Option<f64>) -> Missing {
        // Without a scatter, such as before the third block, only the minimum is known.
        let Some(scatter) = scatter else { return self.at_least(0, known.done, false) };
        let known = OpenClaim { scatter, ..known };
        let needed = planning::deciding(&known, limit, self.level);
        let off = (known.point.abs() - limit).abs();
        let is_likely = known.done >= KNOWN_FROM && off >= known.error();
        self.at_least(needed, known.done, is_likely)
    }

    /// Returns `needed` blocks, or the minimum for the level, minus the blocks done.
    fn at_least(&self, needed: u64, done: u64, is_likely: bool) -> Missing {
        let fewest = self.intervals.fewest(self.level).map_or(u64::MAX, |fewest| fewest as u64);
        let more = needed.max(fewest).saturating_sub(done).max(1);
        match is_likely {
            _ if more > REASONABLE_BLOCKS => Missing::Never,
            true => Missing::Blocks(more),
            false => Missing::Perhaps(more),
        }
    }
}

impl Scale {
    fn ratio(self, estimate: Estimate) -> Estimate {
        match self {
            Scale::LogRatios => estimate.map(f64::exp),
            Scale::Differences { .. } => NOTHING.map(f64::exp),
        }
    }

    fn difference(self, estimate: Estimate) -> Option<Estimate> {
        matches!(self, Scale::Differences { .. }).then_some(estimate)
    }
}

/// Estimate without any ratio.
const NOTHING: Estimate = Estimate { point: 0.0, low: 0.0, high: 0.0, confidence: 0.0 };

#[cfg(test)]
mod tests {
    use super::*;

    fn ruled(log_ratios: &[f64], better: Better, margin: f64, slack: Slack) -> Ruling {
        rule(&[Claim::on_ratios(log_ratios, slack)], better, margin, 0.05)[0]
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

    /// A difference that is there, and may or may not be within the margin: the same state on both sides of it.
    #[test]
    fn a_lead_whose_interval_reaches_into_the_margin_leaves_it_open() {
        for centre in [-0.045, -0.055] {
            let ruling = one(&around(centre, 0.06), Better::Lower, 0.05);
            assert_eq!((ruling.outcome, ruling.winner), (Outcome::Ahead, Some(Winner::A)));
            assert!(!ruling.is_beyond && ruling.missing != Missing::Nothing, "{ruling:?}");
            assert!(ruling.ratio.high < 1.0 && ruling.ratio.low < 1.0 / 1.05, "{ruling:?}");
        }
        assert!(one(&around(-0.2, 0.05), Better::Lower, 0.05).is_beyond);
    }

    /// Where the figures of a and b are known, equal medians stop what the ranks alone would have said.
    #[test]
    fn a_verdict_against_its_own_table_is_none() {
        let mut rng = crate::rng::SplitMix64::new(4);
        let a: Vec<f64> = (0..200).map(|_| -(1.0 - rng.unit()).ln() - 2f64.ln()).collect();
        let b: Vec<f64> = (0..200).map(|_| (1.0 - rng.unit()).ln() + 2f64.ln()).collect();
        let values: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let claim = Claim::on_ratios(&values, Slack::default());
        let ruled = |claim| rule(&[claim], Better::Lower, 0.05, 0.05)[0];
        assert_eq!(ruled(claim).outcome, Outcome::Ahead);
        let ruling = ruled(claim.with_columns(&a, &b));
        assert_eq!((ruling.outcome, ruling.direction), (Outcome::Undecided, None));
        assert_eq!(ruling.disagreement, Some(Disagreement::Medians));
        assert_eq!(ruling.missing, Missing::Never);
    }

    #[test]
    fn noise_is_undecided_and_says_how_much_more() {
        let ruling = one(&around(0.02, 0.3), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.direction), (Outcome::Undecided, None));
        assert!(!ruling.ratio.excludes(1.0));
        let Some(more) = ruling.missing.blocks() else { panic!("{ruling:?}") };
        assert!((100..2_000).contains(&more), "{more}");
        // On the edge of the margin it takes more: the truth may lie on either side of it.
        let edge = |spread| one(&around(1.05f64.ln() - 1e-6, spread), Better::Lower, 0.05).missing;
        assert!(
            edge(0.03).blocks() > one(&around(0.03, 0.03), Better::Lower, 0.05).missing.blocks()
        );
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
        let claim = Claim::on_ratios(&data, Slack::default());
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
                assert_eq!(ruling.missing, Missing::Perhaps(6 - n as u64));
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
            let claim = |d| Claim::on_ratios(d, Slack::default());
            let claims: Vec<Claim> = data.iter().map(|d| claim(d)).collect();
            let alpha = [0.05, 0.02, 0.003][rng.below(3) as usize];
            let level = alpha / m as f64;
            for ruling in rule(&claims, Better::Lower, 0.05, alpha) {
                seen[ruling.outcome as usize] += 1;
                let ratio = ruling.ratio;
                let whole = ratio.confidence == 1.0 - level;
                let within = ratio.within(1.0 / 1.05, 1.05);
                let is_firm = ruling.is_beyond || ruling.outcome == Outcome::DeadHeat;
                assert_eq!(ruling.missing == Missing::Nothing, is_firm, "{ruling:?}");
                assert_eq!(ruling.winner.is_some(), ruling.outcome == Outcome::Ahead);
                match ruling.outcome {
                    Outcome::Ahead => {
                        assert!(ratio.excludes(1.0) && whole && !within, "{ruling:?}");
                        let is_beyond = ratio.high < 1.0 / 1.05 || ratio.low > 1.05;
                        assert_eq!(ruling.is_beyond, is_beyond);
                    }
                    Outcome::DeadHeat => {
                        assert!(within && ratio.confidence >= 1.0 - 2.0 * level, "{ruling:?}");
                    }
                    Outcome::Undecided if whole && ruling.disagreement.is_none() => {
                        assert!(!within && !ratio.excludes(1.0), "{ruling:?}");
                    }
                    Outcome::Undecided if whole => assert_eq!(ruling.missing, Missing::Never),
                    // The span of too few blocks, which is what there is and proves nothing.
                    Outcome::Undecided => assert!(ratio.confidence < 1.0 - level, "{ruling:?}"),
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
    }

    #[test]
    fn after_any_block_a_large_difference_and_a_close_tie_are_decided() {
        let any_time = |log_ratios: &[f64], margin| {
            let claim = Claim::on_ratios(log_ratios, Slack::default());
            rule_any_time(&[claim], Better::Lower, margin, 0.01, 0.05)[0]
        };
        let ahead = any_time(&around(-1.4, 0.1), 0.05).unwrap();
        assert_eq!((ahead.outcome, ahead.winner), (Outcome::Ahead, Some(Winner::A)));
        assert_eq!((ahead.ratio.confidence, ahead.missing), (0.99, Missing::Nothing));
        // The resolution is told at the level of the race, as at its looks.
        assert_eq!(ahead.resolution, one(&around(-1.4, 0.1), Better::Lower, 0.05).resolution);
        let tie = any_time(&around(0.001, 0.01), 0.05).unwrap();
        assert_eq!(tie.outcome, Outcome::DeadHeat);
        assert!(tie.ratio.within(1.0 / 1.05, 1.05));
        // Within the margin on the whole, and beyond it in single blocks; measured, and with the margin open; too few.
        assert_eq!(any_time(&around(0.001, 0.3), 0.05), None);
        assert_eq!(any_time(&around(-1.4, 0.1)[..11], 0.05), None);
        assert_eq!(any_time(&[f64::NAN; 12], 0.05), None);
        let data = around(-0.2, 0.05);
        let late = Claim::on_ratios(&data, Slack { below: 0.0, above: 0.3 });
        assert_eq!(rule_any_time(&[late], Better::Lower, 0.05, 0.01, 0.05), [None]);
    }

    #[test]
    fn json_words() {
        assert_eq!(serde_json::to_value(Outcome::DeadHeat).unwrap(), "dead_heat");
        assert_eq!(serde_json::to_value(Winner::A).unwrap(), "a");
        assert_eq!(serde_json::to_value(Missing::Never).unwrap(), "never");
        assert_eq!(serde_json::to_value(Missing::Blocks(9)).unwrap()["blocks"], 9);
    }

    #[test]
    fn differences_are_judged_as_log_ratios_are_and_in_their_own_unit() {
        // The same numbers as log-ratios, and as differences in units of a million.
        for (shift, scatter) in [(0.0, 0.01), (-0.2, 0.05), (0.06, 0.05), (0.02, 0.001)] {
            let logs = around(shift, scatter);
            let scaled: Vec<f64> = logs.iter().map(|log| log * 1e6).collect();
            let margin = 0.05f64.ln_1p() * 1e6;
            let scale = Scale::Differences { margin };
            let claim = Claim { scale, ..Claim::on_ratios(&scaled, Slack::default()) };
            let [in_units, in_ratios] = [claim, Claim::on_ratios(&logs, Slack::default())]
                .map(|claim| rule(&[claim], Better::Lower, 0.05, 0.05)[0]);
            assert_eq!(in_units.outcome, in_ratios.outcome, "{shift}");
            assert_eq!((in_units.winner, in_units.missing), (in_ratios.winner, in_ratios.missing));
            let difference = in_units.difference.unwrap();
            assert!((difference.low / 1e6 - in_ratios.ratio.low.ln()).abs() < 1e-9, "{shift}");
            let resolutions = (in_units.resolution.unwrap(), in_ratios.resolution.unwrap());
            assert!((resolutions.0 / 1e6 - resolutions.1.ln_1p()).abs() < 1e-9, "{resolutions:?}");
            assert_eq!((in_units.ratio.point, in_ratios.difference), (1.0, None));
        }
    }

    #[test]
    fn an_offset_common_to_both_contenders_changes_no_verdict_on_differences() {
        let ages = |shift: f64, offset: f64| -> Vec<f64> {
            around(shift, 0.3).into_iter().map(|noise| 31.2 + noise + offset).collect()
        };
        let verdict = |offset: f64| {
            let (a, b) = (ages(2.0, offset), ages(0.0, offset));
            let values: Vec<f64> = a.iter().rev().zip(&b).map(|(a, b)| a - b).collect();
            let scale = Scale::Differences { margin: 1.25 };
            let claim = Claim { scale, ..Claim::on_ratios(&values, Slack::default()) };
            let ruling = rule(&[claim], Better::Lower, 0.05, 0.05)[0];
            (ruling.outcome, ruling.winner, (ruling.difference.unwrap().point * 1e6).round())
        };
        assert_eq!(verdict(0.0).0, Outcome::Ahead);
        for offset in [-30.9, 7.5, 1e4] {
            assert_eq!(verdict(offset), verdict(0.0), "{offset}");
        }
    }
}
