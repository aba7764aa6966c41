//! QUIC (RFC 9000) by s2n-quic: reliable, encrypted byte streams as in `quic`, by another implementation.
//!
//! A result about one implementation of QUIC need not hold for another: where packets are lost, two of them may differ
//! by more than QUIC does from TCP. This is a second one. It has the same datapath, windows, packets, ciphers and keys
//! as `quic`, so the two differ only in their libraries.
//!
//! s2n-quic leaves datagrams and time to its I/O provider ([`endpoint`]), and its interface to the application is
//! asynchronous: calls are polled here after events that may have changed their result, with a waker that does nothing.
//! No runtime runs. A lane is a stream in each direction; messages that may be lost, messages without order,
//! resumption, ECN and qlog are available with `quic` only.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use s2n_quic::provider::connection_id::default::Format;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls::{Client, Server};
use s2n_quic_core::path::mtu;

use crate::quic::{LEAST_PAYLOAD, MOST_LANES, PACKET, STREAM, WINDOW};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_contract::contract::Guarantees;
use deadheat_datapath::transport::Info;
use deadheat_datapath::transport::equal::{self, OwnDefault};
use deadheat_datapath::transport::identity::{self, Failure, HandshakeTerms, NAME, Resume};
use deadheat_datapath::transport::userspace::{Opening, Protocol, Userspace};
use end::S2nEnd;

mod end;
mod endpoint;
mod events;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct QuicS2n;

/// Bytes of a connection ID, as many as in quinn.
const CONNECTION_ID: usize = 8;

/// Bytes of IPv4 and UDP headers, which s2n-quic assumes in front of a datagram for its peer's address.
const AROUND_DATAGRAM: u32 = 28;

/// Default of the largest packet (`MaxMtu::default`), in bytes.
const OWN_PACKET: u32 = 1_500;

static INFO: Info = Info {
    id: "quic-s2n",
    label: "QUIC (s2n)",
    colour: "#2a9fb0",
    implementation: env!("DEADHEAT_S2N_QUIC"),
    summary: "QUIC by s2n-quic: encrypted byte streams over UDP (RFC 9000)",
    guarantees: Guarantees { encrypted: true, lanes: MOST_LANES, ..Guarantees::BYTE_STREAM },
    keys: deadheat_base::keys![CONTROL, identity::CIPHER, identity::CERTIFICATE, WINDOW, PACKET],
    deployed: DEPLOYED,
    ..STREAM
};

/// Congestion control of s2n-quic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum S2nControl {
    Cubic,
    Bbr,
}

const CONTROL: Preset<S2nControl> =
    Optional::choice("cc", &["cubic", "bbr"], &[S2nControl::Cubic, S2nControl::Bbr])
        .or(equal::CC)
        .doc("congestion control: CUBIC (RFC 9438), or s2n-quic's BBR, which is of version 2");

/// Defaults of s2n-quic (`Limits::default`) by itself.
const DEPLOYED: &[OwnDefault] = &[
    OwnDefault {
        knob: WINDOW.name(),
        value: "",
        source: "`Limits`: 3.75 MB a connection, for 150 Mbit/s at 100 ms",
    },
    OwnDefault {
        knob: PACKET.name(),
        value: "",
        source: "`mtu::Config`: 1228 bytes, then what path MTU discovery finds",
    },
    identity::OWN_CIPHER,
];

/// Configuration of an end of either side.
struct S2nSetup {
    io: endpoint::EndpointSlot,
    limits: Limits,
    ids: Format,
    control: S2nControl,
    cipher: &'static str,
    provider: Arc<CryptoProvider>,
    /// Flow-control window in bytes, if one was requested.
    window: Option<u64>,
    certificate: String,
    /// Most bytes of a datagram.
    payload: u32,
    /// True if packets keep their initial size; otherwise path MTU discovery finds the largest.
    is_mtu_fixed: bool,
}

impl Userspace for QuicS2n {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let payload = opening.payload(INFO.id, LEAST_PAYLOAD)?;
        let end = S2nSetup::new(opening, payload).and_then(|setup| S2nEnd::new(opening, setup));
        let end = end.map_err(|e| {
            Error::setup(format!("set up the endpoint of `{}`", INFO.id), io::Error::other(e))
        })?;
        Ok(Box::new(end))
    }
}

impl S2nSetup {
    /// Creates the setup of an end for datagrams of at most `payload` bytes.
    fn new(opening: &Opening<'_>, payload: u32) -> std::result::Result<S2nSetup, Failure> {
        let knobs = opening.knobs;
        let window = knobs.find(&WINDOW).map(|size| size.0);
        let control = knobs.get(&CONTROL);
        let is_mtu_fixed = knobs.find(&PACKET).is_some();
        let packet = payload + AROUND_DATAGRAM;
        let mtu = if is_mtu_fixed {
            let packet = u16::try_from(packet)?;
            // With three equal sizes nothing is probed, and no loss makes packets smaller.
            mtu::Config::builder()
                .with_base_mtu(packet)?
                .with_initial_mtu(packet)?
                .with_max_mtu(packet)?
                .build()?
        } else {
            let most = u16::try_from(packet.min(OWN_PACKET))?;
            mtu::Config::builder().with_max_mtu(most)?.build()?
        };
        // A trial has a deadline of its own.
        let mut limits = Limits::new()
            .with_max_idle_timeout(Duration::ZERO)?
            .with_max_handshake_duration(Duration::from_secs(3_600))?
            .with_max_open_local_unidirectional_streams(MOST_LANES.into())?
            .with_max_open_remote_unidirectional_streams(MOST_LANES.into())?;
        if let Some(window) = window {
            limits = limits
                .with_data_window(window)?
                .with_unidirectional_data_window(window)?
                .with_max_send_buffer_size(u32::try_from(window)?)?;
        }
        let (cipher, provider) = identity::provider(knobs.find(&identity::CIPHER));
        let ids = Format::builder()
            .with_len(CONNECTION_ID)
            .map_err(|error| error.to_string())?
            .build()?;
        let io = endpoint::EndpointSlot::new(mtu);
        let certificate = identity::certificate_word(knobs.text_of(&identity::CERTIFICATE));
        Ok(S2nSetup {
            io,
            limits,
            ids,
            control,
            cipher,
            provider,
            window,
            certificate,
            payload,
            is_mtu_fixed,
        })
    }

    /// Returns the terms of the handshake, the same as in `quic`.
    fn terms<'a>(&'a self, opening: &'a Opening<'_>) -> HandshakeTerms<'a> {
        let (token, provider) = (&opening.token, &self.provider);
        let certificate = opening.knobs.text_of(&identity::CERTIFICATE);
        HandshakeTerms {
            others: None,
            token,
            provider,
            resume: Resume::Off,
            gives_keys: false,
            alpn: NAME,
            certificate,
        }
    }

    /// Returns the near end's part of the handshake.
    fn client(&self, opening: &Opening<'_>) -> std::result::Result<Client, Failure> {
        Ok(opening.tickets.client(&self.terms(opening))?.into())
    }

    /// Returns the far end's part of the handshake.
    fn server(&self, opening: &Opening<'_>) -> std::result::Result<Server, Failure> {
        Ok(opening.tickets.server(&self.terms(opening))?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_library_s_defaults_is_what_it_has() {
        let defaults = format!("{:?}", Limits::default());
        assert!(defaults.contains("data_window: InitialMaxData(VarInt(3750000))"), "{defaults}");
        let packets = mtu::Config::default();
        assert_eq!(u32::from(u16::from(packets.max_mtu())), OWN_PACKET);
        assert_eq!(u16::from(packets.initial_mtu()), 1_228);
    }
}
