//! What is fixed before block 0, so that no result can move it: placement, blocks, looks, margin.
//!
//! The trials before block 0 (the pilot) run one contender against itself. They warm the
//! environment up, tell how long a trial takes and how much trials scatter; they compare nothing,
//! so what they find may shape the plan.

use super::outcome::{Entrant, Fixed};
use super::request::{DEFAULT_BLOCKS, MOST_BLOCKS, Request};
use crate::figures::{Metric, Metrics, Role};
use crate::rng::SplitMix64;
use crate::stats::{Plan, quantile, signed_rank};
use crate::time::Nanos;
use crate::trial::placement::Placement;

/// The least margin that a race chooses by itself: below it, hardly anybody would change transports.
pub const LEAST_MARGIN: f64 = 0.05;

/// Trials of a full pilot: three pairs.
pub const PILOT_TRIALS: u64 = 6;

/// What the trials before block 0 found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pilot {
    /// How long each took, start and end of its processes included.
    pub took: Vec<Nanos>,
    /// The figures of each valid one, in order.
    pub figures: Vec<Metrics>,
    /// The label of the contender that ran.
    pub label: String,
}

/// How many trials the pilot has: one to warm up where nothing is left to be measured.
pub fn pilot_trials(request: &Request) -> u64 {
    if request.margin.is_some() || request.plan.is_some() { 1 } else { PILOT_TRIALS }
}

/// The error level of the whole race.
pub fn alpha(confidence: f64) -> f64 {
    // 1 - 0.95 is 0.050000000000000044 in f64.
    ((1.0 - confidence) * 1e9).round() / 1e9
}

/// Blocks that an interval of one claim takes.
pub fn fewest_blocks(confidence: f64) -> usize {
    Plan::fewest_blocks(1, alpha(confidence))
}

/// Pairs that race under the same conditions, times claimed metrics.
pub fn claims(entrants: &[Entrant], metrics: &[Metric]) -> usize {
    let racing: Vec<&Entrant> = entrants.iter().filter(|entrant| entrant.is_racing()).collect();
    let meets = |(at, entrant): (usize, &&Entrant)| {
        racing[..at].iter().filter(|other| other.meets(entrant)).count()
    };
    let pairs: usize = racing.iter().enumerate().map(meets).sum();
    pairs * claimed(metrics).count()
}

/// The metrics with verdicts.
pub fn claimed(metrics: &[Metric]) -> impl Iterator<Item = &Metric> {
    metrics.iter().filter(|metric| metric.role == Role::Claim)
}

/// The looks of `fixed` as the statistics want them.
pub fn looks(fixed: &Fixed, confidence: f64) -> Plan {
    Plan {
        looks: fixed.looks.clone(),
        alpha: alpha(confidence),
        claims: usize::try_from(fixed.claims).unwrap_or(usize::MAX),
    }
}

/// Fixes the plan. `elapsed` of the budget is used, and `placement` with its reason is that of the
/// pilot.
pub fn fix(
    request: &Request,
    metrics: &[Metric],
    entrants: &[Entrant],
    placement: (Placement, String),
    pilot: &Pilot,
    elapsed: Nanos,
) -> Fixed {
    if let Some(earlier) = &request.plan {
        return earlier.clone();
    }
    let active = entrants.iter().filter(|entrant| entrant.is_racing()).count();
    let blocks_max = blocks(request, active, pilot, elapsed);
    let claims = claims(entrants, metrics);
    let alpha = alpha(request.confidence);
    let (margin, margin_reason) = margin(request, metrics, blocks_max, pilot);
    let whole = usize::try_from(blocks_max).unwrap_or(usize::MAX);
    Fixed {
        margin,
        margin_reason,
        placement: placement.0.to_string(),
        placement_reason: placement.1,
        blocks_max,
        // A single contender makes no claim, but its control is looked at as one.
        looks: Plan::new(whole, claims.max(1), alpha).looks,
        claims: claims as u64,
        workload: None,
        workload_reason: None,
        replans: Vec::new(),
        quantile_definition: quantile::DEFINITION.to_owned(),
    }
}

/// As many blocks as were asked for, or as are expected to fit the budget; at least one.
fn blocks(request: &Request, active: usize, pilot: &Pilot, elapsed: Nanos) -> u64 {
    let most = if request.every.is_some() { MOST_BLOCKS } else { DEFAULT_BLOCKS };
    let asked = request.blocks.unwrap_or(most);
    let Some(budget) = request.time_limit() else {
        return asked;
    };
    let block = block_time(active, pilot);
    // The last one need not be waited for.
    let pace = block.max(request.every.unwrap_or_default());
    let room = (budget - elapsed) + (pace - block);
    (room.0 / pace.0.max(1)).clamp(1, asked.max(1))
}

/// How long a block is expected to take: each contender and the control.
pub fn block_time(active: usize, pilot: &Pilot) -> Nanos {
    let took: Vec<f64> = pilot.took.iter().map(|took| took.0 as f64).collect();
    let trial = quantile::median(&took).unwrap_or(0.0);
    Nanos((trial * (active + 1) as f64) as u64)
}

fn margin(request: &Request, metrics: &[Metric], blocks: u64, pilot: &Pilot) -> (f64, String) {
    if let Some(margin) = request.margin {
        return (margin, "asked for".to_owned());
    }
    let least = percent(LEAST_MARGIN);
    let widest = claimed(metrics)
        .filter_map(|metric| {
            let half = expected_half_width(metric, blocks, request.confidence, pilot)?;
            Some((half, metric.label.as_str()))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((half, label)) = widest else {
        let reason = format!(
            "{least}, the least: the trials before the first block gave too few figures to \
             predict the scatter"
        );
        return (LEAST_MARGIN, reason);
    };
    let measured = format!(
        "a tie of {label} is expected to show as ± {} after {blocks} blocks, judging by {} trials \
         of {} before the first",
        percent(half),
        pilot.figures.len(),
        pilot.label,
    );
    // Rounded up, so that the margin reads in a sentence.
    let margin = (2.0 * half * 1e3).ceil() / 1e3;
    if margin > LEAST_MARGIN {
        (margin, format!("twice the noise: {measured}"))
    } else {
        (LEAST_MARGIN, format!("{least}, the least: {measured}"))
    }
}

/// The half-width, as a fraction, that the control's interval is expected to have after `blocks`.
fn expected_half_width(
    metric: &Metric,
    blocks: u64,
    confidence: f64,
    pilot: &Pilot,
) -> Option<f64> {
    let logs: Vec<f64> = pilot
        .figures
        .iter()
        // The first trial meets cold caches and an idle CPU, and is left out of the scatter.
        .skip(1)
        .filter_map(|figures| figures.get(&metric.name))
        .map(|figure| figure.ln())
        .filter(|log| log.is_finite())
        .collect();
    let spread = deviation(&logs)?;
    // Below the fewest blocks that can decide there is no interval at this level.
    let n = usize::try_from(blocks).unwrap_or(usize::MAX).max(fewest_blocks(confidence));
    // A log-ratio has the scatter of two trials.
    let half = spread * std::f64::consts::SQRT_2 * unit_half_width(n, confidence);
    Some(half.exp_m1())
}

/// Sample standard deviation; `None` with fewer than three values, which say nothing about it.
fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if n < 3.0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (n - 1.0)).sqrt())
}

/// The usual half-width of the signed-rank interval of `n` standard normal differences: the mean
/// over a few samples. Exact tests on few blocks are wider than the normal formula says.
fn unit_half_width(n: usize, confidence: f64) -> f64 {
    // More blocks narrow it by the square root; pairs of pairs would only cost time.
    const LARGEST: usize = 60;
    const SAMPLES: u64 = 40;
    let drawn = n.min(LARGEST);
    let mut rng = SplitMix64::new(0);
    let widths = (0..SAMPLES).filter_map(|_| {
        let sample: Vec<f64> = (0..drawn).map(|_| rng.normal()).collect();
        let interval = signed_rank::interval(&sample, confidence)
            .or_else(|| signed_rank::widest_interval(&sample))?;
        Some(0.5 * (interval.high - interval.low))
    });
    widths.sum::<f64>() / SAMPLES as f64 * (drawn as f64 / n as f64).sqrt()
}

/// A fraction as people read it: `5 %`, `3.4 %`, `23 %`.
pub fn percent(fraction: f64) -> String {
    format!("{} %", in_percent(fraction))
}

/// As [`percent`], without the sign.
pub fn in_percent(fraction: f64) -> String {
    let value = 100.0 * fraction;
    if value.abs() >= 9.95 {
        return format!("{value:.0}");
    }
    let digits = format!("{value:.1}");
    let short = digits.strip_suffix(".0").unwrap_or(&digits);
    // -0.04 rounds to "-0".
    if short == "-0" { "0" } else { short }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pilot on a request's first claim, with these figures, 10 ms each.
    fn pilot(metrics: &[Metric], figures: &[f64]) -> Pilot {
        let name = &claimed(metrics).next().unwrap().name;
        let one = |figure: &f64| Metrics::from([(name.clone(), *figure)]);
        Pilot {
            took: vec![Nanos::from_millis(10); figures.len()],
            figures: figures.iter().map(one).collect(),
            label: "tcp".into(),
        }
    }

    fn fixed(request: &Request, figures: &[f64]) -> Fixed {
        let checked = request.check().unwrap();
        let pilot = pilot(&checked.metrics, figures);
        let placement = (Placement::SameCore, String::new());
        let elapsed = Nanos::from_millis(100);
        fix(request, &checked.metrics, &checked.entrants, placement, &pilot, elapsed)
    }

    const CALM: [f64; 6] = [150.0, 100.0, 100.5, 99.5, 100.2, 99.8];
    const WILD: [f64; 6] = [100.0, 100.0, 150.0, 80.0, 120.0, 90.0];

    #[test]
    fn calm_trials_get_the_least_margin_whatever_the_first_was() {
        let fixed = fixed(&Request::new(["tcp", "udp"]).blocks(24), &CALM);
        assert_eq!(fixed.margin, 0.05);
        assert!(fixed.margin_reason.contains("after 24 blocks"), "{fixed:?}");
    }

    #[test]
    fn wild_trials_widen_the_margin_and_more_blocks_narrow_it() {
        let at = |blocks| fixed(&Request::new(["tcp", "udp"]).blocks(blocks), &WILD);
        assert!(at(6).margin > at(24).margin && at(24).margin > at(200).margin);
        assert!(at(24).margin > 0.2 && at(24).margin < 0.6, "{:?}", at(24));
        assert!(at(24).margin_reason.starts_with("twice the noise"));
    }

    #[test]
    fn a_given_margin_stands_and_too_few_figures_are_admitted() {
        let ask = Request::new(["tcp", "udp"]).blocks(24);
        assert_eq!(fixed(&ask.clone().margin(0.1), &WILD).margin, 0.1);
        let few = fixed(&ask, &WILD[..2]);
        assert_eq!(few.margin, 0.05);
        assert!(few.margin_reason.contains("too few figures"));
    }

    /// 10 ms a trial, three contenders and the control: 40 ms a block; 100 ms are used.
    #[test]
    fn blocks_fit_the_budget() {
        let ask = || Request::new(["tcp", "udp", "udp"]);
        let blocks = |request: Request| fixed(&request, &CALM).blocks_max;
        assert_eq!(blocks(ask().budget(Nanos::from_millis(1_100))), 25);
        assert_eq!(blocks(ask()), DEFAULT_BLOCKS);
        assert_eq!(blocks(ask().blocks(12)), 12);
        assert_eq!(blocks(ask().blocks(12).budget(Nanos::from_millis(300))), 5);
        assert_eq!(blocks(ask().budget(Nanos::from_millis(1))), 1);
    }

    #[test]
    fn looks_share_the_error_over_all_claims() {
        let fixed = fixed(&Request::new(["tcp", "udp", "udp"]).blocks(30), &CALM);
        assert_eq!(fixed.claims, 3);
        let sum: f64 = fixed.looks.iter().map(|look| look.alpha).sum();
        assert!((sum - 0.05).abs() < 1e-12);
        assert_eq!(fixed.looks.last().map(|look| look.blocks), Some(30));
        assert_eq!(fixed.looks, looks(&fixed, 0.95).looks);
    }

    /// The normal formula, 1.96 / sqrt(n 3/π), is the limit.
    #[test]
    fn the_expected_interval_is_the_normal_one_for_many_blocks_and_wider_for_few() {
        let normal = |n: f64| 1.96 / (n * 3.0 / std::f64::consts::PI).sqrt();
        let ratio = |n: usize| unit_half_width(n, 0.95) / normal(n as f64);
        assert!((0.95..1.1).contains(&ratio(200)), "{}", ratio(200));
        assert!(ratio(6) > 1.2 && ratio(6) < 1.9, "{}", ratio(6));
    }

    #[test]
    fn percentages_read_well() {
        let shown = [0.05, 0.034, 0.2345, 0.0996, -0.0004, 1.5].map(percent);
        assert_eq!(shown, ["5 %", "3.4 %", "23 %", "10 %", "0 %", "150 %"]);
    }
}
