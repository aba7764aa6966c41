//! Ends of a trial, and the two directions between them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// End of a trial, near or far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Near end: dials and, for round trips, measures the time.
    Near,
    /// Far end: listens.
    Far,
}

impl Side {
    /// Returns the other end.
    pub fn other(self) -> Side {
        match self {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        }
    }
}

/// Direction of application data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Up, from the near end to the far end.
    Up,
    /// Down, from the far end to the near end.
    Down,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Up => "up",
            Direction::Down => "down",
        })
    }
}
