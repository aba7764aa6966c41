//! Figures of a paced trial, and the gate that decides whether it counts.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::{ConnStats, PacedFlow, Pacing, Quantile, total};

use super::{CbrEnd, CbrTask};
use crate::bulk::Timing;
use crate::paced;
use deadheat_contract::workload::{EndpointReport, Measurements, Reports};

impl CbrTask {
    pub(super) fn timing(&self) -> Timing {
        let measured = match self.stop {
            CbrEnd::At { time } => time,
            CbrEnd::After { .. } => Nanos::ZERO,
        };
        Timing { warmup: self.warmup, measured }
    }

    /// Returns both ends of each flow of a direction, and the sender's connection.
    pub(super) fn ends<'a>(
        &self,
        reports: &Reports<'a>,
        flows: &[Option<Direction>],
        direction: Direction,
    ) -> Vec<(&'a EndpointReport, Option<&'a EndpointReport>, Option<&'a ConnStats>)> {
        let (senders, receivers, conns) = match direction {
            Direction::Up => (reports.near, reports.far, reports.near_conns),
            Direction::Down => (reports.far, reports.near, reports.far_conns),
        };
        let ours = (0..flows.len()).filter(|flow| flows[*flow] == Some(direction));
        ours.filter_map(|flow| Some((senders.get(flow)?, receivers.get(flow), conns.get(flow))))
            .collect()
    }

    /// Returns the ratio of bytes sent with headers to bytes sent without; `None` if there are no headers.
    pub(super) fn around(
        &self,
        reports: &Reports<'_>,
        flows: &[Option<Direction>],
        direction: Direction,
    ) -> Option<f64> {
        let (mut data, mut around) = (0_u64, 0_u64);
        for (sender, _, conn) in self.ends(reports, flows, direction) {
            let headers = conn?.headers?;
            data = data.saturating_add(sender.sent.bytes);
            around = around.saturating_add(headers.around(sender.sent.messages, self.size as u64));
        }
        (data > 0).then(|| 1.0 + around as f64 / data as f64)
    }

    /// Adds the outcome of the schedules to `findings`. Of several flows, the one with the largest figure represents
    /// the trial.
    pub(super) fn conclude_pacing(&self, reports: &Reports<'_>, findings: &mut Measurements) {
        let flows = &self.info.flows;
        let mut slowest: Option<f64> = None;
        let mut worst = [None; 2];
        for direction in self.directions {
            let ends = self.ends(reports, flows, *direction);
            let delays = ends.iter().filter_map(|(_, receiver, _)| median_delay((*receiver)?));
            if let Some(delay) = delays.reduce(f64::max) {
                slowest = Some(slowest.map_or(delay, |slowest| slowest.max(delay)));
                if self.directions.len() > 1 {
                    findings.metrics.insert(one_way(Some(*direction)), delay);
                }
            }
            for (sender, receiver, _) in ends {
                let delays = receiver.and_then(|receiver| receiver.delay_variation_ns.clone());
                if let Some(delays) = &delays {
                    let own = [delays.p50, delays.p99].map(|at| at.map(Quantile::at_least_ns));
                    worst = [worst[0].max(own[0]), worst[1].max(own[1])];
                }
                // A far end of others does not say how its schedule went.
                let Some(pacing) = sender.pacing.clone() else { continue };
                findings.paced.push(PacedFlow {
                    direction: *direction,
                    pacing,
                    delay_variation_ns: delays,
                });
            }
        }
        for (name, figure) in [("pdv_p50_ns", worst[0]), ("pdv_p99_ns", worst[1])] {
            figure.map(|ns| findings.metrics.insert(name.into(), ns as f64));
        }
        let count = |of: fn(&Pacing) -> u64| -> u64 {
            total(findings.paced.iter().map(|flow| of(&flow.pacing)))
        };
        let slots = count(|pacing| pacing.slots);
        if slots == 0 {
            return;
        }
        let missed = count(|pacing| total([pacing.missed_no_room, pacing.missed_no_time]));
        paced::judge(findings);
        findings.metrics.insert("missed_share".into(), missed as f64 / slots as f64);
        slowest.map(|delay| findings.metrics.insert(one_way(None), delay));
    }
}

/// Returns the name of the median delay one way, in nanoseconds: of a direction, or the greatest of all.
pub(super) fn one_way(direction: Option<Direction>) -> String {
    match direction {
        Some(direction) => format!("one_way_{direction}_p50_ns"),
        None => "one_way_p50_ns".to_owned(),
    }
}

/// Returns the median delay of a flow by its receiver, in nanoseconds. None is negative: clocks that are a little apart
/// make a short delay 0.
fn median_delay(receiver: &EndpointReport) -> Option<f64> {
    let above = receiver.delay_variation_ns.as_ref()?.p50?.at_least_ns();
    Some(receiver.least_delay_ns?.saturating_add_unsigned(above).max(0) as f64)
}
