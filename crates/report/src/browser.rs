//! Answer of a race that a page in a browser ran, for that page, and the report on it.

use deadheat_result::outcome::{Outcome, Status, Verdict};
use deadheat_stats as stats;
use serde_json::{Value, json};

use crate::html::{self, Page, Part};
use crate::words;

/// Returns the page of a race's result.
pub fn page(outcome: &Outcome) -> String {
    html::page(&Page::of(Part { name: "race".to_owned(), shown: outcome.into() }))
}

/// Returns the answer of a race for its page: sentences and figures, none of which the page computes. A race of a page has
/// `most_blocks` at most.
pub fn answer(outcome: &Outcome, most_blocks: u64) -> Value {
    let verdicts: Vec<Value> = outcome.verdicts.iter().map(verdict).collect();
    let copies = outcome.control.as_ref();
    let rows: Vec<Value> = outcome
        .summary
        .iter()
        .filter_map(|row| {
            let metric = outcome.metrics.iter().find(|metric| metric.name == row.metric)?;
            let contender = outcome.contenders.iter().find(|own| own.id == row.contender)?;
            let figure = |value: f64| words::figure(value, metric.unit);
            let interval = row.low.zip(row.high);
            let interval = interval.map(|(low, high)| words::interval(&figure(low), &figure(high)));
            Some(json!({
                "contender": contender.label,
                "metric": metric.label,
                "figure": figure(row.estimate),
                "interval": interval,
                "trials": row.trials,
            }))
        })
        .collect();
    let limits = outcome.imported.as_ref();
    let limits = limits.and_then(|imported| imported.files.first()).map(|file| &file.doubts);
    json!({
        "verdicts": verdicts,
        "control": copies.map(|control| sentence(&control.note)),
        "not_trusted": outcome.why_not_trusted(),
        "figures": rows,
        "limits": limits,
        "again": again(outcome, most_blocks),
    })
}

/// Returns the new race that should decide what this one has left open: a sentence, and its number of blocks if a page may
/// have so many. `None` before the end, and where no number of blocks would decide.
fn again(outcome: &Outcome, most_blocks: u64) -> Option<Value> {
    let is_open = |verdict: &&Verdict| verdict.outcome == stats::Outcome::Undecided;
    let open = outcome.verdicts.iter().filter(is_open).filter(|_| outcome.status == Status::Budget);
    let more = open.filter_map(|verdict| verdict.more_blocks).max()?;
    let blocks = outcome.plan.blocks_max + more;
    let why = format!("About {more} more blocks than this race had should decide what is open.");
    Some(if blocks <= most_blocks {
        json!({
            "blocks": blocks,
            "text": format!(
                "{why} The number of this race was fixed before it, so it takes a new race, with figures of its own."
            ),
        })
    } else {
        json!({
            "text": format!("{why} A race of a page has {most_blocks} at most; longer trials need fewer."),
        })
    })
}

fn verdict(verdict: &Verdict) -> Value {
    let outcome = match verdict.outcome {
        stats::Outcome::Ahead => "ahead",
        stats::Outcome::DeadHeat => "dead heat",
        stats::Outcome::Undecided => "undecided",
    };
    json!({ "outcome": outcome, "text": sentence(&verdict.note) })
}

/// Returns a note as a sentence.
fn sentence(note: &str) -> String {
    format!("{}.", words::capital(note.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::{Request, testing};

    #[test]
    fn a_race_that_is_open_at_its_end_has_the_blocks_that_a_new_one_takes() {
        let request = Request::new(["tcp", "udp"]).workload(testing::WORKLOAD).blocks(12).seed(1);
        let mut open = testing::run(&request, testing::noisy(1, 0.001, |_| 100.0)).unwrap();
        let said = answer(&open, 40);
        assert_eq!(
            (&said["verdicts"][0]["outcome"], &said["again"]),
            (&json!("dead heat"), &Value::Null)
        );
        assert!(said["figures"][0]["figure"].as_str().unwrap().contains("100 ns"), "{said}");
        open.status = Status::Budget;
        open.plan.blocks_max = 12;
        open.verdicts[0].outcome = stats::Outcome::Undecided;
        open.verdicts[0].more_blocks = Some(7);
        assert_eq!(answer(&open, 40)["again"]["blocks"], 19);
        let again = &answer(&open, 18)["again"];
        assert!(again["blocks"].is_null() && again["text"].as_str().unwrap().contains("longer"));
        open.status = Status::Interrupted;
        assert_eq!(answer(&open, 40)["again"], Value::Null);
    }
}
