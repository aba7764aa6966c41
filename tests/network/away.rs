//! Hosts around a router: several clients at one server at once, a link that is down amid a race, a client that
//! vanishes, and a server for one client.
//!
//! Needs root, `ip`, `sysctl` and, for the client that vanishes, `nft`; says so and passes where they are missing.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::net::{FarServer, PATIENCE, can, outcome, run};

pub(super) const FAR: &str = "198.18.100.2";

/// Clients, a router and a far host, each a network namespace; taken down on drop.
pub(super) struct Star {
    pub(super) near: Vec<String>,
    pub(super) router: String,
    pub(super) far: String,
}

impl Star {
    pub(super) fn new(name: &str, clients: usize) -> Star {
        let named = |what: &str| format!("dh{}star{name}{what}", std::process::id());
        let near = (0..clients).map(|client| named(&client.to_string())).collect();
        let star = Star { near, router: named("r"), far: named("f") };
        for host in star.near.iter().chain([&star.router, &star.far]) {
            run("ip", &["netns", "add", host]);
            run("ip", &["-n", host, "link", "set", "lo", "up"]);
        }
        run("ip", &["netns", "exec", &star.router, "sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        for (client, host) in star.near.iter().enumerate() {
            star.link(host, &format!("n{client}"), &format!("198.18.{client}"));
        }
        star.link(&star.far, "far", "198.18.100");
        star
    }

    /// Connects a host to the router, whose device is called `device`.
    fn link(&self, host: &str, device: &str, net: &str) {
        let router = self.router.as_str();
        run(
            "ip",
            &[
                "-n", router, "link", "add", device, "type", "veth", "peer", "name", "v0", "netns",
                host,
            ],
        );
        for (at, device, last) in [(router, device, 1), (host, "v0", 2)] {
            run("ip", &["-n", at, "addr", "add", &format!("{net}.{last}/24"), "dev", device]);
            run("ip", &["-n", at, "link", "set", device, "up"]);
        }
        run("ip", &["-n", host, "route", "add", "default", "via", &format!("{net}.1")]);
    }

    fn serve(&self, options: &[&str]) -> FarServer {
        self.serve_on(&self.far, options, "")
    }

    /// Serves on a host, whose far ends have the clock `clock`, or the host's.
    pub(super) fn serve_on(&self, host: &str, options: &[&str], clock: &str) -> FarServer {
        FarServer::start(&["ip", "netns", "exec", host], options, clock)
    }

    /// Waits until a client has sent so many bytes.
    fn has_sent(&self, client: usize, bytes: u64) {
        let counter = format!("/sys/class/net/n{client}/statistics/rx_bytes");
        let sent = || {
            let mut cat = Command::new("ip");
            let output = cat.args(["netns", "exec", &self.router, "cat", &counter]).output();
            String::from_utf8_lossy(&output.unwrap().stdout).trim().parse::<u64>().unwrap()
        };
        let began = Instant::now();
        while sent() < bytes {
            assert!(began.elapsed() < PATIENCE, "{client} has sent {} B", sent());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a race of a client.
    pub(super) fn race(&self, client: usize, args: &[&str], dir: &Path) -> Child {
        Command::new("ip")
            .args(["netns", "exec", &self.near[client], env!("CARGO_BIN_EXE_deadheat"), "race"])
            .args(["--idle", "host", "--to", FAR, "-o", &format!("{client}.json")])
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        for host in self.near.iter().chain([&self.router, &self.far]) {
            let _ = Command::new("ip").args(["netns", "del", host]).status();
        }
    }
}

pub(super) fn ended(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3 where this host was too busy to trust a verdict.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {said}", output.status);
    output
}

#[test]
fn four_races_from_four_hosts_run_at_once_and_none_is_lost() {
    if !can(&["ip"]) {
        return;
    }
    let star = Star::new("q", 4);
    let server = star.serve(&["--trials", "4"]);
    let dir = tempfile::tempdir().unwrap();
    let args = ["tcp", "udp", "-w", "ping:count=200,interval=2ms", "--blocks", "2", "-q"];
    let races: Vec<Child> = (0..4).map(|client| star.race(client, &args, dir.path())).collect();
    for (client, race) in races.into_iter().enumerate() {
        ended(race);
        let outcome = outcome(&dir.path().join(format!("{client}.json")));
        assert_eq!(outcome["status"], "budget", "all its blocks ran, and decide nothing");
        let trials = outcome["trials"].as_array().unwrap();
        let is_counted =
            |trial: &&serde_json::Value| trial["ledger"]["up"]["sent"].as_u64() > Some(0);
        assert!(trials.iter().filter(is_counted).count() >= 6, "{trials:#?}");
        assert!(trials.iter().all(|trial| trial["lost_ms"].is_null()));
    }
    server.line(0, "trials at once");
    assert!(server.lines.lock().unwrap().iter().all(|(_, line)| !line.contains(" waits, ")));
}

/// Seconds for which the link is down; `make soak` makes them 30.
fn down_for() -> u64 {
    std::env::var("DEADHEAT_DOWN_SECONDS").map_or(7, |text| text.parse().unwrap())
}

/// For longer than the heartbeat bears, in both directions at once.
#[test]
fn a_race_survives_a_link_that_is_down() {
    if !can(&["ip"]) {
        return;
    }
    let star = Star::new("d", 1);
    let server = star.serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let work = "ping:count=100,interval=1ms,timeout=200ms";
    let race =
        star.race(0, &["tcp", "udp", "-w", work, "--blocks", "5", "--patience", "60s"], dir.path());
    // The pilot and a block.
    server.line(6, " started");
    run("ip", &["-n", &star.router, "link", "set", "far", "down"]);
    std::thread::sleep(Duration::from_secs(down_for()));
    run("ip", &["-n", &star.router, "link", "set", "far", "up"]);
    let said = String::from_utf8_lossy(&ended(race).stderr).into_owned();
    let outcome = outcome(&dir.path().join("0.json"));
    assert_eq!(outcome["plan"]["blocks_max"], 5);
    let trials = outcome["trials"].as_array().unwrap();
    assert!(trials.iter().any(|trial| trial["block"] == 4), "{said}");
    for contender in outcome["contenders"].as_array().unwrap() {
        let out = ["blocked", "failed", "limited"].iter().find(|out| !contender[**out].is_null());
        assert_eq!(out, None, "{contender}");
    }
    let lost: Vec<&serde_json::Value> =
        trials.iter().filter(|trial| trial["lost_ms"].is_u64()).collect();
    assert!(!lost.is_empty() && lost.iter().all(|trial| trial["valid"] == false), "{said}");
    assert!(said.contains("waiting for 198.18.100.2 since "), "{said}");
    assert!(said.contains("answers again after "), "{said}");
    let warnings = outcome["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "far_end_away"), "{warnings:#?}");
    let absences = outcome["absences"].as_array().unwrap();
    assert!(
        !absences.is_empty()
            && absences.iter().all(|one| one["to_ms"].as_u64() > one["from_ms"].as_u64()),
        "{said}"
    );
}

/// In the middle of a measured phase, without a packet that says so; another one waits for the turn. Of the trial's 30 s the
/// server waits for no more than it takes to know: five seconds, on a host that is not late.
#[test]
fn the_place_of_a_client_that_vanishes_is_free_amid_its_trial() {
    if !can(&["ip", "nft"]) {
        return;
    }
    let star = Star::new("v", 2);
    let server = star.serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let long = ["udp", "-w", "cbr:rate=1mbit,time=30s", "--blocks", "1", "--patience", "0s", "-q"];
    let mut vanishes = star.race(0, &long, dir.path());
    server.line(0, " started");
    let short = ["udp", "-w", "ping:count=50,interval=1ms", "--blocks", "1", "-q"];
    let waits = star.race(1, &short, dir.path());
    server.line(0, " waits, ");
    // More than it sends until the trial begins, which is a second of it.
    star.has_sent(0, 100_000);
    let table = "add table ip d; add chain ip d c { type filter hook forward priority 0; };
                 add rule ip d c iifname n0 drop; add rule ip d c oifname n0 drop;";
    run("ip", &["netns", "exec", &star.router, "nft", table]);
    let (_, line) = server.line(0, " abandoned after");
    assert!(line.contains("the client "), "{line}");
    server.line(1, " started");
    ended(waits);
    let _ = vanishes.kill();
    let _ = vanishes.wait();
}

#[test]
fn a_server_for_one_client_ends_after_its_race() {
    if !can(&["ip"]) {
        return;
    }
    let star = Star::new("o", 1);
    let mut server = star.serve(&["--once"]);
    let dir = tempfile::tempdir().unwrap();
    let args = ["udp", "-w", "ping:count=50,interval=1ms", "--blocks", "2", "-q"];
    ended(star.race(0, &args, dir.path()));
    assert!(server.child.wait().unwrap().success());
    let (_, line) = server.line(0, "stopped; ");
    assert!(line.contains("trials of 1 clients"), "{line}");
}
