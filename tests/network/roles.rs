//! Roles of hosts in an emulated network: what runs where is in the account of each link.
//!
//! Needs what tests/network/emulated.rs needs; a relay by TURN is skipped where coturn is not installed.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use serde_json::{Value, json};

use crate::emulated::{DEADHEAT, can, count, race, race_blocks, works};
use crate::net::ran;
use crate::remote::race_blocks_across;

/// Packets that arrived in one direction of a link in a trial.
fn arrived(trial: &Value, link: usize, way: &str) -> u64 {
    count(&trial["path"]["links"][link][way]["fates"]["arrived"])
}

/// Bytes likewise.
fn arrived_bytes(trial: &Value, link: usize, way: &str) -> u64 {
    count(&trial["path"]["links"][link][way]["fates"]["arrived_bytes"])
}

/// Relayed packets cross the links to and from the relay's host and not the direct one; the others that one alone.
#[test]
fn a_relay_runs_at_its_own_host() {
    if !can() {
        return;
    }
    let mut contenders = vec!["udp", "tcp", "udp:via=relay", "tcp:via=relay", "quic:via=relay"];
    if works("turnserver", &["--version"]) {
        contenders.push("udp:via=coturn");
    }
    let path = "a--b:delay=4ms,near=a,far=b,relay=r + a--r:delay=6ms + r--b:delay=10ms";
    let outcome = race(&contenders, path, "ping:count=50,interval=4ms,timeout=20s");
    let roles = &outcome["path"]["built"]["roles"];
    assert_eq!(*roles, json!({ "near": ["a"], "far": ["b"], "relay": ["r"] }));
    for trial in ran(&outcome) {
        let contender = contenders[count(&trial["contender"]) as usize];
        let is_relayed = contender.contains("via=");
        let least = if is_relayed { 32_000_000 } else { 8_000_000 };
        assert!(count(&trial["rtt_ns"]["min"]) >= least, "{contender}: {}", trial["rtt_ns"]);
        let [direct, there, on] = [0, 1, 2].map(|link| arrived(trial, link, "up"));
        let (used, unused) =
            if is_relayed { (there.min(on), direct) } else { (direct, there + on) };
        // A relay that a busy host holds up passes several messages of a connection on as one.
        assert!(used > 5 && unused == 0, "{contender}: {direct}, {there} and {on} packets");
    }
}

/// Three far ends are dealt over two hosts: two at the first.
#[test]
fn receivers_run_at_hosts_of_their_own() {
    if !can() {
        return;
    }
    let path = "a--r:delay=1ms,near=a,receivers=c/b + r--b:delay=2ms + r--c:delay=3ms";
    let outcome = race(&["tcp", "udp"], path, "fanout:receivers=3,bytes=200kB");
    assert_eq!(outcome["path"]["built"]["roles"]["receivers"], json!(["c", "b"]));
    for trial in ran(&outcome).into_iter().filter(|trial| trial["contender"] == 0) {
        let [all, b, c] = [0, 1, 2].map(|link| arrived_bytes(trial, link, "up"));
        assert!(all >= 600_000 && b >= 200_000 && c >= 400_000, "{all}, {b} and {c} bytes");
        assert!(b < 300_000, "{b} bytes at the second");
    }
}

/// The load crosses the link in the middle, whose queue the pings find full, and none of the pings' other links.
#[test]
fn a_load_runs_between_two_hosts_of_its_own() {
    if !can() {
        return;
    }
    let path = "a--i,near=a,far=b,load=x/y + i--j:delay=5ms,rate=20mbit + j--b + x--i + j--y";
    let outcome = race(&["udp"], path, "ping:count=50,interval=10ms,timeout=20s,load=tcp");
    for trial in ran(&outcome) {
        let [own, shared, far] = [0, 1, 2].map(|link| arrived_bytes(trial, link, "up"));
        let [from_x, to_y] = [3, 4].map(|link| arrived_bytes(trial, link, "up"));
        assert!(own < 50_000 && far < 50_000, "{own} and {far} bytes of the pings");
        assert!(from_x > 100_000 && to_y > 100_000, "{from_x} and {to_y} bytes of the load");
        assert!(shared > to_y, "{shared} bytes in the middle, {to_y} of them of the load");
        assert!(trial["metrics"]["load_goodput_bps"].as_f64().unwrap() > 1e6, "{trial}");
    }
}

/// Returns the interval of the median ratio of round trips, through the relay over directly: the least and the greatest of
/// n blocks hold it with 1 - 2 / 2^n (order statistics), of six with 97 %.
fn ratio_interval(outcome: &Value) -> [f64; 2] {
    let blocks = ran(outcome).iter().map(|trial| count(&trial["block"]) + 1).max().unwrap();
    assert!(blocks >= 6, "{blocks} blocks");
    let ratios: Vec<f64> = (0..blocks)
        .map(|block| {
            let [direct, relayed] = [0, 1].map(|contender| {
                let mut trials = ran(outcome).into_iter();
                let is_own = |trial: &&Value| {
                    trial["block"] == block
                        && trial["contender"] == contender
                        && trial["control"] != true
                };
                trials.find(is_own).unwrap()["rtt_ns"]["p50"].as_f64().unwrap()
            });
            relayed / direct
        })
        .collect();
    [ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max)]
}

/// The same race on an emulated network and to a server on its far host, with the relay's server on its third host: the
/// links make both ways 80 and 100 ms long, and the intervals of their ratio overlap.
#[test]
fn a_relay_at_a_third_host_takes_the_same_time_with_a_server_there() {
    if !can() {
        return;
    }
    let path = "a--b:delay=40ms,near=a,far=b,relay=r + a--r:delay=20ms + r--b:delay=30ms";
    let work = "ping:interval=10ms,count=60,warmup=3";
    let emulated = race_blocks("6", &["udp", "udp:via=relay"], path, work);
    let dir = tempfile::tempdir().unwrap();
    let far = format!("exec {DEADHEAT} serve -q");
    let relay = format!("r=exec {DEADHEAT} serve -q --relay-to 198.18.0.0/16");
    let network = [path, "--on", &relay, "--far", &far, "--far-ready", "5210"];
    let relayed = "udp:via=relay@198.18.1.2";
    let args = ["udp", relayed, "-w", work, "--margin", "5%", "--to", "198.18.0.2"];
    let served = race_blocks_across("6", &network, &args, dir.path());
    for (contender, least) in [(0, 80_000_000), (1, 100_000_000)] {
        for trial in [&emulated, &served].into_iter().flat_map(ran) {
            let is_own = trial["contender"] == contender;
            assert!(!is_own || count(&trial["rtt_ns"]["min"]) >= least, "{trial}");
        }
    }
    let [one, other] = [&emulated, &served].map(ratio_interval);
    assert!(one[0] <= other[1] && other[0] <= one[1], "{one:?} and {other:?}");
}

/// The link is down for 700 ms.
#[test]
fn a_connection_outlives_a_link_that_is_down_for_a_while() {
    if !can() {
        return;
    }
    let outcome =
        race(&["udp", "tcp", "quic"], "delay=2ms,down=400ms-1100ms", "ping:interval=20ms,count=80");
    for trial in ran(&outcome) {
        let outages = trial["outages"].as_array().unwrap();
        let longest = outages.iter().max_by_key(|outage| count(&outage["length_ns"])).unwrap();
        assert_eq!(longest["ended"], true, "{trial}");
        assert!(count(&longest["length_ns"]) >= 600_000_000, "{longest}");
    }
}

/// Two flows of CUBIC with round trips of their own share the one bottleneck of a dumbbell, and each has a part of it.
#[test]
fn cubic_beside_cubic_shares_the_bottleneck_of_a_dumbbell() {
    if !can() {
        return;
    }
    let path = "dumbbell:rate=20mbit,delay=5ms|10ms,queue=2bdp,load=sender-2/receiver-2";
    let work = "bulk:time=900ms,warmup=300ms,load=tcp:cc=cubic,load-lead=0s";
    let outcome = race(&["tcp:cc=cubic"], path, work);
    for trial in ran(&outcome) {
        let [first, second, shared] = [0, 1, 2].map(|link| arrived_bytes(trial, link, "up"));
        assert!(first > 100_000 && second > 100_000, "{first} and {second} bytes");
        assert!(shared <= first + second, "{shared} of {first} and {second} bytes");
        let figure = |name: &str| trial["metrics"][name].as_f64().unwrap();
        let both = figure("goodput_bps") + figure("load_goodput_bps");
        assert!((8e6..20.5e6).contains(&both), "{both} bit/s: {trial}");
        let share = figure("load_goodput_share");
        assert!((0.05..0.95).contains(&share), "{share}");
        assert!((figure("flow_least_share") - share.min(1.0 - share)).abs() < 0.01, "{trial}");
    }
}
