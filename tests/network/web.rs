//! Races at a web server across an emulated path: HTTP/1.1 over TLS and HTTP/3 over QUIC, by Python and aioquic; HTTP/2 over
//! TLS, by Debian's nginx.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::net::{check_schema, outcome, ran};
use crate::path::{DEADHEAT, can};
use crate::pem::pem;
use crate::python::python_with;
use crate::quicperf::QUIC;
use crate::runs_all;

/// Path with a delay and a loss each way.
const PATH: &str = "delay=5ms,loss=1%";

/// Runs a race at the web server on the far host of a path, `only` with HTTP/3 or without it.
fn visit(only: &str, args: &[&str], dir: &Path) -> Option<Output> {
    let python = python_with("aioquic").filter(|_| can("tun", &[]))?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/network/web.py");
    let server = format!("{python} -B {script} certificate.pem key.pem {only}");
    Some(visit_server(&server, args, dir))
}

/// Runs a race at `server` on the far host of a path, which has a certificate of its name in its directory.
fn visit_server(server: &str, args: &[&str], dir: &Path) -> Output {
    visit_over(PATH, server, args, dir)
}

/// Runs such a race over this path.
pub(crate) fn visit_over(path: &str, server: &str, args: &[&str], dir: &Path) -> Output {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(["far".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate, key) =
        (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()));
    let files = [("certificate.pem", certificate), ("key.pem", key)];
    files.iter().for_each(|(name, text)| fs::write(dir.join(name), text).unwrap());
    let mut command = Command::new(DEADHEAT);
    command.args(["path", "run", "-q", path, "--far", server, "--far-ready", "443", "--"]);
    command.args([DEADHEAT, "race", "--idle", "host", "--seed", "1"]).args(args);
    command.args(["--blocks", "1", "-q", "-o", "race.json"]);
    command.env("SSL_CERT_FILE", "certificate.pem").current_dir(dir).output().unwrap()
}

/// The saved race, and the trials with the name of their contender.
pub(crate) fn saved(done: &Output, dir: &Path) -> (Value, Vec<(String, Value)>) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 3)), "{said}");
    let outcome = outcome(&dir.join("race.json"));
    check_schema(&outcome);
    let trials = ran(&outcome).into_iter().map(|trial| {
        let contender = trial["contender"].as_u64().unwrap() as usize;
        let spec = outcome["contenders"][contender]["spec"].as_str().unwrap();
        (spec.to_owned(), trial.clone())
    });
    let trials = trials.collect();
    (outcome, trials)
}

/// Contenders that a web server answers.
const ALL: [&[&str]; 2] = [&["tls"], QUIC];

fn version(contender: &str) -> &'static str {
    if contender.starts_with("quic") { "HTTP/3" } else { "HTTP/1.1" }
}

/// Without contenders and work, a race at a site is its visits over each.
#[test]
fn a_site_is_visited_over_tls_and_quic() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--to", "https://far/bytes/5000"];
    let Some(done) = visit("", &args, dir.path()) else { return };
    let (outcome, trials) = saved(&done, dir.path());
    assert_eq!(outcome["path"]["far_end"]["id"], "https");
    assert_eq!(outcome["contenders"].as_array().map(Vec::len), Some(2), "one for each protocol");
    assert!(outcome["asked"]["workload"].as_str().unwrap().starts_with("connect"), "{outcome}");
    let mut documents = Vec::new();
    for (contender, trial) in &trials {
        // A handshake of TCP, one of TLS, and the exchange; one of QUIC, and the exchange.
        let trips = if contender == "tls" { 3.0 } else { 2.0 };
        let first = trial["metrics"]["first_byte_p50_ns"].as_f64().unwrap();
        assert!(first > trips * 10e6, "{contender}: {trial}");
        assert_eq!(trial["ledger"]["down"]["delivered"], 20, "{contender}: {trial}");
        assert_eq!(trial["effective"]["http"], version(contender));
        assert_eq!(trial["effective"]["alt_svc"], "h3=\":443\"; ma=60");
        documents.push(trial["effective"]["document"].as_str().unwrap().to_owned());
    }
    assert!(documents[0].starts_with("200, 5000 B, SHA-256 "), "{documents:?}");
    assert!(documents.len() >= 3 && documents.iter().all(|one| *one == documents[0]));
    let codes: Vec<&str> =
        outcome["warnings"].as_array().unwrap().iter().filter_map(|w| w["code"].as_str()).collect();
    assert!(!codes.contains(&"far_end_remark"), "{codes:?}");
}

#[test]
fn documents_are_asked_for_at_a_rate_and_one_that_changes_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let work = ["-w", "rpc:rate=50pps,count=20", "--to", "https://far/changing"];
    let Some(done) = visit("", &[&ALL.concat()[..], &work].concat(), dir.path()) else { return };
    let (outcome, trials) = saved(&done, dir.path());
    for (contender, trial) in &trials {
        assert_eq!(trial["ledger"]["down"]["delivered"], 20, "{contender}: {trial}");
        assert!(trial["metrics"]["response_mean_ns"].as_f64().unwrap() > 10e6, "{trial}");
        assert_eq!(trial["effective"]["http"], version(contender), "{trial}");
    }
    let has = |name| trials.iter().any(|(contender, _)| contender == name);
    assert!(ALL.into_iter().flatten().all(has));
    let warnings = outcome["warnings"].as_array().unwrap();
    let remark = warnings.iter().find(|warning| warning["code"] == "far_end_remark").unwrap();
    assert!(remark["message"].as_str().unwrap().contains("not the same in all trials"), "{remark}");
}

/// Costs some 15 s, so that `make soak` alone runs it.
#[test]
fn downloads_resumption_and_a_site_without_http_3() {
    if !runs_all() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let to = ["--to", "https://far/bytes/300000"];
    let args = [&ALL.concat()[..], &["-w", "bulk:direction=down,bytes=200kB"], &to[..]].concat();
    let Some(done) = visit("", &args, dir.path()) else { return };
    for (contender, trial) in saved(&done, dir.path()).1 {
        assert_eq!(trial["ledger"]["down"]["delivered"], 200_000, "{contender}: {trial}");
        assert!(trial["metrics"]["transfer_ns"].as_f64().unwrap() > 10e6, "{contender}: {trial}");
    }
    let work = "connect:count=20,pause=30ms";
    let mut args = vec!["tls:resume=on", "quic:resume=0rtt"];
    if cfg!(feature = "quic-noq") {
        args.push("quic-noq:resume=0rtt");
    }
    args.extend(["-w", work, "--to", "https://far/bytes/1000"]);
    let Some(done) = visit("", &args, dir.path()) else { return };
    for (contender, trial) in saved(&done, dir.path()).1 {
        // A ticket for early data may come too late for the last connection.
        let resumed: &[&str] =
            if contender == "tls:resume=on" { &["on"] } else { &["0rtt", "no early data"] };
        let effective = trial["effective"]["resume"].as_str().unwrap();
        assert!(resumed.contains(&effective), "{contender}: {trial}");
        assert_eq!(trial["ledger"]["down"]["delivered"], 20, "{contender}: {trial}");
    }
    let args = ["quic", "-w", "connect:count=20", "--to", "https://far/bytes/100"];
    let Some(done) = visit("h1", &args, dir.path()) else { return };
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("no handshake came about: either nothing answers QUIC there"), "{said}");
}

/// What a visitor of a site cannot know beforehand is named, with the remedy.
#[test]
fn a_document_elsewhere_and_one_that_is_missing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (contender, path, why) in [
        ("tls", "/moved", "status 301, to https://elsewhere.example/; race that URL"),
        ("quic", "/gone", "status 404: there is no such document"),
    ] {
        let to = format!("https://far{path}");
        let Some(done) = visit("", &[contender, "-w", "connect:count=20", "--to", &to], dir.path())
        else {
            return;
        };
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(why), "{contender} {path}: {said}");
    }
}

/// nginx agrees on HTTP/2, and Debian's has no HTTP/3.
#[test]
fn nginx_is_asked_over_http_2() {
    if !can("tun", &["nginx"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("document"), vec![b'd'; 20_000]).unwrap();
    fs::write(dir.path().join("nginx.conf"), NGINX).unwrap();
    let server = format!("nginx -p {} -c nginx.conf", dir.path().display());
    for (work, metric) in [
        ("rpc:rate=50pps,count=20", "response_mean_ns"),
        ("bulk:direction=down,bytes=300kB", "transfer_ns"),
    ] {
        let args = ["tls", "-w", work, "--to", "https://far/document"];
        let (outcome, trials) = saved(&visit_server(&server, &args, dir.path()), dir.path());
        for (_, trial) in trials {
            assert_eq!(trial["effective"]["http"], "HTTP/2", "{work}: {trial}");
            let delivered = if work.starts_with("bulk") { 300_000 } else { 20 };
            assert_eq!(trial["ledger"]["down"]["delivered"], delivered, "{work}: {trial}");
            assert!(trial["metrics"][metric].as_f64().unwrap() > 10e6, "{work}: {trial}");
        }
        let warnings = outcome["warnings"].as_array().unwrap();
        let remark = warnings.iter().find(|warning| warning["code"] == "far_end_remark").unwrap();
        assert!(remark["message"].as_str().unwrap().contains("offers no HTTP/3"), "{remark}");
    }
}

pub(crate) const NGINX: &str = "
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path temp;
    proxy_temp_path temp;
    fastcgi_temp_path temp;
    uwsgi_temp_path temp;
    scgi_temp_path temp;
    server {
        listen [::]:443 ssl http2 ipv6only=off;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate certificate.pem;
        ssl_certificate_key key.pem;
        root .;
    }
}
";
