//! `quic-quiche` with `quic`, which is quinn's, over sockets and in real time, since quiche reads the host's clock itself:
//! each as the near and as the far end, with each cipher.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use deadheat::transport::userspace::State;

use crate::driven::Driven;
use crate::two_streams::{LANES, LARGEST, come_back, end_after_the_other};

/// Tells the far end that the near one is done, or has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has `far` answer as long as `near` runs, which is given its port.
fn beside(far: &str, near: impl FnOnce(u16)) {
    let is_over = AtomicBool::new(false);
    let (port, listening) = mpsc::channel();
    thread::scope(|scope| {
        let goes_on = || !is_over.load(Ordering::Relaxed);
        scope.spawn(move || {
            let mut far = Driven::open(far, &LANES, LARGEST, None);
            port.send(far.port()).unwrap();
            far.answers_while(goes_on, end_after_the_other());
        });
        let _over = Over(&is_over);
        near(listening.recv().unwrap());
    });
}

#[test]
fn quiche_and_quinn_understand_each_other_with_each_cipher() {
    for (near, far) in [("quic-quiche", "quic"), ("quic", "quic-quiche")] {
        for cipher in ["aes128", "aes256", "chacha20"] {
            let [near, far] = [near, far].map(|one| format!("{one}:cipher={cipher}"));
            beside(&far, |port| {
                let peer = Some(([127, 0, 0, 1], port).into());
                let mut near = Driven::open(&near, &LANES, LARGEST, peer).lossy();
                near.until(|near| near.protocol.state() == State::Open);
                come_back(&mut near);
                near.is_answered(2..3, &[1, 100, 1_199, LARGEST, 20]);
                assert!(near.protocol.stats().resent > Some(0));
                near.loses = None;
                near.is_answered(3..4, &[1_000; 10]);
            });
        }
    }
}
