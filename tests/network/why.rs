//! Causes planted on emulated paths and in programs of others: what the kernel's TCP, libraries and servers really do is
//! named, and identical contenders have no cause that differs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::fs;

use serde_json::Value;

use crate::emulated::{can, race};
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

/// A busy host adds causes of its own, so each planted one is among those found.
#[test]
fn windows_and_buffers_of_the_kernel_are_named() {
    if !can() {
        return;
    }
    let contenders = ["tcp:rcvbuf=32kB", "tcp:sndbuf=24kB", "quic:window=48kB"];
    let outcome = race(&contenders, "delay=20ms", "bulk:time=2s,warmup=0s");
    let found = causes(&outcome);
    for (own, planted) in found.iter().zip(["receive_window", "send_buffer", "library_window"]) {
        assert!(names(own).contains(&planted), "{planted}: {found:#?}");
    }
    let window = found[0].iter().find(|one| one["cause"] == "receive_window").unwrap();
    let bytes = window["evidence"]["bytes"].as_u64().unwrap();
    assert!((16_000..=66_000).contains(&bytes), "{window}");
}

#[test]
fn a_rate_and_losses_of_the_path_are_told_apart() {
    if !can() {
        return;
    }
    let work = "bulk:time=3s,warmup=0s";
    let limited = causes(&race(&["tcp:cc=cubic"], "delay=10ms,rate=10mbit,queue=60ms", work));
    assert!(names(&limited[0]).contains(&"path_rate"), "{limited:#?}");
    let lossy = causes(&race(&["tcp:cc=cubic"], "delay=20ms,loss=2%", work));
    assert!(names(&lossy[0]).contains(&"congestion_window"), "{lossy:#?}");
    assert!(!names(&lossy[0]).contains(&"path_rate"), "{lossy:#?}");
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
