//! Races to servers of QUIC perf, across an emulated path: aioquic's, which a few lines make one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rcgen::PublicKeyData;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::answers::Serving;
use crate::net::outcome;
use crate::others::{any_has_rate, race, says_so, trials};
use crate::path::{DEADHEAT, can};
use crate::pem::pem;
use crate::python::python_with;
use crate::runs_all;

/// Contenders that reach a server of others over QUIC.
pub(crate) const QUIC: &[&str] =
    if cfg!(feature = "quic-noq") { &["quic", "quic-noq"] } else { &["quic"] };

/// Runs a race of each library of QUIC that can to aioquic's perf server, whose certificate and key are in `dir`.
fn race_to_perf(python: &str, args: &[&str], dir: &Path) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer_quicperf.py");
    let far = format!("{python} -B {script} {0}/certificate.pem {0}/key.pem 443", dir.display());
    race(&far, &[QUIC, args, &["--to", "quicperf://198.18.0.2"]].concat(), dir)
}

/// Writes a certificate and its private key; returns the pin of its public key.
pub(crate) fn write_certificate(dir: &Path) -> String {
    let pair = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(["198.18.0.2".to_owned()]).unwrap();
    let certificate = names.self_signed(&pair).unwrap();
    let write = |file, text| fs::write(dir.join(file), text).unwrap();
    write("certificate.pem", pem("CERTIFICATE", certificate.der()));
    write("key.pem", pem("PRIVATE KEY", &pair.serialize_der()));
    let digest = Sha256::digest(pair.subject_public_key_info());
    format!("sha256:{}", deadheat::units::hex::hex(&digest))
}

#[test]
fn a_quic_perf_server_takes_and_sends_what_it_is_asked_for() {
    let Some(python) = python_with("aioquic").filter(|_| can("tun", &[])) else { return };
    let dir = tempfile::tempdir().unwrap();
    let pin = write_certificate(dir.path());
    let race_to =
        |args: &[&str]| race_to_perf(python, &[args, &["--pin", &pin]].concat(), dir.path());
    let bulk = race_to(&["-w", "bulk:bytes=300kB,direction=both,streams=2"]);
    assert!(says_so(&bulk, "a QUIC perf server"), "{}", bulk["warnings"]);
    for (_, trial) in trials(&bulk) {
        for way in ["up", "down"] {
            let ledger = &trial["ledger"][way];
            assert_eq!(ledger["sent"], 300_000, "{way}: {trial}");
            assert_eq!(ledger["delivered"], 300_000, "{way}: {trial}");
        }
    }
    assert!(any_has_rate(&bulk, "goodput_bps"), "{bulk:#}");
    if !runs_all() {
        return;
    }
    for work in ["bulk:time=300ms,warmup=100ms", "bulk:time=300ms,warmup=100ms,direction=down"] {
        let outcome = race_to(&["-w", work]);
        assert!(any_has_rate(&outcome, "goodput_bps"), "{work}: {outcome:#}");
        for (_, trial) in trials(&outcome) {
            let way = if work.ends_with("down") { "down" } else { "up" };
            let ledger = &trial["ledger"][way];
            assert_eq!(ledger["sent"], ledger["delivered"], "{work}: {trial}");
        }
    }
    for (_, trial) in trials(&race_to(&["-w", "rpc:count=20,response=1kB..20kB"])) {
        assert_eq!(trial["ledger"]["up"]["sent"], 20, "{trial}");
        assert_eq!(trial["ledger"]["up"]["delivered"], 20, "{trial}");
        // A round trip of the path, which is part of every answer.
        assert!(trial["metrics"]["response_p50_ns"].as_f64().unwrap() > 10e6, "{trial}");
    }
}

/// A server's own certificate is refused with the pin that accepts it, and an authority of the user's accepts it, too.
#[test]
fn a_perf_server_of_an_unknown_authority_is_refused_with_its_pin() {
    if !runs_all() {
        return;
    }
    let Some(python) = python_with("aioquic").filter(|_| can("tun", &[])) else { return };
    let dir = tempfile::tempdir().unwrap();
    let pin = write_certificate(dir.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer_quicperf.py");
    let far =
        format!("{python} -B {script} {0}/certificate.pem {0}/key.pem 443", dir.path().display());
    let race_with = |authorities: &Path| {
        Command::new(DEADHEAT)
            .args(["path", "run", "-q", "delay=1ms", "--far", &far, "--", DEADHEAT, "race", "quic"])
            .args([
                "-w",
                "bulk:bytes=200kB",
                "--to",
                "quicperf://198.18.0.2",
                "--blocks",
                "1",
                "-q",
            ])
            .args(["--idle", "host", "-o", "race.json"])
            .current_dir(dir.path())
            .env("SSL_CERT_FILE", authorities)
            .output()
            .unwrap()
    };
    let own = dir.path().join("certificate.pem");
    let other = tempfile::tempdir().unwrap();
    write_certificate(other.path());
    let refused = race_with(&other.path().join("certificate.pem"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_ne!(refused.status.code(), Some(0), "{said}");
    assert!(said.contains(&pin) && said.contains("--pin"), "{said}");
    let taken = race_with(&own);
    assert!(
        matches!(taken.status.code(), Some(0 | 3)),
        "{}",
        String::from_utf8_lossy(&taken.stderr)
    );
}

/// A server that breaks the protocol ends the trial with an error that names the step, and what it did there.
#[test]
fn a_perf_server_that_breaks_the_protocol_is_named_with_the_step() {
    let Some(python) = python_with("aioquic") else { return };
    let dir = tempfile::tempdir().unwrap();
    let pin = write_certificate(dir.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer_quicperf.py");
    let faults = [
        ("close", "bulk:bytes=200kB", "before it confirmed the upload", "no more"),
        ("reset", "bulk:bytes=200kB,direction=down", "before all 200000 bytes", "code 9"),
        ("more", "bulk:bytes=200kB", "before it confirmed the upload", "answered with 1 bytes"),
        ("less", "bulk:bytes=200kB,direction=down", "before all 200000", "it sent 199999 bytes"),
        ("less", "rpc:count=20", "its answer to request 0", "to request 0 it sent"),
    ];
    for &(fault, work, step, what) in &faults[..if runs_all() { faults.len() } else { 1 }] {
        let mut server = Command::new(python)
            .args(["-B", script])
            .args([dir.path().join("certificate.pem"), dir.path().join("key.pem")])
            .args(["0", fault])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let to = format!("quicperf://127.0.0.1:{}", port.trim());
        let raced = Command::new(DEADHEAT)
            .args(["race", "quic", "-w", work, "--to", &to, "--pin", &pin, "--blocks", "1", "-q"])
            .args(["--idle", "host", "-o", "race.json"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        let said = String::from_utf8_lossy(&raced.stderr);
        assert_eq!(raced.status.code(), Some(1), "{fault} {work}: {said}");
        assert!(said.contains(step) && said.contains(what), "{fault} {work}: {said}");
    }
}

/// aioquic's client and our own far end against `deadheat serve --quic-perf`, whose log says the pin.
#[test]
fn clients_of_quic_perf_measure_against_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let serving = Serving::start(&["--quic-perf=0"]);
    let port = serving.port("QUIC perf clients");
    let (_, pin) = serving.answered[0].split_once("of the key ").unwrap();
    if let Some(python) = python_with("aioquic") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer_quicperf.py");
        let asked = Command::new(python)
            .args(["-B", script, "ask", &port, "100000", "200000"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), "200000");
        serving.line_with("QUIC perf done in");
    }
    let to = format!("quicperf://127.0.0.1:{port}");
    let work = "bulk:bytes=300kB,direction=both,streams=2";
    let raced = Command::new(DEADHEAT)
        .args(["race", "quic", "-w", work, "--to", &to, "--pin", pin.trim(), "--blocks", "1", "-q"])
        .args(["--idle", "host", "-o", "race.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&raced.stderr);
    assert!(matches!(raced.status.code(), Some(0 | 3)), "{said}");
    let outcome = outcome(&dir.path().join("race.json"));
    for (_, trial) in trials(&outcome) {
        for way in ["up", "down"] {
            assert_eq!(trial["ledger"][way]["delivered"], 300_000, "{trial}");
        }
    }
    serving.line_with("QUIC perf done in");
    assert!(serving.end().contains("QUIC perf clients"));
}
