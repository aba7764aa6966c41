//! Captures of real transfers, imported: what they say is what the account of the path, the kernel and both ends say.
//!
//! Needs network namespaces, `tcpdump` and `iperf3`; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use std::path::Path;
use std::process::Command;

use deadheat::import::Import;
use deadheat::records::trial::Record;
use serde_json::Value;

use super::emulated::DEADHEAT;
use super::path::{FAR, can, run, stderr};

/// The valid trials of a capture, in the order in which they began.
fn imported(file: &Path) -> Vec<Record> {
    let outcome = Import::new([file]).run(None).unwrap();
    let mut all: Vec<Record> = outcome.trials.into_iter().map(|trial| trial.record).collect();
    all.retain(|record| record.valid);
    all.sort_by_key(|record| record.started_ms);
    all
}

/// Segments that the network lost.
fn lost(record: &Record) -> u64 {
    let segments = record.metrics["sent_again_share"];
    let share = record.metrics["lost_segments_share"];
    let sent_again = record.retransmits.unwrap() as f64;
    if segments > 0.0 { (share / segments * sent_again).round() as u64 } else { 0 }
}

#[test]
fn the_capture_of_a_race_has_the_losses_of_the_paths_account() {
    if !super::emulated::can() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ran = Command::new(DEADHEAT)
        .args(["race", "tcp:cc=cubic", "--path", "delay=10ms,rate=50mbit,queue=100kB,loss=0.5%"])
        .args(["-w", "bulk:bytes=3MB,warmup=0s", "--blocks", "1", "--idle", "host"])
        .args(["-o", "r.json", "--pcap", "r.pcapng", "-q"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    let result = std::fs::read(dir.path().join("r.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let mut trials = result["trials"].as_array().unwrap().clone();
    trials.sort_by_key(|trial| trial["started_ms"].as_u64());
    let captured = imported(&dir.path().join("r.pcapng"));
    // The capture has what ran before the blocks, too.
    let captured = &captured[captured.len() - trials.len()..];
    assert!(!trials.is_empty(), "{said}");
    for (trial, record) in trials.iter().zip(captured) {
        let fates = &trial["path"]["links"][0]["up"]["fates"];
        let account =
            ["lost", "full"].map(|name| fates[name].as_u64().unwrap()).iter().sum::<u64>();
        assert!(account > 0, "nothing was lost");
        assert_eq!(lost(record), account, "{record:?}");
        assert!(record.metrics["rtt_min_ns"] >= 2e7);
        assert!(record.delivered_bytes.unwrap() >= 3_000_000);
    }
}

#[test]
fn captures_at_both_ends_of_a_transfer_say_what_its_kernel_says() {
    let backend = "packet";
    if !can(backend, &["tcpdump", "iperf3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let capture = |name: &str| {
        format!(
            "tcpdump -n -i dh0 -s 128 -U -w {} tcp 2> {} & echo $! > {}; until grep -q listening {}; do sleep 0.01; done",
            file(name),
            file(&format!("{name}-says")),
            file(&format!("{name}-id")),
            file(&format!("{name}-says"))
        )
    };
    let stop = |name: &str| format!("kill -INT $(cat {}); wait", file(&format!("{name}-id")));
    let far = format!("{}; iperf3 -s -1 > {}; {}", capture("far"), file("server"), stop("far"));
    let near = format!(
        "{}; until iperf3 -c {FAR} -n 3M -J > {}; do sleep 0.05; done; {}",
        capture("near"),
        file("i.json"),
        stop("near")
    );
    let path = format!("delay=10ms,rate=50mbit,queue=200kB,loss=0.5%,backend={backend}");
    let output = run(&[&path, "--far", &far, "--", "sh", "-c", &near]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let says: Value = serde_json::from_slice(&std::fs::read(file("i.json")).unwrap()).unwrap();
    let kernel = says["end"]["sum_sent"]["retransmits"].as_u64().unwrap();
    let largest = |name: &str| {
        let all = imported(Path::new(&file(name)));
        all.into_iter().max_by_key(|record| record.delivered_bytes).unwrap()
    };
    let (near, far) = (largest("near"), largest("far"));
    assert_eq!(near.retransmits, Some(kernel), "{near:?}");
    assert_eq!(near.effective["captured"], "at the client");
    assert_eq!(far.effective["captured"], "at the server");
    assert_eq!(lost(&near), lost(&far), "{near:?} {far:?}");
    for record in [&near, &far] {
        assert!(record.delivered_bytes.unwrap() >= 3 << 20);
        assert!(record.metrics["rtt_min_ns"] >= 2e7);
        assert!(record.connect_ns >= 20_000_000);
    }
    // Both are one run.
    let both = Import::new([file("near"), file("far")]).run(None).unwrap();
    let largest = |record: &Record| record.delivered_bytes >= Some(3 << 20);
    assert_eq!(both.trials.iter().filter(|trial| largest(&trial.record)).count(), 1);
}
