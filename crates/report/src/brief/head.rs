//! Line under the title: the workload, the place, and the duration of the race.

use crate::names::entered;
use crate::totals::blocks_done;
use crate::{imported, names, words};
use deadheat_base::time::Nanos;
use deadheat_path::PathKind;
use deadheat_records::idle::Idle;
use deadheat_records::placement::Placement;
use deadheat_result::analysis::headline::headline;
use deadheat_result::outcome::Outcome;

/// Returns the subtitle: `64-byte ping, 1000/s, loopback on two cores · 93 blocks in 35 s`.
pub(crate) fn subtitle(outcome: &Outcome) -> String {
    if let Some(subtitle) = imported::subtitle(outcome) {
        return subtitle;
    }
    let mut place = place(outcome);
    if let Some(placement) = placement(outcome) {
        place.push_str(&format!(" {placement}"));
        if outcome.plan.idle.as_deref() == Some(Idle::Awake.name()) {
            place.push_str(" kept awake");
        }
    }
    let mut parts = vec![format!("{}, {place}", headline(outcome))];
    if outcome.asked.as_deployed {
        parts.push("as deployed".to_owned());
    }
    if outcome.title.is_some() {
        parts.insert(0, entered(outcome));
    }
    if names::vary(outcome) {
        let cells = outcome.contenders.iter().filter_map(|entrant| entrant.cell.as_ref());
        let mut combinations: Vec<_> = cells.map(|cell| &cell.levels).collect();
        combinations.sort_unstable();
        combinations.dedup();
        parts.push(words::count(combinations.len() as u64, "combination"));
    }
    let blocks = words::count(blocks_done(outcome), "block");
    let span = span(outcome).map_or_else(String::new, |span| format!(" in {}", words::span(span)));
    parts.push(format!("{blocks}{span}"));
    parts.join(" · ")
}

/// Returns the path of a race in words: `loopback`, `over delay=10ms`, `to host.example`.
pub fn place(outcome: &Outcome) -> String {
    let spec = &outcome.path.spec;
    match outcome.path.kind {
        PathKind::Remote => format!("to {spec}"),
        PathKind::Emulated => format!("over {spec}"),
        PathKind::Simulated => format!("simulated over {spec}"),
        PathKind::Loopback | PathKind::Imported => spec.clone(),
    }
}

fn placement(outcome: &Outcome) -> Option<String> {
    let mut cells = outcome.contenders.iter().filter_map(|entrant| entrant.cell.as_ref());
    if cells.any(|cell| cell.placement.is_some()) {
        return None;
    }
    let placement = Placement::parse(&outcome.plan.placement).ok()?;
    if outcome.path.kind == PathKind::Remote {
        return Some(near_placement(&placement));
    }
    Some(match placement {
        Placement::SameCore => "on one core".into(),
        Placement::CrossCore => "on two cores".into(),
        Placement::Busy => "on two cores that never sleep".into(),
        Placement::Host => "wherever the host places it".into(),
        Placement::Cpus(near, far) => format!("on CPUs {near} and {far}"),
        Placement::Virtual => "in virtual time".into(),
    })
}

/// Returns the placement of the end on this host; the server places the other one.
fn near_placement(placement: &Placement) -> String {
    match placement {
        Placement::SameCore | Placement::CrossCore => "from one core".into(),
        Placement::Busy => "from one core that never sleeps".into(),
        Placement::Host => "wherever the host places it".into(),
        Placement::Cpus(near, _) => format!("from CPU {near}"),
        Placement::Virtual => "in virtual time".into(),
    }
}

/// Returns the time from the first trial's start to the last one's end; `None` if no clock ran.
fn span(outcome: &Outcome) -> Option<Nanos> {
    let starts = outcome.trials.iter().map(|trial| trial.record.started_ms).filter(|at| *at > 0);
    let end = |ms: u64, took: u64| ms.saturating_mul(1_000_000).saturating_add(took);
    let ends =
        outcome.trials.iter().map(|trial| end(trial.record.started_ms, trial.record.took_ns));
    let first = starts.min()?.saturating_mul(1_000_000);
    let span = ends.max()?.checked_sub(first)?;
    (span > 0 && outcome.path.kind != PathKind::Simulated).then_some(Nanos(span))
}
