//! Fall from one transport back on another, as a connection that prefers one saw it.

use serde::{Deserialize, Serialize};

/// Fall back: since when the second of two transports carries a connection, and what that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Reason.
    pub cause: FallbackCause,
    /// Time of the change since the connection was open, in nanoseconds; 0 at its start.
    pub at_ns: u64,
    /// Time that it took, in nanoseconds: from when the first was last heard; at the start, from when it was tried until the
    /// connection over the second was open.
    pub after_ns: u64,
    /// Messages that this end sent over the first since it was last heard.
    pub unheard: u64,
}

/// Reason to fall back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// No connection of the first could be opened.
    Start,
    /// Nothing came over it for too long.
    Silence,
    /// Its connection failed or ended.
    Broken,
    /// The peer fell back.
    Peer,
}
