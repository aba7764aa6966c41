//! A runner without sockets or processes: tests say what each trial yields.

use super::host::HostFacts;
use super::placement::{Load, Placement};
use super::{End, Order, PathFacts, Record, Runner};
use crate::error::Result;
use crate::figures::{Cost, Ledger, Metrics};
use crate::transport::Effective;

/// Answers each order from a closure.
pub struct Fake<F>(pub F);

impl<F: FnMut(&Order) -> End> Runner for Fake<F> {
    fn run(&mut self, order: &Order) -> End {
        (self.0)(order)
    }

    fn placement(&mut self, asked: Option<Placement>, _load: Load) -> Result<(Placement, String)> {
        Ok((asked.unwrap_or(Placement::CrossCore), "as the test says".into()))
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        Ok((HostFacts { hostname: "fake".into(), ..HostFacts::default() }, None))
    }

    fn path(&self) -> PathFacts {
        PathFacts { spec: "loopback".into(), kind: "loopback".into(), address: "127.0.0.1".into() }
    }
}

/// A valid record that has nothing but `metrics`.
pub fn record(metrics: Metrics) -> Record {
    Record {
        valid: true,
        why_invalid: None,
        implementation: "fake".into(),
        metrics,
        censored: Vec::new(),
        rtt_ns: None,
        send_lateness_ns: None,
        clock: None,
        ledger: Ledger::default(),
        cost: Cost::default(),
        far_cost: None,
        effective: Effective::new(),
        far_effective: Effective::new(),
        connect_ns: 0,
        retransmits: None,
        steal_share: 0.0,
        load: 0.0,
        started_ms: 0,
        took_ns: 1_000_000,
    }
}
