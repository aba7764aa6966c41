//! Expected behaviour of a loss model, for a comparison with its losses: the share of losses, their mean burst, and
//! the interval that contains their number.

use std::f64::consts::PI;
use std::ops::{Add, Mul, RangeInclusive};

use super::shape::{normal, offset};
use crate::network::{GilbertElliott, Impairments, Jitter, Loss, LossPer, Rate, Shape};
use crate::trace::Content;

/// Largest number of distinct loss counts in the exact distribution; where more are likely, the interval is normal.
const MOST_POINTS: u64 = 1 << 18;

/// Returns the mean share of packets that a model loses, 0 to 1; of time, for outages. `None` for a list.
pub fn share(loss: &Loss) -> Option<f64> {
    match loss {
        Loss::List(_) => None,
        Loss::Every(step) => Some(1.0 / *step as f64),
        Loss::Outages(outages) => {
            let (good, bad) = (outages.good.0 as f64, outages.bad.0 as f64);
            Some(bad / (good + bad))
        }
        Loss::None | Loss::Bernoulli(_) | Loss::GilbertElliott(_) => chain(loss).map(|c| c.share()),
    }
}

/// Returns the least offset of a delay, in nanoseconds; `None` where it has no bound.
pub fn least_offset(jitter: &Jitter) -> Option<i64> {
    match jitter.shape {
        Shape::Normal => None,
        // The extreme of the long tail is at the other end.
        Shape::Pareto => Some(offset(jitter, u64::MAX)),
        Shape::Uniform | Shape::Table(_) => Some(offset(jitter, 0)),
    }
}

/// Returns the mean number of consecutive packets that are lost together: the share of losses over the share of
/// packets that are lost behind a surviving one. `None` where packets do not decide it.
pub fn mean_burst(loss: &Loss) -> Option<f64> {
    let chain = chain(loss)?;
    let begins = chain.share() - chain.both();
    (begins > 0.0).then(|| chain.share() / begins)
}

/// Returns the interval that contains the number of losses among this many packets with at least this probability,
/// at most half of the rest on each side. `None` where time decides (outages, losses of a trace).
///
/// The distribution of the number is exact, for Bernoulli and Gilbert–Elliott alike: its generating function is a
/// power of a 2 × 2 matrix, and a discrete Fourier transform inverts it (good to about 1e-12). From about 10 000
/// standard deviations' worth of numbers on, 2^18 in all, the normal distribution with the chain's exact variance
/// replaces it.
pub fn losses(model: &Impairments, packets: u64, confidence: f64) -> Option<RangeInclusive<u64>> {
    // The sender decides how many packets share a decision.
    if model.loss_per == LossPer::Super {
        return None;
    }
    if let Rate::Trace(trace) = &model.rate
        && let Content::Steps(steps) = &trace.content
        && steps.iter().any(|step| step.loss.is_some())
    {
        return None;
    }
    if let Loss::List(numbers) = &model.loss {
        let mut listed: Vec<u64> =
            numbers.iter().copied().filter(|n| (1..=packets).contains(n)).collect();
        listed.sort_unstable();
        listed.dedup();
        let count = listed.len() as u64;
        return Some(count..=count);
    }
    if let Loss::Every(step) = model.loss {
        let count = packets / step.max(1);
        return Some(count..=count);
    }
    let tail = (1.0 - confidence).clamp(1e-9, 1.0) / 2.0;
    Some(chain(&model.loss)?.interval(packets, tail))
}

/// Loss model as a chain of two states, good and bad.
#[derive(Debug, Clone, Copy)]
struct ChainModel {
    /// Probability of loss in each state.
    loss: [f64; 2],
    /// Probability of a change to the other state, by state.
    change: [f64; 2],
    /// Probability of each state at any time.
    found: [f64; 2],
}

fn chain(loss: &Loss) -> Option<ChainModel> {
    let GilbertElliott { p, r, bad, good } = match loss {
        Loss::None => GilbertElliott { p: 0.0, r: 1.0, bad: 0.0, good: 0.0 },
        Loss::Bernoulli(p) => GilbertElliott { p: 0.0, r: 1.0, bad: 0.0, good: *p },
        Loss::GilbertElliott(chain) => *chain,
        Loss::Outages(_) | Loss::List(_) | Loss::Every(_) => return None,
    };
    let in_bad = if p > 0.0 { p / (p + r) } else { 0.0 };
    Some(ChainModel { loss: [good, bad], change: [p, r], found: [1.0 - in_bad, in_bad] })
}

impl ChainModel {
    fn share(&self) -> f64 {
        self.found[0] * self.loss[0] + self.found[1] * self.loss[1]
    }

    /// Returns the probability that a packet and the next one are lost.
    fn both(&self) -> f64 {
        let next =
            |i: usize| (1.0 - self.change[i]) * self.loss[i] + self.change[i] * self.loss[1 - i];
        (0..2).map(|i| self.found[i] * self.loss[i] * next(i)).sum()
    }

    /// Returns the variance of the number of losses among `n` packets: the covariance of two packets `k` apart is
    /// the covariance of their states, which falls with the `k`-th power of `1 - p - r`.
    fn variance(&self, n: f64) -> f64 {
        let (share, apart) = (self.share(), self.loss[1] - self.loss[0]);
        let states = self.found[0] * self.found[1] * apart * apart;
        let keeps = 1.0 - self.change[0] - self.change[1];
        // The sum of (n - k) keeps^k over k from 1 to n - 1.
        let gone = 1.0 - keeps;
        let sum = if gone < 1e-12 {
            n * (n - 1.0) / 2.0
        } else {
            keeps * (n * gone - 1.0 + keeps.powf(n)) / (gone * gone)
        };
        let sum = if states > 0.0 { sum } else { 0.0 };
        (n * share * (1.0 - share) + 2.0 * states * sum).max(0.0)
    }

    fn interval(&self, packets: u64, tail: f64) -> RangeInclusive<u64> {
        let n = packets as f64;
        let (mean, deviation) = (n * self.share(), self.variance(n).sqrt());
        // Far less than the tail lies beyond this, for bursts too, whose lengths fall off by `r`.
        let rest = 40.0 / self.change[1].max(1e-9) + 64.0;
        let wanted = (24.0 * deviation + 2.0 * rest).min(1e15) as u64;
        let points = wanted.min(packets.saturating_add(1)).next_power_of_two().max(2);
        if points > MOST_POINTS {
            let z = -normal(tail);
            let low = (mean - z * deviation).floor().max(0.0) as u64;
            return low..=((mean + z * deviation).ceil() as u64).min(packets);
        }
        let base =
            (mean as u64).saturating_sub(points / 2).min((packets + 1).saturating_sub(points));
        let chances = self.distribution(packets, points as usize);
        let at = |k: u64| chances[(k % points) as usize];
        let (mut low, mut high, mut below) = (None, packets, 0.0);
        for k in base..(base + points).min(packets.saturating_add(1)) {
            below += at(k);
            if low.is_none() && below > tail {
                low = Some(k);
            }
            if below >= 1.0 - tail {
                high = k;
                break;
            }
        }
        low.unwrap_or(base)..=high
    }

    /// Returns the probability of each number of losses, modulo `points`, a power of two.
    fn distribution(&self, packets: u64, points: usize) -> Vec<f64> {
        let mut values = vec![Complex(0.0, 0.0); points];
        for j in 0..=points / 2 {
            let value = self.generating(packets, Complex::unit(j as f64 / points as f64));
            values[j] = value;
            values[(points - j) % points] = Complex(value.0, -value.1);
        }
        transform(&mut values);
        values.iter().map(|value| (value.0 / points as f64).max(0.0)).collect()
    }

    /// Returns the expectation of `z` to the power of the number of losses: the state probabilities at the start,
    /// times the n-th power of the matrix of losses and changes, summed up.
    fn generating(&self, packets: u64, z: Complex) -> Complex {
        let factor = |i: usize| Complex(1.0 - self.loss[i], 0.0) + z * Complex(self.loss[i], 0.0);
        let row = |i: usize| {
            let (stay, go) = (1.0 - self.change[i], self.change[i]);
            let mut row = [factor(i) * Complex(stay, 0.0); 2];
            row[1 - i] = factor(i) * Complex(go, 0.0);
            row
        };
        let mut square = [row(0), row(1)];
        let mut sums = [Complex(1.0, 0.0); 2];
        let mut left = packets;
        while left > 0 {
            if left & 1 == 1 {
                sums = [0, 1].map(|i| square[i][0] * sums[0] + square[i][1] * sums[1]);
            }
            square = times(&square, &square);
            left >>= 1;
        }
        sums[0] * Complex(self.found[0], 0.0) + sums[1] * Complex(self.found[1], 0.0)
    }
}

fn times(a: &[[Complex; 2]; 2], b: &[[Complex; 2]; 2]) -> [[Complex; 2]; 2] {
    [0, 1].map(|i| [0, 1].map(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j]))
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Complex(f64, f64);

impl Complex {
    /// Returns the point on the unit circle after this part of a turn.
    fn unit(turn: f64) -> Complex {
        let (sin, cos) = (2.0 * PI * turn).sin_cos();
        Complex(cos, sin)
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex(self.0 + other.0, self.1 + other.1)
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        Complex(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }
}

/// Computes the discrete Fourier transform in place (Cooley & Tukey 1965), of a power of two.
fn transform(values: &mut [Complex]) {
    let n = values.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            values.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let turns: Vec<Complex> =
            (0..half).map(|k| Complex::unit(-(k as f64) / (2 * half) as f64)).collect();
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), turn) in low.iter_mut().zip(high).zip(&turns) {
                let turned = *b * *turn;
                *b = *a + turned * Complex(-1.0, 0.0);
                *a = *a + turned;
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Outages;
    use deadheat_base::time::Nanos;

    fn interval(loss: Loss, packets: u64, confidence: f64) -> RangeInclusive<u64> {
        let model = Impairments { loss, ..Impairments::default() };
        losses(&model, packets, confidence).unwrap()
    }

    fn bursty(p: f64, r: f64, bad: f64, good: f64) -> GilbertElliott {
        GilbertElliott { p, r, bad, good }
    }

    /// Enumerates every sequence of states and losses, with weights.
    fn by_enumeration(chain: &ChainModel, packets: usize) -> Vec<f64> {
        let mut reached = vec![vec![0.0; packets + 1]; 2];
        reached[0][0] = chain.found[0];
        reached[1][0] = chain.found[1];
        for _ in 0..packets {
            let mut next = vec![vec![0.0; packets + 1]; 2];
            for (state, counts) in reached.iter().enumerate() {
                for (count, here) in counts.iter().copied().enumerate().take(packets) {
                    for (to, chance) in
                        [(state, 1.0 - chain.change[state]), (1 - state, chain.change[state])]
                    {
                        next[to][count] += here * chance * (1.0 - chain.loss[state]);
                        next[to][count + 1] += here * chance * chain.loss[state];
                    }
                }
            }
            reached = next;
        }
        (0..=packets).map(|count| reached[0][count] + reached[1][count]).collect()
    }

    #[test]
    fn the_distribution_is_exact() {
        for loss in [
            Loss::Bernoulli(0.3),
            Loss::GilbertElliott(bursty(0.1, 0.4, 0.9, 0.05)),
            Loss::GilbertElliott(bursty(0.02, 0.2, 1.0, 0.0)),
        ] {
            let chain = chain(&loss).unwrap();
            let exact = by_enumeration(&chain, 100);
            let ours = chain.distribution(100, 128);
            for (k, chance) in exact.iter().enumerate() {
                assert!((chance - ours[k]).abs() < 1e-13, "{loss:?} {k}: {chance} {}", ours[k]);
            }
            let mean: f64 = exact.iter().enumerate().map(|(k, p)| k as f64 * p).sum();
            let square: f64 =
                exact.iter().enumerate().map(|(k, p)| (k as f64 - mean).powi(2) * p).sum();
            assert!((mean - 100.0 * chain.share()).abs() < 1e-9);
            assert!((square / chain.variance(100.0) - 1.0).abs() < 1e-9, "{loss:?}");
        }
    }

    /// scipy.stats.binom.ppf gives the same numbers.
    #[test]
    fn binomial_intervals_are_the_textbooks() {
        assert_eq!(interval(Loss::Bernoulli(0.01), 1_000_000, 0.99), 9_745..=10_257);
        assert_eq!(interval(Loss::Bernoulli(0.5), 100, 0.95), 40..=60);
        assert_eq!(interval(Loss::Bernoulli(0.001), 1_000, 0.99), 0..=4);
        assert_eq!(interval(Loss::Bernoulli(1e-6), 1_000, 0.99), 0..=0);
        assert_eq!(interval(Loss::Bernoulli(1.0), 1_000, 0.99), 1_000..=1_000);
        assert_eq!(interval(Loss::None, 1_000, 0.99), 0..=0);
        assert_eq!(interval(Loss::Bernoulli(0.3), 0, 0.99), 0..=0);
    }

    #[test]
    fn wide_distributions_are_near_normal_ones() {
        // 1e9 packets at 10 %: a standard deviation of 9487, so 24 of them fit, and at 50 % they do not.
        let exact = interval(Loss::Bernoulli(0.1), 1_000_000_000, 0.99);
        assert!(exact.start().abs_diff(99_975_563) <= 2, "{exact:?}");
        assert!(exact.end().abs_diff(100_024_437) <= 2, "{exact:?}");
        let normal = interval(Loss::Bernoulli(0.5), 1_000_000_000, 0.99);
        assert!(normal.start().abs_diff(499_959_272) <= 3, "{normal:?}");
    }

    #[test]
    fn bursts_widen_the_interval() {
        let single = interval(Loss::Bernoulli(0.01), 100_000, 0.99);
        let chain = bursty(0.01 / 0.99 * 0.1, 0.1, 1.0, 0.0);
        let bursts = interval(Loss::GilbertElliott(chain), 100_000, 0.99);
        let width = |range: &RangeInclusive<u64>| (range.end() - range.start()) as f64;
        // By the variance: sqrt((1 + keeps) / (1 - keeps)), about 4.3.
        let ratio = width(&bursts) / width(&single);
        assert!((4.0..4.6).contains(&ratio), "{ratio}");
    }

    #[test]
    fn shares_and_bursts_are_known() {
        let gilbert = Loss::GilbertElliott(bursty(0.01, 0.25, 1.0, 0.0));
        assert!((share(&gilbert).unwrap() - 0.01 / 0.26).abs() < 1e-15);
        assert!((mean_burst(&gilbert).unwrap() - 4.0).abs() < 1e-12);
        assert!((mean_burst(&Loss::Bernoulli(0.2)).unwrap() - 1.25).abs() < 1e-12);
        assert_eq!(mean_burst(&Loss::None), None);
        let outages = Outages { good: Nanos::from_millis(900), bad: Nanos::from_millis(100) };
        assert_eq!(share(&Loss::Outages(outages)), Some(0.1));
        assert_eq!(mean_burst(&Loss::Outages(outages)), None);
    }

    #[test]
    fn lists_are_counted_and_time_is_left_alone() {
        assert_eq!(interval(Loss::List([40, 5, 6, 5, 0].into()), 39, 0.99), 2..=2);
        let outages = Outages { good: Nanos::from_millis(900), bad: Nanos::from_millis(100) };
        let model = Impairments { loss: Loss::Outages(outages), ..Impairments::default() };
        assert_eq!(losses(&model, 1_000, 0.99), None);
    }
}
