//! E-processes: evidence that is valid after every block.
//!
//! The evidence is a bet on the next sign. Between identical contenders in random order the sign of each log-ratio is a
//! fair coin, independent of its size and of earlier ones. So a player that bets a share `λ g` of the fortune on
//! "above", with `g` in `[0, 1]` known before the sign, has after n blocks the fortune
//!
//! ```text
//! E = Π (1 + λ gᵢ sᵢ),   sᵢ = +1 above the shift, −1 below it, 0 on it
//! ```
//!
//! which is a martingale with mean 1: the probability that it ever reaches `1/a` is at most `a` (Ville 1939), at any
//! block at which the race stops, and with any number of earlier readings of the evidence. Two kinds of bets are mixed,
//! with half of the fortune each:
//!
//! * *sign*: `g = 1`;
//! * *signed rank*: `g = Rᵢ / i`, with the rank of the distance `|dᵢ − θ|` among the first `i` distances, mid-ranks for
//!   equal ones. Under symmetry about `θ` a sign says nothing of the distances, so the bet is as fair, and it is
//!   larger where the evidence is (Ramdas, Ruf, Larsson & Koolen 2020, arXiv:2009.03167, on symmetric
//!   distributions).
//!
//! Each kind uses a grid of `λ`, because the best one depends on the difference (the method of mixtures; Waudby-Smith &
//! Ramdas 2024, J. R. Stat. Soc. B 86). A mean of fair fortunes is fair.
//!
//! **Confidence sequence.** The shifts that the evidence does not reject at level `a` are an interval that holds at all
//! blocks together with probability `1 − a` (Howard, Ramdas, McAuliffe & Sekhon 2021, Ann. Statist. 49; Johari, Koomen,
//! Pekelis & Walsh 2022, Oper. Res. 70, on its use in monitored experiments). It is computed exactly: evidence for
//! "above θ" grows as θ falls. It changes only where θ passes a Walsh average `(dᵢ + dⱼ) / 2`. There a positive
//! distance overtakes a negative one, so either the positive one's rank grows or the negative one's falls; or, for `i =
//! j`, a sign turns from below to above. Each multiplies the fortune by more than 1. So the sorted averages are
//! searched by bisection.
//!
//! Several claims share the level as they do at looks (Bonferroni); e-values of dependent claims may be averaged
//! or given to the e-BH procedure (Wang & Ramdas 2022, J. R. Stat. Soc. B 84), which [`evidence`] is made for.

use super::Estimate;
use super::selection::Ranked;
use super::signed_rank::Walsh;

/// Shares of the fortune to bet, `λ`: from all of it, which finds large differences in the fewest blocks, to a small
/// part, which finds small ones in many.
const STAKES: [f64; 9] =
    [1.0, 0.75, 0.5, 1.0 / 3.0, 0.25, 1.0 / 6.0, 0.125, 1.0 / 16.0, 1.0 / 32.0];

/// Direction of a one-sided bet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The centre lies above the shift.
    Above,
    /// The centre lies below the shift.
    Below,
}

/// Evidence on one side of a shift, difference after difference.
#[derive(Debug, Clone)]
pub struct Evidence {
    shift: f64,
    side: Side,
    fortunes: Fortunes,
}

impl Evidence {
    /// Creates the evidence before the first difference.
    pub fn new(shift: f64, side: Side) -> Evidence {
        Evidence { shift, side, fortunes: Fortunes::new(0) }
    }

    /// Adds the next difference. A difference that is not a number adds nothing.
    pub fn add(&mut self, diff: f64) {
        let above = diff - self.shift;
        if !above.is_nan() {
            self.fortunes.bet(if self.side == Side::Above { above } else { -above });
        }
    }

    /// Returns its natural logarithm: 0 before the first difference.
    pub fn ln(&self) -> f64 {
        self.fortunes.log_mean()
    }
}

/// Returns the natural logarithm of the [`Evidence`] that the centre of `diffs`, in order of measurement, lies on this
/// side of `shift`. If it does not, the probability of at least `ln(1/a)` is at most `a`, over all lengths of `diffs`
/// together. `None` with values that are not finite; 0 without values.
pub fn evidence(diffs: &[f64], shift: f64, side: Side) -> Option<f64> {
    if !shift.is_finite() || !diffs.iter().all(|d| d.is_finite()) {
        return None;
    }
    let mut evidence = Evidence::new(shift, side);
    diffs.iter().for_each(|diff| evidence.add(*diff));
    Some(evidence.ln())
}

/// Returns the confidence sequence after these differences, around the Hodges–Lehmann estimate: the shifts that the
/// evidence of neither side rejects at `level / 2`. `None` with fewer than [`fewest`].
pub fn interval(diffs: &[f64], level: f64) -> Option<Estimate> {
    sequence(&Walsh::of(diffs)?, diffs, level)
}

/// Returns the [`interval`] from known averages.
pub(super) fn sequence(walsh: &Walsh, diffs: &[f64], level: f64) -> Option<Estimate> {
    if diffs.len() < fewest(level)? {
        return None;
    }
    let bound = (2.0 / level).ln();
    let averages = walsh.averages();
    let point = walsh.centre()?;
    let rejects = |shift: f64, side| evidence(diffs, shift, side).is_some_and(|e| e >= bound);
    // Between two averages the evidence is constant, so it is computed at the middle of each gap. Beyond all averages
    // the differences are on one side, and this number of them rejects that in any order.
    let average = |at: usize| averages.at(at + 1);
    let gap = |at: usize| Some(0.5 * (average(at)? + average(at + 1)?));
    let rejects = |at: usize, side| gap(at).is_some_and(|shift| rejects(shift, side));
    let low = first(averages.len() - 1, |at| !rejects(at, Side::Above));
    let high = first(averages.len() - 1, |at| rejects(at, Side::Below));
    let (low, high) = (average(low)?.min(point), average(high)?.max(point));
    Some(Estimate { point, low, high, confidence: 1.0 - level })
}

/// Returns the first number below `count` from which `holds` is true, by bisection; `count` if there is none.
fn first(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut least, mut most) = (0, count);
    while least < most {
        let middle = least + (most - least) / 2;
        if holds(middle) { most = middle } else { least = middle + 1 }
    }
    most
}

/// Returns the minimum number of differences that reject a shift at the two-sided `level` if all lie on one side of it,
/// in any order. `None` if no number does.
pub fn fewest(level: f64) -> Option<usize> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let mut fortunes = Fortunes::new(0);
    (1..=1_000).find(|n| {
        // Ranks are least if distances fall from block to block.
        fortunes.grow(1.0, 1.0 / *n as f64);
        fortunes.log_mean() >= (2.0 / level).ln() - 1e-9
    })
}

/// Fortunes of all players.
#[derive(Debug, Clone)]
struct Fortunes {
    sign: [Fortune; STAKES.len()],
    rank: [Fortune; STAKES.len()],
    /// Distances so far, ascending.
    distances: Vec<f64>,
}

/// Fortune of a player: a product, with the logarithm of factors that were moved out to keep it in range.
#[derive(Debug, Clone, Copy)]
struct Fortune {
    product: f64,
    log: f64,
}

impl Fortunes {
    fn new(room: usize) -> Fortunes {
        let one = Fortune { product: 1.0, log: 0.0 };
        let each = [one; STAKES.len()];
        Fortunes { sign: each, rank: each, distances: Vec::with_capacity(room) }
    }

    /// Plays one round: the bet on the sign of `d`, with its distance known before.
    fn bet(&mut self, d: f64) {
        let distance = d.abs();
        let below = self.distances.partition_point(|other| *other < distance);
        let up_to = self.distances.partition_point(|other| *other <= distance);
        self.distances.insert(up_to, distance);
        // The mean of the first and the last of its tied ranks.
        let rank = 0.5 * (below + 1 + up_to + 1) as f64;
        if d != 0.0 {
            self.grow(d.signum(), d.signum() * rank / self.distances.len() as f64);
        }
    }

    fn grow(&mut self, sign: f64, signed_rank: f64) {
        for (stake, fortune) in STAKES.iter().zip(&mut self.sign) {
            fortune.grow(1.0 + stake * sign);
        }
        for (stake, fortune) in STAKES.iter().zip(&mut self.rank) {
            fortune.grow(1.0 + stake * signed_rank);
        }
    }

    /// Returns the logarithm of the mean fortune.
    fn log_mean(&self) -> f64 {
        let logs = || self.sign.iter().chain(&self.rank).map(Fortune::ln);
        let most = logs().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logs().map(|log| (log - most).exp()).sum();
        most + (sum / (2 * STAKES.len()) as f64).ln()
    }
}

impl Fortune {
    fn grow(&mut self, factor: f64) {
        self.product *= factor;
        if self.product > 1e100 || self.product < 1e-100 {
            self.log += self.product.ln();
            self.product = 1.0;
        }
    }

    fn ln(&self) -> f64 {
        self.log + self.product.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    fn series(rng: &mut SplitMix64, n: usize, centre: f64) -> Vec<f64> {
        (0..n).map(|_| centre + rng.normal()).collect()
    }

    /// Whatever the distances and their order, the mean over all patterns of signs is 1: that is all there is to
    /// validity.
    #[test]
    fn evidence_is_fair() {
        for distances in [[0.3, 2.0, 1.0, 5.0, 0.1, 1.0, 0.7, 9.0, 0.2], [1.0; 9]] {
            let mut sum = 0.0;
            for pattern in 0..512 {
                let sign = |i: usize| if (pattern >> i) & 1 == 1 { 1.0 } else { -1.0 };
                let d: Vec<f64> = distances.iter().enumerate().map(|(i, d)| d * sign(i)).collect();
                sum += evidence(&d, 0.0, Side::Above).unwrap().exp();
            }
            assert!((sum / 512.0 - 1.0).abs() < 1e-12, "{sum}");
        }
    }

    /// Looked at after each of a thousand blocks, at most one race in a hundred of those without a difference is ever
    /// rejected at 1 %.
    #[test]
    fn looking_after_every_block_spends_no_more_than_the_level() {
        let bound = (2.0f64 / 0.01).ln();
        let mut wrong = 0;
        for race in 0..1_000 {
            let mut rng = SplitMix64::new(race);
            let mut sides = [Side::Above, Side::Below].map(|side| Evidence::new(0.0, side));
            let ever = (0..1_000).any(|_| {
                // Two kinds of trials, and heavy tails.
                let d = if rng.unit() < 0.2 { 8.0 * rng.normal() } else { rng.normal() };
                sides.iter_mut().for_each(|side| side.add(d));
                sides.iter().any(|side| side.ln() >= bound)
            });
            wrong += u32::from(ever);
        }
        println!("{wrong} of 1000 races without a difference rejected at 1 %");
        assert!(wrong <= 18, "{wrong}");
    }

    /// The interval is the evidence turned round, and evidence falls with the shift.
    #[test]
    fn interval_and_evidence_agree() {
        let mut rng = SplitMix64::new(5);
        for n in [12, 31, 75] {
            // Every other sample has ties.
            for grid in [1e-9, 0.25] {
                let d: Vec<f64> =
                    series(&mut rng, n, 0.4).iter().map(|d| (d / grid).round() * grid).collect();
                let e = interval(&d, 0.05).unwrap();
                let mut last = f64::INFINITY;
                for step in -90..90 {
                    let shift = f64::from(step) / 20.0 + 1e-5;
                    let above = evidence(&d, shift, Side::Above).unwrap();
                    let below = evidence(&d, shift, Side::Below).unwrap();
                    assert!(above <= last, "{n} {shift}");
                    last = above;
                    let rejected = above.max(below) >= 40f64.ln();
                    assert_eq!(e.excludes(shift), rejected, "{n} {shift} {e:?}");
                }
                assert!(e.low <= e.point && e.point <= e.high && e.confidence == 0.95);
            }
        }
    }

    #[test]
    fn as_few_blocks_as_can_decide_do() {
        for level in [0.05, 0.01, 0.001] {
            let fewest = fewest(level).unwrap();
            let d: Vec<f64> = (1..=fewest).rev().map(|i| i as f64).collect();
            assert!(interval(&d, level).unwrap().excludes(0.0), "{level}");
            assert!(interval(&d, level).unwrap().excludes(fewest as f64 + 1.0), "{level}");
            assert_eq!(interval(&d[1..], level), None, "{level}");
            println!("at {level}: {fewest} blocks");
        }
        assert_eq!(fewest(0.0), None);
        assert_eq!(fewest(f64::NAN), None);
    }

    #[test]
    fn long_series_stay_in_range() {
        let mut above = Evidence::new(0.0, Side::Above);
        (0..100_000).for_each(|_| above.add(1.0));
        assert!((above.ln() / (100_000.0 * 2f64.ln()) - 1.0).abs() < 1e-3, "{}", above.ln());
        (0..5).for_each(|_| above.add(-1.0));
        assert!(above.ln().is_finite());
        above.add(f64::NAN);
        assert!(above.ln().is_finite());
        assert_eq!(evidence(&[], 0.0, Side::Below), Some(0.0));
        assert_eq!(evidence(&[f64::INFINITY], 0.0, Side::Below), None);
        assert_eq!(interval(&[], 0.05), None);
    }
}
