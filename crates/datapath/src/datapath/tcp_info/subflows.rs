//! Subflows of a connection from the kernel's `MPTCP_TCPINFO` of include/uapi/linux/mptcp.h (Linux 5.16), one `struct
//! tcp_info` for each.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::{LONGEST, TcpInfo, parse};
use deadheat_contract::measurements::TcpView;

/// Option level of include/linux/socket.h; the C library lacks it.
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_TCPINFO: libc::c_int = 2;

/// Length of `struct mptcp_subflow_data`, four words: its own size, the number of subflows, the size of each answer in
/// the kernel, and the size of each answer here.
const HEAD: usize = 16;

/// Most subflows that are read. The path manager makes 8 at most, besides the first.
const MOST: usize = 9;

/// Subflows of one connection.
pub struct Subflows(Vec<TcpInfo>);

impl Subflows {
    /// Bytes of each packet's headers: TCP's 20, 12 for timestamps (RFC 7323, appendix A), and 28 for acknowledgement
    /// and mapping of 64-bit sequence numbers (RFC 8684, 3.3), padded, as Linux sends them.
    pub const HEADER: u64 = 20 + 12 + 28;

    /// Returns the number of subflows.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the smallest path MTU of all.
    pub fn pmtu_bytes(&self) -> u64 {
        self.0.iter().map(|info| info.pmtu_bytes).min().unwrap_or(0)
    }

    /// Combines all subflows into one view: sums of counters, and the round-trip times of the fastest.
    pub fn together(&self) -> Option<TcpView> {
        let views = self.0.iter().map(|info| info.view);
        views.reduce(|a, b| {
            let sum = |of: fn(&TcpView) -> Option<u64>| match (of(&a), of(&b)) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            };
            let faster = if a.srtt_ns.is_some() && a.srtt_ns <= b.srtt_ns { &a } else { &b };
            TcpView {
                cwnd_bytes: a.cwnd_bytes.saturating_add(b.cwnd_bytes),
                mss_bytes: a.mss_bytes.min(b.mss_bytes),
                srtt_ns: faster.srtt_ns,
                rttvar_ns: faster.rttvar_ns,
                min_rtt_ns: [a.min_rtt_ns, b.min_rtt_ns].into_iter().flatten().min(),
                retransmits: a.retransmits.saturating_add(b.retransmits),
                lost_segments: a.lost_segments.saturating_add(b.lost_segments),
                reordering_segments: [a.reordering_segments, b.reordering_segments]
                    .into_iter()
                    .flatten()
                    .max(),
                reorderings: sum(|view| view.reorderings),
                unacked_segments: a.unacked_segments.saturating_add(b.unacked_segments),
                in_flight_bytes: sum(|view| view.in_flight_bytes),
                flight_size_bytes: sum(|view| view.flight_size_bytes),
                phase: None,
                delivery_rate_bps: sum(|view| view.delivery_rate_bps),
                delivery_rate_app_limited: a.delivery_rate_app_limited
                    && b.delivery_rate_app_limited,
                pacing_rate_bps: sum(|view| view.pacing_rate_bps),
                busy_ns: [a.busy_ns, b.busy_ns].into_iter().flatten().max(),
                rwnd_limited_ns: [a.rwnd_limited_ns, b.rwnd_limited_ns].into_iter().flatten().max(),
                sndbuf_limited_ns: [a.sndbuf_limited_ns, b.sndbuf_limited_ns]
                    .into_iter()
                    .flatten()
                    .max(),
                library_limited_ns: None,
                bytes_acked: sum(|view| view.bytes_acked),
                bytes_sent: sum(|view| view.bytes_sent),
                congestion_events: None,
                ce_delivered: sum(|view| view.ce_delivered),
                bytes_retrans: sum(|view| view.bytes_retrans),
                segs_out: sum(|view| view.segs_out),
                segs_in: sum(|view| view.segs_in),
                data_segs_out: sum(|view| view.data_segs_out),
                data_segs_in: sum(|view| view.data_segs_in),
                notsent_bytes: sum(|view| view.notsent_bytes),
                snd_wnd_bytes: sum(|view| view.snd_wnd_bytes),
                rounds: None,
            }
        })
    }
}

/// Reads the subflows from the kernel.
///
/// # Errors
/// The error of getsockopt(2): a connection that fell back to TCP has no such option.
pub fn subflows(socket: &Socket) -> io::Result<Subflows> {
    let mut answer = vec![0u8; HEAD + MOST * LONGEST];
    let words = [HEAD as u32, 0, 0, LONGEST as u32];
    for (room, word) in answer.chunks_exact_mut(4).zip(words) {
        room.copy_from_slice(&word.to_ne_bytes());
    }
    let mut len = answer.len() as libc::socklen_t;
    // SAFETY: the kernel reads and writes at most `len` bytes of `answer`, and any bytes are valid there.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_MPTCP,
            MPTCP_TCPINFO,
            answer.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(read(&answer))
}

/// Parses the answer of getsockopt(2). Each subflow has the requested size, of which the kernel fills a part.
fn read(answer: &[u8]) -> Subflows {
    let word = |at: usize| answer.get(4 * at..4 * at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let count = word(1).unwrap_or(0) as usize;
    let filled = (word(2).unwrap_or(0) as usize).min(LONGEST);
    let each = answer.get(HEAD..).unwrap_or(&[]).chunks_exact(LONGEST).take(count);
    Subflows(each.filter_map(|info| parse(&info[..filled])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two subflows with a TCP_INFO of 104 bytes: all bytes 1, and all bytes 2.
    #[test]
    fn subflows_are_summed_up() {
        let mut answer = vec![0; HEAD + MOST * LONGEST];
        for (at, word) in [HEAD as u32, 2, 104, LONGEST as u32].into_iter().enumerate() {
            answer[4 * at..4 * at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        answer[HEAD..HEAD + 104].fill(1);
        answer[HEAD + LONGEST..HEAD + LONGEST + 104].fill(2);
        let subflows = read(&answer);
        assert_eq!(subflows.count(), 2);
        let (ones, twos) = (0x0101_0101, 0x0202_0202);
        let view = subflows.together().unwrap();
        assert_eq!(view.retransmits, ones + twos);
        assert_eq!(view.srtt_ns, Some(ones * 1_000));
        assert_eq!(view.mss_bytes, ones);
        assert_eq!(subflows.pmtu_bytes(), ones);
        assert_eq!(view.bytes_acked, None, "the answer does not reach so far");
        assert_eq!(read(&[]).count(), 0);
    }
}
