//! Connections, one after the other: the time until the first byte of an answer. It counts for applications that open a
//! connection for each request, after a pause, or after a change of network.
//!
//! ```text
//! near   opens ┄┄ handshake ┄┄► asks ─────►       answer is here     (closes, opens the next)
//!        |◄──── set-up ────►|◄───── exchange ─────►|
//!        |◄──────────── first byte ───────────────►|
//! ```
//!
//! Set-up is the transport's own handshake. The trial's token, by which a far end recognizes its peer, travels in an
//! exchange of its own that is in no time.

use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Direction, Guarantees, PeerFacts, Service, Side};
use deadheat_contract::measurements::{Better, Unit};

use crate::paced::Claim;
use deadheat_contract::workload::header::{self, account_of};
use deadheat_contract::workload::setting::{claiming, filled};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    AnswerSource, Endpoint, Info, Lengths, Measurements, Part, Reports, Setting, Task, TaskInfo,
    Traffic, Workload, traffic,
};

mod answerer;
mod sender;
mod times;

use crate::connect::sender::ConnectSender;
use answerer::Answerer;

/// The workload.
pub(super) struct Connect;

const KEYS: &[Key] =
    &[COUNT.key(), PAUSE.key(), REQUEST.key(), ANSWER.key(), RETRY.key(), CLAIM.key()];

const COUNT: Optional<u64> = Optional::count("count", (20, 65_000))
    .doc("connections (as many as the claim needs: 20, or 1000 for p99)");

const PAUSE: Preset<Nanos> = Optional::span("pause", (0, 60_000_000_000))
    .or("0")
    .doc("between the answer and the next connection");

const REQUEST: Preset<usize> = Optional::length("request", (header::LEN as u64, 65_507))
    .or("64")
    .doc("size of the request on each connection");

const ANSWER: Preset<usize> = Optional::length("answer", (header::LEN as u64, 65_507))
    .or("64")
    .doc("size of the answer to it");

const RETRY: Preset<Nanos> = Optional::span("retry", (1_000_000, 60_000_000_000)).or("1s").doc(
    "time after which a request is sent again, where the transport may lose it (the \
     first timeout of RFC 6298)",
);

const CLAIM: Preset<Claim> = Optional::choice(
    "claim",
    &["p50", "mean", "p99", "set_up"],
    &[
        Claim::new("first_byte_p50_ns", ENOUGH),
        Claim::new("first_byte_mean_ns", ENOUGH),
        Claim::new("first_byte_p99_ns", ENOUGH_FOR_P99),
        Claim::new(SET_UP, ENOUGH),
    ],
)
.or("p50")
.doc(
    "figure of the time to the first byte for verdicts; set_up opens connections and asks nothing",
);

static INFO: Info = Info {
    id: "connect",
    label: "connections",
    summary: "connections one by one: the time to the first byte of an answer",
    keys: KEYS,
};

/// Number of connections for a median, with ten samples beyond it.
const ENOUGH: u64 = 20;
/// Number of connections for a p99.
const ENOUGH_FOR_P99: u64 = 1_000;

/// Settings of the messages of a far end of ours, which an origin decides.
const OF_OURS: [&str; 3] = [REQUEST.name(), ANSWER.name(), RETRY.name()];

/// Longest time of one connection, handshake and answer.
const LONGEST: Nanos = Nanos::from_secs(30);

impl Workload for Connect {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let settings = Settings::check(spec, KEYS)?;
        setting.answers.check(&settings, &OF_OURS)?;
        Ok(Box::new(ConnectTask::new(settings, setting)))
    }

    fn is_usual_for(&self, peer: PeerFacts) -> bool {
        peer.has_documents
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::Connect).then(|| {
            let [request, answer] = [&traffic.request, &traffic.response]
                .map(|size| Traffic::bytes(size.as_ref(), 64).map(|bytes| bytes.to_string()));
            // The mean, as losses of a handshake are rare and long.
            let options =
                [("request", request?), ("answer", answer?), ("claim", "mean".to_owned())];
            let limit = Traffic::span(traffic.deadline.as_ref())?;
            Ok(traffic::Work::new(INFO.id, options).within(limit, traffic::Least::RoundTrip))
        })
    }
}

/// Connections with their settings.
#[derive(Debug, Clone)]
struct ConnectTask {
    settings: Settings,
    count: u64,
    pause: Nanos,
    request: usize,
    answer: usize,
    retry: Nanos,
    claimed: &'static str,
    lengths: Option<Lengths>,
    answers: AnswerSource,
    info: TaskInfo,
}

impl ConnectTask {
    fn new(settings: Settings, setting: &Setting) -> ConnectTask {
        let Claim { figure, fewest } = settings.get(&CLAIM);
        let (asked, pause) = (settings.find(&COUNT), settings.get(&PAUSE));
        // A handshake of one or two round trips, and the exchange; on loopback less than a millisecond.
        let each = Nanos(3 * setting.rtt_or_long().0) + Nanos::from_micros(500) + pause;
        let lengths = Lengths { fewest, unit_ns: each.0, key: "count" };
        let mut task = ConnectTask {
            info: TaskInfo::default(),
            count: asked.unwrap_or(fewest),
            pause,
            request: settings.get(&REQUEST),
            answer: settings.get(&ANSWER),
            retry: settings.get(&RETRY),
            claimed: figure,
            lengths: asked.is_none().then_some(lengths),
            answers: setting.answers,
            settings,
        };
        task.info = task.facts();
        task
    }
}

impl ConnectTask {
    /// Returns true if a request is sent on each connection.
    fn asks(&self) -> bool {
        self.claimed != SET_UP
    }

    fn facts(&self) -> TaskInfo {
        let (count, request, answer) = (self.count, self.request, self.answer);
        let spec = filled(INFO.id, &self.settings, [("count", count.to_string())]);
        TaskInfo {
            headline: match self.answers {
                _ if !self.asks() => format!("{count} connections, nothing asked"),
                AnswerSource::Ours => {
                    format!("{count} connections, {request} bytes asked, {answer} answered")
                }
                AnswerSource::Origin => {
                    format!("{count} connections, a document asked for on each")
                }
            },
            spec: self.answers.filled(spec, &OF_OURS),
            metrics: if self.asks() {
                claiming(FIGURES, self.claimed)
            } else {
                claiming(SET_UP_FIGURES, self.claimed)
            },
            lengths: self.lengths,
            flows: vec![None],
            largest_message: request.max(answer),
            longest: Nanos((self.pause + LONGEST).0.saturating_mul(count)),
            // The first connection of a trial is not measured.
            connections: u16::try_from(count + 1).unwrap_or(u16::MAX),
            times: if self.asks() { "first byte" } else { "set-up" },
            ..TaskInfo::default()
        }
    }
}

impl Task for ConnectTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        if peer.only_connects {
            let why = || format!("{}; claim=set_up fits", PeerFacts::NOBODY_BEHIND);
            return self.asks().then(why);
        }
        if peer.has_documents {
            let why = "its far end answers requests; leave out claim=set_up";
            return (!self.asks()).then(|| why.to_owned());
        }
        (!peer.is_ours).then(|| "it has no connections to open".to_owned())
    }

    fn theory(&self, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        match part.side {
            Side::Near => Box::new(ConnectSender::new(self, part.tag, part.peer.has_documents)),
            Side::Far => Box::new(Answerer::new(self, part.tag)),
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = Measurements::default();
        let (near, far) = (reports.near, reports.far);
        if self.asks() {
            findings.ledger.set(Direction::Up, account_of(near, far, reports.far_conns));
            findings.ledger.set(Direction::Down, account_of(far, near, reports.near_conns));
        }
        if let Some(half) = near.first() {
            findings.metrics.extend(half.figures.clone());
        }
        if !findings.metrics.contains_key(self.claimed) {
            let why = "too few connections were answered to have the figure that is claimed";
            findings.why_invalid = Some(why.to_owned());
        }
        findings
    }
}

/// Median of the set-up of a connection.
const SET_UP: &str = "set_up_p50_ns";

/// Figures where nothing is asked.
const SET_UP_FIGURES: &[(&str, &str, Unit, Better)] = &[
    (SET_UP, "set-up p50", Unit::Nanos, Better::Lower),
    ("set_up_mean_ns", "set-up mean", Unit::Nanos, Better::Lower),
    ("set_up_max_ns", "set-up at the latest", Unit::Nanos, Better::Lower),
];

/// Figures of the workload: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("first_byte_p50_ns", "first byte p50", Unit::Nanos, Better::Lower),
    ("first_byte_mean_ns", "first byte mean", Unit::Nanos, Better::Lower),
    ("first_byte_p99_ns", "first byte p99", Unit::Nanos, Better::Lower),
    ("first_byte_max_ns", "first byte at the latest", Unit::Nanos, Better::Lower),
    ("set_up_p50_ns", "set-up p50", Unit::Nanos, Better::Lower),
    ("exchange_p50_ns", "exchange p50", Unit::Nanos, Better::Lower),
    ("asked_again_share", "asked again", Unit::Share, Better::Lower),
];

#[cfg(test)]
mod tests;
