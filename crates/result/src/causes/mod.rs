//! Causes: what held a contender back, from the signs that its trials show. Data and pure functions: a table of causes,
//! each with the signs that prove it and the signs that exclude it. Sentences are the report's.
//!
//! | file | purpose |
//! |---|---|
//! | [`signs`] | signs of one trial in one direction |
//! | [`record`] | signs from the record of a usual trial, and causes of its load |
//! | [`table`] | causes, each with its proof |
//! | [`judge`] | causes of a trial, and of a contender's trials |
//! | [`race`] | causes of a race's contenders, and the cause that makes the difference between two |

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use deadheat_base::unset::is_unset;
use deadheat_contract::contract::Direction;

pub mod judge;
pub mod race;
pub mod record;
pub mod signs;
pub mod table;

/// Cause that holds a contender back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Other programs, no part of the trial, used the CPU.
    OtherPrograms,
    /// Both ends share a CPU, which was never idle.
    OneCpu,
    /// CPU of the sender: its thread, or other work of its CPU for the transfer.
    SenderCpu,
    /// CPU of the receiver, likewise.
    ReceiverCpu,
    /// Receiver's socket without room for bursts, on a CPU with time left.
    ReceiverSocket,
    /// Receive window: room in the receiver's kernel.
    ReceiveWindow,
    /// Send buffer: room in the sender's socket.
    SendBuffer,
    /// Window of the sender's library, or the flow control of its peer, in user space.
    LibraryWindow,
    /// Window of a sender that is not ours: a constant number of bytes in each round trip, and then a silence.
    PeerWindow,
    /// Program of the sender, which had nothing to send.
    SenderProgram,
    /// Retransmission timeouts.
    Timeouts,
    /// Greatest rate that is set for the sender's connection (`pace=`).
    Pacing,
    /// Congestion window after losses or marks.
    CongestionWindow,
    /// Start: the congestion window was still growing when the transfer ended.
    SlowStart,
    /// Rate of the path: a queue stood at its bottleneck.
    PathRate,
    /// Bytes that the path carried beside the data: headers and retransmissions.
    Overhead,
    /// Losses on the path, of messages that are not sent again.
    PathLoss,
    /// Outage: nothing arrived at all for a while.
    Outage,
    /// Nagle's algorithm: small messages that wait until earlier ones are acknowledged (RFC 896).
    Nagle,
    /// Queue that messages wait in on the path.
    Queue,
    /// Messages that wait for a retransmission, and messages that wait behind these.
    Retransmission,
    /// Round trips of the handshake.
    Handshake,
    /// Delay of the path itself, without a queue.
    PathDelay,
    /// Program at the far end, which took its time before it answered.
    FarProgram,
    /// Wake-up of a program that slept until the message arrived.
    WakeUp,
}

/// Trials from which a cause is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignSource {
    /// Usual trials of the race.
    #[default]
    Trials,
    /// Trials of the instrumented pass, whose figures are in no verdict.
    Pass,
}

/// Cause that signs prove.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// Direction of the data, of work with two.
    pub direction: Option<Direction>,
    /// Trials from which it is known.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub source: SignSource,
    /// Number of trials that prove it.
    pub trials: u64,
    /// Number of trials with signs.
    pub of: u64,
    /// Share of the time in which it held the contender back: the median over those trials. For lost messages their
    /// share.
    pub share: f64,
    /// Figures of the trial with the median share.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub evidence: Evidence,
    /// Race in which it was tested (`--why`); absent if it was not.
    pub test: Option<CauseTest>,
}

/// Test of a cause: a race of the contender against itself with one setting changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseTest {
    /// Setting: `rcvbuf=8MB`.
    pub change: String,
    /// Result for the cause.
    pub result: TestOutcome,
    /// Ratio of the figure with the change to the figure without it; absent if it is not known.
    pub ratio: Option<f64>,
}

/// Result of a test for its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// The change helped.
    Confirmed,
    /// It did not help.
    Withdrawn,
    /// It is not known.
    Open,
}

/// Figures that prove a cause; each is present where it is part of the proof.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Bytes that went out, or may go out, in one round trip; or all bytes of a short transfer.
    pub bytes: Option<u64>,
    /// Round trip, in nanoseconds.
    pub rtt_ns: Option<u64>,
    /// Round trips that it took.
    pub round_trips: Option<f64>,
    /// Rate, in bits per second.
    pub rate_bps: Option<f64>,
    /// Share of packets that were lost, sent again, or dropped.
    pub lost_share: Option<f64>,
    /// Share of the time in which the other end's thread ran.
    pub other_ran: Option<f64>,
    /// Share of the time in which the CPU was busy with interrupts.
    pub interrupts: Option<f64>,
    /// Time of the cause, in nanoseconds.
    pub time_ns: Option<u64>,
    /// True if a load of the race ran beside the work.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub beside_load: bool,
}

/// Causes of one contender, the largest first. None: not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ContenderCauses {
    /// The contender's id.
    pub contender: usize,
    /// Causes that its trials prove.
    pub findings: Vec<Finding>,
}

#[cfg(test)]
mod tests;
