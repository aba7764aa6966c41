//! deadheat, the referee for network transports.
pub mod cli;
pub mod contract;
pub mod datapath;
pub mod error;
pub mod figures;
pub mod race;
pub mod rng;
pub mod server;
pub mod spec;
pub mod stats;
pub mod time;
pub mod transport;
pub mod trial;
pub mod units;
pub mod workload;
pub use error::{Error, Result};
