//! Answers to the clients of other programs, one file or folder each: what `deadheat serve --NAME` opens.
//!
//! [`ALL`] is the list, which a program hands in. A new responder is a file and a line there. Each keeps to the limits of
//! its host, and sends no more bytes than it received to an address that has not shown that it receives.

mod arrivals;
mod echo;
mod iperf3;
mod irtt;
mod loops;
mod quic_perf;
mod stamp;
mod table;

#[cfg(test)]
mod testing;

use deadheat_datapath::transport::responder::Responder;

/// Every responder, in the order in which lists show them.
pub const ALL: &[&dyn Responder] = &[
    &iperf3::Iperf3Responder,
    &irtt::IrttResponder,
    &stamp::StampResponder,
    &echo::EchoResponder,
    &quic_perf::QuicPerfResponder,
];
