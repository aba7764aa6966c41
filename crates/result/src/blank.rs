//! Result of a race before its first trial.

use std::collections::BTreeMap;

use super::outcome::{FORMAT, Outcome, Program, RecordedPlan, RecordedRequest, Status};
use deadheat_records::host::HostFacts;
use deadheat_records::trial::PathFacts;

impl Outcome {
    /// Creates the result of a race before its first trial, as this program writes it.
    pub fn new(asked: RecordedRequest, plan: RecordedPlan, path: PathFacts) -> Outcome {
        Outcome {
            format: FORMAT,
            deadheat: Program { version: env!("CARGO_PKG_VERSION").to_owned() },
            title: None,
            labels: BTreeMap::new(),
            started: String::new(),
            seed: 0,
            asked,
            plan,
            host: HostFacts::default(),
            peer_host: None,
            absences: Vec::new(),
            probe: None,
            path,
            metrics: Vec::new(),
            factors: Vec::new(),
            contenders: Vec::new(),
            trials: Vec::new(),
            summary: Vec::new(),
            path_ways: Vec::new(),
            shares: Vec::new(),
            sweeps: Vec::new(),
            contests: Vec::new(),
            verdicts: Vec::new(),
            unfiltered: Vec::new(),
            causes: Vec::new(),
            control: None,
            differences: Vec::new(),
            warnings: Vec::new(),
            trusted: true,
            why_not_trusted: Vec::new(),
            explain: None,
            imported: None,
            status: Status::Running,
        }
    }
}
