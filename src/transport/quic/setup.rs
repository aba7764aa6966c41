//! The configuration of both ends: windows, congestion control, and TLS with a certificate of the trial's own.
//!
//! Both ends derive the same key pair from the trial's token, so the near end knows which certificate to
//! expect. It protects nothing from someone who sees the path, where the token travels in the clear: what
//! is measured is the cost of encryption, and no secret is sent.

use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme, SupportedCipherSuite};
use sha2::{Digest, Sha256};

use crate::transport::userspace::Opening;

/// What can go wrong: never with knobs that were checked, so a message is enough.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The name in the certificate.
pub(super) const NAME: &str = "deadheat";

/// Everything that an end is made of.
pub(super) struct Setup {
    pub(super) endpoint: EndpointConfig,
    pub(super) client: ClientConfig,
    pub(super) server: ServerConfig,
    pub(super) control: &'static str,
    pub(super) cipher: &'static str,
    pub(super) window: u64,
}

impl Setup {
    /// For datagrams of at most `payload` bytes.
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
        let (cipher, suite) = suite(opening.knobs.text("cipher"));
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![suite],
            kx_groups: vec![kx_group::X25519],
            ..default_provider()
        });
        let identity = Identity::of(opening.token.bytes())?;
        let mut endpoint = EndpointConfig::default();
        endpoint.max_udp_payload_size(payload)?;
        let side = [opening.side as u8];
        let seed = Sha256::new().chain_update(opening.token.bytes()).chain_update(side).finalize();
        endpoint.rng_seed(Some(seed.into()));
        let mut client = ClientConfig::new(Arc::new(identity.client(&provider)?));
        client.transport_config(Arc::clone(&transport));
        let mut server = ServerConfig::with_crypto(Arc::new(identity.server(&provider)?));
        server.transport_config(transport).migration(false);
        Ok(Setup { endpoint, client, server, control, cipher, window })
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
        .datagram_receive_buffer_size(Some(window as usize))
        .datagram_send_buffer_size(1 << 20)
        .initial_mtu(payload)
        .mtu_discovery_config(None)
        .max_idle_timeout(None)
        .congestion_controller_factory(control);
    Ok(transport)
}

fn suite(asked: Option<&str>) -> (&'static str, SupportedCipherSuite) {
    match asked {
        Some("aes256") => ("aes256", cipher_suite::TLS13_AES_256_GCM_SHA384),
        Some("chacha20") => ("chacha20", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
        _ => ("aes128", cipher_suite::TLS13_AES_128_GCM_SHA256),
    }
}

/// The suite of the first packets, which is always this one (RFC 9001, 5.2).
fn initial_suite() -> Result<rustls::quic::Suite, Failure> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.ok_or_else(|| "TLS 1.3 without the cipher suite that QUIC begins with".into())
}

/// A key pair and the certificate that it signed itself.
struct Identity {
    key: Vec<u8>,
    certificate: CertificateDer<'static>,
}

/// What stands in front of 32 bytes of an Ed25519 private key in PKCS #8 (RFC 8410, 7).
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

impl Identity {
    fn of(token: &[u8; 16]) -> Result<Identity, Failure> {
        let seed =
            Sha256::new().chain_update(b"deadheat certificate").chain_update(token).finalize();
        let key = [&PKCS8_ED25519[..], &seed].concat();
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(
            &PrivatePkcs8KeyDer::from(&key[..]),
            &PKCS_ED25519,
        )?;
        let certificate = CertificateParams::new([NAME.to_owned()])?.self_signed(&pair)?;
        Ok(Identity { key, certificate: certificate.der().clone() })
    }

    fn server(&self, provider: &Arc<CryptoProvider>) -> Result<QuicServerConfig, Failure> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key.into())?;
        config.alpn_protocols = vec![NAME.into()];
        // No connection is resumed, so no ticket is of use.
        config.send_tls13_tickets = 0;
        Ok(QuicServerConfig::with_initial(Arc::new(config), initial_suite()?)?)
    }

    fn client(&self, provider: &Arc<CryptoProvider>) -> Result<QuicClientConfig, Failure> {
        let pinned = Pinned { expected: self.certificate.clone(), provider: Arc::clone(provider) };
        let mut config = rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        config.alpn_protocols = vec![NAME.into()];
        Ok(QuicClientConfig::with_initial(Arc::new(config), initial_suite()?)?)
    }
}

/// Takes one certificate and no other.
#[derive(Debug)]
struct Pinned {
    expected: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match *shown == self.expected {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(rustls::Error::General("the certificate is not this trial's".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC speaks TLS 1.3 only (RFC 9001, 4.2)".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_make_the_same_certificate_and_other_trials_another() {
        let of = |byte| Identity::of(&[byte; 16]).unwrap();
        assert_eq!(of(1).certificate, of(1).certificate);
        assert_ne!(of(1).certificate, of(2).certificate);
    }
}
