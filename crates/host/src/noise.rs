//! Noise floor: the measured difference between identical runs on this machine.

use serde::{Deserialize, Serialize};

use super::placement::{Ends, assign};
use super::probe::{EchoSockets, PAUSE, Rhythm};
use super::topology::Topology;
use crate::probe::EchoPlan;
use deadheat_base::error::Result;
use deadheat_records::placement::Placement;
use deadheat_stats::quantile::quantile_sorted;
use deadheat_stats::{self as stats, signed_rank};

/// Pairs of runs; a race decides most claims within as many blocks.
pub const PAIRS: usize = 12;

/// Level of the interval.
const CONFIDENCE: f64 = 0.95;

/// Difference between identical runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Placement that it is valid for.
    pub placement: Placement,
    /// Number of pairs of runs.
    pub pairs: u64,
    /// Half the width of the 95 % interval for the ratio of two equal medians, as a fraction: 0.04 is 4 %.
    pub half_width: f64,
    /// Difference that a race of so many blocks would find with 80 % power, by the estimate with which a race plans its own:
    /// 0.04 is 4 %. Absent if the pairs are too few for it.
    #[serde(default)]
    pub resolution: Option<RaceResolution>,
    /// Ratio of the slowest run's median to the fastest's. A value far above the half-width means that runs fall into
    /// regimes.
    pub worst_ratio: f64,
}

/// Resolution of a race.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RaceResolution {
    /// Number of blocks.
    pub blocks: u64,
    /// Difference as a fraction.
    pub difference: f64,
}

impl RaceResolution {
    /// Blocks of a race of two contenders in its usual time.
    const BLOCKS: u64 = 100;

    /// Returns the resolution of a race whose blocks scatter as these pairs do.
    fn of(log_ratios: &[f64]) -> Option<RaceResolution> {
        let scatter = stats::scatter(log_ratios)?;
        let blocks = RaceResolution::BLOCKS;
        let difference = stats::resolution(scatter, blocks as usize, 1.0 - CONFIDENCE)?;
        difference.is_finite().then_some(RaceResolution { blocks, difference })
    }
}

/// Runs [`PAIRS`] pairs of identical echo runs under `placement`, each with new threads and sockets, in the order AB BA
/// AB …, and compares A with B as a race compares contenders: by the log-ratio of each pair. Takes about a second.
/// `None` if a run got no answers.
///
/// # Errors
/// Fails if the host cannot do the placement, or loopback does not work.
pub fn measure(placement: Placement, topology: &Topology) -> Result<Option<Noise>> {
    let course = EchoPlan {
        at: assign(placement, Ends::OneMachine, topology)?,
        over: EchoSockets::Loopback,
        rhythm: Rhythm::Every(PAUSE),
        warmup: 10,
        count: 70,
    };
    let mut medians = Vec::with_capacity(2 * PAIRS);
    for _ in 0..2 * PAIRS {
        match quantile_sorted(&course.run()?.rtt_ns, 0.5) {
            Some(median) if median > 0 => medians.push(median as f64),
            _ => return Ok(None),
        }
    }
    Ok(sum_up(placement, &medians))
}

fn sum_up(placement: Placement, medians: &[f64]) -> Option<Noise> {
    let log_ratios: Vec<f64> = medians
        .chunks_exact(2)
        .enumerate()
        .map(|(pair, runs)| {
            let log_ratio = (runs[0] / runs[1]).ln();
            if pair % 2 == 0 { log_ratio } else { -log_ratio }
        })
        .collect();
    let fastest = medians.iter().copied().reduce(f64::min)?;
    let slowest = medians.iter().copied().reduce(f64::max)?;
    Some(Noise {
        placement,
        pairs: log_ratios.len() as u64,
        half_width: half_width(&log_ratios)?,
        resolution: RaceResolution::of(&log_ratios),
        worst_ratio: slowest / fastest,
    })
}

/// Returns half the width of the interval around the centre of the log-ratios, as a fraction; `None` if they are too
/// few or not finite.
fn half_width(log_ratios: &[f64]) -> Option<f64> {
    let interval = signed_rank::interval(log_ratios, CONFIDENCE)?;
    let half = 0.5 * (interval.high - interval.low);
    half.is_finite().then(|| half.exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_runs_from_the_14th_average_to_the_14th_from_the_end() {
        // For 0, 1, … 11 the Walsh averages are sums over two of pairs i <= j: of the 78, 12 lie
        // at or below 2.5 (sums 0 to 5: 1 + 1 + 2 + 2 + 3 + 3), so the 14th is 3, and 8 from above.
        let ratios: Vec<f64> = (0..12).map(|i| f64::from(i) / 100.0).collect();
        let expected = (0.5 * (0.08 - 0.03_f64)).exp_m1();
        assert!((half_width(&ratios).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn drift_cancels_and_noise_does_not() {
        let steady = [100.0; 2 * PAIRS];
        let noise = sum_up(Placement::SameCore, &steady).unwrap();
        assert_eq!((noise.pairs, noise.half_width, noise.worst_ratio), (12, 0.0, 1.0));
        let mut unsteady = steady;
        for (i, median) in unsteady.iter_mut().enumerate() {
            *median += [0.0, 20.0, 5.0][i % 3];
        }
        let noise = sum_up(Placement::SameCore, &unsteady).unwrap();
        assert!(noise.half_width > 0.05);
        assert_eq!(noise.worst_ratio, 1.2);
        // More blocks than pairs find less than the interval of the pairs is wide.
        let found = noise.resolution.unwrap();
        assert!(found.blocks == 100 && found.difference < noise.half_width, "{found:?}");
    }

    #[test]
    fn too_few_or_impossible_ratios_give_no_interval() {
        assert_eq!(half_width(&[0.0; 3]), None);
        assert_eq!(half_width(&[f64::NAN; 12]), None);
        assert_eq!(sum_up(Placement::SameCore, &[]), None);
    }
}
