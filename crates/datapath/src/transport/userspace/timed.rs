//! A [`Protocol`] whose calls are timed, in the explaining pass ([`spent`]).

use super::protocol::Protocol;
use super::wrapped::{Around, Wrapped};
use crate::transport::spent::{self, Part};

/// Returns `protocol`, timed if this process times protocols.
pub(super) fn timed(protocol: Box<dyn Protocol>) -> Box<dyn Protocol> {
    if spent::is_on() { Box::new(Wrapped { around: Timed, protocol }) } else { protocol }
}

/// Layer that times the calls in which a protocol works. The other calls only read state.
struct Timed;

impl Around for Timed {
    fn within<T>(&mut self, call: impl FnOnce() -> T) -> T {
        spent::within(Part::Protocol, call)
    }

    fn outside<T>(call: impl FnOnce() -> T) -> T {
        spent::within(Part::Outside, call)
    }
}
