//! Black hole on the way of a trial, which probes found before it: an end whose packets would vanish is refused at once,
//! as it would only wait for answers that cannot come.

use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::{Direction, Side};
use deadheat_contract::workload::Task;
use deadheat_datapath::transport::{Conn, ConnInfo, Contender};

/// Setting of the kernel with which TCP finds smaller packets by itself (Linux, ip-sysctl).
const TCP_PROBING: &str = "/proc/sys/net/ipv4/tcp_mtu_probing";

/// Data that an end sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndTraffic {
    /// Messages of at most so many bytes.
    Messages(u64),
    /// Bulk data, or such messages; it fills packets where the transport does not send each message as one.
    Bulk(u64),
}

/// Checks that the connections of an end send no packets of more than `hole` bytes, if the work makes them that large.
///
/// # Errors
/// [`Error::Blocked`] with the sizes.
pub(super) fn check(
    hole: Option<u32>,
    side: Side,
    contender: &Contender,
    task: &dyn Task,
    conns: &[Box<dyn Conn>],
) -> Result<()> {
    let (Some(hole), Some(conn)) = (hole.map(u64::from), conns.first()) else { return Ok(()) };
    let (own, end) = match side {
        Side::Near => (Direction::Up, "near end"),
        Side::Far => (Direction::Down, "far end"),
    };
    let info = task.info();
    if !info.flows.iter().any(|way| way.is_none_or(|way| way == own)) {
        return Ok(());
    }
    let message = info.largest_message as u64;
    let is_bulk = info.flows.iter().any(Option::is_some);
    let data = if is_bulk { EndTraffic::Bulk(message) } else { EndTraffic::Messages(message) };
    let is_userspace = contender.transport.info().is_kept_up;
    let conn = conn.info();
    if !is_userspace && conn.view.is_some() && tcp_looks_for_it() {
        return Ok(());
    }
    match largest(&conn, is_userspace, data) {
        Some(packet) if packet > hole => Err(Error::blocked(format!(
            "the {end} sends packets of {packet} bytes, and more than {hole} vanish on the way"
        ))),
        _ => Ok(()),
    }
}

/// Returns the size of the largest packets of a connection, headers included; `None` if it is unknown. The kernel fills
/// packets, or makes one for each message, unless a protocol in user space does, up to the MTU that it was given.
fn largest(conn: &ConnInfo, is_userspace: bool, data: EndTraffic) -> Option<u64> {
    let headers = conn.stats.headers?;
    let around = headers.in_each_packet();
    let (message, is_bulk) = match data {
        EndTraffic::Messages(message) => (message, false),
        EndTraffic::Bulk(message) => (message, true),
    };
    let single = message + headers.framing_bytes + around;
    let whole = match (is_userspace, conn.view) {
        (true, _) => headers.mtu?,
        // An IPv4 connection to a socket of IPv6 has smaller headers than that socket.
        (false, Some(view)) => (view.mss_bytes + around).min(headers.mtu?),
        // Each message is a datagram, or its first fragment is as large as a packet may be.
        (false, None) => return Some(single),
    };
    Some(if is_bulk { whole } else { single.min(whole) })
}

/// Returns true if the kernel here looks for smaller packets once TCP's vanish.
fn tcp_looks_for_it() -> bool {
    std::fs::read_to_string(TCP_PROBING).is_ok_and(|value| value.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{ConnStats, Headers, TcpView};

    fn conn(transport_bytes: u64, mss: Option<u64>) -> ConnInfo {
        let headers = Headers {
            ip_bytes: 20,
            transport_bytes,
            framing_bytes: 0,
            mtu: Some(1_500),
            packets: None,
        };
        let stats = ConnStats { headers: Some(headers), ..ConnStats::default() };
        let view = mss.map(|mss_bytes| TcpView { mss_bytes, ..TcpView::default() });
        ConnInfo { stats, view }
    }

    #[test]
    fn packets_are_as_large_as_segments_or_messages() {
        let (tcp, udp) = (conn(32, Some(1_448)), conn(8, None));
        let kernel = |conn, data| largest(conn, false, data);
        assert_eq!(kernel(&tcp, EndTraffic::Bulk(64)), Some(1_500));
        assert_eq!(kernel(&tcp, EndTraffic::Messages(64)), Some(116));
        assert_eq!(kernel(&tcp, EndTraffic::Messages(100_000)), Some(1_500));
        assert_eq!(kernel(&udp, EndTraffic::Messages(1_400)), Some(1_428));
        assert_eq!(kernel(&udp, EndTraffic::Bulk(1_400)), Some(1_428));
        assert_eq!(kernel(&ConnInfo::counted(ConnStats::default()), EndTraffic::Bulk(1_400)), None);
        for own in [conn(30, None), conn(30, Some(1_400))] {
            let userspace = |data| largest(&own, true, data);
            assert_eq!(userspace(EndTraffic::Bulk(64)), Some(1_500));
            assert_eq!(userspace(EndTraffic::Messages(64)), Some(114));
            assert_eq!(userspace(EndTraffic::Messages(16_384)), Some(1_500));
        }
    }
}
