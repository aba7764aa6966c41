//! The figures of a trial: distributions, the ledger, metrics and cost. Plain data with its JSON form; integers in
//! nanoseconds, bytes and bits per second; units last in names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::contract::Direction;
use deadheat_base::unset::is_unset;

pub use deadheat_base::distribution::{Distribution, Quantile};
pub use deadheat_base::moments;
pub use deadheat_path::measurements as path;
pub use deadheat_stats::Better;

mod amounts;
pub mod clock;
pub mod congestion;
mod content;
mod fallback;
pub mod far_view;
pub mod name;
mod outage;
pub mod path_mtu;
pub mod rounds;
pub mod scale;
pub mod series;
mod throttled;
mod view;

pub use crate::measurements::amounts::{Allocations, Marks, Wire, total};
pub use crate::measurements::clock::{ClockEstimate, ClockNeed, ClockSource};
pub use crate::measurements::content::{ContentState, Verified};
pub use crate::measurements::fallback::{Fallback, FallbackCause};
pub use crate::measurements::far_view::FarView;
pub use crate::measurements::name::{MetricName, Percentile, Phase, Suffix};
pub use crate::measurements::outage::{FEWEST_IN_OUTAGE, MOST_OUTAGES, Outage, SHORTEST_OUTAGE};
pub use crate::measurements::throttled::Throttled;
pub use crate::measurements::view::TcpView;

/// Options actually in force on a connection, as the kernel or library reports them: name to value.
pub type Effective = BTreeMap<String, String>;

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Bits per second.
    BitRate,
    /// A fraction from 0 to 1.
    Share,
    /// A plain number: of messages, of round trips per minute, or a ratio.
    Count,
}

/// Use of a metric in a race: for verdicts, or for description only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The race gives verdicts, and stops when it has all of them.
    Claim,
    /// The race gives an estimate, and no verdict.
    Descriptive,
}

/// Figure by which contenders are compared, one value per trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The name in results, unit last: `rtt_p50_ns`.
    pub name: String,
    /// The name for people: `RTT p50`.
    pub label: String,
    /// Unit of its values.
    pub unit: Unit,
    /// Direction of better values.
    pub better: Better,
    /// Use of the metric: with verdicts, or only described.
    pub role: Role,
    /// Clock that its values need.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub clock: ClockNeed,
}

/// The figures of one trial by metric name.
///
/// A metric is absent if the trial cannot know it. A latency percentile that falls among lost samples is stored as the
/// timeout, its lower bound, and listed in `censored`.
pub type Metrics = BTreeMap<String, f64>;

/// Counters of one end for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Messages (or, for byte streams, 0).
    pub messages: u64,
    /// Application bytes.
    pub bytes: u64,
    /// Copies of messages that arrived before.
    pub duplicates: u64,
    /// Messages that arrived after the timeout.
    pub late: u64,
    /// Messages that arrived after one with a higher sequence number (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// Messages with content other than sent.
    pub corrupted: u64,
    /// Messages that belong to no trial or another one.
    pub foreign: u64,
}

/// Account of one direction: `sent = delivered + lost_on_path + dropped_at_receiver`, in messages, or in bytes for byte
/// streams, which never lose bytes silently.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// Unit of the account: `messages` or `bytes`.
    pub unit: String,
    /// Amount handed to its transport by the sender.
    pub sent: u64,
    /// Amount delivered to the receiver, each counted once.
    pub delivered: u64,
    /// Amount lost between the two hosts' sockets.
    pub lost_on_path: u64,
    /// Amount dropped because the receiver's socket buffer was full; absent if unknown, and part of `lost_on_path` then.
    pub dropped_at_receiver: Option<u64>,
    /// Amount received again; absent if the receiver does not say, as the next three.
    pub duplicates: Option<u64>,
    /// Amount received after the timeout (part of `delivered`).
    pub late: Option<u64>,
    /// Amount received out of order (part of `delivered`).
    pub reordered: Option<u64>,
    /// Amount received damaged (part of `delivered`).
    pub corrupted: Option<u64>,
    /// Reason why the account does not close; absent if it does.
    pub open_because: Option<String>,
}

impl Account {
    /// Account of a receiver that counts everything, and counted nothing yet.
    pub const COUNTED: Account = Account {
        unit: String::new(),
        sent: 0,
        delivered: 0,
        lost_on_path: 0,
        dropped_at_receiver: Some(0),
        duplicates: Some(0),
        late: Some(0),
        reordered: Some(0),
        corrupted: Some(0),
        open_because: None,
    };

    /// Returns the account without the counts that only a receiver has.
    pub fn without_receivers_counts(self) -> Account {
        Account {
            dropped_at_receiver: None,
            duplicates: None,
            late: None,
            reordered: None,
            corrupted: None,
            ..self
        }
    }

    /// Returns the amount that did not arrive.
    pub fn lost(&self) -> u64 {
        self.lost_on_path.saturating_add(self.dropped_at_receiver.unwrap_or(0))
    }

    /// Returns true if `sent = delivered + lost_on_path + dropped_at_receiver` holds.
    pub fn closes(&self) -> bool {
        self.open_because.is_none() && self.sent == self.delivered.saturating_add(self.lost())
    }
}

/// Accounts of both directions. A direction without a count is absent (the kernel's echo).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Near end to far end.
    pub up: Option<Account>,
    /// Far end to near end.
    pub down: Option<Account>,
    /// Both directions together, if they cannot be separated.
    pub round_trip: Option<Account>,
}

impl Ledger {
    /// Sets the account of a direction.
    pub fn set(&mut self, direction: Direction, account: Account) {
        *match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        } = Some(account);
    }

    /// Returns the account of a direction.
    pub fn toward(&self, direction: Direction) -> Option<&Account> {
        match direction {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }

    /// Returns the accounts that exist, with their names.
    pub fn accounts(&self) -> impl Iterator<Item = (&'static str, &Account)> {
        [("up", &self.up), ("down", &self.down), ("round_trip", &self.round_trip)]
            .into_iter()
            .filter_map(|(name, account)| account.as_ref().map(|account| (name, account)))
    }
}

/// Counters of one connection, as its transport knows them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnStats {
    /// Time of the transport's own handshake, in nanoseconds; 0 if it has none. The exchange of the token that proves
    /// an address does not count.
    pub connect_ns: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// System calls that received, including calls without data.
    pub receive_calls: u64,
    /// Datagrams dropped because this end's socket buffer was full; absent if unknown.
    #[serialize_always]
    pub socket_drops: Option<u64>,
    /// Segments the transport sent again; absent if unknown.
    #[serialize_always]
    pub retransmits: Option<u64>,
    /// Datagrams restored by forward error correction at this end; absent without it.
    pub recovered: Option<u64>,
    /// ECN codepoints of arrivals at this end; absent if they are not read.
    pub marks: Option<Marks>,
    /// IP packets that this end sent; absent if unknown.
    pub wire: Option<Wire>,
    /// Errors the network reported back (ICMP unreachable and the like).
    pub network_errors: u64,
    /// Size of the headers around its data; absent if there are none, inside one machine.
    pub headers: Option<Headers>,
    /// Outcome of zero-copy calls; absent if none are made.
    pub zerocopy: Option<ZeroCopy>,
    /// Fallback to the second of two transports; absent without a second one, or if none happened.
    pub fallback: Option<Fallback>,
}

impl ConnStats {
    /// Adds the counts of an earlier connection of the same flow.
    pub fn add(&mut self, earlier: &ConnStats) {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        self.connect_ns = self.connect_ns.max(earlier.connect_ns);
        self.send_calls += earlier.send_calls;
        self.receive_calls += earlier.receive_calls;
        self.network_errors += earlier.network_errors;
        self.socket_drops = both(self.socket_drops, earlier.socket_drops);
        self.retransmits = both(self.retransmits, earlier.retransmits);
        self.fallback = earlier.fallback.or(self.fallback);
        self.recovered = both(self.recovered, earlier.recovered);
        self.wire = self.wire.zip(earlier.wire).map(|(own, earlier)| own.plus(earlier));
        self.marks = self.marks.zip(earlier.marks).map(|(own, earlier)| own.plus(earlier));
        if let (Some(own), Some(earlier)) = (&mut self.zerocopy, earlier.zerocopy) {
            own.completed = own.completed.saturating_add(earlier.completed);
            own.copied = own.copied.saturating_add(earlier.copied);
        }
    }
}

/// The kernel's completion reports of calls with `MSG_ZEROCOPY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ZeroCopy {
    /// Calls that the kernel has completed; fewer than were made if the peer vanished.
    pub completed: u64,
    /// Calls in which the kernel copied the bytes after all, as on loopback.
    pub copied: u64,
}

/// Counters of the kernel's network code at one end during a trial, IPv4 and IPv6 together. For the
/// whole network namespace: other traffic counts, too. Names in parentheses are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCounters {
    /// Packets that were cut into fragments (`FragOKs`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragmented: u64,
    /// Fragments created (`FragCreates`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragments_created: u64,
    /// Packets that needed fragmentation and could not be cut (`FragFails`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragment_failures: u64,
    /// Fragments that arrived (`ReasmReqds`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragments_received: u64,
    /// Packets reassembled (`ReasmOKs`).
    #[serde(skip_serializing_if = "is_unset")]
    pub reassembled: u64,
    /// Failures of reassembly (`ReasmFails`): a fragment without room, or a packet given up.
    #[serde(skip_serializing_if = "is_unset")]
    pub reassembly_failures: u64,
    /// Packets given up because a fragment was missing, by default for 30 s (`ReasmTimeout`).
    #[serde(skip_serializing_if = "is_unset")]
    pub reassembly_timeouts: u64,
    /// Datagrams to a port without a socket (`NoPorts`).
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_no_port: u64,
    /// Datagrams that arrived and were not delivered to their socket (`InErrors`).
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_receive_errors: u64,
    /// Datagrams dropped because the socket's buffer was full (`RcvbufErrors`), part of the count above.
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_receive_buffer_errors: u64,
    /// Outgoing datagrams dropped for want of room (`SndbufErrors`).
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_send_buffer_errors: u64,
    /// TCP segments sent again (`RetransSegs`).
    #[serde(skip_serializing_if = "is_unset")]
    pub tcp_retransmits: u64,
    /// Packets dropped because a CPU's queue of arrivals was full (softnet, `netdev_max_backlog`); of the whole
    /// machine.
    #[serde(skip_serializing_if = "is_unset")]
    pub backlog_drops: u64,
}

impl HostCounters {
    /// Returns the counts since an `earlier` reading.
    pub fn since(&self, earlier: &HostCounters) -> HostCounters {
        self.with(earlier, u64::saturating_sub)
    }

    /// Returns the sums of both.
    pub fn plus(&self, other: &HostCounters) -> HostCounters {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &HostCounters, by: impl Fn(u64, u64) -> u64) -> HostCounters {
        HostCounters {
            fragmented: by(self.fragmented, other.fragmented),
            fragments_created: by(self.fragments_created, other.fragments_created),
            fragment_failures: by(self.fragment_failures, other.fragment_failures),
            fragments_received: by(self.fragments_received, other.fragments_received),
            reassembled: by(self.reassembled, other.reassembled),
            reassembly_failures: by(self.reassembly_failures, other.reassembly_failures),
            reassembly_timeouts: by(self.reassembly_timeouts, other.reassembly_timeouts),
            udp_no_port: by(self.udp_no_port, other.udp_no_port),
            udp_receive_errors: by(self.udp_receive_errors, other.udp_receive_errors),
            udp_receive_buffer_errors: by(
                self.udp_receive_buffer_errors,
                other.udp_receive_buffer_errors,
            ),
            udp_send_buffer_errors: by(self.udp_send_buffer_errors, other.udp_send_buffer_errors),
            tcp_retransmits: by(self.tcp_retransmits, other.tcp_retransmits),
            backlog_drops: by(self.backlog_drops, other.backlog_drops),
        }
    }
}

/// Packets of a trial's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Size of a message in bytes.
    pub message_bytes: u64,
    /// IP and transport headers in front of it, in bytes.
    pub header_bytes: u64,
    /// Path MTU in bytes.
    pub path_mtu: u64,
}

impl Packets {
    /// Returns the number of packets of one message: several packets are fragments (RFC 791, section 3.2; RFC 8200,
    /// section 4.5), each with an IP header of its own and a multiple of 8 bytes.
    pub fn per_message(&self) -> u64 {
        if self.message_bytes.saturating_add(self.header_bytes) <= self.path_mtu {
            return 1;
        }
        // The transport's header is 8 bytes and travels in the first fragment.
        let ip = self.header_bytes.saturating_sub(8);
        let extra = if ip >= 40 { 8 } else { 0 };
        let room = self.path_mtu.saturating_sub(ip + extra) / 8 * 8;
        self.message_bytes.saturating_add(8).div_ceil(room.max(8))
    }

    /// Returns the largest message that travels as one packet, in bytes.
    pub fn largest_whole(&self) -> u64 {
        self.path_mtu.saturating_sub(self.header_bytes)
    }
}

/// Headers around a connection's data, from the IP header on. Headers below IP differ from hop to hop and are not
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    /// The IP header: 20 bytes (RFC 791) or 40 (RFC 8200), without options.
    pub ip_bytes: u64,
    /// The transport's header in each packet (for datagrams: in the first of its fragments), with
    /// its options.
    pub transport_bytes: u64,
    /// Bytes in front of each message of a byte stream, which preserve its boundaries.
    pub framing_bytes: u64,
    /// The largest IP packet in bytes that the path takes; absent if unknown.
    pub mtu: Option<u64>,
    /// Packets with data that this end sent, without repeated ones; absent if each message is one datagram.
    pub packets: Option<u64>,
}

impl Headers {
    /// Returns the number of header bytes of `messages` messages of `size` bytes each. A datagram that does not fit
    /// `mtu` is cut into fragments, which repeat the IP header, carry multiples of 8 bytes (RFC 791), and over IPv6
    /// have a header of 8 bytes more (RFC 8200, 4.5).
    pub fn around(&self, messages: u64, size: u64) -> u64 {
        if let Some(packets) = self.packets {
            let each = self.ip_bytes.saturating_add(self.transport_bytes);
            let framing = messages.saturating_mul(self.framing_bytes);
            return packets.saturating_mul(each).saturating_add(framing);
        }
        let ip = match self.packets_of(size).map_or(1, |packets| packets.per_message()) {
            1 => self.ip_bytes,
            fragments if self.ip_bytes > 20 => {
                fragments.saturating_mul(self.ip_bytes.saturating_add(8))
            }
            fragments => fragments.saturating_mul(self.ip_bytes),
        };
        messages.saturating_mul(ip.saturating_add(self.transport_bytes))
    }

    /// Returns the packets of `messages` messages of `bytes` bytes together, each a datagram; `None` if messages are
    /// not datagrams.
    pub fn wire(&self, messages: u64, bytes: u64) -> Option<Wire> {
        if self.packets.is_some() {
            return None;
        }
        let size = bytes.checked_div(messages).unwrap_or(0);
        let each = self.packets_of(size).map_or(1, |packets| packets.per_message());
        let packets = messages.saturating_mul(each);
        Some(Wire { packets, bytes: bytes.saturating_add(self.around(messages, size)) })
    }

    /// Returns the headers of IP and transport.
    pub fn in_each_packet(&self) -> u64 {
        self.ip_bytes + self.transport_bytes
    }

    /// Returns the packets of datagrams of `size` bytes; `None` if the path MTU is unknown.
    pub fn packets_of(&self, size: u64) -> Option<Packets> {
        let header_bytes = self.in_each_packet();
        Some(Packets { message_bytes: size, header_bytes, path_mtu: self.mtu? })
    }
}

/// Outcome of the schedule of a paced sender. Every slot was sent or missed:
/// `slots = sent + missed_no_room + missed_no_time`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pacing {
    /// Messages that were due.
    pub slots: u64,
    /// Slots in which the transport accepted the message.
    pub sent: u64,
    /// Slots missed because the transport had no room, or had ended.
    pub missed_no_room: u64,
    /// Slots missed because the sender did not run when they were due.
    pub missed_no_time: u64,
    /// Sent messages that were later than allowed for want of CPU time.
    pub late: u64,
    /// Time from a message's due time until it was handed over.
    pub lateness_ns: Distribution,
    /// Deviation of the time between two sends from the period, as an absolute value.
    pub gap_error_ns: Distribution,
}

/// Paced flow, both its ends.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PacedFlow {
    /// Direction of its messages.
    pub direction: Direction,
    /// Outcome of its schedule.
    #[serde(flatten)]
    pub pacing: Pacing,
    /// Delay one way of each message above the shortest of the flow (RFC 5481, 4.2), from the intended time of sending;
    /// absent if messages have no room for a stamp.
    pub delay_variation_ns: Option<Distribution>,
}

/// Cost of a trial at one end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the process, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// The part of it in user space.
    pub user_ns: u64,
    /// The part of it in the kernel.
    pub system_ns: u64,
    /// Part of it spent waiting: reading the clock before a send, and polling an empty socket. It is the instrument's
    /// own; absent if not counted.
    pub waiting_ns: Option<u64>,
    /// System calls of the datapath; absent if not counted, as of commands.
    pub syscalls: Option<u64>,
    /// Voluntary context switches of the process.
    pub voluntary_switches: u64,
    /// Involuntary context switches of the process.
    pub involuntary_switches: u64,
    /// Largest memory in use of the process since its start (`VmHWM` of proc_pid_status(5)), in bytes, including the
    /// program itself and its buffers. Absent if not read.
    pub peak_memory_bytes: Option<u64>,
    /// Allocations of the threads that run flows; absent if not counted.
    pub allocations: Option<Allocations>,
}

impl Cost {
    /// Returns the CPU time without waiting.
    pub fn working_ns(&self) -> u64 {
        self.cpu_ns.saturating_sub(self.waiting_ns.unwrap_or(0))
    }

    /// Returns the cost of both processes.
    pub fn plus(&self, other: &Cost) -> Cost {
        let sum = u64::saturating_add;
        let waiting = self.waiting_ns.unwrap_or(0).saturating_add(other.waiting_ns.unwrap_or(0));
        Cost {
            cpu_ns: sum(self.cpu_ns, other.cpu_ns),
            user_ns: sum(self.user_ns, other.user_ns),
            system_ns: sum(self.system_ns, other.system_ns),
            waiting_ns: self.waiting_ns.or(other.waiting_ns).map(|_| waiting),
            syscalls: either(self.syscalls, other.syscalls, sum),
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
            peak_memory_bytes: either(self.peak_memory_bytes, other.peak_memory_bytes, sum),
            allocations: either(self.allocations, other.allocations, Allocations::plus),
        }
    }
}

/// Returns the sum of both, or the known one.
fn either<T>(a: Option<T>, b: Option<T>, plus: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(plus(a, b)),
        (one, other) => one.or(other),
    }
}

/// First messages of a trial, which warm up both ends and are in no other figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WarmUp {
    /// Messages that were sent.
    pub sent: u64,
    /// Number of them that were answered.
    pub answered: u64,
}

/// Measurement of one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Sequence number, from 0.
    pub seq: u64,
    /// Time at which it was due, on the near clock.
    pub intended_ns: u64,
    /// Delay from its due time until it was handed to the transport.
    pub lateness_ns: u64,
    /// Round-trip time from the intended time to the answer; `None` if no answer came within the
    /// timeout.
    pub rtt_ns: Option<u64>,
}

/// Number of consecutive parts of a trial, for the variation within it.
pub const SEGMENTS: usize = 4;

/// Recorder of a workload's samples.
pub trait Recorder: Send {
    /// Prepares for this number of samples, if it is known: allocates memory for them before the first.
    fn expect(&mut self, _samples: u64) {}
    /// Records one sample. It runs inside the measuring loop, so it is quick: no allocation after the warm-up, and at
    /// most a write to a file's cache every few thousand samples.
    fn record(&mut self, sample: Sample);
    /// Records one paced send: its lateness, and the deviation of the gap since the previous send from the period, both
    /// in nanoseconds. As quick as [`Recorder::record`].
    fn record_send(&mut self, lateness_ns: u64, gap_error_ns: Option<u64>);
    /// Records the one-way delay of one message, in nanoseconds, between two clocks with an unknown offset. As quick as
    /// [`Recorder::record`].
    fn record_delay(&mut self, ns: i64);
    /// Sums up the round trips so far, for a quantile in thousandths; lost ones are censored at `timeout_ns`.
    fn round_trips(&self, timeout_ns: u64, per_mille: u64) -> RoundTripSummary;
    /// Sums up the sends so far.
    fn sends(&self) -> SendSummary;
    /// Sums up the delays so far.
    fn delays(&self) -> OneWayDelays;
}

/// Summary of round trips.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RoundTripSummary {
    /// Distribution of their times.
    pub rtt: Distribution,
    /// Effect of late sends on the quantile: the logarithm of the ratio of the quantile from intended times to the
    /// quantile from send times. `None` if either is unknown.
    pub late_effect: Option<f64>,
    /// The quantile of each of [`SEGMENTS`] equal consecutive parts of them; empty if a part has none.
    pub segments: Vec<f64>,
    /// Interarrival jitter (RFC 3550), in nanoseconds, because it is well known.
    pub jitter_rfc3550_ns: Option<u64>,
}

/// Summary of sends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SendSummary {
    /// Distribution of the generator's lateness.
    pub lateness: Distribution,
    /// Distribution of the errors of gaps between paced sends.
    pub gap_error: Distribution,
}

/// Summary of one-way delays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneWayDelays {
    /// Distribution of the delays above the shortest.
    pub variation: Distribution,
    /// Shortest delay in nanoseconds: the delay itself, if both clocks show the same time.
    pub least_ns: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_by_hand() {
        let udp = Headers {
            ip_bytes: 20,
            transport_bytes: 8,
            framing_bytes: 0,
            mtu: Some(1500),
            packets: None,
        };
        assert_eq!(udp.around(10, 1400), 280);
        assert_eq!(udp.around(1, 1472), 28);
        // 1481 bytes of UDP in fragments of 1480: a second IP header.
        assert_eq!(udp.around(1, 1473), 48);
        // 32,776 bytes: 22 full fragments and a part.
        assert_eq!(udp.around(1, 32_768), 23 * 20 + 8);
        let six = Headers { ip_bytes: 40, ..udp };
        assert_eq!(six.around(1, 1400), 48);
        // IPv6 fragments carry 1448 bytes and 8 bytes of header more.
        assert_eq!(six.around(1, 1453), 2 * 48 + 8);
        let tcp = Headers { transport_bytes: 32, framing_bytes: 4, packets: Some(7), ..udp };
        assert_eq!(tcp.around(10, 1000), 7 * 52 + 40);
        let unknown = Headers { mtu: None, ..udp };
        assert_eq!(unknown.around(1, 65_000), 28);
    }

    #[test]
    fn an_account_closes_only_when_every_message_is_accounted_for() {
        let mut account = Account {
            sent: 10,
            delivered: 7,
            lost_on_path: 2,
            dropped_at_receiver: Some(1),
            ..Account::default()
        };
        assert!(account.closes());
        account.delivered = 8;
        assert!(!account.closes());
    }

    #[test]
    fn a_message_over_the_path_mtu_is_cut_into_fragments() {
        let packets = |message_bytes, header_bytes, path_mtu| {
            Packets { message_bytes, header_bytes, path_mtu }.per_message()
        };
        assert_eq!(packets(1_472, 28, 1_500), 1);
        assert_eq!(packets(1_473, 28, 1_500), 2);
        // 32,776 bytes in pieces of 1,480, and in pieces of 1,448.
        assert_eq!(packets(32_768, 28, 1_500), 23);
        assert_eq!(packets(32_768, 48, 1_500), 23);
        assert_eq!(packets(65_507, 28, 1_500), 45);
        assert_eq!(packets(65_507, 48, 1_280), 54);
        assert_eq!(packets(u64::MAX, 28, 0), u64::MAX / 8 + 1);
        let whole = Packets { message_bytes: 9, header_bytes: 48, path_mtu: 1_500 };
        assert_eq!(whole.largest_whole(), 1_452);
    }
}
