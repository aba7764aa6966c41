//! Result of a race before its first trial.

use super::outcome::{FORMAT, Outcome, Program, RecordedPlan, RecordedRequest};
use deadheat_records::trial::PathFacts;

impl Outcome {
    /// Creates the result of a race before its first trial, as this program writes it.
    pub fn new(asked: RecordedRequest, plan: RecordedPlan, path: PathFacts) -> Outcome {
        Outcome {
            format: FORMAT,
            deadheat: Program { version: env!("CARGO_PKG_VERSION").to_owned() },
            asked,
            plan,
            path,
            trusted: true,
            ..Outcome::default()
        }
    }
}
