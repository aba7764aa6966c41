//! Transports behind a Cargo feature of their own, off by default. A new one needs its file, its line in
//! [`ALL`](super::ALL) under `#[cfg(feature = …)]`, and a line in the list here.

use crate::transport::optional::{Optional, Presence};

/// Contenders that a build may leave out, in the order in which lists show them.
pub const ALL: &[&Optional] = &[
    &Optional {
        id: "renet",
        summary: "messages over UDP as games have them, sent again every 300 ms until they are acknowledged",
        presence: Presence::of(cfg!(feature = "renet")),
    },
    &Optional {
        id: "laminar",
        summary: "messages over UDP as games have them, acknowledged by what travels the other way only; last release 2021",
        presence: Presence::of(cfg!(feature = "laminar")),
    },
    &Optional {
        id: "webtransport",
        summary: "a reliable, encrypted byte stream in a session over HTTP/3, as browsers have it",
        presence: Presence::of(cfg!(feature = "webtransport")),
    },
    &Optional {
        id: "datachannel",
        summary: "reliable, encrypted messages with congestion control, SCTP in DTLS over UDP, as browsers have it",
        presence: Presence::of(cfg!(feature = "datachannel")),
    },
    &Optional {
        id: "quic-noq",
        summary: "a reliable, encrypted byte stream over UDP (RFC 9000), by noq",
        presence: Presence::of(cfg!(feature = "quic-noq")),
    },
    &Optional {
        id: "quic-s2n",
        summary: "a reliable, encrypted byte stream over UDP (RFC 9000), by s2n-quic",
        presence: Presence::of(cfg!(feature = "quic-s2n")),
    },
    &Optional {
        id: "quic-kernel",
        summary: "a reliable, encrypted byte stream over UDP (RFC 9000), by the kernel",
        presence: Presence::Nowhere(crate::quic::why_not_the_kernels),
    },
    &Optional {
        id: "misbehaving",
        summary: "arq that breaks down where it is told to: to see what a race does then",
        presence: Presence::of(cfg!(feature = "misbehaving")),
    },
];
