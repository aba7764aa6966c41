//! `via=coturn` and `via=turn:HOST` with coturn: races through it, whose content is checked.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::driven::free_port;
use crate::other::{Other, has};

const USER: &str = "ann";
const PASSWORD: &str = "an-open-secret";

/// A server that knows one user, and answers.
fn coturn() -> (Other, u16) {
    let port = free_port();
    let mut command = Command::new("turnserver");
    command
        .args(["-n", "--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", "--lt-cred-mech"])
        .args([format!("--listening-port={port}"), format!("--user={USER}:{PASSWORD}")])
        .args(["--realm=example.org", "--allow-loopback-peers", "--no-cli", "--no-tls"])
        .args(["--no-dtls", "--no-tcp", "--pidfile=/dev/null", "--userdb=:memory:"])
        .args(["--log-file=/dev/null", "--simple-log"])
        .stderr(Stdio::null());
    let server = Other::start(&mut command);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A Binding request (RFC 8489): its type, no attributes, the cookie, a transaction.
    let request = *b"\x00\x01\x00\x00\x21\x12\xa4\x42is-it-there?";
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        socket.send_to(&request, (Ipv4Addr::LOCALHOST, port)).unwrap();
        if socket.recv(&mut [0; 512]).is_ok() {
            return (server, port);
        }
        assert!(Instant::now() < deadline, "coturn does not answer");
    }
}

/// A race of one block on loopback, with a password or without; what it said, and the result if it left one.
fn race(contenders: &[&str], workload: &str, password: Option<&str>) -> (Output, Option<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
    command.arg("race").args(contenders).args(["-w", workload, "--blocks", "1", "--margin", "5%"]);
    command.args(["-o", "r.json"]).current_dir(dir.path());
    match password {
        Some(password) => {
            command.env("DEADHEAT_TURN_USER", USER).env("DEADHEAT_TURN_PASSWORD", password)
        }
        None => command.env_remove("DEADHEAT_TURN_USER").env_remove("DEADHEAT_TURN_PASSWORD"),
    };
    let output = command.output().unwrap();
    let text = std::fs::read_to_string(dir.path().join("r.json")).ok();
    let text = text.inspect(|text| assert!(!text.contains(PASSWORD), "the password is in it"));
    (output, text.map(|text| serde_json::from_str(&text).unwrap()))
}

/// Checks that all that arrived of each trial is what was sent, and that it is all of it where the contender repairs.
#[track_caller]
fn is_whole(outcome: &Value, contenders: &[&str]) {
    let trials = outcome["trials"].as_array().unwrap();
    assert!(trials.len() > contenders.len(), "and the control");
    for trial in trials {
        let contender = contenders[trial["contender"].as_u64().unwrap() as usize];
        let verified = &trial["verified"];
        // Datagrams that are sent as fast as they can be may find no room on the way.
        let is_partial = contender.starts_with("udp") && verified["state"] == "partial";
        assert!(is_partial || verified["state"] == "verified", "{contender}: {verified}");
    }
}

#[test]
fn what_goes_through_a_coturn_of_ours_arrives_as_it_was_sent() {
    if !has("turnserver", "coturn") {
        return;
    }
    let contenders = ["udp:via=coturn", "quic:via=coturn", "kcp:via=coturn", "udp"];
    let (output, outcome) = race(&contenders, "bulk:bytes=300kB,verify=on", None);
    let outcome = outcome.unwrap_or_else(|| panic!("{output:?}"));
    is_whole(&outcome, &contenders);
    let differences = outcome["differences"].as_array().unwrap();
    let relay = differences.iter().find(|difference| difference["what"] == "relay").unwrap();
    assert_eq!(relay["values"]["udp:via=coturn"], "through coturn, by TURN", "{relay}");
}

#[test]
fn every_message_comes_back_through_a_coturn_that_somebody_runs() {
    if !has("turnserver", "coturn") {
        return;
    }
    let (_server, port) = coturn();
    let via = |contender: &str| format!("{contender}:via=turn:127.0.0.1:{port}");
    let contenders = ["udp", "quic", "kcp"].map(via);
    let contenders = contenders.each_ref().map(String::as_str);
    let (output, outcome) = race(&contenders, "ping:count=50,interval=4ms", Some(PASSWORD));
    let outcome = outcome.unwrap_or_else(|| panic!("{output:?}"));
    for trial in outcome["trials"].as_array().unwrap() {
        assert_eq!(trial["rtt_ns"]["n"], 50, "{trial}");
    }
}

#[test]
fn a_wrong_password_and_none_are_told_apart() {
    if !has("turnserver", "coturn") {
        return;
    }
    let (_server, port) = coturn();
    let contender = format!("udp:via=turn:127.0.0.1:{port}");
    for (password, words) in [
        (Some("guessed"), "knows no such name and password in the realm `example.org`"),
        (None, "set DEADHEAT_TURN_USER and DEADHEAT_TURN_PASSWORD"),
    ] {
        let (output, _) = race(&[&contender, "udp"], "ping:count=20,interval=4ms", password);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}

#[test]
fn where_no_server_is_the_contender_is_blocked() {
    let contender = format!("udp:via=turn:127.0.0.1:{}", free_port());
    let (output, outcome) = race(&[&contender, "udp"], "ping:count=20,interval=4ms", None);
    let outcome = outcome.unwrap_or_else(|| panic!("{output:?}"));
    let text = outcome["contenders"].to_string();
    assert!(text.contains("nothing listens there"), "{text}");
}

#[test]
fn what_is_not_over_udp_is_not_applicable() {
    if !has("turnserver", "coturn") {
        return;
    }
    let contenders = ["udp", "tcp:via=coturn"];
    let (output, _) = race(&contenders, "ping:count=20,interval=4ms", None);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("not applicable"), "{said}{output:?}");
}
