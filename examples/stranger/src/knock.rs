//! A workload: short messages at a fixed pace, near to far, and the share of them that arrives.

use deadheat::Result;
use deadheat::contract::{Action, Direction, Guarantees, Lane, PeerFacts, Service, Side};
use deadheat::measurements::{Better, ClockNeed, Metric, Role, Tally, Unit};
use deadheat::spec::typed::{Optional, Preset};
use deadheat::spec::{Key, Settings, Spec};
use deadheat::time::Nanos;
use deadheat::workload::header::{self, Header, SeqWindow, account_of};
use deadheat::workload::setting::spoken;
use deadheat::workload::theory::{Conditions, Prediction};
use deadheat::workload::{
    Endpoint, EndpointReport, FlowEvent, Info, Lengths, Measurements, Part, Reports, Setting,
    Standing, Task, TaskInfo, Workload,
};

/// The workload.
pub(crate) struct Knock;

/// Bytes of a message.
const SIZE: usize = 64;

/// Time for which the far end waits for messages that are under way when the last has left.
const DRAIN: Nanos = Nanos::from_secs(1);

/// Name of the figure that verdicts are given for.
const ARRIVED: &str = "arrived_share";

const COUNT: Preset<u64> =
    Optional::count("count", (100, 1_000_000)).or("500").doc("the number of messages");

const INTERVAL: Preset<Nanos> = Optional::span("interval", (100_000, 10_000_000_000))
    .or("2ms")
    .doc("the time between two of them");

const KEYS: &[Key] = &[COUNT.key(), INTERVAL.key()];

static INFO: Info = Info {
    id: "knock",
    label: "knocks",
    summary: "short messages at a fixed pace: the share of them that arrives",
    keys: KEYS,
};

impl Workload for Knock {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, _setting: &Setting) -> Result<Box<dyn Task>> {
        let settings = Settings::check(spec, KEYS)?;
        let count = settings.get(&COUNT);
        let interval = settings.get(&INTERVAL);
        let whole = Nanos(interval.0.saturating_mul(count));
        let info = TaskInfo {
            headline: format!("{count} knocks, one each {}", spoken(interval)),
            spec: Spec {
                name: INFO.id.to_owned(),
                options: settings.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            },
            metrics: vec![Metric {
                name: ARRIVED.to_owned(),
                label: "arrived".to_owned(),
                unit: Unit::Share,
                better: Better::Higher,
                role: Role::Claim,
                clock: ClockNeed::None,
            }],
            lengths: None::<Lengths>,
            flows: vec![None],
            largest_message: SIZE,
            longest: whole + DRAIN,
            planned: Some(whole),
            ..TaskInfo::default()
        };
        Ok(Box::new(KnockTask { count, interval, info }))
    }
}

/// Knocks with their settings.
struct KnockTask {
    count: u64,
    interval: Nanos,
    info: TaskInfo,
}

impl Task for KnockTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        (peer.echoes).then(|| "its far end counts nothing".to_owned())
    }

    fn theory(&self, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        match part.side {
            Side::Near => Box::new(KnockSender {
                tag: part.tag,
                count: self.count,
                interval: self.interval,
                began: None,
                sent: Tally::default(),
            }),
            Side::Far => Box::new(KnockReceiver {
                tag: part.tag,
                count: self.count,
                until: None,
                seen: SeqWindow::new(),
                received: Tally::default(),
            }),
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let (near, far) = (reports.near, reports.far);
        let sum = |ends: &[EndpointReport], of: fn(&EndpointReport) -> u64| -> f64 {
            ends.iter().map(of).sum::<u64>() as f64
        };
        let mut measured = Measurements::default();
        let (sent, came) =
            (sum(near, |end| end.sent.messages), sum(far, |end| end.received.messages));
        measured.metrics.insert(ARRIVED.to_owned(), came / sent.max(1.0));
        measured.ledger.set(Direction::Up, account_of(near, far, reports.far_conns));
        if sent < self.count as f64 {
            measured.why_invalid = Some(format!("it sent {sent} of {} messages", self.count));
        }
        measured
    }
}

/// The near endpoint, which sends.
struct KnockSender {
    tag: u32,
    count: u64,
    interval: Nanos,
    /// Time of its first poll; its messages are due from then on.
    began: Option<Nanos>,
    sent: Tally,
}

impl Endpoint for KnockSender {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        if self.has_sent_all() {
            return Action::Done;
        }
        let began = *self.began.get_or_insert(now);
        let due = began + Nanos(self.interval.0.saturating_mul(self.sent.messages));
        if now < due {
            return Action::Wait(Some(due));
        }
        Header { tag: self.tag, seq: self.sent.messages }.write(out);
        Action::Send { lane: Lane(0), len: SIZE }
    }

    fn on_sent(&mut self, _now: Nanos) {
        self.sent.messages += 1;
        self.sent.bytes += SIZE as u64;
    }

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_event(&mut self, _now: Nanos, _event: FlowEvent) {}

    fn has_sent_all(&self) -> bool {
        self.sent.messages >= self.count
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport { sent: self.sent, ..EndpointReport::default() }
    }
}

/// The far endpoint, which counts.
struct KnockReceiver {
    tag: u32,
    count: u64,
    /// Time until which it waits for late messages, after the near end has sent all.
    until: Option<Nanos>,
    seen: SeqWindow,
    received: Tally,
}

impl Endpoint for KnockReceiver {
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        let has_all = self.received.messages >= self.count;
        match self.until {
            Some(until) if has_all || now >= until => Action::Done,
            until => Action::Wait(until),
        }
    }

    fn on_sent(&mut self, _now: Nanos) {}

    fn on_message(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8]) {
        match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag && seq < self.count => {
                header::count(&mut self.received, self.seen.note(seq), bytes.len());
            }
            _ => self.received.foreign += 1,
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        if let FlowEvent::PeerFinished { .. } = event {
            self.until = Some(now + DRAIN);
        }
    }

    fn has_sent_all(&self) -> bool {
        true
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { received: self.received, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport { received: self.received, ..EndpointReport::default() }
    }
}
