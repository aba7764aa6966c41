//! Warnings about the hosts that a race ran on.

use crate::outcome::{Outcome, Warning};
use deadheat_base::figures::percent;
use deadheat_contract::measurements::Throttled;
use deadheat_records::quiet::{Disturbance, Disturber, NOISY};
use deadheat_records::trial::Record;

/// Minimum share of stolen CPU time in a trial for a warning.
const NOTABLE_STEAL: f64 = 0.01;

/// Returns the warnings about quotas, stolen time and other programs.
pub(super) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    let touched = || {
        let shares = outcome.trials.iter().filter_map(|trial| trial.record.steal_share);
        shares.filter(|share| *share > NOTABLE_STEAL)
    };
    if touched().count() > 0 {
        all.push(Warning::new(
            "steal",
            format!(
                "the hypervisor took CPU time from {} trials, up to {} of one",
                touched().count(),
                percent(touched().fold(0.0, f64::max))
            ),
            "race on a host of its own, or at a quieter time",
        ));
    }
    let quota = outcome.host.cpu_quota_milli.map(|milli| milli as f64 / 1_000.0);
    all.extend(quota.filter(|cpus| *cpus < outcome.host.cpus.len() as f64).map(|cpus| {
        Warning::new(
            "cpu_quota",
            format!(
                "a quota lets this race use {cpus:.2} CPUs on the average (cgroup, cpu.max); a program that needs more is stopped for the rest of each period"
            ),
            "run it without the quota (CPUQuota=, --cpus)",
        )
    }));
    all.extend(throttled(outcome, "this program", |record| record.throttled));
    if outcome.asked.to.is_some() {
        all.extend(throttled(outcome, "the far end", |record| record.far_throttled));
    }
    let Some(quiet) = &outcome.probe else { return all };
    if let Some(Disturbance { by: Disturber::Programs, share }) = quiet.disturbed {
        all.push(Warning::new(
            "busy_host",
            format!(
                "other programs used {} of this host's CPUs before the first block, and still did \
                 after {:.0} s of waiting",
                percent(share),
                quiet.waited_ns as f64 / 1e9
            ),
            "stop them and race again",
        ));
    }
    if let Some(scatter) = quiet.scatter.filter(|scatter| *scatter > NOISY) {
        all.push(Warning::new(
            "noisy_host",
            format!(
                "this host is unsteady: an echo between blocks, with no contender in it, varied by {} \
                 from one block to the next",
                percent(scatter)
            ),
            "stop other programs, or raise --budget: more blocks make up for noise",
        ));
    }
    all
}

/// Returns a warning of the throttling of one end by a quota, over all trials.
fn throttled(
    outcome: &Outcome,
    whom: &str,
    of: impl Fn(&Record) -> Option<Throttled>,
) -> Option<Warning> {
    let each = || outcome.trials.iter().filter_map(|trial| of(&trial.record));
    let throttled = each().reduce(Throttled::plus)?;
    let trials = each().count();
    Some(Warning::new(
        "cpu_throttled",
        format!(
            "a CPU quota held {whom} back {throttled}, in {trials} {}; messages under way waited for it",
            if trials == 1 { "trial" } else { "trials" }
        ),
        "run it without the quota (CPUQuota=, --cpus), or with a workload that needs less CPU time",
    ))
}
