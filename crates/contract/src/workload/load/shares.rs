//! Figures of a trial on how the work and the load beside it share the path.

use super::GOODPUT;
use super::phases::{descriptive, goodput_name};
use crate::measurements::{Better, Metric, Metrics, Phase, Unit};

/// Figure of the load: its share of all goodput while both send.
pub const SHARE: &str = "load_goodput_share";
/// Figure of the load: Jain's index of the goodputs of its flows.
const LOAD_JAIN: &str = "load_jain_share";
/// Jain's index of the goodputs of all flows of work and load.
pub const JAIN: &str = "flows_jain_share";
/// Share of all goodput of the flow with the least.
const LEAST: &str = "flow_least_share";
/// Time after which the shares of work and load stay.
pub const STAY: &str = "shares_stay_ns";

/// Number of parts of a trial whose shares tell when they stay.
pub const PARTS: usize = 20;
/// Least number of parts at the end of a trial in which shares have to stay.
const LAST_PARTS: usize = PARTS / 4;
/// Largest distance of a part's share from the mean of shares that stay.
const NEAR: f64 = 0.1;

/// Returns the metrics of how load and work share the path; with `by_flow` also the metrics of single flows.
pub(super) fn share_metrics(by_flow: bool) -> Vec<Metric> {
    let metric = |name: &str, label: &str, unit, better| {
        descriptive(name.to_owned(), label.to_owned(), unit, better)
    };
    let share = |name, label, better| metric(name, label, Unit::Share, better);
    let mut all = vec![
        share(SHARE, "share of the load in all goodput", Better::Lower),
        share(LOAD_JAIN, "Jain's index of the load's flows", Better::Higher),
    ];
    if by_flow {
        all.extend([
            share(JAIN, "Jain's index of all flows", Better::Higher),
            share(LEAST, "share of the flow with the least", Better::Higher),
            metric(STAY, "shares stay after", Unit::Nanos, Better::Lower),
        ]);
    }
    all
}

/// Adds the share of the load in all goodput while it ran, if its goodput and that of the work in that phase are known,
/// and Jain's index of the `rates` of its flows.
pub fn add_shares(rates: &[f64], metrics: &mut Metrics) {
    let work = metrics.get(&goodput_name(Phase::During)).copied();
    let Some((load, work)) = metrics.get(GOODPUT).copied().zip(work) else { return };
    add(SHARE, load / (load + work), metrics);
    if rates.len() > 1 {
        add(LOAD_JAIN, jain(rates), metrics);
    }
}

/// Adds the same figures, and figures of single flows, from the rates of the flows of work and load over the same time.
/// Returns the share of each flow, the work's first; empty if there is nothing to share.
pub fn add_flows(work: &[f64], load: &[f64], metrics: &mut Metrics) -> Vec<f64> {
    let all = [work, load].concat();
    let sum: f64 = all.iter().sum();
    add(SHARE, load.iter().sum::<f64>() / sum, metrics);
    if load.len() > 1 {
        add(LOAD_JAIN, jain(load), metrics);
    }
    add(JAIN, jain(&all), metrics);
    add(LEAST, all.iter().copied().fold(f64::INFINITY, f64::min) / sum, metrics);
    if sum > 0.0 { all.iter().map(|rate| rate / sum).collect() } else { Vec::new() }
}

fn add(name: &str, figure: f64, metrics: &mut Metrics) {
    // A sum of zero shares nothing.
    if figure.is_finite() {
        metrics.insert(name.to_owned(), figure);
    }
}

/// Returns Jain's index of fairness, (Σx)² / (n Σx²) (Jain, Chiu and Hawe 1984, DEC-TR-301).
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    sum * sum / (rates.len() as f64 * squares)
}

/// Returns the number of parts after which the share of one side stays within a tenth of all goodput of its mean from
/// there on; `None` if that is so for fewer than a quarter of [`PARTS`].
pub fn stay_after(shares: &[f64]) -> Option<usize> {
    (0..=shares.len().checked_sub(LAST_PARTS)?).find(|from| {
        let rest = &shares[*from..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().all(|share| (share - mean).abs() <= NEAR)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_link_and_of_flows() {
        let mut metrics: Metrics =
            [(GOODPUT.to_owned(), 9e6), ("goodput_during_bps".to_owned(), 1e6)].into();
        add_shares(&[3.0, 3.0], &mut metrics);
        assert_eq!((metrics[SHARE], metrics[LOAD_JAIN]), (0.9, 1.0));
        add_shares(&[1.0, 0.0], &mut metrics);
        assert_eq!(metrics[LOAD_JAIN], 0.5);
        let mut plain: Metrics = [(GOODPUT.to_owned(), 9e6)].into();
        add_shares(&[3.0, 3.0], &mut plain);
        assert_eq!(plain.len(), 1);
    }

    #[test]
    fn each_flow_has_its_part() {
        let mut metrics = Metrics::default();
        let shares = add_flows(&[6.0], &[1.0, 1.0], &mut metrics);
        assert_eq!(shares, [0.75, 0.125, 0.125]);
        assert_eq!((metrics[SHARE], metrics[LOAD_JAIN], metrics[LEAST]), (0.25, 1.0, 0.125));
        assert!((metrics[JAIN] - 64.0 / (3.0 * 38.0)).abs() < 1e-12);
        let mut silent = Metrics::default();
        assert!(add_flows(&[0.0], &[0.0], &mut silent).is_empty());
        assert!(silent.is_empty(), "{silent:?}");
    }

    #[test]
    fn shares_stay_once_no_later_part_leaves_their_mean() {
        let mut shares = vec![0.5; PARTS];
        assert_eq!(stay_after(&shares), Some(0));
        shares[..4].copy_from_slice(&[1.0, 0.9, 0.8, 0.7]);
        assert_eq!(stay_after(&shares), Some(4));
        shares[PARTS - 1] = 0.9;
        assert_eq!(stay_after(&shares), None, "they left it at the end");
        assert_eq!((stay_after(&[]), stay_after(&[0.5; 3])), (None, None));
    }
}
