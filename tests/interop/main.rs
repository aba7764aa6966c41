//! Our ends with ends of other people's programs and libraries, which speak the protocol and know nothing of us: content
//! goes both ways and is checked.
//!
//! | here | there | Debian's package |
//! |---|---|---|
//! | `datachannel` | aiortc | `python3-aiortc` |
//! | `enet` | ENet in C, by pyenet | `python3-enet` |
//! | `kcp` | kcp-go, in kcptun | `kcptun` |
//! | `mptcp` | any program under mptcpize | `mptcpize` |
//! | `quic`, `quic-datagram`, `quic-noq`, `quic-s2n`, `quic-quiche` | aioquic | `python3-aioquic`, or PyPI's |
//! | `quic-quiche` | `quic`, by quinn | |
//! | `sctp-udp` | usrsctp | `libusrsctp-dev` |
//! | `tls` | OpenSSL | `openssl` |
//! | `utp` | libutp, by utp-native | npm's |
//! | `via=coturn`, `via=turn:HOST` | coturn | `coturn` |
//! | `webtransport` | aioquic | as for `quic` |
//! | `ws`, `wss` | websockets | `python3-websockets` |
//!
//! A test whose other end is missing says so and passes; `make test` installs them all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

mod certificate;
#[cfg(feature = "datachannel")]
mod datachannel;
mod driven;
mod enet;
#[path = "../common/handed_in.rs"]
mod handed_in;
mod kcp;
mod mptcp;
mod other;
mod ours;
#[path = "../common/pem.rs"]
mod pem;
#[path = "../common/python.rs"]
mod python;
mod quic;
#[cfg(feature = "quic-quiche")]
mod quiche;
mod sctp;
mod tls;
mod turn;
mod two_streams;
mod utp;
mod websocket;
#[cfg(feature = "webtransport")]
mod webtransport;

/// Content of message `number`; the scripts of the other ends have the same function.
fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (number * 197 + i * 31 + (i >> 8)) as u8).collect()
}
