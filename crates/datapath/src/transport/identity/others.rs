//! Certificates of others: a program of others proves its name by a certificate that an authority of this host vouches
//! for.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use super::Failure;
use crate::error::{Error, Result};

/// Variables with files of authorities, instead of this host's (as OpenSSL has them).
const FILES: &str = "SSL_CERT_FILE or SSL_CERT_DIR";

/// Name of a program of others, and the protocols that this end speaks with it.
#[derive(Clone)]
pub struct TrustedName {
    /// Name that the certificate has to prove.
    pub name: ServerName<'static>,
    /// Protocols inside, the preferred first (RFC 7301).
    pub protocols: &'static [&'static str],
    authorities: Arc<RootCertStore>,
}

impl TrustedName {
    /// Creates the terms of connections to `name`, a DNS name or an IP address.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is neither; [`Error::Setup`] if this host has no authorities.
    pub fn new(name: &str, protocols: &'static [&'static str]) -> Result<TrustedName> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::usage(format!("`{name}` is no name that a certificate proves")))?;
        Ok(TrustedName { name, protocols, authorities: authorities()? })
    }

    /// Returns the near end's side of a handshake.
    pub(super) fn client(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> std::result::Result<ClientConfig, Failure> {
        let config = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(Arc::clone(&self.authorities))
            .with_no_client_auth();
        Ok(config)
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
    "SSL_CERT_FILE names a file with further authorities, such as a private one";

/// Certificate in effect, for results, of a program of others.
pub const VOUCHED: &str = "the far end's, which an authority of this host vouches for";

/// Resumption in effect, for results, where early data was asked for and no ticket allowed it.
pub const NO_EARLY_DATA: &str = "no early data";
