//! TLS 1.3 (RFC 8446) as all encrypted transports have it: the same ciphers, the same key exchange, and a
//! certificate of the trial's own, or of the user.
//!
//! Both ends derive the same key pair from the trial's token, so the near end knows which certificate to expect. It
//! protects nothing from an attacker on the path, where the token travels in the clear: the measurement is
//! the cost of encryption, and no secret is sent.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::{CipherSuite, DigitallySignedStruct, SignatureScheme, SupportedCipherSuite};
use sha2::{Digest, Sha256};

use super::Place;
use super::equal::{self, OwnDefault};
use super::hello::Token;
use deadheat_base::error::{Error, Result as Checked};
use deadheat_base::foreign;
use deadheat_base::spec::typed::{Optional, Preset, Text};

mod others;
mod timed;

pub use others::{NO_EARLY_DATA, TrustedName, UNTRUSTED};

/// Error of setting up TLS. It does not occur with checked knobs, so a message is enough.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The name in the certificate.
pub const NAME: &str = "deadheat";

/// Largest size of a certificate file in bytes.
const LARGEST_PEM: u64 = 1 << 20;

/// The key exchange of all handshakes.
pub const KEY_EXCHANGE: &str = "x25519";

/// The refusal of a certificate that the near end does not expect.
pub const OTHER_CERTIFICATE: &str =
    "the certificate is neither this trial's nor that of `certificate=`";

/// The cipher suite.
pub const CIPHER: Optional<Cipher> = Optional::choice(
    "cipher",
    &["aes128", "aes256", "chacha20"],
    &[Cipher::Aes128, Cipher::Aes256, Cipher::ChaCha20],
)
.assumed(equal::CIPHER)
.doc("the cipher suite of TLS 1.3, with X25519 as key exchange");

/// Cipher suite that a knob asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128,
    /// AES-256-GCM.
    Aes256,
    /// ChaCha20-Poly1305.
    ChaCha20,
}

/// The certificate of the far end.
pub const CERTIFICATE: Text = Text::path("certificate")
    .doc("a PEM file with the far end's certificate, those that vouch for it, and its private key; the near end takes no \
     other. Not set: each trial has its own, with an Ed25519 key");

/// Defaults of rustls by itself.
pub const OWN_CIPHER: OwnDefault = OwnDefault {
    knob: CIPHER.name(),
    value: "",
    source: "rustls: the first of the near end's list",
};
/// Resumption that is rustls's default.
pub const OWN_RESUME: OwnDefault = OwnDefault {
    knob: RESUME.name(),
    value: "on",
    source: "rustls: the near end keeps tickets, the far end gives two",
};

/// Returns the requested cipher by its name, and a provider of the library with this cipher alone. If none was
/// requested, returns the library's provider as it is, and the cipher that two ends of it agree on: the first of
/// the near end's list that the far end has (RFC 8446, 4.1.1, and rustls by default), and both have the same.
pub fn provider(asked: Option<Cipher>) -> (&'static str, Arc<CryptoProvider>) {
    let Some(asked) = asked else {
        let whole = timed::timed(default_provider());
        let agreed = whole.cipher_suites.iter().find(|suite| suite.tls13().is_some());
        let name = agreed.and_then(|suite| cipher_word(suite.suite())).unwrap_or("unknown");
        return (name, Arc::new(whole));
    };
    let provider = CryptoProvider {
        cipher_suites: vec![asked.suite()],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    };
    (CIPHER.word(asked), Arc::new(timed::timed(provider)))
}

/// Returns the word for a cipher suite; `None` if it has none.
pub fn cipher_word(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(CIPHER.word(Cipher::Aes128)),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(CIPHER.word(Cipher::Aes256)),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(CIPHER.word(Cipher::ChaCha20)),
        _ => None,
    }
}

impl Cipher {
    /// Returns its number in handshakes (RFC 8446, B.4).
    pub fn number(self) -> u16 {
        self.suite().suite().into()
    }

    fn suite(self) -> SupportedCipherSuite {
        match self {
            Cipher::Aes128 => cipher_suite::TLS13_AES_128_GCM_SHA256,
            Cipher::Aes256 => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Cipher::ChaCha20 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        }
    }
}

/// Knob for resumption (RFC 8446, 2.2) and early data (2.3; RFC 9001, 4.6).
pub const RESUME: Preset<Resume> = Optional::choice("resume", &["off", "on", "0rtt"], &[Resume::Off, Resume::Ticket, Resume::Early])
    .or(equal::RESUME)
    .doc("on: later connections of a trial resume an earlier one by a ticket, without certificate and signature; 0rtt: and \
     send their first data with the handshake, which a listener can replay");

/// Resumption of later connections, as a knob requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Later connections have a whole handshake each.
    Off,
    /// Later connections resume an earlier one.
    Ticket,
    /// Later connections resume an earlier one, and send data with the handshake.
    Early,
}

impl Resume {
    /// Returns it as typed.
    pub fn word(self) -> &'static str {
        RESUME.word(self)
    }
}

/// State that encrypted connections of a trial leave for later ones: tickets, and the configurations that issued
/// them. All clones share it.
#[derive(Clone, Default)]
pub struct Tickets(Arc<Mutex<TlsConfigs>>);

#[derive(Default)]
struct TlsConfigs {
    near: Option<Arc<rustls::ClientConfig>>,
    far: Option<Arc<rustls::ServerConfig>>,
    /// Protocol inside an earlier connection, which data before the end of a handshake is of.
    protocol: Option<Vec<u8>>,
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

/// Parameters of the handshakes of a trial.
pub struct HandshakeTerms<'a> {
    /// Token of the trial.
    pub token: &'a Token,
    /// Ciphers and key exchange.
    pub provider: &'a Arc<CryptoProvider>,
    /// Resumption of later connections.
    pub resume: Resume,
    /// True if the keys are given to another layer after the handshake.
    pub gives_keys: bool,
    /// Name of the protocol inside (RFC 7301); without it the ends do not connect.
    pub alpn: &'static str,
    /// File of a certificate that replaces the trial's own.
    pub certificate: Option<&'a str>,
    /// Program of others at the far end, with protocols that replace `alpn`; `None` for a far end of ours.
    pub others: Option<&'a TrustedName>,
}

impl HandshakeTerms<'_> {
    /// Returns the identity of the far end.
    ///
    /// # Errors
    /// If the file of the certificate cannot be read.
    pub fn identity(&self) -> Result<Identity, Failure> {
        match self.certificate {
            Some(file) => Identity::read(file),
            None => Identity::of(self.token.bytes()),
        }
    }
}

/// Returns the certificate in effect, for results.
pub fn certificate_word(asked: Option<&str>) -> String {
    asked.map_or_else(|| "the trial's own".to_owned(), str::to_owned)
}

/// Checks a file that was requested as a certificate, for a race at this place.
///
/// # Errors
/// [`Error::Usage`] that names the file, and the problem with it or with the place that would need it.
pub fn check_certificate(file: &str, place: Place) -> Checked<()> {
    if matches!(place, Place::Remote | Place::Server) {
        return Err(Error::usage(format!(
            "`certificate={file}`: a server reads no file for its clients, and shows the certificate of the trial; leave it out \
             with --to"
        )));
    }
    let (_, provider) = provider(None);
    let whole = Identity::read(file).and_then(|identity| Ok(identity.server(&provider)?));
    whole.map(|_| ()).map_err(|error| Error::usage(format!("`certificate={file}`: {error}")))
}

impl Tickets {
    /// Returns the near end's side of a connection, which may resume one of the same trial.
    pub fn client(&self, terms: &HandshakeTerms<'_>) -> Result<Arc<rustls::ClientConfig>, Failure> {
        let make = || {
            let (mut config, protocols) = match terms.others {
                Some(others) => (others.client(terms.provider)?, others.protocols),
                None => {
                    (terms.identity()?.client(terms.provider)?, std::slice::from_ref(&terms.alpn))
                }
            };
            config.enable_secret_extraction = terms.gives_keys;
            config.alpn_protocols = protocols.iter().map(|one| (*one).into()).collect();
            if terms.resume != Resume::Off {
                config.resumption = Resumption::in_memory_sessions(1);
                config.enable_early_data = terms.resume == Resume::Early;
            }
            Ok(Arc::new(config))
        };
        self.keep(terms.resume, |kept| &mut kept.near, make)
    }

    /// Returns the far end's side of a connection.
    pub fn server(&self, terms: &HandshakeTerms<'_>) -> Result<Arc<rustls::ServerConfig>, Failure> {
        let make = || {
            let mut config = terms.identity()?.server(terms.provider)?;
            config.enable_secret_extraction = terms.gives_keys;
            config.alpn_protocols = vec![terms.alpn.into()];
            if terms.resume != Resume::Off {
                config.send_tls13_tickets = TICKETS;
            }
            if terms.resume == Resume::Early {
                // QUIC allows only this value (RFC 9001, 4.6.1).
                config.max_early_data_size = u32::MAX;
                // The answer to early data need not wait for the end of the handshake; QUIC does so anyway.
                config.send_half_rtt_data = true;
            }
            Ok(Arc::new(config))
        };
        self.keep(terms.resume, |kept| &mut kept.far, make)
    }

    /// Notes the protocol that the ends of a connection agreed on (RFC 7301).
    pub fn note_protocol(&self, protocol: Option<&[u8]>) {
        if let (Some(protocol), Ok(mut kept)) = (protocol, self.0.lock()) {
            kept.protocol = Some(protocol.to_vec());
        }
    }

    /// Returns the protocol that the ends of an earlier connection agreed on.
    pub fn noted_protocol(&self) -> Option<Vec<u8>> {
        self.0.lock().ok()?.protocol.clone()
    }

    fn keep<T>(
        &self,
        resume: Resume,
        place: impl FnOnce(&mut TlsConfigs) -> &mut Option<Arc<T>>,
        make: impl FnOnce() -> Result<Arc<T>, Failure>,
    ) -> Result<Arc<T>, Failure> {
        if resume == Resume::Off {
            return make();
        }
        let mut kept = self.0.lock().map_err(|_| "another connection of this trial panicked")?;
        let place = place(&mut kept);
        match place {
            Some(there) => Ok(Arc::clone(there)),
            None => Ok(Arc::clone(place.insert(make()?))),
        }
    }
}

/// Number of tickets that a handshake leaves, and the largest number that rustls stores per peer. Each is used
/// once, and an answer to early data arrives before the tickets of its own connection, so several must be in stock.
const TICKETS: usize = 8;

/// Private key with its certificate.
pub struct Identity {
    key: PrivateKeyDer<'static>,
    certificate: CertificateDer<'static>,
    /// Certificates of the chain that vouch for it, each for the one before, without the last.
    others: Vec<CertificateDer<'static>>,
}

/// Bytes in front of the 32 bytes of an Ed25519 private key in PKCS #8 (RFC 8410, 7).
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

impl Identity {
    /// Creates the identity of a trial.
    pub fn of(token: &[u8; 16]) -> Result<Identity, Failure> {
        let seed =
            Sha256::new().chain_update(b"deadheat certificate").chain_update(token).finalize();
        let key = [&PKCS8_ED25519[..], &seed].concat();
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(
            &PrivatePkcs8KeyDer::from(&key[..]),
            &PKCS_ED25519,
        )?;
        let certificate = CertificateParams::new([NAME.to_owned()])?.self_signed(&pair)?;
        let key = PrivatePkcs8KeyDer::from(key).into();
        Ok(Identity { key, certificate: certificate.der().clone(), others: Vec::new() })
    }

    /// Returns the SHA-256 of its public key (its SubjectPublicKeyInfo in DER, as in RFC 7469).
    ///
    /// # Errors
    /// If its certificate is none.
    pub fn key_digest(&self) -> Result<[u8; 32], Failure> {
        Ok(others::key_in(&self.certificate)?)
    }

    /// Reads an identity from a PEM file (RFC 7468): certificates, the far end's first, and its private key.
    fn read(file: &str) -> Result<Identity, Failure> {
        let bytes = foreign::file::read(Path::new(file), LARGEST_PEM)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let mut certificates = certificates?.into_iter();
        let certificate = certificates.next().ok_or("there is no CERTIFICATE in it")?;
        let key = PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|_| "there is no PRIVATE KEY in it: append the certificate's")?;
        Ok(Identity { key, certificate, others: certificates.collect() })
    }

    /// Returns its certificate in DER, followed by the certificates that vouch for it.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.certificate).chain(&self.others).map(AsRef::as_ref)
    }

    /// Returns its private key in DER.
    pub fn key(&self) -> &[u8] {
        self.key.secret_der()
    }

    /// Returns the far end's side.
    pub fn server(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<rustls::ServerConfig, rustls::Error> {
        let chain = [std::slice::from_ref(&self.certificate), self.others.as_slice()].concat();
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, self.key.clone_key())?;
        // Without resumption no ticket is of use.
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Returns the near end's side.
    pub fn client(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<rustls::ClientConfig, rustls::Error> {
        let pinned = PinnedVerifier {
            expected: Some(Sha256::digest(&self.certificate).into()),
            shows: ProofKind::Certificate,
            refusal: |_, _| OTHER_CERTIFICATE.to_owned(),
            provider: Arc::clone(provider),
        };
        let mut config = rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Kind of proof of a peer's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofKind {
    /// Proof by a certificate.
    Certificate,
    /// Proof by its public key alone (RFC 7250).
    RawKey,
    /// Proof by a certificate, of which the public key alone counts.
    KeyInCertificate,
}

/// Verifier that accepts only the peer with one certificate or key, known by its SHA-256.
#[derive(Debug)]
pub struct PinnedVerifier {
    /// SHA-256 of it; `None` accepts any peer that proves to own the key that it presents.
    pub expected: Option<[u8; 32]>,
    /// Kind of proof that the far end presents.
    pub shows: ProofKind,
    /// Explains the refusal of another one, given its SHA-256.
    pub refusal: fn(shown: [u8; 32], expected: [u8; 32]) -> String,
    /// Ciphers and key exchange.
    pub provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = match self.shows {
            ProofKind::KeyInCertificate => others::key_in(shown)?,
            ProofKind::Certificate | ProofKind::RawKey => Sha256::digest(shown).into(),
        };
        match self.expected {
            Some(expected) if shown != expected => {
                Err(rustls::Error::General((self.refusal)(shown, expected)))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only is spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match self.shows {
            ProofKind::Certificate | ProofKind::KeyInCertificate => {
                verify_tls13_signature(message, shown, signed, algorithms)
            }
            ProofKind::RawKey => {
                let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
                verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.shows == ProofKind::RawKey
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
