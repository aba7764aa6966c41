//! Path MTU towards a far host, as probes found it, in both directions.

use serde::{Deserialize, Serialize};

use crate::contract::Side;

/// Path MTU in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// MTU that this host's kernel knew before the probes, in bytes.
    pub kernel_bytes: u32,
    /// Way to the far host.
    pub up: WayMtu,
    /// Way back.
    pub down: WayMtu,
}

/// Path MTU in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayMtu {
    /// Size of the largest IP packet that passes, in bytes.
    pub bytes: u32,
    /// Fate of larger packets.
    pub beyond: LargerPackets,
}

/// Fate of packets beyond the path MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LargerPackets {
    /// Unsent: the MTU of the near host's first link.
    Unsent,
    /// Announced: a router or a host on the way refuses them with a message (ICMP), or the kernel that would send them.
    Announced,
    /// Vanished: they are lost on the way, without a message.
    Vanish,
}

impl WayMtu {
    fn vanishes(self) -> bool {
        self.beyond == LargerPackets::Vanish
    }
}

impl PathMtu {
    /// Returns the size of the largest IP packet that passes in both directions, in bytes.
    pub fn bytes(&self) -> u32 {
        self.up.bytes.min(self.down.bytes)
    }

    /// Returns true if larger packets vanish without a message, in either direction.
    pub fn is_black_hole(&self) -> bool {
        self.up.vanishes() || self.down.vanishes()
    }

    /// Returns the size beyond which packets of the end `side` vanish; `None` if they do not.
    pub fn hole(&self, side: Side) -> Option<u32> {
        let way = if side == Side::Near { self.up } else { self.down };
        way.vanishes().then_some(way.bytes)
    }

    /// Describes how the smaller size of both directions is known.
    pub fn source(&self) -> &'static str {
        let narrow = if self.up.bytes <= self.down.bytes { self.up } else { self.down };
        match narrow.beyond {
            LargerPackets::Unsent => "the kernel, confirmed by probes",
            LargerPackets::Announced => "probes, announced by ICMP",
            LargerPackets::Vanish => "probes, larger ones vanish",
        }
    }

    /// Describes the black hole on the path to `host`, if there is one.
    pub fn black_hole(&self, host: &str) -> Option<String> {
        let (up, down) = (self.up.bytes, self.down.bytes);
        let what = match (self.up.vanishes(), self.down.vanishes()) {
            (false, false) => return None,
            (true, false) => format!("of more than {up} bytes vanish on the way to {host}"),
            (false, true) => {
                format!("of more than {down} bytes vanish on the way back from {host}")
            }
            (true, true) if up == down => {
                format!("of more than {up} bytes vanish on the way to {host} and back")
            }
            (true, true) => format!(
                "of more than {up} bytes vanish on the way to {host}, and of more than {down} bytes on the way back"
            ),
        };
        Some(format!("packets {what} (no ICMP): a black hole"))
    }
}
