//! Races to `deadheat serve` on another host, across an emulated path between the two: what a race over this path without
//! a server shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::path::Path;
use std::process::Command;

use crate::net::{check_schema, outcome};
use crate::path::{DEADHEAT, can};

/// Runs `deadheat serve` on the far host of a path, and `deadheat race` with these arguments to it on the near host;
/// returns the saved race.
fn race(path: &str, args: &[&str], dir: &Path) -> serde_json::Value {
    let output = Command::new(DEADHEAT)
        .args(["path", "run", "-q", path, "--far"])
        .arg(format!("exec {DEADHEAT} serve -q"))
        .args(["--far-ready", "5210", "--", DEADHEAT, "race", "--idle", "host"])
        .args(args)
        .args(["--to", "198.18.0.2", "--blocks", "1", "-q", "-o", "race.json"])
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
    for trial in outcome["trials"].as_array().unwrap() {
        let (contender, expected) = round_trips[trial["contender"].as_u64().unwrap() as usize];
        assert_eq!(trial["valid"], true, "{contender}: {trial}");
        for way in ["up", "down"] {
            assert_eq!(trial["ledger"][way]["delivered"], 20, "{contender} {way}");
        }
        let first_byte = trial["metrics"]["first_byte_p50_ns"].as_f64().unwrap();
        assert_eq!((first_byte / 20e6) as u32, expected, "{contender}: {first_byte} ns");
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
    for trial in outcome["trials"].as_array().unwrap() {
        assert_eq!(trial["valid"], true, "{trial}");
        assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
    }
}
