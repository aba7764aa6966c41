//! `deadheat path check`: each link of a network, however many hosts it has, is measured against its own words, or named.
//!
//! Needs what tests/network/path.rs needs. A busy host puts figures outside their limits, which is exit code 3, so that
//! delays are bounded from below, rates from above, and losses are counted.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::process::{Command, Output};

use serde_json::Value;

use crate::emulated::count;
use crate::path::{DEADHEAT, can, stderr};

fn check(path: &str, more: &[&str]) -> Output {
    let output = Command::new(DEADHEAT).args(["path", "check", path]).args(more).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    output
}

fn names(ways: &Value) -> Vec<&str> {
    ways.as_array().unwrap().iter().map(|way| way["way"].as_str().unwrap()).collect()
}

/// The packets of a check cross the one link that they are to check: delays and losses are of that link alone.
#[test]
fn each_link_of_several_hosts_is_checked_by_itself() {
    if !can("tun", &[]) {
        return;
    }
    let path = "a--r:delay=50ms,rate=20mbit + r--h:delay=9ms,nat=symmetric + \
                h--b:delay=20ms,rate=50mbit,up.drop=every:5 + a--b:delay=400ms,rate=1mbit,ip=6,near=a,far=b";
    let output = check(path, &["--format", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let check = &answer["checks"][0];
    assert_eq!(names(&check["ways"]), ["a to r", "h to b", "b to h", "a to b"]);
    assert_eq!(names(&check["unchecked"]), ["r to h"]);
    assert!(check["unchecked"][0]["why"].as_str().unwrap().contains("nat="), "{check}");
    assert!(check["capacity"].is_null(), "{check}");
    let mut judged = 0;
    for (way, [delay, rate]) in
        check["ways"].as_array().unwrap().iter().zip([[50_u64, 20], [20, 50], [20, 50], [400, 1]])
    {
        // The clock of the stamps may be slewed meanwhile, by 500 millionths (adjtimex(2)).
        assert!(way["delay"]["expected_ns"].as_u64() >= Some(delay * 1_000_000), "{way}");
        assert!(way["delay"]["min_ns"].as_i64() >= Some(-500 * delay.cast_signed()), "{way}");
        let achieved = way["rate"]["achieved_bps"].as_f64().unwrap();
        assert!(achieved <= rate as f64 * 1.01e6 && achieved > rate as f64 * 1e5, "{way}");
        let (loss, sent) = (&way["loss"], count(&way["loss"]["sent"]));
        assert_eq!(loss["by_own_account"], loss["lost"], "{way}");
        let lost = if way["way"] == "h to b" { sent / 5 } else { 0 };
        assert_eq!(count(&loss["lost"]), lost, "{way}");
        judged += count(&way["delay"]["n"]);
    }
    assert_eq!(count(&check["delay_errors"]["n"]), judged);
}

/// Two hosts are the smallest network: the same table, with the capacity of a link without a rate.
#[test]
fn a_check_is_a_table_with_a_row_for_each_direction() {
    if !can("tun", &[]) {
        return;
    }
    for (path, rows) in
        [("delay=1ms", vec!["up"]), ("a--r:delay=5ms+r--b:delay=8ms", vec!["a to r", "r to b"])]
    {
        let output = check(path, &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with(&format!("{path}  (TUN devices, ")), "{said}");
        for row in &rows {
            assert_eq!(
                said.lines().filter(|line| line.trim().starts_with(row)).count(),
                1,
                "{said}"
            );
        }
        assert!(said.contains(&format!("  carries     {}: ", rows[0])), "{said}");
    }
}

#[test]
fn a_check_of_nothing_says_why() {
    if !can("tun", &[]) {
        return;
    }
    for (path, code, says) in [
        ("delay=1ms,nat=symmetric", 1, "nat="),
        ("delay=1ms,down=1s-2s", 2, "down="),
        ("a--b:ip=4+b--c:ip=6,near=a,far=c", 2, "no version of IP in common"),
    ] {
        let output = Command::new(DEADHEAT).args(["path", "check", path]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{path}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}
