//! Plans for the agents of a trial.

use crate::contract::Side;
use crate::time::Nanos;
use crate::transport::Endpoint;
use crate::transport::hello::Token;

use super::Order;
use super::control::{self, AgentPlan};
use super::load::LoadOrder;
use super::pair::SLACK;
use super::path_time::accept_timeout;
use super::placement::Assigned;

/// Placement and endpoint of the load of a trial.
pub(super) struct LoadPlan {
    pub(super) assigned: Assigned,
    pub(super) endpoint: Endpoint,
    pub(super) token: Token,
}

/// Plans for both agents of a trial.
pub(super) struct Plans<'a> {
    pub(super) order: &'a Order,
    pub(super) assigned: Assigned,
    pub(super) token: Token,
    pub(super) endpoint: Endpoint,
    pub(super) live: bool,
    pub(super) emulated: Option<control::Emulated>,
    pub(super) goes_first: bool,
    /// Workload strings for the near and the far end.
    pub(super) workloads: [String; 2],
}

impl Plans<'_> {
    /// Returns the plans for the agents of the load beside it.
    pub(super) fn of_load<'a>(&self, load: &'a LoadOrder, place: &LoadPlan) -> Plans<'a> {
        Plans {
            order: &load.order,
            assigned: place.assigned,
            token: place.token,
            endpoint: place.endpoint.clone(),
            live: false,
            workloads: [load.order.workload.clone(), load.order.workload.clone()],
            emulated: self.emulated,
            goes_first: false,
        }
    }

    /// Returns the longest time until both ends are connected: a little longer than the far one
    /// waits.
    pub(super) fn longest_to_connect(&self) -> Nanos {
        let far = self.emulated.map(|path| accept_timeout(path.dial_ns));
        far.map_or(Nanos::ZERO, |far| far + SLACK)
    }

    pub(super) fn near(&self, endpoint: Endpoint) -> AgentPlan {
        let samples = self.order.samples.clone();
        AgentPlan { samples, cpu: self.assigned.near, ..self.plan(Side::Near, endpoint) }
    }

    pub(super) fn far(&self) -> AgentPlan {
        AgentPlan { cpu: self.assigned.far, ..self.plan(Side::Far, self.endpoint.clone()) }
    }

    fn plan(&self, side: Side, endpoint: Endpoint) -> AgentPlan {
        AgentPlan {
            side,
            contender: self.order.contender.clone(),
            workload: match side {
                Side::Near => self.workloads[0].clone(),
                Side::Far => self.workloads[1].clone(),
            },
            endpoint,
            token: self.token,
            seed: self.order.seed,
            cpu: None,
            wait: self.assigned.wait,
            samples: None,
            limits: None,
            interval_ns: self.order.interval,
            live: self.live,
            pass: self.order.pass,
            emulated: self.emulated,
            goes_first: self.goes_first,
        }
    }
}
