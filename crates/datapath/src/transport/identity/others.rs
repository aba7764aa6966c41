//! Certificates of others: a program of others proves its name by a certificate that an authority of this host vouches
//! for.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use super::{Failure, PinnedVerifier, ProofKind};
use deadheat_base::error::{Error, Result};
use deadheat_base::units::hex::{hex, unhex};

/// Variables with files of authorities, instead of this host's (as OpenSSL has them).
const FILES: &str = "SSL_CERT_FILE or SSL_CERT_DIR";

/// Name of a program of others, and the protocols that this end speaks with it.
#[derive(Clone)]
pub struct TrustedName {
    /// Name that the certificate has to prove.
    pub name: ServerName<'static>,
    /// Protocols inside, the preferred first (RFC 7301).
    pub protocols: &'static [&'static str],
    vouched: VouchedBy,
}

/// Evidence for the name.
#[derive(Clone)]
enum VouchedBy {
    /// Authorities of this host.
    Authorities(Arc<RootCertStore>),
    /// SHA-256 of the public key in the certificate (its SubjectPublicKeyInfo, as in RFC 7469).
    Pin([u8; 32]),
}

/// Prefix of the hash of a public key, as typed.
const HASH: &str = "sha256:";

/// Parses the hash of a public key.
///
/// # Errors
/// [`Error::Usage`] with the form.
fn parse_pin(typed: &str) -> Result<[u8; 32]> {
    let digits = typed.trim().strip_prefix(HASH).unwrap_or_default();
    unhex(digits).ok_or_else(|| {
        Error::usage(format!("`{typed}` is no pin: {HASH} and 64 hexadecimal digits are expected"))
    })
}

impl TrustedName {
    /// Creates the terms of connections to `name`, a DNS name or an IP address.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is neither; [`Error::Setup`] if this host has no authorities.
    pub fn new(name: &str, protocols: &'static [&'static str]) -> Result<TrustedName> {
        Ok(TrustedName {
            name: server_name(name)?,
            protocols,
            vouched: VouchedBy::Authorities(authorities()?),
        })
    }

    /// Creates the terms of connections to `name` whose certificate has the public key with the hash `pin`, which no authority
    /// need vouch for; without a pin as [`TrustedName::new`].
    ///
    /// # Errors
    /// As of [`TrustedName::new`]; [`Error::Usage`] if `pin` is none.
    pub fn with_pin(
        name: &str,
        pin: Option<&str>,
        protocols: &'static [&'static str],
    ) -> Result<TrustedName> {
        let Some(pin) = pin else { return TrustedName::new(name, protocols) };
        let vouched = VouchedBy::Pin(parse_pin(pin)?);
        Ok(TrustedName { name: server_name(name)?, protocols, vouched })
    }

    /// Returns the certificate in effect, for results.
    pub fn certificate_word(&self) -> &'static str {
        match self.vouched {
            VouchedBy::Authorities(_) => VOUCHED,
            VouchedBy::Pin(_) => PINNED,
        }
    }

    /// Returns the near end's side of a handshake.
    pub(super) fn client(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> std::result::Result<ClientConfig, Failure> {
        let verifier: Arc<dyn ServerCertVerifier> = match &self.vouched {
            VouchedBy::Authorities(authorities) => {
                let (authorities, provider) = (Arc::clone(authorities), Arc::clone(provider));
                let verifier = WebPkiServerVerifier::builder_with_provider(authorities, provider);
                Arc::new(NamedVerifier(verifier.build()?))
            }
            VouchedBy::Pin(key) => Arc::new(PinnedVerifier {
                expected: Some(*key),
                shows: ProofKind::KeyInCertificate,
                refusal: |shown, expected| {
                    let (shown, expected) = (hex(&shown), hex(&expected));
                    format!(
                        "the key in its certificate is {HASH}{shown}, and the pin is {HASH}{expected}"
                    )
                },
                provider: Arc::clone(provider),
            }),
        };
        let config = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(config)
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| Error::usage(format!("`{name}` is no name that a certificate proves")))
}

/// Returns the SHA-256 of the public key in a certificate.
///
/// # Errors
/// If it is no certificate.
pub(super) fn key_in(
    certificate: &CertificateDer<'_>,
) -> std::result::Result<[u8; 32], rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Sha256::digest(parsed.subject_public_key_info()).into())
}

/// Verifier by authorities, whose refusal names the pin that accepts the certificate.
#[derive(Debug)]
struct NamedVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for NamedVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.0.verify_server_cert(shown, intermediates, name, ocsp, now).map_err(|error| {
            let Ok(key) = key_in(shown) else { return error };
            rustls::Error::General(format!(
                "{error}: no authority of this host vouches for its certificate as {}; if you know that its key is \
                 {HASH}{}, give that with --pin",
                name.to_str(),
                hex(&key)
            ))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns the authorities of this host, read once.
fn authorities() -> Result<Arc<RootCertStore>> {
    static READ: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(read) = READ.get() {
        return Ok(Arc::clone(read));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    let (taken, _) = store.add_parsable_certificates(found.certs);
    if taken == 0 {
        let why =
            found.errors.first().map_or_else(|| "none is there".to_owned(), ToString::to_string);
        return Err(Error::setup_advice(
            "read the authorities that vouch for certificates",
            io::Error::new(io::ErrorKind::NotFound, why),
            format!("install ca-certificates, or name a file of them with {FILES}"),
        ));
    }
    Ok(Arc::clone(READ.get_or_init(|| Arc::new(store))))
}

/// Advice for a certificate that no authority of this host vouches for.
pub const UNTRUSTED: &str =
    "SSL_CERT_FILE names a file with authorities in the place of the host's, such as a private one";

/// Certificate in effect, for results, of a program of others.
const VOUCHED: &str = "the far end's, which an authority of this host vouches for";

/// Resumption in effect, for results, where early data was asked for and no ticket allowed it.
pub const NO_EARLY_DATA: &str = "no early data";
/// Certificate in effect, for results, of a program of others whose key was given.
const PINNED: &str = "the far end's, which has the key of the pin";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::identity::{Identity, provider};

    fn verifies(
        certificate: &CertificateDer<'_>,
        expected: [u8; 32],
    ) -> std::result::Result<(), String> {
        let verifier = PinnedVerifier {
            expected: Some(expected),
            shows: ProofKind::KeyInCertificate,
            refusal: |_, _| "another key".to_owned(),
            provider: provider(None).1,
        };
        let name = ServerName::try_from("far.example").unwrap();
        let verified = verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now());
        verified.map(drop).map_err(|e| e.to_string())
    }

    #[test]
    fn a_pin_accepts_every_certificate_of_its_key_and_no_other() {
        let [one, other] = [1, 2].map(|byte| Identity::of(&[byte; 16]).unwrap().certificate);
        let key = key_in(&one).unwrap();
        assert_eq!(verifies(&one, key), Ok(()));
        assert!(verifies(&other, key).unwrap_err().contains("another key"));
        assert!(verifies(&CertificateDer::from(vec![1, 2, 3]), key).is_err());
    }

    #[test]
    fn a_pin_has_one_form() {
        let digits = "ab".repeat(32);
        assert_eq!(parse_pin(&format!("{HASH}{digits}")).unwrap(), [0xab; 32]);
        for wrong in [&digits[..], "sha256:", "sha256:ab", "sha1:abababab"] {
            assert!(parse_pin(wrong).is_err(), "{wrong}");
        }
    }
}
