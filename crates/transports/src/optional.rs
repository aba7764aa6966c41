//! Transports behind a Cargo feature of their own, off by default. A new one needs its file, its line in
//! [`ALL`](super::ALL) under `#[cfg(feature = …)]`, and a line in the list here.

use deadheat_datapath::transport::optional::{Optional, Presence};

/// Contenders that a build may leave out, in the order in which lists show them.
pub const ALL: &[&Optional] = &[
    &Optional {
        id: "renet",
        summary: "messages over UDP for games, sent again every 300 ms",
        presence: Presence::of(cfg!(feature = "renet")),
        takes: None,
    },
    &Optional {
        id: "laminar",
        summary: "messages over UDP for games; last release 2021",
        presence: Presence::of(cfg!(feature = "laminar")),
        takes: None,
    },
    &Optional {
        id: "webtransport",
        summary: "WebTransport over HTTP/3, as in browsers: byte streams",
        presence: Presence::of(cfg!(feature = "webtransport")),
        takes: None,
    },
    &Optional {
        id: "datachannel",
        summary: "WebRTC's messages, as in browsers: SCTP in DTLS over UDP",
        presence: Presence::of(cfg!(feature = "datachannel")),
        takes: None,
    },
    &Optional {
        id: "quic-noq",
        summary: "QUIC by noq: encrypted byte streams over UDP (RFC 9000)",
        presence: Presence::of(cfg!(feature = "quic-noq")),
        takes: None,
    },
    &Optional {
        id: "quic-quiche",
        summary: "QUIC by quiche: encrypted byte streams over UDP (RFC 9000)",
        presence: Presence::of(cfg!(feature = "quic-quiche")),
        takes: Some("CMake, a C++ compiler and libclang, for BoringSSL"),
    },
    &Optional {
        id: "quic-s2n",
        summary: "QUIC by s2n-quic: encrypted byte streams over UDP (RFC 9000)",
        presence: Presence::of(cfg!(feature = "quic-s2n")),
        takes: None,
    },
    &Optional {
        id: "quic-kernel",
        summary: "QUIC by the kernel: encrypted byte streams over UDP (RFC 9000)",
        presence: Presence::Nowhere(crate::quic::why_not_the_kernels),
        takes: None,
    },
    &Optional {
        id: "misbehaving",
        summary: "arq that fails on purpose, to show what a race does then",
        presence: Presence::of(cfg!(feature = "misbehaving")),
        takes: None,
    },
];
