//! `datachannel` with aiortc, in Python: ICE, DTLS and SCTP one after the other, and messages of all sizes on a channel with
//! order and on one without.

use deadheat::contract::Service;

use crate::driven::Driven;
use crate::other::{Other, python_with, script};
use crate::ours::HELLO;

const LANES: [Service; 2] = [Service::ORDERED, Service::UNORDERED];

#[test]
fn aiortc_is_answered_by_us() {
    let Some(python) = python_with("aiortc") else { return };
    let mut far = Driven::open("datachannel", &LANES, 60_000, None);
    let token: String = HELLO.token.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = script(python, "peer_datachannel.py");
    let other = Other::start(command.arg("dial").arg(far.port().to_string()).arg(token));
    assert_eq!(far.answers(other), "all came back");
}
