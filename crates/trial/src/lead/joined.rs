//! Joining the reports of several far nodes into one, by flow, as if one end had run all flows.

use crate::agent::effective::by_flow;
use crate::control::{AgentReport, Share};
use deadheat_contract::measurements::{ConnStats, Cost};
use deadheat_datapath::transport::Effective;

/// Joins the reports of far nodes, in order of their numbers; `None` if there are none. Costs add up; figures of the
/// host, which all nodes share, are taken from the first.
pub(super) fn joined(mut reports: Vec<AgentReport>) -> Option<AgentReport> {
    if reports.len() < 2 {
        return reports.pop();
    }
    let effective = interleaved(reports.iter().map(effective).collect());
    let (effective, effective_by_flow) = by_flow(effective);
    let steal_share = reports.iter().filter_map(|report| report.steal_share).reduce(f64::max);
    let first = reports[0].clone();
    Some(AgentReport {
        halves: interleaved(taken(&mut reports, |report| &mut report.halves)),
        conns: interleaved(taken(&mut reports, |report| &mut report.conns)),
        series: interleaved(taken(&mut reports, |report| &mut report.series)),
        effective,
        effective_by_flow,
        cost: reports.iter().fold(Cost::default(), |sum, report| sum.plus(&report.cost)),
        steal_share,
        notes: None,
        ..first
    })
}

/// Returns the report of a near node by flow: data that one connection sends to all far nodes counts for each of them.
/// Counters and series of that connection stay with the first flow, so that sums over flows count them once.
pub(super) fn for_all(report: AgentReport, share: Share) -> AgentReport {
    if share == Share::WHOLE {
        return report;
    }
    let halves = repeated(report.halves, share);
    let mut conns = report.conns;
    conns.resize(halves.len(), ConnStats::default());
    AgentReport { halves, conns, ..report }
}

/// Returns by flow a list that a near node reports once for all far nodes.
pub(super) fn repeated<T: Clone>(list: Vec<T>, share: Share) -> Vec<T> {
    list.into_iter().flat_map(|one| vec![one; share.nodes.into()]).collect()
}

fn taken<T>(
    reports: &mut [AgentReport],
    list: impl Fn(&mut AgentReport) -> &mut Vec<T>,
) -> Vec<Vec<T>> {
    reports.iter_mut().map(|report| std::mem::take(list(report))).collect()
}

/// Returns the options of each flow of a node.
fn effective(report: &AgentReport) -> Vec<Effective> {
    (0..report.halves.len())
        .map(|flow| {
            let mut options = report.effective.clone();
            options.extend(report.effective_by_flow.get(flow).cloned().unwrap_or_default());
            options
        })
        .collect()
}

/// Returns by flow a list that is ordered by node: flow `f` belongs to the node `f` modulo their number.
pub(super) fn interleaved<T>(by_node: Vec<Vec<T>>) -> Vec<T> {
    let mut nodes: Vec<_> = by_node.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(nodes.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::Tally;
    use deadheat_contract::workload::EndpointReport;

    #[test]
    fn flows_of_several_nodes_are_in_the_order_of_their_numbers() {
        let flows = 8;
        let node = |node| -> Vec<u16> { Share { node, nodes: 3 }.flows(flows).collect() };
        assert_eq!([node(0), node(1), node(2)], [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
        assert_eq!(interleaved(vec![node(0), node(1), node(2)]), (0..8).collect::<Vec<u16>>());
        for flow in 0..flows as u16 {
            let share = Share { node: flow % 3, nodes: 3 };
            assert_eq!(share.flow(share.place(flow) as u16), flow);
        }
    }

    #[test]
    fn what_one_connection_sends_for_all_is_each_flow_s_and_its_counters_count_once() {
        let sent = Tally { messages: 0, bytes: 9_000, ..Tally::default() };
        let report = AgentReport {
            halves: vec![EndpointReport { sent, ..EndpointReport::default() }],
            conns: vec![ConnStats { retransmits: Some(7), ..ConnStats::default() }],
            ..AgentReport::default()
        };
        let all = for_all(report.clone(), Share { node: 0, nodes: 3 });
        assert_eq!(all.halves.iter().map(|half| half.sent.bytes).sum::<u64>(), 27_000);
        assert_eq!(all.conns.iter().filter_map(|conn| conn.retransmits).sum::<u64>(), 7);
        assert_eq!((all.halves.len(), all.conns.len()), (3, 3));
        assert_eq!(repeated(vec![sent], Share { node: 0, nodes: 3 }), [sent; 3]);
        assert_eq!(for_all(report.clone(), Share::WHOLE), report);
    }

    #[test]
    fn what_one_node_has_otherwise_is_told_of_its_flow() {
        let report = |cc: &str, cpu_ns| AgentReport {
            halves: vec![EndpointReport::default()],
            effective: [("cc".to_owned(), cc.to_owned())].into(),
            cost: Cost { cpu_ns, ..Cost::default() },
            ..AgentReport::default()
        };
        let all = joined(vec![report("cubic", 3), report("reno", 4)]).unwrap();
        assert_eq!((all.halves.len(), all.cost.cpu_ns), (2, 7));
        assert_eq!(all.effective["cc"], "cubic");
        assert_eq!(all.effective_by_flow[1]["cc"], "reno");
        assert!(all.effective_by_flow[0].is_empty());
        assert_eq!(joined(Vec::new()), None);
        assert_eq!(joined(vec![report("cubic", 3)]), Some(report("cubic", 3)));
    }
}
