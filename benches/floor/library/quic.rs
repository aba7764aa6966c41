//! QUIC by each library that races, with the settings that its contender has in a race, and the datapath of quinn's own
//! sockets.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::{DATAGRAM, Talker};
use crate::floor::sys;

mod noq;
#[cfg(feature = "quic-quiche")]
mod quiche;
mod quinn;
mod shape;
mod sockets;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes that are handed over at once.
const PIECE: usize = 64 << 10;
/// The most datagrams of a segmented buffer: what fits into 64 KiB.
const SEGMENTS: usize = (65_535 - 28) / DATAGRAM;
const NAME: &str = "localhost";

/// QUIC by one library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quic {
    /// The crate quinn-proto.
    Quinn,
    /// The crate noq-proto.
    Noq,
    /// The crate quiche.
    #[cfg(feature = "quic-quiche")]
    Quiche,
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It connects, and sends bulk.
    Near,
    /// It shows the certificate.
    Far,
}

impl Quic {
    /// Every library of this build.
    pub(crate) const ALL: &[Quic] = &[
        Quic::Quinn,
        Quic::Noq,
        #[cfg(feature = "quic-quiche")]
        Quic::Quiche,
    ];

    /// Creates an end.
    pub(super) fn end(
        self,
        socket: UdpSocket,
        secrets: &Secrets,
        role: Role,
    ) -> io::Result<Box<dyn Talker>> {
        sys::set(&socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)?;
        let made: Result<Box<dyn Talker>, Failure> = match self {
            Quic::Quinn => quinn::Machine::talker(socket, secrets, role),
            Quic::Noq => noq::Machine::talker(socket, secrets, role),
            #[cfg(feature = "quic-quiche")]
            Quic::Quiche => quiche::Machine::talker(socket, secrets, role),
        };
        made.map_err(io::Error::other)
    }
}

/// Certificate and key of the far end.
pub(super) struct Secrets(CertifiedKey<KeyPair>);

impl Secrets {
    pub(super) fn new() -> Result<Secrets, rcgen::Error> {
        Ok(Secrets(rcgen::generate_simple_self_signed([NAME.to_owned()])?))
    }

    fn client(&self) -> Result<rustls::ClientConfig, Failure> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.0.cert.der().clone())?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![NAME.into()];
        Ok(tls)
    }

    fn server(&self) -> Result<rustls::ServerConfig, Failure> {
        let key = PrivatePkcs8KeyDer::from(self.0.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.0.cert.der().clone()], key.into())?;
        tls.alpn_protocols = vec![NAME.into()];
        Ok(tls)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    })
}
