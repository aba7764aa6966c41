//! The figures a trial yields: distributions, the ledger, metrics and cost. Plain data with its
//! JSON form; integers in nanoseconds, bytes and bits per second; units last in names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::Direction;
use deadheat_base::unset::is_unset;

pub use crate::path::measurements as path;
pub use deadheat_base::distribution::{Distribution, Quantile};
pub use deadheat_base::moments;
pub use deadheat_stats::Better;

mod amounts;
mod content;
mod fallback;
pub mod name;
mod outage;
pub mod series;
mod throttled;
mod view;

pub use crate::measurements::amounts::{Allocations, Marks, Wire, total};
pub use crate::measurements::content::{ContentState, Verified};
pub use crate::measurements::fallback::{Fallback, FallbackCause};
pub use crate::measurements::name::{MetricName, Percentile, Phase, Suffix};
pub use crate::measurements::outage::{FEWEST_IN_OUTAGE, MOST_OUTAGES, Outage, SHORTEST_OUTAGE};
pub use crate::measurements::throttled::Throttled;
pub use crate::measurements::view::TcpView;

/// Unit that a metric is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Bits per second.
    BitRate,
    /// A fraction from 0 to 1.
    Share,
    /// A plain number: of messages, of round trips per minute, or how many times as much.
    Count,
}

/// Use of a metric in a race: claims are made about it, or it is only described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Verdicts are given, and the race stops when they are all in.
    Claim,
    /// An estimate is given, and no verdict.
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
}

/// The figures of one trial by metric name.
///
/// A metric is absent if the trial cannot know it. A latency percentile that falls among lost
/// samples is stored at the timeout, the least it can be, and listed in `censored`.
pub type Metrics = BTreeMap<String, f64>;

/// Counters of one end for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Messages (or, for byte streams, 0).
    pub messages: u64,
    /// Application bytes.
    pub bytes: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after the timeout.
    pub late: u64,
    /// Messages that came after one with a higher sequence number (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// Messages whose content differs from what was sent.
    pub corrupted: u64,
    /// Messages that belong to no trial or another one.
    pub foreign: u64,
}

/// The account of one direction: `sent = delivered + lost_on_path + dropped_at_receiver`, in
/// messages, or in bytes for byte streams, which lose nothing silently.
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
    /// Amount dropped because the receiver's socket buffer was full.
    pub dropped_at_receiver: u64,
    /// Amount received again.
    pub duplicates: u64,
    /// Amount received after the timeout (part of `delivered`).
    pub late: u64,
    /// Amount received out of order (part of `delivered`).
    pub reordered: u64,
    /// Amount received damaged (part of `delivered`).
    pub corrupted: u64,
    /// Reason why the account does not close; absent if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_because: Option<String>,
}

impl Account {
    /// Returns true if `sent = delivered + lost_on_path + dropped_at_receiver` holds.
    pub fn closes(&self) -> bool {
        self.open_because.is_none()
            && self.sent
                == self
                    .delivered
                    .saturating_add(self.lost_on_path)
                    .saturating_add(self.dropped_at_receiver)
    }
}

/// The accounts of both directions. A direction nobody could see (the kernel's echo) is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Near end to far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Account>,
    /// Far end to near end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Account>,
    /// There and back as one, where the directions cannot be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Account>,
}

impl Ledger {
    /// Keeps the account of a direction.
    pub fn set(&mut self, direction: Direction, account: Account) {
        *match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        } = Some(account);
    }

    /// Returns the accounts that exist, with their names.
    pub fn accounts(&self) -> impl Iterator<Item = (&'static str, &Account)> {
        [("up", &self.up), ("down", &self.down), ("round_trip", &self.round_trip)]
            .into_iter()
            .filter_map(|(name, account)| account.as_ref().map(|account| (name, account)))
    }
}

/// Counters of one connection, as its transport knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnStats {
    /// Time of the transport's own handshake, in nanoseconds; 0 if it has none. The exchange that proves an
    /// address by its token is in none of them.
    pub connect_ns: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// System calls that received, those that found nothing included.
    pub receive_calls: u64,
    /// Datagrams that this end's socket buffer had no room for; absent if unknown.
    pub socket_drops: Option<u64>,
    /// Segments the transport sent again; absent if unknown.
    pub retransmits: Option<u64>,
    /// Datagrams that forward error correction made up for at this end; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<u64>,
    /// ECN codepoints of what arrived at this end; absent where nobody looks at them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    /// Packets that this end sent, as IP has them; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// Errors the network reported back (ICMP unreachable and the like).
    pub network_errors: u64,
    /// Size of the headers around its data; absent if there are none, inside one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// Outcome of zero-copy calls; absent if none are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zerocopy: Option<ZeroCopy>,
    /// Fall back on the second of two transports; absent if it is none of two, or did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Kernel's completion reports of calls with `MSG_ZEROCOPY`. Calls that sent less than asked count
/// as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ZeroCopy {
    /// Calls that it is done with. Less than were made where the peer vanished.
    pub completed: u64,
    /// Calls whose bytes the kernel copied after all, as on loopback.
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
    /// Fragments that came of it (`FragCreates`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragments_created: u64,
    /// Packets that needed it and could not be cut (`FragFails`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragment_failures: u64,
    /// Fragments that arrived (`ReasmReqds`).
    #[serde(skip_serializing_if = "is_unset")]
    pub fragments_received: u64,
    /// Packets put together from them (`ReasmOKs`).
    #[serde(skip_serializing_if = "is_unset")]
    pub reassembled: u64,
    /// Times that failed (`ReasmFails`): a fragment that found no room, or a packet given up.
    #[serde(skip_serializing_if = "is_unset")]
    pub reassembly_failures: u64,
    /// Packets given up because a fragment stayed away, by default for 30 s (`ReasmTimeout`).
    #[serde(skip_serializing_if = "is_unset")]
    pub reassembly_timeouts: u64,
    /// Datagrams to a port that no socket had (`NoPorts`).
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_no_port: u64,
    /// Datagrams that arrived and were not delivered to their socket (`InErrors`).
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_receive_errors: u64,
    /// Datagrams that the socket's buffer had no room for (`RcvbufErrors`), part of the count
    /// above.
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_receive_buffer_errors: u64,
    /// Datagrams that found no room on their way out (`SndbufErrors`).
    #[serde(skip_serializing_if = "is_unset")]
    pub udp_send_buffer_errors: u64,
    /// TCP segments sent again (`RetransSegs`).
    #[serde(skip_serializing_if = "is_unset")]
    pub tcp_retransmits: u64,
    /// Packets that a CPU's queue of arrivals had no room for (softnet, `netdev_max_backlog`); of the
    /// whole machine.
    #[serde(skip_serializing_if = "is_unset")]
    pub backlog_drops: u64,
}

impl HostCounters {
    /// Returns the counts since an `earlier` reading.
    pub fn since(&self, earlier: &HostCounters) -> HostCounters {
        self.with(earlier, u64::saturating_sub)
    }

    /// Adds both together.
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

/// The packets that a trial's messages made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// The size of a message in bytes.
    pub message_bytes: u64,
    /// The IP and transport headers in front of it.
    pub header_bytes: u64,
    /// The path MTU in bytes.
    pub path_mtu: u64,
}

impl Packets {
    /// Returns the number of packets that one message travels as: more than one are fragments (RFC
    /// 791, section 3.2; RFC 8200, section 4.5), each with an IP header of its own and a multiple
    /// of 8 bytes.
    /// 3.2; RFC 8200, section 4.5), each with an IP header of its own and a multiple of 8 bytes.
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

/// The headers around a connection's data, from that of IP on. What is below IP differs from hop to
/// hop and is not counted.
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
    /// Packets with data that this end sent, repeated ones left out; absent if each message is
    /// one datagram.
    pub packets: Option<u64>,
}

impl Headers {
    /// Returns the number of header bytes that went with `messages` messages of `size` bytes each.
    /// A datagram that does not fit `mtu` is cut into fragments, which repeat the IP header, carry
    /// multiples of 8 bytes (RFC 791), and over IPv6 have a header of 8 bytes more (RFC 8200, 4.5).
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

    /// Returns the packets of `messages` messages of `bytes` bytes together, each a datagram; `None` if they are none.
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

    /// Returns the packets that datagrams of `size` bytes make; absent if the path MTU is
    /// unknown.
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
    /// Slots whose message the transport took.
    pub sent: u64,
    /// Slots missed because the transport had no room, or had ended.
    pub missed_no_room: u64,
    /// Slots missed because the sender did not run when they were due.
    pub missed_no_time: u64,
    /// Number of those sent that were late by more than is allowed for want of CPU time.
    pub late: u64,
    /// Time from when a message was due until it was handed over.
    pub lateness_ns: Distribution,
    /// Deviation of the time between two sends from the period, as an absolute value.
    pub gap_error_ns: Distribution,
}

/// Paced flow, both its ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PacedFlow {
    /// Direction of its messages.
    pub direction: Direction,
    /// Outcome of its schedule.
    #[serde(flatten)]
    pub pacing: Pacing,
    /// The one-way delay of each message above the least one of the flow (RFC 5481, 4.2), from the
    /// intended time of sending; absent if messages have no room for a stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_variation_ns: Option<Distribution>,
}

/// Cost of a trial at one end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the process, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// The part of it in user space.
    pub user_ns: u64,
    /// The part of it in the kernel.
    pub system_ns: u64,
    /// The part of it that was waiting: watching the clock before a send, and looks at a socket that had
    /// nothing. The instrument's own; absent if nobody counted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
    /// System calls the datapath made.
    pub syscalls: u64,
    /// Context switches the process chose.
    pub voluntary_switches: u64,
    /// Context switches it suffered.
    pub involuntary_switches: u64,
    /// Most memory that the process had in use at once (`VmHWM` of proc_pid_status(5)), in bytes, from its start on: the
    /// program itself and its buffers are in it. Absent if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Allocations of the threads that run flows; absent if nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Allocations>,
}

impl Cost {
    /// Returns the CPU time without waiting.
    pub fn working_ns(&self) -> u64 {
        self.cpu_ns.saturating_sub(self.waiting_ns.unwrap_or(0))
    }

    /// Returns the cost of two processes.
    pub fn plus(&self, other: &Cost) -> Cost {
        let sum = u64::saturating_add;
        let waiting = self.waiting_ns.unwrap_or(0).saturating_add(other.waiting_ns.unwrap_or(0));
        Cost {
            cpu_ns: sum(self.cpu_ns, other.cpu_ns),
            user_ns: sum(self.user_ns, other.user_ns),
            system_ns: sum(self.system_ns, other.system_ns),
            waiting_ns: self.waiting_ns.or(other.waiting_ns).map(|_| waiting),
            syscalls: sum(self.syscalls, other.syscalls),
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
            peak_memory_bytes: either(self.peak_memory_bytes, other.peak_memory_bytes, sum),
            allocations: either(self.allocations, other.allocations, Allocations::plus),
        }
    }
}

/// Returns both together, or the one that is known.
fn either<T>(a: Option<T>, b: Option<T>, plus: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(plus(a, b)),
        (one, other) => one.or(other),
    }
}

/// An estimate of the far clock against the near clock, from echoes that carry far timestamps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockEstimate {
    /// Far minus near, in nanoseconds, at the middle of the trial.
    pub offset_ns: i64,
    /// The bound on its error at the echo it stands on: half that round trip, the smallest seen. No
    /// end host can know better.
    pub error_bound_ns: u64,
    /// Rate at which the far clock gains on the near one, in parts per million; absent on short
    /// trials.
    pub drift_ppm: Option<f64>,
    /// Echoes used.
    pub n: u64,
}

/// The first messages of a trial, which warm up both ends and count nowhere else.
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
    /// Delay between that time and the send: from when it was due until it was handed to the
    /// transport.
    pub lateness_ns: u64,
    /// Round-trip time from the intended time to the answer; `None` if no answer came within the
    /// timeout.
    pub rtt_ns: Option<u64>,
}

/// Consecutive parts of a trial whose figures tell how much it varies within.
pub const SEGMENTS: usize = 4;

/// Recorder of a workload's samples as they are taken.
pub trait Recorder: Send {
    /// Prepares for this many samples, as far as that is known: memory for them is to be there
    /// before the first.
    fn expect(&mut self, _samples: u64) {}
    /// Records one sample. Called inside the measuring loop, so it is quick: no allocation once
    /// warm, and at most a write to a file's cache every few thousand samples.
    fn record(&mut self, sample: Sample);
    /// Returns the round-trip times so far, summed up; `timeout_ns` is where lost ones are
    /// censored.
    fn rtt(&self, timeout_ns: u64) -> Distribution;
    /// Returns the distribution of the generator's lateness.
    fn lateness(&self) -> Distribution;
    /// Returns the effect of late sends on this quantile (in thousandths) of the round trips: the
    /// logarithm of the quantile from the intended times over that from the times of sending.
    /// `None` if either is not known.
    fn late_effect(&self, _per_mille: u64) -> Option<f64> {
        None
    }
    /// Returns this quantile (in thousandths) of each of [`SEGMENTS`] equal consecutive parts of
    /// the round trips; empty if one of them is not known.
    fn segments(&self, _per_mille: u64) -> Vec<f64> {
        Vec::new()
    }
    /// Returns the RFC 3550 interarrival jitter of the round trips, in nanoseconds, for
    /// familiarity.
    fn jitter_rfc3550_ns(&self) -> Option<u64>;
    /// Records one paced send: its lateness, and the deviation of its distance from the one before
    /// from the period, both in nanoseconds. As quick as [`Recorder::record`].
    fn record_send(&mut self, lateness_ns: u64, gap_error_ns: Option<u64>);
    /// Returns the errors of the gaps between sends so far, summed up.
    fn gap_error(&self) -> Distribution;
    /// Records the one-way delay of one message, in nanoseconds, between two clocks whose offset is
    /// unknown. As quick as [`Recorder::record`].
    fn record_delay(&mut self, ns: i64);
    /// Returns the delays so far above the least of them, summed up.
    fn delay_variation(&self) -> Distribution;
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
            dropped_at_receiver: 1,
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
