//! Length of a trial, by rule: enough items for the claimed figure, and enough losses to affect it.

use deadheat_base::time::Nanos;
use deadheat_contract::workload::Lengths;
use deadheat_contract::workload::traffic::Rare;
use deadheat_path::PathSpec;
use deadheat_path::network::{Impairments, Loss};

/// Minimum number of samples beyond a quantile.
const BEYOND: f64 = 10.0;

/// Losses in a trial in virtual time. Their number then scatters by 22 % (Poisson), and the figures that depend on
/// it by less.
const LOSSES: f64 = 20.0;

/// Losses in a trial in real time; the fewest blocks, six, have thirty of them together.
const REAL_LOSSES: f64 = 5.0;

/// Maximum number of items of a trial: rarer losses do not affect a 99th percentile.
const MOST: u64 = 10_000;

/// Returns the share of packets that a path loses, in the direction that loses more; 0 if it is not known.
pub fn loss(path: &PathSpec) -> f64 {
    let (PathSpec::Emulated(network) | PathSpec::Simulated(network)) = path else { return 0.0 };
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    ways.map(share).fold(0.0, f64::max)
}

fn share(way: &Impairments) -> f64 {
    match &way.loss {
        Loss::Bernoulli(share) => *share,
        Loss::Every(step) => 1.0 / *step as f64,
        // Stationary shares of its two states (Gilbert 1960).
        Loss::GilbertElliott(chain) if chain.p + chain.r > 0.0 => {
            (chain.p * chain.bad + chain.r * chain.good) / (chain.p + chain.r)
        }
        Loss::None | Loss::GilbertElliott(_) | Loss::Outages(_) | Loss::List(_) => 0.0,
    }
}

/// Returns the number of items of a trial that gives the claimed figure on a path with `packets_per_s` packets per
/// second.
pub fn whole(lengths: &Lengths, rare: Option<Rare>, path: &PathSpec, packets_per_s: f64) -> u64 {
    let beyond = rare.map_or(0.0, |rare| (BEYOND / (1.0 - rare.quantile)).round());
    let loss = loss(path);
    let losses = if matches!(path, PathSpec::Simulated(_)) { LOSSES } else { REAL_LOSSES };
    let struck = match loss * packets_per_s {
        lost if lost > 0.0 && lengths.counts_items() => {
            losses / lost * 1e9 / lengths.unit_ns.max(1) as f64
        }
        _ => 0.0,
    };
    lengths.fewest.max(beyond as u64).max((struck.ceil() as u64).min(MOST))
}

/// Returns the number of items of a trial that gives a mean, but no quantile: two seconds of them, at least twenty.
pub fn short(lengths: &Lengths) -> u64 {
    let two_seconds = Nanos::from_secs(2).0 / lengths.unit_ns.max(1);
    two_seconds.max(20).min(lengths.fewest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIXTIETHS: Lengths = Lengths { fewest: 120, unit_ns: 16_666_667, key: "count" };
    const P99: Option<Rare> = Some(Rare { quantile: 0.99, otherwise: None });

    #[test]
    fn a_99th_percentile_has_ten_samples_beyond_it_and_twenty_losses() {
        let whole = |lengths: &Lengths, rare, typed: &str, rate| {
            whole(lengths, rare, &PathSpec::parse(typed).unwrap(), rate)
        };
        assert_eq!(whole(&SIXTIETHS, P99, "sim:delay=1ms", 60.0), 1_000);
        assert_eq!(whole(&SIXTIETHS, P99, "sim:loss=0.5%", 60.0), 4_000);
        assert_eq!(whole(&SIXTIETHS, P99, "sim:loss=10%", 60.0), 1_000);
        assert_eq!(whole(&SIXTIETHS, P99, "sim:loss=0.001%", 60.0), MOST);
        assert_eq!(whole(&SIXTIETHS, None, "sim:delay=1ms", 60.0), 120);
        // On the path a race has thirty.
        assert_eq!(whole(&SIXTIETHS, P99, "loss=0.5%", 60.0), 1_000);
        assert_eq!(whole(&SIXTIETHS, P99, "loss=0.1%", 60.0), 5_000);
        // Frames of ten packets are hit ten times as often.
        assert_eq!(whole(&SIXTIETHS, None, "sim:loss=0.5%", 600.0), 400);
        assert_eq!(whole(&Lengths { key: "time", ..SIXTIETHS }, None, "sim:loss=0.5%", 60.0), 120);
        assert_eq!(short(&SIXTIETHS), 119);
        assert_eq!(short(&Lengths { unit_ns: 1_000_000_000, ..SIXTIETHS }), 20);
    }

    #[test]
    fn the_worse_direction_counts() {
        let of = |typed: &str| loss(&PathSpec::parse(typed).unwrap());
        assert_eq!(of("loopback"), 0.0);
        assert_eq!(of("up.loss=1%,down.loss=3%"), 0.03);
        let bursts = of("loss=2%,burst=4");
        assert!((bursts - 0.02).abs() < 1e-9, "{bursts}");
    }
}
