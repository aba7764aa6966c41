//! Configuration of both ends: windows, congestion control, and TLS.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::ring::cipher_suite;
use sha2::{Digest, Sha256};

use super::acknowledged::Acknowledged;
use super::layer::Layer;
use super::tap::PacketTap;
use super::{CONTROL, PACKET, QuicControl, WINDOW};
use crate::transport::identity::{self, Failure, HandshakeTerms, Resume, TrustedName};
use crate::transport::userspace::Opening;

/// Configuration of an end.
pub(super) struct QuicSetup {
    pub(super) endpoint: EndpointConfig,
    pub(super) client: ClientConfig,
    pub(super) server: ServerConfig,
    /// Counter of what a program of others acknowledges.
    pub(super) acked: Option<Acknowledged>,
    pub(super) control: &'static str,
    pub(super) cipher: &'static str,
    pub(super) certificate: String,
    pub(super) resume: Resume,
    pub(super) window: Option<u64>,
    /// True if packets keep their initial size; otherwise path MTU discovery finds the largest.
    pub(super) is_mtu_fixed: bool,
}

/// Time without a packet after which a program of others is shown that this end is there: as a rule it gives a
/// connection up after 30 s.
const ALIVE: Duration = Duration::from_secs(10);

/// Default window of a stream (`TransportConfig::default`), in bytes.
pub(super) const OWN_STREAM_WINDOW: u64 = 1_250_000;

/// Default of the largest datagram that an end accepts (`EndpointConfig::default`), in bytes.
const OWN_PAYLOAD: u16 = 1_472;

impl QuicSetup {
    /// Creates a setup of `layer` for datagrams of at most `payload` bytes, of which the work needs `least`; to a program
    /// of others if one is named, over a path that was not probed. Each packet passes `tap`, if there is one.
    pub(super) fn new(
        layer: &Layer,
        opening: &Opening<'_>,
        [payload, least]: [u32; 2],
        others: Option<&TrustedName>,
        tap: Option<&PacketTap>,
    ) -> Result<QuicSetup, Failure> {
        let window = opening.knobs.find(&WINDOW).map(|size| size.0);
        let is_mtu_fixed = match others {
            None => opening.knobs.find(&PACKET).is_some(),
            Some(_) => opening.knobs.given(PACKET.name()),
        };
        let control = opening.knobs.get(&CONTROL);
        let acked = others.map(|_| Acknowledged::default());
        let whole = |bytes: u32| u16::try_from(bytes).unwrap_or(u16::MAX);
        let (payload, first) = match is_mtu_fixed {
            true => (whole(payload), whole(payload)),
            false => (whole(payload).min(OWN_PAYLOAD), whole(least)),
        };
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_uni_streams((u32::from(super::MOST_LANES) + layer.streams).into())
            .initial_mtu(first)
            .max_idle_timeout(None)
            .congestion_controller_factory(controllers(control, acked.as_ref()));
        if is_mtu_fixed {
            transport.mtu_discovery_config(None);
        }
        if others.is_some() {
            transport.keep_alive_interval(Some(ALIVE));
        }
        if let Some(window) = window {
            set_windows(&mut transport, window)?;
        }
        let transport = Arc::new(transport);
        let (cipher, provider) = identity::provider(opening.knobs.find(&identity::CIPHER));
        let resume = opening.knobs.get(&identity::RESUME);
        let asked = opening.knobs.text_of(&identity::CERTIFICATE);
        let terms = HandshakeTerms {
            token: &opening.token,
            provider: &provider,
            resume,
            gives_keys: false,
            alpn: layer.alpn,
            certificate: asked,
            others,
        };
        let mut endpoint = EndpointConfig::default();
        endpoint.max_udp_payload_size(payload)?;
        let side = [opening.side as u8];
        let seed = Sha256::new().chain_update(opening.token.bytes()).chain_update(side).finalize();
        endpoint.rng_seed(Some(seed.into()));
        let near =
            QuicClientConfig::with_initial(opening.tickets.client(&terms)?, initial_suite()?)?;
        let mut client = client(near, tap);
        client.transport_config(Arc::clone(&transport));
        let far =
            QuicServerConfig::with_initial(opening.tickets.server(&terms)?, initial_suite()?)?;
        let mut server = server(far, tap);
        server.transport_config(transport).migration(false);
        let certificate = match others {
            Some(others) => others.certificate_word().to_owned(),
            None => identity::certificate_word(asked),
        };
        Ok(QuicSetup {
            endpoint,
            client,
            server,
            acked,
            control: CONTROL.word(control),
            cipher,
            certificate,
            resume,
            window,
            is_mtu_fixed,
        })
    }
}

fn client(crypto: QuicClientConfig, tap: Option<&PacketTap>) -> ClientConfig {
    let crypto: Arc<dyn crypto::ClientConfig> = Arc::new(crypto);
    ClientConfig::new(match tap {
        Some(tap) => tap.client(crypto),
        None => crypto,
    })
}

fn server(crypto: QuicServerConfig, tap: Option<&PacketTap>) -> ServerConfig {
    let crypto: Arc<dyn crypto::ServerConfig> = Arc::new(crypto);
    ServerConfig::with_crypto(match tap {
        Some(tap) => tap.server(crypto),
        None => crypto,
    })
}

/// Sets all windows to `window` bytes.
fn set_windows(transport: &mut TransportConfig, window: u64) -> Result<(), Failure> {
    let room = VarInt::from_u64(window)?;
    transport
        .stream_receive_window(room)
        .receive_window(room)
        .send_window(window)
        .datagram_receive_buffer_size(Some(window as usize))
        .datagram_send_buffer_size(1 << 20);
    Ok(())
}

/// Returns the maker of congestion controllers, which count in `acked` if that is given.
fn controllers(
    control: QuicControl,
    acked: Option<&Acknowledged>,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match control {
        QuicControl::Cubic => Arc::new(CubicConfig::default()),
        QuicControl::Reno => Arc::new(NewRenoConfig::default()),
        QuicControl::Bbr => Arc::new(BbrConfig::default()),
    };
    match acked {
        Some(acked) => acked.counting(factory),
        None => factory,
    }
}

/// Returns the suite of the first packets, which is fixed (RFC 9001, 5.2).
fn initial_suite() -> Result<rustls::quic::Suite, Failure> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.ok_or_else(|| "TLS 1.3 without the cipher suite that QUIC begins with".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_library_s_defaults_is_what_it_has() {
        let defaults = format!("{:?}", TransportConfig::default());
        let window = format!("stream_receive_window: {OWN_STREAM_WINDOW},");
        assert!(defaults.contains(&window), "{defaults}");
        assert!(defaults.contains("initial_mtu: 1200,"), "{defaults}");
        let endpoint = format!("{:?}", EndpointConfig::default());
        assert!(endpoint.contains(&format!("max_udp_payload_size: {OWN_PAYLOAD},")), "{endpoint}");
    }
}
