//! deadheat, the referee for network transports: it races TCP, UDP, ICMP and more under one
//! workload, on one path, with one statistic, and reports which contender is ahead, that it is a dead heat, or
//! that the data cannot decide yet.
//!
//! # A race in ten lines
//!
//! ```standalone_crate
//! use deadheat::race::Race;
//!
//! fn main() -> deadheat::Result<()> {
//!     deadheat::Program::new().enter()?; // both ends of a trial are fresh processes of this program
//!     let outcome = Race::new(["tcp", "udp"]).workload("ping:count=100").blocks(6).run()?;
//!     for verdict in &outcome.verdicts {
//! println!("{}", verdict.note); // the contender that is ahead, a dead heat, or how many more blocks
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Where things are
//!
//! In reading order; `ARCHITECTURE.md` follows one race from here to the system call that sends.
//!
//! | module | content |
//! |---|---|
//! | [`race`] | a request, blocks, looks: start here |
//! | [`analysis`], [`result`] | conclusions from the trials; the result file, written and read again |
//! | [`trial`] | one contender once: two agent processes, the driver loop |
//! | [`host`] | facts of a host, where the ends run on it, and how far it can be trusted |
//! | [`transport`], [`workload`] | how bytes travel; the traffic that they carry. Neither knows the other |
//! | [`contract`], [`measurements`], [`spec`] | the terms they share: promises and actions, measurements of a trial,
//! `NAME:key=value` |
//! | [`datapath`] | system calls at the limit, and waiting |
//! | [`stats`] | from one figure per trial to a verdict; pure |
//! | [`study`] | races of one question as a file: published figures beside measured ones, claims judged |
//! | [`advise`] | transports for an application, ranked by races |
//! | [`map`] | the leader at each point of a grid over keys of a path; a race at each point |
//! | [`mod@line`] | what a line to another host is worth, in a minute |
//! | [`import`] | results of other tools, under the same statistics and reports |
//! | [`report`] | a saved race as text or as a page; computes nothing |
//! | [`server`], [`cli`] | `deadheat serve`, and the command line |
//! | [`foreign`] | text of peers and files, cleaned on its way to a terminal, a log or a page |
//! | [`path`], [`units`], [`figures`], [`mod@time`], [`rng`], [`error`] | the small things |
pub mod cli;
mod program;

pub use deadheat_base::{error, figures, foreign, rng, spec, time, units};
pub use deadheat_contract::{contract, label, measurements, recorded, workload};
pub use deadheat_datapath::{datapath, transport};
pub use deadheat_host as host;
pub use deadheat_import as import;
pub use deadheat_path as path;
pub use deadheat_race::{advise, line, map, race, study};
pub use deadheat_records as records;
pub use deadheat_report as report;
pub use deadheat_result::{self as result, analysis};
pub use deadheat_server as server;
pub use deadheat_stats as stats;
pub use deadheat_trial as trial;
pub use error::{Error, Result};
pub use program::Program;

#[cfg(test)]
extern crate self as deadheat;
#[cfg(test)]
#[path = "../tests/common/handed_in.rs"]
mod handed_in;
