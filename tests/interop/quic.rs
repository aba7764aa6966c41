//! `quic` and `quic-datagram` with aioquic, in Python: each cipher that can be asked for, the trial's own certificate, and
//! content on streams, on a stream for each message, and in datagrams.

use deadheat::contract::Service;
use deadheat::transport::userspace::State;

use crate::certificate::Files;
use crate::driven::Driven;
use crate::other::{Other, python_with, script};
use crate::two_streams::{LANES, LARGEST, answers, come_back};

/// Ciphers by our names and by aioquic's.
const CIPHERS: [(&str, &str); 3] = [
    ("aes128", "AES_128_GCM_SHA256"),
    ("aes256", "AES_256_GCM_SHA384"),
    ("chacha20", "CHACHA20_POLY1305_SHA256"),
];

const PEER: &str = "peer_quic.py";

#[test]
fn aioquic_answers_us_with_each_cipher() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    let mut command = script(python, PEER);
    let mut other = Other::start(command.arg("listen").args([files.certificate(), files.key()]));
    let port: u16 = other.line().parse().unwrap();
    for (cipher, _) in CIPHERS {
        let contender = format!("quic:cipher={cipher}");
        let peer = Some(([127, 0, 0, 1], port).into());
        let mut near = Driven::open(&contender, &LANES, LARGEST, peer).lossy();
        near.until(|near| near.protocol.state() == State::Open);
        come_back(&mut near);
        near.is_answered(2..3, &[1, 100, 1_199, LARGEST, 20]);
        assert!(near.protocol.counts().resent > Some(0));
        near.loses = None;
        near.is_answered(3..4, &[1_000; 10]);
    }
}

#[test]
fn datagrams_of_aioquic_answer_ours() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    let mut command = script(python, PEER);
    let mut other = Other::start(command.arg("listen").args([files.certificate(), files.key()]));
    let peer = Some(([127, 0, 0, 1], other.line().parse().unwrap()).into());
    let mut near = Driven::open("quic-datagram", &[Service::BEST_EFFORT], LARGEST, peer);
    near.until(|near| near.protocol.state() == State::Open);
    near.is_answered(0..1, &[1, 100, 1_000]);
}

#[test]
fn aioquic_is_answered_by_us_with_each_cipher() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    for (ours, theirs) in CIPHERS {
        let mut far = Driven::open(&format!("quic:cipher={ours}"), &LANES, LARGEST, None).lossy();
        let mut command = script(python, PEER);
        command.arg("dial").arg(far.port().to_string()).arg(files.certificate()).arg(theirs);
        let other = Other::start(&mut command);
        answers(&mut far, other);
    }
}
