//! `enet` with the C library, by pyenet.

use deadheat::contract::Service;
use deadheat::transport::userspace::State;

use crate::driven::{Driven, free_port};
use crate::other::{Other, python_with, script};
use crate::ours::LARGEST;

/// The last lane is of best effort.
const LANES: [Service; 4] =
    [Service::ORDERED, Service::ORDERED, Service::ORDERED, Service::BEST_EFFORT];

#[test]
fn enet_in_c_answers_us() {
    let Some(python) = python_with("enet") else { return };
    let port = free_port();
    let mut other =
        Other::start(script(python, "peer_enet.py").args(["listen", &port.to_string()]));
    assert_eq!(other.line(), "ready");
    let peer = Some(([127, 0, 0, 1], port).into());
    let mut near = Driven::open("enet", &LANES, LARGEST, peer);
    near.until(|near| near.protocol.state() == State::Open);
    near.is_answered(0..3, &[1, 100, 1_400, 5_000, 100_000, 20, 3_000]);
    // On loopback nothing is lost that is not sent faster than it is read.
    near.is_answered(3..4, &[1_000; 10]);
    near.until(|near| near.protocol.is_drained());
}

#[test]
fn enet_in_c_is_answered_by_us() {
    let Some(python) = python_with("enet") else { return };
    let mut far = Driven::open("enet", &LANES, LARGEST, None);
    let port = far.port().to_string();
    let other = Other::start(script(python, "peer_enet.py").args(["dial", &port]));
    assert_eq!(far.answers(other), "all came back");
}
