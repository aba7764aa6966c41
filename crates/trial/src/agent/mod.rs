//! Agent: the process at one end of a trial. It opens the connections, runs a driver loop per flow, samples and measures
//! meanwhile, and reports to the lead over control.

pub mod confine;
pub(super) mod effective;
mod end;
pub(super) mod exchange;
mod hole;
mod kernel_sampler;
pub mod means;
mod parting;
pub(super) mod run;
pub(super) mod session;
mod shifted;
mod stand_in;
pub mod store;
mod stuck;
mod upkeep;

pub use deadheat_driver::{driver, intervals};

/// Environment variable that is set for agents.
pub(super) const AGENT: &str = "DEADHEAT_AGENT";
