//! The load of a trial: bulk data of a contender over the same path, from before the work begins until it is
//! over.

use crate::error::{Error, Result};
use crate::measurements::Metrics;
use crate::transport::Contender;
use crate::workload::{self, Load, Task, load};

use super::explain::Pass;
use super::nodes::BothReports;
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

/// Returns the order of a load, in the trial of `work`.
pub(super) fn order(load: &Load, work: &Order) -> Order {
    Order {
        contender: load.contender.clone(),
        workload: load.workload.clone(),
        samples: None,
        pass: Pass::Figures,
        ..work.clone()
    }
}

/// Adds the load's figures to those of the work.
pub(super) fn conclude(
    contender: &Contender,
    task: &dyn Task,
    reports: &BothReports,
    metrics: &mut Metrics,
) {
    let findings = task.conclude(&reports.of(&contender.transport.info().guarantees));
    if let Some(bps) = findings.metrics.get("goodput_bps") {
        metrics.insert(load::GOODPUT.to_owned(), *bps);
    }
}
