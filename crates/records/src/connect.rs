//! Attempts to connect to the addresses of a host (RFC 8305).

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;

/// Attempt to connect to one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectAttempt {
    /// Address that was dialled.
    pub address: SocketAddr,
    /// Time from the start of the lookup to the start of the attempt, in nanoseconds.
    pub after_ns: u64,
    /// Time from then to its end, in nanoseconds.
    pub took_ns: u64,
    /// End of the attempt.
    pub end: AttemptEnd,
}

/// End of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It connected, before all others.
    Connected,
    /// It was cancelled, as another one had connected.
    Cancelled,
    /// Nothing came back within 5 s, after which an attempt is given up.
    Silent,
    /// It failed, with the system's error.
    Failed(String),
}

impl ConnectAttempt {
    /// Returns its end in words.
    pub fn words(&self) -> String {
        let took = Nanos(self.took_ns);
        match &self.end {
            AttemptEnd::Connected => format!("connected in {took}"),
            AttemptEnd::Cancelled => {
                format!("no answer in {took}, and cancelled when another address had connected")
            }
            AttemptEnd::Silent => format!("no answer in {took}"),
            AttemptEnd::Failed(error) => format!("failed after {took}: {error}"),
        }
    }
}
