//! Readers of bytes that a far end sends, as a trial uses them: for fuzz targets. A panic is a fault, and an error none.
//!
//! A far end with bytes of its own adds its readers to [`ALL`], at the end: seeds name a reader by its place.

pub(crate) mod datagrams;
pub(crate) mod streams;

use crate::{https, iperf3, irtt, ndt7, quicperf, stamp};
use deadheat_base::ends::Direction;
use deadheat_datapath::transport::application::MessageApplication;

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
pub fn ndt7(way: Direction) -> (Box<dyn MessageApplication>, usize) {
    (ndt7::reading::of(way), ndt7::reading::LARGEST_OF_SERVER)
}
