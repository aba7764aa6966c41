//! Facts and records as a result has them: plain data, which trials and hosts fill and which results, imports and reports
//! read. Nothing here runs a process or asks a host.
//!
//! | module | contents |
//! |---|---|
//! | [`trial`] | record of a trial; facts of its path |
//! | [`samples`] | round trips of a trial, and the file of them |
//! | [`commands`] | files and reports of other people's programs |
//! | [`path`], [`probed`], [`connect`] | path that was built; path MTU that probes found; attempts to connect |
//! | [`parts`] | parts of a round trip |
//! | [`host`], [`placement`], [`idle`], [`quiet`] | facts of a host, the ends on its CPUs, whether idle CPUs may sleep, and how quiet it was |

pub mod commands;
pub mod connect;
pub mod host;
pub mod idle;
pub mod parts;
pub mod path;
pub mod placement;
pub mod probed;
pub mod quiet;
pub mod samples;
pub mod trial;
