//! `utp` with libutp, the C++ library of BitTorrent, by utp-native.

use std::process::{Command, Stdio};

use deadheat::contract::{Lane, Service};
use deadheat::time::{Clock, Monotonic};
use deadheat::transport::userspace::State;

use crate::content;
use crate::driven::{Driven, free_port};
use crate::other::{Other, beside, skipped};

/// Bytes that go each way, and those that go at once.
const WAY: usize = 1_000_000;
const PIECE: usize = 1_000;

/// The folder with the module that no package of this system has; scripts/need.sh makes it.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/node_modules");

/// Node.js with the module, or `None` and why the test is skipped.
fn node() -> Option<Command> {
    let node = || {
        let mut command = Command::new("node");
        command.env("NODE_PATH", MODULES);
        command
    };
    let mut tried = node();
    tried.args(["-e", "require('utp-native')"]).stderr(Stdio::null());
    if tried.status().is_ok_and(|status| status.success()) {
        let mut command = node();
        command.arg(beside("peer_utp.js"));
        return Some(command);
    }
    skipped("utp-native");
    None
}

/// Sends bytes to libutp and checks that all come back, and the end of each direction behind them; how many packets left
/// again.
fn is_answered(path: impl FnOnce(Driven) -> Driven) -> Option<u64> {
    let mut node = node()?;
    let port = free_port();
    let mut other = Other::start(node.args(["listen", &port.to_string()]));
    assert_eq!(other.line(), "ready");
    let peer = Some(([127, 0, 0, 1], port).into());
    let mut near = path(Driven::open("utp", &[Service::ORDERED], PIECE, peer));
    near.until(|near| near.protocol.state() == State::Open);
    let sent = content(1, WAY);
    for piece in sent.chunks(PIECE) {
        near.write(0, piece);
    }
    near.protocol.finish(Monotonic.now(), Lane(0));
    near.until(|near| near.protocol.has_ended(Lane(0)) && near.protocol.is_drained());
    let came: Vec<u8> = near.came.drain(..).flat_map(|(_, bytes)| bytes).collect();
    assert!(came == sent, "{} of {WAY} bytes", came.len());
    near.protocol.stats().resent
}

#[test]
fn libutp_answers_us() {
    is_answered(|near| near);
}

#[test]
fn libutp_answers_us_over_a_lossy_path() {
    let Some(resent) = is_answered(Driven::lossy) else { return };
    assert!(resent > 0);
}

#[test]
fn libutp_is_answered_by_us() {
    let paths: [fn(Driven) -> Driven; 2] = [|far| far, Driven::lossy];
    for path in paths {
        let Some(mut node) = node() else { return };
        let mut far = path(Driven::open("utp", &[Service::ORDERED], PIECE, None));
        let port = far.port().to_string();
        let other = Other::start(node.args(["dial", &port]));
        assert_eq!(far.answers(other), "all came back");
    }
}
