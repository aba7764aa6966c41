//! What a workload is: [`Workload`] makes a [`Task`] of its settings, and a task makes an [`Endpoint`] for each end of each
//! flow. No socket and no clock inside: time is an argument.
//!
//! No workload is in this crate. The program hands those that it has in ([`ALL`]); beside them stands here what all of them
//! share: the header of messages, and a load beside the work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::{Direction, Guarantees};
use crate::error::Result;
use crate::handed_in::HandedIn;
use crate::measurements::{
    ClockEstimate, ConnStats, Distribution, Ledger, Metrics, Outage, PacedFlow, Pacing, Tally,
    WarmUp,
};
use crate::spec::{Key, Spec};
use deadheat_base::unset::is_unset;

mod endpoint;
pub mod header;
pub mod load;
pub mod setting;
mod shared;
mod task;
pub mod theory;
pub mod traffic;

pub use crate::path::PathKind;
pub use endpoint::{BulkPart, Endpoint, FlowEvent, Part, RecentTimes, Standing};
pub use load::Load;
pub use setting::{Bounds, Lengths, Setting};
pub use shared::SharedTask;
pub use task::{ELSEWHERE, EndMemory, NamedFile, Numbering, Purpose, Task, TaskInfo, misfit};
pub use traffic::Traffic;

/// Every workload that the program has handed in, in the order in which lists show them. The first is the default.
pub static ALL: HandedIn<dyn Workload> = HandedIn::new();

/// Description of a workload.
#[derive(Debug)]
pub struct Info {
    /// The name on the command line and in results.
    pub id: &'static str,
    /// The name for people.
    pub label: &'static str,
    /// Summary in one line, for lists.
    pub summary: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A kind of work.
pub trait Workload: Sync {
    /// Returns its description.
    fn info(&self) -> &'static Info;

    /// Creates the work with its settings; those not given follow from `setting`.
    ///
    /// # Errors
    /// Fails with [`crate::error::Error::Usage`], naming what is wrong and what would be right.
    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>>;

    /// Returns the work with which it stands for traffic of an application, beside `others` of it; `None` if
    /// such traffic is another workload's. The first of [`ALL`] that answers has it.
    ///
    /// # Errors
    /// Fails with [`crate::error::Error::Usage`], naming what is wrong and what would be right.
    fn stands_for(&self, _traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        None
    }

    /// Returns itself as typed, as a load beside other work: data one way for longer than any trial; `None` if it is no such
    /// work. The first of [`ALL`] that answers has it.
    fn as_load(&self, _flows: &load::Flows) -> Option<String> {
        None
    }
}

/// Report of one endpoint of one flow, at the end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Data handed to the transport.
    pub sent: Tally,
    /// Data received, each message once.
    pub received: Tally,
    /// One-way data only: from the first receive to the last, on this end's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_span: Option<ReceiveSpan>,
    /// Bulk data only: the first send, in nanoseconds on this end's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_began_ns: Option<u64>,
    /// One-way data only: from the first send to the last, in nanoseconds; for a schedule, from its
    /// first slot to the end of its last, or of the last send where that was later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_span_ns: Option<u64>,
    /// Bulk data only: what arrived of content that is kept or checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentReport>,
    /// The messages that warmed it up, which are in none of the other figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmUp>,
    /// The claimed figure of consecutive parts of the trial, where they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<f64>,
    /// Round-trip times, if it measured any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Distribution>,
    /// Lateness of the generator, if it has a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_lateness_ns: Option<Distribution>,
    /// Share of sends that were late by more than the longer of interval and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_send_share: Option<f64>,
    /// Effect of late sends on the claimed figure, as the logarithm of a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_effect: Option<f64>,
    /// RFC 3550 jitter of the round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_rfc3550_ns: Option<u64>,
    /// Outcome of its schedule, if it is to be kept to the microsecond; at the end only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// One-way delays above the least of them, if it measured any; at the end only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_variation_ns: Option<Distribution>,
    /// The far clock against the near one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockEstimate>,
    /// Figures of the workload's own, by the names of its metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// Outages, from this flow's start at this end on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
}

/// Report of a receiving half on the content of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContentReport {
    /// Content bytes that arrived, each once; headers of messages do not count.
    pub arrived: u64,
    /// Bytes of them that were compared with what was sent, or went into `sha256`.
    pub checked: u64,
    /// The first byte of the whole content that is not what was sent; absent where none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs_at: Option<u64>,
    /// SHA-256 (FIPS 180-4) of the flow's content in hexadecimal, where it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Span from the first receive of a flow to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveSpan {
    /// The first receive, in nanoseconds on the receiver's monotonic clock.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
    /// Bytes that the first receive brought; they arrived before the span began.
    pub first_bytes: u64,
    /// Bytes that arrived in the warm-up, which is over where the span begins.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub warmup_bytes: u64,
}

/// Relation of the clocks of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clocks {
    /// One clock: both ends are on one host, or in virtual time.
    #[default]
    Shared,
    /// A clock each: times of one end say nothing about the other's.
    Apart,
}

/// Reports of both ends of a trial, by flow.
pub struct Reports<'a> {
    /// The near end's halves.
    pub near: &'a [EndpointReport],
    /// The far end's halves; empty where the peer is the kernel.
    pub far: &'a [EndpointReport],
    /// The near end's connections.
    pub near_conns: &'a [ConnStats],
    /// The far end's connections.
    pub far_conns: &'a [ConnStats],
    /// Guarantees of the transport.
    pub guarantees: &'a Guarantees,
    /// Relation of their clocks.
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
    /// Metrics whose value is censored at the timeout, by name.
    pub censored: Vec<String>,
    /// Round-trip times.
    pub rtt_ns: Option<Distribution>,
    /// Lateness of the generator.
    pub send_lateness_ns: Option<Distribution>,
    /// Largest effect of the generator's lateness on the claimed figure, as the logarithm of a ratio; 0 if
    /// it was never late, and `None` if there is no schedule, or the figure is censored.
    pub late_effect: Option<f64>,
    /// The claimed figure of consecutive parts of the trial, where they are known.
    pub segments: Vec<f64>,
    /// The messages that warmed it up.
    pub warmup: Option<WarmUp>,
    /// Outcome of the schedule of each paced flow.
    pub paced: Vec<PacedFlow>,
    /// The far clock against the near one.
    pub clock: Option<ClockEstimate>,
    /// Fate of each message.
    pub ledger: Ledger,
    /// Report on the content, if it was kept, checked, or read from a file.
    pub content: Option<Content>,
    /// Reason why the trial fails its gate, if it does. Says nothing about how good the result is.
    pub why_invalid: Option<String>,
}

/// A transfer's content as both endpoints of each flow know it. Whoever has the files knows more.
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
    /// Made-up content: each flow carries [`crate::buffer::pattern`] from its start, again and
    /// again.
    MadeUp,
    /// Content of one file, of which each flow carries its part.
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

/// The largest share of sends that may be late in a trial that counts.
pub const MOST_LATE: f64 = 0.25;

/// Reads a workload such as `ping:size=64,interval=1ms`, as on loopback.
///
/// # Errors
/// Fails under the same conditions as [`parse_on`].
pub fn parse(typed: &str) -> Result<Box<dyn Task>> {
    parse_on(typed, &Setting::LOOPBACK)
}

/// Reads a workload whose keys, where they are not given, follow from where it is done. What
/// [`TaskInfo::spec`] then says stands for the same work anywhere.
///
/// # Errors
/// Fails with [`crate::error::Error::Usage`], naming what is wrong and what would be right.
pub fn parse_on(typed: &str, setting: &Setting) -> Result<Box<dyn Task>> {
    of_spec(Spec::parse(typed)?, setting)
}

/// Creates the work that a specification asks for, as [`parse_on`] does.
///
/// # Errors
/// As of [`parse_on`].
fn of_spec(mut spec: Spec, setting: &Setting) -> Result<Box<dyn Task>> {
    let load = load::take(&mut spec, setting)?;
    let workload = find(&spec.name)?;
    match load {
        Some(load) => load.beside(&spec, |spec| workload.task(spec, setting)),
        None => workload.task(&spec, setting),
    }
}

/// Returns a workload as a result carries it, with all defaults. One that knows of no warm-up is of a
/// version that had none, and means the same with `warmup=0`. What cannot be read is left as it is.
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

/// Returns the keys of the workload with this name: its own, then those that every one has.
///
/// # Errors
/// Fails with [`crate::error::Error::Usage`] if there is none.
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
        let ids: Vec<&str> = ALL.iter().map(|workload| workload.info().id).collect();
        ALL.unknown("workload", name, &ids)
    })
}
