//! Observers of an emulated or simulated path: the request, and the observer of one direction of a link.
//!
//! Without an observer a packet costs one comparison. Where packets are observed, the thread that moves them copies
//! their beginnings into memory that was reserved before, and counts; files are written between trials.

use std::path::PathBuf;

use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use serde::{Deserialize, Serialize};

use self::log::PacketLog;
use self::wire::WireNotes;
use crate::impair::packet::{Departure, End};
use crate::measurements::WireFigures;

pub mod log;
pub mod pcapng;
mod wire;

/// Request to observe the packets of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// True if trains, gaps and acknowledgements are counted.
    pub wire: bool,
    /// File to which all packets are appended; `None` if they are not captured.
    pub capture: Option<Capture>,
}

/// Capture of the packets of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// File in the pcapng format, which exists already.
    pub file: PathBuf,
    /// Title of the trial, for a comment.
    pub title: String,
}

/// Packet at the entrance of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Hash of its flow.
    pub flow: u64,
    /// Length as an IP packet, in bytes.
    pub bytes: u32,
    /// True for a TCP segment that only acknowledges.
    pub is_ack: bool,
}

/// Observer of one direction of a link.
#[derive(Debug)]
pub struct Observer {
    wire: Option<WireNotes>,
    log: Option<PacketLog>,
}

impl Observer {
    /// Creates the observer of one of `ways` directions; `None` if nothing is to be observed.
    ///
    /// # Errors
    /// Fails if a histogram cannot be made.
    pub fn new(observation: &Observation, ways: usize) -> Result<Option<Box<Observer>>> {
        let wire = observation.wire.then(WireNotes::new).transpose()?;
        let log = observation.capture.as_ref().map(|_| PacketLog::new(ways));
        Ok((wire.is_some() || log.is_some()).then(|| Box::new(Observer { wire, log })))
    }

    /// Notes a packet that arrives.
    pub fn arrived(&mut self, now: Nanos, packet: Seen) {
        if let Some(wire) = &mut self.wire {
            wire.arrived(now.0, packet);
        }
    }

    /// Notes the departure of a packet. `head` appends its first bytes, from the IP header on.
    pub fn departed<H>(
        &mut self,
        departure: &Departure<H>,
        packet: Seen,
        head: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(wire) = &mut self.wire
            && matches!(departure.end, End::Delivered(_))
        {
            wire.departed(departure.at.0, packet);
        }
        if let Some(log) = &mut self.log {
            log.note(departure, packet.bytes, head);
        }
    }

    /// Notes the outcome, behind the channel, of the packets that were delivered since the last call.
    pub fn settle(&mut self, outcome: log::Outcome) {
        if let Some(log) = &mut self.log {
            log.settle(outcome);
        }
    }

    /// Notes packets that no memory was left for, and that never entered.
    pub fn refused(&mut self, packets: u64) {
        if let Some(log) = &mut self.log {
            log.refused += packets;
        }
    }

    /// Returns the histograms so far.
    pub fn wire(&self) -> Option<WireFigures> {
        self.wire.as_ref().map(WireNotes::figures)
    }

    /// Removes the packets noted so far.
    pub fn take_log(&mut self) -> Option<PacketLog> {
        self.log.take()
    }
}
