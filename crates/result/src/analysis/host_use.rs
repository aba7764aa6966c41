//! Use of this host by other programs, as part of the verdicts.
//!
//! Blocks cancel what a busy host does to all contenders alike, and not what it does to one trial and not to the next. The hidden
//! copy shows how much that is: while other programs use the CPUs, a lead is greater than what identical copies differ by.

use crate::outcome::{Control, Outcome, Ratio, Verdict};
use deadheat_base::figures::{percent, times};
use deadheat_records::quiet::CALM_SHARE;
use deadheat_stats::Outcome as Ruled;

/// Begin of the sentence about the host, by which it is found in a note.
const LEAD: &str = " Meanwhile other programs used ";

/// Returns the sentence about a host that other programs used while blocks ran; `None` for a calm host, or an unknown one.
pub fn sentence(outcome: &Outcome) -> Option<String> {
    let share = outcome.probe.as_ref()?.others_share().filter(|share| *share >= CALM_SHARE)?;
    Some(format!("{} {} of the CPUs that it ran on.", LEAD.trim(), percent(share)))
}

/// Makes the host a part of each verdict, and takes a lead back that is within what identical copies differ by on a busy host.
pub fn weigh(outcome: &mut Outcome) {
    for verdict in &mut outcome.verdicts {
        if let Some(at) = verdict.note.find(LEAD) {
            verdict.note.truncate(at);
        }
    }
    let Some(said) = sentence(outcome) else { return };
    let mut verdicts = std::mem::take(&mut outcome.verdicts);
    for verdict in &mut verdicts {
        if verdict.outcome == Ruled::Ahead {
            widen(outcome, verdict);
        }
        verdict.note = format!("{} {said}", verdict.note);
    }
    outcome.verdicts = verdicts;
}

/// Takes back that a contender is ahead, unless it is by more than the copies differ by.
fn widen(outcome: &Outcome, verdict: &mut Verdict) {
    let Some(ratio) = verdict.ratio else { return };
    let copies = outcome.control.as_ref().and_then(|control| of_copies(control, &verdict.metric));
    if copies.is_some_and(|copies| least(ratio) > most(copies)) {
        return;
    }
    let name = |id: usize| outcome.contenders.get(id).map_or("?", |entrant| &entrant.label);
    let metric = outcome.metrics.iter().find(|metric| metric.name == verdict.metric);
    let metric = metric.map_or(verdict.metric.as_str(), |metric| &metric.label);
    let differ = match copies {
        Some(copies) => format!(
            "identical copies differed by as much ({} to {})",
            times(copies.low),
            times(copies.high)
        ),
        None => "nothing shows what identical copies differ by".to_owned(),
    };
    verdict.note = format!(
        "{} and {}: undecided, {metric} ratio {}, {} to {}: on a busy host that is no lead, as {differ}.",
        name(verdict.a),
        name(verdict.b),
        times(ratio.point),
        times(ratio.low),
        times(ratio.high)
    );
    (verdict.direction, verdict.outcome) = (verdict.ahead.take(), Ruled::Undecided);
}

fn of_copies(control: &Control, metric: &str) -> Option<Ratio> {
    control.verdicts.iter().find(|verdict| verdict.metric == metric)?.ratio
}

/// Returns the logarithm of the least change in an interval; 0 or less if it has 1 in it.
fn least(ratio: Ratio) -> f64 {
    ratio.low.ln().max(-ratio.high.ln())
}

/// Returns the logarithm of the greatest change in an interval, either way.
fn most(ratio: Ratio) -> f64 {
    (-ratio.low.ln()).max(ratio.high.ln())
}
