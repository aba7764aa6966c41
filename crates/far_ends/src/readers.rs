//! Readers of bytes that a far end sends, as a trial uses them: for fuzz targets. A panic is a fault, and an error none.
//!
//! A far end with bytes of its own adds its readers to [`ALL`], at the end: seeds name a reader by its place.

pub(crate) mod streams;

use crate::{https, iperf3, irtt, ndt7, quicperf, stamp};
use deadheat_datapath::transport::application::{DataWay, MessageApplication};

/// Reader of the bytes of a far end.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader {
    /// Name of the far end, and of the bytes.
    pub id: &'static str,
    /// Function that reads them, in the states in which they may arrive.
    pub read: fn(&[u8]),
}

/// Every reader.
pub const ALL: &[ByteReader] = &[
    ByteReader { id: "iperf3 control, up", read: iperf3::reading::control_up },
    ByteReader { id: "iperf3 control, both ways", read: iperf3::reading::control_both },
    ByteReader { id: "iperf3 results", read: iperf3::reading::results },
    ByteReader { id: "iperf3 datagrams", read: iperf3::reading::datagrams },
    ByteReader { id: "iperf3 blocks", read: iperf3::reading::blocks },
    ByteReader { id: "irtt reply to an open request", read: irtt::reading::opened },
    ByteReader { id: "irtt replies", read: irtt::reading::replies },
    ByteReader { id: "stamp replies", read: stamp::reading::replies },
    ByteReader { id: "https HTTP/1.1", read: https::reading::http1 },
    ByteReader { id: "https HTTP/2", read: https::reading::http2 },
    ByteReader { id: "https HTTP/3", read: https::reading::http3 },
    ByteReader { id: "quicperf download", read: quicperf::reading::download },
    ByteReader { id: "quicperf upload", read: quicperf::reading::upload },
    ByteReader { id: "quicperf requests", read: quicperf::reading::requests },
    ByteReader { id: "ndt7 measurements", read: ndt7::reading::measurements },
];

/// Returns the application of an ndt7 test in this direction, and the largest message that a server may send.
pub fn ndt7(way: DataWay) -> (Box<dyn MessageApplication>, usize) {
    (ndt7::reading::of(way), ndt7::reading::LARGEST_OF_SERVER)
}

/// Splits bytes into datagrams, each behind its length.
pub(crate) fn datagrams(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first()?;
        let (datagram, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        Some(datagram)
    })
}

/// Length of the messages, and of the room for what a datagram becomes.
pub(crate) const MESSAGE: usize = 64;
pub(crate) const ROOM: usize = 300;

/// Passes datagrams to a codec, and a message to it before each, as when both ends send.
pub(crate) fn decode(codec: &mut dyn crate::around::Codec, bytes: &[u8]) {
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
