//! Trials, races, their results and the conclusions from them. This crate depends on contracts only: the program
//! hands in the transports and workloads.

pub mod advise;
pub mod analysis;
pub mod host;
pub mod import;
pub mod line;
pub mod map;
pub mod race;
pub mod registry;
pub mod result;
pub mod server;
pub mod study;
pub mod trial;

use deadheat_base::{error, figures, foreign, rng, spec, time, units};
use deadheat_contract::{contract, measurements, workload};
use deadheat_datapath::{datapath, transport};
use deadheat_path as path;
use deadheat_stats as stats;

#[cfg(test)]
use deadheat_everything as _;
