//! Logs of QUIC's connections: a file for each end of each trial, JSON text sequences as qlog 0.3 has them, to the byte the same
//! in virtual time; and none at a server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const DEADHEAT: &str = env!("CARGO_BIN_EXE_deadheat");

fn race(dir: &Path, words: &[&str]) -> Output {
    Command::new(DEADHEAT)
        .args(["race", "quic:qlog=q.sqlog", "--blocks", "1", "--seed", "7", "-o", "r.json"])
        .args(words)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// The logs in a directory, by name.
fn logs(dir: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|e| e == "sqlog"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    logs.map(read).collect()
}

/// The texts of a sequence: its header, and its events.
fn texts(log: &str) -> (Value, Vec<Value>) {
    let mut texts = log.split('\u{1e}');
    assert_eq!(texts.next(), Some(""), "a separator is in front of each text");
    let mut texts = texts.map(|text| {
        assert!(text.ends_with('\n'), "{text:?} is cut off");
        serde_json::from_str::<Value>(text).unwrap()
    });
    (texts.next().unwrap(), texts.collect())
}

/// Checks what is in the logs of both ends of a transfer of 200 kB or more.
fn check(logs: &BTreeMap<String, String>, trials: usize) {
    for (side, kind) in [("near", "client"), ("far", "server")] {
        let of_side: Vec<&String> = logs.keys().filter(|name| name.contains(side)).collect();
        assert_eq!(of_side.len(), trials, "{:?}", logs.keys());
        for name in of_side {
            let (header, events) = texts(&logs[name]);
            assert_eq!(header["qlog_version"], "0.3", "{name}");
            assert_eq!(header["qlog_format"], "JSON-SEQ", "{name}");
            assert_eq!(header["trace"]["vantage_point"]["type"], kind, "{name}");
            let of = |wanted: &str| events.iter().filter(|e| e["name"] == wanted).count();
            let [sent, received] = ["transport:packet_sent", "transport:packet_received"].map(of);
            assert!(sent > 10 && received > 10, "{name}: {sent} sent, {received} received");
            assert!(of("recovery:metrics_updated") > 2, "{name}");
            let times: Vec<f64> = events.iter().map(|e| e["time"].as_f64().unwrap()).collect();
            assert!(times[0] == 0.0 && times.is_sorted(), "{name}");
            numbers(name, &events);
            let first = &events[0]["data"];
            assert_eq!(first["header"]["packet_type"], "initial", "{name}");
            let lengths = events.iter().filter_map(|e| e["data"]["raw"]["length"].as_u64());
            assert!(lengths.sum::<u64>() > 200_000, "{name}");
        }
    }
}

/// Checks the numbers of packets, and what acknowledgements say of them.
fn numbers(name: &str, events: &[Value]) {
    let packets = |wanted: &'static str| {
        let of = events.iter().filter(move |event| event["name"] == wanted);
        of.map(|event| &event["data"]).filter(|data| data["header"]["packet_type"] == "1RTT")
    };
    let number = |data: &Value| data["header"]["packet_number"].as_u64();
    let sent: Vec<u64> =
        packets("transport:packet_sent").map(|data| number(data).unwrap()).collect();
    assert!(sent.windows(2).all(|two| two[0] < two[1]), "{name}: {sent:?}");
    let unread = packets("transport:packet_received").filter(|data| number(data).is_none());
    assert!(unread.count() <= 3, "{name}: those that came before their keys");
    let frames = packets("transport:packet_received")
        .flat_map(|data| data["frames"].as_array().cloned().unwrap_or_default());
    let acks: Vec<Value> = frames.filter(|frame| frame["frame_type"] == "ack").collect();
    assert!(!acks.is_empty(), "{name}");
    for ack in acks {
        for range in ack["acked_ranges"].as_array().unwrap() {
            let last = range.as_array().unwrap().last().unwrap().as_u64().unwrap();
            assert!(sent.contains(&last), "{name}: {last} was never sent");
        }
    }
}

#[test]
fn logs_in_virtual_time_are_the_same_to_the_byte_and_none_is_replaced() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let words = ["-w", "bulk:bytes=300kB", "--path", "sim:delay=10ms,rate=20mbit,loss=1%"];
    for dir in [&first, &second] {
        let output = race(dir.path(), &words);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    }
    let (logs_of_first, logs_of_second) = (logs(first.path()), logs(second.path()));
    assert_eq!(logs_of_first, logs_of_second);
    let whole = logs_of_first.len();
    assert!(whole >= 4, "the contender and its copy, two ends each: {:?}", logs_of_first.keys());
    check(&logs_of_first, whole / 2);
    let lost = logs_of_first.values().flat_map(|log| texts(log).1);
    assert!(lost.filter(|event| event["name"] == "deadheat:packets_lost").count() > 0);

    // Once more beside them: all of before stay as they are.
    race(first.path(), &words);
    let after = logs(first.path());
    assert_eq!(after.len(), 2 * whole);
    assert!(logs_of_first.iter().all(|(name, log)| after[name] == *log));
}

#[test]
fn both_ends_of_a_trial_on_this_machine_have_a_log_that_the_result_names() {
    let dir = tempfile::tempdir().unwrap();
    let output = race(dir.path(), &["-w", "bulk:bytes=300kB"]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let logs = logs(dir.path());
    check(&logs, logs.len() / 2);
    let text = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
    let outcome: Value = serde_json::from_str(&text).unwrap();
    for trial in outcome["trials"].as_array().unwrap() {
        for end in ["effective", "far_effective"] {
            let told = trial[end]["qlog"].as_str().unwrap();
            let name = told.strip_prefix("on (").and_then(|told| told.strip_suffix(')')).unwrap();
            assert!(logs.contains_key(name), "{told}: {:?}", logs.keys());
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["race", "quic:qlog=none/q.sqlog", "--blocks", "1", "--path", "sim:delay=1ms"];
    let output = Command::new(DEADHEAT).args(words).current_dir(dir.path()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("none/q-"), "{said}");
    assert_ne!(output.status.code(), Some(0), "{said}");
}
