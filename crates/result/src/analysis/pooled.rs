//! Pooled round trips of each contender, from the raw samples beside a result.

use std::collections::BTreeMap;
use std::path::Path;

use super::spread::Pool;
use crate::outcome::Outcome;
use deadheat_base::error::Result;
use deadheat_records::samples;

/// Returns the round trips of each contender over its valid trials, by its id. Reads one trial at a time, so that
/// memory holds one trial's samples only.
///
/// # Errors
/// If the file cannot be read, or is truncated.
pub fn pooled(outcome: &Outcome, file: &Path) -> Result<BTreeMap<usize, Pool>> {
    let valid: BTreeMap<(u64, u64), usize> = outcome
        .trials
        .iter()
        .filter(|trial| trial.record.valid && !trial.control)
        .map(|trial| ((trial.block, trial.order), trial.contender))
        .collect();
    let mut pools = BTreeMap::new();
    for chunk in samples::open(file)? {
        let chunk = chunk?;
        let place = chunk.place;
        let Some(contender) = valid.get(&(place.block, u64::from(place.order))) else { continue };
        if place.control || *contender != place.contender as usize {
            continue;
        }
        let Some(pool) = pools.get_mut(contender) else {
            if let Some(mut pool) = Pool::new() {
                pool.add(chunk.samples.iter().map(|sample| sample.rtt_ns));
                pools.insert(*contender, pool);
            }
            continue;
        };
        pool.add(chunk.samples.iter().map(|sample| sample.rtt_ns));
    }
    Ok(pools)
}
