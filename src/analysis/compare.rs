//! Comparison of two saved races: did anything change?
//!
//! The trials of two races are independent samples, not pairs, and are judged as such
//! (`independent.rs`). Drift of the machine between the races counts as change, which no test can tell
//! apart; the warnings say what else differs.

use serde::Serialize;

use super::independent::{Figures, Samples};
use crate::analysis::independent::RankTest;
use crate::error::{Error, Result};
use crate::host::facts::HostFacts;
use crate::measurements::{Better, Metric, Role};
use crate::result::outcome::{Outcome, Ratio, Status, Warning};
use crate::stats;
use crate::trial::sim;

/// Comparison of each contender between two races.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Start times of the two races: old, new.
    pub started: [String; 2],
    /// Rows, one for each contender and metric that are in both races.
    pub rows: Vec<Row>,
    /// Labels of contenders that only the old race has.
    pub only_old: Vec<String>,
    /// Labels of contenders that only the new race has.
    pub only_new: Vec<String>,
    /// Differences between the races other than the figures.
    pub warnings: Vec<Warning>,
}

/// Comparison of one contender under one metric, old and new.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The contender's label.
    pub contender: String,
    /// The metric.
    pub metric: Metric,
    /// The medians over trials as the races gave them: old, new.
    pub estimates: [Option<f64>; 2],
    /// Valid trials that have this metric: old, new.
    pub trials: [u64; 2],
    /// True if any figure is censored at the timeout, so that the ratio is not exact.
    pub censored: bool,
    /// Ratio of new to old; absent if a figure is not positive or trials are too few for the level.
    pub ratio: Option<Ratio>,
    /// The level of the ratio's interval, as a fraction.
    pub confidence: f64,
    /// The margin, as a fraction: the larger of the two races'.
    pub margin: f64,
    /// Change; absent for a descriptive metric, about which no claim is made.
    pub change: Option<Change>,
}

/// Change of a contender under a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Better, by more than the margin as far as the estimate goes.
    ChangedBetter,
    /// Worse, by more than the margin as far as the estimate goes.
    ChangedWorse,
    /// The interval lies within the margin.
    Same,
    /// Neither can be said from these trials.
    Undecided,
}

impl Comparison {
    /// Returns true if any contender got worse, for a gate.
    pub fn is_worse(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.change == Some(Change::ChangedWorse))
    }
}

/// Refuses two races that cannot be compared: simulated and measured figures are different things,
/// whatever their values.
///
/// # Errors
/// [`Error::Usage`] where one of the races is simulated and the other is not.
pub fn check(old: &Outcome, new: &Outcome) -> Result<()> {
    let is_simulated = |outcome: &Outcome| outcome.path.kind == sim::KIND;
    if is_simulated(old) == is_simulated(new) {
        return Ok(());
    }
    let what = |outcome| if is_simulated(outcome) { "simulated" } else { "measured" };
    Err(Error::usage(format!(
        "the old race is {} and the new one {}; compare simulated races with simulated ones only",
        what(old),
        what(new)
    )))
}

/// Compares every contender label and metric that both races have. The level is the higher of
/// the two races', the margin the larger.
pub fn compare(old: &Outcome, new: &Outcome) -> Comparison {
    let pairs = pairs(old, new);
    let alpha = 1.0 - old.asked.confidence.max(new.asked.confidence);
    let margin = old.plan.margin.max(new.plan.margin);
    let claims = pairs.iter().filter(|pair| pair.metric.role == Role::Claim);
    let p: Vec<Option<f64>> = claims.map(|pair| pair.samples.p_value()).collect();
    let mut courts = RankTest::family(&p, alpha, margin).into_iter();
    let rows = pairs.iter().map(|pair| match pair.metric.role {
        Role::Claim => match courts.next() {
            Some(test) => pair.claim(margin, &test),
            None => pair.row(margin, alpha, None),
        },
        Role::Descriptive => pair.row(margin, alpha, None),
    });
    Comparison {
        started: [old.started.clone(), new.started.clone()],
        rows: rows.collect(),
        only_old: missing(old, new),
        only_new: missing(new, old),
        warnings: warnings(old, new),
    }
}

/// Returns the labels of `a` that `b` lacks.
fn missing(a: &Outcome, b: &Outcome) -> Vec<String> {
    let labels = a.contenders.iter().map(|contender| &contender.label);
    let lacks = |label: &&String| !b.contenders.iter().any(|other| other.label == **label);
    labels.filter(lacks).cloned().collect()
}

/// Pair of figures: a contender and metric that both races have.
struct Pair<'a> {
    label: &'a str,
    metric: &'a Metric,
    /// Samples, new over old.
    samples: Samples,
    /// The medians as the races gave them: old, new.
    estimates: [Option<f64>; 2],
}

fn pairs<'a>(old: &'a Outcome, new: &'a Outcome) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    for metric in &new.metrics {
        let in_both = |other: &&Metric| other.name == metric.name && other.unit == metric.unit;
        if !old.metrics.iter().any(|other| in_both(&other)) {
            continue;
        }
        for contender in &new.contenders {
            let before = old.contenders.iter().find(|other| other.label == contender.label);
            let Some(before) = before else { continue };
            let samples = Samples {
                a: Figures::of(new, contender, metric),
                b: Figures::of(old, before, metric),
            };
            if samples.a.trials > 0 && samples.b.trials > 0 {
                let estimates =
                    [estimate(old, before.id, metric), estimate(new, contender.id, metric)];
                pairs.push(Pair { label: &contender.label, metric, samples, estimates });
            }
        }
    }
    pairs
}

/// Returns the median over trials as a race gave it.
fn estimate(outcome: &Outcome, contender: usize, metric: &Metric) -> Option<f64> {
    let mut summaries = outcome.summary.iter();
    let own = summaries.find(|own| own.contender == contender && own.metric == metric.name);
    own.map(|summary| summary.estimate)
}

impl Pair<'_> {
    /// Returns the row of a claim, with the interval by which it was decided.
    fn claim(&self, margin: f64, test: &RankTest) -> Row {
        let finding = test.rule(&self.samples);
        let change = match finding.outcome {
            stats::Outcome::Ahead if finding.is_lower == (self.metric.better == Better::Lower) => {
                Change::ChangedBetter
            }
            stats::Outcome::Ahead => Change::ChangedWorse,
            stats::Outcome::DeadHeat => Change::Same,
            stats::Outcome::Undecided => Change::Undecided,
        };
        self.row(margin, finding.error, Some(change))
    }

    fn row(&self, margin: f64, level: f64, change: Option<Change>) -> Row {
        Row {
            contender: self.label.to_owned(),
            metric: self.metric.clone(),
            estimates: self.estimates,
            trials: [self.samples.b.trials, self.samples.a.trials],
            censored: self.samples.is_censored(),
            ratio: self.samples.ratio(level),
            confidence: 1.0 - level,
            margin,
            change,
        }
    }
}

/// Returns the differences between the races other than the figures.
pub fn warnings(old: &Outcome, new: &Outcome) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut differ = |code: &str, what: &str, before: &str, after: &str, advice: &str| {
        if before != after {
            warnings.push(Warning {
                code: code.to_owned(),
                message: format!("The {what} differs: {} before, {} now.", or(before), or(after)),
                advice: advice.to_owned(),
            });
        }
    };
    let same_work = "The figures answer different questions; race again with the same.";
    let same_place = "A change may be this alone; race again where nothing else differs.";
    let (a, b) = (&old.asked, &new.asked);
    differ("workload_differs", "workload", &a.workload, &b.workload, same_work);
    differ("path_differs", "path", &path(old), &path(new), same_work);
    let (a, b) = (&old.plan, &new.plan);
    differ("placement_differs", "placement", &a.placement, &b.placement, same_place);
    let (a, b) = (&a.quantile_definition, &b.quantile_definition);
    differ("quantiles_differ", "definition of quantiles", a, b, same_work);
    let (a, b) = (&old.deadheat.version, &new.deadheat.version);
    differ("version_differs", "version of deadheat", a, b, same_place);
    for (name, before, after) in host_facts(&old.host, &new.host) {
        differ("host_differs", &name, &before, &after, same_place);
    }
    let nobody = HostFacts::default();
    let far = |outcome: &Outcome| outcome.peer_host.clone().unwrap_or_else(|| nobody.clone());
    for (name, before, after) in host_facts(&far(old), &far(new)) {
        differ("far_host_differs", &format!("far {name}"), &before, &after, same_place);
    }
    for contender in &new.contenders {
        let before = old.contenders.iter().find(|other| other.label == contender.label);
        let Some(before) = before else { continue };
        let what = format!("implementation of {}", contender.label);
        let (a, b) = (&before.implementation, &contender.implementation);
        differ("implementation_differs", &what, a, b, same_place);
        let what = format!("spec behind the label {}", contender.label);
        differ("contender_differs", &what, &before.spec, &contender.spec, same_work);
    }
    warnings.extend(unfit("old", old));
    warnings.extend(unfit("new", new));
    warnings
}

fn or(value: &str) -> &str {
    if value.is_empty() { "unknown" } else { value }
}

fn path(outcome: &Outcome) -> String {
    let mut text = format!("{} ({}", outcome.path.spec, outcome.path.kind);
    if let Some(built) = &outcome.path.built {
        // The same words may be built in other ways, and a file's name may hide other contents.
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

/// Returns the facts of a host that bear on a figure, old and new.
fn host_facts(old: &HostFacts, new: &HostFacts) -> Vec<(String, String, String)> {
    let facts = |host: &HostFacts| -> [(&'static str, String); 9] {
        let text = |fact: &Option<String>| fact.clone().unwrap_or_default();
        [
            ("host", host.hostname.clone()),
            ("kernel", host.kernel.clone()),
            ("architecture", host.arch.clone()),
            ("CPU model", host.cpu_model.clone()),
            ("number of CPUs", host.cpus.len().to_string()),
            ("frequency governor", text(&host.governor)),
            ("virtualisation", text(&host.virtualisation)),
            ("clock source", text(&host.clock_source)),
            ("idle driver", text(&host.idle_driver)),
        ]
    };
    let mut rows: Vec<(String, String, String)> = facts(old)
        .into_iter()
        .zip(facts(new))
        .map(|((name, before), (_, after))| (name.to_owned(), before, after))
        .collect();
    let names = old.sysctls.keys().chain(new.sysctls.keys());
    let mut names: Vec<&String> = names.collect();
    names.sort();
    names.dedup();
    for name in names {
        let value = |host: &HostFacts| host.sysctls.get(name).cloned().unwrap_or_default();
        rows.push((format!("sysctl {name}"), value(old), value(new)));
    }
    rows
}

/// Returns a warning about a race that does not carry a comparison.
fn unfit(which: &str, outcome: &Outcome) -> Option<Warning> {
    let (code, message, advice) = if !outcome.trusted() {
        (
            "race_not_trusted",
            format!("The {which} race is not trusted."),
            "Its report says why; race again before believing a change.",
        )
    } else if matches!(outcome.status, Status::Running | Status::Failed) {
        (
            "race_not_finished",
            format!("The {which} race did not come to its end."),
            "Fewer blocks leave more undecided; resume it or race again.",
        )
    } else {
        return None;
    };
    Some(Warning { code: code.into(), message, advice: advice.into() })
}
