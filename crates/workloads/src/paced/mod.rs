//! Messages at times that are fixed at the start: the common part of all workloads but `ping` and `bulk`. A workload
//! brings a [`Measure`] of arrivals, and a [`Plan`] if its messages are not all alike and equally far apart.

use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::{Metric, Metrics, PacedFlow, Pacing, total};

pub(super) use deadheat_contract::workload::header::{DUE_LEN, read_due, write_due};
use deadheat_contract::workload::{EndpointReport, MOST_LATE, Measurements, Reports};

mod held;
mod intake;
pub(crate) mod pacer;
mod quantiles;
mod receiver;
pub(crate) mod saw;
mod schedule;
mod sender;
mod task;

pub(super) use held::{ArrivalTimes, Waits, waits};
pub(super) use intake::Intake;
pub(super) use pacer::{Otherwise, Pacer, Plan, Slot, Turn};
pub(super) use quantiles::Quantiles;
pub(super) use receiver::{Measure, Receiver};
pub(super) use schedule::{Period, Schedule};
pub(super) use sender::{Sender, fill};
pub(super) use task::{BoxedPlan, LOST, Pace, PaceSettings, Paced, Work, WorkFacts, delivery};

/// Maximum number of messages: the times of each message of a [`Paced`] workload are stored until the end.
pub(super) const MOST_MESSAGES: u64 = 10_000_000;

/// Declares the number of messages that a [`Paced`] workload sends; `doc` describes the default.
pub(super) const fn count_key(doc: &'static str) -> Optional<u64> {
    Optional::count("count", (20, MOST_MESSAGES)).doc(doc)
}

/// Declares the size of a message of a [`Paced`] workload.
pub(super) const fn size_key(default: &'static str, doc: &'static str) -> Preset<usize> {
    Optional::length("size", (DUE_LEN as u64, 65_507)).or(default).doc(doc)
}

/// Declares the direction of the messages of a [`Paced`] workload.
pub(super) const fn direction_key(default: &'static str, doc: &'static str) -> Preset<Direction> {
    let values = &[Direction::Up, Direction::Down];
    Optional::choice("direction", &["up", "down"], values).or(default).doc(doc)
}

/// Declares the number of far ends of a [`Paced`] workload, each of which gets all its messages.
pub(super) const RECEIVERS: Optional<u64> = Optional::count("receivers", (1, 64))
    .doc("with direction=up: far ends, each a process with a connection of its own, as the players of a game; figures are \
     means over them (1)");

/// Figure for verdicts, as a word of the key `claim` selects it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// Name of the figure.
    pub(super) figure: &'static str,
    /// Minimum number of messages for it.
    pub(super) fewest: u64,
}

impl Claim {
    pub(super) const fn new(figure: &'static str, fewest: u64) -> Claim {
        Claim { figure, fewest }
    }
}

/// A lane, by the name with which contenders share lanes out.
pub(super) struct NamedLane {
    pub(super) name: &'static str,
}

impl NamedLane {
    /// Returns the names of `lanes`, in their order.
    pub(super) fn names(lanes: &[NamedLane]) -> Vec<String> {
        lanes.iter().map(|lane| lane.name.to_owned()).collect()
    }
}

/// Longest time from the last send to the last arrival: a reliable transport empties its queue at the path's rate.
pub(super) const DRAIN: Nanos = Nanos::from_secs(30);

/// Largest share of messages missed for want of CPU time in a valid trial.
const MOST_MISSED: f64 = 0.09;

/// Returns the figures of the trial from the receivers' figures: with several flows their mean, weighted by messages.
fn joined<'a>(receivers: &[EndpointReport], metrics: impl Iterator<Item = &'a Metric>) -> Metrics {
    let mean = |name: &str| {
        let known = receivers
            .iter()
            .filter_map(|half| Some((*half.figures.get(name)?, half.received.messages as f64)));
        let (sum, weight) = known.fold((0.0, 0.0), |(sum, weight), (figure, messages)| {
            (sum + figure * messages, weight + messages)
        });
        (weight > 0.0).then(|| sum / weight)
    };
    metrics.filter_map(|metric| Some((metric.name.clone(), mean(&metric.name)?))).collect()
}

/// Adds the outcome of the schedules of a direction's senders, and whether the trial is valid.
pub(super) fn conclude(
    findings: &mut Measurements,
    direction: Direction,
    senders: &[EndpointReport],
) {
    let pacings = senders.iter().filter_map(|sender| sender.pacing.clone());
    let flow = |pacing| PacedFlow { direction, pacing, delay_variation_ns: None };
    findings.paced.extend(pacings.map(flow));
    judge(findings);
}

/// Adds the outcome of the schedules of a direction's senders, and the figures that the senders report.
pub(super) fn conclude_one<'a>(
    findings: &mut Measurements,
    direction: Direction,
    senders: &[EndpointReport],
    metrics: impl Iterator<Item = &'a Metric>,
) {
    conclude(findings, direction, senders);
    findings.metrics = joined(senders, metrics);
}

/// Adds the outcome of the schedules of both ends if both send, and the means of both ends' figures.
pub(super) fn conclude_both<'a>(
    findings: &mut Measurements,
    reports: &Reports<'_>,
    metrics: impl Iterator<Item = &'a Metric>,
) {
    conclude(findings, Direction::Up, reports.near);
    conclude(findings, Direction::Down, reports.far);
    let both: Vec<EndpointReport> = reports.near.iter().chain(reports.far).cloned().collect();
    findings.metrics = joined(&both, metrics);
}

/// Decides by the schedules in `findings` whether the trial is valid, how late sends were, and the largest effect of
/// that on figures. The share of messages missed for want of CPU time is known and widens the intervals; only a trial
/// with too large a share is invalid.
pub(super) fn judge(findings: &mut Measurements) {
    let counts: [fn(&Pacing) -> u64; 3] =
        [|one| one.slots, |one| one.missed_no_time, |one| one.late];
    let [slots, missed, late] =
        counts.map(|of| total(findings.paced.iter().map(|flow| of(&flow.pacing))));
    let share = |count: u64| count as f64 / slots as f64;
    findings.late_effect = Some(-(1.0 - share(missed)).ln()).filter(|effect| effect.is_finite());
    findings.why_invalid = (share(missed) > MOST_MISSED || share(late) > MOST_LATE).then(|| {
        format!(
            "the generator was late: of {slots} messages {missed} were due while it did not run ({:.0} % allowed), and \
             {late} left late ({:.0} % allowed); lower the rate or give it a CPU of its own",
            MOST_MISSED * 100.0,
            MOST_LATE * 100.0
        )
    });
    let lateness = findings.paced.iter().map(|flow| &flow.pacing.lateness_ns);
    findings.send_lateness_ns = lateness.max_by_key(|late| late.max).cloned();
}
