//! Signs of one trial in one direction: one plain struct, filled from what usual trials record and from the instrumented
//! pass alike.

use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::rounds::Rounds;

use super::SignSource;

/// Work of a trial, as far as causes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkKind {
    /// As much data as goes through.
    #[default]
    Bulk,
    /// Messages, whose times count.
    Messages,
    /// Messages, of which some may be lost.
    Losses,
    /// Connections, whose set-up counts.
    Connections,
}

/// Signs of one trial in one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signs {
    /// Trials that they are from.
    pub source: SignSource,
    /// Work of the trial.
    pub work: WorkKind,
    /// Direction of the data; `None` for messages both ways.
    pub direction: Option<Direction>,
    /// Time of the flow, in nanoseconds.
    pub span_ns: u64,
    /// Application bytes that arrived.
    pub bytes: u64,
    /// Goodput, in bits per second.
    pub goodput_bps: f64,
    /// The sender, if it is ours.
    pub sender: Option<EndSigns>,
    /// The receiver, if it is ours.
    pub receiver: Option<EndSigns>,
    /// True if both ends run on the same CPU.
    pub is_cpu_shared: bool,
    /// State of the sender's protocol, if it is ours and reports one.
    pub protocol: Option<ProtocolSigns>,
    /// Bursts at a receiver of ours.
    pub rounds: Option<Rounds>,
    /// Emulated path in the direction of the data.
    pub path: Option<PathSigns>,
    /// Share of messages that found no room in the receiver's socket.
    pub dropped: f64,
    /// Share of messages that were lost on the path.
    pub lost: f64,
    /// Share of the time in outages.
    pub out: f64,
    /// Claimed time of a message, in nanoseconds, and its parts.
    pub messages: Option<MessageSigns>,
}

/// Work of one end, as shares of the transfer's time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EndSigns {
    /// Share of time in which its thread ran on a CPU.
    pub ran: f64,
    /// Share of time in which its CPU was busy with any work, interrupts included; `None` if unknown.
    pub busy: Option<f64>,
    /// Share of time that this CPU spent in interrupts and soft interrupts.
    pub interrupts: f64,
}

/// State of the sender's protocol over a flow, as shares of the flow's time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProtocolSigns {
    /// True if it is the kernel's, which knows when the program gives it nothing.
    pub is_kernel: bool,
    /// Share of the time with data to send, or unacknowledged data.
    pub busy: f64,
    /// Share of the time in which the peer's receive window was the limit.
    pub rwnd_limited: f64,
    /// Share of the time in which its own send buffer was the limit.
    pub sndbuf_limited: f64,
    /// Share of the time in which the window of a library in user space was the limit.
    pub library_limited: f64,
    /// Share of the time in which data was acknowledged at the rate that is set for its connection.
    pub at_pace: f64,
    /// Greatest rate of a connection, in bits per second as IP packets; `None` without one.
    pub pace_bps: Option<f64>,
    /// Share of the time in recovery after a retransmission timeout.
    pub timeouts: f64,
    /// Share of the time in which its round trip showed a standing queue; `None` if it measures none.
    pub queued: Option<f64>,
    /// True if it never left slow start.
    pub is_starting: bool,
    /// Share of its segments that were sent again.
    pub resent: f64,
    /// True if it took a loss or a mark as congestion, or sent a segment again.
    pub is_congested: bool,
    /// Median of its congestion window, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Peer's receive window at the end, in bytes.
    pub peer_window_bytes: Option<u64>,
    /// Median of its smoothed round trip, in nanoseconds.
    pub srtt_ns: Option<u64>,
    /// Least round trip, in nanoseconds.
    pub min_rtt_ns: Option<u64>,
}

impl ProtocolSigns {
    /// Returns the share of the time in which no window and no buffer was the limit, and data was under way.
    pub fn by_network(&self) -> f64 {
        let held = self.rwnd_limited + self.sndbuf_limited + self.library_limited;
        (self.busy - held).max(0.0)
    }
}

/// Emulated path in one direction, by its own account.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathSigns {
    /// Share of the time in which packets waited for the rate of the busiest link.
    pub busy: f64,
    /// Rate of that link, in bits per second.
    pub rate_bps: Option<f64>,
    /// Bytes that left that link, as IP packets.
    pub carried_bytes: u64,
    /// Share of packets that the loss model dropped, or that came while a link was down.
    pub lost: f64,
    /// Share of packets that found a queue full, or that the queue dropped to stay short.
    pub overflowed: f64,
}

/// Times of messages, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MessageSigns {
    /// Claimed time of the trial.
    pub claimed_ns: f64,
    /// Least time of a message.
    pub least_ns: Option<f64>,
    /// Median time of a message.
    pub median_ns: Option<f64>,
    /// Least round trip that the path allows.
    pub path_rtt_ns: Option<f64>,
    /// Median time that packets waited in the queues of the path, both ways.
    pub queued_ns: f64,
    /// True if small messages may wait until earlier ones are acknowledged (Nagle's algorithm).
    pub waits_for_acks: bool,
    /// Segments that were sent again, for each message.
    pub resent: f64,
    /// True if a load ran beside the work.
    pub is_beside_load: bool,
    /// Parts of the round trip, from the instrumented pass: the far program, and the wake-ups of both.
    pub far_program_ns: f64,
    /// Time until both programs woke up.
    pub wake_up_ns: f64,
}
