//! Counters of the kernel's network code over a trial, for the whole network namespace: other programs on the host are
//! counted, too.
//!
//! Sources: /proc/net/snmp (IPv4, TCP, UDP: RFC 1213, kernel document `Documentation/networking/snmp_counter.rst`),
//! /proc/net/snmp6 (IPv6), and the second column of /proc/net/softnet_stat, which is for the whole machine.

use std::fs;

use deadheat_contract::measurements::HostCounters;

/// Returns the current reading; `None` if the kernel shows none.
pub fn read() -> Option<HostCounters> {
    let snmp = fs::read_to_string("/proc/net/snmp").ok()?;
    // Without IPv6, or without a queue per CPU, there is nothing to add.
    let snmp6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    let softnet = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    Some(parse(&snmp, &snmp6, &softnet))
}

/// Returns the counts since an earlier reading; `None` if either reading is missing.
pub fn since(earlier: Option<&HostCounters>) -> Option<HostCounters> {
    Some(read()?.since(earlier?))
}

fn parse(snmp: &str, snmp6: &str, softnet: &str) -> HostCounters {
    let old = |group: &str, name: &str| value(snmp, group, name);
    let new = |name: &str| value6(snmp6, name);
    let ip = |name: &str| old("Ip", name).saturating_add(new(&format!("Ip6{name}")));
    let udp = |name: &str| old("Udp", name).saturating_add(new(&format!("Udp6{name}")));
    HostCounters {
        fragmented: ip("FragOKs"),
        fragments_created: ip("FragCreates"),
        fragment_failures: ip("FragFails"),
        fragments_received: ip("ReasmReqds"),
        reassembled: ip("ReasmOKs"),
        reassembly_failures: ip("ReasmFails"),
        reassembly_timeouts: ip("ReasmTimeout"),
        udp_no_port: udp("NoPorts"),
        udp_receive_errors: udp("InErrors"),
        udp_receive_buffer_errors: udp("RcvbufErrors"),
        udp_send_buffer_errors: udp("SndbufErrors"),
        tcp_retransmits: old("Tcp", "RetransSegs"),
        backlog_drops: backlog_drops(softnet),
    }
}

/// Reads a value of /proc/net/snmp, where a line of names precedes each line of values; 0 if it is missing or, as a few
/// are, negative.
fn value(snmp: &str, group: &str, name: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Reads a value of /proc/net/snmp6: a name and a number on each line.
fn value6(snmp6: &str, name: &str) -> u64 {
    let mut pairs = snmp6.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    pairs.find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Returns the sum over all CPUs of the second column, which is hexadecimal.
fn backlog_drops(softnet: &str) -> u64 {
    let dropped = softnet.lines().filter_map(|line| line.split_whitespace().nth(1));
    dropped.filter_map(|hex| u64::from_str_radix(hex, 16).ok()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "\
Ip: Forwarding DefaultTTL ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates
Ip: 1 64 1 230 9 7 10 2 231
Tcp: RtoAlgorithm MaxConn RetransSegs
Tcp: 1 -1 17
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 100 3 5 200 4 6
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
UdpLite: 9 9 9 9 9 9
";
    const SNMP6: &str = "\
Ip6ReasmOKs                     \t20
Ip6FragCreates                  \t1000
Udp6RcvbufErrors                \t30
";
    const SOFTNET: &str = "0000a1b2 00000010 00000000\n0000c3d4 00000001 00000000\n";

    #[test]
    fn both_ip_versions_and_all_cpus_add_up() {
        let want = HostCounters {
            fragmented: 10,
            fragments_created: 1231,
            fragment_failures: 2,
            fragments_received: 230,
            reassembled: 29,
            reassembly_failures: 7,
            reassembly_timeouts: 1,
            udp_no_port: 3,
            udp_receive_errors: 5,
            udp_receive_buffer_errors: 34,
            udp_send_buffer_errors: 6,
            tcp_retransmits: 17,
            backlog_drops: 17,
        };
        assert_eq!(parse(SNMP, SNMP6, SOFTNET), want);
        assert_eq!(parse("", "what is this", "zz zz\n"), HostCounters::default());
        assert_eq!(parse("Ip: FragOKs\n", "", ""), HostCounters::default());
    }

    #[test]
    fn a_datagram_to_a_closed_port_is_counted_meanwhile() {
        let before = read();
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"anyone?", gone).unwrap();
        assert!(since(before.as_ref()).unwrap().udp_no_port >= 1);
        assert_eq!(since(None), None);
    }
}
