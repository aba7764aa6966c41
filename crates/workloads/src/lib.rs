//! The work that deadheat gives to transports: one file per workload, both endpoints in it; no socket and no clock inside.
//!
//! A program registers the list, [`ALL`]. A new workload is a file here and a line in that list. No workload knows a
//! transport.

mod bulk;
mod cbr;
mod command;
mod connect;
mod draw;
mod events;
mod fanout;
mod inputs;
mod paced;
mod ping;
mod rpc;
mod session;
mod share;
mod silence;
mod state;
mod streams;
#[cfg(test)]
mod tests;
mod video;
mod voice;

use deadheat_contract::workload::Workload;

/// Every workload, in the order in which lists show them. The first is the default.
pub const ALL: &[&dyn Workload] = &[
    &ping::Ping,
    &bulk::Bulk,
    &cbr::Cbr,
    &connect::Connect,
    &streams::Streams,
    &state::State,
    &events::Events,
    &voice::Voice,
    &video::Video,
    &inputs::Inputs,
    &rpc::Rpc,
    &share::Share,
    &session::Meeting,
    &fanout::Fanout,
    &command::Command,
];
