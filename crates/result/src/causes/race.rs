//! Causes of a race's contenders, and the cause that makes the difference between two.

use super::judge::judge_all;
use super::record::SignReader;
use super::signs::{MessageSigns, Signs, WorkKind};
use super::table::HELD_BACK;
use super::{Cause, ContenderCauses, Evidence, Finding, SignSource, TestOutcome};
use crate::analysis::spread::valid_trials;
use crate::explained::Explanation;
use crate::outcome::{Entrant, Outcome, Verdict};
use deadheat_records::parts::{Part, RoundTrip};
use deadheat_stats as stats;

/// Ratio of two figures that count as alike.
const ALIKE: f64 = 1.25;
/// Difference of two shares that count as alike.
const ALIKE_SHARE: f64 = 0.25;

/// Least difference of two overheads that counts, as a part of the rate.
const HEAVIER: f64 = 0.005;

/// Derives the causes of all contenders from their trials, and from the instrumented pass where there was one. What a
/// test of a cause showed stays.
pub fn refresh(outcome: &mut Outcome) {
    let before = std::mem::take(&mut outcome.causes);
    outcome.causes = causes(outcome);
    keep_tests(&before, &mut outcome.causes);
}

/// Copies the tests of the causes `before` to the same causes `now`.
pub(super) fn keep_tests(before: &[ContenderCauses], now: &mut [ContenderCauses]) {
    for own in now {
        let earlier = before.iter().filter(|earlier| earlier.contender == own.contender);
        let tested: Vec<&Finding> = earlier.flat_map(|earlier| &earlier.findings).collect();
        for finding in &mut own.findings {
            let same = tested.iter().find(|earlier| earlier.cause == finding.cause);
            finding.test = same.and_then(|earlier| earlier.test.clone());
        }
    }
}

fn causes(outcome: &Outcome) -> Vec<ContenderCauses> {
    let Some(race) = SignReader::of(outcome) else { return Vec::new() };
    let own = |entrant: &Entrant| {
        let mut all: Vec<Signs> =
            valid_trials(outcome, entrant.id).flat_map(|trial| race.signs(&trial.record)).collect();
        let explained = outcome.explain.iter().flat_map(|pass| &pass.contenders);
        let explained = explained.filter(|one| one.contender == entrant.id);
        all.extend(explained.filter_map(of_round_trip));
        ContenderCauses { contender: entrant.id, findings: judge_all(&all) }
    };
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing() && !entrant.floor);
    let mut all: Vec<ContenderCauses> = racing.map(own).collect();
    for own in &mut all {
        add_pass(outcome, own);
    }
    all.retain(|own| !own.findings.is_empty());
    all
}

/// Adds what the instrumented pass proved of bulk data, and the usual trials did not.
fn add_pass(outcome: &Outcome, own: &mut ContenderCauses) {
    let explained = outcome.explain.iter().flat_map(|pass| &pass.contenders);
    let explained = explained.filter(|one| one.contender == own.contender);
    let found: Vec<Finding> =
        explained.flat_map(|one| &one.moving).flat_map(|moving| moving.causes.clone()).collect();
    for one in found {
        let is_known = own.findings.iter().any(|known| known.cause == one.cause);
        if !is_known {
            own.findings.push(one);
        }
    }
    own.findings.sort_by(|a, b| b.share.total_cmp(&a.share));
}

/// Returns the signs in the parts of a round trip; `None` without any.
fn of_round_trip(explained: &Explanation) -> Option<Signs> {
    let RoundTrip { parts, total_ns, .. } = explained.round_trip.as_ref()?;
    let sum = |wanted: &[Part]| {
        parts.iter().filter(|time| wanted.contains(&time.part)).map(|time| time.ns).sum()
    };
    let messages = MessageSigns {
        claimed_ns: *total_ns,
        far_program_ns: sum(&[Part::FarApplication]),
        wake_up_ns: sum(&[Part::FarWake, Part::NearWake]),
        ..MessageSigns::default()
    };
    (*total_ns > 0.0).then(|| Signs {
        source: SignSource::Pass,
        work: WorkKind::Messages,
        messages: Some(messages),
        ..Signs::default()
    })
}

/// Causes of a verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum VerdictCause<'a> {
    /// Cause that holds the one back that is behind, and not the other one.
    Difference {
        /// Id of the contender that is behind.
        behind: usize,
        /// The cause.
        finding: &'a Finding,
        /// The same cause at the other one, where it is smaller.
        other: Option<&'a Finding>,
    },
    /// Cause that holds both back alike.
    Shared(&'a Finding),
}

/// Returns the cause of a verdict; `None` if it is not known, or if the verdict is open.
pub fn of_verdict<'a>(outcome: &'a Outcome, verdict: &Verdict) -> Option<VerdictCause<'a>> {
    let of = |id: usize| {
        outcome.causes.iter().find(|own| own.contender == id).map_or(&[][..], |own| &own.findings)
    };
    match (verdict.outcome, verdict.ahead) {
        (stats::Outcome::Ahead, Some(ahead)) => {
            let behind = if ahead == verdict.a { verdict.b } else { verdict.a };
            difference(behind, of(behind), of(ahead))
        }
        (stats::Outcome::DeadHeat, _) => shared(of(verdict.a), of(verdict.b)),
        _ => None,
    }
}

/// Returns the contender that is behind by a verdict, and the cause that holds it back and not the other one, or not as
/// much; `None` if it is not known.
pub fn of_difference<'a>(outcome: &'a Outcome, verdict: &Verdict) -> Option<(usize, &'a Finding)> {
    match of_verdict(outcome, verdict)? {
        VerdictCause::Difference { behind, finding, .. } => Some((behind, finding)),
        VerdictCause::Shared(_) => None,
    }
}

fn difference<'a>(
    behind: usize,
    own: &'a [Finding],
    others: &'a [Finding],
) -> Option<VerdictCause<'a>> {
    let largest = own.first()?;
    let of_other = |finding: &Finding| others.iter().find(|other| other.cause == finding.cause);
    let finding = own.iter().find(|finding| {
        let is_small =
            finding.share < HELD_BACK.min(largest.share) || finding.cause == Cause::Overhead;
        let is_withdrawn =
            finding.test.as_ref().is_some_and(|test| test.result == TestOutcome::Withdrawn);
        !is_small && !is_withdrawn && of_other(finding).is_none_or(|other| is_worse(finding, other))
    });
    match finding.or_else(|| heavier(own, others)) {
        Some(finding) => {
            Some(VerdictCause::Difference { behind, finding, other: of_other(finding) })
        }
        None => shared(own, others),
    }
}

/// Returns the overhead of the contender that is behind; `None` unless both have the path's rate, and the overhead takes
/// more of it than the time in which that contender left the path idle.
fn heavier<'a>(own: &'a [Finding], others: &[Finding]) -> Option<&'a Finding> {
    let ours = own.iter().find(|one| one.cause == Cause::Overhead)?;
    let share =
        |of: &[Finding], cause| of.iter().find(|one| one.cause == cause).map(|one| one.share);
    let other = share(others, Cause::Overhead)?;
    let idle = share(others, Cause::PathRate)? - share(own, Cause::PathRate)?;
    let taken = (ours.share - other) / (1.0 - other);
    (taken >= HEAVIER && taken > idle).then_some(ours)
}

fn shared<'a>(own: &'a [Finding], others: &[Finding]) -> Option<VerdictCause<'a>> {
    let (first, other) = (own.first()?, others.first()?);
    (first.cause == other.cause && !is_worse(first, other) && !is_worse(other, first))
        .then_some(VerdictCause::Shared(first))
}

/// Returns true if the same cause holds the one back more than the other.
fn is_worse(one: &Finding, other: &Finding) -> bool {
    let (own, others) = (&one.evidence, &other.evidence);
    match one.cause {
        // Both have what the path carries, and the same distance.
        Cause::PathRate | Cause::PathDelay if one.evidence.lost_share.is_none() => false,
        Cause::Handshake => {
            let rounds = |evidence: &Evidence| evidence.round_trips.unwrap_or(0.0).round();
            rounds(own) > rounds(others)
        }
        _ => match (own.bytes, others.bytes) {
            (Some(own), Some(others)) => own as f64 * ALIKE < others as f64,
            _ => one.share > other.share + ALIKE_SHARE,
        },
    }
}
