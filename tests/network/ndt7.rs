//! Races to a server of ndt7, across an emulated path and on loopback: a small one of the library websockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::others::{race, says_so, trials};
use crate::path::{DEADHEAT, can};
use crate::quicperf::{python_with, write_certificate};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer_ndt7.py");

#[test]
fn an_ndt7_server_takes_and_sends_for_a_time() {
    let Some(python) = python_with("websockets").filter(|_| can("tun", &[])) else { return };
    let dir = tempfile::tempdir().unwrap();
    let pin = write_certificate(dir.path());
    let far =
        format!("{python} -B {SCRIPT} {0}/certificate.pem {0}/key.pem 443", dir.path().display());
    for way in ["up", "down"] {
        let work = format!("bulk:direction={way},time=400ms,warmup=200ms");
        let args = ["wss", "-w", &work, "--to", "ndt7://198.18.0.2", "--pin", &pin];
        let outcome = race(&far, &args, dir.path());
        assert!(says_so(&outcome, "an ndt7 server"), "{}", outcome["warnings"]);
        for (_, trial) in trials(&outcome) {
            let ledger = &trial["ledger"][way];
            assert_eq!(ledger["sent"], ledger["delivered"], "{trial}");
            let goodput = trial["metrics"]["goodput_bps"].as_f64().unwrap();
            assert!(goodput > 0.0 && goodput < 5e7, "{way}: {goodput}");
            let said = trial["effective"]["far_measurement"].as_str().unwrap_or_default();
            assert!(
                said.contains(if way == "up" { "read after" } else { "sent after" }),
                "{trial}"
            );
        }
    }
}

/// A server that breaks the protocol ends the trial with an error that names the step, and what it did there.
#[test]
fn an_ndt7_server_that_breaks_the_protocol_is_named_with_the_step() {
    let Some(python) = python_with("websockets") else { return };
    let dir = tempfile::tempdir().unwrap();
    let pin = write_certificate(dir.path());
    for (fault, way, step, what) in [
        ("lie", "up", "of the upload", "bytes received, and"),
        ("data", "up", "of the upload", "it sent data amid an upload"),
        ("drop", "up", "of the upload", ""),
        ("babble", "down", "before the end of the download", "measurement that is none"),
        ("drop", "down", "before the end of the download", ""),
    ] {
        let mut server = Command::new(python)
            .args(["-B", SCRIPT])
            .args([dir.path().join("certificate.pem"), dir.path().join("key.pem")])
            .arg("0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let to = format!("ndt7://127.0.0.1:{}/?fault={fault}", port.trim());
        let work = format!("bulk:direction={way},time=300ms,warmup=0s");
        let raced = Command::new(DEADHEAT)
            .args(["race", "wss", "-w", &work, "--to", &to, "--pin", &pin, "--blocks", "1", "-q"])
            .args(["--idle", "host", "-o", "race.json"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        let said = String::from_utf8_lossy(&raced.stderr);
        assert_eq!(raced.status.code(), Some(1), "{fault} {way}: {said}");
        assert!(said.contains(step) && said.contains(what), "{fault} {way}: {said}");
    }
}
