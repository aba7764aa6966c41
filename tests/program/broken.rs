//! A contender whose library breaks down: its trial ends with its name, it drops out, and the others race on.
//!
//! Needs the feature `misbehaving`, which `all-contenders` has.
#![cfg(feature = "misbehaving")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

const BLOCKS: u64 = 3;

fn deadheat(words: &[&str], file: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args([
            "race",
            "--idle",
            "host",
            "-w",
            "ping:window=1,count=200",
            "--seed",
            "7",
            "--blocks",
        ])
        .args([&BLOCKS.to_string(), "--details"])
        .args(words)
        .arg("-o")
        .arg(file)
        .output()
        .unwrap()
}

/// Races two contenders and a third that breaks down, which is at this place among them; the evidence against it.
fn race_beside(broken: &str, at: usize, words: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.json");
    let mut contenders = vec!["arq", "kcp"];
    contenders.insert(at, broken);
    let output = deadheat(&[&contenders[..], words].concat(), &file);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{broken}: {said}{output:?}");
    let outcome: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_ne!(outcome["status"], "failed", "{said}");
    let evidence = outcome["contenders"][at]["failed"].as_str().unwrap_or_default().to_owned();
    assert!(!evidence.is_empty(), "{broken}: {said}");
    assert!(said.contains("failed twice in a row, and dropped out"), "{said}");
    assert_eq!(outcome["warnings"].to_string().matches("\"failed\"").count(), 1, "{said}");
    let trials = |contender: usize| {
        let all = outcome["trials"].as_array().unwrap().iter();
        all.filter(move |trial| trial["contender"] == contender as u64)
    };
    for other in (0..3).filter(|other| *other != at) {
        // In each block all of its messages came back once, whether or not the host let the trial count.
        let whole = trials(other).filter(|trial| {
            trial["control"] != true && trial["ledger"]["down"]["delivered"] == 200
        });
        let blocks: BTreeSet<u64> = whole.map(|trial| trial["block"].as_u64().unwrap()).collect();
        assert_eq!(blocks, (0..BLOCKS).collect::<BTreeSet<u64>>(), "{broken}: {said}");
    }
    assert!(trials(at).all(|trial| trial["valid"] == false), "{broken}: {said}");
    let pairs: Vec<&Value> = outcome["verdicts"].as_array().unwrap().iter().collect();
    assert!(!pairs.is_empty(), "{said}");
    let takes_part = |verdict: &&&Value| verdict["a"] == at as u64 || verdict["b"] == at as u64;
    assert_eq!(pairs.iter().filter(takes_part).count(), 0, "{said}");
    evidence
}

#[test]
fn a_panic_drops_its_contender_with_its_place_in_the_code() {
    for (broken, at) in [("misbehaving:how=panic", 2), ("misbehaving:how=panic,at=far", 1)] {
        let evidence = race_beside(broken, at, &[]);
        assert!(evidence.contains("misbehaving"), "{evidence}");
        assert!(evidence.contains("panicked at ") && evidence.contains("asked to"), "{evidence}");
    }
}

#[test]
fn one_that_breaks_before_the_first_block_leaves_that_to_the_next() {
    let evidence = race_beside("misbehaving:how=panic,after=1", 0, &[]);
    assert!(evidence.contains("panicked at "), "{evidence}");
}

#[test]
fn memory_without_end_ends_the_trial_and_not_the_host() {
    let evidence = race_beside("misbehaving:how=allocate", 2, &[]);
    assert!(evidence.contains("memory allocation of 67108864 bytes failed"), "{evidence}");
}

#[test]
fn a_call_that_never_returns_is_given_up() {
    let evidence = race_beside("misbehaving:how=spin", 2, &[]);
    assert!(evidence.contains("misbehaving") && evidence.contains("does not return"), "{evidence}");
}

#[test]
fn in_virtual_time_a_panic_and_a_standstill_drop_their_contender() {
    for (how, says) in [("panic", "panicked at "), ("restless", "stands still at ")] {
        let broken = format!("misbehaving:how={how}");
        let evidence = race_beside(&broken, 1, &["--path", "sim:delay=5ms"]);
        assert!(evidence.contains("misbehaving") && evidence.contains(says), "{evidence}");
    }
}

#[test]
fn a_race_that_has_no_contender_left_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        deadheat(&["misbehaving:how=panic", "--path", "sim:delay=5ms"], &dir.path().join("r.json"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no contender is left") && said.contains("panicked at "), "{said}");
}
