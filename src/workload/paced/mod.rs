//! One-way messages on a grid of times that is fixed at the start: what `cbr`, `streams` and `state` have in
//! common. A workload brings a [`Measure`], which says what it makes of each arrival.

use crate::contract::Direction;
use crate::figures::{Metric, Metrics, PacedFlow, Pacing};
use crate::time::Nanos;

use super::{Findings, HalfReport, MOST_LATE, header};

mod receiver;
mod schedule;
mod sender;
mod task;

pub(super) use receiver::{Measure, Receiver};
pub(super) use schedule::{Period, Schedule};
pub(super) use sender::Sender;
pub(super) use task::{LOST, Pace, Paced, Work};

/// Bytes that a message with the time of sending has at least: the header and 64 bits.
pub(super) const STAMPED_LEN: usize = header::LEN + 8;

/// How long what is under way may take after the last send: a reliable transport sends its queue
/// however slow the path is.
pub(super) const DRAIN: Nanos = Nanos::from_secs(30);

/// Writes when a message was due, on its sender's monotonic clock, where there is room for it.
fn write_stamp(message: &mut [u8], due: Nanos) {
    if let Some(room) = message.get_mut(header::LEN..STAMPED_LEN) {
        room.copy_from_slice(&due.0.to_be_bytes());
    }
}

/// Reads what [`write_stamp`] wrote, of a message that may be anything.
pub(super) fn read_stamp(message: &[u8]) -> Option<Nanos> {
    let (stamp, _) = message.get(header::LEN..)?.split_first_chunk::<8>()?;
    Some(Nanos(u64::from_be_bytes(*stamp)))
}

/// The largest share of messages that may be missed for want of CPU time in a trial that counts.
const MOST_MISSED: f64 = 0.09;

/// Whether the load was offered as asked, as far as that was the senders' to do: why the trial does not
/// count where it was not. A message that was missed for want of CPU time takes its share of the figures
/// with it, which is known and is carried into the intervals ([`late_effect`]); only a trial that is made
/// of it does not count.
fn why_invalid<'a>(pacings: impl Iterator<Item = &'a Pacing>) -> Option<String> {
    let [mut slots, mut missed, mut late] = [0u64; 3];
    for pacing in pacings {
        slots += pacing.slots;
        missed += pacing.missed_no_time;
        late += pacing.late;
    }
    let is_over = |count: u64, most: f64| count as f64 > most * slots as f64;
    (is_over(missed, MOST_MISSED) || is_over(late, MOST_LATE)).then(|| {
        format!(
            "the generator was late: of {slots} messages {missed} were due while it did not run, and {late} \
             left late ({:.0} and {:.0} % allowed); lower the rate or give it a CPU of its own",
            MOST_MISSED * 100.0,
            MOST_LATE * 100.0
        )
    })
}

/// The figures of all receivers as those of the trial: of several flows, their mean by the messages of each.
fn joined<'a>(receivers: &[HalfReport], metrics: impl Iterator<Item = &'a Metric>) -> Metrics {
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

/// Adds what became of the schedules of a direction's senders, and whether they make a trial.
fn conclude(findings: &mut Findings, direction: Direction, senders: &[HalfReport]) {
    let pacings = senders.iter().filter_map(|sender| sender.pacing.clone());
    let flow = |pacing| PacedFlow { direction, pacing, delay_variation_ns: None };
    findings.paced.extend(pacings.map(flow));
    judge(findings);
}

/// Says whether the schedules that are in `findings` make a trial, and how late they were.
pub(super) fn judge(findings: &mut Findings) {
    let pacings = || findings.paced.iter().map(|flow| &flow.pacing);
    let (effect, why) = (late_effect(pacings()), why_invalid(pacings()));
    let lateness = pacings().map(|pacing| &pacing.lateness_ns).max_by_key(|late| late.max);
    findings.send_lateness_ns = lateness.cloned();
    (findings.late_effect, findings.why_invalid) = (effect, why);
}

/// What missing messages for want of CPU time did to figures at most, as the logarithm of a ratio.
fn late_effect<'a>(pacings: impl Iterator<Item = &'a Pacing>) -> Option<f64> {
    let [mut slots, mut missed] = [0u64; 2];
    for pacing in pacings {
        slots += pacing.slots;
        missed += pacing.missed_no_time;
    }
    Some(-(1.0 - missed as f64 / slots as f64).ln()).filter(|effect| effect.is_finite())
}
