//! Any host: nothing runs there for us, and its kernel answers what kernels answer: ICMP echo, and attempts to connect over
//! TCP, which it accepts or refuses.

use attempts::AttemptConn;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::PeerFacts;
use deadheat_contract::workload::TaskInfo;
use deadheat_contract::workload::header::REFLECTED_LEN;
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Address, Conn, Dial};

mod attempts;

/// Host without a far end.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "host",
        label: "a host alone",
        summary: "any host: its kernel answers pings and TCP handshakes, as for ping and mtr -T",
        // A port that most firewalls let through.
        port: 443,
        takes_path: false,
        over: &[PlainProtocol::TCP],
        peer: PeerFacts { is_kernel: true, only_connects: true, ..PeerFacts::OTHERS },
        counts: None,
        unknown: &[
            "on which of the two ways a message was lost",
            "whether the host, or a firewall before it, limits the rate of its answers: those are then lost, too",
            "which machine answered: a firewall may refuse, or accept, in the host's place",
            "delays one way",
        ],
        variables: None,
    },
    misfit: Some(misfit),
    dial,
    remarks: None,
    session: None,
};

/// Shortest time between two attempts to connect: more of them look like an attack.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(10);

fn misfit(over: PlainProtocol, task: &TaskInfo) -> Option<String> {
    if task.reconnects() {
        return None;
    }
    let Some(planned) = task.planned.filter(|_| task.offered().is_some()) else {
        return Some(format!(
            "attempts to connect over {over} leave on a schedule, so that they are no flood; leave out window"
        ));
    };
    let messages = task.most_bytes.unwrap_or(0) / task.largest_message.max(1) as u64;
    if planned.0 / messages.max(1) < SHORTEST_INTERVAL.0 {
        return Some(format!(
            "more than 100 attempts to connect in a second look like an attack; give interval={}ms, or more",
            SHORTEST_INTERVAL.0 / 1_000_000
        ));
    }
    (task.largest_message < REFLECTED_LEN).then(|| {
        format!("an attempt to connect stands for a message of {REFLECTED_LEN} bytes or more; leave out size")
    })
}

fn dial(
    _inside: &PlainTransport,
    dial: &Dial<'_>,
    _task: &TaskInfo,
    _locator: &Locator,
) -> Result<Box<dyn Conn>> {
    match dial.to {
        Address::Ip(to) => Ok(Box::new(AttemptConn::dial(*to, dial)?)),
        other => Err(Error::usage(format!("{other} is no address of a host"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_few_and_on_a_schedule() {
        let why = |interval_ms: u64, is_paced, size: usize| {
            let task = TaskInfo {
                planned: Some(Nanos::from_millis(interval_ms * 100)),
                most_bytes: Some(100 * size as u64),
                largest_message: size,
                is_paced,
                ..TaskInfo::default()
            };
            misfit(PlainProtocol::TCP, &task).unwrap_or_default()
        };
        assert_eq!(why(10, true, 64), "");
        assert!(why(9, true, 64).contains("interval=10ms"));
        assert!(why(10, false, 64).contains("leave out window"));
        assert!(why(10, true, 12).contains("leave out size"));
        let connections = TaskInfo { connections: 21, ..TaskInfo::default() };
        assert_eq!(misfit(PlainProtocol::TCP, &connections), None);
    }
}
