//! Datagrams for a codec under test.

use crate::codec::Codec;

/// Splits bytes into datagrams, each behind its length.
fn datagrams(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first()?;
        let (datagram, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        Some(datagram)
    })
}

/// Length of the messages, and of the room for what a datagram becomes.
pub(crate) const MESSAGE: usize = 64;

const ROOM: usize = 300;

/// Passes datagrams to a codec, and a message to it before each, as when both ends send.
pub(crate) fn decode(codec: &mut dyn Codec, bytes: &[u8]) {
    let (mut packet, mut message) = ([0; ROOM], [0; ROOM]);
    for datagram in datagrams(bytes) {
        if codec.has_room() {
            let len = codec.encode(&[7; MESSAGE], &mut packet);
            assert!(len <= ROOM, "a packet within its room");
            codec.sent();
        }
        if let Some(len) = codec.decode(datagram, &mut message) {
            assert!(len <= ROOM, "a message within its room");
        }
    }
    let _ = codec.farewell(&mut packet);
}
