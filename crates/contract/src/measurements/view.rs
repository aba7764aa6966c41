//! State of a TCP connection at one instant, as the kernel reports it.

use serde::{Deserialize, Serialize};

use super::{Headers, Wire};
use deadheat_base::unset::is_unset;

/// The kernel's view of one end of a TCP connection (`TCP_INFO` of tcp(7)). Counters run from the
/// connection's start. A field is absent if this kernel does not tell it, or has seen nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpView {
    /// Congestion window (RFC 5681) in bytes: full segments of `mss_bytes`. 0 where the implementation does not tell it.
    pub cwnd_bytes: u64,
    /// The largest segment that this end sends, in bytes, without headers.
    pub mss_bytes: u64,
    /// Smoothed round-trip time (RFC 6298, §2), as this end measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srtt_ns: Option<u64>,
    /// Mean deviation of the round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rttvar_ns: Option<u64>,
    /// The least round-trip time of late (net.ipv4.tcp_min_rtt_wlen, 300 s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<u64>,
    /// Segments sent again so far, spurious ones included.
    pub retransmits: u64,
    /// Segments in flight that the kernel now takes for lost.
    pub lost_segments: u64,
    /// Segments by which the kernel lets others overtake one before it takes that for lost, where it counts
    /// them: 3 (net.ipv4.tcp_reordering) until more were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering_segments: Option<u64>,
    /// Times that a segment was seen to be overtaken (Linux 5.0), after which RACK (RFC 8985) gives others
    /// part of a round trip to arrive late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorderings: Option<u64>,
    /// Segments in flight, not yet acknowledged.
    pub unacked_segments: u64,
    /// Rate at which the network last delivered, in bits per second, by the kernel's estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
    /// True if that estimate was bounded by the application and not by the network.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub delivery_rate_app_limited: bool,
    /// Rate at which the kernel lets segments leave, in bits per second; absent if it does not
    /// pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_rate_bps: Option<u64>,
    /// Time during which there was something to send or unacknowledged, in nanoseconds, counted in
    /// the kernel's ticks (1 to 10 ms). Includes the two below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// Part of that time in which the peer's receive window held it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_ns: Option<u64>,
    /// Part of that time in which this end's send buffer was too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf_limited_ns: Option<u64>,
    /// Part of that time in which more was written than a library in user space admits to the path (its send window, or
    /// the peer's flow control), and no queue stood there. Absent where it does not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_limited_ns: Option<u64>,
    /// Bytes that the peer acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    /// Bytes that were sent, those that were sent again included (Linux 4.19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Bytes that were sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_retrans: Option<u64>,
    /// Segments that left, acknowledgements included. With segmentation offload the kernel counts what
    /// the packets on the wire will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segs_out: Option<u64>,
    /// Segments that came, acknowledgements included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segs_in: Option<u64>,
    /// Segments with data that left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segs_out: Option<u64>,
    /// Segments with data that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segs_in: Option<u64>,
    /// Bytes in the send buffer that have not left for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_bytes: Option<u64>,
    /// The peer's receive window as it last told, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snd_wnd_bytes: Option<u64>,
    /// Times that it took a loss or a mark for congestion; absent where the implementation does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_events: Option<u64>,
    /// Segments with data that the receiver reported as marked (CE, RFC 3168), as the kernel counts them
    /// (`tcpi_delivered_ce`, Linux 4.18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ce_delivered: Option<u64>,
    /// Rounds, each with a question of what arrived, of a protocol in user space that has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
}

impl TcpView {
    /// Returns the packets that this end sent, each with `headers`; SYN segments have a few bytes of options more, and
    /// selective acknowledgements, too. `None` before Linux 4.19.
    pub fn wire(&self, headers: &Headers) -> Option<Wire> {
        Some(Wire::behind(headers.in_each_packet(), self.segs_out?, self.bytes_sent?))
    }
}
