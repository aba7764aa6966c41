//! Round trips: the rows of all trials, matched and split into parts.

use super::PassTrial;
use deadheat_contract::contract::PeerFacts;
use deadheat_result::explained::Explanation;
use deadheat_trial::Observations;
use deadheat_trial::explain::FlowNotes;
use deadheat_trial::explain::parts::{Missing, Scheme, SplitRoundTrips, clocks};

/// Change of the time of day beyond which a trial's timestamps are not used. The time between reading the two
/// clocks is less.
const STEP_NS: u64 = 5_000;

/// Splits the round trips of `trials`, with as much detail as the stamps allow.
pub(super) fn explain(trials: &[PassTrial], peer: PeerFacts, into: &mut Explanation) {
    let steady: Vec<&Observations> =
        trials.iter().map(|explored| &explored.noted).filter(|noted| is_steady(noted)).collect();
    if steady.len() < trials.len() {
        into.missing.push(format!(
            "The time of day was set during {} of {} trials, which are left out.",
            trials.len() - steady.len(),
            trials.len()
        ));
    }
    let Some(first) = steady.first() else { return };
    let clocks = first.far.as_ref().map(|far| clocks(&first.near, far));
    if peer.is_ours && clocks.is_none() {
        into.missing.push(
            "The far end noted nothing; its deadheat is older than this one, which also limits \
             the near end's view to the whole round trip."
                .to_owned(),
        );
        return;
    }
    into.clocks = clocks;
    let stamped = clocks.map_or(Scheme::KernelPeer, Scheme::Stamped);
    if let Some(why) = steady.iter().find_map(|noted| unstamped(noted)) {
        into.missing.push(format!("No kernel stamps: {why}."));
    } else {
        let joined = join(&steady, stamped);
        if joined.is_complete() {
            into.round_trip = joined.sum();
            return;
        }
        into.missing.extend(why_incomplete(&joined));
    }
    // Times that the applications recorded.
    let Some(clocks) = clocks else { return };
    let joined = join(&steady, Scheme::Applications(clocks));
    into.round_trip = joined.sum();
    if into.round_trip.is_none() {
        into.missing.extend(why_incomplete(&joined));
    }
}

fn is_steady(noted: &Observations) -> bool {
    let ends = [Some(&noted.near), noted.far.as_ref()];
    ends.into_iter().flatten().all(|end| end.step_ns.unsigned_abs() <= STEP_NS)
}

fn unstamped(noted: &Observations) -> Option<&str> {
    let far = noted.far.iter().flat_map(|far| &far.flows);
    noted.near.flows.iter().chain(far).find_map(|flow| flow.unstamped.as_deref())
}

fn join(trials: &[&Observations], scheme: Scheme) -> SplitRoundTrips {
    let mut joined = SplitRoundTrips::default();
    for noted in trials {
        let none = FlowNotes::default();
        for (index, near) in noted.near.flows.iter().enumerate() {
            let far = noted.far.as_ref().and_then(|far| far.flows.get(index)).unwrap_or(&none);
            joined.add(&near.rows, &far.rows, scheme);
        }
    }
    joined
}

/// Returns the most frequent reason for incomplete round trips.
fn why_incomplete(joined: &SplitRoundTrips) -> Option<String> {
    let (missing, times) = joined.missing.iter().max_by_key(|(_, times)| **times)?;
    let of = times + joined.splits.len() as u64;
    Some(match missing {
        Missing::Partner => {
            format!("{times} of {of} round trips have no answer, or no row at the far end.")
        }
        Missing::Near(moment) => {
            format!("{times} of {of} round trips lack the near end's {}.", moment.name())
        }
        Missing::Far(moment) => {
            format!("{times} of {of} round trips lack the far end's {}.", moment.name())
        }
        Missing::Order => {
            format!("The moments of {times} of {of} round trips are in an impossible order.")
        }
    })
}
