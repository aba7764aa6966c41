//! `webtransport` with aioquic's HTTP/3, in Python: the session, the trial's own certificate, and content on streams, on a
//! stream for each message, and in datagrams.

use deadheat::transport::userspace::State;

use crate::certificate::Files;
use crate::driven::Driven;
use crate::other::{Other, python_with, script};
use crate::two_streams::{LANES, LARGEST, answers, come_back};

const CONTENDER: &str = "webtransport";

const PEER: &str = "peer_webtransport.py";

#[test]
fn aioquic_grants_us_a_session_and_answers_in_it() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    let mut command = script(python, PEER);
    let mut other = Other::start(command.arg("listen").args([files.certificate(), files.key()]));
    let peer = Some(([127, 0, 0, 1], other.line().parse().unwrap()).into());
    let mut near = Driven::open(CONTENDER, &LANES, LARGEST, peer).lossy();
    near.until(|near| near.protocol.state() == State::Open);
    come_back(&mut near);
    near.is_answered(2..3, &[1, 100, 1_199, LARGEST, 20]);
    near.loses = None;
    near.is_answered(3..4, &[1_000; 10]);
}

#[test]
fn aioquic_is_granted_a_session_and_answered_in_it() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    let mut far = Driven::open(CONTENDER, &LANES, LARGEST, None).lossy();
    let mut command = script(python, PEER);
    command.arg("dial").arg(far.port().to_string()).arg(files.certificate());
    let other = Other::start(&mut command);
    answers(&mut far, other);
}
