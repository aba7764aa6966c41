//! Configuration of an end that does not depend on the library: sizes, TLS, and what results show of them.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite;
use sha2::{Digest, Sha256};

use super::layer::Layer;
use super::tap::PacketTap;
use super::{PACKET, WINDOW};
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::identity::{self, Failure, HandshakeTerms, Resume, TrustedName};
use deadheat_datapath::transport::userspace::Opening;

/// Time without a packet after which a program of others is shown that this end is there: as a rule it gives a
/// connection up after 30 s.
pub(crate) const ALIVE: Duration = Duration::from_secs(10);

/// Defaults of a library by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnSizes {
    /// Flow-control window of a stream in bytes.
    pub(crate) stream_window: u64,
    /// Largest datagram that an end accepts, in bytes.
    pub(crate) payload: u16,
}

/// Facts of an end's configuration, as results show them.
pub(crate) struct EndTerms {
    pub(super) control: &'static str,
    pub(super) cipher: &'static str,
    pub(super) certificate: String,
    pub(super) resume: Resume,
    /// Flow-control window in bytes, if one was requested.
    pub(super) window: Option<u64>,
    /// Window in bytes otherwise.
    pub(super) own_window: u64,
    /// True if packets keep their initial size; otherwise path MTU discovery finds the largest.
    pub(super) is_mtu_fixed: bool,
}

/// Configuration of an end, before it has the types of a library.
pub(crate) struct Configuration<'a> {
    pub(crate) opening: &'a Opening<'a>,
    /// Largest datagram, and the largest before path MTU discovery, in bytes.
    pub(crate) payload: u16,
    pub(crate) first: u16,
    /// Unidirectional streams that the peer may have open.
    pub(crate) streams: u32,
    /// Flow-control window in bytes, if one was requested.
    pub(crate) window: Option<u64>,
    /// False if path MTU discovery finds the largest packet.
    pub(crate) is_mtu_fixed: bool,
    pub(super) cipher: &'static str,
    pub(super) resume: Resume,
    provider: Arc<CryptoProvider>,
    alpn: &'static str,
    /// Tap that each packet passes in the clear, if its connection is logged and the library has a place for it.
    pub(super) tap: Option<PacketTap>,
    /// Program of others at the far end, if one is named.
    pub(crate) others: Option<&'a TrustedName>,
}

impl<'a> Configuration<'a> {
    /// Creates the configuration of an end of `layer` for datagrams of at most `payload` bytes, of which the work needs
    /// `least`; to a program of others if one is named, over a path that was not probed.
    pub(super) fn new<C>(
        own: &OwnSizes,
        layer: &Layer<C>,
        opening: &'a Opening<'a>,
        [payload, least]: [u32; 2],
        others: Option<&'a TrustedName>,
    ) -> Configuration<'a> {
        let knobs = opening.knobs;
        let is_mtu_fixed = match others {
            None => knobs.find(&PACKET).is_some(),
            Some(_) => knobs.given(PACKET.name()),
        };
        let whole = |bytes: u32| u16::try_from(bytes).unwrap_or(u16::MAX);
        let (payload, first) = if is_mtu_fixed {
            (whole(payload), whole(payload))
        } else {
            (whole(payload).min(own.payload), whole(least))
        };
        let (cipher, provider) = identity::provider(knobs.find(&identity::CIPHER));
        Configuration {
            opening,
            payload,
            first,
            streams: u32::from(super::MOST_LANES) + layer.streams,
            window: knobs.find(&WINDOW).map(|size| size.0),
            is_mtu_fixed,
            cipher,
            resume: knobs.get(&identity::RESUME),
            provider,
            alpn: layer.alpn,
            tap: None,
            others,
        }
    }

    /// Returns the facts of an end with this congestion control.
    pub(super) fn facts(&self, control: &'static str, own: &OwnSizes) -> EndTerms {
        EndTerms {
            control,
            cipher: self.cipher,
            certificate: match self.others {
                Some(others) => others.certificate_word().to_owned(),
                None => {
                    identity::certificate_word(self.opening.knobs.text_of(&identity::CERTIFICATE))
                }
            },
            resume: self.resume,
            window: self.window,
            own_window: own.stream_window,
            is_mtu_fixed: self.is_mtu_fixed,
        }
    }

    /// Returns the terms of the handshake.
    pub(crate) fn handshake(&self) -> HandshakeTerms<'_> {
        HandshakeTerms {
            token: &self.opening.token,
            provider: &self.provider,
            resume: self.resume,
            gives_keys: false,
            alpn: self.alpn,
            certificate: self.opening.knobs.text_of(&identity::CERTIFICATE),
            others: self.others,
        }
    }

    /// Returns the near end's part of the handshake; `None` at the far end.
    pub(crate) fn client(&self) -> Result<Option<Arc<rustls::ClientConfig>>, Failure> {
        match self.opening.side {
            Side::Near => self.opening.tickets.client(&self.handshake()).map(Some),
            Side::Far => Ok(None),
        }
    }

    /// Returns the far end's part of the handshake; `None` at the near end.
    pub(crate) fn server(&self) -> Result<Option<Arc<rustls::ServerConfig>>, Failure> {
        match self.opening.side {
            Side::Near => Ok(None),
            Side::Far => self.opening.tickets.server(&self.handshake()).map(Some),
        }
    }

    /// Returns the seed of the library's random numbers: the trial's, and another for each end.
    pub(crate) fn seed(&self) -> [u8; 32] {
        let side = [self.opening.side as u8];
        Sha256::new().chain_update(self.opening.token.bytes()).chain_update(side).finalize().into()
    }
}

/// Returns the suite of the first packets, which is fixed (RFC 9001, 5.2).
pub(crate) fn initial_suite() -> Result<rustls::quic::Suite, Failure> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.ok_or_else(|| "TLS 1.3 without the cipher suite that QUIC begins with".into())
}
