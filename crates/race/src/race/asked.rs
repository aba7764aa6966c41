//! Request of a race as results record it.

use super::enough::TimeLimit;
use super::request::{Claims, RaceLength, Request};
use super::{cells, commands};
use deadheat_contract::workload;
use deadheat_datapath::transport::equal::Terms;
use deadheat_result::outcome::RecordedRequest;

impl Request {
    /// Returns the request as results record it, with defaults filled in.
    pub fn asked(&self) -> RecordedRequest {
        RecordedRequest {
            contenders: self.contenders.clone(),
            workload: self.asked_workload(),
            path: match self.to {
                Some(_) => String::new(),
                None => self.path.clone(),
            },
            to: self.to.clone(),
            family: self.family,
            source: self.source.clone(),
            device: self.device.clone(),
            blocks: self.blocks,
            budget_ns: match self.limit() {
                // A screening is bounded by its blocks.
                TimeLimit::Unasked(_) if self.length == RaceLength::Screening => None,
                TimeLimit::Asked(limit) | TimeLimit::Unasked(limit) => Some(limit.0),
                TimeLimit::None => None,
            },
            every_ns: self.every.map(|every| every.0),
            all_blocks: self.length == RaceLength::AllBlocks,
            first: self.ends_at_first,
            margin: self.margin,
            margin_ns: self.margin_time.map(|margin| margin.0),
            resolve: self.resolve,
            claims_all: self.claims == Claims::All,
            as_deployed: self.terms == Terms::Deployed,
            confidence: self.confidence,
            gate_races: self.gate_races,
            placement: self.placement.clone(),
            idle: self.idle.map(|idle| idle.name().to_owned()),
            vary: self.vary.clone(),
            interval_ns: self.interval.map(|interval| interval.0),
            explain: self.explains,
        }
    }

    /// Returns the workload with defaults filled in, except for what varies.
    pub(super) fn asked_workload(&self) -> String {
        let typed = commands::with_figures(&self.workload, &self.contenders);
        let parsed = typed.and_then(|typed| {
            self.race_path().and_then(|on| workload::parse_on(&typed, &on.setting))
        });
        let Ok(task) = parsed else { return self.workload.clone() };
        cells::without_varied(&task.info().spec.to_string(), &self.vary)
    }
}
