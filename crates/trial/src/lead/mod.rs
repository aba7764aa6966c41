//! Lead of a trial: the process of the race. It starts the nodes of the trial's cast, takes them through the trial step
//! by step over their links, and makes one record of their reports.

pub mod agents;
pub(super) mod both_reports;
mod carriers;
mod cast;
mod clock_reading;
pub(super) mod conclude;
mod credible;
mod exchange;
pub mod far;
mod far_clock;
pub mod files;
mod foreign_clock;
mod joined;
pub mod link;
pub mod live;
pub mod load;
pub(super) mod nodes;
mod others;
pub mod pairing;
mod path_probe;
mod served;
mod served_pair;
mod stints;
