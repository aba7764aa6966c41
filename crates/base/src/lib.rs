#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | content |
//! |---|---|
//! | [`units`], [`mod@time`] | sizes, rates and shares as typed and as newtypes; `Nanos` and clocks |
//! | [`clocks`] | the clocks of two hosts: a map between them, and the state of one host's |
//! | [`error`], [`foreign`] | errors by the party that must act; text of peers and files, cleaned for display |
//! | [`figures`] | measured shares, ratios and their intervals in words |
//! | [`spec`] | the grammar `NAME:key=value,…`, and typed access to it |
//! | [`ends`] | the two ends, and the two directions |
//! | [`distribution`], [`moments`] | the summary of a sample of times, and its computation |
//! | [`rng`] | fresh seeds, and SplitMix64 |
//! | [`waiting`], [`bell`], [`cpu`], [`memory`] | when to sleep and when to poll the clock; how to wake a thread; CPUs; pages |
//! | [`process`] | helper processes of this program, and threads |
//! | [`panics`] | panics of other people's code as errors |
//! | [`origins`] | the origin of a client, and its share of places that are few |
//! | [`ports`] | sockets of this host that listen |
//! | [`json`] | JSON in a line, and as text for people |
//! | [`frame`], [`descriptor`] | messages and descriptors between processes |
//! | [`cmsg`] | control messages beside data |
//! | [`checksum`], [`ecn`] | the Internet checksum; codepoints of congestion notification |

pub mod bell;
pub mod checksum;
pub mod clocks;
pub mod cmsg;
pub mod cpu;
pub mod descriptor;
pub mod distribution;
pub mod ecn;
pub mod ends;
pub mod error;
pub mod figures;
pub mod foreign;
pub mod frame;
pub mod json;
pub mod memory;
pub mod moments;
pub mod origins;
pub mod panics;
pub mod ports;
pub mod process;
pub mod rng;
pub mod spec;
pub mod time;
pub mod units;
pub mod unset;
pub mod waiting;

pub use error::{Error, Result};
