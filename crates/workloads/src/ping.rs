//! Ping: round trips. The default is an open loop on an absolute schedule, so that a slow answer does not delay the
//! next question and the latency counts from the *intended* send time; `window=N` asks for a closed loop.
//!
//! Answers are matched by sequence number. An answer that is not back within the timeout counts as lost (censored at
//! the timeout); if it arrives after all, it also counts as late.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Direction, Guarantees, PeerFacts, Service, Side};
use deadheat_contract::measurements::Percentile;

use deadheat_contract::workload::load::Observed;
use deadheat_contract::workload::setting::{filled, fits_rate, spoken, typed};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    Endpoint, Info, Lengths, Measurements, Part, Reports, Setting, Task, TaskInfo, Workload, header,
};

mod defaults;
mod far_counts;
mod far_side;
mod figures;
mod gate;
mod reflector;
mod sender;

use defaults::{SHORTEST_INTERVAL, default_interval, default_timeout};
use gate::put_percentiles;

/// The workload.
pub(super) struct Ping;

const KEYS: &[Key] =
    deadheat_base::keys![SIZE, INTERVAL, WINDOW, COUNT, TIME, WARMUP, THINK, TIMEOUT, CLAIM];

const SIZE: Preset<usize> = Optional::length("size", (header::LEN as u64, 65_507))
    .or("64")
    .doc("message size, the same there and back; 28 bytes or more carry the far end's clock");

const INTERVAL: Optional<Nanos> = Optional::span("interval", (1_000, 3_600_000_000_000))
    .doc("time between sends of the open loop, dithered by a tenth (without a window: 1ms, or two fifths of the path's \
     round trip up to 20ms, to a server elsewhere up to 10ms)");

const WINDOW: Optional<u64> = Optional::count("window", (1, 65_536))
    .doc("closed loop instead: questions open at once; each answer starts the next");

const COUNT: Optional<u64> = Optional::count("count", (1, 1_000_000_000_000))
    .doc("questions that are measured (without a time: as many as the claim needs, 100 for p50; 2000 with a window on \
     loopback)");

const TIME: Optional<Nanos> = Optional::span("time", (1_000_000, 31 * 86_400 * 1_000_000_000))
    .doc("time of the questions after the warm-up, instead of count");

const WARMUP: Optional<u64> = Optional::count("warmup", (0, 1_000_000))
    .doc("questions before these, counted apart (20, or 100 with a window on loopback)");

const THINK: Preset<Nanos> = Optional::span("think", (0, 60_000_000_000))
    .or("0")
    .doc("time that the far end waits before it answers");

const TIMEOUT: Optional<Nanos> = Optional::span("timeout", (1_000_000, 3_600_000_000_000))
    .doc("time after which an answer counts as lost (eight round trips of the path, at least 1s; 3s to a server elsewhere; \
     plus think)");

const CLAIM: Preset<Percentile> =
    Optional::choice("claim", &["p50", "p90", "p99", "p999"], &Percentile::ALL)
        .or("p50")
        .doc("the percentile for verdicts, beyond which ten messages have to lie");

static INFO: Info = Info {
    id: "ping",
    label: "round trips",
    summary: "a message and its answer: the round-trip time",
    keys: KEYS,
};

impl Workload for Ping {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = PingTask::new(Settings::check(spec, KEYS)?, setting)?;
        task.check()?;
        if let PingLoop::Open { interval } = task.pace {
            let bps = task.size as f64 * 8e9 / interval.0.max(1) as f64;
            fits_rate(INFO.id, setting, Direction::Up, bps)?;
            fits_rate(INFO.id, setting, Direction::Down, bps)?;
        }
        Ok(Box::new(task))
    }
}

/// Loop of questions and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PingLoop {
    /// Open loop: one question every `interval`, regardless of answers.
    Open { interval: Nanos },
    /// Closed loop: sends while fewer than `window` are open.
    Closed { window: u64 },
}

/// Condition for the end of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PingEnd {
    After { count: u64 },
    At { time: Nanos },
}

/// A ping with its settings.
#[derive(Debug, Clone)]
struct PingTask {
    settings: Settings,
    size: usize,
    pace: PingLoop,
    stop: PingEnd,
    /// Number of questions that warm up and are in no figure.
    warmup: u64,
    think: Nanos,
    timeout: Nanos,
    /// Shortest length of a trial, if the settings do not give one.
    lengths: Option<Lengths>,
    info: TaskInfo,
}

/// Maximum number of open questions; each takes 24 bytes.
const MOST_OPEN: u64 = 1 << 20;

/// Default number of questions that warm up: Linux acknowledges a connection's first 16 segments at once
/// (TCP_MAX_QUICKACKS), and caches, page tables and the CPU's frequency have settled by then.
const WARM_UP: u64 = 20;

/// Default number of questions that warm up a closed loop on loopback; they take a few milliseconds.
const WARM_UP_CLOSED: u64 = 100;

/// Default number of questions of a closed loop on loopback: they take about as long as a trial's processes take to
/// start.
const COUNT_CLOSED: u64 = 2_000;

/// Approximate round trip of a closed loop on loopback.
const ROUND_TRIP: Nanos = Nanos::from_micros(50);

impl PingTask {
    fn new(settings: Settings, setting: &Setting) -> Result<PingTask> {
        let (size, think) = (settings.get(&SIZE), settings.get(&THINK));
        let pace = match (settings.find(&WINDOW), settings.find(&INTERVAL)) {
            (Some(_), Some(_)) => {
                return Err(Error::usage(
                    "ping: window asks for a closed loop and interval for an open one; give one of them",
                ));
            }
            (Some(window), None) => PingLoop::Closed { window },
            (None, interval) => PingLoop::Open {
                interval: interval.unwrap_or_else(|| default_interval(setting, size)),
            },
        };
        let round_trip = setting.rtt_or_long().max(ROUND_TRIP) + think;
        let closed_at_hand =
            matches!(pace, PingLoop::Closed { .. }) && round_trip < SHORTEST_INTERVAL;
        let enough = enough(settings.get(&CLAIM));
        let fewest = if closed_at_hand { enough.max(COUNT_CLOSED) } else { enough };
        let unit = match pace {
            PingLoop::Open { interval } => interval,
            PingLoop::Closed { window } => Nanos(round_trip.0 / window),
        };
        let (count, time) = (settings.find(&COUNT), settings.find(&TIME));
        let open = count.is_none() && time.is_none();
        let stop = match (count, time) {
            (Some(_), Some(_)) => {
                return Err(Error::usage("ping: give count or time, not both"));
            }
            (Some(count), None) => PingEnd::After { count },
            (None, Some(time)) => PingEnd::At { time },
            (None, None) => PingEnd::After { count: fewest },
        };
        let mut task = PingTask {
            info: TaskInfo::default(),
            size,
            think,
            timeout: settings.find(&TIMEOUT).unwrap_or_else(|| default_timeout(setting) + think),
            warmup: settings.find(&WARMUP).unwrap_or(if closed_at_hand {
                WARM_UP_CLOSED
            } else {
                WARM_UP
            }),
            lengths: open.then_some(Lengths { fewest, unit_ns: unit.0, key: "count" }),
            pace,
            stop,
            settings,
        };
        task.info = task.facts();
        Ok(task)
    }

    fn check(&self) -> Result<()> {
        if self.think >= self.timeout {
            return Err(Error::usage(format!(
                "ping: the far end thinks {} and the timeout is {}, so every answer would be lost; raise timeout",
                self.think, self.timeout
            )));
        }
        if self.most_open() > MOST_OPEN {
            return Err(Error::usage(format!(
                "ping: up to {} questions open at once (timeout over interval); at most {MOST_OPEN}: \
                 raise interval or lower timeout",
                self.most_open()
            )));
        }
        self.check_claim()
    }

    /// Fails if too few messages lie beyond the claimed percentile, which then has no figure.
    fn check_claim(&self) -> Result<()> {
        let claim = self.claim();
        let (name, fewest) = (claim.name(), claim.fewest());
        let messages = match (self.stop, self.pace) {
            (PingEnd::After { count }, _) => count,
            (PingEnd::At { time }, PingLoop::Open { interval }) => time.0 / interval.0,
            // The number of messages of a closed loop is known only afterwards.
            (PingEnd::At { .. }, PingLoop::Closed { .. }) => return Ok(()),
        };
        if messages >= fewest {
            return Ok(());
        }
        let lower = if claim == Percentile::P50 { "" } else { ", or claim a lower percentile" };
        Err(Error::usage(format!(
            "ping: claim={name} takes at least {fewest} messages, so that ten lie beyond it, and these are \
             {messages}; raise {}{lower}",
            if matches!(self.stop, PingEnd::At { .. }) { "time" } else { "count" }
        )))
    }

    /// Returns the maximum number of questions open at once: as many as fit into a timeout at the shortest dithered
    /// interval.
    fn most_open(&self) -> u64 {
        match self.pace {
            PingLoop::Open { interval } => {
                self.timeout.0 / (interval.0 - interval.0 / 5).max(1) + 4
            }
            PingLoop::Closed { window } => window,
        }
    }

    /// Returns the longest time that `count` questions take.
    fn time_of(&self, count: u64) -> Nanos {
        match self.pace {
            PingLoop::Open { interval } => Nanos(count.saturating_mul(interval.0)),
            // A closed loop is as slow as its answers; each takes at most the timeout.
            PingLoop::Closed { window } => {
                Nanos((count / window + 1).saturating_mul(self.timeout.0))
                    .min(Nanos::from_secs(600))
            }
        }
    }

    fn asking_time(&self) -> Nanos {
        match self.stop {
            PingEnd::At { time } => time + self.time_of(self.warmup),
            PingEnd::After { count } => self.time_of(count.saturating_add(self.warmup)),
        }
    }

    fn claim(&self) -> Percentile {
        self.settings.get(&CLAIM)
    }
}

/// Returns the default number of messages for a claimed percentile.
fn enough(claim: Percentile) -> u64 {
    claim.fewest().max(100)
}

impl PingTask {
    fn facts(&self) -> TaskInfo {
        TaskInfo {
            headline: self.headline(),
            spec: self.spec(),
            metrics: self.metrics(),
            lengths: self.lengths,
            flows: vec![None],
            largest_message: self.size,
            longest: self.asking_time() + self.timeout + Nanos::from_secs(1),
            planned: match (self.stop, self.pace) {
                (_, PingLoop::Open { .. }) => Some(self.asking_time()),
                (PingEnd::At { time }, PingLoop::Closed { .. }) => Some(time),
                (PingEnd::After { .. }, PingLoop::Closed { .. }) => None,
            },
            timeout: self.timeout,
            most_bytes: self.most_bytes(),
            is_paced: true,
            observed: Some(Observed::RoundTrips),
            numbering: Some(|message| header::Header::read(message).map(|header| header.seq)),
            ..TaskInfo::default()
        }
    }

    fn headline(&self) -> String {
        let size = self.size;
        match self.pace {
            PingLoop::Open { interval } if interval <= SHORTEST_INTERVAL => {
                format!("{size}-byte ping, {}/s", 1_000_000_000 / interval.0.max(1))
            }
            PingLoop::Open { interval } => format!("{size}-byte ping every {}", spoken(interval)),
            PingLoop::Closed { window: 1 } => format!("{size}-byte ping, one at a time"),
            PingLoop::Closed { window } => format!("{size}-byte ping, {window} at a time"),
        }
    }

    fn spec(&self) -> Spec {
        let interval = match self.pace {
            PingLoop::Open { interval } => Some(("interval", typed(interval))),
            PingLoop::Closed { .. } => None,
        };
        let count = match self.stop {
            PingEnd::After { count } => Some(("count", count.to_string())),
            PingEnd::At { .. } => None,
        };
        let open = [("warmup", self.warmup.to_string()), ("timeout", typed(self.timeout))];
        filled(INFO.id, &self.settings, open.into_iter().chain(interval).chain(count))
    }

    fn most_bytes(&self) -> Option<u64> {
        let messages = match (self.stop, self.pace) {
            (PingEnd::After { count }, _) => count,
            (PingEnd::At { time }, PingLoop::Open { interval }) => time.0 / interval.0 + 1,
            (PingEnd::At { .. }, PingLoop::Closed { .. }) => return None,
        };
        Some(messages.saturating_add(self.warmup).saturating_mul(self.size as u64))
    }
}

impl Task for PingTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        if !(peer.is_ours || peer.echoes || peer.only_connects) {
            return Some("its far end sends no message back".to_owned());
        }
        let thinks = self.think > Nanos::ZERO && !peer.is_ours;
        thinks.then(|| "its far end answers at once, so it cannot think".to_owned())
    }

    fn theory(&self, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        match part.side {
            Side::Near => Box::new(sender::PingSender::new(self, part)),
            Side::Far => Box::new(reflector::Reflector::new(self, part.tag)),
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let Some(near) = reports.near.first() else {
            return Measurements {
                why_invalid: Some("the near end reported nothing".into()),
                ..Measurements::default()
            };
        };
        let mut findings = Measurements {
            rtt_ns: near.rtt_ns.clone(),
            send_lateness_ns: near.send_lateness_ns.clone(),
            late_effect: near.late_effect,
            segments: near.segments.clone(),
            warmup: near.warmup,
            clock: near.clock.clone(),
            why_invalid: self.why_invalid(near),
            ..Measurements::default()
        };
        findings.ledger = figures::ledger(near, reports);
        figures::put_ways(&mut findings, near, reports);
        if let Some(rtt) = &near.rtt_ns {
            put_percentiles(&mut findings, rtt);
        }
        if let Some(jitter) = near.jitter_rfc3550_ns {
            findings.metrics.insert("rtt_jitter_rfc3550_ns".into(), jitter as f64);
        }
        findings
    }
}

/// Fills a message after its header: byte i is i modulo 251, so that a shifted copy differs.
fn fill(message: &mut [u8]) {
    for (i, byte) in message.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
}

/// Returns the offset at which the fill of a message of this size begins.
fn fill_from(size: usize) -> usize {
    if size >= header::STAMPED_LEN { header::STAMPED_LEN } else { header::LEN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::Role;
    use deadheat_contract::workload::Clocks;
    use deadheat_contract::workload::EndpointReport;
    use deadheat_contract::workload::PathKind;

    fn task(typed: &str) -> Result<Box<dyn Task>> {
        deadheat_contract::workload::parse(typed)
    }

    #[test]
    fn defaults_are_spelled_out() {
        assert_eq!(
            task("ping").unwrap().info().spec.to_string(),
            "ping:claim=p50,count=100,interval=1ms,size=64,think=0,timeout=1000ms,warmup=20"
        );
        assert_eq!(
            task("ping:window=1").unwrap().info().spec.to_string(),
            "ping:claim=p50,count=2000,size=64,think=0,timeout=1000ms,warmup=100,window=1"
        );
    }

    #[test]
    fn more_than_the_path_carries_is_refused_and_the_default_never_is() {
        let narrow = deadheat_contract::workload::Bounds {
            rate: Some(deadheat_base::units::BitRate(100_000)),
            ..deadheat_contract::workload::Bounds::UNKNOWN
        };
        let path = Setting { down: narrow, rate: narrow.rate, ..Setting::LOOPBACK };
        let on = |typed: &str| {
            deadheat_contract::workload::parse_on(typed, &path).err().map(|e| e.to_string())
        };
        // 64 bytes each millisecond are 512 kbit/s.
        assert!(on("ping:interval=1ms").unwrap().contains("512 kbit/s of data down"));
        assert_eq!((on("ping"), on("ping:interval=6ms"), on("ping:window=4")), (None, None, None));
    }

    fn on(typed: &str, rtt_ms: Option<u64>) -> Box<dyn Task> {
        let rtt = rtt_ms.map(Nanos::from_millis);
        let setting = Setting { rtt, ..Setting::REMOTE };
        deadheat_contract::workload::parse_on(typed, &setting).unwrap()
    }

    #[test]
    fn defaults_fit_the_path_and_mean_the_same_elsewhere() {
        let on_path = |typed, rtt| on(typed, rtt).info().spec.to_string();
        assert_eq!(
            on_path("ping", Some(50)),
            "ping:claim=p50,count=100,interval=10ms,size=64,think=0,timeout=3000ms,warmup=20"
        );
        assert!(on_path("ping", None).contains("interval=10ms,size=64,think=0,timeout=3000ms"));
        let emulated = Setting {
            kind: PathKind::Emulated,
            rtt: Some(Nanos::from_millis(50)),
            ..Setting::REMOTE
        };
        let spec = deadheat_contract::workload::parse_on("ping", &emulated)
            .unwrap()
            .info()
            .spec
            .to_string();
        assert!(spec.contains("interval=20ms,size=64,think=0,timeout=1000ms"), "{spec}");
        assert!(on_path("ping", Some(10)).contains("interval=4ms"));
        assert!(on_path("ping", Some(1)).contains("interval=1ms"));
        assert!(
            on_path("ping:think=2s", Some(250))
                .contains("interval=10ms,size=64,think=2s,timeout=5000ms")
        );
        assert!(
            on_path("ping:window=1", Some(50))
                .contains("count=100,size=64,think=0,timeout=3000ms,warmup=20")
        );
        for typed in
            ["ping", "ping:window=4", "ping:claim=p99,time=30s", "ping:interval=1500ns,timeout=1ms"]
        {
            let there = on_path(typed, Some(80));
            assert_eq!(task(&there).unwrap().info().spec.to_string(), there);
        }
        // 1400 bytes take 112 ms at 100 kbit/s.
        let rate = Some(deadheat_base::units::BitRate(100_000));
        let slow = Setting { rate, ..Setting::REMOTE };
        let spec = deadheat_contract::workload::parse_on("ping:size=1400", &slow)
            .unwrap()
            .info()
            .spec
            .clone();
        assert!(spec.to_string().contains("interval=234ms"), "{spec}");
    }

    #[test]
    fn headlines_say_what_is_done() {
        let say = |typed, rtt| on(typed, rtt).info().headline.clone();
        assert_eq!(task("ping").unwrap().info().headline, "64-byte ping, 1000/s");
        assert_eq!(say("ping:size=1kB", Some(50)), "1000-byte ping every 10 ms");
        assert_eq!(say("ping:interval=1500us", None), "64-byte ping every 1.50 ms");
        assert_eq!(say("ping:window=1", None), "64-byte ping, one at a time");
        assert_eq!(say("ping:window=4", None), "64-byte ping, 4 at a time");
    }

    #[test]
    fn a_length_is_open_until_it_is_given() {
        let lengths = task("ping:claim=p99").unwrap().info().lengths;
        assert_eq!(lengths, Some(Lengths { fewest: 1000, unit_ns: 1_000_000, key: "count" }));
        let closed = on("ping:window=2", Some(50)).info().lengths;
        assert_eq!(closed, Some(Lengths { fewest: 100, unit_ns: 25_000_000, key: "count" }));
        assert_eq!(task("ping:count=100").unwrap().info().lengths, None);
        assert_eq!(task("ping:time=1s").unwrap().info().lengths, None);
    }

    #[test]
    fn contradictions_are_refused() {
        let say = |typed: &str| task(typed).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(say("ping:window=1,interval=1ms").contains("give one of them"));
        assert!(say("ping:count=5,time=1s").contains("not both"));
        assert!(say("ping:think=3s,timeout=3s").contains("raise timeout"));
        assert_eq!(
            say("ping:claim=p99,count=999"),
            "ping: claim=p99 takes at least 1000 messages, so that ten lie beyond it, and these are \
             999; raise count, or claim a lower percentile"
        );
        assert_eq!(
            say("ping:count=10"),
            "ping: claim=p50 takes at least 20 messages, so that ten lie beyond it, and these are 10; raise \
             count"
        );
        assert!(say("ping:time=19ms").ends_with("these are 19; raise time"));
        assert!(say("ping:claim=p90,interval=10ms,time=990ms").contains("and these are 99;"));
        assert!(say("ping:claim=p999,count=9999").contains("at least 10000"));
        assert!(say("ping:interval=1us").contains("raise interval"));
        assert!(say("ping:size=4").contains("outside"));
        assert!(say("ping:size=0").contains("outside"));
        assert!(say("ping:sise=64").contains("did you mean `size`?"));
    }

    #[test]
    fn the_tail_is_claimed_where_its_figure_can_be_had() {
        for percentile in Percentile::ALL {
            let (name, fewest) = (percentile.name(), percentile.fewest());
            let (per_mille, enough) = (percentile.per_mille(), enough(percentile));
            let share = per_mille as f64 / 1000.0;
            assert!(enough >= fewest);
            assert!(deadheat_stats::quantile::printable(fewest, share), "{name}");
            assert!(!deadheat_stats::quantile::printable(fewest - 1, share), "{name}");
            task(&format!("ping:claim={name},count={fewest}")).unwrap();
        }
        task("ping:claim=p99,window=1,time=10ms").unwrap();
    }

    #[test]
    fn the_claimed_percentile_comes_first() {
        let metrics = task("ping:claim=p99").unwrap().info().metrics.clone();
        assert_eq!(metrics[0].name, "rtt_p99_ns");
        assert_eq!(metrics.iter().filter(|m| m.role == Role::Claim).count(), 1);
    }

    #[test]
    fn only_what_a_generator_did_to_the_figure_makes_a_trial_invalid() {
        let conclude = |share, ratio: f64| {
            let near = [EndpointReport {
                late_send_share: Some(share),
                late_effect: Some(ratio.ln()),
                ..EndpointReport::default()
            }];
            let reports = Reports {
                near: &near,
                far: &[],
                near_conns: &[],
                far_conns: &[],
                guarantees: &deadheat_contract::contract::Guarantees::DATAGRAMS,
                clocks: Clocks::Shared,
            };
            let findings = task("ping").unwrap().conclude(&reports);
            assert_eq!(findings.late_effect, Some(ratio.ln()));
            findings.why_invalid
        };
        assert_eq!(conclude(0.25, 1.2499), None);
        assert!(
            conclude(0.26, 1.0).unwrap().contains("26 % of messages left more than an interval")
        );
        assert_eq!(
            conclude(0.0, 1.6).unwrap(),
            "the generator was late: without it p50 would be 38 % less (20 % allowed)"
        );
    }
}
