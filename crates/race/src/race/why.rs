//! Causes that are tested by changing them at our ends: a race of the contender that is behind against itself with one
//! setting changed.

use deadheat_base::error::Result;
use deadheat_base::spec::Spec;
use deadheat_datapath::transport::Contender;
use deadheat_result::causes::race::of_difference;
use deadheat_result::causes::{Cause, CauseTest, TestOutcome};
use deadheat_result::outcome::Outcome;
use deadheat_stats as stats;

use super::{Request, resume};

/// Settings that change a cause, the first that a contender knows counts.
const CHANGES: [(Cause, &[(&str, &str)]); 8] = [
    (Cause::ReceiveWindow, &[("rcvbuf", "8MB")]),
    (Cause::SendBuffer, &[("sndbuf", "8MB")]),
    (Cause::LibraryWindow, &[("window", "16MB")]),
    (Cause::CongestionWindow, &[("cc", "bbr")]),
    (Cause::Pacing, &[("pace", "1tbit")]),
    (Cause::SenderCpu, &[("io", "gso"), ("io", "sendfile")]),
    (Cause::Nagle, &[("nodelay", "on")]),
    (Cause::ReceiverSocket, &[("rcvbuf", "8MB")]),
];

/// Most blocks of a test, which ends with its verdict.
const BLOCKS: u64 = 12;

/// Test of a cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Id of the contender that is behind.
    pub contender: usize,
    /// Cause that is tested.
    pub cause: Cause,
    /// Change: `rcvbuf=8MB`.
    pub change: String,
    /// Race of the contender as it was, and as changed.
    pub request: Request,
}

/// Returns the tests of the causes that make a difference in a race, one for each contender that is behind.
///
/// # Errors
/// As [`resume::replay`].
pub fn experiments(outcome: &Outcome) -> Result<Vec<Experiment>> {
    let mut all: Vec<Experiment> = Vec::new();
    for verdict in &outcome.verdicts {
        let Some((behind, finding)) = of_difference(outcome, verdict) else { continue };
        if all.iter().any(|test| test.contender == behind) {
            continue;
        }
        all.extend(experiment(outcome, behind, finding.cause)?);
    }
    Ok(all)
}

fn experiment(outcome: &Outcome, contender: usize, cause: Cause) -> Result<Option<Experiment>> {
    let Some(entrant) = outcome.contenders.get(contender) else { return Ok(None) };
    let changes = CHANGES.iter().filter(|(of, _)| *of == cause).flat_map(|(_, changes)| *changes);
    for (name, value) in changes {
        let Ok(mut spec) = Spec::parse(&entrant.spec) else { continue };
        spec.options.retain(|(key, _)| key != name);
        spec.options.push(((*name).to_owned(), (*value).to_owned()));
        let changed = spec.to_string();
        if changed == entrant.spec || Contender::parse(&changed).is_err() {
            continue;
        }
        let mut request = resume::replay(outcome)?;
        request.plan = None;
        request.asked.contenders = vec![entrant.spec.clone(), changed];
        request.asked.explain = false;
        request.asked.blocks = Some(BLOCKS);
        request.asked.budget_ns = None;
        let change = format!("{name}={value}");
        return Ok(Some(Experiment { contender, cause, change, request }));
    }
    Ok(None)
}

/// Notes the result of a test beside its cause.
pub fn conclude(outcome: &mut Outcome, test: &Experiment, tested: &Outcome) {
    let Some(verdict) = tested.verdicts.first().filter(|_| tested.trusted()) else { return };
    let result = match (verdict.outcome, verdict.ahead) {
        (stats::Outcome::Ahead, Some(1)) => TestOutcome::Confirmed,
        (stats::Outcome::Ahead | stats::Outcome::DeadHeat, _) => TestOutcome::Withdrawn,
        (stats::Outcome::Undecided, _) => TestOutcome::Open,
    };
    let ratio = verdict.ratio.map(|ratio| 1.0 / ratio.point);
    let own = outcome.causes.iter_mut().filter(|own| own.contender == test.contender);
    for finding in own.flat_map(|own| &mut own.findings).filter(|one| one.cause == test.cause) {
        finding.test = Some(CauseTest { change: test.change.clone(), result, ratio });
    }
}
