//! QUIC by quinn-proto.

use quinn_proto::{DatagramEvent, Endpoint, EndpointConfig, ServerConfig};

use super::shape::smallest_program;

/// Flow control and what a sender keeps, in bytes.
const WINDOW: u32 = 8_000_000;

/// The most datagrams of a segmented buffer.
const MOST: usize = super::SEGMENTS;

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, false, None)
}

fn handle(
    endpoint: &mut Endpoint,
    (now, peer): (Instant, SocketAddr),
    datagram: BytesMut,
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, peer, None, None, datagram, answer)
}

smallest_program!(quinn_proto);
