//! Fan-out: one sender and several receivers. Each receiver gets the same data over a connection of its own, such as
//! from a master that feeds a cluster of displays, or from a server that distributes a file. The figure is the slowest
//! receiver: the picture is complete once the last display has it.
//!
//! Every receiver is a process of its own. The sender is one process with a thread for each connection, all on the
//! CPU of its end.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Direction, Guarantees, PeerFacts, Service};
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Role, SEGMENTS, Unit};

use crate::bulk::{self, Begin, gather};
use deadheat_contract::workload::setting::{filled, spoken};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    Endpoint, Info, Measurements, Part, Reports, Setting, Task, TaskInfo, Workload,
};

/// The workload.
pub(super) struct Fanout;

const KEYS: &[Key] =
    deadheat_base::keys![RECEIVERS, BYTES, bulk::TIME, bulk::WARMUP, bulk::SIZE, CALL];

const RECEIVERS: Preset<u64> = Optional::count("receivers", (1, 64))
    .or("4")
    .doc("receivers, each a process with a connection of its own");

const BYTES: Optional<Bytes> = Optional::size("bytes", (1, 1 << 50)).doc("bytes for each receiver");

const CALL: Preset<Bytes> = Optional::size("call", (64, 16 << 20))
    .or("128KiB")
    .doc("bytes the application hands over per call, to each connection");

static INFO: Info = Info {
    id: "fanout",
    label: "fan-out",
    summary: "one sender, several receivers: the rate of the slowest",
    keys: KEYS,
};

/// Names of the metrics.
const SLOWEST: &str = "slowest_goodput_bps";
const FASTEST: &str = "fastest_goodput_bps";

impl Workload for Fanout {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        Ok(Box::new(FanoutTask::new(Settings::check(spec, KEYS)?, setting)?))
    }
}

/// A fan-out with its settings: a bulk transfer with a stream for each receiver, which are also judged one by one.
struct FanoutTask {
    info: TaskInfo,
    bulk: Box<dyn Task>,
    /// Beginning of the span of each receiver's rate.
    begin: Begin,
}

impl FanoutTask {
    fn new(settings: Settings, setting: &Setting) -> Result<FanoutTask> {
        let refuse = |why: String| Err(Error::usage(format!("{}: {why}", INFO.id)));
        let receivers = settings.get(&RECEIVERS);
        let call = settings.get(&CALL);
        match settings.find(&BYTES) {
            Some(_) if settings.given(bulk::TIME.name()) => {
                return refuse("give bytes or time, not both".to_owned());
            }
            Some(_) if settings.given(bulk::WARMUP.name()) => {
                return refuse(
                    "warmup goes with time: of so many bytes all count; leave it out, or give time"
                        .to_owned(),
                );
            }
            Some(bytes) if bytes < call => {
                return refuse(format!(
                    "{bytes} fit into one call of {call}, which has no duration and so no rate; give \
                     bytes={call} or more, or time"
                ));
            }
            _ => {}
        }
        let total = settings.find(&BYTES).map(|bytes| bytes.0.saturating_mul(receivers));
        let own = [RECEIVERS.name(), BYTES.name()];
        let given = settings.iter().filter(|(key, _)| !own.contains(key));
        let mut options: Vec<(String, String)> =
            given.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        options.extend(total.map(|total| (BYTES.name().to_owned(), total.to_string())));
        let bulk = bulk::task(receivers, options, setting)?;
        let facts = bulk.info();
        // Length and warm-up follow from the path if they are not given.
        let lengths = [bulk::TIME.name(), bulk::WARMUP.name()];
        let open = facts.spec.options.iter().filter(|(key, _)| lengths.contains(&key.as_str()));
        let each = match settings.find(&BYTES) {
            Some(bytes) => bytes.to_string(),
            None => spoken(facts.planned.unwrap_or_default()),
        };
        let info = TaskInfo {
            headline: format!("fan-out, {each} to each of {receivers}"),
            spec: filled(INFO.id, &settings, open.cloned()),
            metrics: metrics(&facts.metrics),
            receivers: receivers as u16,
            sends_all_the_same: true,
            ..facts.clone()
        };
        let begin = if total.is_some() { Begin::Send } else { Begin::Receive };
        Ok(FanoutTask { info, bulk, begin })
    }
}

/// Returns the metrics of a fan-out: its own, and the bulk transfer's of all receivers together.
fn metrics(together: &[Metric]) -> Vec<Metric> {
    let rate = |name: &str, label: &str, role| Metric {
        name: name.to_owned(),
        label: label.to_owned(),
        unit: Unit::BitRate,
        better: Better::Higher,
        role,
        clock: ClockNeed::None,
    };
    let own = [
        rate(SLOWEST, "goodput of the slowest", Role::Claim),
        rate(FASTEST, "of the fastest", Role::Descriptive),
    ];
    let together = together.iter().cloned().map(|metric| match metric.role {
        Role::Claim => {
            Metric { role: Role::Descriptive, label: "of all together".into(), ..metric }
        }
        _ => metric,
    });
    own.into_iter().chain(together).collect()
}

/// Forwards everything but the figures to the bulk transfer.
impl Task for FanoutTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.bulk.lanes(promised)
    }

    fn misfit(&self, promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        self.bulk.misfit(promised, peer)
    }

    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        self.bulk.theory(on)
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        self.bulk.half(part)
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = self.bulk.conclude(reports);
        let flows = self.info.flows.len();
        let one = |flow| gather(reports, &only(flow, flows), Direction::Up, self.begin);
        let rates = (0..flows).map(|flow| one(flow).goodput_bps());
        match rates.collect::<Option<Vec<f64>>>() {
            Some(rates) => findings.metrics.extend([
                (SLOWEST.to_owned(), rates.iter().copied().fold(f64::INFINITY, f64::min)),
                (FASTEST.to_owned(), rates.iter().copied().fold(0.0, f64::max)),
            ]),
            None => {
                findings.why_invalid = findings.why_invalid.or(Some(
                    "too short for a rate of each receiver: all that one of them got came in one call; raise \
                     bytes or time"
                        .to_owned(),
                ));
            }
        }
        findings.segments = slowest_by_part(reports, flows);
        findings
    }
}

/// Returns a list of flows in which only this flow has a direction.
fn only(flow: usize, flows: usize) -> Vec<Option<Direction>> {
    let mut all = vec![None; flows];
    all[flow] = Some(Direction::Up);
    all
}

/// Returns the goodput of the slowest receiver in each part of the trial; empty if a receiver has no parts.
fn slowest_by_part(reports: &Reports<'_>, flows: usize) -> Vec<f64> {
    let receivers = &reports.far[..flows.min(reports.far.len())];
    if receivers.len() < flows || receivers.iter().any(|half| half.segments.len() != SEGMENTS) {
        return Vec::new();
    }
    let slowest = |part: usize| receivers.iter().map(move |half| half.segments[part]);
    (0..SEGMENTS).map(|part| slowest(part).fold(f64::INFINITY, f64::min)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::time::Nanos;
    use deadheat_contract::measurements::{ConnStats, Tally};
    use deadheat_contract::workload::theory::Way;
    use deadheat_contract::workload::{Clocks, ReceiveSpan, parse, parse_on};
    use deadheat_contract::workload::{EndpointReport, PathKind};

    fn halves(received: &[u64]) -> [Vec<EndpointReport>; 2] {
        let tally = |bytes| Tally { messages: 0, bytes, ..Tally::default() };
        let sender = |_: &u64| EndpointReport {
            sent: tally(1_000_000),
            send_span_ns: Some(500_000_000),
            ..EndpointReport::default()
        };
        let receiver = |bytes: &u64| {
            let span = ReceiveSpan {
                first_ns: 7,
                last_ns: 1_000_000_007,
                first_bytes: 0,
                warmup_bytes: 0,
            };
            EndpointReport {
                received: tally(*bytes),
                receive_span: Some(span),
                segments: vec![*bytes as f64; SEGMENTS],
                ..EndpointReport::default()
            }
        };
        [received.iter().map(sender).collect(), received.iter().map(receiver).collect()]
    }

    fn conclude(received: &[u64]) -> Measurements {
        let [near, far] = halves(received);
        let conns = vec![ConnStats::default(); received.len()];
        parse(&format!("fanout:receivers={},bytes=1MB", received.len())).unwrap().conclude(
            &Reports {
                near: &near,
                far: &far,
                near_conns: &conns,
                far_conns: &conns,
                guarantees: &Guarantees::BYTE_STREAM,
                clocks: Clocks::Shared,
            },
        )
    }

    #[test]
    fn the_slowest_counts_and_all_are_summed_up() {
        let findings = conclude(&[1_000_000, 250_000, 500_000]);
        assert_eq!(findings.metrics[SLOWEST], 2_000_000.0);
        assert_eq!(findings.metrics[FASTEST], 8_000_000.0);
        assert_eq!(findings.metrics["goodput_bps"], 14_000_000.0);
        assert_eq!(findings.segments, vec![250_000.0; SEGMENTS]);
        assert!(findings.why_invalid.is_none());
    }

    #[test]
    fn a_receiver_without_a_rate_makes_the_trial_invalid() {
        let why = conclude(&[1_000_000, 0]).why_invalid;
        assert_eq!(why, None, "nothing received in a second is a rate: 0");
        let [near, mut far] = halves(&[1_000_000, 1_000_000]);
        far[1].receive_span = None;
        let conns = vec![ConnStats::default(); 2];
        let findings = parse("fanout:receivers=2,bytes=1MB").unwrap().conclude(&Reports {
            near: &near,
            far: &far,
            near_conns: &conns,
            far_conns: &conns,
            guarantees: &Guarantees::BYTE_STREAM,
            clocks: Clocks::Shared,
        });
        assert!(findings.why_invalid.unwrap().contains("each receiver"));
    }

    #[test]
    fn each_receiver_is_a_node_of_its_own_and_gets_all_of_it() {
        let task = parse("fanout:receivers=8,bytes=2MB").unwrap();
        assert_eq!((task.info().receivers, task.info().flows.len()), (8, 8));
        assert_eq!(task.info().most_bytes, Some(16_000_000));
        assert_eq!(parse(&task.info().spec.to_string()).unwrap().info().spec, task.info().spec);
        assert!(task.info().spec.to_string().contains("bytes=2MB"), "{}", task.info().spec);
    }

    #[test]
    fn what_a_bulk_transfer_has_the_fan_out_of_it_has_too() {
        let fan = parse("fanout:receivers=3,time=1s").unwrap();
        let bulk = parse("bulk:streams=3,time=1s").unwrap();
        let (of_fan, of_bulk) = (fan.info(), bulk.info());
        assert_eq!(of_fan.observed, of_bulk.observed);
        assert!(of_fan.observed.is_some());
        assert_eq!((of_fan.memory, &of_fan.files), (of_bulk.memory, &of_bulk.files));
        assert_eq!((of_fan.planned, of_fan.longest), (of_bulk.planned, of_bulk.longest));
        let way = Way { delay: Nanos::from_millis(10), loss: 0.01, rate: None };
        let guarantees = &Guarantees::BYTE_STREAM;
        let control = Some("reno");
        let on = Conditions { up: way, down: way, mtu: 1_500, ip_header: 20, guarantees, control };
        assert_eq!(fan.theory(&on), bulk.theory(&on));
        assert_eq!(fan.theory(&on).len(), 1);
    }

    #[test]
    fn phases_of_a_fan_out_are_those_of_all_its_data() {
        let task = parse("fanout:load=kcp,load-from=2s").unwrap();
        assert_eq!(task.info().claim().unwrap().name, "goodput_during_bps");
        assert_eq!(task.info().receivers, 4);
        let all = parse("fanout:load=kcp,load-from=2s,load-phase=all").unwrap();
        assert_eq!(all.info().claim().unwrap().name, SLOWEST);
    }

    #[test]
    fn its_length_follows_from_the_path_where_it_is_left_open() {
        let setting = Setting {
            kind: PathKind::Emulated,
            rtt: Some(Nanos::from_millis(50)),
            ..Setting::REMOTE
        };
        let task = parse_on("fanout", &setting).unwrap();
        assert!(task.info().lengths.is_some());
        assert_eq!(task.info().planned, Some(Nanos::from_millis(2_000)));
        assert!(task.info().spec.to_string().contains("time=1000ms"), "{}", task.info().spec);
    }

    #[test]
    fn what_has_no_rate_or_no_end_is_refused_under_its_own_name() {
        for (typed, words) in [
            ("fanout:bytes=1MB,time=1s", "bytes or time"),
            ("fanout:bytes=1MB,warmup=1s", "warmup goes with time"),
            ("fanout:bytes=1kB", "one call"),
            ("fanout:receivers=0", "receivers"),
        ] {
            let error = parse(typed).err().unwrap().to_string();
            assert!(error.contains(words) && error.contains("fanout"), "{error}");
        }
    }
}
