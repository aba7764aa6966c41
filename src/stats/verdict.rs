//! From log-ratios to `ahead`, `dead heat` or `undecided`.
//!
//! Two questions are asked of every claim, each by exact signed-rank tests, each with Holm's
//! procedure over all claims of the race at the level of this look:
//!
//! * *Is there a difference?* A two-sided test of a log-ratio of zero. `ahead` needs its
//!   rejection and an estimate beyond the margin.
//! * *Is it within the margin?* Two one-sided tests (TOST: Schuirmann 1987, J. Pharmacokin.
//!   Biopharm. 15) against `±ln(1 + margin)`. `dead heat` needs both; a difference that is
//!   measurable and yet within the margin is a dead heat with `detectable_but_small`.
//!
//! Neither: `undecided`, with an estimate of the blocks that are missing. The chance of any false
//! `ahead` in a race is at most the level, and so is that of any false `dead heat`.
//!
//! # Which level the interval has
//!
//! An interval is the test turned round, so the one shown is at the level at which the claim was
//! decided: `1 - a` for `ahead`, `1 - 2a` for `dead heat` (two one-sided tests at `a` are an
//! interval at `1 - 2a` inside the margin), the wider of the two for `undecided`, where `a` is
//! the claim's step in Holm's procedure at this look. That is usually more than the 95 % asked
//! for, because looks and claims share the error: over all of them the statement holds at 95 %
//! (repeated confidence intervals: Jennison & Turnbull 1989, J. R. Stat. Soc. B 51), where a plain
//! 95 % interval after an early stop would not. Where the level asked for is the higher one and
//! its interval says the same, that is shown. Where blocks are too few for either, the interval
//! is the span of the blocks, with the confidence that it has. `ratio.confidence` always tells.

use super::Estimate;
use super::{holm, normal, quantile, signed_rank};
use crate::figures::Better;
use serde::{Deserialize, Serialize};
use signed_rank::Tail;

/// What a race says about two contenders and one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// One is better, by more than the margin as far as the estimate goes.
    Ahead,
    /// Equivalent within the margin.
    DeadHeat,
    /// Not enough blocks to say either.
    Undecided,
}

/// The contender that is ahead: the numerator or the denominator of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Winner {
    /// The numerator.
    A,
    /// The denominator.
    B,
}

/// One comparison of contenders a and b.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// `ln(a / b)`, one per block in which both trials are valid. Must be finite: what has no
    /// ratio (a trial without a result) has to be excluded by the gate before.
    pub log_ratios: &'a [f64],
}

/// The answer to one [`Claim`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// What the race says.
    pub outcome: Outcome,
    /// Set if and only if the outcome is `Ahead`.
    pub winner: Option<Winner>,
    /// a over b. With no usable block it is 1 with confidence 0.
    pub ratio: Estimate,
    /// p-value of "no difference", adjusted by Holm: compare it with the level of the look.
    pub p_difference: f64,
    /// p-value of "at least the margin apart", adjusted by Holm.
    pub p_equivalence: f64,
    /// Blocks that are missing for a decision, about; `None` if decided, or if no reasonable
    /// number would do because the estimate sits on the margin.
    pub more_blocks: Option<u64>,
    /// A dead heat whose difference was nevertheless measured: real, but below the margin.
    pub detectable_but_small: bool,
}

/// Rules on all claims of a race together.
///
/// `margin` is a ratio (0.05 for 5 %), `alpha_now` the family-wise level that this look may
/// spend, `confidence_shown` the level wished for in [`Ruling::ratio`].
pub fn rule(
    claims: &[Claim],
    better: Better,
    margin: f64,
    alpha_now: f64,
    confidence_shown: f64,
) -> Vec<Ruling> {
    let limit = margin.max(0.0).ln_1p();
    let difference: Vec<f64> = claims.iter().map(|claim| difference_p(claim.log_ratios)).collect();
    let equivalence: Vec<f64> =
        claims.iter().map(|claim| equivalence_p(claim.log_ratios, limit)).collect();
    let adjusted = [holm::adjusted(&difference), holm::adjusted(&equivalence)];
    let levels = [holm::levels(&difference, alpha_now), holm::levels(&equivalence, alpha_now)];
    let court = Court { better, limit, confidence_shown };
    (0..claims.len())
        .map(|i| {
            let evidence = Evidence {
                diffs: claims[i].log_ratios,
                differs: difference[i] <= levels[0][i],
                difference_level: levels[0][i],
                equivalent: equivalence[i] <= levels[1][i],
                equivalence_level: levels[1][i],
            };
            let (outcome, interval) = court.decide(&evidence);
            Ruling {
                outcome,
                winner: (outcome == Outcome::Ahead).then(|| court.winner(interval.point)),
                ratio: interval.map(f64::exp),
                p_difference: adjusted[0][i],
                p_equivalence: adjusted[1][i],
                more_blocks: (outcome == Outcome::Undecided)
                    .then(|| court.more_blocks(&evidence, interval.point))
                    .flatten(),
                detectable_but_small: outcome == Outcome::DeadHeat && evidence.differs,
            }
        })
        .collect()
}

/// The tests of one claim and the levels they were held to.
struct Evidence<'a> {
    diffs: &'a [f64],
    differs: bool,
    difference_level: f64,
    equivalent: bool,
    equivalence_level: f64,
}

/// What is the same for all claims. Logarithms throughout.
struct Court {
    better: Better,
    limit: f64,
    confidence_shown: f64,
}

impl Court {
    fn decide(&self, evidence: &Evidence) -> (Outcome, Estimate) {
        self.ahead(evidence)
            .map(|interval| (Outcome::Ahead, interval))
            .or_else(|| self.dead_heat(evidence).map(|interval| (Outcome::DeadHeat, interval)))
            .unwrap_or_else(|| (Outcome::Undecided, self.undecided(evidence)))
    }

    /// The interval has to agree with the test. It does by construction, except when blocks are
    /// tied to the last digit; then the more cautious of the two has its way.
    fn ahead(&self, evidence: &Evidence) -> Option<Estimate> {
        let interval = evidence.differs.then(|| {
            self.shown(evidence.diffs, 1.0 - evidence.difference_level, |interval| {
                interval.excludes(0.0)
            })
        })??;
        (interval.point.abs() > self.limit).then_some(interval)
    }

    fn dead_heat(&self, evidence: &Evidence) -> Option<Estimate> {
        if !evidence.equivalent {
            return None;
        }
        let confidence = 1.0 - 2.0 * evidence.equivalence_level;
        self.shown(evidence.diffs, confidence, |interval| interval.within(-self.limit, self.limit))
    }

    /// Wide enough that it neither excludes zero nor fits the margin, as long as it exists.
    fn undecided(&self, evidence: &Evidence) -> Estimate {
        let decided_at = 1.0 - evidence.difference_level.min(2.0 * evidence.equivalence_level);
        signed_rank::interval(evidence.diffs, decided_at.max(self.confidence_shown))
            .or_else(|| signed_rank::widest_interval(evidence.diffs))
            .unwrap_or(Estimate { point: 0.0, low: 0.0, high: 0.0, confidence: 0.0 })
    }

    /// The interval at the level shown or at the level of the decision, whichever is higher and
    /// still says what the decision says.
    fn shown(
        &self,
        diffs: &[f64],
        decided_at: f64,
        agrees: impl Fn(&Estimate) -> bool,
    ) -> Option<Estimate> {
        let at = |confidence| signed_rank::interval(diffs, confidence).filter(&agrees);
        let higher =
            if self.confidence_shown > decided_at { at(self.confidence_shown) } else { None };
        higher.or_else(|| at(decided_at))
    }

    fn winner(&self, log_ratio: f64) -> Winner {
        match (self.better, log_ratio < 0.0) {
            (Better::Lower, true) | (Better::Higher, false) => Winner::A,
            (Better::Lower, false) | (Better::Higher, true) => Winner::B,
        }
    }

    /// Blocks that would decide with 80 % power if estimate and scatter stay what they are, by the
    /// normal formula `n = ((z_level + z_power) sd / distance)^2 / efficiency`, less those done.
    ///
    /// The distance is that from zero for an estimate beyond the margin, that from the nearer edge
    /// of the margin for one within.
    fn more_blocks(&self, evidence: &Evidence, centre: f64) -> Option<u64> {
        let done = evidence.diffs.len() as f64;
        let possible = signed_rank::fewest(evidence.difference_level)? as f64;
        let (distance, tail) = if centre.abs() > self.limit {
            (centre.abs(), 0.5 * evidence.difference_level)
        } else {
            (self.limit - centre.abs(), evidence.equivalence_level)
        };
        // Without a scatter, as before the second block, only the fewest possible is known.
        let needed = deviation(evidence.diffs).filter(|deviation| *deviation > 0.0).map_or(
            0.0,
            |deviation| {
                let z = normal::upper_quantile(tail) + normal::upper_quantile(1.0 - POWER);
                (z * deviation / distance).powi(2) / EFFICIENCY
            },
        );
        let more = (needed.max(possible) - done).ceil().max(1.0);
        (more <= REASONABLE_BLOCKS).then_some(more as u64)
    }
}

/// Chance that the blocks asked for will decide.
const POWER: f64 = 0.8;

/// Of the signed-rank test against the t-test on normal data: 3/π (Hodges & Lehmann 1956).
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// More than this is not advice.
const REASONABLE_BLOCKS: f64 = 100_000.0;

fn difference_p(diffs: &[f64]) -> f64 {
    signed_rank::p_value(diffs, 0.0, Tail::Two).unwrap_or(1.0)
}

/// The larger of the two one-sided p-values: both must reject.
fn equivalence_p(diffs: &[f64], limit: f64) -> f64 {
    let above_lower = signed_rank::p_value(diffs, -limit, Tail::Greater);
    let below_upper = signed_rank::p_value(diffs, limit, Tail::Less);
    above_lower.zip(below_upper).map_or(1.0, |(lower, upper)| lower.max(upper))
}

/// Robust standard deviation of the log-ratios; the plain one where more than half are equal.
fn deviation(diffs: &[f64]) -> Option<f64> {
    let robust = quantile::mad(diffs)? * quantile::MAD_TO_SD;
    if robust > 0.0 {
        return Some(robust);
    }
    let n = diffs.len() as f64;
    let mean = diffs.iter().sum::<f64>() / n;
    Some((diffs.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(log_ratios: &[f64], better: Better, margin: f64) -> Ruling {
        rule(&[Claim { log_ratios }], better, margin, 0.05, 0.95)[0]
    }

    /// Twelve distinct values, evenly spread by `spread` on both sides of `centre`.
    fn around(centre: f64, spread: f64) -> Vec<f64> {
        (0..12).map(|i| centre + spread * (f64::from(i) - 5.5) / 5.5).collect()
    }

    #[test]
    fn clear_lead() {
        let ruling = one(&around(-0.2, 0.05), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::Ahead, Some(Winner::A)));
        assert!((ruling.ratio.point - (-0.2f64).exp()).abs() < 1e-9 && ruling.ratio.high < 1.0);
        assert_eq!((ruling.more_blocks, ruling.detectable_but_small), (None, false));
        let ruling = one(&around(-0.2, 0.05), Better::Higher, 0.05);
        assert_eq!(ruling.winner, Some(Winner::B));
    }

    #[test]
    fn tie() {
        let ruling = one(&around(0.001, 0.03), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::DeadHeat, None));
        assert!(ruling.ratio.within(1.0 / 1.05, 1.05) && !ruling.detectable_but_small);
        assert_eq!(ruling.ratio.confidence, 0.95);
    }

    #[test]
    fn small_but_real() {
        let ruling = one(&around(0.02, 0.015), Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.winner), (Outcome::DeadHeat, None));
        assert!(ruling.detectable_but_small && ruling.p_difference < 0.001);
    }

    #[test]
    fn noise_is_undecided_and_says_how_much_more() {
        let ruling = one(&around(0.02, 0.3), Better::Lower, 0.05);
        assert_eq!(ruling.outcome, Outcome::Undecided);
        assert!(!ruling.ratio.excludes(1.0));
        assert!(ruling.more_blocks.is_some_and(|more| more > 100), "{ruling:?}");
        // On the edge of the margin no number of blocks would tell.
        let edge = one(&around(1.05f64.ln() - 1e-6, 0.3), Better::Lower, 0.05);
        assert_eq!((edge.outcome, edge.more_blocks), (Outcome::Undecided, None));
    }

    #[test]
    fn without_a_margin_there_is_no_dead_heat() {
        assert_eq!(one(&around(0.001, 0.03), Better::Lower, 0.0).outcome, Outcome::Undecided);
        assert_eq!(one(&around(0.02, 0.015), Better::Lower, 0.0).outcome, Outcome::Ahead);
        assert_eq!(one(&[0.0; 12], Better::Lower, 0.0).outcome, Outcome::Undecided);
    }

    #[test]
    fn identical_results_are_a_tie() {
        let ruling = one(&[0.0; 12], Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.ratio.point), (Outcome::DeadHeat, 1.0));
    }

    #[test]
    fn too_few_blocks() {
        for n in 0..5 {
            let ruling = one(&around(0.5, 0.01)[..n], Better::Lower, 0.05);
            assert_eq!(ruling.outcome, Outcome::Undecided);
            assert_eq!(ruling.more_blocks, Some(6 - n as u64));
            let range = [ruling.ratio.low, ruling.ratio.point, ruling.ratio.high];
            assert!(range.is_sorted() && range.iter().all(|v| v.is_finite()), "{ruling:?}");
            assert!(ruling.ratio.confidence < 0.95);
        }
    }

    #[test]
    fn values_without_a_ratio_decide_nothing() {
        let ruling = one(&[f64::INFINITY; 12], Better::Lower, 0.05);
        assert_eq!((ruling.outcome, ruling.ratio.confidence), (Outcome::Undecided, 0.0));
        assert!(rule(&[], Better::Lower, 0.05, 0.05, 0.95).is_empty());
    }

    /// Whatever the noise, number of claims and level: the picture and the word never disagree.
    #[test]
    fn interval_agrees_with_outcome() {
        let mut rng = crate::rng::SplitMix64::new(9);
        let mut seen = [0; 3];
        for round in 0..3_000 {
            let (m, n) = (1 + rng.below(6) as usize, 2 + rng.below(20) as usize);
            // Every third race is measured with a coarse clock, for ties.
            let grid = if round % 3 == 0 { 0.01 } else { 1e-9 };
            let data: Vec<Vec<f64>> = (0..m)
                .map(|_| {
                    let (centre, sd) = (0.1 * rng.normal(), 0.1 * rng.unit());
                    (0..n).map(|_| ((centre + sd * rng.normal()) / grid).round() * grid).collect()
                })
                .collect();
            let claims: Vec<Claim> = data.iter().map(|d| Claim { log_ratios: d }).collect();
            let alpha = [0.05, 0.02, 0.003][rng.below(3) as usize];
            for ruling in rule(&claims, Better::Lower, 0.05, alpha, 0.95) {
                seen[ruling.outcome as usize] += 1;
                // Not the span of too few blocks, which is what there is and proves nothing.
                let full = ruling.ratio.confidence < 1.0 - signed_rank::smallest_p(n);
                let ratio = ruling.ratio;
                match ruling.outcome {
                    Outcome::Ahead => assert!(ratio.excludes(1.0) && full, "{ruling:?}"),
                    Outcome::DeadHeat => assert!(ratio.within(1.0 / 1.05, 1.05), "{ruling:?}"),
                    Outcome::Undecided => {
                        let beyond = ratio.point.ln().abs() > 1.05f64.ln();
                        assert!(!(full && beyond && ratio.excludes(1.0)), "{ruling:?}");
                        assert!(
                            !(full && ratio.within(1.0 / 1.05, 1.05)) || grid > 1e-3,
                            "{ruling:?}"
                        );
                    }
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
    }

    #[test]
    fn json_words() {
        let ruling = one(&around(-0.2, 0.05), Better::Lower, 0.05);
        let json = serde_json::to_value(ruling).unwrap();
        assert_eq!((json["outcome"].as_str(), json["winner"].as_str()), (Some("ahead"), Some("a")));
        assert_eq!(serde_json::to_value(Outcome::DeadHeat).unwrap(), "dead_heat");
        assert_eq!(serde_json::from_value::<Ruling>(json).unwrap(), ruling);
    }
}
