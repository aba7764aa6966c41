//! Joining the reports of several nodes of one side into one, by flow, as if one end had run all flows.

use crate::agent::effective;
use crate::control::AgentReport;
use deadheat_contract::measurements::{ConnStats, Cost};
use deadheat_contract::workload::EndpointReport;
use deadheat_datapath::transport::Effective;

/// Joins the reports of the nodes of one side, each with its flows; `None` if there are none. Costs add up; figures of
/// the host, which all nodes share, are taken from the first.
pub(super) fn joined(reports: Vec<(AgentReport, &[u16])>) -> Option<AgentReport> {
    let (mut reports, flows): (Vec<AgentReport>, Vec<&[u16]>) = reports.into_iter().unzip();
    if reports.len() < 2 {
        return reports.pop();
    }
    let options = by_flow(reports.iter().map(options).collect(), &flows);
    let (effective, effective_by_flow) = effective::by_flow(options);
    let steal_share = reports.iter().filter_map(|report| report.steal_share).reduce(f64::max);
    let first = reports[0].clone();
    Some(AgentReport {
        halves: by_flow(taken(&mut reports, |report| &mut report.halves), &flows),
        conns: by_flow(taken(&mut reports, |report| &mut report.conns), &flows),
        series: by_flow(taken(&mut reports, |report| &mut report.series), &flows),
        effective,
        effective_by_flow,
        cost: reports.iter().fold(Cost::default(), |sum, report| sum.plus(&report.cost)),
        steal_share,
        notes: None,
        ..first
    })
}

/// Returns the report of a near node by flow: data that one connection sends to `nodes` far nodes counts for each of
/// them. Counters and series of that connection stay with the first flow, so that sums over flows count them once.
pub(super) fn for_all(report: AgentReport, nodes: u16) -> AgentReport {
    if nodes == 1 {
        return report;
    }
    let each = report.halves.into_iter().flat_map(|half| vec![half; nodes.into()]);
    let halves: Vec<EndpointReport> = each.collect();
    let mut conns = report.conns;
    conns.resize(halves.len(), ConnStats::default());
    AgentReport { halves, conns, ..report }
}

fn taken<T>(
    reports: &mut [AgentReport],
    list: impl Fn(&mut AgentReport) -> &mut Vec<T>,
) -> Vec<Vec<T>> {
    reports.iter_mut().map(|report| std::mem::take(list(report))).collect()
}

/// Returns the options of each flow of a node.
fn options(report: &AgentReport) -> Vec<Effective> {
    (0..report.halves.len())
        .map(|flow| {
            let mut options = report.effective.clone();
            options.extend(report.effective_by_flow.get(flow).cloned().unwrap_or_default());
            options
        })
        .collect()
}

/// Returns by flow what each node has of its flows.
fn by_flow<T>(by_node: Vec<Vec<T>>, flows: &[&[u16]]) -> Vec<T> {
    let each = by_node.into_iter().zip(flows);
    let mut all: Vec<(u16, T)> =
        each.flat_map(|(own, flows)| flows.iter().copied().zip(own)).collect();
    all.sort_by_key(|(flow, _)| *flow);
    all.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Share;
    use deadheat_contract::contract::Side;
    use deadheat_contract::measurements::Tally;
    use deadheat_contract::workload::TaskInfo;

    #[test]
    fn flows_of_several_nodes_are_in_the_order_of_their_numbers() {
        let dealt = TaskInfo { flows: vec![None; 8], ..TaskInfo::default() };
        let node = |node| Share { node, nodes: 3 }.flows(&dealt, Side::Far);
        assert_eq!([node(0), node(1), node(2)], [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
        let each = [node(0), node(1), node(2)];
        let flows: Vec<&[u16]> = each.iter().map(Vec::as_slice).collect();
        assert_eq!(by_flow(each.to_vec(), &flows), (0..8).collect::<Vec<u16>>());
        for flow in 0..8 {
            assert!(each[usize::from(dealt.far_node(flow, 3))].contains(&flow));
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
        let all = for_all(report.clone(), 3);
        assert_eq!(all.halves.iter().map(|half| half.sent.bytes).sum::<u64>(), 27_000);
        assert_eq!(all.conns.iter().filter_map(|conn| conn.retransmits).sum::<u64>(), 7);
        assert_eq!((all.halves.len(), all.conns.len()), (3, 3));
        assert_eq!(for_all(report.clone(), 1), report);
    }

    #[test]
    fn what_one_node_has_otherwise_is_told_of_its_flow() {
        let report = |cc: &str, cpu_ns| AgentReport {
            halves: vec![EndpointReport::default()],
            effective: [("cc".to_owned(), cc.to_owned())].into(),
            cost: Cost { cpu_ns, ..Cost::default() },
            ..AgentReport::default()
        };
        let all = joined(vec![(report("cubic", 3), &[0][..]), (report("reno", 4), &[1])]).unwrap();
        assert_eq!((all.halves.len(), all.cost.cpu_ns), (2, 7));
        assert_eq!(all.effective["cc"], "cubic");
        assert_eq!(all.effective_by_flow[1]["cc"], "reno");
        assert!(all.effective_by_flow[0].is_empty());
        assert_eq!(joined(Vec::new()), None);
        assert_eq!(joined(vec![(report("cubic", 3), &[0][..])]), Some(report("cubic", 3)));
    }
}
