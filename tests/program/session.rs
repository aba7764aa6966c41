//! Sessions of three people on loopback, each way: every message of each arrives at each other, over a server once for
//! each of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::process::{Command, Output};

use serde_json::Value;

fn race(words: &[&str], file: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
    command.args(["race", "--idle", "host", "--seed", "7", "--margin", "5%"]);
    command.args(words).arg("-o").arg(file).output().unwrap()
}

/// Returns the trials of a race of TCP over this way, each of which ran to its end.
fn trials(way: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.json");
    let work = format!("session:count=50,picture=100kB,via={way}");
    let output = race(&["tcp", "-w", &work, "--blocks", "1"], &file);
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{way}: {output:?}");
    let mut outcome: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let Value::Array(trials) = outcome["trials"].take() else { panic!("{way}: {outcome:#}") };
    assert!(!trials.is_empty(), "{way}: {outcome:#}");
    trials
}

#[test]
fn everything_of_each_arrives_at_each_other() {
    for way in ["peers", "server", "mix"] {
        for trial in trials(way) {
            let of = |name: &str| trial["metrics"][name].as_f64();
            let ledger = |way: &str, count: &str| trial["ledger"][way][count].as_u64().unwrap();
            for direction in ["up", "down"] {
                assert_eq!(ledger(direction, "sent"), ledger(direction, "delivered"), "{trial:#}");
            }
            if way == "server" && of("server_lost_share") == Some(0.0) {
                assert_eq!(ledger("down", "sent"), 2 * ledger("up", "sent"), "{trial:#}");
            }
            assert_eq!(of("pen_undelivered_share"), Some(0.0), "{way}: {trial:#}");
            assert_eq!(of("picture_unfinished_share"), Some(0.0), "{way}: {trial:#}");
            for pair in ["1_to_2", "2_to_1", "1_to_3", "3_to_1", "2_to_3", "3_to_2"] {
                let pen = of(&format!("pen_{pair}_mean_ns")).unwrap();
                assert!(pen > 0.0 && pen <= of("pen_mean_ns").unwrap(), "{way} {pair}: {trial:#}");
            }
            assert_eq!(of("server_upload_bps").is_some(), way != "peers", "{trial:#}");
            assert!(of("upload_3_bps").unwrap() > 0.0, "{trial:#}");
        }
    }
}

#[test]
fn what_has_no_place_for_people_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (words, wanted) in [
        (&["quic", "-w", "session", "--path", "sim:delay=5ms"][..], "name a host for each person"),
        (&["tcp:via=relay", "-w", "session"], "several ends dial"),
        (&["icmp", "-w", "session"], "people of ours"),
        (&["udp", "-w", "session"], "no lane that is reliable"),
        (&["tcp", "-w", "session:via=peers", "--to", "192.0.2.1"], "via=server"),
    ] {
        let output = race(words, &dir.path().join("r.json"));
        let code = output.status.code();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(wanted), "{words:?}: {said}");
        assert_ne!(code, Some(0), "{words:?}: {said}");
    }
}
