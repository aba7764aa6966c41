//! Warnings in words: the observation and the advice, under a stable code.

use super::black_hole::FarPathNotice;
use super::causes::{self, EndPlacement, GateCause, ValueOrigin};
use super::exclusions::UnequalLosses;
use super::far_end::FarEndNotice;
use super::host_notice::HostNotice;
use super::library_limits::{LIBRARY_ADVICE, LibraryLimit};
use super::loss_words::{fragmented, receive_buffer, send_queue};
use super::losses::Losses;
use super::nat::{self, ForgottenFlow};
use super::order::{self, OrderEffect};
use super::own_state::{self, OwnState};
use super::pauses::Pauses;
use super::rewritten::{self, RewrittenDscp};
use crate::dropped::DropReason;
use crate::outcome::{
    GATE_FAILED, RACE_FAILED, UNTRUSTED_EXCLUSIONS, UNTRUSTED_GATE, UNTRUSTED_STATE, Warning,
};
use deadheat_base::figures::{percent, times};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Side;

/// Share of trials that may fail their gate before the race is not trusted.
const MOST_GATE_FAILURES: f64 = 0.2;

/// Notice about a race.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A contender's trials fall into two clusters.
    TwoRegimes {
        /// The contender's label.
        label: String,
        /// The metric's label.
        metric: String,
        /// Ratio of the upper centre to the lower: 1.4 for 40 %.
        ratio: f64,
        /// Share of trials in the upper cluster.
        share: f64,
        /// Place of the ends.
        ends: EndPlacement,
    },
    /// Problem of the host.
    Host(HostNotice),
    /// Gate failures: trials that failed their gate, and were repeated.
    GateFailures {
        /// Number of failed trials.
        failed: usize,
        /// Number of trials in all.
        trials: usize,
        /// Reason given by the first of them.
        why: String,
        /// Number of these failures caused by the path, and not by an end.
        of_path: usize,
        /// Cause of the first of them.
        cause: GateCause,
    },
    /// Gates excluded more trials of one contender than of another.
    ExclusionsDiffer {
        /// The two contenders.
        who: UnequalLosses,
        /// True if a verdict would differ without the exclusions.
        decides: bool,
    },
    /// The position of a trial in its block affects its figure.
    OrderEffect(OrderEffect),
    /// A contender stays in a state of its own over several blocks.
    OwnState(OwnState),
    /// More messages were lost on the way than the emulated path lost packets.
    LostOutsidePath {
        /// The contender's label.
        label: String,
        /// Number of messages that were lost on the way.
        lost: u64,
        /// Number of packets that the path lost, damaged or still holds, by its own account.
        accounted: u64,
    },
    /// An emulated path was given more than it could carry.
    PathOverrun {
        /// Number of packets lost outside its model.
        packets: u64,
        /// Number of trials in which that happened.
        trials: usize,
    },
    /// The path's own seed repeats its random impairments in every block.
    DrawsRepeat {
        /// The seed.
        seed: u64,
    },
    /// Path to a far host on which large packets vanish, or which was not probed.
    FarPath(FarPathNotice),
    /// Fragmentation of messages, with losses by it and by the receive buffer.
    Fragmented(Losses),
    /// A receiver's socket had no room for messages.
    ReceiveBuffer(Losses),
    /// The sending host's queue had no room for messages.
    SendQueue(Losses),
    /// Losses on loopback, where only a full buffer loses messages.
    LoopbackLoss {
        /// Labels of the affected contenders.
        labels: Vec<String>,
        /// Number of lost messages.
        lost: u64,
    },
    /// The planned blocks cannot decide all claims.
    BudgetTooSmall {
        /// Number of planned blocks.
        blocks: u64,
        /// Minimum number of blocks needed.
        fewest: u64,
        /// True if the number of blocks was requested; false if the time limit gave it.
        is_by_blocks: bool,
    },
    /// Single contender, without another to compare it with.
    SingleContender {
        /// The contender's label.
        label: String,
    },
    /// The machine is so noisy that the margin was raised.
    MarginWidened {
        /// New margin, as a fraction.
        margin: f64,
        /// Reason for the margin.
        reason: String,
    },
    /// A claimed figure falls among lost messages.
    Censored {
        /// The contender's label.
        label: String,
        /// The metric's label.
        metric: String,
        /// True if answers came late, false if none did.
        came_late: bool,
    },
    /// Option in force that is not the requested one.
    NotAsAsked {
        /// The contender's label.
        label: String,
        /// The option.
        option: String,
        /// Requested value.
        asked: String,
        /// Value in force, with the reason in brackets if known.
        effective: String,
        /// End at which it is in force.
        end: Side,
        /// Origin of the requested value.
        origin: ValueOrigin,
    },
    /// An option differed between trials or flows of a contender.
    SettingChanged {
        /// The contender's label.
        label: String,
        /// The option.
        option: String,
        /// Affected end: `near` or `far`.
        end: &'static str,
        /// First value.
        from: String,
        /// Value in another trial or flow.
        to: String,
    },
    /// Losses after pauses that a NAT may not outlast.
    NatForgot(ForgottenFlow),
    /// DSCP that something on the way rewrote.
    DscpRewritten(RewrittenDscp),
    /// Ledgers that do not close.
    LedgerOpen {
        /// Number of affected trials.
        trials: usize,
        /// Reason given by the first of them.
        why: String,
    },
    /// A contender fell back from its preferred transport.
    FellBack {
        /// Label of the contender.
        label: String,
        /// Transport to which it fell back.
        to: String,
        /// Number of affected trials.
        trials: usize,
        /// Number of its trials.
        of: usize,
        /// Number of affected trials that fell back at the start.
        at_start: usize,
        /// Median time until the fallback.
        took: Nanos,
    },
    /// A contender's own library limited it for most of the time.
    LibraryLimit(LibraryLimit),
    /// A contender dropped out.
    Dropped {
        /// Label of the contender.
        label: String,
        /// Reason, with the evidence.
        why: DropReason,
    },
    /// A trial failed twice, and ended the race.
    TrialFailed {
        /// Error of the trial.
        error: String,
    },
    /// The race ended, because trials of all contenders but one at most fail their gate.
    RaceFailed {
        /// Reason, with the contenders and the numbers of trials.
        why: String,
        /// Cause of the most frequent failure.
        cause: GateCause,
    },
    /// The far end was away for a while, was another one afterwards, or did not come back.
    FarEnd(FarEndNotice),
    /// The race could not be saved, and ended.
    SaveFailed {
        /// Error of the save.
        error: String,
    },
    /// The race continued after its whole error was spent.
    ResumedAfterLastLook {
        /// Number of blocks at that time.
        blocks: u64,
        /// Upper bound on the probability of a false verdict now.
        error: f64,
    },
    /// The race continued on another host.
    ResumedElsewhere {
        /// First host.
        from: String,
        /// Second host.
        to: String,
    },
    /// A person paused the race between blocks.
    Paused(Pauses),
}

const EXCLUSIONS_ADVICE: &str = "race again when host and path are quieter; with --details the verdicts on \
                                 all trials stand beside the others";

const LOOPBACK_ADVICE: &str =
    "raise the receive buffer (rcvbuf, net.core.rmem_max) or lower the rate";

fn exclusions_differ(UnequalLosses { more, less }: &UnequalLosses, decides: bool) -> String {
    let then = if decides {
        "counted with them, a verdict changes"
    } else {
        "counted with them, the verdicts are the same"
    };
    format!(
        "gates excluded {} of {} trials of {} and {} of {} of {}; {then}",
        more.failed, more.trials, more.label, less.failed, less.trials, less.label
    )
}

fn ledger_open(trials: usize, why: &str) -> String {
    format!("the ledger does not close in {trials} trials; the first: {why}")
}

fn lost_on_loopback(labels: &[String], lost: u64) -> String {
    let labels = labels.join(", ");
    format!("{lost} messages of {labels} were lost on loopback, where only full buffers lose any")
}

fn path_overrun(packets: u64, trials: usize) -> String {
    format!(
        "{packets} packets were lost in the emulated path's devices and rings in {trials} trials, \
         which do not count: this host could not move the offered load"
    )
}

const DRAWS_REPEAT_ADVICE: &str =
    "leave seed= out of the path, so that each block has its own; --seed repeats the whole race";

fn draws_repeat(seed: u64) -> String {
    format!(
        "seed={seed} in the path repeats the same losses and delays in every block: verdicts and intervals \
         hold for these alone"
    )
}

impl Notice {
    /// Returns the stable code of the notice.
    pub fn code(&self) -> &'static str {
        match self {
            Notice::TwoRegimes { .. } => "two_regimes",
            Notice::Host(notice) => notice.code(),
            Notice::GateFailures { failed, trials, .. } => {
                if *failed as f64 > MOST_GATE_FAILURES * *trials as f64 {
                    UNTRUSTED_GATE
                } else {
                    GATE_FAILED
                }
            }
            Notice::ExclusionsDiffer { decides: true, .. } => UNTRUSTED_EXCLUSIONS,
            Notice::ExclusionsDiffer { decides: false, .. } => "exclusions_differ",
            Notice::OrderEffect(_) => "order_effect",
            Notice::OwnState(_) => UNTRUSTED_STATE,
            Notice::LostOutsidePath { .. } => "lost_outside_path",
            Notice::PathOverrun { .. } => "path_overrun",
            Notice::DrawsRepeat { .. } => "draws_repeat",
            Notice::FarPath(notice) => notice.code(),
            Notice::Fragmented(_) => "fragmented",
            Notice::ReceiveBuffer(_) => "receive_buffer",
            Notice::SendQueue(_) => "send_queue",
            Notice::LoopbackLoss { .. } => "loss_on_loopback",
            Notice::BudgetTooSmall { .. } => "budget_too_small",
            Notice::SingleContender { .. } => "single_contender",
            Notice::MarginWidened { .. } => "margin_widened",
            Notice::Censored { .. } => "censored_percentile",
            Notice::NotAsAsked { .. } => "not_as_asked",
            Notice::SettingChanged { .. } => "setting_changed",
            Notice::NatForgot(_) => "nat_forgot",
            Notice::DscpRewritten(_) => "dscp_rewritten",
            Notice::LedgerOpen { .. } => "ledger_open",
            Notice::FellBack { .. } => "fell_back",
            Notice::LibraryLimit(_) => "library_limit",
            Notice::Dropped { why, .. } => why.word(),
            Notice::TrialFailed { .. } => "trial_failed",
            Notice::RaceFailed { .. } => RACE_FAILED,
            Notice::FarEnd(notice) => notice.code(),
            Notice::SaveFailed { .. } => "save_failed",
            Notice::ResumedAfterLastLook { .. } => "resumed_after_last_look",
            Notice::ResumedElsewhere { .. } => "resumed_elsewhere",
            Notice::Paused(_) => "paused",
        }
    }

    /// Returns the notice as a warning of a result.
    pub fn warning(&self) -> Warning {
        Warning {
            code: self.code().to_owned(),
            message: self.message(),
            advice: self.advice().to_owned(),
        }
    }

    fn message(&self) -> String {
        match self {
            Notice::TwoRegimes { label, metric, ratio, share, .. } => format!(
                "{label} has two regimes: in {} of its trials {metric} is {} times as high as in the others",
                percent(*share),
                times(*ratio)
            ),
            Notice::Host(notice) => notice.message(),
            Notice::GateFailures { failed, trials, why, of_path, .. } => {
                let path = of_path_words(*of_path, *failed);
                format!("{failed} of {trials} trials failed their gate{path}; the first: {why}")
            }
            Notice::LostOutsidePath { label, lost, accounted } => format!(
                "{lost} messages of {label} were lost on the way, and the path knows of {accounted} \
                 packets that did not arrive as they were sent"
            ),
            Notice::PathOverrun { packets, trials } => path_overrun(*packets, *trials),
            Notice::DrawsRepeat { seed } => draws_repeat(*seed),
            Notice::FarPath(notice) => notice.to_string(),
            Notice::Fragmented(losses) => fragmented(losses),
            Notice::ReceiveBuffer(losses) => receive_buffer(losses),
            Notice::SendQueue(losses) => send_queue(losses),
            Notice::ExclusionsDiffer { who, decides } => exclusions_differ(who, *decides),
            Notice::OrderEffect(effect) => effect.to_string(),
            Notice::OwnState(state) => state.words(),
            Notice::LoopbackLoss { labels, lost } => lost_on_loopback(labels, *lost),
            Notice::BudgetTooSmall { blocks, fewest, .. } => format!(
                "blocks planned: {blocks}; {fewest} are the fewest that can decide all \
                 claims, so some must stay undecided"
            ),
            Notice::SingleContender { label } => format!(
                "{label} raced alone, so there is no verdict; its hidden copy ran beside it"
            ),
            Notice::MarginWidened { margin, reason } => {
                format!("margin widened: {} ({reason}), by the rule of its time", percent(*margin))
            }
            Notice::LibraryLimit(limit) => limit.to_string(),
            Notice::Censored { label, metric, .. } => format!(
                "{metric} of {label} falls among messages without an answer in time: it is at least the timeout"
            ),
            Notice::NotAsAsked { label, option, asked, effective, end, origin } => {
                let said = origin.message(label, option, asked, effective);
                format!("{}{said}", causes::of_far(*end, "at the far end "))
            }
            Notice::SettingChanged { label, option, end, from, to } => format!(
                "{option} of {label} changed during the race: at the {end} end it was {from} at first \
                 and {to} later"
            ),
            Notice::NatForgot(forgotten) => forgotten.to_string(),
            Notice::DscpRewritten(rewritten) => rewritten.to_string(),
            Notice::LedgerOpen { trials, why } => ledger_open(*trials, why),
            Notice::FellBack { label, to, trials, of, at_start, took } => format!(
                "{label} fell back on {to} in {trials} of {of} trials, in {at_start} of them at the start; it took \
                 {took} (median)"
            ),
            Notice::Dropped { label, why } => why.sentence(label),
            Notice::TrialFailed { error } => format!("a trial failed twice: {error}"),
            Notice::RaceFailed { why, .. } => why.clone(),
            Notice::FarEnd(notice) => notice.message(),
            Notice::SaveFailed { error } => format!("the race could not be saved: {error}"),
            Notice::ResumedAfterLastLook { blocks, error } => format!(
                "the race was resumed after its last look at {blocks} blocks; the chance of a \
                 false verdict is up to {}",
                percent(*error)
            ),
            Notice::ResumedElsewhere { from, to } => {
                format!("the race began on {from} and went on on {to}")
            }
            Notice::Paused(pauses) => pauses.message(),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Notice::TwoRegimes { ends, .. } => ends.on_regimes(),
            Notice::ExclusionsDiffer { .. } => EXCLUSIONS_ADVICE,
            Notice::OrderEffect(_) => order::ADVICE,
            Notice::OwnState(_) => own_state::ADVICE,
            Notice::Host(notice) => notice.advice(),
            Notice::GateFailures { cause, .. } | Notice::RaceFailed { cause, .. } => cause.advice(),
            Notice::LostOutsidePath { .. } => {
                "the loss is not the path's: a transport that gives up on messages in time (a lifetime, \
                 a full queue of its own) does not send them; where it gives up on none, look at the \
                 hosts' queues and buffers"
            }
            Notice::PathOverrun { .. } => {
                "offer less (a paced workload, a lower rate), or race on a host with more CPUs"
            }
            Notice::DrawsRepeat { .. } => DRAWS_REPEAT_ADVICE,
            Notice::FarPath(notice) => notice.advice(),
            Notice::Fragmented(_) => {
                "send messages that fit the path MTU; where the receive buffer lost some, raise it, \
                 too (rcvbuf, net.core.rmem_max on the receiving host)"
            }
            Notice::ReceiveBuffer(_) => {
                "raise the receive buffer (rcvbuf, and net.core.rmem_max on the receiving host where \
                 that holds it down), or lower the rate"
            }
            Notice::SendQueue(_) => {
                "lower the rate to that of the first link: a sender without congestion control only fills its own queue"
            }
            Notice::LoopbackLoss { .. } => LOOPBACK_ADVICE,
            Notice::BudgetTooSmall { is_by_blocks: true, .. } => {
                "raise --blocks, or race fewer contenders"
            }
            Notice::BudgetTooSmall { is_by_blocks: false, .. } => {
                "raise --budget, shorten the workload, or race fewer contenders"
            }
            Notice::SingleContender { .. } => "name a second contender to have a verdict",
            Notice::MarginWidened { .. } => {
                "race again: the margin is 5 % or what --margin says, and no longer grows"
            }
            Notice::Censored { came_late: true, .. } => {
                "read the loss in the ledger first; a longer timeout shows the tail"
            }
            Notice::Censored { .. } => {
                "read the loss in the ledger first; a longer timeout would show no more, as nothing came late"
            }
            Notice::NotAsAsked { effective, end, .. } => causes::on_option(*end, effective),
            Notice::SettingChanged { .. } => {
                "find what changes it on that host (sysctl, a route, a tuning daemon), and race again"
            }
            Notice::NatForgot(_) => nat::ADVICE,
            Notice::DscpRewritten(_) => rewritten::ADVICE,
            Notice::LedgerOpen { .. } => {
                "do not rely on the loss figures of these trials; the ledger says why"
            }
            Notice::FellBack { .. } => "figures are of both; losses until then are in the ledger",
            Notice::LibraryLimit(_) => LIBRARY_ADVICE,
            Notice::Dropped { why, .. } => why.advice(),
            Notice::TrialFailed { .. } => {
                "remove the cause that the message names; the blocks done are kept and can be resumed"
            }
            Notice::FarEnd(notice) => notice.advice(),
            Notice::SaveFailed { .. } => {
                "free space or choose another file with -o; the last saved state is intact"
            }
            Notice::ResumedAfterLastLook { .. } => {
                "for the full confidence run a new race with more --blocks or --budget"
            }
            Notice::ResumedElsewhere { .. } => "run the race anew on one host",
            Notice::Paused(_) => {
                "each block is whole, and the time is in no figure and not in the budget; run the race anew if the host changed meanwhile"
            }
        }
    }
}

/// Returns the number of failures caused by the path, in words.
fn of_path_words(of_path: usize, failed: usize) -> String {
    match of_path {
        0 => String::new(),
        all if all == failed => ", all for the path".to_owned(),
        some => format!(", {some} of them for the path"),
    }
}
