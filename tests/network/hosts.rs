//! More than one far host: relays on a third one, receivers and parts of a mix on several, and the clocks of each.
//!
//! Needs root, `ip` and, for what is blocked, `nft`; says so and passes where they are missing.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::away::{FAR, Star, ended};
use crate::net::{can, check_schema, outcome, ran, run};
use crate::runs_all;

/// Hosts of a star beside the near one.
const RELAY: &str = "198.18.1.2";
const OTHER: &str = "198.18.2.2";

/// Races from the first host of a star; returns the result.
fn race(star: &Star, args: &[&str], dir: &Path) -> Value {
    let short = ["--blocks", "1", "--margin", "50%", "-q"];
    ended(star.race(0, &[args, &short].concat(), dir));
    let result = outcome(&dir.join("0.json"));
    std::fs::remove_file(dir.join("0.json")).unwrap();
    check_schema(&result);
    result
}

/// Debian's coturn on a host; ended when dropped.
struct TurnServer(Child);

impl Drop for TurnServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn turn_server(host: &str, ip: &str) -> TurnServer {
    let child = Command::new("ip")
        .args([
            "netns",
            "exec",
            host,
            "turnserver",
            "-n",
            "--no-auth",
            "--no-cli",
            "--no-tls",
            "--no-dtls",
        ])
        .args([
            "--no-tcp",
            "--no-tcp-relay",
            "--pidfile=/dev/null",
            "--userdb=:memory:",
            "--log-file=stdout",
        ])
        .args([format!("--listening-ip={ip}"), format!("--relay-ip={ip}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = TurnServer(child.unwrap());
    // Its UDP port, 3478, as the host's kernel lists it.
    let listens = || {
        let sockets =
            Command::new("ip").args(["netns", "exec", host, "cat", "/proc/net/udp"]).output();
        String::from_utf8_lossy(&sockets.unwrap().stdout).contains(":0D96 ")
    };
    let deadline = Instant::now() + Duration::from_secs(40);
    while !listens() {
        assert!(Instant::now() < deadline, "coturn does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// Datagrams from the near host to the far one are blocked, so that only relayed ones arrive; a relay and a TURN server
/// are on two further hosts.
#[test]
fn relays_and_turn_servers_on_third_hosts_carry_what_the_direct_way_blocks() {
    if !can(&["ip", "nft"]) {
        return;
    }
    let star = Star::new("y", 3);
    let block = "add table ip d; add chain ip d c { type filter hook forward priority 0; };
                 add rule ip d c iifname n0 oifname far ip protocol udp drop;
                 add rule ip d c iifname far oifname n0 ip protocol udp drop;";
    run("ip", &["netns", "exec", &star.router, "nft", block]);
    let _far = star.serve_on(&star.far, &[], "");
    let relay = star.serve_on(&star.near[1], &["--relay-to", "198.18.100.0/24"], "");
    let closed = star.serve_on(&star.near[1], &["--port", "5211"], "");
    let narrow = ["--port", "5212", "--relay-to", FAR, "--max-rate", "1mbit"];
    let _narrow = star.serve_on(&star.near[1], &narrow, "");
    let dir = tempfile::tempdir().unwrap();
    let [udp, tcp, quic] = ["udp", "tcp", "quic"].map(|one| format!("{one}:via=relay@{RELAY}"));
    let refused = format!("udp:via=relay@{RELAY}:5211");
    let absent = format!("udp:via=relay@{RELAY}:5213");
    let mut contenders = vec![&*udp, &*tcp, &*quic, &*refused, &*absent];
    let turn = format!("udp:via=turn:{OTHER}");
    let turn_is_here = can(&["turnserver"]);
    let _turn = turn_is_here.then(|| turn_server(&star.near[2], OTHER));
    if turn_is_here {
        contenders.push(&turn);
    }
    let result =
        race(&star, &[&contenders[..], &["-w", "ping:count=20,warmup=1"]].concat(), dir.path());
    let trials = ran(&result);
    for contender in (0..contenders.len()).filter(|one| ![3, 4].contains(one)) {
        let own = || trials.iter().filter(|trial| trial["contender"] == contender);
        assert!(own().count() > 0, "{}", result["contenders"][contender]);
        for trial in own() {
            assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
        }
    }
    let why = result["contenders"][3]["limited"].as_str().unwrap();
    assert!(why.contains("`deadheat serve --relay-to 198.18.100.2`"), "{why}");
    let why = result["contenders"][4]["blocked"].as_str().unwrap();
    assert!(why.contains(&format!("no relay at {RELAY}:5213: connect to ")), "{why}");
    closed.line(0, "refused: ");
    let (_, line) = relay.line(0, "done in");
    assert!(line.contains(&format!("relay to {FAR}:5210, udp:via=relay@{RELAY} ping:")), "{line}");

    // The relay's own limits hold for what it forwards.
    let narrow = format!("tcp:via=relay@{RELAY}:5212");
    let result = race(&star, &["tcp", &narrow, "-w", "bulk:bytes=4MB"], dir.path());
    let why = result["contenders"][1]["limited"].as_str().unwrap();
    assert!(why.contains("--max-rate"), "{why}");
}

/// The far hosts' clocks are hours and seconds ahead and run at rates of their own; each receiver has its host's. A relay
/// in front of each is on one host.
#[test]
fn receivers_on_several_hosts_have_the_clocks_of_their_hosts() {
    if !can(&["ip"]) {
        return;
    }
    let star = Star::new("k", 3);
    let _far = star.serve_on(&star.far, &[], "18000,100");
    let _other = star.serve_on(&star.near[2], &[], "7,-80");
    let relay = star.serve_on(&star.near[1], &["--relay-to", "198.18.0.0/16"], "");
    let dir = tempfile::tempdir().unwrap();
    let relayed = format!("udp:via=relay@{RELAY}");
    let work = "state:direction=up,receivers=2,hz=200,count=100";
    let result = race(&star, &["udp", &relayed, "tcp", "-w", work, "--to", OTHER], dir.path());
    assert_eq!(result["path"]["address"], format!("{FAR}:5210, {OTHER}:5210"));
    for trial in ran(&result) {
        // Where the host is busy, some updates are left out.
        let up = &trial["ledger"]["up"];
        assert!(up["delivered"] == up["sent"] && up["sent"].as_u64() > Some(10), "{trial}");
        let clock = &trial["clock"];
        assert_eq!(clock["hosts"], 2, "{trial}");
        // With one map for both the ages of one receiver would be off by seven seconds or by hours.
        let age = trial["metrics"]["age_mean_ns"].as_f64().unwrap();
        let bound = clock["error_bound_ns"].as_f64().unwrap();
        assert!((0.0..3e9).contains(&(age + bound)), "{trial}");
    }
    relay.line(1, &format!("relay to {OTHER}:5210"));
    let fanout = ["-w", "fanout:receivers=3,bytes=200kB", "--to", OTHER, "--blast"];
    let result = race(&star, &[&[&*relayed], &fanout[..]].concat(), dir.path());
    for trial in ran(&result) {
        // Datagrams that nobody slows down may find no room, or all come in one call, which is no rate.
        let up = &trial["ledger"]["up"];
        assert!(up["sent"].as_u64() > Some(0) && up["delivered"].as_u64() > Some(0), "{trial}");
        assert_eq!(trial["clock"]["hosts"], 2, "{trial}");
    }
}

/// The far hosts' clocks are hours apart. Lanes go to one of them, or to both, up and down.
#[test]
fn parts_of_a_mix_have_their_far_ends_at_the_hosts_that_they_name() {
    if !can(&["ip"]) {
        return;
    }
    let star = Star::new("m", 3);
    let _far = star.serve_on(&star.far, &[], "18000,100");
    let other = star.serve_on(&star.near[2], &[], "7,-80");
    let dir = tempfile::tempdir().unwrap();
    let figures = |trial: &Value, names: &[&str]| {
        let clock = &trial["clock"];
        let bound = clock["error_bound_ns"].as_f64().unwrap();
        for name in names {
            let figure = trial["metrics"][name].as_f64().unwrap();
            assert!((0.0..3e9).contains(&(figure + bound)), "{name}: {trial}");
        }
        let ledger = &trial["ledger"];
        let way = if ledger["up"].is_null() { &ledger["down"] } else { &ledger["up"] };
        assert!(way["delivered"] == way["sent"] && way["sent"].as_u64() > Some(10), "{trial}");
    };
    let apart = format!("mix:events=tcp,state=udp:to={OTHER}");
    let both = ["mix:events=tcp,state=udp", &apart, "--to", OTHER];
    let names = ["delivery_mean_ns", "state_age_mean_ns"];
    // DEADHEAT_ALL_CELLS=1 runs all.
    let all = runs_all();
    let directions: &[&str] = if all { &["up", "down"] } else { &["up"] };
    for direction in directions {
        let work = format!("events:count=50,direction={direction}");
        let result = race(&star, &[&both[..], &["-w", &work]].concat(), dir.path());
        for trial in ran(&result) {
            figures(trial, &names);
            let is_apart = trial["contender"] == 1;
            assert_eq!(trial["clock"]["hosts"] == 2, is_apart, "{trial}");
        }
        let unequal = result["differences"].as_array().unwrap();
        assert!(unequal.iter().any(|one| one["what"] == "far host"), "{unequal:?}");
    }
    let (_, line) = other.line(0, "done in");
    assert!(line.contains(&apart), "{line}");
    if !all {
        return;
    }
    let session =
        format!("mix:pen=tcp:to={OTHER},picture=quic,voice=udp:to={OTHER},pose=udp:to={OTHER}");
    let names = ["pen_mean_ns", "pose_age_mean_ns", "picture_mean_ns"];
    let work = ["-w", "share:count=100,picture=50kB", "--to", OTHER];
    let result = race(&star, &[&[&*session], &work[..]].concat(), dir.path());
    for trial in ran(&result) {
        figures(trial, &names);
        assert!(trial["metrics"]["voice_rating_share"].as_f64() > Some(0.5), "{trial}");
    }
}
