//! Fake runner without sockets or processes: a closure of the test yields each trial's outcome.

use crate::{Order, Runner, TrialOutcome};
use deadheat_base::error::{Error, Result};
use deadheat_host::placement::Load;
use deadheat_path::PathKind;
use deadheat_records::host::HostFacts;
use deadheat_records::placement::Placement;
use deadheat_records::trial::PathFacts;

/// Number of CPUs of the fake machine.
const CPUS: usize = 8;

/// Fake runner that answers each order from a closure.
pub struct Fake<F>(pub F);

impl<F: FnMut(&Order) -> TrialOutcome> Runner for Fake<F> {
    fn run(&mut self, order: &Order) -> TrialOutcome {
        (self.0)(order)
    }

    fn placement(&mut self, asked: Option<Placement>, _load: Load) -> Result<(Placement, String)> {
        match asked {
            Some(Placement::Cpus(near, far)) if near.max(far) >= CPUS => {
                Err(Error::usage(format!("the fake machine has the CPUs 0 to {}", CPUS - 1)))
            }
            asked => Ok((asked.unwrap_or(Placement::CrossCore), "as the test says".into())),
        }
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        Ok((HostFacts { hostname: "fake".into(), ..HostFacts::default() }, None))
    }

    fn path(&self) -> PathFacts {
        PathFacts {
            spec: "loopback".into(),
            kind: PathKind::Loopback,
            address: "127.0.0.1".into(),
            built: None,
            reached: None,
            far_end: None,
        }
    }
}
