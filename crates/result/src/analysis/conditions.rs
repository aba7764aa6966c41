//! Conditions that differ between old and new races: they alone may explain a change of a figure.

use std::time::{Duration, SystemTime};

use crate::date::parse_rfc3339;
use crate::outcome::{Outcome, Status, Warning};
use deadheat_base::figures::list;
use deadheat_records::host::HostFacts;

use super::kind::family;

const DAY: Duration = Duration::from_secs(86_400);

/// Codes of differences that make figures answer different questions.
const QUESTIONS: [&str; 6] = [
    "workload_differs",
    "path_differs",
    "family_differs",
    "quantiles_differ",
    "contender_differs",
    "setting_differs",
];

/// Returns true if the figures of both sides answer different questions, so that their ratio is no change.
pub fn is_other_question(warning: &Warning) -> bool {
    QUESTIONS.contains(&warning.code.as_str())
}

/// A condition of a race.
struct Condition {
    code: &'static str,
    name: String,
    value: String,
}

/// Returns warnings about conditions that differ between old and new races, and about other reasons against a
/// comparison.
pub fn warnings(old: &[&Outcome], new: &[&Outcome]) -> Vec<Warning> {
    let all = |races: &[&Outcome]| -> Vec<Vec<Condition>> {
        races.iter().map(|race| conditions(race)).collect()
    };
    let (before, after) = (all(old), all(new));
    let mut named: Vec<(&'static str, &str)> = Vec::new();
    for condition in before.iter().chain(&after).flatten() {
        if !named.contains(&(condition.code, &condition.name)) {
            named.push((condition.code, &condition.name));
        }
    }
    let mut warnings = Vec::new();
    for (code, name) in named {
        let [a, b] = [&before, &after].map(|side| values(side, code, name));
        // A contender missing on one side has no conditions there.
        let is_known = !a.is_empty() && !b.is_empty();
        if is_known && (a != b || a.len() > 1) {
            warnings.push(differs(code, name, &a, &b));
        }
    }
    warnings.extend(short_baseline(old, new));
    for (which, races) in [("old", old), ("new", new)] {
        warnings.extend(unfit(which, races));
    }
    warnings
}

/// Returns a warning if several old runs were made within a short time, long before the new ones: days may differ
/// by more than minutes do.
fn short_baseline(old: &[&Outcome], new: &[&Outcome]) -> Option<Warning> {
    let starts = |races: &[&Outcome]| -> Option<Vec<SystemTime>> {
        let mut starts: Vec<SystemTime> =
            races.iter().map(|race| parse_rfc3339(&race.started)).collect::<Option<_>>()?;
        starts.sort_unstable();
        Some(starts)
    };
    let (before, after) = (starts(old)?, starts(new)?);
    let [first, .., last] = before[..] else { return None };
    let span = last.duration_since(first).ok()?;
    let later = after.first()?.duration_since(last).ok()?;
    let is_short = later > DAY && later > 2 * span;
    is_short.then(|| Warning::new(
        "baseline_short",
        format!(
            "The {} old runs were made within {}, and the new one {} later: what differs from day to day is not known.",
            old.len(),
            roughly(span),
            roughly(later)
        ),
        "A change may be this alone; spread the old runs over days.",
    ))
}

/// Formats a duration in its largest unit.
fn roughly(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    let (number, unit) = match minutes {
        0..120 => (minutes.max(1), "minute"),
        120..2_880 => (minutes / 60, "hour"),
        _ => (minutes / 1_440, "day"),
    };
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

/// Returns the distinct values of a condition in the races of one side.
fn values<'a>(side: &'a [Vec<Condition>], code: &str, name: &str) -> Vec<&'a str> {
    let mut values: Vec<&str> = Vec::new();
    for race in side {
        let own = race.iter().find(|condition| condition.code == code && condition.name == name);
        let value = own.map(|condition| condition.value.as_str());
        values.extend(value.filter(|value| !values.contains(value)));
    }
    values
}

fn differs(code: &str, name: &str, before: &[&str], after: &[&str]) -> Warning {
    let listed = |values: &[&str]| {
        let values = values.iter().map(|value| if value.is_empty() { "unknown" } else { value });
        list(&values.collect::<Vec<_>>())
    };
    Warning::new(
        code,
        format!("The {name} differs: {} before, {} now.", listed(before), listed(after)),
        if QUESTIONS.contains(&code) {
            "The figures answer different questions; race again with the same."
        } else {
            "A change may be this alone; race again where nothing else differs."
        },
    )
}

/// Returns the conditions of a race that may affect its figures.
fn conditions(race: &Outcome) -> Vec<Condition> {
    let mut all = Vec::new();
    let mut is = |code, name: &str, value: String| {
        all.push(Condition { code, name: name.to_owned(), value });
    };
    is("workload_differs", "workload", race.asked.workload.clone());
    is("path_differs", "path", path(race));
    if let Some(family) = family(race) {
        is("family_differs", "IP version", format!("IPv{family}"));
    }
    is("placement_differs", "placement", race.plan.placement.clone());
    if let Some(idle) = &race.plan.idle {
        is("idle_differs", "state of idle CPUs", idle.clone());
    }
    is("quantiles_differ", "definition of quantiles", race.plan.quantile_definition.clone());
    is("version_differs", "version of deadheat", race.deadheat.version.clone());
    for (name, value) in host_facts(&race.host) {
        is("host_differs", &name, value);
    }
    let far = race.peer_host.clone().unwrap_or_default();
    for (name, value) in host_facts(&far) {
        is("far_host_differs", &format!("far {name}"), value);
    }
    for contender in &race.contenders {
        let label = &contender.label;
        let implementation = contender.implementation.clone();
        is("implementation_differs", &format!("implementation of {label}"), implementation);
        is("contender_differs", &format!("spec behind the label {label}"), contender.spec.clone());
        for (key, value) in contender.asked.iter().filter(|(_, value)| !value.is_empty()) {
            is("setting_differs", &format!("setting {key} of {label}"), value.clone());
        }
    }
    all
}

fn path(outcome: &Outcome) -> String {
    let mut text = format!("{} ({}", outcome.path.spec, outcome.path.kind);
    if let Some(built) = &outcome.path.built {
        // The same path text may be built in other ways, and a file name in it may refer to changed contents.
        text.push_str(&format!(", {}, {}", built.backend, built.grouping));
        let ways = built.links.iter().flat_map(|link| [&link.up, &link.down]);
        let mut traces: Vec<_> = ways.filter_map(|way| way.trace.as_ref()).collect();
        traces.dedup();
        for trace in traces {
            text.push_str(&format!(", {} of SHA-256 {}", trace.file, trace.sha256));
        }
    }
    text.push(')');
    text
}

/// Returns the facts of a host that may affect a figure.
fn host_facts(host: &HostFacts) -> Vec<(String, String)> {
    let text = |fact: &Option<String>| fact.clone().unwrap_or_default();
    let facts = [
        ("host", host.hostname.clone()),
        ("kernel", host.kernel.clone()),
        ("architecture", host.arch.clone()),
        ("CPU model", host.cpu_model.clone()),
        ("number of CPUs", host.cpus.len().to_string()),
        ("frequency governor", text(&host.governor)),
        ("virtualisation", text(&host.virtualisation)),
        ("clock source", text(&host.clock_source)),
        ("idle driver", text(&host.idle_driver)),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
    let sysctls = host.sysctls.iter();
    facts.chain(sysctls.map(|(name, value)| (format!("sysctl {name}"), value.clone()))).collect()
}

/// Returns warnings about races of a side that are unfit for a comparison.
fn unfit(which: &str, races: &[&Outcome]) -> Vec<Warning> {
    let count = |is: fn(&Outcome) -> bool| races.iter().filter(|race| is(race)).count();
    let untrusted = count(|race| !race.trusted());
    let unfinished =
        count(|race| race.trusted() && matches!(race.status, Status::Running | Status::Failed));
    let subject = |count: usize| match races.len() {
        1 => format!("The {which} race"),
        all => format!("{count} of the {all} {which} races"),
    };
    let verb = |count: usize, one: &'static str, more: &'static str| {
        if races.len() == 1 || count == 1 { one } else { more }
    };
    let mut warnings = Vec::new();
    if untrusted > 0 {
        warnings.push(Warning::new(
            "race_not_trusted",
            format!("{} {} not trusted.", subject(untrusted), verb(untrusted, "is", "are")),
            "Its report says why; race again before believing a change.",
        ));
    }
    if unfinished > 0 {
        warnings.push(Warning::new(
            "race_not_finished",
            format!("{} did not come to an end.", subject(unfinished)),
            "Fewer blocks leave more undecided; resume it or race again.",
        ));
    }
    warnings
}
