//! Layer between a QUIC connection and its lanes: nothing, or a session of a protocol such as HTTP/3, which has streams
//! of its own and begins the streams of lanes with bytes of its own.

use super::lanes::{Heads, Lanes};
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::identity::NAME;
use deadheat_datapath::transport::userspace::State;

/// Protocol between the connections `C` of a library and lanes.
pub(crate) struct Layer<C> {
    /// Name of the protocol in the handshake (RFC 7301).
    pub(crate) alpn: &'static str,
    /// Unidirectional streams that a peer may open beside the lanes' streams.
    pub(crate) streams: u32,
    /// First bytes of the lanes' streams and datagrams.
    pub(crate) heads: Heads,
    /// Creates one end of its session; `None` if lanes open with the connection.
    pub(crate) session: fn(Side) -> Option<Box<dyn Session<C>>>,
}

impl<C> Layer<C> {
    /// Lanes on QUIC itself.
    pub(crate) const NONE: Layer<C> = Layer {
        alpn: NAME,
        streams: 0,
        heads: Heads { stream: &[], datagram: &[] },
        session: |_| None,
    };
}

/// End of a session on a connection.
pub(crate) trait Session<C>: Send {
    /// Returns true if the session reads this stream: it is not a lane's, or not yet known to be.
    fn reads(&self, stream: u64) -> bool;

    /// Reads the session's streams, assigns streams to `lanes`, and sends. Lanes open once it returns [`State::Open`];
    /// until then it is called after every event, and later for its streams.
    fn attend(&mut self, connection: &mut C, lanes: &mut Lanes) -> State;
}
