//! As many bytes as the transport moves. Goodput is what the receiver had, over the receiver's own
//! span, with its end confirmed; what the sender handed over stands beside it.
//!
//! A transport that keeps message boundaries carries messages of `size` bytes, each numbered, so
//! that what arrived is counted and nothing is pretended about the rest. A byte stream carries
//! bytes. Every flow is a connection of its own; connecting is timed apart.

use crate::contract::{Direction, Framing, Guarantees, PeerKind, Side};
use crate::error::{Error, Result};
use crate::figures::{Account, Better, ConnStats, Metric, Role, Tally, Unit};
use crate::spec::{Key, Kind, Settings, Spec};
use crate::time::Nanos;

use super::header::{self, account, add};
use super::{Findings, Half, HalfReport, Info, Part, Reports, Task, Workload};

mod receiver;
mod sender;

/// The workload.
pub(super) struct Bulk;

const KEYS: &[Key] = &[
    Key {
        name: "bytes",
        kind: Kind::Size(64, 1 << 50),
        default: "",
        doc: "how much each direction carries, all streams together",
    },
    Key {
        name: "time",
        kind: Kind::Span(10_000_000, 86_400 * 1_000_000_000),
        default: "",
        doc: "how long to send, instead of bytes (1s where neither is given)",
    },
    Key {
        name: "direction",
        kind: Kind::Choice(&["up", "down", "both"]),
        default: "up",
        doc: "near to far, far to near, or both at once",
    },
    Key {
        name: "streams",
        kind: Kind::Count(1, 128),
        default: "1",
        doc: "connections in each direction",
    },
    Key {
        name: "size",
        kind: Kind::Size(header::LEN as u64, 65_507),
        default: "1400",
        doc: "message size, for transports that keep boundaries; 1400 bytes fit an Ethernet frame",
    },
    Key {
        name: "call",
        kind: Kind::Size(64, 16 << 20),
        default: "128KiB",
        doc: "bytes the application hands over per call; datagram transports make of it what one call takes",
    },
];

static INFO: Info = Info {
    id: "bulk",
    label: "bulk transfer",
    summary: "as many bytes as the transport moves, counted where they arrive",
    keys: KEYS,
};

impl Workload for Bulk {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec) -> Result<Box<dyn Task>> {
        Ok(Box::new(BulkTask::new(Settings::check(spec, KEYS)?)?))
    }
}

/// When a sender stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// After so many bytes on this flow.
    After { bytes: u64 },
    /// After so much time.
    At { time: Nanos },
}

/// A bulk transfer with its settings.
#[derive(Debug, Clone)]
struct BulkTask {
    settings: Settings,
    directions: Vec<Direction>,
    streams: u64,
    stop: Stop,
    size: usize,
    call: usize,
}

impl BulkTask {
    fn new(settings: Settings) -> Result<BulkTask> {
        let streams = settings.count("streams").unwrap_or(1);
        let stop = match (settings.size("bytes"), settings.span("time")) {
            (Some(_), Some(_)) => return Err(Error::usage("bulk: give bytes or time, not both")),
            (Some(bytes), None) => Stop::After { bytes: bytes.0.div_ceil(streams) },
            (None, time) => Stop::At { time: time.unwrap_or(Nanos::from_secs(1)) },
        };
        let directions = match settings.text("direction") {
            Some("down") => vec![Direction::Down],
            Some("both") => vec![Direction::Up, Direction::Down],
            _ => vec![Direction::Up],
        };
        let size = settings.size("size").map_or(1400, |size| size.0 as usize);
        let call = settings.size("call").map_or(128 << 10, |call| call.0 as usize);
        Ok(BulkTask { settings, directions, streams, stop, size, call })
    }

    /// The bytes of one flow: whole messages where the transport keeps boundaries.
    fn stop_for(&self, framing: Framing) -> Stop {
        match (self.stop, framing) {
            (Stop::After { bytes }, Framing::Messages) => {
                Stop::After { bytes: bytes.next_multiple_of(self.size as u64) }
            }
            (stop, _) => stop,
        }
    }
}

/// A half that sends as fast as the transport takes it.
pub(super) fn sender(stop: Stop, size: usize, call: usize, tag: u32) -> Box<dyn Half> {
    Box::new(sender::Sender::new(stop, size, call, tag))
}

/// A half that receives what [`sender`] sends.
pub(super) fn receiver(framing: Framing, tag: u32) -> Box<dyn Half> {
    Box::new(receiver::Receiver::new(framing, tag))
}

/// How long a transfer of given bytes may take before its trial is given up.
const LONGEST_FOR_BYTES: Nanos = Nanos::from_secs(600);

impl Task for BulkTask {
    fn metrics(&self) -> Vec<Metric> {
        let rate = |name: &str, label: &str, role| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit: Unit::BitRate,
            better: Better::Higher,
            role,
        };
        let mut metrics = vec![rate("goodput_bps", "goodput", Role::Claim)];
        if self.directions.len() > 1 {
            metrics.push(rate("goodput_up_bps", "goodput up", Role::Descriptive));
            metrics.push(rate("goodput_down_bps", "goodput down", Role::Descriptive));
        }
        metrics.push(rate("sent_bps", "sent", Role::Descriptive));
        metrics.push(Metric {
            name: "loss_share".into(),
            label: "lost".into(),
            unit: Unit::Share,
            better: Better::Lower,
            role: Role::Descriptive,
        });
        metrics
    }

    fn misfit(&self, guarantees: &Guarantees, peer: PeerKind) -> Option<String> {
        if peer == PeerKind::Kernel {
            return Some(
                "the far host's kernel only echoes, so nobody could receive or count bulk data"
                    .into(),
            );
        }
        let largest = guarantees.largest_message.filter(|largest| self.size as u64 > *largest)?;
        Some(format!(
            "its largest message has {largest} bytes and size={} asks for more",
            self.size
        ))
    }

    fn flows(&self) -> Vec<Option<Direction>> {
        let each = |direction: &Direction| vec![Some(*direction); self.streams as usize];
        self.directions.iter().flat_map(each).collect()
    }

    fn largest_message(&self) -> usize {
        self.size
    }

    fn longest(&self) -> Nanos {
        match self.stop {
            Stop::At { time } => time + Nanos::from_secs(2),
            Stop::After { .. } => LONGEST_FOR_BYTES,
        }
    }

    fn planned(&self) -> Option<Nanos> {
        match self.stop {
            Stop::At { time } => Some(time),
            Stop::After { .. } => None,
        }
    }

    fn most_bytes(&self) -> Option<u64> {
        match self.stop {
            Stop::After { bytes } => Some(bytes.saturating_mul(self.streams)),
            Stop::At { .. } => None,
        }
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn half(&self, part: Part) -> Box<dyn Half> {
        let direction = self.flows().get(usize::from(part.flow)).copied().flatten();
        let sends = (part.side == Side::Near) == (direction == Some(Direction::Up));
        let framing = part.guarantees.framing;
        if sends {
            sender(self.stop_for(framing), self.size, self.call, part.tag)
        } else {
            receiver(framing, part.tag)
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Findings {
        let mut findings = Findings::default();
        let flows = self.flows();
        let mut goodput = Rate::default();
        let mut offered = Rate::default();
        let mut lost = (0u64, 0u64);
        for direction in &self.directions {
            let part = gather(reports, &flows, *direction);
            let account = part.account(reports.guarantees.framing);
            lost = (lost.0 + account.sent.saturating_sub(account.delivered), lost.1 + account.sent);
            goodput.add(part.goodput_bps());
            offered.add(part.sent_bps());
            let name = format!("goodput_{direction}_bps");
            if let (Some(bps), true) = (part.goodput_bps(), self.directions.len() > 1) {
                findings.metrics.insert(name, bps);
            }
            match direction {
                Direction::Up => findings.ledger.up = Some(account),
                Direction::Down => findings.ledger.down = Some(account),
            }
        }
        match goodput.0 {
            Some(bps) => findings.metrics.insert("goodput_bps".into(), bps),
            None => {
                findings.why_invalid = Some(
                    "too short to have a rate: all that arrived came in one call; raise bytes or time".into(),
                );
                None
            }
        };
        offered.0.map(|bps| findings.metrics.insert("sent_bps".into(), bps));
        if lost.1 > 0 {
            findings.metrics.insert("loss_share".into(), lost.0 as f64 / lost.1 as f64);
        }
        findings
    }

    fn spec(&self) -> Spec {
        let mut options: Vec<(String, String)> =
            self.settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        if let (Stop::At { time }, false) = (self.stop, self.settings.given("time")) {
            options.push(("time".into(), format!("{}ms", time.0 / 1_000_000)));
        }
        options.sort();
        Spec { name: INFO.id.to_owned(), options }
    }
}

/// A sum of rates that is unknown as soon as one of them is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate(pub(super) Option<f64>);

impl Default for Rate {
    fn default() -> Rate {
        Rate(Some(0.0))
    }
}

impl Rate {
    pub(super) fn add(&mut self, more: Option<f64>) {
        self.0 = self.0.zip(more).map(|(sum, more)| sum + more);
    }
}

/// All flows of one direction.
#[derive(Debug, Default)]
pub(super) struct OneWay {
    pub(super) sent: Tally,
    pub(super) received: Tally,
    socket_drops: Option<u64>,
    send_span_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    first_bytes: u64,
}

pub(super) fn gather(
    reports: &Reports<'_>,
    flows: &[Option<Direction>],
    direction: Direction,
) -> OneWay {
    let (senders, receivers, receiver_conns) = match direction {
        Direction::Up => (reports.near, reports.far, reports.far_conns),
        Direction::Down => (reports.far, reports.near, reports.near_conns),
    };
    let mut sum = OneWay::default();
    let ours = (0..flows.len()).filter(|flow| flows[*flow] == Some(direction));
    for flow in ours {
        sum.add(senders.get(flow), receivers.get(flow), receiver_conns.get(flow));
    }
    sum
}

impl OneWay {
    fn add(
        &mut self,
        sender: Option<&HalfReport>,
        receiver: Option<&HalfReport>,
        conn: Option<&ConnStats>,
    ) {
        if let Some(sender) = sender {
            add(&mut self.sent, &sender.sent);
            self.send_span_ns = self.send_span_ns.max(sender.send_span_ns.unwrap_or(0));
        }
        if let Some(receiver) = receiver {
            add(&mut self.received, &receiver.received);
            if let Some(span) = receiver.receive_span {
                if self.first_ns.is_none_or(|first| span.first_ns < first) {
                    self.first_ns = Some(span.first_ns);
                    self.first_bytes = span.first_bytes;
                }
                self.last_ns = self.last_ns.max(span.last_ns);
            }
        }
        if let Some(drops) = conn.and_then(|conn| conn.socket_drops) {
            self.socket_drops = Some(self.socket_drops.unwrap_or(0) + drops);
        }
    }

    /// Bits that arrived after the first receive, over the time from there to the last.
    pub(super) fn goodput_bps(&self) -> Option<f64> {
        let span = self.last_ns.checked_sub(self.first_ns?).filter(|span| *span > 0)?;
        Some(self.received.bytes.saturating_sub(self.first_bytes) as f64 * 8e9 / span as f64)
    }

    pub(super) fn sent_bps(&self) -> Option<f64> {
        (self.send_span_ns > 0).then(|| self.sent.bytes as f64 * 8e9 / self.send_span_ns as f64)
    }

    pub(super) fn account(&self, framing: Framing) -> Account {
        if framing == Framing::Messages {
            return account(self.sent, self.received, self.socket_drops);
        }
        let (sent, delivered) = (self.sent.bytes, self.received.bytes);
        let open_because = match sent.checked_sub(delivered) {
            Some(0) => None,
            Some(missing) => Some(format!("{missing} bytes of a byte stream never arrived")),
            None => Some(format!("{} bytes more arrived than were sent", delivered - sent)),
        };
        Account { unit: "bytes".into(), sent, delivered, open_because, ..Account::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReceiveSpan;
    use super::*;
    use crate::contract::promises::{BYTE_STREAM, DATAGRAMS};

    fn task(typed: &str) -> Box<dyn Task> {
        super::super::parse(typed).unwrap()
    }

    fn sender(messages: u64, bytes: u64, span_ns: u64) -> HalfReport {
        let sent = Tally { messages, bytes, ..Tally::default() };
        HalfReport { sent, send_span_ns: Some(span_ns), ..HalfReport::default() }
    }

    fn receiver(messages: u64, bytes: u64, first_ns: u64, last_ns: u64) -> HalfReport {
        let received = Tally { messages, bytes, ..Tally::default() };
        let span = ReceiveSpan { first_ns, last_ns, first_bytes: 0 };
        HalfReport { received, receive_span: Some(span), ..HalfReport::default() }
    }

    fn conclude(typed: &str, of: &Guarantees, near: &[HalfReport], far: &[HalfReport]) -> Findings {
        let drops = ConnStats { socket_drops: Some(30), ..ConnStats::default() };
        let conns = vec![drops; near.len()];
        task(typed).conclude(&Reports {
            near,
            far,
            near_conns: &conns,
            far_conns: &conns,
            guarantees: of,
        })
    }

    #[test]
    fn goodput_is_the_receivers_over_the_receivers_span() {
        let near = [sender(100, 140_000, 1_000_000)];
        let far = [receiver(60, 84_000, 5_000_000, 7_000_000)];
        let findings = conclude("bulk", &DATAGRAMS, &near, &far);
        assert_eq!(findings.metrics["goodput_bps"], 84_000.0 * 8.0 / 2e-3);
        assert_eq!(findings.metrics["sent_bps"], 140_000.0 * 8.0 / 1e-3);
        assert_eq!(findings.metrics["loss_share"], 0.4);
        let up = findings.ledger.up.unwrap();
        assert!(up.closes());
        assert_eq!((up.lost_on_path, up.dropped_at_receiver), (10, 30));
    }

    #[test]
    fn streams_share_one_span() {
        let near = [sender(0, 1000, 10), sender(0, 1000, 10)];
        let far = [receiver(0, 1000, 100, 200), receiver(0, 1000, 150, 300)];
        let findings = conclude("bulk:streams=2", &BYTE_STREAM, &near, &far);
        assert_eq!(findings.metrics["goodput_bps"], 2000.0 * 8e9 / 200.0);
        assert!(findings.ledger.up.unwrap().closes());
    }

    #[test]
    fn a_byte_stream_that_loses_bytes_does_not_close() {
        let findings =
            conclude("bulk", &BYTE_STREAM, &[sender(0, 1000, 10)], &[receiver(0, 900, 100, 200)]);
        let up = findings.ledger.up.unwrap();
        assert!(!up.closes());
        assert_eq!(up.open_because.unwrap(), "100 bytes of a byte stream never arrived");
    }

    #[test]
    fn one_call_is_no_rate() {
        let findings =
            conclude("bulk", &BYTE_STREAM, &[sender(0, 64, 10)], &[receiver(0, 64, 5, 5)]);
        assert!(findings.why_invalid.unwrap().contains("raise bytes"));
    }

    #[test]
    fn both_directions_add_up_and_stand_apart() {
        let near = [sender(0, 1000, 10), receiver(0, 500, 0, 100)];
        let far = [receiver(0, 1000, 0, 100), sender(0, 500, 10)];
        let findings = conclude("bulk:direction=both", &BYTE_STREAM, &near, &far);
        assert_eq!(findings.metrics["goodput_up_bps"], 8e10);
        assert_eq!(findings.metrics["goodput_down_bps"], 4e10);
        assert_eq!(findings.metrics["goodput_bps"], 12e10);
    }

    #[test]
    fn messages_are_whole_and_streams_share_the_bytes() {
        let messages = Framing::Messages;
        let BulkTask { .. } = BulkTask::new(Settings::default()).unwrap();
        let spec = Spec::parse("bulk:bytes=3000,streams=2,size=1000").unwrap();
        let task = BulkTask::new(Settings::check(&spec, KEYS).unwrap()).unwrap();
        assert_eq!(task.stop_for(messages), Stop::After { bytes: 2000 });
        assert_eq!(task.stop_for(Framing::ByteStream), Stop::After { bytes: 1500 });
    }

    #[test]
    fn the_kernel_cannot_receive_bulk() {
        let misfit = task("bulk").misfit(&DATAGRAMS, PeerKind::Kernel);
        assert!(misfit.unwrap().contains("only echoes"));
        assert_eq!(task("bulk").misfit(&DATAGRAMS, PeerKind::Process), None);
    }

    #[test]
    fn defaults_are_spelled_out() {
        assert_eq!(
            task("bulk").spec().to_string(),
            "bulk:call=128KiB,direction=up,size=1400,streams=1,time=1000ms"
        );
    }
}
