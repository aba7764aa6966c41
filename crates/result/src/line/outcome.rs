//! Saved surveys of a line: format 1 of its file. Reports are made from this alone.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::part::{LinePart, LineWorks};
use crate::causes::Finding;
use crate::causes::judge::of_trials;
use crate::outcome::Program;
use crate::{layout, packed, save};
use deadheat_base::error::{Error, Result};
use deadheat_contract::measurements::{Better, ClockEstimate, Ledger, Metrics, Unit};
use deadheat_records::host::HostFacts;
use deadheat_records::trial::PathFacts;

/// File format that this version writes.
pub const FORMAT: u32 = 1;

/// Surveys of one line.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineOutcome {
    /// Kind of the file: `line`.
    pub kind: LineFileKind,
    /// File format: 1.
    pub format: u32,
    /// Program that wrote the file.
    pub deadheat: Program,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Seed of the order of trials.
    pub seed: u64,
    /// The path to the far host.
    pub path: PathFacts,
    /// The near host.
    pub host: HostFacts,
    /// The far host; absent on a path that this program made itself.
    pub peer_host: Option<HostFacts>,
    /// Works of the trials.
    pub works: LineWorks,
    /// Time between the starts of two surveys, in nanoseconds; absent for a single survey.
    pub every_ns: Option<u64>,
    /// Surveys, in order of time.
    pub surveys: Vec<Survey>,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineFileKind {
    /// Surveys of a line.
    Line,
}

/// One survey: a minute of trials.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Survey {
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Duration, in nanoseconds.
    pub took_ns: u64,
    /// Transports that were tried at the beginning.
    pub reach: Vec<Reached>,
    /// Contender of the small messages: the first that was tried, or the second if the first does not get through.
    pub probe: String,
    /// Largest IP packet that passes unfragmented, as the near host knows it; absent if unknown.
    pub path_mtu: Option<u64>,
    /// Marks of packets that were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<TriedMark>,
    /// Number of complete rounds.
    pub rounds: u64,
    /// Kinds of trials for which there was no time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LinePart>,
    /// Figures, in the order of a report.
    pub figures: Vec<LineFigure>,
    /// Trials, in the order run.
    pub trials: Vec<LineTrial>,
    /// Reason why the survey ended before its time; absent if it did not.
    pub ended: Option<String>,
}

/// A transport that was tried.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The contender, as typed.
    pub contender: String,
    /// Reason why no message came back; absent if one did.
    pub why_not: Option<String>,
    /// Number of small messages that were sent; absent if it was not tried, and in files from before it was recorded.
    pub sent: Option<u64>,
    /// Number of them that came back.
    pub answered: Option<u64>,
}

/// A DSCP that was tried, in both directions.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedMark {
    /// DSCP with which packets left both hosts: `EF`.
    pub dscp: String,
    /// DSCP with which they arrived at the far host; absent if it is not known.
    pub up: Option<String>,
    /// DSCP with which they arrived at the near host; absent if it is not known.
    pub down: Option<String>,
    /// Reason why none came back; absent if one did.
    pub why_not: Option<String>,
}

/// A figure of the line with its interval.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineFigure {
    /// Name, unit last: `rtt_up_8_ns`.
    pub name: String,
    /// Unit.
    pub unit: Unit,
    /// Better end of the scale.
    pub better: Better,
    /// Number of rounds with a figure.
    pub rounds: u64,
    /// Median of the rounds; for a loss, the share over all rounds.
    pub point: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability with which such an interval has the median in it; 0 where one round has no interval.
    pub confidence: f64,
    /// True if messages were lost and the figure is only known to be greater.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub censored: bool,
    /// True if none of its trials passed its gate: it is what they measured, and not to be trusted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// For the goodput of a load, how far it filled the line; absent for all others, and in files from before it was
    /// recorded.
    pub filling: Option<LineFilling>,
    /// Largest error by the clocks of two hosts, in nanoseconds, for a time one way; absent for all others, and on one
    /// clock.
    pub clock_bound_ns: Option<u64>,
}

/// Way in which a load filled the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineFilling {
    /// Full: messages waited in its queue, or it lost packets, and its rate was steady.
    Full,
    /// Growing: its rate rose until the end, so the line carries more.
    Growing,
    /// Unfilled: nothing waited and nothing was lost, so something else held the load back.
    Unfilled,
}

/// Course of the load in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadCourse {
    /// Start of the time in which its goodput counts, in nanoseconds after the load's start.
    pub from_ns: u64,
    /// End of that time.
    pub to_ns: u64,
    /// Goodput in the first and in the second half of that time, in bits per second.
    pub halves_bps: [f64; 2],
    /// Segments that were sent again in that time, at both ends.
    pub retransmits: u64,
}

/// A trial of a survey.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineTrial {
    /// Number of the round, from 0.
    pub round: u64,
    /// Kind of trial.
    pub part: LinePart,
    /// Work as run, with all its settings.
    pub workload: String,
    /// Reason why its figures do not count; absent if they do.
    pub why_invalid: Option<String>,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Duration, in nanoseconds.
    pub took_ns: u64,
    /// Figures by name.
    pub metrics: Metrics,
    /// Names of figures that are censored at the timeout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub censored: Vec<String>,
    /// Course of the load, if there is one and its counters over time are known.
    pub load: Option<LoadCourse>,
    /// Causes that held the load back, the largest first; none if they are not known, and in files from before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_causes: Vec<Finding>,
    /// Fate of the messages.
    pub ledger: Ledger,
    /// Far clock in relation to the near one; absent on one clock, and if they were not compared.
    pub clock: Option<ClockEstimate>,
}

impl LineOutcome {
    /// Returns the last survey with figures, or the last one if none has any.
    pub fn last(&self) -> Option<&Survey> {
        let with_figures = self.surveys.iter().rev().find(|survey| !survey.figures.is_empty());
        with_figures.or(self.surveys.last())
    }
}

impl TriedMark {
    /// Returns true if packets arrived as they left, in both directions.
    pub fn is_kept(&self) -> bool {
        let arrived = [&self.up, &self.down];
        self.why_not.is_none() && arrived.iter().all(|one| one.as_ref() == Some(&self.dscp))
    }
}

impl Survey {
    /// Returns the figure of this name.
    pub fn figure(&self, name: &str) -> Option<&LineFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the causes that held the load of a part back in most of its trials, the largest first.
    pub fn load_causes(&self, part: LinePart) -> Vec<Finding> {
        let counted =
            self.trials.iter().filter(|trial| trial.part == part && trial.why_invalid.is_none());
        of_trials(&counted.map(|trial| &trial.load_causes[..]).collect::<Vec<_>>())
    }

    /// Returns the number of trials that count.
    pub fn valid(&self) -> usize {
        self.trials.iter().filter(|trial| trial.why_invalid.is_none()).count()
    }
}

/// Returns true if the file has surveys of a line, in whatever format.
pub fn is_line(file: &Path) -> bool {
    #[derive(Deserialize)]
    struct LineHead {
        kind: Option<String>,
    }
    let text = packed::read(file, save::LARGEST).ok();
    let head = text.and_then(|text| layout::read::<LineHead>(&text).ok());
    head.and_then(|head| head.kind).is_some_and(|kind| kind == "line")
}

/// Reads surveys of a line, as saved or compressed by gzip.
///
/// # Errors
/// [`Error::Setup`] if the file cannot be read; [`Error::Data`] if it has no surveys in this format, with the place of
/// the fault.
pub fn load(file: &Path) -> Result<LineOutcome> {
    let text = packed::read(file, save::LARGEST)?;
    let fault = |what: String| Error::data(file.display().to_string(), what);
    let outcome: LineOutcome = layout::read(&text)
        .map_err(|e| fault(format!("not surveys of a line as `deadheat line` saves them: {e}")))?;
    match outcome.format {
        FORMAT => Ok(outcome),
        other => Err(fault(format!(
            "surveys in format {other}, and this program reads format {FORMAT}; use the version that wrote them"
        ))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::line::figures::{figure, rtt};

    /// Returns the file of a survey whose idle round trip is this in each round, in nanoseconds.
    pub(in crate::line) fn line_of(started_ms: u64, rounds: &[f64]) -> LineOutcome {
        let idle = figure(rtt(LinePart::Idle), (Unit::Nanos, Better::Lower), rounds);
        let survey =
            Survey { started_ms, figures: idle.into_iter().collect(), ..Survey::default() };
        let works = ["ping", "cbr", "udp", "tcp", "ping"].map(str::to_owned);
        let [small, paced, paced_over, load, knock] = works;
        LineOutcome {
            kind: LineFileKind::Line,
            format: FORMAT,
            deadheat: Program { version: "0.1.0".into() },
            started: "2026-01-01T00:00:00Z".into(),
            seed: 1,
            path: PathFacts {
                spec: "host.example".into(),
                kind: deadheat_path::PathKind::Remote,
                address: String::new(),
                built: None,
                reached: None,
                far_end: None,
            },
            host: HostFacts::default(),
            peer_host: None,
            works: LineWorks { small, paced, paced_over, load, knock },
            every_ns: None,
            surveys: vec![survey],
        }
    }
}
