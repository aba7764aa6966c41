//! Agent: the process at one end of a trial. It opens the connections, runs a driver loop per flow, samples and measures
//! meanwhile, and reports to the lead over control.

pub mod confine;
pub mod driver;
pub(super) mod effective;
mod hole;
pub mod intervals;
pub mod means;
mod meters;
mod parting;
pub(super) mod run;
pub mod samples;
pub(super) mod session;
mod shifted;
mod stand_in;
pub mod store;
mod stuck;
mod upkeep;
