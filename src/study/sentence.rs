//! Rulings in words: one or two sentences that can be read without the tables.

use super::model::{Claim, Look, Test};
use super::outcome::{Answer, Interval, Ruling, TestAnswer};
use crate::figures::{Metric, Unit};
use crate::race::plan::percent;
use crate::time::Nanos;
use crate::units::BitRate;

/// So many tests of one answer are told one by one.
const MOST_TOLD: usize = 4;

/// A test's answer, and what is needed to tell it.
pub(super) struct Told<'a> {
    pub answer: &'a TestAnswer,
    pub metric: Option<&'a Metric>,
    /// Why there is no figure, or no interval, if there is none.
    pub lacks: Option<String>,
}

/// What a ruling comes from, in words.
pub(super) fn note(claim: &Claim, ruling: Ruling, told: &[Told<'_>], untrusted: &[&str]) -> String {
    let of = |answer| -> Vec<String> {
        let same = told.iter().filter(|told| told.answer.answer == answer);
        same.map(Told::sentence).collect()
    };
    let (yes, no, open) = (of(Answer::Yes), of(Answer::No), of(Answer::Open));
    let mut text = match ruling {
        Ruling::Holds => format!("Holds: {}.", joined(&yes)),
        Ruling::DoesNotHold => format!("Does not hold: {}.", joined(&no)),
        Ruling::Depends => {
            let on = claim.depends_on.as_deref().unwrap_or("the circumstances");
            format!("Depends on {on}. It holds: {}. It does not: {}.", joined(&yes), joined(&no))
        }
        Ruling::Open if told.iter().all(|told| told.answer.answer == Answer::LeftOut) => {
            "Open: nothing of it is measured at this setting.".into()
        }
        Ruling::Open => format!("Open: {}.", joined(&open)),
    };
    let mut more = |before: &str, sentences: &[String]| {
        if !sentences.is_empty() {
            text.push_str(&format!(" {before}: {}.", joined(sentences)));
        }
    };
    match ruling {
        Ruling::Depends => more("Open", &open),
        Ruling::Open => {
            more("As claimed", &yes);
            more("Not as claimed", &no);
        }
        Ruling::Holds | Ruling::DoesNotHold => {}
    }
    let left_out = told.iter().map(|told| told.answer).filter(|one| one.answer == Answer::LeftOut);
    let left_out: Vec<String> = left_out.map(|one| condition(&one.test)).collect();
    if (1..told.len()).contains(&left_out.len()) {
        text.push_str(&format!(" Left out at this setting: {}.", left_out.join("; ")));
    }
    match untrusted {
        [] => {}
        [only] => text.push_str(&format!(" The race `{only}` is not trusted.")),
        several => {
            text.push_str(&format!(" The races `{}` are not trusted.", several.join("`, `")));
        }
    }
    text
}

/// Under which condition a test asks.
fn condition(test: &Test) -> String {
    if test.given.is_empty() { test.of.text() } else { test.given.clone() }
}

fn joined(sentences: &[String]) -> String {
    let told = sentences.len().min(MOST_TOLD);
    let mut text = sentences[..told].join("; ");
    if sentences.len() > told {
        text.push_str(&format!("; and likewise in {} more", sentences.len() - told));
    }
    text
}

impl Told<'_> {
    /// `on one core, RTT p50 of udp is 0.93 of that of tcp [0.90, 0.95]`.
    fn sentence(&self) -> String {
        let Test { metric, given, of, against, look, .. } = &self.answer.test;
        let given = if given.is_empty() { String::new() } else { format!("{given}, ") };
        let label = self.metric.map_or(metric.as_str(), |metric| &metric.label);
        let seen = self.answer.seen.map(|seen| match against {
            Some(against) => {
                let (point, interval) = written(&seen, &ratio);
                format!("is {point} of that of {}{interval}", against.text())
            }
            None => {
                let unit = self.metric.map(|metric| metric.unit);
                let (point, interval) = written(&seen, &|value| figure(value, unit));
                format!("is {point}{interval}")
            }
        });
        let what = match look {
            Look::Level => "",
            Look::Spread => "the spread of ",
        };
        let mut text = format!("{given}{what}{label} of {} ", of.text());
        text.push_str(seen.as_deref().unwrap_or("is not known"));
        if let Some(lacks) = &self.lacks {
            text.push_str(&format!(" ({lacks})"));
        }
        text
    }
}

/// A point, and its interval in brackets with a space in front where an end of it is known.
fn written(seen: &Interval, number: &dyn Fn(f64) -> String) -> (String, String) {
    let interval = match (seen.low, seen.high) {
        (Some(low), Some(high)) => format!(" [{}, {}]", number(low), number(high)),
        (Some(low), None) => format!(" [at least {}]", number(low)),
        (None, Some(high)) => format!(" [at most {}]", number(high)),
        (None, None) => String::new(),
    };
    (number(seen.point), interval)
}

/// A ratio with as many digits as it deserves.
fn ratio(ratio: f64) -> String {
    let digits = match ratio {
        r if r < 0.1 => return format!("{ratio:.2e}"),
        r if r < 2.0 => 3,
        r if r < 10.0 => 2,
        r if r < 100.0 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}")
}

/// A figure of a metric with its unit.
fn figure(value: f64, unit: Option<Unit>) -> String {
    match unit {
        Some(Unit::Nanos) => Nanos(value.max(0.0).round() as u64).to_string(),
        Some(Unit::BitRate) => BitRate(value.max(0.0).round() as u64).to_string(),
        Some(Unit::Share) => percent(value),
        None => value.to_string(),
    }
}
