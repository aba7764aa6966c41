//! Behaviour of an emulated path over a race, by link and direction: sums over its trials, medians of per-trial
//! values, and losses compared with the path's model.

use std::collections::BTreeMap;

use crate::outcome::{Outcome, Trial};
use crate::path_way::PathWay;
use deadheat_base::error::Error;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::path::{DirectionFigures, PacketOutcomes};
use deadheat_contract::measurements::{Distribution, Quantile};
use deadheat_path::PathSpec;
use deadheat_path::files::ReadFile;
use deadheat_path::impair::expected;
use deadheat_path::network::Network;
use deadheat_stats::quantile;

/// Confidence level of the interval of expected losses, as a fraction.
pub const LOSS_LEVEL: f64 = 0.99;

/// Returns every direction of every link; empty if no trial has an account of its path.
pub(crate) fn ways(outcome: &Outcome, network: Option<&Network>) -> Vec<PathWay> {
    let valid = || outcome.trials.iter().filter(|trial| trial.record.valid);
    let figures = valid().filter_map(|trial| trial.record.path.as_ref());
    let links = figures.map(|path| path.links.len()).max().unwrap_or(0);
    let each = |link| [(link, Direction::Up), (link, Direction::Down)];
    let of = |(link, direction): (usize, Direction)| {
        let accounts: Vec<(&Trial, &DirectionFigures)> = valid()
            .filter_map(|trial| {
                let link = trial.record.path.as_ref()?.links.get(link)?;
                Some((trial, link.toward(direction)))
            })
            .collect();
        way(outcome, network, (link, direction), &accounts)
    };
    (0..links).flat_map(each).map(of).collect()
}

fn way(
    outcome: &Outcome,
    network: Option<&Network>,
    (link, direction): (usize, Direction),
    accounts: &[(&Trial, &DirectionFigures)],
) -> PathWay {
    let sum = |of: fn(&PacketOutcomes) -> u64| {
        accounts.iter().fold(0u64, |sum, (_, had)| sum.saturating_add(of(&had.fates)))
    };
    let median = |of: fn(&DirectionFigures) -> Option<Quantile>| {
        let each = accounts.iter().filter_map(|(_, had)| of(had));
        let each: Vec<f64> = each.map(|quantile| quantile.at_least_ns() as f64).collect();
        quantile::median(&each)
    };
    let model = network.and_then(|network| network.links.get(link));
    let expected = model.and_then(|model| {
        let n = draws(outcome, accounts);
        let range = expected::losses(model.toward(direction), n, LOSS_LEVEL)?;
        (n > 0).then(|| [*range.start() as f64 / n as f64, *range.end() as f64 / n as f64])
    });
    let (busy_ns, busy_bytes) = (sum(|f| f.busy_ns), sum(|f| f.busy_bytes));
    PathWay {
        link,
        direction,
        trials: accounts.len() as u64,
        packets: sum(|f| f.arrived),
        blocked: sum(|f| f.blocked),
        down: sum(|f| f.down),
        lost: sum(|f| f.lost),
        queue_drops: sum(|f| f.full.saturating_add(f.early)),
        marked: sum(|f| f.marked),
        duplicated: sum(|f| f.duplicated),
        corrupted: sum(|f| f.corrupted),
        reordered: sum(|f| f.reordered),
        loss_low: expected.map(|[low, _]| low),
        loss_high: expected.map(|[_, high]| high),
        rate_bps: (busy_ns > 0).then(|| busy_bytes as f64 * 8e9 / busy_ns as f64),
        queued_p50_ns: median(|had| had.queued_ns.as_ref().and_then(|ns| ns.p50)),
        queued_p99_ns: median(|had| had.queued_ns.as_ref().and_then(|ns| ns.p99)),
        late_p50_ns: median(|had| late(had).and_then(|ns| ns.p50)),
        late_p99_ns: median(|had| late(had).and_then(|ns| ns.p99)),
    }
}

fn late(had: &DirectionFigures) -> Option<&Distribution> {
    had.lateness_ns.as_ref()
}

/// Returns the effective number of independent draws behind the packets of these trials. The k-th packets of two
/// trials with one seed have the same draw, so `m` trials count it `m` times: Kish's effective sample size with
/// these weights, the square of their sum over the sum of their squares.
fn draws(outcome: &Outcome, accounts: &[(&Trial, &DirectionFigures)]) -> u64 {
    let seed = outcome.path.built.as_ref().and_then(|built| built.seed);
    let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (trial, had) in accounts {
        // A path's own seed is the same for every trial.
        let group = if seed.is_some() { 0 } else { trial.block };
        groups.entry(group).or_default().push(had.fates.arrived.saturating_sub(had.fates.blocked));
    }
    let (mut sum, mut squares) = (0.0, 0.0);
    for arrived in groups.values_mut() {
        arrived.sort_unstable();
        let (mut before, mut weight) = (0, arrived.len() as f64);
        for n in arrived.iter() {
            let layer = (n - before) as f64;
            sum += weight * layer;
            squares += weight * weight * layer;
            (before, weight) = (*n, weight - 1.0);
        }
    }
    if squares > 0.0 { (sum * sum / squares) as u64 } else { 0 }
}

/// Returns the model of the path of the trials, if it is emulated. A result that is only read opens no file that
/// its path names; it then has no model.
pub fn network(outcome: &Outcome) -> Option<Network> {
    let closed: ReadFile<'_> = &mut |file| Err(Error::usage(format!("{file} is not opened")));
    match PathSpec::parse_with(&outcome.asked.path, closed) {
        Ok(PathSpec::Emulated(network) | PathSpec::Simulated(network)) => Some(network),
        Ok(PathSpec::Loopback) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use deadheat_contract::measurements::path::{LinkFigures, PathFigures};

    /// Returns a trial in which `arrived` packets arrived up, and `lost` of them were lost, released
    /// `late_ns` late.
    fn trial(block: u64, arrived: u64, lost: u64, late_ns: u64) -> Trial {
        let fates = PacketOutcomes {
            arrived,
            lost,
            full: 1,
            busy_ns: 8_000,
            busy_bytes: 20,
            ..PacketOutcomes::default()
        };
        let late = Distribution { p50: Some(Quantile::Ns(late_ns)), ..Distribution::default() };
        let up = DirectionFigures { fates, lateness_ns: Some(late), ..DirectionFigures::default() };
        let link = LinkFigures { up, down: DirectionFigures::default() };
        let mut record = testing::record(Default::default());
        record.path = Some(PathFigures { links: vec![link] });
        Trial { block, order: 0, contender: 0, control: false, record }
    }

    fn race(trials: Vec<Trial>) -> Outcome {
        Outcome { trials, ..testing::outcome(2) }
    }

    #[test]
    fn sums_and_medians_are_over_valid_trials() {
        let mut failed = trial(1, 500, 500, 9_000_000);
        failed.record.valid = false;
        let outcome = race(vec![
            trial(0, 100, 1, 3_000),
            trial(0, 110, 2, 5_000),
            failed,
            trial(1, 90, 0, 4_000),
        ]);
        let network = Network::parse("delay=5ms,loss=1%").unwrap();
        let ways = ways(&outcome, Some(&network));
        assert_eq!(ways.len(), 2);
        let up = &ways[0];
        assert_eq!((up.link, up.direction, up.trials), (0, Direction::Up, 3));
        assert_eq!((up.packets, up.lost, up.queue_drops), (300, 3, 3));
        assert_eq!(up.late_p50_ns, Some(4_000.0));
        assert_eq!(up.late_p99_ns, None);
        assert_eq!(up.rate_bps, Some(20e6));
        assert!(up.loss_low == Some(0.0) && up.loss_high.unwrap() > 0.02, "{up:?}");
        assert_eq!((ways[1].packets, ways[1].rate_bps, ways[1].loss_low), (0, None, None));
    }

    #[test]
    fn without_an_account_there_is_nothing_to_say() {
        let mut bare = trial(0, 1, 0, 0);
        bare.record.path = None;
        assert_eq!(ways(&race(vec![bare]), None), []);
        let unknown = ways(&race(vec![trial(0, 10, 0, 0)]), None);
        assert_eq!((unknown[0].packets, unknown[0].loss_high), (10, None));
    }

    #[test]
    fn draws_that_trials_share_count_once() {
        let count = |trials: Vec<Trial>, seed| {
            let mut outcome = race(trials);
            outcome.path = testing::built(seed);
            let accounts: Vec<(&Trial, &DirectionFigures)> = outcome
                .trials
                .iter()
                .map(|trial| (trial, &trial.record.path.as_ref().unwrap().links[0].up))
                .collect();
            draws(&outcome, &accounts)
        };
        let trials = |blocks: [u64; 2], arrived: [u64; 2]| {
            blocks.into_iter().zip(arrived).map(|(block, n)| trial(block, n, 0, 0)).collect()
        };
        assert_eq!(count(trials([0, 1], [100, 100]), None), 200);
        assert_eq!(count(trials([0, 0], [100, 100]), None), 100);
        assert_eq!(count(trials([0, 1], [100, 100]), Some(7)), 100);
        // 100 draws in two trials and 100 in one: (200 + 100)² / (400 + 100).
        assert_eq!(count(trials([0, 0], [200, 100]), None), 180);
        assert_eq!(count(Vec::new(), None), 0);
    }
}
