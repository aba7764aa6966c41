//! Path MTU between two hosts with a router between them: announced, as a black hole in either direction, as one that begins
//! amid a race or on the way to one of two hosts, as jumbo frames, and with UDP blocked.
//!
//! Needs root, `ip` and `setpriv`, and `nft` for what vanishes; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::net::{FarServer, can, check_schema, outcome, run, served};

const FAR_V4: &str = "198.18.2.2";
const FAR_V6: &str = "2001:db8:2::2";

/// Two hosts and a router between them, each a network namespace; taken down on drop.
struct RoutedHosts {
    near: String,
    router: String,
    far: String,
}

impl RoutedHosts {
    /// Links of `mtu` bytes, and of `narrow` bytes between the router and the far host.
    fn new(name: &str, mtu: u32, narrow: u32) -> RoutedHosts {
        let id = std::process::id();
        let host = |end| format!("dh{id}mtu{name}{end}");
        let hosts = RoutedHosts { near: host("n"), router: host("r"), far: host("f") };
        let [near, router, far] = [&hosts.near, &hosts.router, &hosts.far].map(String::as_str);
        for host in [near, router, far] {
            run("ip", &["netns", "add", host]);
            run("ip", &["-n", host, "link", "set", "lo", "up"]);
        }
        for (host, link, net, mtu) in [(near, "r0", 1, mtu), (far, "r1", 2, narrow)] {
            let pair = ["type", "veth", "peer", "name", link, "netns", router];
            run("ip", &[&["-n", host, "link", "add", "v0"], &pair[..]].concat());
            for (host, device, last) in [(host, "v0", 2), (router, link, 1)] {
                let v6 = format!("2001:db8:{net}::{last}/64");
                let at = ["dev", device];
                let mtu = mtu.to_string();
                // A large buffer would stand for many packets, and have the size of none of them.
                let whole = ["mtu", &mtu, "gso_max_segs", "1", "up"];
                run("ip", &[&["-n", host, "link", "set"], &at[..], &whole].concat());
                run("ip", &[&["-n", host, "addr", "add", &v6], &at[..], &["nodad"]].concat());
                let v4 = format!("198.18.{net}.{last}/24");
                run("ip", &[&["-n", host, "addr", "add", &v4], &at[..]].concat());
            }
            for via in [format!("198.18.{net}.1"), format!("2001:db8:{net}::1")] {
                run("ip", &["-n", host, "route", "add", "default", "via", &via]);
            }
        }
        let forwards = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
        run("ip", &[&["netns", "exec", router, "sysctl", "-qw"], &forwards[..]].concat());
        hosts
    }

    /// Has the router drop what it forwards and `what` matches, without a message.
    fn drops(&self, what: &str) {
        let rules = format!(
            "add table inet hole; add chain inet hole way {{ type filter hook forward priority 0; }}; \
             add rule inet hole way {what} drop"
        );
        run("ip", &["netns", "exec", &self.router, "nft", &rules]);
    }

    /// Has the router send no messages of its own.
    fn is_mute(&self) {
        let rules = "add table inet mute; add chain inet mute out { type filter hook output priority 0; }; \
                     add rule inet mute out meta l4proto { icmp, icmpv6 } drop";
        run("ip", &["netns", "exec", &self.router, "nft", rules]);
    }

    fn serve(&self) -> FarServer {
        served(&self.far, "5210")
    }

    fn racing(&self, args: &str, dir: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.near, env!("CARGO_BIN_EXE_deadheat"), "race"])
            .args(["--idle", "host", "-q", "-o", "r.json"])
            .args(args.split_whitespace())
            .current_dir(dir);
        command
    }

    fn race(&self, args: &str, dir: &Path) -> Output {
        self.racing(&format!("--blocks 1 --margin 50% {args}"), dir).output().unwrap()
    }

    /// Runs a race that ends well, and returns its result.
    fn raced(&self, args: &str) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let output = self.race(args, dir.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{args}: {said}");
        let outcome = outcome(&dir.path().join("r.json"));
        check_schema(&outcome);
        outcome
    }
}

impl Drop for RoutedHosts {
    fn drop(&mut self) {
        for host in [&self.near, &self.router, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", host]).status();
        }
    }
}

/// Trials of a contender in which both ends did the work. On a busy host all of a short transfer may arrive in one call, which is
/// no rate, and makes the trial invalid: what it carried and was probed for is the same.
fn ran(outcome: &Value, contender: usize) -> Vec<&Value> {
    let all = outcome["trials"].as_array().unwrap().iter();
    all.filter(|trial| trial["contender"] == contender && trial["implementation"] != "").collect()
}

/// What probes found in the last trial of a contender.
fn found(outcome: &Value, contender: usize) -> &Value {
    let trials = ran(outcome, contender);
    &trials.last().unwrap_or_else(|| panic!("{contender}: {outcome:#}"))["path_mtu"]
}

fn blocked(outcome: &Value, contender: usize) -> &str {
    let why = outcome["contenders"][contender]["blocked"].as_str();
    why.unwrap_or_else(|| panic!("{contender}: {outcome:#}"))
}

fn warning<'a>(outcome: &'a Value, code: &str) -> Option<&'a str> {
    let mut all = outcome["warnings"].as_array().unwrap().iter();
    all.find(|warning| warning["code"] == code)?["message"].as_str()
}

fn mtu(kernel: u32, up: (u32, &str), down: (u32, &str)) -> Value {
    let way = |(bytes, beyond): (u32, &str)| json!({ "bytes": bytes, "beyond": beyond });
    json!({ "kernel_bytes": kernel, "up": way(up), "down": way(down) })
}

const BULK: &str = "-w bulk:bytes=200kB --blast";

#[test]
fn a_black_hole_is_named_and_contenders_over_udp_pass_it() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = RoutedHosts::new("h", 1_500, 1_500);
    hosts.drops("meta length > 1280");
    let _server = hosts.serve();
    // Messages of 1,400 bytes do not fit, and a size that was typed is left as it is.
    let many = "quic tcp kcp kcp:mtu=1500B udp tcp:mss=1200 kcp:via=relay";
    for (contenders, to) in [(many, FAR_V4), ("quic tcp", FAR_V6)] {
        let outcome = hosts.raced(&format!("{contenders} {BULK} --to {to}"));
        let hole = format!(
            "packets of more than 1280 bytes vanish on the way to {to} and back (no ICMP): a black hole"
        );
        for (number, contender) in contenders.split(' ').enumerate() {
            if matches!(contender, "tcp" | "udp" | "kcp:mtu=1500B") {
                let why = blocked(&outcome, number);
                assert!(why.contains(&hole) && why.contains("let ICMP pass"), "{why}");
                continue;
            }
            let want = mtu(1_500, (1_280, "vanish"), (1_280, "vanish"));
            assert_eq!(*found(&outcome, number), json!([{ "host": to, "mtu": want }]));
            let trial = ran(&outcome, number)[0];
            if !contender.starts_with("tcp") {
                assert_eq!(trial["effective"]["mtu"], "1280 B", "{contender}");
                assert_eq!(trial["effective"]["path_mtu_by"], "probes, larger ones vanish");
            }
        }
        let said = warning(&outcome, "black_hole").unwrap();
        assert!(said.starts_with(&hole), "{said}");
    }
}

/// What is too large on the way back is none of the business of an upload.
#[test]
fn a_black_hole_in_one_direction_stops_what_goes_that_way() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = RoutedHosts::new("b", 1_500, 1_500);
    hosts.drops("iifname r1 meta length > 1400");
    let _server = hosts.serve();
    let down = hosts.raced(&format!("tcp utp -w bulk:bytes=200kB,direction=down --to {FAR_V4}"));
    let why = blocked(&down, 0);
    assert!(why.contains("more than 1400 bytes vanish on the way back from 198.18.2.2"), "{why}");
    assert!(why.contains("the far end sends packets of 1500 bytes"), "{why}");
    assert_eq!(ran(&down, 1)[0]["effective"]["mtu"], "1400 B");
    let want = mtu(1_500, (1_500, "unsent"), (1_400, "vanish"));
    assert_eq!(*found(&down, 1), json!([{ "host": FAR_V4, "mtu": want }]));
    let up = hosts.raced(&format!("tcp -w bulk:bytes=200kB,direction=up --to {FAR_V4}"));
    let trials = ran(&up, 0);
    assert!(!trials.is_empty(), "{up:#}");
    for trial in trials {
        assert_eq!(trial["ledger"]["up"]["delivered"], 200_000, "{trial}");
    }
}

/// The far host's own link is narrow, and the router says nothing: TCP learns the size from the far host's SYN.
#[test]
fn a_router_without_icmp_is_a_black_hole_for_datagrams_alone() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = RoutedHosts::new("m", 1_500, 1_280);
    hosts.is_mute();
    let _server = hosts.serve();
    let outcome = hosts.raced(&format!("tcp quic kcp:mtu=1500B {BULK} --to {FAR_V4}"));
    let want = mtu(1_500, (1_280, "vanish"), (1_280, "announced"));
    for contender in 0..2 {
        assert_eq!(*found(&outcome, contender), json!([{ "host": FAR_V4, "mtu": want }]));
    }
    let why = blocked(&outcome, 2);
    assert!(why.contains("on the way to 198.18.2.2 (no ICMP)"), "{why}");
}

#[test]
fn a_black_hole_that_begins_amid_a_race_is_named_with_its_begin() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = RoutedHosts::new("l", 1_500, 1_500);
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    // More blocks than it takes to find the hole, on any host, which decide nothing at this margin.
    let work = "-w ping:size=1400,count=20,interval=2ms,timeout=300ms --blocks 60 --margin 0.1%";
    let mut racing = hosts.racing(&format!("udp tcp:mss=1200 {work} --to {FAR_V4}"), dir.path());
    racing.env("DEADHEAT_TEST_UNSETTLED", "1").stderr(Stdio::null()).stdout(Stdio::null());
    let mut racing = racing.spawn().unwrap();
    // A race is saved after its first block.
    let mut until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert_eq!(racing.try_wait().unwrap(), None, "the race ended early");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&|| dir.path().join("r.json").exists());
    hosts.drops("meta length > 1280");
    let is_found = || {
        let saved = std::fs::read_to_string(dir.path().join("r.json"));
        saved.is_ok_and(|text| text.contains("\"blocked\""))
    };
    until(&is_found);
    // SAFETY: kill(2) takes integers, and the process is a child that has not been waited for.
    unsafe { libc::kill(racing.id() as i32, libc::SIGINT) };
    racing.wait().unwrap();
    let outcome = outcome(&dir.path().join("r.json"));
    check_schema(&outcome);
    let why = blocked(&outcome, 0);
    assert!(why.contains("a black hole that began within the last"), "{why}");
    assert!(why.contains("as packets of 1500 bytes passed before"), "{why}");
    let said = warning(&outcome, "black_hole").unwrap();
    assert!(said.contains("began amid the race"), "{said}");
}

/// One of two far hosts is behind a black hole: both get packets that pass everywhere, and it is named.
#[test]
fn each_of_several_far_hosts_is_probed() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = RoutedHosts::new("s", 1_500, 1_500);
    run("ip", &["-n", &hosts.far, "addr", "add", "198.18.2.3/24", "dev", "v0"]);
    hosts.drops("ip daddr 198.18.2.3 meta length > 1300");
    let (_server, _other) = (hosts.serve(), served(&hosts.far, "5211"));
    let to = format!("--to {FAR_V4} --to 198.18.2.3:5211");
    let outcome = hosts.raced(&format!("tcp quic -w fanout:receivers=2,bytes=200kB {to}"));
    let why = blocked(&outcome, 0);
    assert!(why.contains("more than 1300 bytes vanish on the way to 198.18.2.3:5211 (no"), "{why}");
    let whole = (1_500, "unsent");
    let want = json!([
        { "host": FAR_V4, "mtu": mtu(1_500, whole, whole) },
        { "host": "198.18.2.3:5211", "mtu": mtu(1_500, (1_300, "vanish"), whole) },
    ]);
    assert_eq!(*found(&outcome, 1), want);
    let trial = ran(&outcome, 1)[0];
    assert_eq!(
        (&trial["effective"]["mtu"], &trial["far_effective"]["mtu"]),
        (&json!("1300 B"), &json!("1300 B"))
    );
}

#[test]
fn udp_that_is_blocked_is_told_from_udp_whose_answers_are() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    for (name, rule, want) in [
        ("u", "meta l4proto udp", "UDP to port 5210 of 198.18.2.2 does not arrive; TCP does"),
        ("v", "iifname r1 meta l4proto udp", "arrives, and its answers do not come back"),
    ] {
        let hosts = RoutedHosts::new(name, 1_500, 1_500);
        hosts.drops(rule);
        let _server = hosts.serve();
        let outcome = hosts.raced(&format!("tcp quic {BULK} --to {FAR_V4}"));
        let unknown = json!([{ "host": FAR_V4, "unknown": "udp_blocked" }]);
        assert_eq!(*found(&outcome, 0), unknown);
        let why = blocked(&outcome, 1);
        assert!(why.contains(want), "{why}");
    }
}

#[test]
fn an_announced_mtu_serves_all_contenders_over_both_ip_versions() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = RoutedHosts::new("a", 1_500, 1_280);
    let _server = hosts.serve();
    for to in [FAR_V4, FAR_V6] {
        let outcome = hosts
            .raced(&format!("quic tcp kcp -w bulk:bytes=200kB,direction=both --blast --to {to}"));
        for contender in 0..3 {
            let mtu = &found(&outcome, contender)[0]["mtu"];
            assert_eq!([&mtu["up"]["bytes"], &mtu["down"]["bytes"]], [1_280; 2], "{mtu}");
            if contender != 1 {
                assert_eq!(ran(&outcome, contender)[0]["effective"]["mtu"], "1280 B");
            }
        }
        assert_eq!(warning(&outcome, "black_hole"), None);
    }
    // The path is wide again, and both kernels remember for ten minutes that it was not.
    for (host, device) in [(&hosts.router, "r1"), (&hosts.far, "v0")] {
        run("ip", &["-n", host, "link", "set", device, "mtu", "1500"]);
    }
    for to in [FAR_V4, FAR_V6] {
        let outcome = hosts.raced(&format!("udp -w ping:count=20,interval=1ms --to {to}"));
        let mtu = &found(&outcome, 0)[0]["mtu"];
        assert_eq!([&mtu["up"]["bytes"], &mtu["down"]["bytes"]], [1_500; 2], "{mtu}");
    }
}

#[test]
fn jumbo_frames_are_used_where_the_whole_path_takes_them() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = RoutedHosts::new("j", 9_000, 4_000);
    let _server = hosts.serve();
    let outcome = hosts.raced(&format!("quic kcp kcp:mtu=1400B {BULK} --to {FAR_V4}"));
    for (contender, want) in [(0, "4000 B"), (1, "4000 B"), (2, "1400 B")] {
        let trials = ran(&outcome, contender);
        assert!(!trials.is_empty(), "{contender}: {outcome:#}");
        assert_eq!(trials[0]["effective"]["mtu"], want);
        assert_eq!(trials[0]["far_effective"]["mtu"], want);
    }
}
