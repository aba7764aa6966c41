//! Ways to a far host: two hosts with a router between them, over two links from the near one. Source address and
//! interface, fields of the IP header, addresses that do not answer, zones, and a NAT.
//!
//! Needs root, `ip` and `nft`; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::net::{FarServer, can, check_schema, outcome, run};

const FAR: &str = "10.91.9.2";
const FAR_V6: &str = "2001:db8:9::2";

/// Links of the near host and the far one to the router: the host, its device, the router's, the number of the network.
const LINKS: [(&str, &str, &str, u8); 3] =
    [("n", "v1", "r1", 1), ("n", "v2", "r2", 2), ("f", "v9", "r9", 9)];

/// Near host, router and far host; taken down on drop.
struct Routed(String);

impl Routed {
    fn new(name: &str) -> Routed {
        let hosts = Routed(format!("dw{}{name}", std::process::id()));
        for host in ["n", "r", "f"] {
            run("ip", &["netns", "add", &hosts.name(host)]);
            hosts.ip(host, "link set lo up");
        }
        for (host, device, router, net) in LINKS {
            let peer =
                format!("link add {device} type veth peer name {router} netns {}", hosts.name("r"));
            hosts.ip(host, &peer);
            for (place, device, at) in [(host, device, 2), ("r", router, 1)] {
                hosts.ip(place, &format!("addr add 10.91.{net}.{at}/24 dev {device}"));
                // Without duplicate address detection the address can be used at once.
                hosts.ip(place, &format!("addr add 2001:db8:{net}::{at}/64 dev {device} nodad"));
                hosts.ip(place, &format!("addr add fe80::{net}:{at}/64 dev {device} nodad"));
                hosts.ip(place, &format!("link set {device} up"));
            }
            let metric = u32::from(net) * 10;
            hosts.ip(host, &format!("route add default via 10.91.{net}.1 metric {metric}"));
            hosts.ip(host, &format!("-6 route add default via 2001:db8:{net}::1 metric {metric}"));
        }
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            hosts.sh("r", &format!("echo 1 > /proc/sys/net/{key}"));
        }
        hosts
    }

    fn name(&self, host: &str) -> String {
        format!("{}{host}", self.0)
    }

    fn ip(&self, host: &str, args: &str) {
        let name = self.name(host);
        run("ip", &[&["-n", &name][..], &args.split(' ').collect::<Vec<_>>()].concat());
    }

    fn sh(&self, host: &str, script: &str) {
        run("ip", &["netns", "exec", &self.name(host), "sh", "-c", script]);
    }

    /// Loads rules into the router.
    fn rules(&self, rules: &str) {
        run("ip", &["netns", "exec", &self.name("r"), "nft", rules]);
    }

    fn serve(&self, host: &str) -> FarServer {
        FarServer::start(&["ip", "netns", "exec", &self.name(host)], &[], "")
    }

    /// Races one block; returns its result and its screen.
    fn race(&self, contenders: &[&str], args: &[&str], dir: &Path) -> (Value, String) {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.name("n"), env!("CARGO_BIN_EXE_deadheat"), "race"])
            .args(contenders)
            .args(["-w", "ping:count=20,window=1", "--blocks", "1", "--idle", "host"])
            .args(["--details", "-q", "-o", "way.json"])
            .args(args)
            .current_dir(dir)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        let file = dir.join("way.json");
        let result = outcome(&file);
        std::fs::remove_file(file).unwrap();
        check_schema(&result);
        for contender in result["contenders"].as_array().unwrap() {
            assert_eq!(contender.get("blocked"), None, "{contender}");
            assert_eq!(contender.get("failed"), None, "{contender}");
        }
        // Lines are wrapped, so words are compared.
        let screen = String::from_utf8_lossy(&output.stdout).into_owned();
        (result, screen.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Packets that a device of the router has received.
    fn received(&self, device: &str) -> u64 {
        let file = format!("/sys/class/net/{device}/statistics/rx_packets");
        let name = self.name("r");
        let output = Command::new("ip").args(["netns", "exec", &name, "cat", &file]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        for host in ["n", "r", "f"] {
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).status();
        }
        let _ = std::fs::remove_dir_all(self.names());
    }
}

impl Routed {
    /// Folder of the files that replace those in /etc on the near host (ip-netns(8)).
    fn names(&self) -> PathBuf {
        Path::new("/etc/netns").join(self.name("n"))
    }
}

fn warnings(result: &Value, code: &str) -> Vec<String> {
    let all = result["warnings"].as_array().unwrap().iter();
    let own = all.filter(|warning| warning["code"] == code);
    own.map(|warning| warning["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_socket_leaves_from_the_address_and_the_interface_that_were_given() {
    if !can(&["ip"]) {
        return;
    }
    let hosts = Routed::new("s");
    let _server = hosts.serve("f");
    let dir = tempfile::tempdir().unwrap();
    let before = (hosts.received("r1"), hosts.received("r2"));
    let args = ["--to", FAR, "--source", "10.91.2.2", "--device", "v2"];
    let (result, screen) = hosts.race(&["tcp", "udp", "icmp", "quic"], &args, dir.path());
    let (usual, given) = (hosts.received("r1") - before.0, hosts.received("r2") - before.1);
    // The other link has the better route. IPv6 sends a few packets on its own.
    assert!(usual < 30 && given > 300, "{usual} and {given} packets");
    assert_eq!(result["asked"]["source"], "10.91.2.2");
    assert_eq!(result["path"]["reached"]["own_address"], "10.91.2.2");
    assert_eq!(result["path"]["reached"]["seen_as"], "10.91.2.2");
    for contender in result["contenders"].as_array().unwrap() {
        assert_eq!(contender["effective"]["source"], "10.91.2.2", "{contender}");
        assert_eq!(contender["effective"]["device"], "v2", "{contender}");
    }
    assert!(screen.contains("10.91.2.2, by v2; the far end sees the same"), "{screen}");
}

#[test]
fn an_address_or_interface_that_is_not_there_is_named() {
    if !can(&["ip"]) {
        return;
    }
    let hosts = Routed::new("e");
    let say = |args: &[&str]| {
        let output = Command::new("ip")
            .args(["netns", "exec", &hosts.name("n"), env!("CARGO_BIN_EXE_deadheat"), "race"])
            .args(["tcp", "udp", "-q"])
            .args(args)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = say(&["--to", FAR, "--source", "10.91.7.7"]);
    assert!(said.contains("no interface of this host has it"), "{said}");
    let said = say(&["--to", FAR, "--device", "v7"]);
    assert!(said.contains("this host has no such interface"), "{said}");
    let said = say(&["--source", "10.91.2.2"]);
    assert!(said.contains("both ends are on this machine"), "{said}");
    let said = say(&["--to", "fe80::1:1"]);
    assert!(said.contains("write fe80::1:1%eth0"), "{said}");
}

/// The router rewrites EF, both ways, and leaves AF41 alone.
#[test]
fn a_rewritten_dscp_is_found_and_another_is_not() {
    if !can(&["ip", "nft"]) {
        return;
    }
    let hosts = Routed::new("d");
    hosts.rules(
        "add table inet way; add chain inet way on { type filter hook forward priority 0; }; \
         add rule inet way on ip dscp ef ip dscp set cs1; \
         add rule inet way on ip6 dscp ef ip6 dscp set cs1",
    );
    let _server = hosts.serve("f");
    let dir = tempfile::tempdir().unwrap();
    let contenders = ["tcp:dscp=EF", "udp:dscp=46", "udp:dscp=AF41,ttl=9", "quic:dscp=EF,ecn=on"];
    for to in [FAR, FAR_V6] {
        let (result, screen) = hosts.race(&contenders, &["--to", to], dir.path());
        let option = |at: usize, end: &str, name: &str| {
            result["contenders"][at][end][name].as_str().unwrap_or("none").to_owned()
        };
        for at in [0, 1, 3] {
            assert_eq!(result["contenders"][at]["asked"]["dscp"], "EF");
            for end in ["effective", "far_effective"] {
                assert_eq!(option(at, end, "dscp"), "EF", "{to} {at} {end}");
            }
            assert_eq!(option(at, "far_effective", "arrived_dscp"), "CS1", "{to} {at}");
            assert_eq!(option(at, "far_effective", "arrived_ttl"), "63", "{to} {at}");
        }
        for end in ["effective", "far_effective"] {
            let found = ["dscp", "arrived_dscp", "ttl", "arrived_ttl"].map(|n| option(2, end, n));
            assert_eq!(found, ["AF41", "AF41", "9", "8"], "{to} {end}");
        }
        let found = warnings(&result, "dscp_rewritten");
        let about = |label: &str| found.iter().filter(|text| text.contains(label)).count();
        // The kernel does not report the header of a dialled TCP connection.
        assert_eq!((about("tcp:dscp=EF "), about("AF41"), found.len()), (1, 0, 5), "{found:#?}");
        assert!(screen.contains("packets left with TTL 9 and arrived with 8"), "{screen}");
    }
}

/// The name has both addresses, and nothing answers over IPv6.
#[test]
fn a_dead_ipv6_address_does_not_hold_the_race_up() {
    if !can(&["ip", "nft"]) {
        return;
    }
    let hosts = Routed::new("a");
    hosts.rules(
        "add table ip6 way; add chain ip6 way on { type filter hook forward priority 0; policy drop; }",
    );
    std::fs::create_dir_all(hosts.names()).unwrap();
    let names = format!("127.0.0.1 localhost\n{FAR_V6} far.test\n{FAR} far.test\n");
    std::fs::write(hosts.names().join("hosts"), names).unwrap();
    let _server = hosts.serve("f");
    let dir = tempfile::tempdir().unwrap();
    let (result, screen) = hosts.race(&["tcp", "udp"], &["--to", "far.test"], dir.path());
    let attempts = result["path"]["reached"]["attempts"].as_array().unwrap();
    let ends: Vec<(&str, &str)> = attempts
        .iter()
        .map(|one| (one["address"].as_str().unwrap(), one["end"].as_str().unwrap()))
        .collect();
    assert_eq!(
        ends,
        [("[2001:db8:9::2]:5210", "cancelled"), ("10.91.9.2:5210", "connected")],
        "{attempts:?}"
    );
    assert_eq!(result["path"]["address"], "10.91.9.2:5210");
    assert!(screen.contains("cancelled when another address had connected"), "{screen}");
}

#[test]
fn a_zone_names_the_link_of_a_local_address() {
    if !can(&["ip"]) {
        return;
    }
    let hosts = Routed::new("z");
    let _server = hosts.serve("r");
    let dir = tempfile::tempdir().unwrap();
    let args = ["--to", "fe80::1:1%v1", "--source", "fe80::1:2%v1"];
    let (result, _) = hosts.race(&["tcp", "udp", "quic"], &args, dir.path());
    for contender in result["contenders"].as_array().unwrap() {
        assert_eq!(contender["effective"]["source"], "fe80::1:2", "{contender}");
    }
}

#[test]
fn a_client_behind_a_nat_races_and_the_nat_is_named() {
    if !can(&["ip", "nft"]) {
        return;
    }
    let hosts = Routed::new("m");
    hosts.rules(
        "add table ip way; add chain ip way out { type nat hook postrouting priority srcnat; }; \
         add rule ip way out oifname r9 masquerade",
    );
    let _server = hosts.serve("f");
    let dir = tempfile::tempdir().unwrap();
    let (result, screen) = hosts.race(&["tcp", "udp", "quic", "icmp"], &["--to", FAR], dir.path());
    assert_eq!(result["path"]["reached"]["own_address"], "10.91.1.2");
    assert_eq!(result["path"]["reached"]["seen_as"], "10.91.9.1");
    assert!(screen.contains("the far end sees 10.91.9.1: a NAT is on the way"), "{screen}");
}

/// The router takes 20 Mbit/s up and 40 down in front of queues of 50 ms, translates addresses, and rewrites EF on the way
/// up. The survey leaves by the link that has the worse route.
#[test]
fn a_line_behind_a_nat_is_surveyed() {
    if !can(&["ip", "nft", "tc"]) {
        return;
    }
    let hosts = Routed::new("l");
    for (device, rate) in [("r9", "20mbit"), ("r2", "40mbit")] {
        let shape =
            format!("tc qdisc add dev {device} root tbf rate {rate} burst 16kb latency 50ms");
        hosts.sh("r", &shape);
    }
    hosts.rules(
        "add table ip way; add chain ip way out { type nat hook postrouting priority srcnat; }; \
         add rule ip way out oifname r9 masquerade; \
         add chain ip way on { type filter hook forward priority 0; }; \
         add rule ip way on oifname r9 ip dscp ef ip dscp set cs1",
    );
    let _server = hosts.serve("f");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("line.json");
    let surveyed = Command::new("ip")
        .args(["netns", "exec", &hosts.name("n"), env!("CARGO_BIN_EXE_deadheat"), "line", FAR])
        .args(["--source", "10.91.2.2", "--device", "v2"])
        .args(["--budget", "40s", "--seed", "1", "-o"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&surveyed.stdout);
    assert!(said.lines().count() <= 25, "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "gets through udp, tcp, tls",
        "NAT this host is 10.91.2.2, and the far end sees 10.91.9.1",
        "udp gets through: 20 of 20 small messages came back",
    ] {
        assert!(words.contains(part), "no `{part}`:\n{said}");
    }
    let line = outcome(&file);
    let survey = &line["surveys"][0];
    // A host on which the transports take all the time for it tries no marks.
    if let Some(marks) = survey["marks"].as_array().filter(|marks| marks.len() == 2) {
        let of = |dscp: &str| marks.iter().find(|mark| mark["dscp"] == dscp).unwrap();
        assert_eq!((&of("EF")["up"], &of("EF")["down"]), (&"CS1".into(), &"EF".into()), "{survey}");
        // Beside trials that do not count there may be no room for the rest of it.
        assert!(words.contains("AF41 arrives both ways; EF arrives as CS1 up"), "{said}");
    }
    let trials = survey["trials"].as_array().unwrap();
    assert!(!trials.is_empty() && survey["took_ns"].as_u64() < Some(60_000_000_000), "{survey}");
    let through = |id: &str| {
        let reach = survey["reach"].as_array().unwrap();
        let is_through = |one: &serde_json::Value| {
            let why = one["why_not"].as_str().unwrap_or_default();
            why.is_empty() || why.contains("no time was left")
        };
        reach.iter().any(|one| one["contender"] == id && is_through(one))
    };
    assert!(through("udp") && through("tcp") && through("quic"), "{survey}");
    has_figures(survey, &words);
}

/// Checks the goodput of a survey, and its delays one way, as far as trials of each kind ran and count.
fn has_figures(survey: &serde_json::Value, words: &str) {
    let trials = survey["trials"].as_array().unwrap();
    // Bytes that waited when the measuring began, for a retransmission or for the receiver's turn, are in a goodput, and may put
    // it above the link's rate; a host that holds an end up for a while may put one of them far below.
    let ran = |part: &str| trials.iter().any(|trial| trial["part"] == part);
    for (part, rate) in [("up_8", 20e6), ("down_8", 40e6)] {
        let own = trials.iter().filter(|trial| trial["part"] == part);
        let goodput: Vec<f64> =
            own.filter_map(|trial| trial["metrics"]["load_goodput_bps"].as_f64()).collect();
        let is_some = goodput.iter().any(|bps| *bps > 0.3 * rate);
        assert!(is_some || !ran(part), "{part}: {goodput:?} {trials:#?}");
    }
    // Where the host is busy, a trial may leave late, and so count nowhere; the answer then says so.
    let counts =
        |part: &str| trials.iter().any(|one| one["part"] == part && one["why_invalid"].is_null());
    let row = if counts("up_8") { "8 tcp up" } else { "Not counted: " };
    assert!(words.contains(row) || !ran("up_8"), "{words}");
    if !ran("paced") {
        return;
    }
    if !counts("paced") {
        assert!(
            words.contains(" ?") || words.contains("no trial of paced datagrams counts"),
            "{words}"
        );
        return;
    }
    assert!(words.contains("one way up ") && words.contains(", each ±"), "{words}");
    let figures = survey["figures"].as_array().unwrap();
    for name in ["one_way_up_ns", "one_way_down_ns"] {
        let figure = figures.iter().find(|figure| figure["name"] == name).unwrap();
        assert!(figure["clock_bound_ns"].as_u64() > Some(0), "{figure}");
    }
}
