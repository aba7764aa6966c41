//! Placeholder while the statistics are written elsewhere.
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ahead,
    DeadHeat,
    Undecided,
}
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    pub blocks: usize,
    pub alpha: f64,
}
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    pub centre: f64,
    pub share: f64,
    pub count: usize,
}
