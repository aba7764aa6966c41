//! `mptcp` with a program that knows of TCP alone, under mptcpize: it replaces the program's calls of socket(2). Content is
//! checked, and the kernel is asked whether the connection is still of multipath TCP.

use std::process::Command;

use deadheat::transport::{Contender, Progress};

use crate::other::{Other, PYTHON, beside, has};
use crate::ours::{self, Kept, LARGEST, LONG};

/// Whether both the kernel and the program have it.
fn is_there() -> bool {
    if let Err(error) = Contender::parse("mptcp").unwrap().check() {
        println!("skipped: {error}");
        return false;
    }
    has("mptcpize", "mptcpize") && has(PYTHON, "python3")
}

/// The program, which speaks multipath TCP with `mptcpize run` in front of it.
fn program(before: &[&str], args: &[&str]) -> Command {
    let words: Vec<&str> = before.iter().copied().chain([PYTHON]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(beside("peer_tcp.py")).args(args);
    command
}

const MPTCPIZE: &[&str] = &["mptcpize", "run"];

#[test]
fn a_program_under_mptcpize_answers_us() {
    if !is_there() {
        return;
    }
    let mut other = Other::start(&mut program(MPTCPIZE, &["listen"]));
    let mut near = ours::dial("mptcp", other.line().parse().unwrap()).unwrap();
    ours::is_answered(&mut *near, &[1, 1_000, LARGEST, LARGEST, 7]);
    assert_eq!(near.effective()["subflows"], "1");
    ours::part(&mut *near, &mut Kept::default());
    assert_eq!(other.end(), "closed");
}

/// What our listener says of a connection's subflows once content went both ways.
fn subflows_of(before: &[&str]) -> String {
    let (mut listener, address) = ours::listen("mptcp");
    let port = address.port().to_string();
    let other = Other::start(&mut program(before, &["dial", &port, &ours::hello()]));
    let (_, mut far) = listener.accept(LONG).unwrap();
    while ours::answer_once(&mut *far) != Progress::Moved {}
    let subflows = far.effective().remove("subflows").unwrap();
    ours::answer(&mut *far);
    far.finish().unwrap();
    assert_eq!(other.end(), "all came back");
    subflows
}

#[test]
fn a_program_under_mptcpize_is_answered_by_us() {
    if is_there() {
        assert_eq!(subflows_of(MPTCPIZE), "1");
    }
}

#[test]
fn the_same_program_without_mptcpize_is_seen_to_speak_tcp() {
    if is_there() {
        assert_eq!(subflows_of(&[]), "none: it fell back to TCP");
    }
}
