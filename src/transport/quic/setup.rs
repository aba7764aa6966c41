//! The configuration of both ends: windows, congestion control, and TLS.

use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::ring::cipher_suite;
use sha2::{Digest, Sha256};

use crate::transport::identity::{self, Failure, Resume, Terms};
use crate::transport::userspace::Opening;

/// Everything that an end is made of.
pub(super) struct Setup {
    pub(super) endpoint: EndpointConfig,
    pub(super) client: ClientConfig,
    pub(super) server: ServerConfig,
    pub(super) control: &'static str,
    pub(super) cipher: &'static str,
    pub(super) resume: Resume,
    pub(super) window: u64,
}

impl Setup {
    /// Creates a setup for datagrams of at most `payload` bytes.
    pub(super) fn new(opening: &Opening<'_>, payload: u32) -> Result<Setup, Failure> {
        let window = opening.knobs.size("window").map_or(8_000_000, |size| size.0);
        let (control, factory): (_, Arc<dyn ControllerFactory + Send + Sync>) =
            match opening.knobs.text("cc") {
                Some("reno") => ("reno", Arc::new(NewRenoConfig::default())),
                Some("bbr") => ("bbr", Arc::new(BbrConfig::default())),
                _ => ("cubic", Arc::new(CubicConfig::default())),
            };
        let payload = u16::try_from(payload).unwrap_or(u16::MAX);
        let transport = Arc::new(transport(window, payload, factory)?);
        let (cipher, provider) = identity::provider(opening.knobs.text("cipher"));
        let resume = Resume::of(opening.knobs);
        let terms = Terms { token: &opening.token, provider: &provider, resume, gives_keys: false };
        let mut endpoint = EndpointConfig::default();
        endpoint.max_udp_payload_size(payload)?;
        let side = [opening.side as u8];
        let seed = Sha256::new().chain_update(opening.token.bytes()).chain_update(side).finalize();
        endpoint.rng_seed(Some(seed.into()));
        let near =
            QuicClientConfig::with_initial(opening.tickets.client(&terms)?, initial_suite()?)?;
        let mut client = ClientConfig::new(Arc::new(near));
        client.transport_config(Arc::clone(&transport));
        let far =
            QuicServerConfig::with_initial(opening.tickets.server(&terms)?, initial_suite()?)?;
        let mut server = ServerConfig::with_crypto(Arc::new(far));
        server.transport_config(transport).migration(false);
        Ok(Setup { endpoint, client, server, control, cipher, resume, window })
    }
}

fn transport(
    window: u64,
    payload: u16,
    control: Arc<dyn ControllerFactory + Send + Sync>,
) -> Result<TransportConfig, Failure> {
    let room = VarInt::from_u64(window)?;
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(room)
        .receive_window(room)
        .send_window(window)
        .max_concurrent_uni_streams(u32::from(super::MOST_LANES).into())
        .datagram_receive_buffer_size(Some(window as usize))
        .datagram_send_buffer_size(1 << 20)
        .initial_mtu(payload)
        .mtu_discovery_config(None)
        .max_idle_timeout(None)
        .congestion_controller_factory(control);
    Ok(transport)
}

/// Returns the suite of the first packets, which is always this one (RFC 9001, 5.2).
fn initial_suite() -> Result<rustls::quic::Suite, Failure> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.ok_or_else(|| "TLS 1.3 without the cipher suite that QUIC begins with".into())
}
