//! NATs of an emulated network, as a STUN test of others sees them: coturn's `turnutils_natdiscovery` (RFC 5780) behind a
//! router, and its `turnserver` at a far host with two links and thus two addresses.
//!
//! Needs the right to make network namespaces, and coturn; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use std::process::Command;
use std::thread;

use serde_json::Value;

use super::emulated::race;
use super::net::ran;
use super::path::{DEADHEAT, can};

/// Server at both addresses of the far host: RFC 5780 asks for two.
const SERVER: &str = "turnserver -n --no-auth --no-cli --no-tls --no-dtls --no-tcp --no-tcp-relay \
    --pidfile=/dev/null --userdb=:memory: --log-file=stdout --relay-threads=1 \
    --listening-ip=198.18.2.2 --listening-ip=198.18.3.2 --relay-ip=198.18.2.2 >/dev/null";

/// Returns the answers of the STUN test behind a NAT.
fn discovered(nat: &str, options: &str) -> String {
    let path = format!(
        "client--home:delay=1ms + home--isp:delay=2ms,{nat} + isp--cloud:delay=1ms + isp--cloud:delay=1ms,\
         near=client,far=cloud"
    );
    let command = format!("turnutils_natdiscovery {options} -L 198.18.0.1 198.18.2.2");
    let output = Command::new(DEADHEAT)
        .args(["path", "run", "-q", &path, "--far", SERVER, "--far-ready", "3478", "--"])
        .args(command.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("RFC 5780 response"), "{nat}: {output:?}");
    said
}

#[test]
fn a_stun_test_of_others_sees_each_class_as_what_was_written() {
    if !can("tun", &["turnserver", "turnutils_natdiscovery"]) {
        return;
    }
    let dependences = ["Endpoint Independent", "Address Dependent", "Address and Port Dependent"];
    let by_class = |mapping: usize, filtering: usize| {
        let nat = format!(
            "nat={}/{}",
            ["eim", "adm", "apdm"][mapping],
            ["eif", "adf", "apdf"][filtering]
        );
        let said = discovered(&nat, "-m -f");
        for seen in [
            format!("NAT with {} Mapping!", dependences[mapping]),
            format!("NAT with {} Filtering!", dependences[filtering]),
        ] {
            assert!(said.contains(&seen), "{nat} is not seen as {seen}: {said}");
        }
    };
    let hairpins = "Received a request (maybe a successful hairpinning)";
    thread::scope(|scope| {
        for (mapping, filtering) in (0..9).map(|n| (n / 3, n % 3)) {
            scope.spawn(move || by_class(mapping, filtering));
        }
        scope.spawn(|| {
            let said = discovered("nat=full-cone", "-H");
            assert!(said.contains(hairpins), "{said}");
        });
        scope.spawn(|| {
            let said = discovered("nat=full-cone,hairpin=off", "-H");
            assert!(!said.contains(hairpins) && said.contains("timeout"), "{said}");
        });
        scope.spawn(|| {
            let said = discovered("nat=full-cone,nat-timeout=2s", "-t -T 1");
            assert!(!said.contains("timeout"), "{said}");
            let said = discovered("nat=full-cone,nat-timeout=1s", "-t -T 2");
            assert!(said.contains("timeout"), "{said}");
        });
    });
}

/// A link behind the NAT takes smaller packets, and its router's errors are about translated ones.
#[test]
fn errors_of_icmp_come_back_through_a_nat() {
    if !can("tun", &["ping", "ip"]) {
        return;
    }
    let path = "client--home + home--isp:nat=symmetric + isp--cloud,near=client,far=cloud";
    let output = Command::new(DEADHEAT)
        .args(["path", "run", "-q", path, "--on", "isp=ip link set dev dh2 mtu 1300", "--"])
        .args(["ping", "-4", "-c", "1", "-M", "do", "-s", "1400", "198.18.2.2"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Frag needed and DF set (mtu = 1300)"), "{output:?}");
}

/// Network of a host with IPv6 alone, a NAT64 and a server whose IPv6 it does not reach.
const NAT64: &str =
    "phone--gate:ip=6,delay=1ms + gate--isp:nat=64,delay=1ms + isp--server,near=phone,far=server";

/// TCP, and datagrams of UDP in fragments, both ways: packets of IPv4 grow by 20 bytes.
#[test]
fn programs_of_others_reach_a_host_with_ipv4_from_one_with_ipv6() {
    if !can("tun", &["ping", "iperf3"]) {
        return;
    }
    let commands = "ping -c 1 server && iperf3 -c server -n 2M && iperf3 -c server -n 2M -R \
        && iperf3 -c server -u -l 4000 -b 8M -n 80k && iperf3 -c server -u -l 4000 -b 8M -n 80k -R";
    let output = Command::new(DEADHEAT)
        .args(["path", "run", "-q", NAT64, "--far", "iperf3 -s >/dev/null", "--far-ready", "5201"])
        .args(["--", "sh", "-c", commands])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("64 bytes from server (64:ff9b::c612:202)"), "{said}");
    assert_eq!(said.matches("(0%)  receiver").count(), 2, "{said}");
}

#[test]
fn a_router_announces_its_mtu_through_a_nat64() {
    if !can("tun", &["ping"]) {
        return;
    }
    let path = NAT64.replace("isp--server", "isp--server:mtu=1300");
    let output = Command::new(DEADHEAT)
        .args([
            "path", "run", "-q", &path, "--", "ping", "-c", "1", "-M", "do", "-s", "1400", "server",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("From isp (64:ff9b::c612:102)") && said.contains("mtu=1320"), "{said}");
}

#[test]
fn transports_of_our_own_race_through_a_nat64() {
    if !can("tun", &[]) {
        return;
    }
    let result = race(&["tcp", "udp", "quic"], NAT64, "ping:count=20,warmup=1");
    for trial in ran(&result) {
        assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
        assert_eq!(trial["path"]["links"][1]["up"]["fates"]["blocked"], Value::Null, "{trial}");
    }
}

#[test]
fn transports_of_our_own_race_through_two_nats_in_a_row() {
    if !can("tun", &[]) {
        return;
    }
    let path = "near--cpe:delay=1ms + cpe--carrier:delay=1ms,nat=port-restricted + \
                carrier--cloud:delay=1ms,nat=symmetric";
    let result = race(&["tcp", "udp", "quic"], path, "ping:count=20,warmup=1");
    for trial in ran(&result) {
        assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
        for link in trial["path"]["links"].as_array().unwrap() {
            assert_eq!(link["down"]["fates"]["blocked"], Value::Null, "{trial}");
        }
    }
}
