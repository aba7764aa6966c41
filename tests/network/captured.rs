//! Captures of real transfers, imported: what they say is what the account of the path, the kernel and both ends say.
//!
//! Needs network namespaces, `tcpdump` and `python3`; says so and passes where they are missing.
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

/// Sends 3 MB, waits until all of it is read, and prints the segments that its kernel sent again (`tcpi_total_retrans`).
const SENDER: &str = r#"
import socket, struct
while True:
    try: s = socket.create_connection(("198.18.0.2", 5201)); break
    except ConnectionRefusedError: pass
s.sendall(b"x" * 3000000); s.shutdown(1); s.recv(1)
print(struct.unpack_from("I", s.getsockopt(6, 11, 104), 100)[0])
"#;

/// Reads until the end.
const RECEIVER: &str = r#"
import socket
own = socket.create_server(("198.18.0.2", 5201)); s, _ = own.accept()
while s.recv(65536): pass
"#;

#[test]
fn captures_at_both_ends_of_a_transfer_say_what_its_kernel_says() {
    if !can("packet", &["tcpdump", "python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    // Nothing is sent after the receiver's FIN, which is written before the capture is interrupted.
    let captured = |name: &str, command: &str| {
        let [dump, says] = [file(name), file(&format!("{name}-says"))];
        format!(
            "tcpdump -n -i dh0 -s 128 -U --immediate-mode -w {dump} tcp 2> {says} & id=$!
             until grep -q listening {says}; do sleep 0.01; done
             {command}
             until tcpdump -n -r {dump} 'tcp[13] & 1 != 0 and src host {FAR}' 2> /dev/null | grep -q .; do sleep 0.01; done
             kill -INT $id; wait"
        )
    };
    std::fs::write(file("sender.py"), SENDER).unwrap();
    std::fs::write(file("receiver.py"), RECEIVER).unwrap();
    let far = captured("far", &format!("python3 {}", file("receiver.py")));
    let [says, sender, count] = ["far-says", "sender.py", "count"].map(file);
    let near = captured(
        "near",
        &format!("until grep -q listening {says}; do sleep 0.01; done; python3 {sender} > {count}"),
    );
    let path = "delay=10ms,rate=50mbit,queue=4MB,loss=1%,backend=packet";
    let output = run(&[path, "--far", &far, "--", "sh", "-c", &near]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let kernel: u64 = std::fs::read_to_string(count).unwrap().trim().parse().unwrap();
    let only = |name: &str| {
        let mut all = imported(Path::new(&file(name)));
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    };
    let (near, far) = (only("near"), only("far"));
    assert_eq!(near.retransmits, Some(kernel), "{near:?}");
    assert_eq!(near.effective["captured"], "at the client");
    assert_eq!(far.effective["captured"], "at the server");
    // Of a segment that was lost twice, or whose second copy was needless, the far capture sees a gap once: the queue
    // loses none here, so that these are few.
    let (all, seen) = (lost(&near), lost(&far));
    assert!(seen <= all && seen + 5 >= all && seen > 0, "{seen} of {all}: {near:?} {far:?}");
    for record in [&near, &far] {
        assert_eq!(record.delivered_bytes, Some(3_000_000));
        assert!(record.metrics["rtt_min_ns"] >= 2e7);
        assert!(record.connect_ns >= 20_000_000);
    }
    // Both are one run.
    let both = Import::new([file("near"), file("far")]).run(None).unwrap();
    assert_eq!(both.trials.iter().filter(|trial| trial.record.valid).count(), 1);
}
