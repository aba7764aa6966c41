//! The two ends, and the two directions between them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the two ends of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The end that dials and, for round trips, holds the clock.
    Near,
    /// The end that listens.
    Far,
}

/// Which way application data travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the near end to the far end.
    Up,
    /// From the far end to the near end.
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
