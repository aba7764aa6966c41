//! Comparison of the ledger with the account of an emulated path: messages lost on the way, and packets lost by the
//! path.

use crate::outcome::{Entrant, Outcome, Trial, Warning};
use deadheat_contract::measurements::path::{DirectionFigures, PacketOutcomes, PathFigures};
use deadheat_contract::measurements::{Account, Ledger};
use deadheat_path::network::Network;

/// Returns warnings about disagreements between the two accounts, and about losses by the path outside its model.
pub(crate) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    let mut all: Vec<Warning> =
        outcome.contenders.iter().filter_map(|entrant| outside(outcome, entrant)).collect();
    let drops = |trial: &Trial| trial.record.path.as_ref().map_or(0, device_drops);
    let overrun = || outcome.trials.iter().map(drops).filter(|packets| *packets > 0);
    if overrun().count() > 0 {
        let packets = overrun().fold(0u64, u64::saturating_add);
        all.push(Warning::new(
            "path_overrun",
            format!(
                "{packets} packets were lost in the emulated path's devices and rings in {} trials, \
                 which do not count: this host could not move the offered load",
                overrun().count()
            ),
            "offer less (a paced workload, a lower rate), or race on a host with more CPUs",
        ));
    }
    all
}

/// Returns a warning if a path of this model repeats its random impairments in several blocks: these are no
/// replicates of each other.
pub(crate) fn repeated_draws(outcome: &Outcome, network: Option<&Network>) -> Option<Warning> {
    let network = network.filter(|network| network.draws() && outcome.asked.to.is_none())?;
    let several = outcome.trials.iter().any(|trial| trial.block > 0);
    let seed = network.seed.filter(|_| several)?;
    Some(Warning::new(
        "draws_repeat",
        format!(
            "seed={seed} in the path repeats the same losses and delays in every block: verdicts and intervals \
             hold for these alone"
        ),
        "leave seed= out of the path, so that each block has its own; --seed repeats the whole race",
    ))
}

/// Returns a warning if messages were lost although the path lost no packet.
fn outside(outcome: &Outcome, entrant: &Entrant) -> Option<Warning> {
    let own = |trial: &&Trial| trial.contender == entrant.id && trial.record.valid;
    let (mut lost, mut accounted) = (0u64, 0u64);
    for trial in outcome.trials.iter().filter(own) {
        let record = &trial.record;
        // Each lost message needs at least one lost packet. A packet may also have been a hello or a copy, so the
        // path may have lost more, but never fewer.
        let Some(path) = &record.path else { continue };
        let ways = by_way(&record.ledger, path);
        for (account, not_intact) in
            ways.into_iter().filter(|(account, _)| account.unit == "messages")
        {
            if account.lost_on_path > not_intact {
                lost = lost.saturating_add(account.lost_on_path);
                accounted = accounted.saturating_add(not_intact);
            }
        }
    }
    (lost > 0).then(|| {
        Warning::new(
            "lost_outside_path",
            format!(
                "{lost} messages of {} were lost on the way, and the path knows of {accounted} \
                 packets that did not arrive as they were sent",
                entrant.label
            ),
            "the loss is not the path's: a transport that gives up on messages in time (a lifetime, \
             a full queue of its own) does not send them; where it gives up on none, look at the \
             hosts' queues and buffers",
        )
    })
}

/// Returns each account with the number of packets that the path did not deliver intact, in its direction.
fn by_way<'a>(ledger: &'a Ledger, path: &PathFigures) -> Vec<(&'a Account, u64)> {
    let sum = |of: &dyn Fn(&DirectionFigures) -> u64, ways: &[&DirectionFigures]| {
        ways.iter().fold(0u64, |sum, way| sum.saturating_add(of(way)))
    };
    let up: Vec<&DirectionFigures> = path.links.iter().map(|link| &link.up).collect();
    let down: Vec<&DirectionFigures> = path.links.iter().map(|link| &link.down).collect();
    let both: Vec<&DirectionFigures> = up.iter().chain(&down).copied().collect();
    [(&ledger.up, up), (&ledger.down, down), (&ledger.round_trip, both)]
        .into_iter()
        .filter_map(|(account, ways)| Some((account.as_ref()?, sum(&not_intact, &ways))))
        .collect()
}

/// Returns the number of packets that did not arrive intact. A damaged packet fails its checksum, and the host
/// drops it.
fn not_intact(way: &DirectionFigures) -> u64 {
    let PacketOutcomes { blocked, lost, full, early, down, corrupted, waiting, .. } = way.fates;
    [blocked, lost, full, early, down, corrupted, waiting, way.device_drops]
        .into_iter()
        .fold(0, u64::saturating_add)
}

fn device_drops(path: &PathFigures) -> u64 {
    let ways = path.links.iter().flat_map(|link| [&link.up, &link.down]);
    ways.fold(0, |sum, way| sum.saturating_add(way.device_drops))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::path_ways;
    use crate::testing;
    use deadheat_contract::measurements::path::LinkFigures;

    fn race(lost_up: u64, change: impl FnOnce(&mut LinkFigures)) -> Vec<String> {
        let mut outcome = testing::outcome(2);
        let mut record = testing::record(Default::default());
        let unit = "messages".to_owned();
        let account = Account { unit, sent: 10, delivered: 10 - lost_up, ..Account::default() };
        record.ledger.up = Some(Account { lost_on_path: lost_up, ..account });
        let mut link = LinkFigures::default();
        change(&mut link);
        record.path = Some(PathFigures { links: vec![link] });
        outcome.trials.push(Trial { block: 0, order: 0, contender: 1, control: false, record });
        warnings(&outcome).into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn what_the_path_took_explains_what_was_lost() {
        let lost = |fates: PacketOutcomes| race(2, |link| link.up.fates = fates);
        assert_eq!(lost(PacketOutcomes { lost: 1, full: 1, ..PacketOutcomes::default() }), [""; 0]);
        assert_eq!(
            lost(PacketOutcomes { lost: 5, ..PacketOutcomes::default() }),
            [""; 0],
            "hellos get lost, too"
        );
        assert_eq!(
            lost(PacketOutcomes { corrupted: 1, waiting: 1, ..PacketOutcomes::default() }),
            [""; 0]
        );
    }

    #[test]
    fn a_seed_of_the_path_repeats_what_it_draws() {
        let codes = |path: &str, blocks: u64| {
            let mut outcome = testing::outcome(2);
            outcome.asked.path = path.to_owned();
            for block in 0..blocks {
                let record = testing::record(Default::default());
                outcome.trials.push(Trial {
                    block,
                    order: 0,
                    contender: 1,
                    control: false,
                    record,
                });
            }
            let network = path_ways::network(&outcome);
            repeated_draws(&outcome, network.as_ref()).map(|warning| warning.code)
        };
        for path in
            ["loss=2%,seed=7", "sim:delay=9ms,jitter=3ms,seed=7", "delay=9ms,seed=7+reorder=1%"]
        {
            assert_eq!(codes(path, 2).as_deref(), Some("draws_repeat"), "{path}");
            assert_eq!(codes(path, 1), None, "{path}");
        }
        for path in ["loss=2%", "delay=9ms,seed=7", "delay=9ms,rate=5mbit,drop=3-5,seed=7"] {
            assert_eq!(codes(path, 2), None, "{path}");
        }
    }

    #[test]
    fn what_it_did_not_take_is_told() {
        let other_way = |link: &mut LinkFigures| link.down.fates.lost = 9;
        assert_eq!(race(2, other_way), ["lost_outside_path"]);
        assert_eq!(race(0, |_| ()), [""; 0]);
        assert_eq!(race(0, |link| link.up.device_drops = 3), ["path_overrun"]);
    }
}
