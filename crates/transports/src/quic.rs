//! QUIC (RFC 9000) by quinn-proto: a reliable byte stream (`quic`), or unreliable datagrams (`quic-datagram`,
//! RFC 9221), both encrypted and congestion-controlled.
//!
//! Only the protocol is quinn's. Sockets, batches and waiting are the same for every protocol in user space here, so
//! differences come from the protocol and not from a runtime. Each direction has one stream of its own. Windows are the
//! same at both ends and printed. Path MTU discovery is off: packets have the size `mtu` from the start. There is no
//! idle timeout; a trial has a deadline of its own.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Key;
use deadheat_base::spec::typed::{Optional, Preset, Text};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{
    Congestion, Delivery, Framing, Guarantees, Offer, Offers, Service,
};
use deadheat_datapath::transport::application::ApplicationTerms;
use deadheat_datapath::transport::equal::{self, OwnDefault};
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::identity::TrustedName;
use deadheat_datapath::transport::plain::{PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::userspace::{EQUAL_MTU, Opening, Protocol, Userspace};
use deadheat_datapath::transport::{Conn, Dial, Info, identity};
use ecn::QUINN_ECN;
use end::QuicEnd;
use layer::Layer;
use machine::QuicLibrary;
use quinn::QuinnMachine;
use terms::Configuration;

pub(super) mod acknowledged;
pub(super) mod application;
pub(super) mod connection;
pub(super) mod ecn;
pub(super) mod end;
mod frames;
mod kernel;
pub(super) mod lanes;
pub(super) mod layer;
pub(super) mod machine;
mod pacing;
mod prague;
mod qlog;
pub(super) mod quinn;
mod setup;
pub(super) mod shape;
mod tap;
pub(super) mod terms;

pub(super) use kernel::why_not as why_not_the_kernels;

/// QUIC streams.
#[derive(Clone, Copy)]
pub(super) struct Quic;

/// QUIC datagrams.
#[derive(Clone, Copy)]
pub(super) struct QuicDatagram;

/// Largest payload of a datagram frame in bytes: an Ethernet packet less the headers of IPv6 (40), UDP (8), a short
/// header with its longest packet number (13), the tag (16) and the frame's own (9), rounded down to the size that
/// `bulk` and `cbr` have by default.
pub(super) const LARGEST_DATAGRAM: u64 = 1_400;

/// Most lanes of a connection. The peer may have as many streams open at once, and as many messages under way that have
/// a stream each.
pub(super) const MOST_LANES: u16 = 256;

/// Bytes around the data of a full packet: a short header (1), a connection ID as long as quinn's (8), a packet
/// number (2), the authentication tag (16), and a frame's header (8 at most for a stream).
const AROUND: u64 = 1 + 8 + 2 + 16 + 8;

/// Smallest packet that QUIC works with (RFC 9000, 14).
pub(super) const LEAST_PAYLOAD: u32 = 1_200;

pub(super) static STREAM: Info = Info {
    id: "quic",
    label: "QUIC (quinn)",
    colour: "#9a3fb0",
    implementation: env!("DEADHEAT_QUINN_PROTO"),
    protocol: Some("QUIC"),
    summary: "QUIC by quinn: encrypted byte streams over UDP (RFC 9000)",
    guarantees: Guarantees {
        encrypted: true,
        others: Offers::of(&[
            Offer { service: Service::UNORDERED, largest_message: None },
            Offer { service: Service::BEST_EFFORT, largest_message: Some(LARGEST_DATAGRAM) },
        ]),
        lanes: MOST_LANES,
        ..Guarantees::BYTE_STREAM
    },
    framing_bytes: PREFIX,
    keys: KEYS,
    deployed: DEPLOYED,
    ..Info::IN_USER_SPACE
};

/// Facts of a connection to a program of others.
static STREAM_TO_OTHERS: Info = to_others(&STREAM);

/// Returns the facts of a connection whose messages an application protocol makes and takes.
pub(super) const fn to_others(own: &Info) -> Info {
    let guarantees = Guarantees { framing: Framing::Messages, ..own.guarantees };
    Info { guarantees, framing_bytes: 0, ..*own }
}

static DATAGRAM: Info = Info {
    id: "quic-datagram",
    label: "QUIC datagrams (quinn)",
    colour: "#c08fd0",
    summary: "QUIC datagrams by quinn: encrypted, not repaired (RFC 9221)",
    guarantees: Guarantees {
        lanes: MOST_LANES,
        congestion: Congestion::Controlled,
        encrypted: true,
        largest_message: Some(LARGEST_DATAGRAM),
        ..Guarantees::DATAGRAMS
    },
    framing_bytes: 0,
    ..STREAM
};

const KEYS: &[Key] = deadheat_base::keys![
    CONTROL,
    identity::CIPHER,
    identity::CERTIFICATE,
    identity::RESUME,
    WINDOW,
    PACKET,
    QUINN_ECN,
    QLOG
];

/// Congestion control of quinn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuicControl {
    Cubic,
    Reno,
    Bbr,
}

pub(super) const CONTROL: Preset<QuicControl> = Optional::choice(
    "cc",
    &["cubic", "reno", "bbr"],
    &[QuicControl::Cubic, QuicControl::Reno, QuicControl::Bbr],
)
.or(equal::CC)
.doc(
    "congestion control: CUBIC (RFC 9438), NewReno (RFC 9002), or quinn's BBR, which is \
     of version 1",
);

pub(super) const WINDOW: Optional<Bytes> = Optional::size("window", (16_384, 1 << 30))
    .assumed("8MB")
    .doc("flow control: the receiver's room, and the most unacknowledged bytes of a sender; with one lane at most twice \
     its congestion window, as Linux's TCP does");

pub(super) const PACKET: Optional<Bytes> =
    Optional::size("mtu", (1_228, 9_216)).assumed(EQUAL_MTU).doc(
        "the largest IP packet, up to a jumbo frame; the path's where that is less; not \
         typed: with --to the largest that probes find",
    );

pub(super) const QLOG: Text = Text::path("qlog")
    .doc("writes packets and congestion control of each connection as qlog 0.3: q.sqlog becomes q-TRIAL-near.sqlog \
     and q-TRIAL-far.sqlog; a far end with --to writes none");

/// Defaults of quinn-proto (`TransportConfig::default`) and rustls by themselves.
const DEPLOYED: &[OwnDefault] =
    &[OWN_WINDOW, OWN_PACKET, OWN_ECN, identity::OWN_CIPHER, identity::OWN_RESUME];

pub(super) const OWN_WINDOW: OwnDefault = OwnDefault {
    knob: WINDOW.name(),
    value: "",
    source: "`TransportConfig`: 1.25 MB a stream, for 100 Mbit/s at 100 ms",
};

pub(super) const OWN_PACKET: OwnDefault = OwnDefault {
    knob: PACKET.name(),
    value: "",
    source: "`TransportConfig`: 1200 bytes, then what path MTU discovery finds",
};

pub(super) const OWN_ECN: OwnDefault = OwnDefault {
    knob: QUINN_ECN.name(),
    value: "on",
    source: "`Connection`: marks packets until an acknowledgement does not confirm it",
};

impl Userspace for Quic {
    fn info(&self) -> &'static Info {
        &STREAM
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        open(STREAM.id, &Layer::NONE, opening)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::QUIC, opening: PlainOpening::Encrypted(open_plain) };

fn open_plain(dial: &Dial<'_>, terms: ApplicationTerms) -> Result<Box<dyn Conn>> {
    application::dial::<QuinnMachine>(&STREAM_TO_OTHERS, dial, terms)
}

impl Userspace for QuicDatagram {
    fn info(&self) -> &'static Info {
        &DATAGRAM
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        open(DATAGRAM.id, &Layer::NONE, opening)
    }
}

/// Opens one end of a connection of quinn, with `layer` between it and its lanes.
pub(super) fn open(
    id: &str,
    layer: &Layer<quinn_proto::Connection>,
    opening: &Opening<'_>,
) -> Result<Box<dyn Protocol>> {
    Ok(Box::new(end_of::<QuinnMachine>(id, layer, opening, None)?))
}

/// Opens one end of a connection of a library, to a program of others if one is named.
pub(super) fn end_of<M: QuicLibrary>(
    id: &str,
    layer: &Layer<M::Connection>,
    opening: &Opening<'_>,
    others: Option<&TrustedName>,
) -> Result<QuicEnd<M>> {
    ecn::check(id, opening.knobs, others.is_some())?;
    let payload = opening.mtu.saturating_sub(opening.headers());
    let least = if opening.lanes.iter().any(|lane| lane.delivery == Delivery::BestEffort) {
        // The least that quinn guarantees of a packet (`Datagrams::max_size`).
        let message = layer.heads.datagram.len() + lanes::TAG + opening.largest_message;
        LEAST_PAYLOAD.max(message as u32 + 13 + 16 + 9)
    } else {
        LEAST_PAYLOAD
    };
    if payload < least {
        return Err(Error::usage(format!(
            "`{id}` needs packets of {} bytes here, and the path takes {}; raise its mtu{}",
            least + opening.headers(),
            opening.mtu,
            if least > LEAST_PAYLOAD { ", or send smaller messages" } else { "" }
        )));
    }
    let qlog = opening.knobs.text_of(&QLOG).map(|file| qlog::Qlog::create(file, opening));
    let qlog =
        qlog.transpose().map_err(|e| Error::setup(format!("write the qlog of `{id}`"), e))?;
    let tap = qlog.as_ref().map(qlog::Qlog::tap).cloned();
    let mut configuration = Configuration::new(&M::OWN, layer, opening, [payload, least], others);
    configuration.tap = tap;
    let machine = M::new(&configuration).map_err(|e| {
        Error::setup(format!("set up the encryption of `{id}`"), std::io::Error::other(e))
    })?;
    let facts = configuration.facts(M::control(opening.knobs), &M::OWN);
    Ok(QuicEnd::new(layer, opening, machine, facts).logged(qlog))
}
