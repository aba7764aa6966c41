//! `race --explain` with real agents on this machine: the parts of a round trip add up, and time that
//! is put into one part shows up there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::process::Command;

use serde_json::Value;

/// What the pass of a race says of each contender.
fn explained(contenders: &[&str], workload: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(["race", "--idle", "host"])
        .args(contenders)
        .args(["-w", workload, "--blocks", "1", "--margin", "5%", "--explain"])
        .args(["--format", "markdown", "-o", "r.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}{output:?}");
    assert!(said.contains("### Where the time goes"), "{said}");
    let outcome = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
    let outcome: Value = serde_json::from_str(&outcome).unwrap();
    let schema: Value =
        serde_json::from_str(include_str!("../../docs/result.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&outcome).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    outcome["explain"]["contenders"].as_array().unwrap().clone()
}

/// The names of the parts of a round trip, in order.
fn parts(contender: &Value) -> Vec<&str> {
    let parts = contender["round_trip"]["parts"].as_array().unwrap();
    parts.iter().map(|part| part["part"].as_str().unwrap()).collect()
}

/// The 10th percentile of a part in nanoseconds.
fn low(contender: &Value, part: &str) -> f64 {
    let parts = contender["round_trip"]["parts"].as_array().unwrap();
    parts.iter().find(|p| p["part"] == part).unwrap()["low_ns"].as_f64().unwrap()
}

fn adds_up(contender: &Value) {
    let trip = &contender["round_trip"];
    let parts = trip["parts"].as_array().unwrap();
    let sum: f64 = parts.iter().map(|part| part["ns"].as_f64().unwrap()).sum();
    let total = trip["total_ns"].as_f64().unwrap();
    assert!((total - sum).abs() <= 1_000.0, "{sum} of {total}: {contender:#}");
    assert!(trip["messages"].as_u64().unwrap() > 20, "{contender:#}");
}

const STAMPED: [&str; 9] = [
    "near_call",
    "near_stack",
    "there",
    "far_wake",
    "far_application",
    "far_call",
    "far_stack",
    "back",
    "near_wake",
];

#[test]
fn each_kind_of_round_trip_is_split_as_far_as_stamps_reach_and_adds_up() {
    // One after the other: messages that a busy host lets leave together are one segment of TCP, with the stamps of one.
    let found = explained(&["tcp", "udp", "icmp", "unix"], "ping:count=100,window=1");
    let [tcp, udp, icmp, unix] = &found[..] else { panic!("{found:#?}") };
    found.iter().for_each(adds_up);
    assert_eq!(parts(tcp), STAMPED, "{tcp:#}");
    assert_eq!(parts(udp), STAMPED, "{udp:#}");
    assert_eq!(parts(icmp), ["near_call", "near_stack", "far_kernel", "near_wake"]);
    assert_eq!(parts(unix), ["there_unsplit", "far_application", "back_unsplit"]);
    assert!(unix["missing"].to_string().contains("No kernel stamps"), "{unix:#}");
    assert!(tcp["round_trip"]["acknowledged_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn time_to_think_is_found_in_the_far_application() {
    for contender in &explained(&["tcp", "udp"], "ping:count=200,interval=1ms,think=100us") {
        adds_up(contender);
        // The far end waits for a point of time and never answers before it, so this is exact below;
        // what a busy machine adds to it, and to the other parts, is no matter of right and wrong.
        assert!(low(contender, "far_application") >= 100_000.0, "{contender:#}");
    }
}

#[test]
fn bulk_data_is_told_by_call_packet_and_bottleneck() {
    let found = explained(&["tcp", "udp"], "bulk:time=100ms,direction=both");
    let directions = |contender: &Value| {
        let moving = contender["moving"].as_array().unwrap();
        moving.iter().map(|m| m["direction"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for contender in &found {
        assert_eq!(directions(contender), ["up", "down"], "{contender:#}");
        for moving in contender["moving"].as_array().unwrap() {
            assert!(moving["packets_per_mb"].as_f64().unwrap() > 1.0, "{moving:#}");
            for end in ["sending", "receiving"] {
                let calls = &moving[end];
                assert!(calls["ns"].as_f64().unwrap() > 100.0, "{moving:#}");
                let bytes = calls["bytes"].as_f64().unwrap() * calls["per_mb"].as_f64().unwrap();
                assert!((bytes - 1e6).abs() < 1.0, "{moving:#}");
            }
        }
    }
}
