//! Protocols in user space. Each is one file beside this folder that implements [`Userspace`] and returns
//! [`Protocol`]s, state machines without socket and clock. This module makes it a [`Transport`]: over the kernel's
//! UDP, and on a simulated path in virtual time.

use super::plain::PlainTransport;
use super::{Conn, Dial, Info, Listen, Listener, Transport};
use deadheat_base::error::Result;
use deadheat_base::spec::typed::Optional;
use deadheat_base::units::Bytes;

mod epoch;
mod held;
mod over_path;
pub mod over_udp;
pub mod parameters;
mod protocol;
mod ring;
mod round_trip;
mod serial;
mod session;
mod timed;
mod to_others;
mod too_large;
mod wrapped;

pub use crate::datapath::datagram::{Received, Transmit};
pub use epoch::Epoch;
pub use held::{LimitTimes, SendLimit};
pub use over_path::OverPath;
pub use protocol::{Opening, Protocol, ProtocolStats, Rest, State, UDP_HEADER, Userspace, nowhere};
pub use ring::{InOrder, Ring, SendBuffer};
pub use round_trip::RoundTrip;
pub use serial::Segments;
pub use to_others::dial_others;

pub use wrapped::{LayeredProtocol, ProtocolLayer};

/// Largest IP packet on equal terms: the MTU of Ethernet.
pub const EQUAL_MTU: &str = "1500B";

/// ECN of datagrams on equal terms: off, as in most deployments.
pub const EQUAL_ECN: &str = "off";

/// Key for the largest packet, for protocols that fill packets.
pub const MTU: Optional<Bytes> = Optional::size("mtu", (576, 65_535)).assumed(EQUAL_MTU).doc(
    "the largest IP packet; the path's where that is less; not typed: with --to the \
     largest that probes find",
);

/// Key for explicit congestion notification.
pub const ECN: Optional<bool> = Optional::switch("ecn")
    .assumed(EQUAL_ECN)
    .doc("marks packets as capable of congestion notification (RFC 3168), which queues mark instead of dropping, unless \
     the path clears the marks (RFC 9000, 13.4)");

impl<T: Userspace + Copy + Send + 'static> Transport for T {
    fn info(&self) -> &'static Info {
        Userspace::info(self)
    }

    fn check(&self) -> Result<()> {
        super::udp_handshake::check(Userspace::info(self).id)
    }

    fn userspace(&self) -> Option<&dyn Userspace> {
        Some(self)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Userspace::plain(self)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        over_udp::dial(self, dial)
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        over_udp::listen(Box::new(*self), listen)
    }
}
