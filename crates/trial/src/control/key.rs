//! Key of a server, which clients pin: TLS 1.3 (RFC 8446) with a raw public key (RFC 7250). There is no certificate,
//! name or date to check, only the key that the server printed at its start.

use std::fmt;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, PKCS_ED25519};
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use sha2::{Digest, Sha256};

use super::private_file;
use deadheat_base::error::{Error, Result};
use deadheat_base::units::hex::{hex, unhex};
use deadheat_datapath::transport::identity::{PinnedVerifier, ProofKind};

/// Environment variable that may hold a pin.
pub const PIN_VARIABLE: &str = "DEADHEAT_PIN";

/// Prefix of a pin: the name of the hash, before its digits.
const PREFIX: &str = "sha256:";

/// SHA-256 of a server's public key (its SubjectPublicKeyInfo in DER, as in RFC 7469).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

impl Pin {
    /// Parses `sha256:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Usage`] for anything else.
    pub fn parse(typed: &str) -> Result<Pin> {
        let digits = typed.trim().strip_prefix(PREFIX).unwrap_or_default();
        unhex(digits).map(Pin).ok_or_else(|| {
            Error::usage(format!(
                "`{typed}` is no pin: {PREFIX} and 64 hexadecimal digits are expected, as `deadheat serve` \
                 prints them when it starts"
            ))
        })
    }

    /// Returns the pin of a public key (SubjectPublicKeyInfo, DER).
    pub(super) fn of(spki: &[u8]) -> Pin {
        Pin(Sha256::digest(spki).into())
    }

    /// Reads the pin in `DEADHEAT_PIN`, if it is set.
    ///
    /// # Errors
    /// Fails like [`Pin::parse`].
    pub fn from_environment() -> Result<Option<Pin>> {
        std::env::var(PIN_VARIABLE).ok().map(|typed| Pin::parse(&typed)).transpose()
    }

    /// Returns the client's side of a connection to the server with `pin`, or to any server.
    ///
    /// # Errors
    /// Fails if the TLS library cannot be set up.
    pub(super) fn client(pin: Option<&Pin>) -> Result<ClientConnection> {
        let provider = Arc::new(default_provider());
        let verifier = Arc::new(PinnedVerifier {
            expected: pin.map(|pin| pin.0),
            shows: ProofKind::RawKey,
            refusal,
            provider: Arc::clone(&provider),
        });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        // The key identifies the server; no name is sent or compared.
        config.enable_sni = false;
        let name = ServerName::IpAddress(IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED));
        ClientConnection::new(Arc::new(config), name).map_err(unable)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", hex(&self.0))
    }
}

/// Key of a server, ready to encrypt control with. It is never printed; its pin is.
#[derive(Clone)]
pub struct ServerKey {
    config: Arc<ServerConfig>,
    pin: Pin,
}

impl ServerKey {
    /// Creates a key that lasts as long as this process.
    ///
    /// # Errors
    /// Fails if no key can be generated.
    pub fn fresh() -> Result<ServerKey> {
        ServerKey::from_pkcs8(generate()?.into())
    }

    /// Reads the key in `file`, PEM (PKCS #8, as `openssl genpkey -algorithm ed25519` writes it). If there is no such
    /// file, creates a new one, which only its owner may read.
    ///
    /// # Errors
    /// Fails if the file cannot be read or created, or holds no private key that TLS 1.3 can sign with.
    pub fn in_file(file: &Path) -> Result<ServerKey> {
        let failed = |doing: &str, e| Error::setup(format!("{doing} {}", file.display()), e);
        let pem = match private_file::read(file) {
            Ok(pem) => pem,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let pem = to_pem(&generate()?);
                let mut options = std::fs::OpenOptions::new();
                options
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(file)
                    .and_then(|mut made| made.write_all(pem.as_bytes()))
                    .map_err(|e| failed("keep the server's key in", e))?;
                pem.into_bytes()
            }
            Err(e) => return Err(failed("read the server's key from", e)),
        };
        let unusable = |e: String| {
            Error::usage(format!(
                "{} holds no key for TLS 1.3 ({e}); remove it to have a new one made, or write one with \
                 `openssl genpkey -algorithm ed25519`",
                file.display()
            ))
        };
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| unusable(e.to_string()))?;
        ServerKey::from_pkcs8(key).map_err(|e| unusable(e.to_string()))
    }

    fn from_pkcs8(key: PrivateKeyDer<'static>) -> Result<ServerKey> {
        let provider = Arc::new(default_provider());
        let signing = provider.key_provider.load_private_key(key).map_err(unable)?;
        let spki = public(&*signing)?;
        let pin = Pin::of(&spki);
        let certified = CertifiedKey::new(vec![CertificateDer::from(spki)], signing);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(
                certified,
            ))));
        // No connection is resumed, so tickets are useless.
        config.send_tls13_tickets = 0;
        Ok(ServerKey { config: Arc::new(config), pin })
    }

    /// Returns the pin for clients.
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// Returns the server's side of a connection.
    ///
    /// # Errors
    /// Fails if the TLS library cannot be set up.
    pub(crate) fn server(&self) -> Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.config)).map_err(unable)
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerKey({})", self.pin)
    }
}

/// Generates an Ed25519 key (RFC 8410).
fn generate() -> Result<PrivatePkcs8KeyDer<'static>> {
    let pair = KeyPair::generate_for(&PKCS_ED25519)
        .map_err(|e| Error::setup("make a key", std::io::Error::other(e.to_string())))?;
    Ok(pair.serialize_der().into())
}

fn to_pem(key: &PrivatePkcs8KeyDer<'_>) -> String {
    let body = BASE64_STANDARD.encode(key.secret_pkcs8_der());
    let lines: Vec<&str> =
        (0..body.len()).step_by(64).map(|at| &body[at..body.len().min(at + 64)]).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

fn public(key: &dyn SigningKey) -> Result<Vec<u8>> {
    let spki = key.public_key().map(|spki| spki.to_vec());
    spki.ok_or_else(|| Error::usage("this kind of key has no public half that can be sent alone"))
}

fn unable(error: rustls::Error) -> Error {
    Error::setup("set up TLS", std::io::Error::other(error.to_string()))
}

fn refusal(shown: [u8; 32], pinned: [u8; 32]) -> String {
    format!(
        "its key is {} and not the pinned {}: the server has a new key, or another host answers in its place; \
         compare with what the server printed at its start",
        Pin(shown),
        Pin(pinned)
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pin_reads_as_it_is_written() {
        let pin = ServerKey::fresh().unwrap().pin();
        assert_eq!(Pin::parse(&pin.to_string()).unwrap(), pin);
        let long = format!("{PREFIX}{}", "0".repeat(63) + "é");
        for typed in ["", "sha256:", "sha256:12", "0123", long.as_str()] {
            let said = Pin::parse(typed).unwrap_err().to_string();
            assert!(said.contains("64 hexadecimal digits"), "{said}");
        }
    }

    #[test]
    fn a_key_in_a_file_is_made_once_and_keeps_its_pin() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key.pem");
        let made = ServerKey::in_file(&file).unwrap().pin();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ServerKey::in_file(&file).unwrap().pin(), made);
        assert_ne!(ServerKey::fresh().unwrap().pin(), made);
    }

    /// Key from `openssl genpkey -algorithm ed25519`; pin from `openssl pkey -pubout -outform DER` and `sha256sum`.
    #[test]
    fn openssl_sees_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key.pem");
        let pem = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEIGWy2bEA3L0B4NbEUrZ8bQYs+4xspCDuCOfHljc/wOXE\n\
                   -----END PRIVATE KEY-----\n";
        std::fs::write(&file, pem).unwrap();
        let pin = ServerKey::in_file(&file).unwrap().pin();
        assert_eq!(
            pin.to_string(),
            "sha256:de0f813a056df4927430ed4c6532bab20afe5ddc145c01b0fd983d0a37a41087"
        );
    }

    #[test]
    fn what_is_no_key_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key.pem");
        for text in ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            std::fs::write(&file, text).unwrap();
            let said = ServerKey::in_file(&file).unwrap_err().to_string();
            assert!(said.contains("openssl genpkey"), "{said}");
        }
    }
}
