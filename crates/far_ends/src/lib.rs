//! The far ends of others that deadheat races against: programs and protocols that exist already, one file or folder
//! each, with what it carries, what it counts, and what cannot be known from it.
//!
//! [`ALL`] is the list, which a program hands in. A new far end is a file and a line there. None names a transport or a
//! workload.

mod around;
mod blocks;
mod codec;
mod discard;
mod echo;
mod exchange;
mod host;
mod https;
mod iperf3;
mod irtt;
mod ndt7;
mod quicperf;
#[cfg(any(test, feature = "testing"))]
pub mod readers;
mod reflected;
pub mod responders;
mod stamp;
#[cfg(test)]
mod steps;

pub use https::{hpack, http2_frames as http2, wire as http3};

use deadheat_datapath::transport::far_end::FarEnd;

/// Every far end, in the order in which lists show them.
pub static ALL: &[&FarEnd] = &[
    &iperf3::FAR_END,
    &quicperf::FAR_END,
    &ndt7::FAR_END,
    &irtt::FAR_END,
    &stamp::FAR_END,
    &https::FAR_END,
    &echo::FAR_END,
    &discard::FAR_END,
    &host::FAR_END,
];

#[cfg(test)]
#[test]
fn a_far_end_that_counts_on_a_session_opens_one() {
    for end in ALL {
        let info = &end.info;
        assert_eq!(end.session.is_some(), info.peer.has_session(), "{}", info.id);
    }
}
