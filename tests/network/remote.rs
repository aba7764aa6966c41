//! Races to `deadheat serve` on another host, across an emulated path between the two: what a race over this path without
//! a server shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::path::Path;
use std::process::Command;

use crate::net::{check_schema, outcome, ran};
use crate::path::{DEADHEAT, can};
use crate::remote_cells::{RemoteCell, cell, contenders, works};
use crate::runs_all;

/// Runs `deadheat serve` on the far host of a path, and `deadheat race` with these arguments to it on the near host;
/// returns the saved race.
fn race(path: &str, args: &[&str], dir: &Path) -> serde_json::Value {
    race_at("serve -q", path, args, dir)
}

/// As [`race`], to a server with these words.
fn race_at(serve: &str, path: &str, args: &[&str], dir: &Path) -> serde_json::Value {
    let serve = format!("exec {DEADHEAT} {serve}");
    let args = [args, &["--to", "198.18.0.2", "--blast"]].concat();
    race_across(&[path, "--far", &serve, "--far-ready", "5210"], &args, dir)
}

/// Runs `deadheat race` of one block with these arguments on the near host of a path, which `deadheat path run` makes by
/// its words; returns the saved race.
pub(crate) fn race_across(path_run: &[&str], args: &[&str], dir: &Path) -> serde_json::Value {
    race_blocks_across("1", path_run, args, dir)
}

pub(crate) fn race_blocks_across(
    blocks: &str,
    path_run: &[&str],
    args: &[&str],
    dir: &Path,
) -> serde_json::Value {
    let output = Command::new(DEADHEAT)
        .args(["path", "run", "-q"])
        .args(path_run)
        .args(["--", DEADHEAT, "race", "--idle", "host"])
        .args(args)
        .args(["--blocks", blocks, "-q", "-o", "race.json"])
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{args:?}: {said}");
    let outcome = outcome(&dir.join("race.json"));
    check_schema(&outcome);
    outcome
}

/// The time until the first byte is as many round trips as on a path without a server: none for the token, for the
/// server's hand-over to its agent, or for the proof of a UDP address.
#[test]
fn connections_within_a_trial_take_the_round_trips_of_their_protocol() {
    if !can("tun", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let round_trips = [
        ("udp", 1),
        ("kcp", 1),
        ("tcp", 2),
        ("quic", 2),
        ("quic:resume=0rtt", 1),
        ("tls", 3),
        ("tls:resume=0rtt", 2),
    ];
    let contenders = round_trips.map(|(contender, _)| contender);
    let work = ["-w", "connect:count=20", "--seed", "1"];
    let outcome = race("delay=10ms", &[&contenders[..], &work].concat(), dir.path());
    let mut fastest = [u64::MAX; 7];
    for trial in ran(&outcome) {
        let number = trial["contender"].as_u64().unwrap() as usize;
        let (contender, expected) = round_trips[number];
        for way in ["up", "down"] {
            assert_eq!(trial["ledger"][way]["delivered"], 20, "{contender} {way}: {trial}");
        }
        let middle = trial["metrics"]["first_byte_p50_ns"].as_f64().unwrap();
        assert!(middle >= 20e6 * f64::from(expected), "{contender}: {middle} ns");
        // Of the connections of a tenth of a second.
        let least = trial["intervals"][0]["delay_mean_ns"].as_array().unwrap();
        let least = least.iter().filter_map(serde_json::Value::as_u64).min().unwrap();
        fastest[number] = fastest[number].min(least);
    }
    // A busy host adds what it likes to some, and not to all.
    for ((contender, expected), fastest) in round_trips.into_iter().zip(fastest) {
        assert_eq!((fastest / 20_000_000) as u32, expected, "{contender}: {fastest} ns");
    }
}

#[test]
fn each_request_has_a_connection_of_its_own_at_a_server() {
    if !can("tun", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = "rpc:connect=each,count=20,rate=100pps,response=1kB";
    let args = ["tcp", "udp", "quic:resume=on", "-w", work];
    let outcome = race("delay=1ms", &args, dir.path());
    // Where the host is busy, a trial may leave late, and so be invalid; what it carried is the same.
    for trial in ran(&outcome) {
        assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
    }
}

/// Forty connections come within 0.4 s, and each takes 0.1: several are open at a time.
#[test]
fn connections_that_come_at_random_do_not_wait_for_each_other_at_a_server() {
    if !can("tun", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = "rpc:connect=each,at-once=32,count=40,rate=100pps,response=1kB~40kB";
    let outcome = race("delay=25ms", &["tcp", "-w", work, "--margin", "50%"], dir.path());
    for trial in ran(&outcome) {
        assert_eq!(trial["ledger"]["up"]["delivered"], 40, "{trial}");
        assert_eq!(trial["metrics"]["unanswered_share"], 0.0, "{trial}");
        // A handshake and a response, and the round trips of a response of several windows.
        let took = trial["metrics"]["response_p50_ns"].as_f64().unwrap();
        assert!((100e6..250e6).contains(&took), "{trial}");
    }
}

/// UDP-Lite has a port of its own, which the server opens if its operator wants it; else the others race without it.
#[test]
fn a_protocol_with_a_port_of_its_own_races_where_the_operator_opens_it() {
    if !can("tun", &[]) || !works_here("udplite") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["udp", "udplite:coverage=20", "-w", "ping:count=20,warmup=1", "--margin", "50%"];
    let open = race_at("serve -q --also udplite", "delay=1ms", &args, dir.path());
    // Where the host is busy, a trial may leave late, and so be invalid; what it carried and had set is the same.
    for trial in ran(&open) {
        assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
        let coverage = &trial["far_effective"]["coverage"];
        assert!(trial["contender"] == 0 || coverage == "20 B", "{trial}");
    }
    let closed = race("delay=1ms", &args, dir.path());
    let why = closed["contenders"][1]["limited"].as_str().unwrap();
    assert!(why.contains("`deadheat serve --also udplite`"), "{why}");
}

/// Contenders of several parts share the server's port and the hand-over to their agent.
#[test]
fn orders_of_preference_race_to_a_server() {
    if !can("tun", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let orders = ["udp|tcp", "quic|tcp", "tcp|udp:silence=off"];
    let args = [&orders[..], &["-w", "ping:count=20,warmup=1", "--margin", "50%"]].concat();
    let outcome = race("delay=1ms", &args, dir.path());
    for trial in ran(&outcome) {
        assert_eq!(trial["ledger"]["down"]["delivered"], 20, "{trial}");
    }
}

/// Whether this kernel has the protocol of a contender.
fn works_here(contender: &str) -> bool {
    deadheat::transport::Contender::parse(contender).unwrap().check().is_ok()
}

/// Short forms of the works of the table.
fn short(work: &str) -> String {
    let (name, given) = work.split_once(':').unwrap_or((work, ""));
    let terms = match name {
        "ping" => "count=20,warmup=1",
        "bulk" => "bytes=200kB",
        "cbr" => "rate=1mbit,time=200ms",
        "connect" => "count=20",
        "rpc" => "count=20,rate=100pps,response=1kB",
        "streams" | "state" | "events" | "inputs" => "count=20",
        _ => "",
    };
    let all: Vec<&str> = [given, terms].into_iter().filter(|part| !part.is_empty()).collect();
    if all.is_empty() { name.to_owned() } else { format!("{name}:{}", all.join(",")) }
}

/// Works that take different things of a server.
const SAMPLE: &[&str] =
    &["ping", "bulk", "connect", "rpc:connect=each", "events", "streams:over=connections"];

/// A sample of the table of docs/remote.md, run: some works with four contenders each, so that most contenders have their
/// turn. `DEADHEAT_ALL_CELLS=1` runs all.
#[test]
fn cells_of_the_table_run_as_it_says() {
    if !can("tun", &[]) {
        return;
    }
    let all = runs_all();
    let contenders: Vec<String> = contenders().into_iter().filter(|one| works_here(one)).collect();
    let dir = tempfile::tempdir().unwrap();
    let also = if works_here("udplite") { "serve -q --also udplite" } else { "serve -q" };
    let mut next = 0;
    for work in works().into_iter().filter(|work| all || SAMPLE.contains(&work.as_str())) {
        let mut run = Vec::new();
        for _ in 0..contenders.len() {
            let contender = &contenders[next % contenders.len()];
            next += 1;
            if !matches!(cell(contender, &work), RemoteCell::Refused(_)) {
                run.push(contender.as_str());
            }
            if run.len() == 4 && !all {
                break;
            }
        }
        // A short trial may have too few samples for its claim; that it was carried is what the cell says.
        if !run.is_empty() {
            let typed = short(&work);
            let args = [&run[..], &["-w", &typed, "--margin", "50%"]].concat();
            let outcome = race_at(also, "delay=1ms", &args, dir.path());
            for contender in outcome["contenders"].as_array().unwrap() {
                for out in ["blocked", "limited", "failed", "not_applicable"] {
                    assert_eq!(contender.get(out), None, "{work}: {contender}");
                }
            }
            assert!(outcome["trials"].as_array().unwrap().len() >= run.len(), "{work}: {run:?}");
        }
    }
}
