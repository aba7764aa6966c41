//! Server of QUIC perf (draft-banks-quic-performance-00, ALPN `perf`): reads what each stream of a client brings, to its
//! end, and sends as many bytes back as the first eight of them ask for.
//!
//! No address gets anything larger than it sent before it has returned a token (Retry, RFC 9000, 8.1.2). From then on a
//! connections of a client are a test: it takes the turn of a trial, within the limits of one. A client whose turn it is not is
//! refused (CONNECTION_REFUSED), and asks again.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use deadheat_base::descriptor::ready;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{EndpointConfig, ServerConfig, TransportConfig};
use sha2::{Digest, Sha256};

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_base::units::hex::hex;
use deadheat_datapath::datapath::answering::{AnswerSocket, Arrived};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::identity::{self, Failure, Identity};
use deadheat_datapath::transport::responder::{
    Answered, OpenResponder, Responder, ResponderHost, ResponderInfo, ResponderLoad,
};
use server::PerfServer;

mod answer;
mod server;
#[cfg(test)]
mod tests;

/// Server of QUIC perf.
pub(super) struct QuicPerfResponder;

static INFO: ResponderInfo = ResponderInfo {
    id: "quic-perf",
    clients: "QUIC perf clients",
    summary: "Answer QUIC perf clients (ALPN perf)",
    port: 4433,
    answers: &[Answered {
        over: "UDP",
        what: "takes all that a stream brings, and sends as many bytes as it asks for",
        load: ResponderLoad::Turn,
    }],
    key: None,
};

/// Protocol in the handshake (RFC 7301).
const PROTOCOL: &[u8] = b"perf";

/// Streams of each kind that a client may have open at once.
const MOST_STREAMS: u32 = 100;

/// Bytes that a client may send before they are read, and that are stored until they are acknowledged.
const WINDOW: u32 = 8_000_000;

/// Room for datagrams that arrive while others are answered.
const ROOM: usize = 4 << 20;

/// Number of datagrams that are taken at once.
const AT_ONCE: usize = 64;

impl Responder for QuicPerfResponder {
    fn info(&self) -> &'static ResponderInfo {
        &INFO
    }

    fn open(&self, at: SocketAddr, _key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>> {
        let udp = AnswerSocket::bind(at)?;
        udp.make_room(ROOM);
        let local = udp.local_addr().map_err(|e| Error::setup("read an address", e))?;
        let failed = |e: Failure| Error::setup("set up QUIC", io::Error::other(e.to_string()));
        let setup = PerfSetup::fresh().map_err(failed)?;
        Ok(Box::new(OpenQuicPerf { udp, local, setup }))
    }
}

/// Open server.
struct OpenQuicPerf {
    udp: AnswerSocket,
    local: SocketAddr,
    setup: PerfSetup,
}

/// Configuration with a certificate of its own.
struct PerfSetup {
    endpoint: Arc<EndpointConfig>,
    server: Arc<ServerConfig>,
    /// SHA-256 of the public key.
    pin: String,
}

impl PerfSetup {
    /// Creates a setup with a fresh key.
    ///
    /// # Errors
    /// If the libraries cannot be set up.
    fn fresh() -> std::result::Result<PerfSetup, Failure> {
        let token = Token::fresh().map_err(|e| e.to_string())?;
        let identity = Identity::of(token.bytes())?;
        let (_, provider) = identity::provider(None);
        let mut tls = identity.server(&provider)?;
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(MOST_STREAMS.into())
            .max_concurrent_uni_streams(MOST_STREAMS.into())
            .max_idle_timeout(Some(IDLE.try_into()?))
            .datagram_receive_buffer_size(None)
            .stream_receive_window(WINDOW.into())
            .receive_window(WINDOW.into())
            .send_window(WINDOW.into());
        let crypto = QuicServerConfig::try_from(Arc::new(tls))?;
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        server.transport_config(Arc::new(transport)).migration(false);
        let mut endpoint = EndpointConfig::default();
        let seed = Sha256::new().chain_update(b"quic perf").chain_update(token.bytes()).finalize();
        endpoint.rng_seed(Some(seed.into()));
        let pin = format!("sha256:{}", hex(&identity.key_digest()?));
        Ok(PerfSetup { endpoint: Arc::new(endpoint), server: Arc::new(server), pin })
    }
}

/// Longest time without a packet of a client.
const IDLE: std::time::Duration = std::time::Duration::from_secs(10);

impl OpenResponder for OpenQuicPerf {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn more(&self) -> Option<String> {
        Some(format!("their certificate is of the key {}", self.setup.pin))
    }

    fn serve(&mut self, host: &dyn ResponderHost, stop: BorrowedFd<'_>) -> Result<()> {
        let mut server = PerfServer::new(host, &self.setup);
        let mut datagram = vec![0; 1 << 16];
        let udp = &self.udp;
        // No room at the socket, or no way back: the datagram is lost, as datagrams are.
        let mut send = |bytes: &[u8], to: &Arrived| drop(udp.answer(bytes, to, None));
        loop {
            let left = server.next_deadline().map(|due| due - Monotonic.now());
            let fds = [(stop, libc::POLLIN), (udp.as_fd(), libc::POLLIN)];
            let is_ready =
                ready(fds, left).map_err(|e| Error::setup("wait for QUIC perf clients", e))?;
            if is_ready[0] {
                server.close("the server stops");
                server.turn(Monotonic.now(), &mut send);
                return Ok(());
            }
            for _ in 0..AT_ONCE {
                match udp.receive(&mut datagram) {
                    Ok(arrived) => {
                        let bytes = &datagram[..arrived.len];
                        server.handle(Monotonic.now(), &arrived, bytes, &mut send);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    // An answer of ICMP to an earlier datagram.
                    Err(_) => {}
                }
            }
            server.turn(Monotonic.now(), &mut send);
        }
    }
}
