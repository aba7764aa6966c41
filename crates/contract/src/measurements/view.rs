//! State of a TCP connection at one instant, as the kernel reports it.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::congestion::CongestionPhase;
use super::{Headers, Wire};
use deadheat_base::unset::is_unset;

/// The kernel's view of one end of a TCP connection (`TCP_INFO` of tcp(7)). Counters run from the connection's start. A
/// field is absent if this kernel does not report it, or has no value yet.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpView {
    /// Congestion window (RFC 5681) in bytes: full segments of `mss_bytes`. 0 if the implementation does not report it.
    pub cwnd_bytes: u64,
    /// Largest segment that this end sends, in bytes, without headers.
    pub mss_bytes: u64,
    /// Smoothed round-trip time (RFC 6298, §2), as this end measured it.
    pub srtt_ns: Option<u64>,
    /// Mean deviation of the round-trip time.
    pub rttvar_ns: Option<u64>,
    /// Recent minimum of the round-trip time (net.ipv4.tcp_min_rtt_wlen, 300 s).
    pub min_rtt_ns: Option<u64>,
    /// Segments sent again so far, spurious ones included.
    pub retransmits: u64,
    /// Segments in flight that the kernel now considers lost.
    pub lost_segments: u64,
    /// Number of later segments after which the kernel considers a segment lost, if it counts them: 3
    /// (net.ipv4.tcp_reordering) until it observes more.
    pub reordering_segments: Option<u64>,
    /// Number of observed reorderings (Linux 5.0), after which RACK (RFC 8985) waits a part of a round trip for late
    /// segments.
    pub reorderings: Option<u64>,
    /// Segments in flight, not yet acknowledged.
    pub unacked_segments: u64,
    /// Bytes in flight, without segments considered lost, as congestion control counts them (RFC 6675, "pipe"); absent
    /// if the implementation does not report them.
    pub in_flight_bytes: Option<u64>,
    /// Bytes sent and not yet acknowledged cumulatively, SND.NXT less SND.UNA (FlightSize of RFC 5681; Linux 4.19). The
    /// kernel counts the SYN of an end that dialled as acknowledged, so it is a byte less there.
    pub flight_size_bytes: Option<u64>,
    /// Phase of congestion control; absent if the implementation does not report it.
    pub phase: Option<CongestionPhase>,
    /// Latest rate of delivery by the network, in bits per second, by the kernel's estimate.
    pub delivery_rate_bps: Option<u64>,
    /// True if that estimate was bounded by the application and not by the network.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub delivery_rate_app_limited: bool,
    /// Pacing rate of the kernel, in bits per second; absent if it does not pace.
    pub pacing_rate_bps: Option<u64>,
    /// Time with data to send or unacknowledged data, in nanoseconds, counted in the kernel's ticks (1 to 10 ms).
    /// Includes the two times below.
    pub busy_ns: Option<u64>,
    /// Part of that time in which the peer's receive window was the limit.
    pub rwnd_limited_ns: Option<u64>,
    /// Part of that time in which this end's send buffer was too small.
    pub sndbuf_limited_ns: Option<u64>,
    /// Part of that time in which the window of a library in user space (its send window, or the peer's flow control)
    /// was the limit, without a queue on the path. Absent if unknown.
    pub library_limited_ns: Option<u64>,
    /// Bytes that the peer acknowledged.
    pub bytes_acked: Option<u64>,
    /// Bytes that were sent, with retransmissions (Linux 4.19).
    pub bytes_sent: Option<u64>,
    /// Bytes that were retransmitted.
    pub bytes_retrans: Option<u64>,
    /// Segments sent, including acknowledgements. With segmentation offload the kernel counts the later packets on the
    /// wire.
    pub segs_out: Option<u64>,
    /// Segments received, including acknowledgements.
    pub segs_in: Option<u64>,
    /// Segments with data sent.
    pub data_segs_out: Option<u64>,
    /// Segments with data received.
    pub data_segs_in: Option<u64>,
    /// Bytes in the send buffer that were not sent yet.
    pub notsent_bytes: Option<u64>,
    /// Receive window that the peer last advertised, in bytes.
    pub snd_wnd_bytes: Option<u64>,
    /// Number of losses or marks taken as congestion; absent if the implementation does not count them.
    pub congestion_events: Option<u64>,
    /// Segments with data that the receiver reported as marked (CE, RFC 3168), as the kernel counts them
    /// (`tcpi_delivered_ce`, Linux 4.18).
    pub ce_delivered: Option<u64>,
    /// Rounds of a protocol in user space that works in rounds: each asks the peer for the state of arrivals.
    pub rounds: Option<u64>,
}

impl TcpView {
    /// Returns the packets that this end sent, each with `headers`; the extra options of SYN segments and selective
    /// acknowledgements, a few bytes, are not counted. `None` before Linux 4.19.
    pub fn wire(&self, headers: &Headers) -> Option<Wire> {
        Some(Wire::behind(headers.in_each_packet(), self.segs_out?, self.bytes_sent?))
    }
}
