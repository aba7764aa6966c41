//! Tests that need every workload in the list: of contracts, and of the load beside work.

mod list;
mod load;
mod phased;
pub(crate) mod shelf;
mod traffic;

use deadheat_everything as _;
