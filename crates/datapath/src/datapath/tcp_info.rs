//! `TCP_INFO` of tcp(7): `struct tcp_info` of include/uapi/linux/tcp.h, read by offset. The C library's copy ends at
//! byte 104; the kernel's has grown at its end from version to version and its length shows the end, so a field is read
//! only if the answer covers it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::{Protocol, SockRef, Socket};

use deadheat_contract::measurements::congestion::CongestionPhase;
use deadheat_contract::measurements::{Marks, TcpView};

pub mod subflows;

/// Bytes of the answer's buffer: more than any answer so far (280 from Linux 6.18).
pub const LONGEST: usize = 512;

/// Shortest answer of any kernel that Rust runs on, in bytes: the C library's structure.
const LEAST: usize = 104;

// Offsets of fields in bytes. The functions below have their lengths.
/// Byte with, as its lowest bit (the first of the bit field), `tcpi_delivery_rate_app_limited`.
const APP_LIMITED: usize = 7;
/// State of the kernel's `TCP_*` list.
const STATE: usize = 0;
/// `TCP_ESTABLISHED` of include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
/// State of the kernel's `TCP_CA_*` list of linux/tcp.h.
const CA_STATE: usize = 1;
/// Bits of `TCPI_OPT_*`.
const OPTIONS: usize = 5;
const TIMESTAMPS: u8 = 1;
const ECN: u8 = 8;
const ECN_SEEN: u8 = 16;
const SYN_DATA: u8 = 32;
const SND_MSS: usize = 16;
const UNACKED: usize = 24;
const SACKED: usize = 28;
const LOST: usize = 32;
const RETRANS: usize = 36;
const PMTU: usize = 60;
/// Microseconds; 0 before the first measurement.
const RTT: usize = 68;
/// Microseconds.
const RTTVAR: usize = 72;
/// Segments.
const SND_SSTHRESH: usize = 76;
const SND_CWND: usize = 80;
const REORDERING: usize = 88;
const TOTAL_RETRANS: usize = 100;
/// Bytes per second; all ones without a limit (Linux 3.15).
const PACING_RATE: usize = 104;
/// Linux 4.1.
const BYTES_ACKED: usize = 120;
/// Linux 4.2.
const SEGS_OUT: usize = 136;
const SEGS_IN: usize = 140;
/// Linux 4.6.
const NOTSENT_BYTES: usize = 144;
/// Microseconds; all ones before the first measurement.
const MIN_RTT: usize = 148;
const DATA_SEGS_IN: usize = 152;
const DATA_SEGS_OUT: usize = 156;
/// Bytes per second (Linux 4.9).
const DELIVERY_RATE: usize = 160;
/// Microseconds (Linux 4.10).
const BUSY_TIME: usize = 168;
const RWND_LIMITED: usize = 176;
const SNDBUF_LIMITED: usize = 184;
/// Linux 4.18, both.
const DELIVERED: usize = 192;
const DELIVERED_CE: usize = 196;
/// Linux 4.19.
const BYTES_SENT: usize = 200;
const BYTES_RETRANS: usize = 208;
/// Linux 5.0.
const REORD_SEEN: usize = 220;
/// Linux 5.4.
const SND_WND: usize = 228;
/// Packets that arrived ahead of others before them (Linux 5.4).
const RCV_OOOPACK: usize = 224;

/// Byte whose two lowest bits are `tcpi_ecn_mode` (Linux 7.0), and that mode of accurate ECN.
const ECN_MODE: usize = 276;
const ACCURATE: u8 = 2;

/// Reader of a connection's state through a descriptor of its own, for a thread that does not have the connection.
///
/// `getsockopt(2)` and the kernel's `inet_diag` fill the same structure by the same function, under the lock of the
/// socket; the call needs neither a search by addresses nor a socket of netlink(7) in the connection's namespace.
#[derive(Debug)]
pub struct ViewReader {
    socket: Socket,
    is_multipath: bool,
}

impl ViewReader {
    /// Creates the reader of the connection `fd`; `None` if that is not TCP, or has no free descriptor.
    pub fn new(fd: BorrowedFd<'_>) -> Option<ViewReader> {
        let protocol = SockRef::from(&fd).protocol().ok().flatten()?;
        let is_multipath = protocol == Protocol::MPTCP;
        if !is_multipath && protocol != Protocol::TCP {
            return None;
        }
        let socket = Socket::from(fd.try_clone_to_owned().ok()?);
        Some(ViewReader { socket, is_multipath })
    }

    /// Returns the connection's state now, of all subflows together; `None` if the kernel does not report it.
    pub fn read(&self) -> Option<TcpView> {
        if self.is_multipath {
            return subflows::subflows(&self.socket).ok()?.together();
        }
        read(&self.socket).ok().map(|info| info.view)
    }
}

/// Fields of `TCP_INFO` that this program reads.
pub struct TcpInfo {
    /// State of the connection in the kernel.
    pub view: TcpView,
    /// Segments with data that arrived, if any of them was ahead of others; `None` where all were in order so far.
    pub arrived_in_any_order: Option<u64>,
    /// Segments with data that reached the peer, by its acknowledgements, and of these the marked ones; `None` without
    /// ECN. Segments that were sent again are not capable of marks (RFC 3168, section 6.1.5).
    pub marks: Option<Marks>,
    /// The path MTU.
    pub pmtu_bytes: u64,
    /// State and results of the handshake.
    pub negotiated: HandshakeFacts,
}

/// State of a connection, and the results of its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// True if the handshake is complete, and neither end has closed.
    pub established: bool,
    /// True if segments carry timestamps (RFC 7323).
    pub timestamps: bool,
    /// True if both ends take part in ECN (RFC 3168).
    pub ecn: bool,
    /// True if they count marks accurately (RFC 9768).
    pub accurate: bool,
    /// True if a packet arrived marked as ECN-capable.
    pub ecn_seen: bool,
    /// True if data in the SYN was acknowledged by the SYN-ACK (RFC 7413).
    pub syn_data: bool,
}

impl HandshakeFacts {
    fn of(answer: &[u8]) -> HandshakeFacts {
        let has = |bit| answer[OPTIONS] & bit != 0;
        HandshakeFacts {
            established: answer[STATE] == ESTABLISHED,
            timestamps: has(TIMESTAMPS),
            ecn: has(ECN),
            accurate: answer.get(ECN_MODE).is_some_and(|mode| mode & 3 == ACCURATE),
            ecn_seen: has(ECN_SEEN),
            syn_data: has(SYN_DATA),
        }
    }

    /// Describes the state of ECN. No option of a socket sets it: the hosts' `net.ipv4.tcp_ecn` and routes do.
    pub fn ecn_word(self) -> &'static str {
        match (self.ecn, self.accurate, self.ecn_seen) {
            (false, ..) => "off",
            (true, true, _) => "accurate",
            (true, false, true) => "on (the peer's packets came marked as capable)",
            (true, false, false) => "on",
        }
    }
}

/// Reads the fields from the kernel.
///
/// # Errors
/// The error of getsockopt(2), or `InvalidData` if the answer is too short.
pub fn read(socket: &Socket) -> io::Result<TcpInfo> {
    let mut answer = [0u8; LONGEST];
    let mut len = LONGEST as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `answer`, and any bytes are valid there.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            answer.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut info = parse(&answer[..LONGEST.min(len as usize)]).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("TCP_INFO has {len} bytes; {LEAST} at least expected"),
        )
    })?;
    let is_undisturbed =
        matches!(info.view.phase, Some(CongestionPhase::SlowStart | CongestionPhase::Avoidance));
    if is_undisturbed && let Some(phase) = bbr_phase(socket) {
        info.view.phase = Some(phase);
    }
    Ok(info)
}

/// Returns the phase of BBR (`TCP_CC_INFO` with `struct tcp_bbr_info` of linux/inet_diag.h); `None` for any other
/// congestion control. The kernel reports the gains of net/ipv4/tcp_bbr.c, as multiples of 1/256.
fn bbr_phase(socket: &Socket) -> Option<CongestionPhase> {
    let mut answer = [0u32; 16];
    let mut len = size_of_val(&answer) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `answer`, and any bytes are valid there.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CC_INFO,
            answer.as_mut_ptr().cast(),
            &mut len,
        )
    };
    // Others answer with nothing, or with 16 bytes (Vegas, DCTCP).
    (done == 0 && len == 20).then(|| phase_of_gains(answer[3], answer[4]))
}

fn phase_of_gains(pacing: u32, window: u32) -> CongestionPhase {
    match (pacing, window) {
        (512.., _) => CongestionPhase::Startup,
        (..128, _) => CongestionPhase::Drain,
        (_, ..=256) => CongestionPhase::ProbeRoundTrip,
        _ => CongestionPhase::ProbeBandwidth,
    }
}

/// Parses an answer; `None` if it is shorter than the fields up to `tcpi_total_retrans`.
pub fn parse(answer: &[u8]) -> Option<TcpInfo> {
    let view = view(answer)?;
    let pmtu_bytes = u32::from_ne_bytes(answer.get(PMTU..PMTU + 4)?.try_into().ok()?);
    let overtook =
        answer.get(RCV_OOOPACK..RCV_OOOPACK + 4).is_some_and(|packets| packets != [0; 4]);
    let negotiated = HandshakeFacts::of(answer);
    let delivered = answer.get(DELIVERED..DELIVERED + 4);
    let delivered = delivered.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
    let marks = delivered.zip(view.ce_delivered).filter(|_| negotiated.ecn);
    let marks = marks.map(|(delivered, ce)| {
        let datagrams = u64::from(delivered);
        Marks { datagrams, capable: datagrams.saturating_sub(view.retransmits), ce }
    });
    Some(TcpInfo {
        marks,
        view,
        arrived_in_any_order: view.data_segs_in.filter(|_| overtook),
        pmtu_bytes: u64::from(pmtu_bytes),
        negotiated,
    })
}

fn view(answer: &[u8]) -> Option<TcpView> {
    if answer.len() < LEAST {
        return None;
    }
    let word = |at: usize| {
        let bytes = answer.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_ne_bytes(bytes)))
    };
    let long = |at: usize| Some(u64::from_ne_bytes(answer.get(at..at + 8)?.try_into().ok()?));
    let ns = |us: u64| us.saturating_mul(1_000);
    let bits = |bytes: u64| bytes.saturating_mul(8);
    // The first bit of a bit field is the least significant one, except on big-endian hosts.
    let first_bit = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };
    let mss_bytes = word(SND_MSS)?;
    let in_flight = (word(UNACKED)? + word(RETRANS)?).saturating_sub(word(SACKED)? + word(LOST)?);
    let phase = match answer[CA_STATE] {
        2 => CongestionPhase::Reduction,
        3 => CongestionPhase::Recovery,
        4 => CongestionPhase::Timeout,
        _ => CongestionPhase::by_threshold(word(SND_CWND)?, word(SND_SSTHRESH)?),
    };
    let flight_size = |sent: u64| {
        Some(sent.saturating_sub(long(BYTES_RETRANS)?.saturating_add(long(BYTES_ACKED)?)))
    };
    let srtt_ns = word(RTT).filter(|us| *us > 0).map(ns);
    Some(TcpView {
        cwnd_bytes: word(SND_CWND)?.saturating_mul(mss_bytes),
        mss_bytes,
        srtt_ns,
        rttvar_ns: srtt_ns.and_then(|_| word(RTTVAR)).map(ns),
        min_rtt_ns: word(MIN_RTT).filter(|us| *us < u64::from(u32::MAX)).map(ns),
        retransmits: word(TOTAL_RETRANS)?,
        lost_segments: word(LOST)?,
        reordering_segments: word(REORDERING),
        reorderings: word(REORD_SEEN),
        unacked_segments: word(UNACKED)?,
        in_flight_bytes: Some(in_flight.saturating_mul(mss_bytes)),
        flight_size_bytes: long(BYTES_SENT).and_then(flight_size),
        phase: Some(phase),
        delivery_rate_bps: long(DELIVERY_RATE).filter(|rate| *rate > 0).map(bits),
        delivery_rate_app_limited: answer[APP_LIMITED] & first_bit != 0,
        pacing_rate_bps: long(PACING_RATE).filter(|rate| *rate < u64::MAX).map(bits),
        busy_ns: long(BUSY_TIME).map(ns),
        rwnd_limited_ns: long(RWND_LIMITED).map(ns),
        sndbuf_limited_ns: long(SNDBUF_LIMITED).map(ns),
        library_limited_ns: None,
        bytes_acked: long(BYTES_ACKED),
        bytes_sent: long(BYTES_SENT),
        bytes_retrans: long(BYTES_RETRANS),
        segs_out: word(SEGS_OUT),
        segs_in: word(SEGS_IN),
        data_segs_out: word(DATA_SEGS_OUT),
        data_segs_in: word(DATA_SEGS_IN),
        notsent_bytes: word(NOTSENT_BYTES),
        snd_wnd_bytes: word(SND_WND),
        rounds: None,
        congestion_events: None,
        ce_delivered: word(DELIVERED_CE),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    /// An answer of 512 bytes in which each field has the value of its offset.
    fn answer() -> Vec<u8> {
        let mut answer = vec![0; LONGEST];
        let mut put = |at: usize, value: u64, len: usize| {
            let bytes = if len == 4 {
                (value as u32).to_ne_bytes().to_vec()
            } else {
                value.to_ne_bytes().to_vec()
            };
            answer[at..at + len].copy_from_slice(&bytes);
        };
        let first = [SND_MSS, UNACKED, SACKED, LOST, RETRANS, RTT, RTTVAR, SND_SSTHRESH, SND_CWND];
        for at in first.into_iter().chain([TOTAL_RETRANS]) {
            put(at, at as u64, 4);
        }
        let words = [SEGS_OUT, SEGS_IN, NOTSENT_BYTES, MIN_RTT];
        let more = [DATA_SEGS_IN, DATA_SEGS_OUT, SND_WND, REORDERING, REORD_SEEN];
        for at in words.into_iter().chain(more) {
            put(at, at as u64, 4);
        }
        let longs = [PACING_RATE, BYTES_ACKED, DELIVERY_RATE, BUSY_TIME];
        for at in longs.into_iter().chain([RWND_LIMITED, SNDBUF_LIMITED, BYTES_RETRANS]) {
            put(at, at as u64, 8);
        }
        answer
    }

    #[test]
    fn a_long_answer_fills_every_field() {
        let view = view(&answer()).unwrap();
        assert_eq!((view.cwnd_bytes, view.mss_bytes), (80 * 16, 16));
        assert_eq!((view.srtt_ns, view.rttvar_ns), (Some(68_000), Some(72_000)));
        assert_eq!((view.min_rtt_ns, view.retransmits), (Some(148_000), 100));
        assert_eq!((view.lost_segments, view.unacked_segments), (32, 24));
        assert_eq!(view.in_flight_bytes, Some(0), "24 + 36 - 28 - 32 segments");
        assert_eq!(view.phase, Some(CongestionPhase::Avoidance), "80 segments, from 76 on");
        assert_eq!((view.reordering_segments, view.reorderings), (Some(88), Some(220)));
        assert_eq!(view.delivery_rate_bps, Some(160 * 8));
        assert_eq!(view.pacing_rate_bps, Some(104 * 8));
        assert_eq!(view.busy_ns, Some(168_000));
        assert_eq!((view.rwnd_limited_ns, view.sndbuf_limited_ns), (Some(176_000), Some(184_000)));
        assert_eq!((view.bytes_acked, view.bytes_retrans), (Some(120), Some(208)));
        assert_eq!((view.segs_out, view.segs_in), (Some(136), Some(140)));
        assert_eq!((view.data_segs_out, view.data_segs_in), (Some(156), Some(152)));
        assert_eq!((view.notsent_bytes, view.snd_wnd_bytes), (Some(144), Some(228)));
    }

    #[test]
    fn a_field_that_the_answer_does_not_cover_is_absent() {
        let answer = answer();
        assert_eq!(view(&answer[..LEAST - 1]), None);
        let short = view(&answer[..LEAST]).unwrap();
        assert_eq!((short.retransmits, short.pacing_rate_bps), (100, None));
        assert_eq!(serde_json::to_value(short).unwrap().as_object().unwrap().len(), 10);
        // An answer that is one byte short of a field lacks it.
        assert_eq!(view(&answer[..PACING_RATE + 7]).unwrap().pacing_rate_bps, None);
        assert_eq!(view(&answer[..PACING_RATE + 8]).unwrap().pacing_rate_bps, Some(832));
        assert_eq!(view(&answer[..SND_WND + 3]).unwrap().snd_wnd_bytes, None);
        assert_eq!(view(&answer[..SND_WND + 4]).unwrap().snd_wnd_bytes, Some(228));
    }

    #[test]
    fn phases_are_those_of_the_state_and_of_the_gains() {
        let mut answer = answer();
        for (state, phase) in [
            (1, CongestionPhase::Avoidance),
            (2, CongestionPhase::Reduction),
            (3, CongestionPhase::Recovery),
            (4, CongestionPhase::Timeout),
        ] {
            answer[CA_STATE] = state;
            assert_eq!(view(&answer).unwrap().phase, Some(phase));
        }
        answer[CA_STATE] = 0;
        answer[SND_SSTHRESH..SND_SSTHRESH + 4].copy_from_slice(&0x7fff_ffffu32.to_ne_bytes());
        assert_eq!(view(&answer).unwrap().phase, Some(CongestionPhase::SlowStart));
        let gains = [(739, 739), (88, 739), (256, 256), (320, 512), (192, 512), (256, 512)];
        let phases = gains.map(|(pacing, window)| phase_of_gains(pacing, window).name());
        let probes = ["probe_bandwidth"; 3];
        assert_eq!(phases[..3], ["startup", "drain", "probe_round_trip"]);
        assert_eq!(phases[3..], probes);
    }

    #[test]
    fn what_arrived_in_any_order_is_said_once_a_packet_was_ahead() {
        let mut answer = answer();
        assert_eq!(parse(&answer).unwrap().arrived_in_any_order, None);
        answer[RCV_OOOPACK] = 1;
        assert_eq!(parse(&answer).unwrap().arrived_in_any_order, Some(152));
        assert_eq!(parse(&answer[..RCV_OOOPACK + 3]).unwrap().arrived_in_any_order, None);
    }

    #[test]
    fn what_the_kernel_marks_as_unknown_is_absent() {
        let mut answer = answer();
        answer[RTT..RTT + 4].fill(0);
        answer[MIN_RTT..MIN_RTT + 4].fill(0xff);
        answer[PACING_RATE..PACING_RATE + 8].fill(0xff);
        answer[DELIVERY_RATE..DELIVERY_RATE + 8].fill(0);
        let view = view(&answer).unwrap();
        assert_eq!((view.srtt_ns, view.rttvar_ns, view.min_rtt_ns), (None, None, None));
        assert_eq!((view.pacing_rate_bps, view.delivery_rate_bps), (None, None));
        assert!(!view.delivery_rate_app_limited);
    }

    #[test]
    fn this_kernels_answer_fits_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let sent = [7u8; 10_000];
        near.write_all(&sent).unwrap();
        far.read_exact(&mut [0; 10_000]).unwrap();
        // An answer acknowledges all bytes before it.
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
        let reader = ViewReader::new(near.as_fd()).unwrap();
        let view = read(&Socket::from(near)).unwrap().view;
        // Through a descriptor of its own, and once the connection's own one is closed.
        assert_eq!(reader.read().unwrap().flight_size_bytes, Some(0));
        assert!(ViewReader::new(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()).is_none());
        // The SYN counts as one byte, as in RFC 4898.
        assert!([10_000, 10_001].contains(&view.bytes_acked.unwrap()), "{view:?}");
        assert!(view.data_segs_out.unwrap() >= 1 && view.data_segs_in == Some(1), "{view:?}");
        assert!(view.mss_bytes > 500 && view.cwnd_bytes >= 10 * view.mss_bytes, "{view:?}");
        assert!(view.min_rtt_ns.unwrap() <= view.srtt_ns.unwrap() * 2, "{view:?}");
        assert_eq!((view.retransmits, view.notsent_bytes), (0, Some(0)));
        // Nothing overtakes on loopback.
        assert!(view.reordering_segments > Some(0) && view.reorderings.is_none_or(|n| n == 0));
        assert!(view.snd_wnd_bytes.is_none_or(|window| window > 0), "{view:?}");
    }
}
