//! Fallback from one transport to another, on a connection that prefers one of them.

use serde::{Deserialize, Serialize};

/// Fallback: time and cost of the change to the second of two transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Reason of the fallback.
    pub cause: FallbackCause,
    /// Time of the change since the connection was open, in nanoseconds; 0 at its start.
    pub at_ns: u64,
    /// Duration in nanoseconds, from the last arrival over the first transport; at the start, from the first attempt
    /// until the connection over the second was open.
    pub after_ns: u64,
    /// Messages that this end sent over the first transport since its last arrival.
    pub unheard: u64,
}

/// Reason to fall back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// No connection of the first transport could be opened.
    Start,
    /// No arrivals over the first transport for too long.
    Silence,
    /// The connection of the first transport failed or ended.
    Broken,
    /// The peer fell back.
    Peer,
}
