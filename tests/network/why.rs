//! A cause planted in a program of others across an emulated path, which the near end alone sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::fs;

use serde_json::Value;

use crate::path;
use crate::web::{NGINX, saved, visit_over};

/// Returns the causes of each contender, the largest first.
fn causes(outcome: &Value) -> Vec<Vec<Value>> {
    let contenders = outcome["contenders"].as_array().unwrap().len();
    let all = outcome["causes"].as_array();
    let of = |id: usize| {
        let own = all.into_iter().flatten().find(|own| own["contender"] == id);
        own.map_or_else(Vec::new, |own| own["findings"].as_array().unwrap().clone())
    };
    (0..contenders).map(of).collect()
}

fn names(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["cause"].as_str().unwrap()).collect()
}

/// nginx keeps so much in its socket until it is acknowledged: a burst in each round trip, by the near end's view alone.
#[test]
fn a_server_with_a_small_send_buffer_is_named_by_what_arrives() {
    if !path::can("tun", &["nginx"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("document"), vec![b'd'; 20_000_000]).unwrap();
    let small = NGINX.replace("ssl http2", "ssl http2 sndbuf=32k");
    fs::write(dir.path().join("nginx.conf"), small).unwrap();
    let server = format!("nginx -p {} -c nginx.conf", dir.path().display());
    let work = "bulk:direction=down,time=3s";
    let args = ["tls", "-w", work, "--to", "https://far/document"];
    let (outcome, trials) =
        saved(&visit_over("delay=15ms", &server, &args, dir.path()), dir.path());
    let rounds = &trials[0].1["intervals"][0]["rounds"];
    assert!(rounds["n"].as_u64() > Some(20), "{}", trials[0].1);
    let found = causes(&outcome);
    assert!(names(&found[0]).contains(&"peer_window"), "{rounds} {found:#?}");
}
