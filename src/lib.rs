//! deadheat, the referee for network transports: it races TCP, UDP, ICMP and more under one
//! workload, on one path, with one statistic, and says who is ahead, that it is a dead heat, or
//! that it cannot tell yet.
//!
//! # A race in ten lines
//!
//! ```no_run
//! use deadheat::race::Race;
//!
//! fn main() -> deadheat::Result<()> {
//!     deadheat::trial::process::enter(); // both ends of a trial are fresh processes of this program
//!     let outcome = Race::new(["tcp", "udp"]).workload("ping:count=200").blocks(8).run()?;
//!     for verdict in &outcome.verdicts {
//!         println!("{}", verdict.note);
//!     }
//!     Ok(())
//! }
//! ```
pub mod cli;
pub mod contract;
pub mod datapath;
pub mod error;
pub mod figures;
pub mod path;
pub mod race;
pub mod report;
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
