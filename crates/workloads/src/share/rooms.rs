//! Lanes of a connection that have no room, and the order in which parts are sent meanwhile.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Lane;

use super::parts::PartKind;

/// Time after which a part that found no room is tried again although another has something to send: a part that always
/// has room must not keep the others waiting.
const AGAIN: Nanos = Nanos::from_millis(1);

/// Room of each lane.
pub(crate) struct Rooms {
    /// Time since which each lane has had no room; `None` if it has some.
    full: Vec<Option<Nanos>>,
}

impl Rooms {
    /// Creates the room of `lanes` lanes, at least one.
    pub(crate) fn new(lanes: usize) -> Rooms {
        Rooms { full: vec![None; lanes] }
    }

    /// Returns the lane of a part.
    pub(crate) fn lane(&self, kind: PartKind) -> Lane {
        kind.lane(self.full.len())
    }

    /// Returns the rank of a part among those with something to send, the lowest first: live parts, then parts that
    /// have waited for room for a while, the longest first, then pictures, and last parts that have just found no room.
    pub(crate) fn rank(&self, kind: PartKind, now: Nanos) -> (u8, Nanos) {
        match self.full.get(usize::from(self.lane(kind).0)).copied().flatten() {
            None if kind == PartKind::Picture => (2, Nanos::ZERO),
            None => (0, Nanos::ZERO),
            Some(since) if now < since + AGAIN => (3, since),
            Some(since) => (1, since),
        }
    }

    /// Notes the time since which the lane of a part has had no room.
    pub(crate) fn note(&mut self, kind: PartKind, full: Option<Nanos>) {
        let lane = usize::from(self.lane(kind).0);
        if let Some(lane) = self.full.get_mut(lane) {
            *lane = full;
        }
    }
}
