//! `webtransport` with aioquic's HTTP/3, in Python: the session, the trial's own certificate, and content on streams, on a
//! stream for each message, and in datagrams.

use deadheat::contract::{Lane, Service};
use deadheat::time::{Clock, Monotonic};
use deadheat::transport::userspace::State;

use crate::certificate::Files;
use crate::content;
use crate::driven::Driven;
use crate::other::{Other, python_with, script};

/// Two streams, a stream for each message, and datagrams.
const LANES: [Service; 4] =
    [Service::ORDERED, Service::ORDERED, Service::UNORDERED, Service::BEST_EFFORT];

const CONTENDER: &str = "webtransport";

const PEER: &str = "peer_webtransport.py";

/// The largest message, which fits a datagram.
const LARGEST: usize = 1_200;

/// Bytes on each stream.
const STREAM: usize = 150_000;

fn stream(end: &Driven, lane: u16) -> Vec<u8> {
    end.came.iter().filter(|(on, _)| *on == lane).flat_map(|(_, bytes)| bytes.clone()).collect()
}

#[test]
fn aioquic_grants_us_a_session_and_answers_in_it() {
    let Some(python) = python_with("aioquic") else { return };
    let files = Files::write();
    let mut command = script(python, PEER);
    let mut other = Other::start(command.arg("listen").args([files.certificate(), files.key()]));
    let peer = Some(([127, 0, 0, 1], other.line().parse().unwrap()).into());
    let mut near = Driven::open(CONTENDER, &LANES, LARGEST, peer).lossy();
    near.until(|near| near.protocol.state() == State::Open);
    let sent = [content(0, STREAM), content(1, STREAM)];
    for pieces in sent[0].chunks(20_000).zip(sent[1].chunks(20_000)) {
        near.write(0, pieces.0);
        near.write(1, pieces.1);
    }
    for lane in [0, 1] {
        near.protocol.finish(Monotonic.now(), Lane(lane));
        near.until(|near| near.protocol.has_ended(Lane(lane)));
        assert!(stream(&near, lane) == sent[usize::from(lane)], "stream {lane}");
    }
    near.came.clear();
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
    let mut open = vec![0, 1];
    let said = far.answers_with(other, |far| {
        open.retain(|lane| {
            let has_ended = far.protocol.has_ended(Lane(*lane));
            if has_ended {
                far.protocol.finish(Monotonic.now(), Lane(*lane));
            }
            !has_ended
        });
    });
    assert_eq!(said, "all came back");
}
