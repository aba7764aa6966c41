//! Processes between or beside the two ends of a trial: the relay, the TURN client and server, and the keepers of
//! commands of others.

pub mod commands;
mod launched;
mod output;
pub(super) mod relay;
pub mod turn;
