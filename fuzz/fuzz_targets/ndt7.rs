//! Bytes of an ndt7 server on its encrypted connection: the answer to the upgrade, frames of WebSocket, and measurements in
//! them. Nothing panics, and no message is larger than it may be. The first byte chooses the direction of the test.
#![no_main]

use deadheat::contract::Direction;
use deadheat::transport::application::MessageTerms;
use deadheat_far_ends::readers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let way = if choice & 1 == 0 { Direction::Up } else { Direction::Down };
    let (application, largest) = readers::ndt7(way);
    let mut terms = MessageTerms {
        name: "far.example".to_owned(),
        pin: None,
        authority: "far.example".to_owned(),
        resource: "/ndt/v7/download".to_owned(),
        subprotocol: "net.measurementlab.ndt.v7",
        largest,
        way,
        stops_after: None,
        application,
    };
    deadheat_transports::read_frames(&mut terms, bytes);
});
