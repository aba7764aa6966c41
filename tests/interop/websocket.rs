//! `ws` and `wss` with the library websockets.

use crate::other::{Other, python_with, script};
use crate::ours::{self, Kept, LARGEST, LONG};

const PEER: &str = "peer_websocket.py";

#[test]
fn websockets_in_python_answer_us() {
    let Some(python) = python_with("websockets") else { return };
    let mut other = Other::start(script(python, PEER).arg("listen"));
    let mut near = ours::dial("ws", other.line().parse().unwrap()).unwrap();
    ours::is_answered(&mut *near, &[1, 125, 126, 65_535, 65_536, LARGEST]);
    ours::part(&mut *near, &mut Kept::default());
    drop(near);
    assert_eq!(other.end(), "closed with 1000");
}

/// Answers a client over plain or encrypted connections.
fn answer(contender: &str, mode: &str) {
    let Some(python) = python_with("websockets") else { return };
    let (mut listener, address) = ours::listen(contender);
    let port = address.port().to_string();
    let other = Other::start(script(python, PEER).args([mode, &port, &ours::hello()]));
    let (_, mut far) = listener.accept(LONG).unwrap();
    ours::answer(&mut *far);
    // Its close has been answered; the end of the byte stream comes with ours.
    drop(far);
    assert_eq!(other.end(), "all came back, closed with 1000");
}

#[test]
fn websockets_in_python_are_answered_by_us() {
    answer("ws", "dial");
}

#[test]
fn websockets_over_tls_in_python_are_answered_by_us() {
    answer("wss", "dial-tls");
}
