//! Lanes, and content on two streams, for the tests of `quic` and `webtransport`.

use deadheat::contract::{Lane, Service};
use deadheat::time::{Clock, Monotonic};

use crate::content;
use crate::driven::Driven;
use crate::other::Other;

/// Two streams, a stream for each message, and datagrams.
pub(crate) static LANES: [Service; 4] =
    [Service::ORDERED, Service::ORDERED, Service::UNORDERED, Service::BEST_EFFORT];

/// Two streams alone.
pub(crate) const STREAMS: &[Service] = &[Service::ORDERED, Service::ORDERED];

/// The largest message, which fits a datagram.
pub(crate) const LARGEST: usize = 1_200;

/// Bytes on each stream.
const BYTES: usize = 150_000;

/// Sends content on both streams, piece by piece in turns, and sees it come back, with the ends of both.
pub(crate) fn come_back(near: &mut Driven) {
    let sent = [content(0, BYTES), content(1, BYTES)];
    for pieces in sent[0].chunks(20_000).zip(sent[1].chunks(20_000)) {
        near.write(0, pieces.0);
        near.write(1, pieces.1);
    }
    for lane in [0, 1] {
        near.protocol.finish(Monotonic.now(), Lane(lane));
        near.until(|near| near.protocol.has_ended(Lane(lane)));
        let on_lane = near.came.iter().filter(|(on, _)| *on == lane);
        let came: Vec<u8> = on_lane.flat_map(|(_, bytes)| bytes.clone()).collect();
        assert!(came == sent[usize::from(lane)], "stream {lane}");
    }
    near.came.clear();
}

/// Answers the other end, ends each stream once that has ended its own, and sees it find everything as it was sent.
pub(crate) fn answers(far: &mut Driven, other: Other) {
    let said = far.answers_with(other, end_after_the_other());
    assert_eq!(said, "all came back");
}

/// Returns a step that ends each stream once the other end has ended its own.
pub(crate) fn end_after_the_other() -> impl FnMut(&mut Driven) {
    let mut open = vec![0, 1];
    move |far| {
        open.retain(|lane| {
            // What came while a full end waited for room is still to be sent back.
            let is_owed = far.came.iter().any(|(on, _)| on == lane);
            let has_ended = !is_owed && far.protocol.has_ended(Lane(*lane));
            if has_ended {
                far.protocol.finish(Monotonic.now(), Lane(*lane));
            }
            !has_ended
        });
    }
}
