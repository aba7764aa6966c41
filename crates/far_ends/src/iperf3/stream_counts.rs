//! Streams of a test, by direction.

use deadheat_contract::contract::Direction;
use deadheat_contract::workload::TaskInfo;

/// Numbers of the streams of a test. Where both directions run at once, those up come first, as iperf3 has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamCounts {
    /// Streams on which this end sends.
    pub(super) up: usize,
    /// Streams on which the server sends.
    pub(super) down: usize,
}

impl StreamCounts {
    /// Counts the streams of a work.
    pub(super) fn of(task: &TaskInfo) -> StreamCounts {
        let down = task.flows.iter().filter(|flow| **flow == Some(Direction::Down)).count();
        StreamCounts { up: task.flows.len() - down, down }
    }

    /// Returns the number that both directions have, if both run.
    pub(super) fn parallel(self) -> u64 {
        self.up.max(self.down).max(1) as u64
    }

    /// Returns the direction of the stream at a place.
    pub(super) fn way(self, place: usize) -> Direction {
        if place < self.up { Direction::Up } else { Direction::Down }
    }
}
