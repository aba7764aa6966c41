//! Races, and what repeats races: studies, maps, advice, lines. This crate depends on contracts only: the program hands in
//! the transports and workloads.

pub mod advise;
pub mod line;
pub mod map;
pub mod race;
pub mod registry;
#[cfg(test)]
mod results;
pub mod study;

#[cfg(test)]
use deadheat_everything as _;
