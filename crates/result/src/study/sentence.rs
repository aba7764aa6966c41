//! Rulings in words: sentences that are complete without the tables.

use super::model::{Claim, Test, TestSubject};
use super::outcome::{AnswerKind, EstimateInterval, Ruling, TestAnswer};
use deadheat_base::figures::percent;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::measurements::{Metric, Unit, name};

/// Maximum number of tests in one answer that are listed individually.
const MOST_LISTED: usize = 4;

/// Answer to a test, with the metric and the missing evidence needed to describe it.
pub struct AnswerDetail<'a> {
    /// Answer.
    pub answer: &'a TestAnswer,
    /// Metric of the test; absent if the race has none of that name.
    pub metric: Option<&'a Metric>,
    /// Reason for a missing figure, a missing interval, or an open answer.
    pub lacks: Option<String>,
}

/// Explains a ruling in words.
pub fn note(claim: &Claim, ruling: Ruling, details: &[AnswerDetail<'_>]) -> String {
    if let Some(why) = &claim.open_because {
        return format!("Open: {why}");
    }
    if details.iter().all(|detail| detail.answer.answer == AnswerKind::LeftOut) {
        return "Open: only the full setting measures this.".into();
    }
    let lead = match ruling {
        Ruling::Depends => {
            let on = claim.depends_on.as_deref().unwrap_or("the circumstances");
            format!("Depends on {on}.")
        }
        Ruling::MostlyContradicted => "Mostly contradicted.".into(),
        Ruling::Holds | Ruling::Exceeds | Ruling::DoesNotHold | Ruling::Open => String::new(),
    };
    let heading = |answer: AnswerKind| match (answer, ruling) {
        (AnswerKind::Yes, Ruling::Holds) => "Holds here",
        (AnswerKind::Yes, _) => "True",
        (AnswerKind::More, _) => "More than claimed",
        (AnswerKind::No, Ruling::DoesNotHold) => "False here",
        (AnswerKind::No, _) => "False",
        (AnswerKind::Open, _) => "Open",
        (AnswerKind::LeftOut, _) => "Not measured at this setting",
    };
    let order = match ruling {
        Ruling::Open => [AnswerKind::Open, AnswerKind::More, AnswerKind::Yes, AnswerKind::No],
        Ruling::MostlyContradicted => {
            [AnswerKind::No, AnswerKind::More, AnswerKind::Yes, AnswerKind::Open]
        }
        _ => [AnswerKind::More, AnswerKind::Yes, AnswerKind::No, AnswerKind::Open],
    };
    let mut parts = vec![lead];
    for answer in order.into_iter().chain([AnswerKind::LeftOut]) {
        let same: Vec<&AnswerDetail<'_>> =
            details.iter().filter(|one| one.answer.answer == answer).collect();
        let sentence = |detail: &&AnswerDetail<'_>| match answer {
            AnswerKind::LeftOut => condition(&detail.answer.test),
            _ => detail.sentence(),
        };
        if !same.is_empty() {
            let sentences: Vec<String> = same.iter().map(sentence).collect();
            parts.push(format!("{}: {}.", heading(answer), joined(&sentences)));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// Returns the condition of a test.
fn condition(test: &Test) -> String {
    if test.given.is_empty() { test.of.text() } else { test.given.clone() }
}

fn joined(sentences: &[String]) -> String {
    let listed = sentences.len().min(MOST_LISTED);
    let mut text = sentences[..listed].join("; ");
    if sentences.len() > listed {
        text.push_str(&format!("; and likewise in {} more", sentences.len() - listed));
    }
    text
}

impl AnswerDetail<'_> {
    /// Returns a sentence: `on one core: udp's RTT p50 was 93 % of tcp's [90 %, 95 %]`.
    fn sentence(&self) -> String {
        let test = &self.answer.test;
        let given = if test.given.is_empty() { String::new() } else { format!("{}: ", test.given) };
        let lacks = self.lacks.as_ref().map_or_else(String::new, |lacks| format!(" ({lacks})"));
        format!("{given}{}{lacks}", self.seen())
    }

    fn seen(&self) -> String {
        let Test { metric, of, against, look, .. } = &self.answer.test;
        let of = of.text();
        let label = match self.metric {
            // The label of the sender's rate is a verb.
            Some(found) if found.name != name::SENT => found.label.as_str(),
            Some(_) => "rate at the sender",
            None => metric,
        };
        let unit = self.metric.map(|metric| metric.unit);
        let Some(seen) = self.answer.seen else {
            return match unit {
                Some(Unit::Share) => format!("what {of} {label} is not known"),
                _ => format!("{of}'s {label} is not known"),
            };
        };
        let (point, ends) = seen_text(&seen, against.is_some(), unit);
        let Some(against) = against.as_ref().map(|cell| cell.text()) else {
            return match unit {
                Some(Unit::Share) => format!("{of} {label} {point}{ends}"),
                _ => format!("{of}'s {label} was {point}{ends}"),
            };
        };
        let times =
            if point.ends_with('%') { format!("{point} of") } else { format!("{point} times") };
        match (look, unit) {
            (TestSubject::Spread, _) => {
                let times = times.replace("% of", "%");
                format!("{of}'s {label} scattered {times} as much as {against}'s{ends}")
            }
            (TestSubject::Level, Some(Unit::BitRate)) => {
                format!("{of} reached {times} {against}'s {label}{ends}")
            }
            (TestSubject::Level, _) => format!("{of}'s {label} was {times} {against}'s{ends}"),
        }
    }
}

/// Returns the evidence of a test in short, with its interval: `57 % [51 %, 62 %]`; `unit` is the unit of its
/// metric.
pub fn short(answer: &TestAnswer, unit: Unit) -> Option<String> {
    let is_ratio = answer.test.against.is_some();
    let (point, ends) = seen_text(answer.seen.as_ref()?, is_ratio, Some(unit));
    let times = if is_ratio && !point.ends_with('%') { " times" } else { "" };
    Some(format!("{point}{times}{ends}"))
}

fn seen_text(seen: &EstimateInterval, is_ratio: bool, unit: Option<Unit>) -> (String, String) {
    if is_ratio {
        written(seen, &|value| ratio(value, seen.point))
    } else {
        written(seen, &|value| figure(value, unit))
    }
}

/// Formats a point, and its interval in brackets with a leading space if an end of it is known.
fn written(seen: &EstimateInterval, number: &dyn Fn(f64) -> String) -> (String, String) {
    let interval = match (seen.low, seen.high) {
        // All trials had the same figure.
        (Some(low), Some(high)) if low == high => String::new(),
        (Some(low), Some(high)) => format!(" [{}, {}]", number(low), number(high)),
        (Some(low), None) => format!(" [at least {}]", number(low)),
        (None, Some(high)) => format!(" [at most {}]", number(high)),
        (None, None) => String::new(),
    };
    (number(seen.point), interval)
}

/// Formats a ratio: `57 %`, or `1.81` times, depending on the size of the estimate `point`.
fn ratio(value: f64, point: f64) -> String {
    if point < 0.9 {
        return percent(value);
    }
    let digits = match value {
        r if r < 2.0 => 3,
        r if r < 10.0 => 2,
        r if r < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// Formats a figure of a metric with its unit.
fn figure(value: f64, unit: Option<Unit>) -> String {
    match unit {
        Some(Unit::Nanos) => Nanos(value.max(0.0).round() as u64).to_string(),
        Some(Unit::BitRate) => BitRate(value.max(0.0).round() as u64).to_string(),
        Some(Unit::Share) => percent(value),
        Some(Unit::Count) => ratio(value, value),
        None => value.to_string(),
    }
}
