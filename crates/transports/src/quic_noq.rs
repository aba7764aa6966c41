//! QUIC (RFC 9000) by noq-proto: the lanes of `quic` by another library, which began as a copy of quinn in 2026 and has
//! gone its own way since, with version 3 of BBR and rules of its own for probes after losses.
//!
//! Both have the same end here (`QuicEnd`), and so the same windows, packets, ciphers, lanes and logs; only the library
//! differs. Its multipath is unused: a protocol in user space has one pair of sockets here, and so one path.
//!
//! Its receiver closes a connection that has more than 2048 pieces of a stream behind a gap ("too many gaps in stream
//! buffer"; quinn joins such pieces since 0.11.18). A larger window would end connections on a path that loses nothing
//! but one packet, so the window is bounded to what 2048 of the smallest full packets hold.

use crate::quic::layer::Layer;
use crate::quic::{self, OWN_ECN, PACKET, QLOG, QuicControl, STREAM, application};
use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::units::Bytes;
use deadheat_datapath::transport::application::ApplicationTerms;
use deadheat_datapath::transport::equal::{self, OwnDefault};
use deadheat_datapath::transport::plain::{PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::userspace::{ECN, Opening, Protocol, Userspace};
use deadheat_datapath::transport::{Conn, Dial, Info, identity};
use machine::NoqMachine;

mod machine;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct QuicNoq;

static INFO: Info = Info {
    id: "quic-noq",
    label: "QUIC (noq)",
    colour: "#5b86e5",
    implementation: env!("DEADHEAT_NOQ_PROTO"),
    summary: "QUIC by noq: encrypted byte streams over UDP (RFC 9000)",
    keys: deadheat_base::keys![
        CONTROL,
        identity::CIPHER,
        identity::CERTIFICATE,
        identity::RESUME,
        WINDOW,
        PACKET,
        ECN,
        QLOG
    ],
    deployed: &[
        OwnDefault {
            knob: WINDOW.name(),
            value: "",
            source: "`TransportConfig`: 1.25 MB a stream, for 100 Mbit/s at 100 ms",
        },
        OwnDefault {
            knob: PACKET.name(),
            value: "",
            source: "`TransportConfig`: 1200 bytes, then what path MTU discovery finds",
        },
        OWN_ECN,
        identity::OWN_CIPHER,
        identity::OWN_RESUME,
    ],
    ..STREAM
};

/// Facts of a connection to a program of others.
static TO_OTHERS: Info = quic::to_others(&INFO);

const CONTROL: Preset<QuicControl> = Optional::choice(
    "cc",
    &["cubic", "reno", "bbr"],
    &[QuicControl::Cubic, QuicControl::Reno, QuicControl::Bbr],
)
.or(equal::CC)
.doc(
    "congestion control: CUBIC (RFC 9438), NewReno (RFC 9002), or noq's BBR, which is of \
     version 3",
);

/// Most bytes behind a gap, in pieces of the smallest full packet.
const MOST_WINDOW: u64 = 2_000_000;

const WINDOW: Optional<Bytes> = Optional::size("window", (16_384, MOST_WINDOW))
    .assumed("2MB")
    .doc("flow control: the receiver's room, and the most unacknowledged bytes of a sender; with one lane at most twice \
     its congestion window, as Linux's TCP does; no more than 2 MB, since noq 1.4 closes a connection that has more \
     than 2048 packets behind a lost one");

impl Userspace for QuicNoq {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        Ok(Box::new(quic::end_of::<NoqMachine>(INFO.id, &Layer::NONE, opening, None)?))
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::QUIC, opening: PlainOpening::Encrypted(open_plain) };

fn open_plain(dial: &Dial<'_>, terms: ApplicationTerms) -> Result<Box<dyn Conn>> {
    application::dial::<NoqMachine>(&TO_OTHERS, dial, terms)
}
