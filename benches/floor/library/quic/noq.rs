//! QUIC by noq-proto, which has the shape of quinn-proto.

use std::num::NonZeroUsize;

use noq_proto::{DatagramEvent, Endpoint, EndpointConfig, FourTuple, ServerConfig};

use super::shape::smallest_program;

/// Flow control and what a sender keeps, in bytes: as much as `quic-noq` allows.
const WINDOW: u32 = 2_000_000;

/// The most datagrams of a segmented buffer.
const MOST: NonZeroUsize = match NonZeroUsize::new(super::SEGMENTS) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, false)
}

fn handle(
    endpoint: &mut Endpoint,
    (now, peer): (Instant, SocketAddr),
    datagram: BytesMut,
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, FourTuple::from_remote(peer), None, datagram, answer)
}

smallest_program!(noq_proto);
