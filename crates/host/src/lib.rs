//! Hosts: facts that are read once, counters over a trial, and short measurements with bare sockets and without
//! transports. They decide how far a figure of one host can be carried to another.
//!
//! | file | purpose |
//! |---|---|
//! | [`facts`] | kernel, CPUs, memory, settings of the network: the facts of a host in a result |
//! | [`topology`], [`placement`] | the CPUs and their cores; where the two ends of a trial run |
//! | [`idle`] | idle CPUs stay awake, other programs run last |
//! | [`usage`], [`allocations`], [`process_tree`], [`counters`], [`cgroup`] | costs, kernel counters and throttling over a time |
//! | [`probe`], [`timing`], [`noise`] | round trips, timers and differences between identical runs, on this machine |
//! | [`block_probe`], [`settling`] | the echo between blocks; the wait for a calm host before the first |
//! | [`doctor`], [`findings`] | how far this machine can be trusted, and the obstacles |
//! | `folder_lock` | locks on folders that end with their process |

pub mod allocations;
pub mod block_probe;
pub mod cgroup;
pub mod counters;
pub mod doctor;
pub mod facts;
pub mod findings;
pub mod folder_lock;
pub mod idle;
pub mod noise;
pub mod placement;
pub mod probe;
pub mod process_tree;
pub mod settling;
pub mod timing;
pub mod topology;
pub mod usage;
