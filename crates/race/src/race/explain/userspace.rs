//! Protocols in user space: time in the protocol, in encryption and in the allocator, at both ends.

use super::PassTrial;
use deadheat_datapath::transport::spent::ProtocolTime;
use deadheat_result::explained::{Userspace, UserspaceEnd};
use deadheat_stats::quantile::median;
use deadheat_trial::explain::EndNotes;

/// Returns the medians over `trials` for each message that an end sent, or for each MB that was delivered if
/// messages have no numbers; `None` if no protocol in user space ran.
pub(super) fn explain(trials: &[PassTrial]) -> Option<Userspace> {
    let near = end(trials, |explored| Some(&explored.noted.near))?;
    Some(Userspace { near, far: end(trials, |explored| explored.noted.far.as_ref()) })
}

fn end(
    trials: &[PassTrial],
    notes: impl Fn(&PassTrial) -> Option<&EndNotes>,
) -> Option<UserspaceEnd> {
    let each: Vec<UserspaceEnd> = trials
        .iter()
        .filter_map(|explored| one(notes(explored)?, delivered_bytes(explored)))
        .collect();
    let of = |figure: &dyn Fn(&UserspaceEnd) -> Option<f64>| {
        median(&each.iter().filter_map(figure).collect::<Vec<_>>())
    };
    Some(UserspaceEnd {
        protocol_ns: of(&|end| Some(end.protocol_ns))?,
        encryption_ns: of(&|end| end.encryption_ns),
        allocation_ns: of(&|end| end.allocation_ns),
        allocations: of(&|end| end.allocations),
        thread_share: of(&|end| Some(end.thread_share))?,
    })
}

fn delivered_bytes(explored: &PassTrial) -> u64 {
    explored.noted.halves.iter().flatten().map(|half| half.received.bytes).sum()
}

/// Returns the figures of one end in one trial.
fn one(notes: &EndNotes, delivered_bytes: u64) -> Option<UserspaceEnd> {
    let all: Vec<&ProtocolTime> =
        notes.flows.iter().filter_map(|flow| flow.spent.as_ref()).collect();
    let messages: u64 = all.iter().map(|spent| spent.messages).sum();
    let per = if messages > 0 { messages as f64 } else { delivered_bytes as f64 / 1e6 };
    let sum = |part: &dyn Fn(&ProtocolTime) -> Option<f64>| {
        all.iter().filter_map(|spent| part(spent)).reduce(|sum, part| sum + part)
    };
    let protocol = sum(&|spent| Some(spent.protocol_ns)).filter(|_| per > 0.0)?;
    let encryption = sum(&|spent| spent.encryption_ns);
    let allocation = sum(&|spent| spent.allocation_ns);
    let thread: u64 = notes.flows.iter().map(|flow| flow.thread_ns).sum();
    let whole = protocol + encryption.unwrap_or(0.0) + allocation.unwrap_or(0.0);
    Some(UserspaceEnd {
        protocol_ns: protocol / per,
        encryption_ns: encryption.map(|ns| ns / per),
        allocation_ns: allocation.map(|ns| ns / per),
        allocations: sum(&|spent| spent.allocations.map(|count| count as f64))
            .map(|count| count / per),
        thread_share: if thread > 0 { (whole / thread as f64).min(1.0) } else { 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_trial::explain::FlowNotes;

    fn notes(spent: Option<ProtocolTime>) -> EndNotes {
        let flow = FlowNotes { spent, thread_ns: 10_000, ..FlowNotes::default() };
        EndNotes { flows: vec![flow], ..EndNotes::default() }
    }

    #[test]
    fn time_is_told_by_message_or_by_megabyte() {
        let spent = ProtocolTime {
            messages: 4,
            protocol_ns: 2_000.0,
            encryption_ns: Some(400.0),
            allocation_ns: None,
            allocations: None,
        };
        let end = one(&notes(Some(spent)), 0).unwrap();
        assert_eq!((end.protocol_ns, end.encryption_ns), (500.0, Some(100.0)));
        assert_eq!((end.allocation_ns, end.thread_share), (None, 0.24));
        let bulk = ProtocolTime { messages: 0, allocations: Some(30), ..spent };
        let end = one(&notes(Some(bulk)), 2_000_000).unwrap();
        assert_eq!((end.protocol_ns, end.allocations), (1_000.0, Some(15.0)));
        // Nothing arrived, or the kernel runs the protocol.
        assert_eq!(one(&notes(Some(bulk)), 0), None);
        assert_eq!(one(&notes(None), 1_000), None);
    }
}
