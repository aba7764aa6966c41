//! A [`Protocol`] with timed calls, in the explaining pass ([`spent`]).

use super::protocol::Protocol;
use super::wrapped::{LayeredProtocol, ProtocolLayer};
use crate::transport::spent::{self, TimedPart};

/// Returns `protocol`, timed if this process times protocols.
pub(super) fn timed(protocol: Box<dyn Protocol>) -> Box<dyn Protocol> {
    if spent::is_on() {
        Box::new(LayeredProtocol { around: TimedCalls, protocol })
    } else {
        protocol
    }
}

/// Layer that times the calls in which a protocol works. The other calls only read state.
struct TimedCalls;

impl ProtocolLayer for TimedCalls {
    fn within<T>(&mut self, call: impl FnOnce() -> T) -> T {
        spent::within(TimedPart::Protocol, call)
    }

    fn outside<T>(call: impl FnOnce() -> T) -> T {
        spent::within(TimedPart::Outside, call)
    }
}
