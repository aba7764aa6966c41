//! `sctp-udp` with usrsctp, the SCTP of FreeBSD's kernel as a library in C, over its own encapsulation in UDP.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use deadheat::contract::Service;
use deadheat::transport::userspace::State;

use crate::driven::{Driven, free_port};
use crate::other::{Other, beside, skipped};

/// Each is a stream: the last two are without order, and the last one gives up what is lost.
const LANES: [Service; 4] =
    [Service::ORDERED, Service::ORDERED, Service::UNORDERED, Service::BEST_EFFORT];

const LARGEST: usize = 65_536;

/// Its timeout is as short as that of the other end: what is lost last is waited for.
const OURS: &str = "sctp-udp:min-rto=50ms";

/// The other end, compiled; `None` where its library's header is missing.
fn compiled(name: &str) -> Option<PathBuf> {
    let mut look = Command::new("cc");
    look.args(["-E", "-include", "usrsctp.h", "-xc", "/dev/null"]);
    if !look.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
        skipped("libusrsctp-dev");
        return None;
    }
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut build = Command::new("cc");
    build.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    build.arg(beside("peer_sctp.c")).arg("-lusrsctp");
    assert!(build.status().unwrap().success(), "peer_sctp.c does not compile");
    Some(program)
}

#[test]
fn usrsctp_answers_us() {
    let Some(program) = compiled("peer_sctp_listen") else { return };
    let port = free_port();
    let mut other = Other::start(Command::new(program).args(["listen", &port.to_string()]));
    assert_eq!(other.line(), "ready");
    let mut near = Driven::open(OURS, &LANES, LARGEST, Some(([127, 0, 0, 1], port).into())).lossy();
    near.until(|near| near.protocol.state() == State::Open);
    near.is_answered(0..3, &[1, 100, 1_400, 5_000, LARGEST, 20, 3_000, 1_200]);
    near.until(|near| near.protocol.is_drained());
    assert!(near.protocol.stats().resent > Some(0));
    near.loses = None;
    near.is_answered(3..4, &[1_000; 10]);
}

#[test]
fn usrsctp_is_answered_by_us() {
    let Some(program) = compiled("peer_sctp_dial") else { return };
    // What is lost comes again on each of them: the other end waits for it.
    let lanes = [LANES[0], LANES[1], LANES[2], LANES[2]];
    let mut far = Driven::open(OURS, &lanes, LARGEST, None).lossy();
    let ports = [free_port(), far.port()].map(|port| port.to_string());
    let other = Other::start(Command::new(program).arg("dial").args(ports));
    assert_eq!(far.answers(other), "all came back");
    assert!(far.protocol.stats().resent > Some(0));
}
