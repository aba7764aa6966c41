//! Transports that are state machines: datagrams in, datagrams out, and time as an argument. Whoever
//! drives one decides what carries its datagrams and what time it is, so that the same code runs on
//! a simulated path in virtual time and, behind a [`Conn`] that owns a UDP socket, on a real one.

use super::{Conn, Progress};
use crate::contract::Side;
use crate::error::{Error, Result};
use crate::spec::Settings;
use crate::time::Nanos;

/// The bytes of a UDP header (RFC 768), which every datagram has in front of it.
pub const UDP_HEADER: u32 = 8;

/// Opens the ends of connections that need no socket.
pub trait Simulated: Sync {
    /// One end of a new connection, which is open already: setting one up takes no time here.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] where the knobs do not suit the path, with what would.
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Endpoint>>;
}

/// What an end has to know.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// Which end.
    pub side: Side,
    /// The contender's knobs.
    pub knobs: &'a Settings,
    /// The largest message in bytes.
    pub largest_message: usize,
    /// The largest IP packet of the path in bytes.
    pub mtu: u32,
    /// The bytes of an IP header: 20 (RFC 791) or 40 (RFC 8200).
    pub ip_header: u32,
}

/// One end of a connection as a state machine. The messages and bulk bytes of its user pass through
/// [`Conn`], which has no descriptor here and never waits; what [`Conn::next_deadline`] says is the
/// time at which [`Conn::on_deadline`] is due. No call allocates once warm.
pub trait Endpoint: Conn {
    /// A datagram arrived at `now`. What makes no sense is ignored.
    fn handle_datagram(&mut self, now: Nanos, datagram: &[u8]);

    /// Appends the next datagram that is to leave at `now` to `room`, or answers `Idle`.
    fn poll_transmit(&mut self, now: Nanos, room: &mut Vec<u8>) -> Progress;
}

/// Why a model cannot be dialled or listened for.
pub(super) fn virtual_only<T>(id: &str) -> Result<T> {
    Err(Error::usage(format!(
        "`{id}` is a model and exists in virtual time only; race it with --path sim:…"
    )))
}
