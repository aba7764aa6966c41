//! Contract between the workloads, transports and trials of deadheat, without a socket and without a clock.
//!
//! | module | content |
//! |---|---|
//! | [`contract`] | guarantees and services, lanes, actions, sources and sinks of bytes |
//! | [`measurements`] | figures of a trial: distributions, ledgers, metrics and their names |
//! | [`workload`] | workloads: tasks, endpoints, and their common parts |
//! | [`recorded`] | contenders and far ends of a result, for its readers |
//! | [`label`] [`dscp`] | label of a contender; codepoints of the IP header |
//! | [`handed_in`] | registries that the program fills once, before anything else |
//! | [`buffer`] | buffers that are ready before the clock runs, and the generated content of bulk data |

pub mod buffer;
pub mod contract;
pub mod dscp;
pub mod handed_in;
pub mod label;
pub mod measurements;
pub mod recorded;
pub mod workload;
