//! Line under the title: the workload of the contenders, where, and for how long.

use crate::host::idle::Idle;
use crate::host::placement::Placement;
use crate::path::PathKind;
use crate::report::content::{blocks_done, entered};
use crate::report::{factors, imported, words};
use crate::result::outcome::Outcome;
use crate::spec::Spec;
use crate::time::Nanos;
use crate::units;

/// Returns the subtitle: `64-byte ping, 1000/s, loopback on two cores · 93 blocks in 35 s`.
pub(in crate::report) fn subtitle(outcome: &Outcome) -> String {
    if let Some(subtitle) = imported::subtitle(outcome) {
        return subtitle;
    }
    let mut place = path(outcome);
    if let Some(placement) = placement(outcome) {
        place.push_str(&format!(" {placement}"));
        if outcome.plan.idle.as_deref() == Some(Idle::Awake.name()) {
            place.push_str(" kept awake");
        }
    }
    let mut parts = vec![format!("{}, {place}", workload(outcome))];
    if outcome.asked.as_deployed {
        parts.push("as deployed".to_owned());
    }
    if outcome.title.is_some() {
        parts.insert(0, entered(outcome));
    }
    if factors::vary(outcome) {
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

/// Returns the workload in words: `64-byte ping, 1000/s`.
fn workload(outcome: &Outcome) -> String {
    let typed = outcome.plan.workload.as_ref().unwrap_or(&outcome.asked.workload);
    let Ok(spec) = Spec::parse(typed) else { return typed.clone() };
    let value = |key: &str| {
        let mut options = spec.options.iter();
        options.find(|(name, value)| name == key && !value.is_empty()).map(|(_, v)| v.as_str())
    };
    let mut text = spec.name.clone();
    if let Some(size) = value("size") {
        let is_bare = size.bytes().all(|digit| digit.is_ascii_digit());
        text = format!("{size}{} {text}", if is_bare { "-byte" } else { "" });
    }
    if let Some(bytes) = value("bytes") {
        text.push_str(&format!(" of {bytes}"));
    }
    if let Some(receivers) = value("receivers") {
        text.push_str(&format!(" to each of {receivers}"));
    }
    if let Some(interval) = value("interval") {
        text.push_str(&format!(", {}", pace(interval)));
    }
    if let Some(window) = value("window") {
        text.push_str(&format!(", {window} under way at a time"));
    }
    if let Some(rate) = value("rate") {
        text.push_str(&format!(" at {rate}"));
    }
    text
}

/// Returns the pace: `1000/s`, or `one every 20ms` if that is less than a hundred a second.
fn pace(interval: &str) -> String {
    match units::parse_span(interval) {
        Ok(Nanos(ns @ 1..=10_000_000)) if 1_000_000_000 % ns == 0 => {
            format!("{}/s", 1_000_000_000 / ns)
        }
        _ => format!("one every {interval}"),
    }
}

fn path(outcome: &Outcome) -> String {
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
    Some(match Placement::parse(&outcome.plan.placement).ok()? {
        Placement::SameCore => "on one core".into(),
        Placement::CrossCore => "on two cores".into(),
        Placement::Busy => "on two cores that never sleep".into(),
        Placement::Host => "wherever the host places it".into(),
        Placement::Cpus(near, far) => format!("on CPUs {near} and {far}"),
        Placement::Virtual => "in virtual time".into(),
    })
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

#[cfg(test)]
mod tests {
    use super::pace;

    #[test]
    fn a_pace_is_a_rate_where_that_is_a_round_number() {
        assert_eq!(pace("1ms"), "1000/s");
        assert_eq!(pace("20ms"), "one every 20ms");
        assert_eq!(pace("300us"), "one every 300us");
        assert_eq!(pace("x"), "one every x");
    }
}
