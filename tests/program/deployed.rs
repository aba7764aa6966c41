//! Terms of a race: equal ones by default, and with `--as-deployed` those that each implementation comes with, as read back
//! at both ends, in virtual time and over an emulated path.
//!
//! The emulated part needs the right to make network namespaces; says so and passes where it is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const DEADHEAT: &str = env!("CARGO_BIN_EXE_deadheat");

/// The result of a race of so many words, and what it printed.
fn race(words: &[&str]) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(DEADHEAT)
        .args(["race", "--idle", "host"])
        .args(words)
        .args(["--seed", "7", "--details", "-o", "r.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}{output:?}");
    let text = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
    let outcome: Value = serde_json::from_str(&text).unwrap();
    let schema: Value =
        serde_json::from_str(include_str!("../../docs/result.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&outcome).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    (outcome, said)
}

/// The trials of a contender that are no control.
fn trials(outcome: &Value, contender: u64) -> impl Iterator<Item = &Value> {
    let all = outcome["trials"].as_array().unwrap().iter();
    all.filter(move |trial| trial["contender"] == contender && trial["control"] != true)
}

/// The median goodput of a contender, in Mbit/s.
fn goodput(outcome: &Value, contender: u64) -> f64 {
    let mut all: Vec<f64> = trials(outcome, contender)
        .map(|trial| trial["metrics"]["goodput_bps"].as_f64().unwrap() / 1e6)
        .collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// 200 Mbit/s and 100 ms are 2.5 MB, twice what QUIC's library gives a stream by itself: it stays below the 100 Mbit/s that
/// such a window allows, and on equal terms the window is no limit.
#[test]
fn the_default_window_is_the_limit_of_a_long_path_as_deployed_and_not_on_equal_terms() {
    let words = ["-w", "bulk:bytes=24MB", "--path", "sim:delay=50ms,rate=200mbit,queue=200ms"];
    let both = [&["quic", "quic:terms=deployed", "--blocks", "1"], &words[..]].concat();
    let (outcome, said) = race(&both);
    let (equal, deployed) = (goodput(&outcome, 0), goodput(&outcome, 1));
    assert!(deployed < 101.0, "{deployed} Mbit/s\n{said}");
    assert!(equal > 1.1 * deployed, "{equal} and {deployed} Mbit/s\n{said}");
    let window = |contender: u64| {
        let trial = trials(&outcome, contender).next().unwrap();
        ["effective", "far_effective"].map(|end| trial[end]["window"].as_str().unwrap().to_owned())
    };
    assert_eq!(window(0), ["8000000 B", "8000000 B"]);
    assert_eq!(window(1), ["1250000 B (each stream)", "1250000 B (each stream)"]);
    let told = outcome["differences"].to_string();
    assert!(told.contains("the implementation's own, where not typed"), "{told}");

    let (all, _) = race(&[&["quic", "--as-deployed", "--blocks", "1"], &words[..]].concat());
    assert_eq!(all["asked"]["as_deployed"], true);
    assert_eq!(all["contenders"][0]["spec"], "quic:terms=deployed");
    assert_eq!(all["contenders"][0]["label"], "quic");
    let rates = |outcome: &Value, contender| -> Vec<Value> {
        trials(outcome, contender).map(|trial| trial["metrics"]["goodput_bps"].clone()).collect()
    };
    assert_eq!(rates(&all, 0), rates(&outcome, 1), "the same terms by another way");
}

#[test]
fn a_window_grows_with_the_path() {
    let (outcome, _) = race(&[
        "kcp",
        "kcp:window=128",
        "-w",
        "bulk:bytes=4MB",
        "--path",
        "sim:delay=50ms,rate=100mbit,queue=100ms",
        "--blocks",
        "2",
    ]);
    assert_eq!(outcome["contenders"][0]["spec"], "kcp:window=1667");
    assert!(goodput(&outcome, 0) > 2.0 * goodput(&outcome, 1));
}

/// What a race as deployed says, to the letter.
#[test]
fn a_race_as_deployed_is_as_the_golden_file_says() {
    let words = ["quic", "kcp", "enet", "--as-deployed", "-w", "ping:count=50,interval=400ms"];
    let path = ["--path", "sim:delay=10ms,rate=20mbit", "--blocks", "4"];
    let (outcome, said) = race(&[&words[..], &path].concat());
    let known = |name: &str| {
        let Some(told) = outcome["differences"]
            .as_array()
            .unwrap()
            .iter()
            .find(|d| d["what"] == *format!("{name} (effective)"))
        else {
            return "no difference".to_owned();
        };
        told["values"].to_string()
    };
    let first: Vec<&str> = said.lines().take_while(|line| !line.is_empty()).collect();
    let mut text = first.join("\n") + "\n";
    for name in ["cc", "cipher", "window", "mtu", "interval", "flush", "mode"] {
        text.push_str(&format!("{name}: {}\n", known(name)));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/as-deployed.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
}

#[test]
fn tcp_as_deployed_has_what_the_sysctl_says() {
    let works = |args: &[&str]| {
        let mut done = Command::new("unshare");
        done.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        done.status().is_ok_and(|status| status.success())
    };
    let sysctl = |name: &str| {
        let read = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        read.map(|value| value.trim().to_owned())
    };
    // A new network namespace begins with the host's.
    let Ok(host) = sysctl("tcp_congestion_control") else { return };
    if !works(&["-n", "true"]) && !works(&["-Urn", "true"]) {
        println!("skipped: no network namespaces here, nor user namespaces to make them in");
        return;
    }
    for path in ["loopback", "delay=2ms"] {
        let (outcome, said) = race(&[
            "tcp",
            "tcp:nodelay=on,cc=reno",
            "--as-deployed",
            "-w",
            "ping:count=20",
            "--path",
            path,
            "--blocks",
            "1",
        ]);
        let ends = |contender: u64, option: &str| {
            let trial = trials(&outcome, contender).next().unwrap();
            ["effective", "far_effective"]
                .map(|end| trial[end][option].as_str().unwrap().to_owned())
        };
        assert_eq!(ends(0, "cc"), [&*host, &*host], "{path}");
        assert_eq!(ends(0, "nodelay"), ["off", "off"], "{path}");
        // What is typed stays.
        assert_eq!(ends(1, "cc"), ["reno", "reno"], "{path}");
        assert_eq!(ends(1, "nodelay"), ["on", "on"], "{path}");
        assert_eq!(outcome["asked"]["as_deployed"], true);
        // Lines are broken where they are full.
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("as deployed"), "{said}");
    }
}
