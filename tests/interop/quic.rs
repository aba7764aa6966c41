//! `quic`, `quic-datagram`, `quic-noq` and `quic-s2n` with aioquic, in Python: each cipher that can be asked for, the trial's own certificate, and
//! content on streams, on a stream for each message, and in datagrams.

use deadheat::contract::Service;
use deadheat::transport::userspace::State;

use crate::certificate::Files;
use crate::driven::Driven;
use crate::other::{Other, python_with, script};
use crate::two_streams::{LANES, LARGEST, STREAMS, answers, come_back};

/// Ciphers by our names and by aioquic's.
const CIPHERS: [(&str, &str); 3] = [
    ("aes128", "AES_128_GCM_SHA256"),
    ("aes256", "AES_256_GCM_SHA384"),
    ("chacha20", "CHACHA20_POLY1305_SHA256"),
];

const PEER: &str = "peer_quic.py";

/// Messages that aioquic sends on a stream each, where we have lanes for them.
const MESSAGES: u32 = 20;

/// Each contender on streams with its lanes, and each cipher.
fn each() -> impl Iterator<Item = (&'static str, &'static [Service], &'static str, &'static str)> {
    let apart = cfg!(feature = "quic-quiche").then_some(("quic-quiche", LANES.as_slice()));
    let contenders =
        [("quic", LANES.as_slice()), ("quic-noq", LANES.as_slice()), ("quic-s2n", STREAMS)];
    let contenders = contenders.into_iter().chain(apart);
    let with = |(contender, lanes)| CIPHERS.map(|(ours, theirs)| (contender, lanes, ours, theirs));
    contenders.flat_map(with)
}

#[test]
fn aioquic_answers_us_with_each_cipher() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    let mut command = script(python, PEER);
    let mut other = Other::start(command.arg("listen").args([files.certificate(), files.key()]));
    let port: u16 = other.line().parse().unwrap();
    for (contender, lanes, cipher, _) in each() {
        let contender = format!("{contender}:cipher={cipher}");
        let peer = Some(([127, 0, 0, 1], port).into());
        let mut near = Driven::open(&contender, lanes, LARGEST, peer).lossy();
        near.until(|near| near.protocol.state() == State::Open);
        come_back(&mut near);
        if lanes == STREAMS {
            assert!(near.protocol.stats().resent > Some(0));
            continue;
        }
        near.is_answered(2..3, &[1, 100, 1_199, LARGEST, 20]);
        assert!(near.protocol.stats().resent > Some(0));
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
    for (contender, lanes, ours, theirs) in each() {
        let contender = format!("{contender}:cipher={ours}");
        let mut far = Driven::open(&contender, lanes, LARGEST, None).lossy();
        let mut command = script(python, PEER);
        command.arg("dial").arg(far.port().to_string()).arg(files.certificate()).arg(theirs);
        command.arg(if lanes == STREAMS { 0 } else { MESSAGES }.to_string());
        let other = Other::start(&mut command);
        answers(&mut far, other);
    }
}
