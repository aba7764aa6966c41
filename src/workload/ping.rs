//! Round trips. Open loop on an absolute schedule by default, so that a slow answer does not delay
//! the next question and the latency counts from the *intended* send time; closed loop by name
//! (`window=N`).
//!
//! Each message is matched by its sequence number. One that is not back within the timeout is lost
//! to the statistics (censored there); if it comes after all it is counted as late.

use crate::contract::{Direction, Guarantees, PeerKind, Side};
use crate::error::{Error, Result};
use crate::figures::{Better, Distribution, Metric, Quantile, Role, Unit};
use crate::spec::{Key, Kind, Settings, Spec};
use crate::time::Nanos;

use super::header::{self, account};
use super::{Findings, Half, HalfReport, Info, Numbering, Part, Reports, Task, Workload};

mod asker;
mod echoer;

/// The workload.
pub(super) struct Ping;

const KEYS: &[Key] = &[
    Key {
        name: "size",
        kind: Kind::Size(header::LEN as u64, 65_507),
        default: "64",
        doc: "message size, the same there and back; 28 bytes or more carry the far end's clock",
    },
    Key {
        name: "interval",
        kind: Kind::Span(1_000, 3_600_000_000_000),
        default: "",
        doc: "time between sends of the open loop (1ms where no window is given), dithered by a tenth",
    },
    Key {
        name: "window",
        kind: Kind::Count(1, 65_536),
        default: "",
        doc: "closed loop instead: this many questions open at once, each answer starts the next",
    },
    Key {
        name: "count",
        kind: Kind::Count(1, 1_000_000_000_000),
        default: "",
        doc: "how many questions (1000, or 10000 with a window, where no time is given)",
    },
    Key {
        name: "time",
        kind: Kind::Span(1_000_000, 31 * 86_400 * 1_000_000_000),
        default: "",
        doc: "how long to ask, instead of count",
    },
    Key {
        name: "think",
        kind: Kind::Span(0, 60_000_000_000),
        default: "0",
        doc: "how long the far end waits before it answers: server time, not path delay",
    },
    Key {
        name: "timeout",
        kind: Kind::Span(1_000_000, 3_600_000_000_000),
        default: "3s",
        doc: "after this an answer counts as lost",
    },
    Key {
        name: "claim",
        kind: Kind::Choice(&["p50", "p90", "p99", "p999"]),
        default: "p50",
        doc: "the percentile that verdicts are given for, beyond which ten messages have to lie; the \
              others are described",
    },
];

static INFO: Info = Info {
    id: "ping",
    label: "round trips",
    summary: "a message there and back, on an absolute schedule or with a window",
    keys: KEYS,
};

impl Workload for Ping {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec) -> Result<Box<dyn Task>> {
        Ok(Box::new(PingTask::new(Settings::check(spec, KEYS)?)?))
    }
}

/// When to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Every so many nanoseconds, whatever comes back.
    Open { interval: Nanos },
    /// As long as fewer than this many are open.
    Closed { window: u64 },
}

/// When to stop sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    After { count: u64 },
    At { time: Nanos },
}

/// A ping with its settings.
#[derive(Debug, Clone)]
struct PingTask {
    settings: Settings,
    size: usize,
    pace: Pace,
    stop: Stop,
    think: Nanos,
    timeout: Nanos,
}

/// The most questions that may be open at once, as each keeps 24 bytes.
const MOST_OPEN: u64 = 1 << 20;

impl PingTask {
    fn new(settings: Settings) -> Result<PingTask> {
        let interval = settings.span("interval");
        let pace = match (settings.count("window"), interval) {
            (Some(_), Some(_)) => {
                return Err(Error::usage(
                    "ping: window asks for a closed loop and interval for an open one; give one of them",
                ));
            }
            (Some(window), None) => Pace::Closed { window },
            (None, interval) => Pace::Open { interval: interval.unwrap_or(Nanos::from_millis(1)) },
        };
        let stop = match (settings.count("count"), settings.span("time")) {
            (Some(_), Some(_)) => {
                return Err(Error::usage("ping: give count or time, not both"));
            }
            (Some(count), None) => Stop::After { count },
            (None, Some(time)) => Stop::At { time },
            (None, None) if matches!(pace, Pace::Closed { .. }) => Stop::After { count: 10_000 },
            (None, None) => Stop::After { count: 1000 },
        };
        let task = PingTask {
            size: settings.size("size").map_or(64, |size| size.0 as usize),
            think: settings.span("think").unwrap_or_default(),
            timeout: settings.span("timeout").unwrap_or(Nanos::from_secs(3)),
            pace,
            stop,
            settings,
        };
        task.check()?;
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

    /// A percentile of the tail has no figure where too few messages lie beyond it.
    fn check_claim(&self) -> Result<()> {
        let Some((_, fewest)) = TAIL.iter().find(|(name, _)| *name == self.claimed()) else {
            return Ok(());
        };
        let messages = match (self.stop, self.pace) {
            (Stop::After { count }, _) => count,
            (Stop::At { time }, Pace::Open { interval }) => time.0 / interval.0,
            // How many a closed loop makes of its time is what it measures.
            (Stop::At { .. }, Pace::Closed { .. }) => return Ok(()),
        };
        if messages >= *fewest {
            return Ok(());
        }
        Err(Error::usage(format!(
            "ping: claim={} takes at least {fewest} messages, so that ten lie beyond it, and these are \
             {messages}; send more of them, or claim a lower percentile",
            self.claimed()
        )))
    }

    /// How many questions can be open at once: those of one timeout, at the shortest dithered gap.
    fn most_open(&self) -> u64 {
        match self.pace {
            Pace::Open { interval } => self.timeout.0 / (interval.0 - interval.0 / 5).max(1) + 4,
            Pace::Closed { window } => window,
        }
    }

    fn asking_time(&self) -> Nanos {
        match (self.stop, self.pace) {
            (Stop::At { time }, _) => time,
            (Stop::After { count }, Pace::Open { interval }) => {
                Nanos(count.saturating_mul(interval.0))
            }
            // A closed loop is as slow as its answers; each takes at most the timeout.
            (Stop::After { count }, Pace::Closed { window }) => {
                Nanos((count / window + 1).saturating_mul(self.timeout.0))
                    .min(Nanos::from_secs(600))
            }
        }
    }

    fn claimed(&self) -> &str {
        self.settings.text("claim").unwrap_or("p50")
    }
}

const PERCENTILES: [&str; 4] = ["p50", "p90", "p99", "p999"];

/// Percentiles of the tail, and the fewest messages of which ten lie beyond each.
const TAIL: [(&str, u64); 3] = [("p90", 100), ("p99", 1000), ("p999", 10_000)];

impl Task for PingTask {
    fn metrics(&self) -> Vec<Metric> {
        let percentile = |name: &&str| Metric {
            name: format!("rtt_{name}_ns"),
            label: format!("RTT {}", if *name == "p999" { "p99.9" } else { name }),
            unit: Unit::Nanos,
            better: Better::Lower,
            role: if *name == self.claimed() { Role::Claim } else { Role::Descriptive },
        };
        let descriptive = |name: &str, label: &str, unit| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit,
            better: Better::Lower,
            role: Role::Descriptive,
        };
        let mut metrics: Vec<Metric> = PERCENTILES.iter().map(percentile).collect();
        metrics.push(descriptive("rtt_pdv_p99_ns", "PDV p99", Unit::Nanos));
        metrics.push(descriptive("rtt_jitter_rfc3550_ns", "RFC 3550 jitter", Unit::Nanos));
        metrics.push(descriptive("loss_share", "lost", Unit::Share));
        metrics.sort_by_key(|metric| metric.role != Role::Claim);
        metrics
    }

    fn misfit(&self, guarantees: &Guarantees, peer: PeerKind) -> Option<String> {
        if peer == PeerKind::Kernel && self.think > Nanos::ZERO {
            return Some("the far host's kernel answers at once, so it cannot think".to_owned());
        }
        let largest = guarantees.largest_message.filter(|largest| self.size as u64 > *largest)?;
        Some(format!(
            "its largest message has {largest} bytes and size={} asks for more",
            self.size
        ))
    }

    fn flows(&self) -> Vec<Option<Direction>> {
        vec![None]
    }

    fn largest_message(&self) -> usize {
        self.size
    }

    fn longest(&self) -> Nanos {
        self.asking_time() + self.timeout + Nanos::from_secs(1)
    }

    fn planned(&self) -> Option<Nanos> {
        match (self.stop, self.pace) {
            (Stop::After { .. }, Pace::Closed { .. }) => None,
            _ => Some(self.asking_time()),
        }
    }

    fn timeout(&self) -> Nanos {
        self.timeout
    }

    fn most_bytes(&self) -> Option<u64> {
        let messages = match (self.stop, self.pace) {
            (Stop::After { count }, _) => count,
            (Stop::At { time }, Pace::Open { interval }) => time.0 / interval.0 + 1,
            (Stop::At { .. }, Pace::Closed { .. }) => return None,
        };
        Some(messages.saturating_mul(self.size as u64))
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn numbering(&self) -> Option<Numbering> {
        Some(|message| header::Header::read(message).map(|header| header.seq))
    }

    fn half(&self, part: Part) -> Box<dyn Half> {
        match part.side {
            Side::Near => Box::new(asker::Asker::new(self, part)),
            Side::Far => Box::new(echoer::Echoer::new(self.size, self.think, part.tag)),
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Findings {
        let Some(near) = reports.near.first() else {
            return Findings {
                why_invalid: Some("the near end reported nothing".into()),
                ..Findings::default()
            };
        };
        let mut findings = Findings {
            rtt_ns: near.rtt_ns.clone(),
            send_lateness_ns: near.send_lateness_ns.clone(),
            clock: near.clock.clone(),
            why_invalid: self.why_invalid(near),
            ..Findings::default()
        };
        let drops =
            |conns: &[crate::figures::ConnStats]| conns.first().and_then(|conn| conn.socket_drops);
        let ledger = &mut findings.ledger;
        match reports.far.first() {
            Some(far) => {
                ledger.up = Some(account(near.sent, far.received, drops(reports.far_conns)));
                ledger.down = Some(account(far.sent, near.received, drops(reports.near_conns)));
            }
            None => {
                ledger.round_trip =
                    Some(account(near.sent, near.received, drops(reports.near_conns)));
            }
        }
        if let Some(rtt) = &near.rtt_ns {
            put_percentiles(&mut findings, rtt);
        }
        if let Some(jitter) = near.jitter_rfc3550_ns {
            findings.metrics.insert("rtt_jitter_rfc3550_ns".into(), jitter as f64);
        }
        findings
    }

    fn spec(&self) -> Spec {
        let mut options: Vec<(String, String)> =
            self.settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let given = |key: &str| options.iter().any(|(name, _)| name == key);
        let mut filled = Vec::new();
        if let (Pace::Open { interval }, false) = (self.pace, given("interval")) {
            filled.push(("interval".to_owned(), typed(interval)));
        }
        if let (Stop::After { count }, false) = (self.stop, given("count")) {
            filled.push(("count".to_owned(), count.to_string()));
        }
        options.extend(filled);
        options.sort();
        Spec { name: INFO.id.to_owned(), options }
    }
}

impl PingTask {
    /// The gate: says nothing about how good the answers were, only whether the questions were
    /// asked when they should have been.
    fn why_invalid(&self, near: &HalfReport) -> Option<String> {
        let late = near.late_send_share.filter(|share| *share > 0.01)?;
        Some(format!(
            "the generator was late: {:.1} % of sends more than a tenth of the interval after their time (1 % allowed)",
            late * 100.0
        ))
    }
}

/// A duration as it would be typed.
fn typed(span: Nanos) -> String {
    match span.0 {
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns / 1_000),
    }
}

fn put_percentiles(findings: &mut Findings, rtt: &Distribution) {
    let percentiles = [rtt.p50, rtt.p90, rtt.p99, rtt.p999];
    for (name, value) in PERCENTILES.iter().zip(percentiles) {
        let Some(value) = value else { continue };
        let metric = format!("rtt_{name}_ns");
        findings.metrics.insert(metric.clone(), value.at_least_ns() as f64);
        if matches!(value, Quantile::Beyond(_)) {
            findings.censored.push(metric);
        }
    }
    if let (Some(Quantile::Ns(p99)), Some(min)) = (rtt.p99, rtt.min) {
        findings.metrics.insert("rtt_pdv_p99_ns".into(), p99.saturating_sub(min) as f64);
    }
    if rtt.n > 0 {
        findings.metrics.insert("loss_share".into(), rtt.censored as f64 / rtt.n as f64);
    }
}

/// What fills a message behind its header: byte i is i modulo 251, so that a shifted copy differs.
fn fill(message: &mut [u8]) {
    for (i, byte) in message.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
}

/// Where the fill of a message of this size begins.
fn fill_from(size: usize) -> usize {
    if size >= header::STAMPED_LEN { header::STAMPED_LEN } else { header::LEN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(typed: &str) -> Result<Box<dyn Task>> {
        super::super::parse(typed)
    }

    #[test]
    fn defaults_are_spelled_out() {
        assert_eq!(
            task("ping").unwrap().spec().to_string(),
            "ping:claim=p50,count=1000,interval=1ms,size=64,think=0,timeout=3s"
        );
        assert_eq!(
            task("ping:window=1").unwrap().spec().to_string(),
            "ping:claim=p50,count=10000,size=64,think=0,timeout=3s,window=1"
        );
    }

    #[test]
    fn contradictions_are_refused() {
        let say = |typed: &str| task(typed).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(say("ping:window=1,interval=1ms").contains("give one of them"));
        assert!(say("ping:count=5,time=1s").contains("not both"));
        assert!(say("ping:think=3s").contains("raise timeout"));
        assert_eq!(
            say("ping:claim=p99,count=999"),
            "ping: claim=p99 takes at least 1000 messages, so that ten lie beyond it, and these are \
             999; send more of them, or claim a lower percentile"
        );
        assert!(say("ping:claim=p90,interval=10ms,time=990ms").contains("and these are 99;"));
        assert!(say("ping:claim=p999").contains("at least 10000"));
        assert!(say("ping:interval=1us").contains("raise interval"));
        assert!(say("ping:size=4").contains("outside"));
        assert!(say("ping:size=0").contains("outside"));
        assert!(say("ping:sise=64").contains("did you mean `size`?"));
    }

    #[test]
    fn the_tail_is_claimed_where_its_figure_can_be_had() {
        for (name, fewest) in TAIL {
            let share: f64 = format!("0.{}", &name[1..]).parse().unwrap();
            assert!(crate::stats::quantile::printable(fewest, share), "{name}");
            assert!(!crate::stats::quantile::printable(fewest - 1, share), "{name}");
            task(&format!("ping:claim={name},count={fewest}")).unwrap();
        }
        task("ping:claim=p99,window=1,time=10ms").unwrap();
    }

    #[test]
    fn the_claimed_percentile_comes_first() {
        let metrics = task("ping:claim=p99").unwrap().metrics();
        assert_eq!(metrics[0].name, "rtt_p99_ns");
        assert_eq!(metrics.iter().filter(|m| m.role == Role::Claim).count(), 1);
    }

    #[test]
    fn a_late_generator_makes_the_trial_invalid_whatever_it_measured() {
        let conclude = |share| {
            let near = [HalfReport { late_send_share: Some(share), ..HalfReport::default() }];
            let reports = Reports {
                near: &near,
                far: &[],
                near_conns: &[],
                far_conns: &[],
                guarantees: &crate::contract::promises::DATAGRAMS,
            };
            task("ping").unwrap().conclude(&reports).why_invalid
        };
        assert!(conclude(0.02).unwrap().contains("2.0 % of sends"));
        assert_eq!(conclude(0.01), None);
    }
}
