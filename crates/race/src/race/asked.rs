//! Request of a race as results record it.

use super::enough::TimeLimit;
use super::request::Request;
use super::{cells, commands};
use deadheat_contract::workload;
use deadheat_result::outcome::RecordedRequest;

impl Request {
    /// Returns the request as results record it, with defaults filled in.
    pub fn asked(&self) -> RecordedRequest {
        RecordedRequest {
            workload: self.asked_workload(),
            path: match self.asked.to {
                Some(_) => String::new(),
                None => self.asked.path.clone(),
            },
            budget_ns: match self.limit() {
                // A screening is bounded by its blocks.
                TimeLimit::Unasked(_) if self.is_screening => None,
                TimeLimit::Asked(limit) | TimeLimit::Unasked(limit) => Some(limit.0),
                TimeLimit::None => None,
            },
            idle: self.idle.map(|idle| idle.name().to_owned()),
            ..self.asked.clone()
        }
    }

    /// Returns the workload with defaults filled in, except for what varies.
    pub(super) fn asked_workload(&self) -> String {
        let asked = &self.asked;
        let typed = commands::with_figures(&asked.workload, &asked.contenders);
        let parsed = typed.and_then(|typed| {
            self.race_path().and_then(|on| workload::parse_on(&typed, &on.setting))
        });
        let Ok(task) = parsed else { return asked.workload.clone() };
        cells::without_varied(&task.info().spec.to_string(), &asked.vary)
    }
}
