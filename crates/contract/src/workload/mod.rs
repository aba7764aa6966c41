//! Workloads: a [`Workload`] creates a [`Task`] from its settings, and a task creates an [`Endpoint`] for each end of
//! each flow. No socket and no clock inside: time is an argument.
//!
//! No workload is in this crate: the program registers its workloads ([`ALL`]). This module has their common parts: the
//! header of messages, and a load beside the work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::contract::{Direction, Guarantees, PeerFacts};
use crate::handed_in::HandedIn;
use crate::measurements::{
    ClockEstimate, ConnStats, Distribution, FarView, Ledger, Metrics, Outage, PacedFlow, Pacing,
    Tally, WarmUp,
};
use deadheat_base::error::Result;
use deadheat_base::spec::{Key, Spec};
use deadheat_base::unset::is_unset;

mod apart;
mod endpoint;
pub mod header;
pub mod load;
mod people;
pub mod programs;
pub mod setting;
mod shared;
mod task;
pub mod theory;
pub mod traffic;

pub use apart::LanesApart;
pub use deadheat_path::PathKind;
pub use endpoint::{BulkPart, Endpoint, FlowEvent, Part, RecentTimes, Standing};
pub use load::Load;
pub use people::{NodeHost, People};
pub use programs::{ProgramFigure, ProgramWork};
pub use setting::{AnswerSource, Bounds, Ends, Lengths, Setting};
pub use shared::SharedTask;
pub use task::{ELSEWHERE, EndMemory, NamedFile, Numbering, Purpose, Task, TaskInfo, misfit};
pub use traffic::Traffic;

/// Every workload that the program has registered, in the order of lists. The first is the default.
pub static ALL: HandedIn<dyn Workload> = HandedIn::new();

/// Description of a workload.
#[derive(Debug)]
pub struct Info {
    /// Name on the command line and in results.
    pub id: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Summary in one line, for lists.
    pub summary: &'static str,
    /// Keys of its settings.
    pub keys: &'static [Key],
}

/// A kind of work.
pub trait Workload: Sync {
    /// Returns its description.
    fn info(&self) -> &'static Info;

    /// Creates the work with its settings; defaults follow from `setting`.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] with the mistake and a correction.
    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>>;

    /// Returns the work that models traffic of an application, beside `others` of the same application; `None` if
    /// another workload models it. The first workload of [`ALL`] with an answer is used.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] with the mistake and a correction.
    fn stands_for(&self, _traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        None
    }

    /// Returns true if it is the usual question to such a peer, for a user who names no work.
    fn is_usual_for(&self, _peer: PeerFacts) -> bool {
        false
    }

    /// Returns its settings as typed, for a load beside other work: data one way for longer than any trial; `None` if
    /// it cannot be a load. The first workload of [`ALL`] with an answer is used.
    fn as_load(&self, _flows: &load::Flows) -> Option<String> {
        None
    }
}

/// Report of one endpoint of one flow, at the end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Data handed to the transport.
    pub sent: Tally,
    /// Data received, each message once.
    pub received: Tally,
    /// Data one way only: from the first receive to the last, on this end's clock.
    pub receive_span: Option<ReceiveSpan>,
    /// Bulk data only: the first send, in nanoseconds on this end's clock.
    pub send_began_ns: Option<u64>,
    /// Data one way only: from the first send to the last, in nanoseconds; for a schedule, from its first slot to the
    /// end of its last, or to the last send if that was later.
    pub send_span_ns: Option<u64>,
    /// Bulk data only: the received content, if it is stored or checked.
    pub content: Option<ContentReport>,
    /// Messages that warmed it up, which are in no other figure.
    pub warmup: Option<WarmUp>,
    /// Claimed figure of consecutive parts of the trial, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<f64>,
    /// Round-trip times, if it measured any.
    pub rtt_ns: Option<Distribution>,
    /// Lateness of the generator, if it has a schedule.
    pub send_lateness_ns: Option<Distribution>,
    /// Share of sends that were late by more than the longer of interval and path.
    pub late_send_share: Option<f64>,
    /// Effect of late sends on the claimed figure, as the logarithm of a ratio.
    pub late_effect: Option<f64>,
    /// RFC 3550 jitter of the round trips.
    pub jitter_rfc3550_ns: Option<u64>,
    /// Outcome of its schedule, if it is paced to the microsecond; at the end only.
    pub pacing: Option<Pacing>,
    /// Delays one way above the shortest, if it measured any; at the end only.
    pub delay_variation_ns: Option<Distribution>,
    /// Shortest of these delays, in nanoseconds from the sender's clock to this end's; at the end only.
    pub least_delay_ns: Option<i64>,
    /// Offset of the far clock from the near one.
    pub clock: Option<ClockEstimate>,
    /// Statements of the far end on each message that it sent back, if it made any.
    pub far_view: Option<Box<FarView>>,
    /// Figures of this workload, by the names of its metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// Times of its requests with a connection each; at the end only.
    pub requests: Option<Box<RequestTimes>>,
    /// Outages since this flow's start at this end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
}

/// Times of the requests of one flow, with a connection each, in nanoseconds from when each was due.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestTimes {
    /// Time until the whole response was there, of requests with a whole response.
    pub response_ns: Vec<u64>,
    /// Time until the first part of the response was there, of requests with any.
    pub first_byte_ns: Vec<u64>,
    /// Time after which requests without a whole response were given up: a lower bound of their response times.
    pub unfinished_ns: Vec<u64>,
    /// Requests that were due while the flow's connection had another one.
    pub waited: u64,
    /// Bytes of all responses that were asked for.
    pub asked_bytes: u64,
    /// Bytes of responses that arrived before the end of the schedule.
    pub carried_bytes: u64,
}

/// Report of a receiving half on the content of one flow.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContentReport {
    /// Content bytes that arrived, each once; headers of messages do not count.
    pub arrived: u64,
    /// Bytes of them that were compared with the sent content, or are in `sha256`.
    pub checked: u64,
    /// Offset of the first byte of the whole content that differs from the sent one; absent if no difference was found.
    pub differs_at: Option<u64>,
    /// SHA-256 (FIPS 180-4) of the flow's content in hexadecimal, if it was computed.
    pub sha256: Option<String>,
}

/// Span from the first receive of a flow to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveSpan {
    /// Time of the first receive, in nanoseconds on the receiver's monotonic clock.
    pub first_ns: u64,
    /// Time of the last receive.
    pub last_ns: u64,
    /// Bytes of the first receive; they arrived before the span began.
    pub first_bytes: u64,
    /// Bytes that arrived in the warm-up, before the span began.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub warmup_bytes: u64,
}

/// Relation of the clocks of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clocks {
    /// A common clock: both ends are on one host, or in virtual time.
    #[default]
    Shared,
    /// A clock each: times of both ends cannot be compared.
    Apart,
    /// A clock each, with times of a far end of others as they were on its own.
    Foreign {
        /// Far minus near in the middle of the trial, in nanoseconds.
        ahead_ns: i64,
    },
}

/// Reports of both ends of a trial, by flow.
pub struct Reports<'a> {
    /// The near end's halves.
    pub near: &'a [EndpointReport],
    /// The far end's halves; empty if the peer is the kernel.
    pub far: &'a [EndpointReport],
    /// The near end's connections.
    pub near_conns: &'a [ConnStats],
    /// The far end's connections.
    pub far_conns: &'a [ConnStats],
    /// Guarantees of the transport.
    pub guarantees: &'a Guarantees,
    /// Relation of the clocks of both ends.
    pub clocks: Clocks,
}

impl<'a> Reports<'a> {
    /// Returns the senders and the receivers of a direction, and the receivers' connections.
    pub fn of(
        &self,
        direction: Direction,
    ) -> (&'a [EndpointReport], &'a [EndpointReport], &'a [ConnStats]) {
        match direction {
            Direction::Up => (self.near, self.far, self.far_conns),
            Direction::Down => (self.far, self.near, self.near_conns),
        }
    }
}

/// The figures of a trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurements {
    /// Figures by metric name.
    pub metrics: Metrics,
    /// Names of the metrics that are censored at the timeout.
    pub censored: Vec<String>,
    /// Round-trip times.
    pub rtt_ns: Option<Distribution>,
    /// Lateness of the generator.
    pub send_lateness_ns: Option<Distribution>,
    /// Largest effect of the generator's lateness on the claimed figure, as the logarithm of a ratio; 0 if
    /// it was never late, and `None` if there is no schedule, or the figure is censored.
    pub late_effect: Option<f64>,
    /// Claimed figure of consecutive parts of the trial, if known.
    pub segments: Vec<f64>,
    /// Messages that warmed it up.
    pub warmup: Option<WarmUp>,
    /// Outcome of the schedule of each paced flow.
    pub paced: Vec<PacedFlow>,
    /// Offset of the far clock from the near one.
    pub clock: Option<ClockEstimate>,
    /// Accounts of messages or bytes.
    pub ledger: Ledger,
    /// Report on the content, if it was stored, checked, or read from a file.
    pub content: Option<Content>,
    /// Reason why the trial is invalid, if it is. It does not depend on how good the result is.
    pub why_invalid: Option<String>,
}

/// Content of a transfer as the endpoints know it. The engine, which has the files, knows more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Origin of the content.
    pub origin: Origin,
    /// Its parts, one per flow.
    pub pieces: Vec<Piece>,
}

/// Origin of a transfer's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Generated content: each flow repeats [`crate::buffer::pattern`] from its start.
    MadeUp,
    /// Content of one file; each flow carries a part of it.
    File,
}

/// The content of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Offset of its first byte in the whole content.
    pub start: u64,
    /// Its length in bytes, as sent.
    pub bytes: u64,
    /// Report of the receiver.
    pub report: ContentReport,
}

/// Largest share of late sends in a valid trial.
pub const MOST_LATE: f64 = 0.25;

/// Reads a workload such as `ping:size=64,interval=1ms`, as on loopback.
///
/// # Errors
/// As [`parse_on`].
pub fn parse(typed: &str) -> Result<Box<dyn Task>> {
    parse_on(typed, &Setting::LOOPBACK)
}

/// Reads a workload; defaults of its keys follow from `setting`. [`TaskInfo::spec`] of the result gives the same work
/// in any setting.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] with the mistake and a correction.
pub fn parse_on(typed: &str, setting: &Setting) -> Result<Box<dyn Task>> {
    of_spec(Spec::parse(typed)?, setting)
}

/// Creates the work that a specification asks for, as [`parse_on`] does.
///
/// # Errors
/// As [`parse_on`].
fn of_spec(mut spec: Spec, setting: &Setting) -> Result<Box<dyn Task>> {
    let load = load::take(&mut spec, setting)?;
    let workload = find(&spec.name)?;
    match load {
        Some(load) => load.beside(&spec, |spec| workload.task(spec, setting)),
        None => workload.task(&spec, setting),
    }
}

/// Returns a workload from a result, with all defaults. A workload without a warm-up was saved by a version that had
/// none, which is the same as `warmup=0`. Text that cannot be parsed is returned unchanged.
pub fn saved(typed: &str) -> String {
    let Ok(mut spec) = Spec::parse(typed) else { return typed.to_owned() };
    let Ok(keys) = find(&spec.name).map(|workload| workload.info().keys) else {
        return typed.to_owned();
    };
    let given = |key: &Key| spec.options.iter().any(|(name, _)| name == key.name);
    let (warmup, others): (Vec<&Key>, Vec<&Key>) = keys.iter().partition(|k| k.name == "warmup");
    let is_whole = others.into_iter().all(|key| key.default.is_empty() || given(key));
    if is_whole && warmup.iter().any(|key| !given(key)) {
        spec.options.push(("warmup".to_owned(), "0".to_owned()));
    }
    spec.to_string()
}

/// Returns the keys of the workload with this name: its own, then the common ones.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] if there is none.
pub fn keys(name: &str) -> Result<Vec<&'static Key>> {
    Ok(find(name)?.info().keys.iter().chain(load::KEYS).collect())
}

/// Iterates over the keys of all workloads: the own ones of each, and the common ones.
pub fn all_keys() -> impl Iterator<Item = &'static Key> {
    ALL.iter().flat_map(|workload| workload.info().keys).chain(load::KEYS)
}

fn find(name: &str) -> Result<&'static dyn Workload> {
    let found = ALL.iter().find(|workload| workload.info().id == name);
    found.copied().ok_or_else(|| {
        if let Some((name, keys)) =
            name.split_once([',', ' ']).filter(|(_, keys)| keys.contains('='))
        {
            return deadheat_base::error::Error::usage(format!(
                "workload `{name},{keys}`: a colon stands in front of the keys; write {name}:{keys}"
            ));
        }
        let ids: Vec<&str> = ALL.iter().map(|workload| workload.info().id).collect();
        ALL.unknown("workload", name, &ids)
    })
}
