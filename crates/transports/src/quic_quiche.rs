//! QUIC (RFC 9000) by quiche, Cloudflare's library: the lanes of `quic` by another one, whose cryptography is BoringSSL.
//!
//! It has the same end as `quic` (`QuicEnd`), and so the same windows, packets, ciphers, certificate and lanes. quiche
//! differs from the other libraries in what it takes from its caller: it reads the host's clock itself, so it cannot run
//! in virtual time; it has no ECN; and it accepts no more bytes than its congestion window admits, where the others store
//! a second window.
//!
//! Its BBR says when the next packet may leave, and this end waits until then. Its CUBIC and NewReno do not pace.

use crate::quic::layer::Layer;
use crate::quic::{self, PACKET, QLOG, QuicControl, STREAM, WINDOW};
use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_datapath::transport::equal::{self, OwnDefault};
use deadheat_datapath::transport::userspace::{Opening, Protocol, Userspace};
use deadheat_datapath::transport::{Info, identity};
use machine::QuicheMachine;

mod connection;
mod machine;
mod setup;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct QuicQuiche;

static INFO: Info = Info {
    id: "quic-quiche",
    label: "QUIC (quiche)",
    colour: "#d9822b",
    implementation: env!("DEADHEAT_QUICHE"),
    summary: "QUIC by quiche: encrypted byte streams over UDP (RFC 9000)",
    keys: deadheat_base::keys![
        CONTROL,
        identity::CIPHER,
        identity::CERTIFICATE,
        WINDOW,
        PACKET,
        QLOG
    ],
    deployed: &[OwnDefault {
        knob: PACKET.name(),
        value: "1228B",
        source: "`Config`: datagrams of 1200 bytes, without path MTU discovery",
    }],
    real_time: Some(
        "quiche reads the host's clock by itself, and virtual time does not move that; race it without `sim:`",
    ),
    ..STREAM
};

const CONTROL: Preset<QuicControl> = Optional::choice("cc", &["cubic", "reno", "bbr"], &[QuicControl::Cubic, QuicControl::Reno, QuicControl::Bbr])
    .or(equal::CC)
    .doc("congestion control: CUBIC (RFC 9438) or NewReno (RFC 9002), both with HyStart++ (RFC 9406) and without pacing, or \
     quiche's BBR, which is of version 2");

impl Userspace for QuicQuiche {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        Ok(Box::new(quic::end_of::<QuicheMachine>(INFO.id, &Layer::NONE, opening, None)?))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use quiche::{Config, ConnectionId};

    #[test]
    fn what_is_said_of_the_library_s_default_is_what_it_has() {
        let mut config = Config::new(quiche::PROTOCOL_VERSION).unwrap();
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 5210));
        let id = ConnectionId::from_ref(&[1; 8]);
        let connection = quiche::connect(None, &id, at, at, &mut config).unwrap();
        assert_eq!(connection.path_stats().next().map(|path| path.pmtu), Some(1_200));
    }
}
