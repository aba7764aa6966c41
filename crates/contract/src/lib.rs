//! What workloads, transports and trials of deadheat promise each other, without a socket and without a clock.
//!
//! | module | what it is |
//! |---|---|
//! | [`contract`] | guarantees and services, lanes, actions, sources and sinks of bytes |
//! | [`measurements`] | what a trial yields: distributions, ledgers, metrics and their names |
//! | [`workload`] | what a workload is: tasks, endpoints, and what all of them share |
//! | [`handed_in`] | lists that the program fills once, before anything else |
//! | [`buffer`] | buffers that are ready before the clock runs, and the made-up content of bulk data |

pub mod buffer;
pub mod contract;
pub mod handed_in;
pub mod measurements;
pub mod workload;

use deadheat_base::{error, spec, time, units};
use deadheat_path as path;
use deadheat_stats as stats;
