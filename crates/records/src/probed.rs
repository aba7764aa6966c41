//! Path to a far host as probes found it, in the form of results.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use deadheat_contract::measurements::path_mtu::PathMtu;

/// Path to one far host, as probes found it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedPath {
    /// Name of the host as typed after `--to`.
    pub host: String,
    /// Path MTU; absent if it is unknown.
    pub mtu: Option<PathMtu>,
    /// Reason why it is unknown.
    pub unknown: Option<UnknownMtu>,
}

/// Reason why a path MTU is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownMtu {
    /// Server that is older than the probes.
    OldServer,
    /// Server that refused the probes.
    Refused,
    /// Path that fell silent amid the probes.
    Silent,
    /// UDP that does not get through.
    UdpBlocked,
    /// Relay at a third host on the way, which probes do not take.
    Relay,
    /// TURN server on the way, behind which the server of the race answers no probes.
    Turn,
}

impl UnknownMtu {
    /// Describes it, as the rest of a sentence about a path that was not probed.
    pub fn words(self) -> &'static str {
        match self {
            UnknownMtu::OldServer => "its server is of a version that answers no probes",
            UnknownMtu::Refused => "its server refused the probes, as its log says",
            UnknownMtu::Silent => "it fell silent meanwhile",
            UnknownMtu::UdpBlocked => "UDP does not get through",
            UnknownMtu::Relay => "probes do not go through a relay at a third host",
            UnknownMtu::Turn => "probes do not go through a TURN server",
        }
    }
}
