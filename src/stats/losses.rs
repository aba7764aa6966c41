//! How many packets a loss model takes. Not a statistic of a race, in which no packet is a
//! replicate: it holds an emulator to the model that it claims to follow.

use std::ops::RangeInclusive;

use super::normal::upper_quantile;

/// A term of a distribution that is this much smaller than the greatest one changes no digit.
const NOTHING: f64 = 1e-25;

/// How many of `n` packets are lost where each is with probability `p` on its own: fewer, and more,
/// each with a chance of at most half of `error`. Exact, from the binomial distribution.
///
/// `None` where `p` is no probability or `error` none above zero.
pub fn independent(n: u64, p: f64, error: f64) -> Option<RangeInclusive<u64>> {
    if !(0.0..=1.0).contains(&p) || !(error > 0.0 && error < 1.0) {
        return None;
    }
    if p == 0.0 || p == 1.0 || n == 0 {
        let all = if p == 1.0 { n } else { 0 };
        return Some(all..=all);
    }
    // Terms relative to the greatest, outwards from it; their sum makes them probabilities.
    let mode = (((n + 1) as f64) * p).floor().min(n as f64) as u64;
    let odds = p / (1.0 - p);
    let up = |k: u64| (n - k) as f64 / (k + 1) as f64 * odds;
    let (mut below, mut above) = (Vec::new(), Vec::new());
    let (mut k, mut term) = (mode, 1.0);
    while k > 0 && term > NOTHING {
        k -= 1;
        term /= up(k);
        below.push(term);
    }
    (k, term) = (mode, 1.0);
    while k < n && term > NOTHING {
        term *= up(k);
        k += 1;
        above.push(term);
    }
    // Smallest first, so that nothing is lost in the sum.
    let sum = |terms: &[f64]| terms.iter().rev().sum::<f64>();
    let tail = error / 2.0 * (sum(&below) + sum(&above) + 1.0);
    Some(mode - within(&below, tail)..=mode + within(&above, tail))
}

/// How many of the terms, which get smaller, must be kept so that those after them are at most `tail`
/// in sum.
fn within(terms: &[f64], tail: f64) -> u64 {
    let mut beyond = 0.0;
    let left_out = terms
        .iter()
        .rev()
        .take_while(|term| {
            beyond += *term;
            beyond <= tail
        })
        .count();
    (terms.len() - left_out) as u64
}

/// A two-state Markov chain that takes a step with each packet, and loses packets with a probability
/// of its own in each state (Gilbert 1960; Elliott 1963).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chain {
    /// From good to bad, per packet.
    pub p: f64,
    /// From bad to good, per packet.
    pub r: f64,
    /// Loss in the bad state.
    pub bad: f64,
    /// Loss in the good state.
    pub good: f64,
}

impl Chain {
    /// The share of packets lost in the long run, from the good state.
    pub fn mean(&self) -> f64 {
        let bad = self.share_of_bad();
        bad * self.bad + (1.0 - bad) * self.good
    }

    fn share_of_bad(&self) -> f64 {
        if self.p == 0.0 { 0.0 } else { self.p / (self.p + self.r) }
    }

    /// As [`independent`]: mean and variance are those of the chain, and the number is taken as
    /// normal, which it nearly is after many bursts; a chain that starts in the good state loses less
    /// at first, and the range is wider by that.
    pub fn losses(&self, n: u64, error: f64) -> Option<RangeInclusive<u64>> {
        let shares = [self.p, self.r, self.bad, self.good];
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || !(error > 0.0 && error < 1.0)
        {
            return None;
        }
        let (mean, step) = (self.mean(), self.p + self.r);
        // What one packet's state says about the next one's; a chain that never leaves a state says
        // nothing about a number of packets.
        let memory = 1.0 - step;
        if self.p == 0.0 {
            return independent(n, self.good, error);
        }
        if step <= f64::EPSILON || memory <= -1.0 {
            return None;
        }
        let bad = self.share_of_bad();
        let apart = self.bad - self.good;
        let lasting = bad * (1.0 - bad) * apart * apart * memory / (1.0 - memory);
        let variance = n as f64 * (mean * (1.0 - mean) + 2.0 * lasting);
        let reach = upper_quantile(error / 2.0) * variance.max(0.0).sqrt() + 0.5;
        let first = (bad * apart / step).abs();
        let middle = n as f64 * mean;
        let (low, high) = (middle - reach - first, middle + reach + first);
        Some(low.max(0.0).floor() as u64..=(high.ceil().max(0.0) as u64).min(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_question_has_no_answer() {
        assert_eq!(independent(10, -0.1, 0.01), None);
        assert_eq!(independent(10, f64::NAN, 0.01), None);
        assert_eq!(independent(10, 0.1, 0.0), None);
        let chain = Chain { p: 1.0, r: 1.0, bad: 1.0, good: 0.0 };
        assert_eq!(chain.losses(100, 0.01), None);
        assert_eq!(Chain { p: 2.0, ..chain }.losses(100, 0.01), None);
    }

    #[test]
    fn the_ends_are_certain() {
        assert_eq!(independent(10, 0.0, 0.01), Some(0..=0));
        assert_eq!(independent(10, 1.0, 0.01), Some(10..=10));
        assert_eq!(independent(0, 0.3, 0.01), Some(0..=0));
        let never = Chain { p: 0.0, r: 0.5, bad: 1.0, good: 0.0 };
        assert_eq!(never.losses(1_000, 0.01), Some(0..=0));
    }

    /// From sums over the whole distribution, in Python.
    #[test]
    fn independent_losses_are_exact() {
        for (n, p, error, want) in [
            (10_000, 0.01, 0.01, 75..=127),
            (1_000_000, 0.001, 0.01, 920..=1_082),
            (20, 0.5, 0.05, 6..=14),
            (100, 0.0001, 0.01, 0..=1),
            (100_000, 0.3, 1e-4, 29_437..=30_565),
        ] {
            assert_eq!(independent(n, p, error), Some(want));
        }
    }

    /// Beside the chain's own distribution, step by step, in Python: 346 to 673, and 111 to 233.
    #[test]
    fn losses_of_a_chain_are_near_its_distribution() {
        for (p, r, bad, good, low, high) in
            [(0.02, 0.18, 1.0, 0.0, 346, 673), (0.01, 0.2, 0.5, 0.01, 111, 233)]
        {
            let range = Chain { p, r, bad, good }.losses(5_000, 0.01).unwrap();
            assert!(range.start().abs_diff(low) <= 12, "{range:?}");
            assert!(range.end().abs_diff(high) <= 12, "{range:?}");
        }
        let chain = Chain { p: 0.02, r: 0.18, bad: 1.0, good: 0.0 };
        assert!((chain.mean() - 0.1).abs() < 1e-12);
    }
}
