//! The load of a trial: a second pair of ends, in processes of their own, that sends bulk data over the same
//! path from before the work begins until it is over.

use crate::contract::WaitMode;
use crate::error::{Error, Result};
use crate::figures::Metrics;
use crate::time::Nanos;
use crate::transport::Contender;
use crate::workload::{self, Load, Reports, Task, load};

use super::explain::Pass;
use super::pair::BothReports;
use super::placement::Assigned;
use super::topology::Topology;
use super::{Order, misfit, suited};

/// Returns the contender that carries a load, and its work.
///
/// # Errors
/// [`Error::Usage`] where the contender is none, or cannot carry bulk data.
pub fn parts(load: &Load) -> Result<(Contender, Box<dyn Task>)> {
    let task = workload::parse(&load.workload)?;
    let contender = suited(Contender::parse(&load.contender)?, &*task)
        .map_err(|why| Error::usage(format!("load={}: {why}", load.contender)))?;
    match misfit(&contender, &*task) {
        Some(why) => Err(Error::usage(format!("load={}: {why}", contender.spec))),
        None => Ok((contender, task)),
    }
}

/// Load of a trial, with its parts.
pub(super) struct LoadOrder {
    pub(super) order: Order,
    pub(super) contender: Contender,
    /// Time that it runs before the work begins.
    pub(super) lead: Nanos,
    pub(super) task: Box<dyn Task>,
}

impl LoadOrder {
    /// Returns the load that `task` asks for, in the trial of `order`; `None` if it asks for
    /// none.
    ///
    /// # Errors
    /// As of [`parts`].
    pub(super) fn of(task: &dyn Task, order: &Order) -> Result<Option<LoadOrder>> {
        let Some(asked) = task.load() else { return Ok(None) };
        let (contender, task) = parts(asked)?;
        let order = Order {
            contender: asked.contender.clone(),
            workload: asked.workload.clone(),
            samples: None,
            pass: Pass::Figures,
            ..order.clone()
        };
        Ok(Some(LoadOrder { order, contender, lead: asked.lead, task }))
    }

    /// Returns the placement of the load: on CPUs that the work leaves free, or, if there are none,
    /// wherever the kernel puts it; the work goes first there.
    pub(super) fn placed(work: &Assigned, topology: &Topology) -> Assigned {
        let is_free = |id: &usize| Some(*id) != work.near && Some(*id) != work.far;
        let mut free = topology.ids().into_iter().filter(is_free);
        let near = free.next();
        // The threads of an emulated path want one for themselves.
        let far = free.next().filter(|_| free.next().is_some());
        match far {
            Some(_) => Assigned { near, far, wait: WaitMode::Hybrid },
            None => Assigned { near: None, far: None, wait: WaitMode::Hybrid },
        }
    }

    /// Adds the load's figures to those of the work.
    pub(super) fn conclude(&self, reports: &BothReports, metrics: &mut Metrics) {
        let findings = self.task.conclude(&Reports {
            near: &reports.near.halves,
            far: reports.far.as_ref().map_or(&[], |far| &far.halves),
            near_conns: &reports.near.conns,
            far_conns: reports.far.as_ref().map_or(&[], |far| &far.conns),
            guarantees: &self.contender.transport.info().guarantees,
        });
        if let Some(bps) = findings.metrics.get("goodput_bps") {
            metrics.insert(load::GOODPUT.to_owned(), *bps);
        }
    }
}
