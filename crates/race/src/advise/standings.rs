//! Places of the candidates by the verdicts of the races so far.

use super::candidate::Candidate;
use super::course::{self, AdviceCourse};
use super::plan::{Plan, PlanEntry};
use super::rank;
use deadheat_contract::measurements::Better;
use deadheat_datapath::transport::Contender;
use deadheat_records::trial::Record;
use deadheat_result::advise::outcome::{
    ContenderFigure, Purpose, RankedContender, VerdictEvidence,
};
use deadheat_result::advise::search::Lead;
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::{Outcome, Summary};
use deadheat_stats::quantile;

/// Returns the relevant verdict on two candidates: of the most important traffic in which they differ.
fn between(course: &AdviceCourse<'_>, a: &Candidate, b: &Candidate) -> Option<VerdictEvidence> {
    let of = |(at, entry): (usize, &PlanEntry)| {
        let (x, y) = (a.carries[at].as_ref()?, b.carries[at].as_ref()?);
        let named = |evidence: VerdictEvidence| VerdictEvidence {
            first: a.name.clone(),
            second: b.name.clone(),
            ..evidence
        };
        course.verdict(entry, x, y).map(named).map(|evidence| (evidence.lead, evidence))
    };
    let found = course.plan.entries.iter().enumerate().filter_map(of);
    rank::first(found).map(|(_, evidence)| evidence)
}

/// Returns the places of candidates that carry all traffic, the best first, each with its figure and the verdict on
/// it and the first. A place needs a verdict about the claimed figure of the most important traffic.
pub(super) fn places(plan: &Plan, course: &AdviceCourse<'_>) -> Vec<RankedContender> {
    let eligible: Vec<&Candidate> = plan.eligible().collect();
    let first = &plan.entries[0];
    let ranked: Vec<&Candidate> = if eligible.is_empty() {
        plan.candidates.iter().filter(|one| one.carries[0].is_some()).collect()
    } else {
        eligible
    };
    let all = &first.considered.contenders;
    let is_compared = |one: &&Candidate| {
        let Some(typed) = &one.carries[0] else { return false };
        all.len() == 1 || all.iter().any(|other| course.verdict(first, typed, other).is_some())
    };
    let ranked: Vec<&Candidate> = ranked.into_iter().filter(is_compared).collect();
    let ahead = |a: usize, b: usize| {
        let found = between(course, ranked[a], ranked[b]);
        found.is_some_and(|evidence| evidence.lead == Lead::First)
    };
    let placed = rank::places(ranked.len(), ahead);
    let mut all: Vec<(&Candidate, RankedContender)> = ranked
        .iter()
        .zip(placed)
        .map(|(one, place)| {
            let placed = RankedContender {
                contender: one.name.clone(),
                carries: one.carries.iter().flatten().cloned().collect(),
                place,
                needs_udp: needs_udp(one),
                figure: figure(course, one),
                against: None,
            };
            (*one, placed)
        })
        .collect();
    // Within a place, one connection precedes two, then the better figure precedes.
    all.sort_by(|(one, a), (other, b)| {
        let key = |placed: &RankedContender| {
            placed.figure.as_ref().map_or(f64::INFINITY, |figure| match figure.metric.better {
                Better::Lower => figure.estimate,
                Better::Higher => -figure.estimate,
            })
        };
        let order = (a.place, one.connections).cmp(&(b.place, other.connections));
        order.then(key(a).total_cmp(&key(b)))
    });
    let listed: Vec<&Candidate> = all.iter().map(|(one, _)| *one).collect();
    for (at, (one, placed)) in all.iter_mut().enumerate().skip(1) {
        let on = |other: &Candidate| between(course, other, one);
        let ahead =
            || listed[1..at].iter().filter_map(|one| on(one)).find(|by| by.lead == Lead::First);
        placed.against = on(listed[0]).or_else(ahead);
    }
    all.into_iter().map(|(_, placed)| placed).collect()
}

/// Returns true if a part of a candidate goes over UDP; `None` if a part cannot be parsed.
fn needs_udp(candidate: &Candidate) -> Option<bool> {
    let parts = candidate.carries.iter().flatten().map(|typed| Contender::parse(typed).ok());
    let parts: Option<Vec<Contender>> = parts.collect();
    Some(parts?.iter().any(|part| part.transport.info().is_over_udp))
}

/// Returns the median of a figure over a contender's valid trials.
fn over_trials(outcome: &Outcome, id: usize, of: fn(&Record) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> =
        valid_trials(outcome, id).filter_map(|trial| of(&trial.record)).collect();
    quantile::median(&values)
}

fn wire_ratio(record: &Record) -> Option<f64> {
    let delivered = record.delivered_bytes.filter(|bytes| *bytes > 0)?;
    Some(record.wire?.bytes as f64 / delivered as f64)
}

fn cpu_ns(record: &Record) -> Option<f64> {
    let messages = record.ledger.accounts().filter(|(_, account)| account.unit == "messages");
    let delivered: u64 = messages.map(|(_, account)| account.delivered).sum();
    let used = record.cost.working_ns() + record.far_cost.as_ref()?.working_ns();
    (delivered > 0).then(|| used as f64 / delivered as f64)
}

/// Returns the figure of a candidate in the most important traffic in which it has one.
fn figure(course: &AdviceCourse<'_>, candidate: &Candidate) -> Option<ContenderFigure> {
    let entries = course.plan.entries.iter().zip(&candidate.carries);
    let mut entries = entries.filter_map(|(entry, typed)| Some((entry, typed.as_ref()?)));
    entries.find_map(|(entry, typed)| {
        let considered = &entry.considered;
        let of = |purpose| course.of(&considered.name, purpose);
        let races = of(Purpose::Comparison).chain(of(Purpose::Screening));
        races.filter(|(_, outcome)| outcome.trusted()).find_map(|(ran, outcome)| {
            let label = course::label(ran, entry, typed)?;
            let id = outcome.contenders.iter().find(|one| one.label == label)?.id;
            let is_it =
                |one: &&Summary| one.contender == id && one.metric == considered.metric.name;
            let summary = outcome.summary.iter().find(is_it)?;
            Some(ContenderFigure {
                traffic: considered.name.clone(),
                metric: considered.metric.clone(),
                estimate: summary.estimate,
                low: summary.low,
                high: summary.high,
                limit_ns: considered.limit_ns,
                wire_ratio: over_trials(outcome, id, wire_ratio),
                cpu_ns: over_trials(outcome, id, cpu_ns).filter(|_| !ran.is_virtual),
                file: ran.file.clone()?,
                is_virtual: ran.is_virtual,
            })
        })
    })
}
