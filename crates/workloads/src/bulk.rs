//! Bulk transfer: as many bytes as the transport moves. Goodput is the receiver's bytes over the receiver's own span,
//! and the receiver confirms the end; the bytes that the sender handed over are reported beside it.
//!
//! A transport that keeps message boundaries carries numbered messages of `size` bytes, and only messages that arrived
//! count. A byte stream carries bytes. Every flow is a connection of its own; the time to connect does not count unless
//! `connect=timed`.
//!
//! The bytes are a pattern, or the content of a file; the receiver counts them, and writes them to a file or checks
//! them if the settings ask for it. The engine opens the files: here they are a [`Store`].
//!
//! [`Store`]: deadheat_contract::contract::Store

use deadheat_base::error::Result;
use deadheat_base::spec::{Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Direction, Framing, Guarantees, PeerFacts, Service, Side};
use deadheat_contract::measurements::name::{GOODPUT, LOST, SENT};
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Role, Unit};

use deadheat_contract::workload::load::{Flows, Observed};
use deadheat_contract::workload::setting::{filled, spoken, typed, ways};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    Content, ContentReport, Endpoint, Ends, Info, Lengths, Measurements, Origin, Part, Piece,
    Reports, Setting, Task, TaskInfo, Traffic, Workload, header, traffic,
};
use keeper::Keeper;
use sender::Freight;
use settings::{BYTES, CONNECT, Check, Extent, KEYS, Memory, SetUp, TIMED, Terms};
use way::OneWay;

pub(super) use marks::{Marks, Timing};
pub(super) use settings::{SIZE, TIME, WARMUP, WAYS};
pub(super) use way::{Begin, Rate, segments};

mod keeper;
mod marks;
mod receiver;
mod sender;
mod settings;
mod way;

/// The workload.
pub(super) struct Bulk;

static INFO: Info = Info {
    id: "bulk",
    label: "bulk transfer",
    summary: "as many bytes as possible, or a file: the rate of arrival",
    keys: KEYS,
};

impl Workload for Bulk {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        Ok(Box::new(BulkTask::new(Settings::check(spec, KEYS)?, setting)?))
    }

    fn is_usual_for(&self, peer: PeerFacts) -> bool {
        peer.takes_data
    }

    fn as_load(&self, load: &Flows) -> Option<String> {
        let (time, warmup) = (typed(load.time), typed(load.warmup));
        let (id, direction, flows) = (INFO.id, load.direction, load.flows);
        load.rate.is_none().then(|| {
            format!("{id}:direction={direction},streams={flows},time={time},warmup={warmup}")
        })
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::Bulk).then(|| {
            let mut options = vec![("direction", traffic.direction(Direction::Down).to_string())];
            if let Some(size) = &traffic.size {
                options.push(("bytes", Traffic::bytes(Some(size), 1)?.to_string() + "B"));
                // The user waits for a file from the first packet on.
                options.push((CONNECT.name(), TIMED.to_owned()));
            }
            Ok(traffic::Work::new(INFO.id, options))
        })
    }
}

/// Condition for a sender to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Stop after this many bytes on this flow.
    After { bytes: u64 },
    /// Stop after this time.
    At { time: Nanos },
}

/// A bulk transfer with its settings.
#[derive(Debug, Clone)]
struct BulkTask {
    settings: Settings,
    terms: Terms,
    /// Shortest length of a trial, if the settings do not give one.
    lengths: Option<Lengths>,
    info: TaskInfo,
}

/// Creates a bulk transfer with this number of streams, and these other options.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] if the options contradict each other.
pub(super) fn task(
    streams: u64,
    options: Vec<(String, String)>,
    setting: &Setting,
) -> Result<Box<dyn Task>> {
    let mut spec = Spec::parse(&format!("{}:streams={streams}", INFO.id))?;
    spec.options.extend(options);
    Bulk.task(&spec, setting)
}

/// Creates an endpoint that sends as fast as the transport takes it.
pub(super) fn sender(stop: Stop, size: usize, call: usize, tag: u32) -> Box<dyn Endpoint> {
    Box::new(sender::BulkSender::new(stop, size, call, tag))
}

/// Creates the endpoint that receives from [`sender`], over a path that may hold a message for `transit`.
pub(super) fn receiver(
    promised: &Guarantees,
    tag: u32,
    transit: Nanos,
    timing: Timing,
) -> Box<dyn Endpoint> {
    Box::new(receiver::BulkReceiver::new(promised, tag, None).over(transit).timed(timing))
}

/// Sums up all flows of one direction, without the time to connect.
pub(super) fn gather(
    reports: &Reports<'_>,
    flows: &[Option<Direction>],
    direction: Direction,
    begin: Begin,
) -> OneWay {
    way::gather(reports, flows, direction, SetUp::Apart, begin)
}

/// Longest time from the end of sending to the last arrival, before a trial is given up: a window of megabytes drains
/// slowly after losses have cut the rate to a tenth.
const LONGEST_TO_DRAIN: Nanos = Nanos::from_secs(60);

/// Longest time that a transfer of given bytes may take before its trial is given up.
const LONGEST_FOR_BYTES: Nanos = Nanos::from_secs(600);

/// Maximum number of messages of a flow with content: each takes a bit of memory.
const MOST_KEPT: u64 = 1 << 27;

impl BulkTask {
    fn new(mut settings: Settings, setting: &Setting) -> Result<BulkTask> {
        // The time of a program begins with its start, so that of every contender does.
        if setting.ends == Ends::Programs && settings.given(BYTES.name()) {
            settings.assume(&CONNECT.key(), TIMED)?;
        }
        let terms = Terms::read(&settings, setting)?;
        let lengths = match terms.extent {
            Extent::Time(_) if !settings.given(TIME.name()) => Some(Lengths::steady(setting)),
            _ => None,
        };
        let mut task = BulkTask { settings, terms, lengths, info: TaskInfo::default() };
        task.info = task.facts();
        Ok(task)
    }

    /// Returns the time to send for, the warm-up included; `None` if bytes decide.
    fn sending_time(&self) -> Option<Nanos> {
        match self.terms.extent {
            Extent::Time(time) => Some(self.terms.warmup + time),
            _ => None,
        }
    }

    fn timing(&self) -> Timing {
        let measured = match self.terms.extent {
            Extent::Time(time) => time,
            _ => Nanos::ZERO,
        };
        Timing { warmup: self.terms.warmup, measured }
    }

    /// Returns the start and the length of the part that one flow carries, in bytes of its direction; the length is
    /// `u64::MAX` if the flow sends for a time.
    fn piece(&self, flow: u16) -> (u64, u64) {
        let streams = u128::from(self.terms.streams);
        let stream = u128::from(flow) % streams;
        let Extent::Bytes(bytes) = self.terms.extent else { return (0, u64::MAX) };
        let cut = |stream: u128| (u128::from(bytes) * stream / streams) as u64;
        (cut(stream), cut(stream + 1) - cut(stream))
    }

    /// Returns the content bytes in each message.
    fn payload(&self) -> u64 {
        self.terms.size.saturating_sub(header::LEN) as u64
    }

    /// Returns the end of sending of one flow: whole messages if the transport keeps boundaries.
    fn stop(&self, flow: u16, framing: Framing) -> Stop {
        let bytes = match (self.terms.extent, self.piece(flow)) {
            (Extent::Time(time), _) => return Stop::At { time: self.terms.warmup + time },
            (_, (_, bytes)) => bytes,
        };
        let size = self.terms.size as u64;
        let whole = match framing {
            Framing::ByteStream => bytes,
            Framing::Messages if self.terms.cargo.is_content() => {
                bytes.div_ceil(self.payload().max(1)).saturating_mul(size)
            }
            Framing::Messages => bytes.next_multiple_of(size),
        };
        Stop::After { bytes: whole }
    }

    /// Returns the reason why messages cannot carry the content; `None` if they can.
    fn content_misfit(&self) -> Option<String> {
        let cargo = &self.terms.cargo;
        if cargo.memory == Memory::Fresh {
            return Some(
                "it keeps message boundaries, and alloc=fresh takes a byte stream, which is \
                 received into memory as it is"
                    .into(),
            );
        }
        if !cargo.is_content() {
            return None;
        }
        if self.payload() == 0 {
            return Some(format!(
                "messages of {} bytes are all header; content takes a larger size",
                self.terms.size
            ));
        }
        if cargo.source.is_some() && cargo.sink.is_none() && cargo.check == Check::WhileReceiving {
            return Some(
                "its messages may arrive in any order, in which a file cannot be hashed; give \
                 sink=PATH, and what arrived is checked from there"
                    .into(),
            );
        }
        let (_, bytes) = self.piece(0);
        let messages = bytes.div_ceil(self.payload());
        let is_bounded = matches!(self.terms.extent, Extent::Bytes(_));
        (is_bounded && messages > MOST_KEPT).then(|| {
            format!(
                "{} of content are {messages} messages on a stream, and {MOST_KEPT} can be kept \
                 apart; raise size, or streams",
                Bytes(bytes)
            )
        })
    }

    /// Creates the keeper of the content at the receiving end; `None` if it is only counted.
    fn keeper(&self, part: Part) -> Option<Keeper> {
        let cargo = &self.terms.cargo;
        let is_fresh = cargo.memory == Memory::Fresh;
        if !cargo.is_content() && !is_fresh {
            return None;
        }
        let (start, bytes) = self.piece(part.flow);
        let mut keeper = Keeper::new(start, bytes);
        if part.guarantees.framing == Framing::Messages {
            keeper = keeper.in_messages(self.payload());
        }
        if let (Some(store), true) = (part.store, cargo.sink.is_some()) {
            return Some(keeper.into_store(store));
        }
        if is_fresh {
            keeper = keeper.into_memory();
        }
        Some(match (cargo.check, cargo.source.is_some()) {
            (Check::Off, _) => keeper,
            (Check::WhileReceiving, false) => keeper.against_pattern(),
            (Check::WhileReceiving, true) => keeper.hashed(),
        })
    }

    /// Returns the report on the content of all flows.
    fn content(&self, reports: &Reports<'_>) -> Option<Content> {
        if !self.terms.cargo.is_content() {
            return None;
        }
        let flows = &self.info.flows;
        let piece = |(flow, direction): (usize, &Option<Direction>)| {
            let (sender, receiver) = match direction {
                Some(Direction::Down) => (reports.far.get(flow), reports.near.get(flow)),
                _ => (reports.near.get(flow), reports.far.get(flow)),
            };
            let (start, bytes) = self.piece(flow as u16);
            let bytes = match self.terms.extent {
                Extent::Time(_) => sender.map_or(0, |half| match reports.guarantees.framing {
                    Framing::ByteStream => half.sent.bytes,
                    Framing::Messages => half.sent.messages * self.payload(),
                }),
                _ => bytes,
            };
            let report: Option<ContentReport> = receiver.and_then(|half| half.content.clone());
            Piece { start, bytes, report: report.unwrap_or_default() }
        };
        let origin = if self.terms.cargo.source.is_some() { Origin::File } else { Origin::MadeUp };
        Some(Content { origin, pieces: flows.iter().enumerate().map(piece).collect() })
    }
}

impl BulkTask {
    fn facts(&self) -> TaskInfo {
        let each = |direction: &Direction| vec![Some(*direction); self.terms.streams as usize];
        let (spans, most_bytes) = match self.terms.extent {
            Extent::Time(time) => {
                (vec![("time", typed(time)), ("warmup", typed(self.terms.warmup))], None)
            }
            Extent::Bytes(bytes) => (Vec::new(), Some(bytes)),
            Extent::WholeFile => (Vec::new(), None),
        };
        TaskInfo {
            headline: self.headline(),
            spec: filled(INFO.id, &self.settings, spans),
            metrics: self.metrics(),
            lengths: self.lengths,
            flows: self.terms.directions.iter().flat_map(each).collect(),
            largest_message: self.terms.size,
            longest: self.sending_time().map_or(LONGEST_FOR_BYTES, |time| time + LONGEST_TO_DRAIN),
            planned: self.sending_time(),
            warmup: self.terms.warmup,
            most_bytes,
            files: self.terms.files(),
            memory: self.terms.memory(),
            observed: self.terms.one_way().map(Observed::Bytes),
            fills_path: true,
            programs: self.terms.programs(),
            ..TaskInfo::default()
        }
    }

    fn headline(&self) -> String {
        let what = match (&self.terms.cargo.source, self.terms.extent) {
            (_, Extent::Time(time)) => spoken(time),
            (Some(_), Extent::WholeFile) => "a file".to_owned(),
            (Some(_), Extent::Bytes(bytes)) => format!("{} of a file", Bytes(bytes)),
            (None, Extent::Bytes(bytes)) => Bytes(bytes).to_string(),
            (None, Extent::WholeFile) => "a file".to_owned(),
        };
        let streams = match self.terms.streams {
            1 => String::new(),
            streams => format!(", {streams} streams"),
        };
        format!("bulk, {what} {}{streams}", ways(self.terms.directions))
    }

    fn metrics(&self) -> Vec<Metric> {
        let metric = |name: &str, label: &str, unit, better, role| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit,
            better,
            role,
            clock: ClockNeed::None,
        };
        let rate = |name, label, role| metric(name, label, Unit::BitRate, Better::Higher, role);
        let mut metrics = vec![rate(GOODPUT, "goodput", Role::Claim)];
        if self.terms.directions.len() > 1 {
            metrics.push(rate("goodput_up_bps", "goodput up", Role::Descriptive));
            metrics.push(rate("goodput_down_bps", "goodput down", Role::Descriptive));
        }
        metrics.push(rate(SENT, "sent", Role::Descriptive));
        let lower = |name, label, unit| metric(name, label, unit, Better::Lower, Role::Descriptive);
        metrics.push(lower(LOST, "lost", Unit::Share));
        if !matches!(self.terms.extent, Extent::Time(_)) {
            metrics.push(lower("transfer_ns", "transfer", Unit::Nanos));
        }
        metrics
    }
}

impl Task for BulkTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    fn misfit(&self, promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        if let Some(why) = self.terms.misfit_of_others(promised.framing, peer) {
            return Some(why.to_owned());
        }
        match promised.framing {
            Framing::ByteStream => None,
            Framing::Messages => self.content_misfit(),
        }
    }

    /// Predicts the goodput under loss, for congestion controls with a known response to loss.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        self.terms.theory(on)
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let direction = self.info.flows.get(usize::from(part.flow)).copied().flatten();
        let sends = (part.side == Side::Near) == (direction == Some(Direction::Up));
        let framing = part.guarantees.framing;
        let Terms { size, call, cargo, .. } = &self.terms;
        if !sends {
            let (tag, transit, promised) = (part.tag, part.transit, part.guarantees);
            let asks = part.peer.answers_requests;
            let receiver = receiver::BulkReceiver::new(&promised, tag, self.keeper(part));
            let receiver = receiver.over(transit).asking(asks);
            return Box::new(receiver.timed(self.timing()));
        }
        let sender = sender::BulkSender::new(self.stop(part.flow, framing), *size, *call, part.tag);
        let (start, bytes) = self.piece(part.flow);
        Box::new(match (part.store, framing) {
            (Some(store), _) => sender.carry(Freight::from_file(store, start, bytes)),
            (None, Framing::Messages) if cargo.is_content() => {
                sender.carry(Freight::made_up(bytes))
            }
            // A byte stream of made-up content is the transport's own.
            (None, _) => sender,
        })
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = Measurements::default();
        let flows = &self.info.flows;
        let directions = self.terms.directions;
        let mut goodput = Rate::default();
        let mut offered = Rate::default();
        let mut longest_ns = None;
        let mut lost = (0u64, 0u64);
        for direction in directions {
            let begin = Begin::of(self.terms.extent);
            let part = way::gather(reports, flows, *direction, self.terms.connect, begin);
            let account = part.account(reports.guarantees.framing);
            lost = (lost.0 + account.sent.saturating_sub(account.delivered), lost.1 + account.sent);
            goodput.add(part.goodput_bps());
            offered.add(part.sent_bps());
            longest_ns = longest_ns.max(part.span_ns());
            let name = format!("goodput_{direction}_bps");
            if let (Some(bps), true) = (part.goodput_bps(), directions.len() > 1) {
                findings.metrics.insert(name, bps);
            }
            match direction {
                Direction::Up => findings.ledger.up = Some(account),
                Direction::Down => findings.ledger.down = Some(account),
            }
        }
        match goodput.0 {
            Some(bps) => findings.metrics.insert(GOODPUT.into(), bps),
            None => {
                findings.why_invalid = Some(
                    "too short to have a rate: all that arrived came in one call; raise bytes or \
                     time, or take a larger file"
                        .into(),
                );
                None
            }
        };
        if let (false, Some(ns)) = (matches!(self.terms.extent, Extent::Time(_)), longest_ns) {
            findings.metrics.insert("transfer_ns".into(), ns as f64);
        }
        offered.0.map(|bps| findings.metrics.insert(SENT.into(), bps));
        if lost.1 > 0 {
            findings.metrics.insert(LOST.into(), lost.0 as f64 / lost.1 as f64);
        }
        findings.segments = way::segments(reports, flows);
        findings.content = self.content(reports);
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{ConnStats, Tally};
    use deadheat_contract::workload::EndMemory;
    use deadheat_contract::workload::EndpointReport;
    use deadheat_contract::workload::{Clocks, Purpose, ReceiveSpan};

    fn task(typed: &str) -> Box<dyn Task> {
        deadheat_contract::workload::parse(typed).unwrap()
    }

    fn sender(messages: u64, bytes: u64, span_ns: u64) -> EndpointReport {
        let sent = Tally { messages, bytes, ..Tally::default() };
        EndpointReport { sent, send_span_ns: Some(span_ns), ..EndpointReport::default() }
    }

    fn receiver(messages: u64, bytes: u64, first_ns: u64, last_ns: u64) -> EndpointReport {
        let received = Tally { messages, bytes, ..Tally::default() };
        let span = ReceiveSpan { first_ns, last_ns, first_bytes: 0, warmup_bytes: 0 };
        EndpointReport { received, receive_span: Some(span), ..EndpointReport::default() }
    }

    fn conclude(
        typed: &str,
        of: &Guarantees,
        near: &[EndpointReport],
        far: &[EndpointReport],
    ) -> Measurements {
        let drops = ConnStats { socket_drops: Some(30), ..ConnStats::default() };
        let conns = vec![drops; near.len()];
        task(typed).conclude(&Reports {
            near,
            far,
            near_conns: &conns,
            far_conns: &conns,
            guarantees: of,
            clocks: Clocks::Shared,
        })
    }

    #[test]
    fn goodput_is_the_receivers_over_the_receivers_span() {
        let near = [sender(100, 140_000, 1_000_000)];
        let far = [receiver(60, 84_000, 5_000_000, 7_000_000)];
        let findings = conclude("bulk", &Guarantees::DATAGRAMS, &near, &far);
        assert_eq!(findings.metrics["goodput_bps"], 84_000.0 * 8.0 / 2e-3);
        assert_eq!(findings.metrics["sent_bps"], 140_000.0 * 8.0 / 1e-3);
        assert_eq!(findings.metrics["loss_share"], 0.4);
        let up = findings.ledger.up.unwrap();
        assert!(up.closes());
        assert_eq!((up.lost_on_path, up.dropped_at_receiver), (10, Some(30)));
    }

    #[test]
    fn streams_share_one_span() {
        let near = [sender(0, 1000, 10), sender(0, 1000, 10)];
        let far = [receiver(0, 1000, 100, 200), receiver(0, 1000, 150, 300)];
        let findings = conclude("bulk:streams=2", &Guarantees::BYTE_STREAM, &near, &far);
        assert_eq!(findings.metrics["goodput_bps"], 2000.0 * 8e9 / 200.0);
        assert!(findings.ledger.up.unwrap().closes());
    }

    #[test]
    fn a_byte_stream_that_loses_bytes_does_not_close() {
        let findings = conclude(
            "bulk",
            &Guarantees::BYTE_STREAM,
            &[sender(0, 1000, 10)],
            &[receiver(0, 900, 100, 200)],
        );
        let up = findings.ledger.up.unwrap();
        assert!(!up.closes());
        assert_eq!(up.open_because.unwrap(), "100 bytes of a byte stream never arrived");
    }

    #[test]
    fn one_call_is_no_rate() {
        let findings = conclude(
            "bulk",
            &Guarantees::BYTE_STREAM,
            &[sender(0, 64, 10)],
            &[receiver(0, 64, 5, 5)],
        );
        assert!(findings.why_invalid.unwrap().contains("raise bytes"));
    }

    #[test]
    fn both_directions_add_up_and_stand_apart() {
        let near = [sender(0, 1000, 10), receiver(0, 500, 0, 100)];
        let far = [receiver(0, 1000, 0, 100), sender(0, 500, 10)];
        let findings = conclude("bulk:direction=both", &Guarantees::BYTE_STREAM, &near, &far);
        assert_eq!(findings.metrics["goodput_up_bps"], 8e10);
        assert_eq!(findings.metrics["goodput_down_bps"], 4e10);
        assert_eq!(findings.metrics["goodput_bps"], 12e10);
    }

    #[test]
    fn messages_are_whole_and_streams_share_the_bytes() {
        let task = bulk("bulk:bytes=3000,streams=2,size=1000,call=64");
        assert_eq!(task.stop(1, Framing::Messages), Stop::After { bytes: 2000 });
        assert_eq!(task.stop(0, Framing::ByteStream), Stop::After { bytes: 1500 });
    }

    #[test]
    fn the_kernel_cannot_receive_bulk() {
        let misfit = task("bulk").misfit(&Guarantees::DATAGRAMS, PeerFacts::ECHO);
        assert!(misfit.unwrap().contains("only echoes"));
        assert_eq!(task("bulk").misfit(&Guarantees::DATAGRAMS, PeerFacts::OURS), None);
    }

    #[test]
    fn defaults_are_spelled_out() {
        assert_eq!(
            task("bulk").info().spec.to_string(),
            "bulk:alloc=ready,call=128KiB,connect=apart,direction=up,size=1400,streams=1,time=300ms,\
             verify=off,warmup=50ms"
        );
        let setting = Setting { rtt: Some(Nanos::from_millis(50)), ..Setting::REMOTE };
        let on_path = deadheat_contract::workload::parse_on("bulk:size=9000", &setting).unwrap();
        let spec = on_path.info().spec.to_string();
        assert!(spec.ends_with("time=1000ms,verify=off,warmup=1000ms"), "{spec}");
        assert_eq!(on_path.info().planned, Some(Nanos::from_secs(2)));
        assert_eq!(task(&spec).info().spec.to_string(), spec, "the same anywhere");
        let bytes = task("bulk:bytes=1MB").info().spec.to_string();
        assert!(!bytes.contains("warmup") && !bytes.contains("time="), "{bytes}");
        assert!(task("bulk:connect=timed").info().spec.to_string().ends_with("warmup=0ms"));
    }

    #[test]
    fn headlines_and_lengths() {
        assert_eq!(task("bulk").info().headline, "bulk, 300 ms up");
        let both = task("bulk:bytes=1GB,direction=both,streams=4");
        assert_eq!(both.info().headline, "bulk, 1.00 GB both ways, 4 streams");
        assert_eq!(task("bulk:file=x,direction=down").info().headline, "bulk, a file down");
        let lengths = Lengths { fewest: 300, unit_ns: 1_000_000, key: "time" };
        assert_eq!(task("bulk").info().lengths, Some(lengths));
        assert_eq!(task("bulk:time=1s").info().lengths, None);
        assert_eq!(task("bulk:bytes=1GB").info().lengths, None);
    }

    #[test]
    fn what_warmed_up_is_no_goodput() {
        let mut receivers = [receiver(0, 1000, 100, 200), receiver(0, 1000, 100, 200)];
        for receiver in &mut receivers {
            receiver.receive_span.as_mut().unwrap().warmup_bytes = 400;
            receiver.segments = vec![1.0, 2.0, 3.0, 4.0];
        }
        let near = [sender(0, 1000, 10), sender(0, 1000, 10)];
        let found = conclude("bulk:streams=2", &Guarantees::BYTE_STREAM, &near, &receivers);
        assert_eq!(found.metrics["goodput_bps"], 1200.0 * 8e9 / 100.0);
        assert_eq!(found.segments, [2.0, 4.0, 6.0, 8.0]);
        assert!(found.ledger.up.unwrap().closes());
        receivers[1].segments.clear();
        assert!(
            conclude("bulk:streams=2", &Guarantees::BYTE_STREAM, &near, &receivers)
                .segments
                .is_empty()
        );
    }

    fn bulk(typed: &str) -> BulkTask {
        let settings = Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap();
        BulkTask::new(settings, &Setting::LOOPBACK).unwrap()
    }

    #[test]
    fn parts_of_a_file_meet_and_leave_nothing_out() {
        for (bytes, streams) in [(1, 1), (10, 3), (1_000_003, 128), (1 << 50, 127)] {
            let task = bulk(&format!("bulk:verify=on,bytes={bytes},streams={streams}"));
            let mut end = 0;
            for flow in 0..streams {
                let (start, len) = task.piece(flow);
                assert_eq!(start, end);
                assert!(len > 0 && len.abs_diff(bytes / u64::from(streams)) <= 1);
                end = start + len;
            }
            assert_eq!(end, bytes);
        }
        let both = bulk("bulk:verify=on,bytes=10,streams=3,direction=both");
        assert_eq!(both.piece(4), both.piece(1), "each direction carries all of it");
    }

    #[test]
    fn messages_carry_content_behind_their_headers() {
        let task = bulk("bulk:sink=x,bytes=1000,size=112");
        assert_eq!(task.stop(0, Framing::Messages), Stop::After { bytes: 10 * 112 });
        assert_eq!(task.stop(0, Framing::ByteStream), Stop::After { bytes: 1000 });
    }

    #[test]
    fn connecting_counts_where_it_is_asked_for() {
        let mut receiver = receiver(0, 1000, 100, 200);
        receiver.receive_span.as_mut().unwrap().first_bytes = 400;
        let of = |typed| {
            let dialled = [ConnStats { connect_ns: 300, ..ConnStats::default() }];
            task(typed).conclude(&Reports {
                near: &[sender(0, 1000, 10)],
                far: &[receiver.clone()],
                near_conns: &dialled,
                far_conns: &[ConnStats { connect_ns: 9_999, ..ConnStats::default() }],
                guarantees: &Guarantees::BYTE_STREAM,
                clocks: Clocks::Shared,
            })
        };
        let apart = of("bulk:bytes=1000,call=64").metrics;
        assert_eq!((apart["goodput_bps"], apart["transfer_ns"]), (600.0 * 8e9 / 100.0, 100.0));
        let timed = of("bulk:bytes=1000,connect=timed").metrics;
        assert_eq!((timed["goodput_bps"], timed["transfer_ns"]), (1000.0 * 8e9 / 400.0, 400.0));
        assert!(!of("bulk").metrics.contains_key("transfer_ns"), "time is no result of timed work");
    }

    /// A relay that stores a megabyte for 8 ms and passes it on within 2 has carried it in 10.
    #[test]
    fn a_relay_that_stores_all_before_it_passes_it_on_gains_nothing() {
        let sender = EndpointReport { send_began_ns: Some(5_000_000), ..sender(0, 1 << 20, 100) };
        let mut receiver = receiver(0, 1 << 20, 13_000_000, 15_000_000);
        receiver.receive_span.as_mut().unwrap().first_bytes = 1 << 19;
        let of = |typed, send_span, clocks| {
            let sender = EndpointReport { send_span_ns: Some(send_span), ..sender.clone() };
            let dialled = [ConnStats { connect_ns: 1_000_000, ..ConnStats::default() }];
            let found = task(typed).conclude(&Reports {
                near: &[sender],
                far: std::slice::from_ref(&receiver),
                near_conns: &dialled,
                far_conns: &dialled,
                guarantees: &Guarantees::BYTE_STREAM,
                clocks,
            });
            let transfer = found.metrics.get("transfer_ns").copied();
            (found.metrics["goodput_bps"], transfer)
        };
        let (whole, half) = ((1 << 20) as f64 * 8e9, (1 << 19) as f64 * 8e9);
        let bytes = "bulk:bytes=1048576B";
        assert_eq!(of(bytes, 100, Clocks::Shared), (whole / 10e6, Some(10e6)));
        let timed = "bulk:bytes=1048576B,connect=timed";
        assert_eq!(of(timed, 100, Clocks::Shared), (whole / 11e6, Some(11e6)));
        // Between two clocks, either end was busy with it for as long as it says.
        assert_eq!(of(bytes, 100, Clocks::Apart), (half / 2e6, Some(2e6)));
        assert_eq!(of(bytes, 7_000_000, Clocks::Apart), (whole / 7e6, Some(7e6)));
        // What goes on for a time has no begin that somebody waits for.
        assert_eq!(of("bulk:time=1s,warmup=0ms", 100, Clocks::Shared), (half / 2e6, None));
    }

    #[test]
    fn the_settings_for_an_end_name_its_own_file_only() {
        let task = task("bulk:file=a,sink=b,direction=down,bytes=500");
        let spec = |side, length| task.info().spec_for(side, length).to_string();
        assert!(spec(Side::Near, Some(1000)).contains("bytes=500"));
        assert!(spec(Side::Near, Some(1000)).contains("file=-,sink=b"), "the near end receives");
        let far = deadheat_contract::workload::parse(&spec(Side::Far, Some(300))).unwrap();
        assert_eq!(far.info().most_bytes, Some(300));
        let paths: Vec<&str> = far.info().files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a", deadheat_contract::workload::ELSEWHERE]);
        let own = |side| {
            let files = task.info().files.iter();
            files.filter(|f| f.side == side).map(|f| f.purpose).collect::<Vec<_>>()
        };
        assert_eq!((own(Side::Near), own(Side::Far)), (vec![Purpose::Write], vec![Purpose::Read]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_reason() {
        let say =
            |typed: &str| deadheat_contract::workload::parse(typed).err().unwrap().to_string();
        for (typed, wanted) in [
            ("bulk:file=x,direction=both", "a file goes one way"),
            ("bulk:sink=x,bytes=64,direction=both", "a file goes one way"),
            ("bulk:sink=x", "takes file, or bytes"),
            ("bulk:sink=x,time=1s", "takes file, or bytes"),
            ("bulk:file=x,time=1s", "without time"),
            ("bulk:file=-", "takes bytes"),
            ("bulk:alloc=fresh", "takes bytes or file"),
            ("bulk:alloc=fresh,bytes=20GB", "at most"),
            ("bulk:alloc=fresh,bytes=1MB,sink=x", "give one of them"),
            ("bulk:bytes=3,streams=4", "too few for 4 streams"),
            (
                "bulk:bytes=5",
                "which has no duration and so no rate; give bytes=131 kB or more, or time",
            ),
            ("bulk:bytes=1MB,warmup=1s", "warmup goes with time"),
            ("bulk:time=1s,connect=timed,warmup=1s", "give one of them"),
        ] {
            assert!(say(typed).contains(wanted), "{typed}: {}", say(typed));
        }
        let misfit = |typed| task(typed).misfit(&Guarantees::DATAGRAMS, PeerFacts::OURS);
        for (typed, wanted) in [
            ("bulk:alloc=fresh,bytes=1MB", "takes a byte stream"),
            ("bulk:file=x,verify=on", "give sink=PATH"),
            ("bulk:sink=x,bytes=64,size=12", "all header"),
            ("bulk:sink=x,bytes=1GiB,size=13", "raise size, or streams"),
        ] {
            assert!(misfit(typed).is_some_and(|why| why.contains(wanted)), "{typed}");
            assert_eq!(
                task(typed).misfit(&Guarantees::BYTE_STREAM, PeerFacts::OURS),
                None,
                "{typed}"
            );
        }
        assert_eq!(misfit("bulk:file=x,sink=y,verify=on"), None);
    }

    #[test]
    fn only_the_receiving_end_allocates() {
        let task = task("bulk:alloc=fresh,bytes=1MB,direction=down");
        assert_eq!(task.info().memory, EndMemory { near: 1_000_000, far: 0 });
    }

    #[test]
    fn what_is_known_of_the_content_is_told_by_flow() {
        let mut receivers = [receiver(0, 500, 100, 200), receiver(0, 500, 150, 300)];
        for receiver in &mut receivers {
            let report = ContentReport { arrived: 499, checked: 499, ..ContentReport::default() };
            receiver.content = Some(report);
        }
        let near = [sender(0, 500, 10), sender(0, 501, 10)];
        let typed = "bulk:bytes=1001,streams=2,verify=on";
        let content = conclude(typed, &Guarantees::BYTE_STREAM, &near, &receivers).content.unwrap();
        assert_eq!(content.origin, Origin::MadeUp);
        let pieces: Vec<_> = content.pieces.iter().map(|p| (p.start, p.bytes)).collect();
        assert_eq!(pieces, [(0, 500), (500, 501)]);
        assert_eq!(content.pieces[1].report.arrived, 499);
        let timed =
            conclude("bulk:verify=on,streams=2", &Guarantees::BYTE_STREAM, &near, &receivers);
        assert_eq!(timed.content.unwrap().pieces[1].bytes, 501);
        assert!(
            conclude("bulk:bytes=1001,call=64", &Guarantees::BYTE_STREAM, &near, &receivers)
                .content
                .is_none()
        );
    }
}
