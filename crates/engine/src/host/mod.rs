//! Hosts: what decides how far a figure of one can be carried to another. Facts that are read once, what is
//! counted while a trial runs, and short measurements with bare sockets and none of our transports.
//!
//! | file | purpose |
//! |---|---|
//! | [`facts`] | kernel, CPUs, memory, settings of the network: what a result carries of a host |
//! | [`topology`], [`placement`] | the CPUs and who shares a core; where the two ends of a trial run |
//! | [`idle`] | idle CPUs kept awake, other programs put last |
//! | [`usage`], [`allocations`], [`process_tree`], [`counters`], [`cgroup`] | what a span of time cost, what the kernel counted, what a quota held back |
//! | [`probe`], [`timing`], [`noise`] | round trips, timers and identical things against each other, on this machine |
//! | [`block_probe`], [`quiet`] | the echo between blocks, and what it says of the host |
//! | [`doctor`], [`findings`] | how far this machine can be trusted, and what stands in the way |

pub mod allocations;
pub mod block_probe;
pub mod cgroup;
pub mod counters;
pub mod doctor;
pub mod facts;
pub mod findings;
pub mod idle;
pub mod noise;
pub mod placement;
pub mod probe;
pub mod process_tree;
pub mod quiet;
pub mod timing;
pub mod topology;
pub mod usage;
