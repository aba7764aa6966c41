//! Requests and their responses, over one connection or over a new one for each, of which several may be open at a time.
//! The response time counts from the time at which the request was due, even if earlier responses are still on their way.
//!
//! ```text
//! due        | request 1        | 2   | 3
//! near  ─────┴────────►         ┴►    ┴►
//! far                  ├─ messages of response 1 ─┤├─ 2 ─┤├─ 3 ─┤     in turns, if there are lanes
//! first byte           ◄──┤
//! response   |◄─────────────────────── response time ──►|
//! ```

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::{Bare, OfferedRate, parse_bytes, parse_offered};
use deadheat_contract::contract::{Direction, Guarantees, PeerFacts, Service, Side};
use deadheat_contract::measurements::name::OFFERED;
use deadheat_contract::measurements::{Better, Unit};

use crate::draw::{Arrivals, SizeLaw, Sizes, Spread};
use crate::paced::{Claim, DRAIN, DUE_LEN, Period, conclude_one};
use deadheat_contract::workload::header::account_of;
use deadheat_contract::workload::load::{Items, Observed};
use deadheat_contract::workload::setting::{claiming, filled, fits_rate, numbered, set_apart};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    AnswerSource, EndMemory, Endpoint, Info, Lengths, Measurements, Part, Reports, Setting, Task,
    TaskInfo, Traffic, Workload, traffic,
};

mod answers;
mod asked;
mod client;
mod keys;
mod reader;
mod redialler;
mod service;

use client::Client;
use keys::{ARRIVALS, AT_ONCE, CLAIM, CONNECT, COUNT, KEYS, LANES, MTU, RATE, REQUEST, RESPONSE};
use reader::Reader;
use redialler::Redialler;
use service::Server;

/// The workload.
pub(super) struct Rpc;

static INFO: Info = Info {
    id: "rpc",
    label: "requests and responses",
    summary: "requests and responses of several sizes: the time that each takes",
    keys: KEYS,
};

/// Number of requests for a mean: two seconds, in which a loss of 1 % hits several.
const ENOUGH: u64 = 100;

/// Number of requests with ten beyond the 95th percentile.
const ENOUGH_FOR_P95: u64 = 200;

/// Number of requests with ten beyond the 99th percentile.
const ENOUGH_FOR_P99: u64 = 1_000;

/// Maximum number of requests per second.
const MOST_PER_SECOND: u64 = 1_000_000;

/// Maximum number of requests with a connection each: their times fit into one report, and their numbers into 16 bits.
const MOST_CONNECTIONS: u64 = 30_000;

/// Maximum number of connections at a time: each has a thread at either end.
const MOST_AT_ONCE: u64 = 128;

/// Longest time of a handshake, during which nothing is given up.
const LONGEST: Nanos = Nanos::from_secs(60);

/// The largest response in bytes.
const LARGEST: u64 = 1 << 30;

/// Settings of the messages of a far end of ours, which an origin decides.
const OF_OURS: [&str; 4] = [REQUEST.name(), RESPONSE.name(), MTU.name(), LANES.name()];

/// Most requests per second to an origin, which may be a stranger's.
const MOST_TO_ORIGIN: u64 = 100;

/// Parses a number of requests per second.
fn per_second(value: &str) -> Result<u64> {
    match parse_offered(value)? {
        OfferedRate::Packets(rate) if (1..=MOST_PER_SECOND).contains(&rate.0) => Ok(rate.0),
        _ => Err(Error::usage(format!(
            "`{value}` is no number of requests per second from 1 to a million; write it as 50pps"
        ))),
    }
}

/// Parses the law of the sizes of responses. A log-normal one ends where fewer than one in a million would be larger.
fn law(value: &str) -> Result<SizeLaw> {
    let is_log_normal = value.contains('~');
    let by = if is_log_normal { "~" } else { ".." };
    let (least, most) = value.split_once(by).unwrap_or((value, value));
    let (least, most) = (parse_bytes(least, Bare::Allowed)?.0, parse_bytes(most, Bare::Allowed)?.0);
    if least == 0 || most < least || most > LARGEST || (is_log_normal && most == least) {
        return Err(Error::usage(format!(
            "`{value}` is no range of sizes from 1 byte to 1 GiB; write the smaller first, as 1kB{by}100kB"
        )));
    }
    if is_log_normal {
        let largest = u128::from(most) * u128::from(most) / u128::from(least);
        if largest > u128::from(LARGEST) {
            let widest = LARGEST.saturating_mul(least).isqrt();
            return Err(Error::usage(format!(
                "`{value}` has responses beyond 1 GiB; with this 5th percentile the 95th is at most {widest}B"
            )));
        }
        return Ok(SizeLaw::log_normal_of(least, most, largest as u64));
    }
    Ok(SizeLaw::between(least, most))
}

impl Workload for Rpc {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let settings = Settings::check(spec, KEYS)?;
        setting.answers.check(&settings, &OF_OURS)?;
        let task = Calls::new(settings, setting.answers);
        if task.settings.given(AT_ONCE.name()) && task.connect == Connections::Kept {
            return Err(Error::usage(
                "rpc: at-once is the number of connections at a time with connect=each; add that, or leave at-once out",
            ));
        }
        if setting.answers == AnswerSource::Origin {
            task.check_for_origin()?;
            return Ok(Box::new(task));
        }
        if task.connect == Connections::Each {
            if set_apart(&task.settings, &[LANES.key()]).is_some() {
                return Err(Error::usage(
                    "rpc: with connect=each no two requests share a connection, so there are no lanes to share out; leave \
                     out lanes, or take connect=kept",
                ));
            }
            if task.count > MOST_CONNECTIONS {
                return Err(Error::usage(format!(
                    "rpc: connect=each with count={} opens more connections than the {MOST_CONNECTIONS} whose times fit into \
                     a report; ask for fewer",
                    task.count
                )));
            }
        }
        let offers =
            [(Direction::Up, task.request as f64), (Direction::Down, task.response.mean())];
        for (direction, bytes) in offers {
            fits_rate(INFO.id, setting, direction, bytes * 8.0 * task.rate as f64)?;
        }
        Ok(Box::new(task))
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::Request).then(|| {
            let rate = traffic.rate_per_second()?;
            let request = Traffic::bytes(traffic.request.as_ref(), 200)?;
            let response = traffic.response.clone().unwrap_or_else(|| "1kB".to_owned());
            let SizeLaw { most, .. } = law(&response)?;
            let work = traffic::Work::new(
                INFO.id,
                [
                    ("rate", format!("{rate}pps")),
                    ("request", request.to_string()),
                    ("response", response),
                ],
            );
            let limit = Traffic::span(traffic.deadline.as_ref())?;
            Ok(work.within(limit, traffic::Least::RoundTrip).offering(rate, request.max(most)))
        })
    }
}

/// Connections of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connections {
    /// A connection for all requests.
    Kept,
    /// A connection for each request.
    Each,
}

/// Calls with their settings.
#[derive(Debug, Clone)]
struct Calls {
    settings: Settings,
    rate: u64,
    spread: Spread,
    request: usize,
    /// Law of the bytes of a response.
    response: SizeLaw,
    mtu: usize,
    lanes: u16,
    connect: Connections,
    /// Number of connections at a time.
    at_once: u16,
    count: u64,
    claimed: &'static str,
    /// Shortest length of a trial, if the settings do not give one.
    lengths: Option<Lengths>,
    answers: AnswerSource,
    info: TaskInfo,
}

impl Calls {
    fn new(settings: Settings, answers: AnswerSource) -> Calls {
        let (rate, asked) = (settings.get(&RATE), settings.find(&COUNT));
        let Claim { figure, fewest } = settings.get(&CLAIM);
        let connect = settings.get(&CONNECT);
        let unit_ns = Period::of_packets(rate).times(1).0.max(1);
        let mut task = Calls {
            info: TaskInfo::default(),
            rate,
            spread: settings.get(&ARRIVALS),
            request: settings.get(&REQUEST),
            response: settings.get(&RESPONSE),
            mtu: settings.get(&MTU),
            lanes: match connect {
                Connections::Kept => settings.get(&LANES) as u16,
                Connections::Each => 1,
            },
            connect,
            at_once: settings.find(&AT_ONCE).unwrap_or(1) as u16,
            count: asked.unwrap_or(fewest),
            claimed: figure,
            lengths: asked.is_none().then_some(Lengths { fewest, unit_ns, key: "count" }),
            answers,
            settings,
        };
        task.info = task.facts();
        task
    }

    /// Refuses settings that an origin has no use for, or that ask too much of it.
    fn check_for_origin(&self) -> Result<()> {
        if self.connect == Connections::Each {
            return Err(Error::usage(
                "rpc: with connect=each every request opens a connection, which an origin sees as a visit of its own; the \
                 workload connect does that, or take connect=kept",
            ));
        }
        if self.rate > MOST_TO_ORIGIN {
            return Err(Error::usage(format!(
                "rpc: {} requests a second are more than a server of others is asked for; take rate={MOST_TO_ORIGIN}pps or less",
                self.rate
            )));
        }
        Ok(())
    }

    fn period(&self) -> Period {
        Period::of_packets(self.rate)
    }

    /// Returns the requests: the time at which each is due, and the size of its response.
    fn requests(&self, seed: u64) -> impl Iterator<Item = (Nanos, u64)> + use<> {
        let arrivals = Arrivals::new(self.spread, self.period(), self.count, seed);
        let (mut sizes, law) = (Sizes::new(0.0, seed), self.response);
        arrivals.map(move |due| (due, sizes.of(law)))
    }

    /// Returns the largest number of requests that one connection has at a time.
    fn requests_at_once(&self) -> u64 {
        match self.connect {
            Connections::Kept => self.count,
            Connections::Each => 1,
        }
    }

    /// Returns the bytes of a response that one message carries.
    fn room(&self) -> u64 {
        (self.mtu - DUE_LEN) as u64
    }
}

impl Calls {
    fn facts(&self) -> TaskInfo {
        let (response, rate) = (self.settings.as_typed(&RESPONSE), self.settings.as_typed(&RATE));
        let planned = self.period().times(self.count);
        let (over, longest) = match (self.connect, self.at_once) {
            (Connections::Kept, _) => ("one connection".to_owned(), planned + DRAIN + DRAIN),
            (Connections::Each, 1) => ("a connection each".to_owned(), planned + DRAIN + LONGEST),
            (Connections::Each, most) => {
                (format!("a connection each, up to {most} at once"), planned + DRAIN + LONGEST)
            }
        };
        let most = self.response.most;
        let largest = most.saturating_add(most.div_ceil(self.room()) * DUE_LEN as u64);
        let names = ["response", "response time"];
        let items = Items { side: Side::Near, names, deadline: None };
        let of_each = EACH.iter().filter(|_| self.connect == Connections::Each);
        let figures: Vec<_> = FIGURES.iter().chain(of_each).copied().collect();
        let spec = filled(INFO.id, &self.settings, [("count", self.count.to_string())]);
        let is_origin = self.answers == AnswerSource::Origin;
        TaskInfo {
            headline: if !is_origin {
                format!("{}-byte requests for {response}, {rate}, over {over}", self.request)
            } else {
                format!("requests for a document, {rate}, over {over}")
            },
            spec: self.answers.filled(spec, &OF_OURS),
            metrics: claiming(&figures, self.claimed),
            lengths: self.lengths,
            lane_names: numbered(self.lanes),
            flows: vec![None; self.at_once.into()],
            largest_message: self.request.max(self.mtu),
            longest,
            planned: Some(planned),
            connections: match self.connect {
                Connections::Kept => 1,
                // No request uses the first connection of a flow.
                Connections::Each => {
                    let most = self.count.div_ceil(self.at_once.into()) + 1;
                    u16::try_from(most).unwrap_or(u16::MAX)
                }
            },
            // The documents of an origin are as long as they are.
            most_bytes: (!is_origin)
                .then(|| self.count.saturating_mul(largest.max(self.request as u64))),
            memory: EndMemory {
                near: self.count.saturating_mul(client::BYTES_EACH),
                far: self.requests_at_once().saturating_mul(service::BYTES_EACH),
            },
            is_paced: true,
            // Items of several flows are not in one log.
            observed: (self.at_once == 1).then_some(Observed::Items(items)),
            times: names[1],
            ..TaskInfo::default()
        }
    }
}

impl Task for Calls {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![Service::ORDERED; usize::from(self.lanes.min(promised.lanes).max(1))]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        (!peer.is_ours && !peer.answers_requests).then(|| {
            "its far end only echoes or counts, and has no response of another size".to_owned()
        })
    }

    /// Predicts the mean response time, for responses of one size and one packet that queue at the link.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        let SizeLaw { least, most, .. } = self.response;
        let is_one = least == most && most <= self.room() && self.connect == Connections::Kept;
        let lossless = on.up.loss == 0.0 && on.down.loss == 0.0;
        if !is_one || !lossless || self.spread != Spread::Poisson {
            return Vec::new();
        }
        let response = most as usize + DUE_LEN;
        let own = on.transit(Direction::Down, response) - on.down.delay.0 as f64;
        let load = own * self.rate as f64 / 1e9;
        let both = on.transit(Direction::Up, self.request) + on.transit(Direction::Down, response);
        vec![Prediction {
            metric: "response_mean_ns",
            value: both + own * load / (2.0 * (1.0 - load)),
            form: "both ways, and r S / (2 (1 - r)) of waiting, for a time S at the link and a load r",
            source: "Pollaczek and Khinchine, M/D/1",
            tolerance: 0.1,
            outside: (load >= 0.95).then(|| "the link is full".to_owned()),
        }]
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let lanes = self.lanes(&part.guarantees).len() as u16;
        match part.side {
            Side::Near if part.peer.has_documents => Box::new(Reader::new(self, part)),
            Side::Near if self.connect == Connections::Each => {
                Box::new(Redialler::new(self, &part))
            }
            Side::Near => Box::new(Client::new(self, lanes, part)),
            Side::Far => Box::new(Server::new(self, lanes, part.tag)),
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = Measurements::default();
        conclude_one(&mut findings, Direction::Up, reports.near, self.info.metrics.iter());
        if self.connect == Connections::Each {
            let flows = reports.near.iter().filter_map(|half| half.requests.as_deref());
            answers::conclude(flows, self.period().times(self.count), &mut findings);
        }
        for direction in [Direction::Up, Direction::Down] {
            let (senders, receivers, conns) = reports.of(direction);
            findings.ledger.set(direction, account_of(senders, receivers, conns));
        }
        if !findings.metrics.contains_key(self.claimed) && findings.why_invalid.is_none() {
            let why = "too few responses arrived to have the figure that is claimed";
            findings.why_invalid = Some(why.to_owned());
        }
        findings
    }
}

/// Figures of the workload: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("response_mean_ns", "mean response time", Unit::Nanos, Better::Lower),
    (answers::GEOMEAN, "response time, geometric mean", Unit::Nanos, Better::Lower),
    ("response_p50_ns", "response time p50", Unit::Nanos, Better::Lower),
    ("response_p95_ns", "response time p95", Unit::Nanos, Better::Lower),
    ("response_p99_ns", "response time p99", Unit::Nanos, Better::Lower),
    ("response_max_ns", "slowest response", Unit::Nanos, Better::Lower),
    ("first_byte_mean_ns", "mean time to the first bytes", Unit::Nanos, Better::Lower),
    ("first_byte_p99_ns", "time to the first bytes p99", Unit::Nanos, Better::Lower),
    ("unanswered_share", "requests not answered", Unit::Share, Better::Lower),
];

/// Figures with a connection for each request.
const EACH: &[(&str, &str, Unit, Better)] = &[
    (OFFERED, "offered", Unit::BitRate, Better::Higher),
    (CARRIED, "carried", Unit::BitRate, Better::Higher),
    ("waited_share", "requests that waited for their turn", Unit::Share, Better::Lower),
];

/// Figure of the responses: their bytes that arrived within the schedule, over its time.
const CARRIED: &str = "carried_bps";

#[cfg(test)]
mod tests;
