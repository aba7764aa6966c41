//! The certificate of a trial, made anew from its token: what another end needs to be taken for ours. It is derived here once
//! more, since a change of that would keep two versions of deadheat from racing.

use std::fs;
use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::pki_types::PrivatePkcs8KeyDer;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::ours::HELLO;
use crate::pem::pem;

/// The name in the certificate, and in the handshake's list of protocols.
pub(crate) const NAME: &str = "deadheat";

/// In front of an Ed25519 private key in PKCS #8 (RFC 8410, 7).
const PKCS8: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];

/// Certificate and private key in files, which end with this.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    pub(crate) fn write() -> Files {
        let token = HELLO.token.bytes();
        let seed = Sha256::new().chain_update("deadheat certificate").chain_update(token);
        let key = [&PKCS8[..], &seed.finalize()].concat();
        let der = PrivatePkcs8KeyDer::from(&key[..]);
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).unwrap();
        let names = CertificateParams::new([NAME.to_owned()]).unwrap();
        let certificate = names.self_signed(&pair).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let write = |file, text| fs::write(folder.path().join(file), text).unwrap();
        write("certificate.pem", pem("CERTIFICATE", certificate.der()));
        write("key.pem", pem("PRIVATE KEY", &key));
        Files { folder }
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }
}
