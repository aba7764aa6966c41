//! Certificates that browsers accept by their SHA-256 (`serverCertificateHashes` of the WebTransport API): ECDSA with P-256,
//! and valid for two weeks at most. A new one is made before the old one ends. Where the operator has a certificate for the
//! page, that one is used, and browsers check it by its name and its authority.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{ServerConfig, TransportConfig};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::carrier::PemPair;
use crate::channel::tls;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::identity::{Failure, NAME};

/// Days that a certificate is valid before it was made, for clocks that go slow, and after. The sum is below 14, which
/// browsers allow.
const DAYS: (i64, i64) = (1, 12);

/// Age at which the next one is made; pages that were loaded before have some days left.
const RENEWED: Nanos = Nanos::from_secs(7 * 24 * 3_600);

/// Protocol in the handshake (RFC 9114, 3.1).
const PROTOCOL: &[u8] = b"h3";

/// Streams that a browser may have open at once: requests and streams of the session, and, one way, streams of HTTP/3 itself.
const MOST_STREAMS: (u32, u32) = (16, 8);

/// Longest time without a packet.
const IDLE: Duration = Duration::from_secs(30);

/// Bytes that may wait in each direction of a connection without a ticket, and of one with it.
pub(super) const SMALL_WINDOW: u32 = 64 * 1024;
pub(super) const LARGE_WINDOW: u32 = 4 << 20;

/// Bytes of datagrams that may wait, received and to be sent: the latter few, so that none waits long.
const DATAGRAMS: (usize, usize) = (256 * 1024, 64 * 1024);

/// Certificates of a carrier, of which one is in use.
pub(super) struct OwnCertificates(Mutex<OwnCertificate>);

/// Certificate in use.
struct OwnCertificate {
    config: Arc<ServerConfig>,
    /// Its SHA-256; `None` for the operator's, which is never replaced.
    digest: Option<[u8; 32]>,
    made: Nanos,
}

impl OwnCertificates {
    /// # Errors
    /// With a sentence, if the libraries cannot be set up.
    pub(super) fn new() -> Result<OwnCertificates, String> {
        let first = OwnCertificate::made(Monotonic.now());
        let first = first.map_err(|e| format!("it has no certificate: {e}"))?;
        Ok(OwnCertificates(Mutex::new(first)))
    }

    /// Takes the certificate of the operator.
    ///
    /// # Errors
    /// With a sentence, if QUIC cannot use it.
    pub(super) fn of_operator(pair: &PemPair) -> Result<OwnCertificates, String> {
        let (chain, key) = pair.parsed().map_err(|e| e.to_string())?;
        let config = quic(chain, key);
        let config = config.map_err(|e| format!("QUIC cannot use the page's certificate: {e}"))?;
        let own = OwnCertificate { config, digest: None, made: Monotonic.now() };
        Ok(OwnCertificates(Mutex::new(own)))
    }

    /// Returns the SHA-256 of the certificate in use, for a page that is about to connect; an old one is replaced. `None` for
    /// the operator's.
    pub(super) fn digest(&self) -> Option<[u8; 32]> {
        self.digest_at(Monotonic.now())
    }

    fn digest_at(&self, now: Nanos) -> Option<[u8; 32]> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.digest.is_some()
            && now - own.made > RENEWED
            && let Ok(next) = OwnCertificate::made(now)
        {
            *own = next;
        }
        own.digest
    }

    /// Returns the set-up of connections with it.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).config)
    }
}

impl OwnCertificate {
    fn made(now: Nanos) -> Result<OwnCertificate, Failure> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new([NAME.to_owned()])?;
        let today = OffsetDateTime::now_utc();
        params.not_before = today - time::Duration::days(DAYS.0);
        params.not_after = today + time::Duration::days(DAYS.1);
        let certificate: CertificateDer<'static> = params.self_signed(&pair)?.into();
        let digest = Some(Sha256::digest(&certificate).into());
        let key = PrivatePkcs8KeyDer::from(pair.serialize_der()).into();
        Ok(OwnCertificate { config: quic(vec![certificate], key)?, digest, made: now })
    }
}

/// Returns the set-up of QUIC with a certificate.
fn quic(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, Failure> {
    let crypto = QuicServerConfig::try_from(Arc::new(tls(chain, key, PROTOCOL)?))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport()?)).migration(false);
    Ok(Arc::new(config))
}

fn transport() -> Result<TransportConfig, Failure> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(MOST_STREAMS.0.into())
        .max_concurrent_uni_streams(MOST_STREAMS.1.into())
        .max_idle_timeout(Some(IDLE.try_into()?))
        .datagram_receive_buffer_size(Some(DATAGRAMS.0))
        .datagram_send_buffer_size(DATAGRAMS.1)
        .stream_receive_window(LARGE_WINDOW.into())
        .receive_window(SMALL_WINDOW.into())
        .send_window(SMALL_WINDOW.into());
    Ok(transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_replaced_after_a_week_and_has_days_left_then() {
        let own = OwnCertificates::new().unwrap();
        let first = own.digest();
        let at = |days: u64| own.digest_at(Monotonic.now() + Nanos::from_secs(days * 24 * 3_600));
        assert_eq!(at(6), first);
        let second = at(8);
        assert_ne!(second, first);
        assert_eq!(at(9), second);
        const { assert!(DAYS.0 + DAYS.1 < 14) };
    }

    #[test]
    fn the_certificate_of_the_operator_has_no_hash_and_is_never_replaced() {
        let (pair, _) = crate::testing::pair();
        let own = OwnCertificates::of_operator(&pair).unwrap();
        let before = own.config();
        assert_eq!(own.digest_at(Monotonic.now() + Nanos::from_secs(30 * 24 * 3_600)), None);
        assert!(Arc::ptr_eq(&before, &own.config()));
        let wrong = PemPair { chain: Vec::new(), key: pair.key };
        assert!(OwnCertificates::of_operator(&wrong).err().unwrap().contains("no certificate"));
    }
}
