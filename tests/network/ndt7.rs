//! Races to a server of ndt7, across an emulated path and on loopback: a small one of the library websockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::net::outcome;
use crate::others::{any_has_rate, race, says_so, trials};
use crate::path::{DEADHEAT, can};
use crate::python::python_with;
use crate::quicperf::write_certificate;
use crate::runs_all;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer_ndt7.py");

/// Runs a race of one block to a server on loopback, with the fault that its URL asks for.
fn race_on_loopback(query: &str, work: &str, dir: &Path) -> Output {
    let python = python_with("websockets").unwrap();
    let pin = write_certificate(dir);
    let mut server = Command::new(python)
        .args(["-B", SCRIPT])
        .args([dir.join("certificate.pem"), dir.join("key.pem")])
        .arg("0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let to = format!("ndt7://127.0.0.1:{}/{query}", port.trim());
    let raced = Command::new(DEADHEAT)
        .args(["race", "wss", "-w", work, "--to", &to, "--pin", &pin, "--blocks", "1", "-q"])
        .args(["--idle", "host", "-o", "race.json"])
        .current_dir(dir)
        .output()
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    raced
}

/// Checks the trials of a race in this direction.
fn check(outcome: &Value, way: &str) {
    assert!(says_so(outcome, "an ndt7 server"), "{}", outcome["warnings"]);
    for (_, trial) in trials(outcome) {
        let ledger = &trial["ledger"][way];
        assert_eq!(ledger["sent"], ledger["delivered"], "{trial}");
        let said = trial["effective"]["far_measurement"].as_str().unwrap_or_default();
        assert!(said.contains(if way == "up" { "read after" } else { "sent after" }), "{trial}");
    }
    let goodput = |(_, trial): (&str, &Value)| trial["metrics"]["goodput_bps"].as_f64();
    assert!(trials(outcome).filter_map(goodput).any(|bps| bps > 0.0), "{outcome:#}");
}

/// Across a path it costs 8 s, so that `make soak` alone runs that.
#[test]
fn an_ndt7_server_takes_and_sends_for_a_time() {
    let Some(python) = python_with("websockets") else { return };
    let dir = tempfile::tempdir().unwrap();
    if !runs_all() {
        let raced = race_on_loopback("", "bulk:direction=up,time=200ms,warmup=0s", dir.path());
        let said = String::from_utf8_lossy(&raced.stderr);
        assert!(matches!(raced.status.code(), Some(0 | 3)), "{said}");
        return check(&outcome(&dir.path().join("race.json")), "up");
    }
    if !can("tun", &[]) {
        return;
    }
    let pin = write_certificate(dir.path());
    let far =
        format!("{python} -B {SCRIPT} {0}/certificate.pem {0}/key.pem 443", dir.path().display());
    for way in ["up", "down"] {
        let work = format!("bulk:direction={way},time=400ms,warmup=200ms");
        let args = ["wss", "-w", &work, "--to", "ndt7://198.18.0.2", "--pin", &pin];
        let outcome = race(&far, &args, dir.path());
        check(&outcome, way);
        assert!(any_has_rate(&outcome, "goodput_bps"), "{way}: {outcome:#}");
    }
}

/// A server that breaks the protocol ends the trial with an error that names the step, and what it did there.
#[test]
fn an_ndt7_server_that_breaks_the_protocol_is_named_with_the_step() {
    if python_with("websockets").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let faults = [
        ("lie", "up", "of the upload", "bytes received, and"),
        ("data", "up", "of the upload", "it sent data amid an upload"),
        ("drop", "up", "of the upload", ""),
        ("babble", "down", "before the end of the download", "measurement that is none"),
        ("drop", "down", "before the end of the download", ""),
    ];
    let few = if runs_all() { &faults[..] } else { &faults[faults.len() - 1..] };
    for &(fault, way, step, what) in few {
        let work = format!("bulk:direction={way},time=300ms,warmup=0s");
        let raced = race_on_loopback(&format!("?fault={fault}"), &work, dir.path());
        let said = String::from_utf8_lossy(&raced.stderr);
        assert_eq!(raced.status.code(), Some(1), "{fault} {way}: {said}");
        assert!(said.contains(step) && said.contains(what), "{fault} {way}: {said}");
    }
}
