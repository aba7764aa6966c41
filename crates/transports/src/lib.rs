//! The transports that deadheat races: one file each, with both ends, label, colour, guarantees and knobs.
//!
//! [`ALL`] is the list, which a program hands in. A new transport is a file and a line there. No transport knows a
//! workload.

mod arq;
#[cfg(feature = "datachannel")]
mod datachannel;
mod dccp;
mod enet;
mod icmp;
mod kcp;
#[cfg(feature = "laminar")]
mod laminar;
mod messages;
#[cfg(feature = "misbehaving")]
mod misbehaving;
mod mptcp;
mod multicast;
mod optional;
mod pending;
mod pipe;
mod quic;
#[cfg(feature = "quic-noq")]
mod quic_noq;
#[cfg(feature = "quic-quiche")]
mod quic_quiche;
#[cfg(feature = "quic-s2n")]
mod quic_s2n;
mod rbudp;
#[cfg(feature = "renet")]
mod renet;
mod sctp;
mod sctp_udp;
mod sim_datagram;
mod stream;
mod tcp;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod udp;
mod udplite;
mod unix;
mod unixgram;
mod utp;
#[cfg(feature = "webtransport")]
mod webtransport;
mod ws;

pub use optional::ALL as OPTIONAL;
pub use ws::read_frames;

use deadheat_datapath::transport::Transport;

/// Every transport, in the order in which lists show them.
pub const ALL: &[&dyn Transport] = &[
    &tcp::Tcp,
    &mptcp::Mptcp,
    &tls::Tls,
    &ws::Ws,
    &ws::Wss,
    &udp::Udp,
    &udplite::UdpLite,
    &sctp::Sctp,
    &dccp::Dccp,
    &icmp::Icmp,
    &unix::UnixStream,
    &unixgram::UnixDatagram,
    &pipe::Pipes,
    &quic::Quic,
    &quic::QuicDatagram,
    #[cfg(feature = "quic-noq")]
    &quic_noq::QuicNoq,
    #[cfg(feature = "quic-s2n")]
    &quic_s2n::QuicS2n,
    #[cfg(feature = "quic-quiche")]
    &quic_quiche::QuicQuiche,
    #[cfg(feature = "webtransport")]
    &webtransport::WebTransport,
    &kcp::Kcp,
    &sctp_udp::SctpUdp,
    #[cfg(feature = "datachannel")]
    &datachannel::DataChannel,
    &enet::Enet,
    #[cfg(feature = "renet")]
    &renet::Renet,
    #[cfg(feature = "laminar")]
    &laminar::Laminar,
    &rbudp::Rbudp,
    &utp::Utp,
    &multicast::Multicast,
    &arq::Arq,
    #[cfg(feature = "misbehaving")]
    &misbehaving::Misbehaving,
    &sim_datagram::SimDatagram,
];
