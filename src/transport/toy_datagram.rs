//! Toy: each message in a datagram of its own, with a byte in front, to show what a protocol in user space takes.

use std::collections::VecDeque;
use std::io;

use super::userspace::{Counts, Opening, Protocol, State, Userspace};
use super::{Effective, Info};
use crate::contract::{Guarantees, Lane, PeerKind, Reach};
use crate::error::Result;
use crate::time::Nanos;

/// The toy.
#[derive(Clone, Copy)]
pub(super) struct ToyDatagram;

/// First byte of each datagram.
const MARK: u8 = 0x77;
/// The largest message in bytes, behind the mark.
const LARGEST: u64 = 65_506;
/// Messages that wait for the socket at most.
const MOST_WAITING: usize = 64;

static INFO: Info = Info {
    id: "toy-datagram",
    label: "toy datagrams",
    colour: "#8b4513",
    implementation: "deadheat",
    summary: "a byte in front of each message",
    guarantees: Guarantees { largest_message: Some(LARGEST), ..Guarantees::DATAGRAMS },
    peer: PeerKind::Process,
    reach: Reach::Network,
    framing_bytes: 1,
    options: &[],
    keys: &[],
};

impl Userspace for ToyDatagram {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, _opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        Ok(Box::new(Toy::default()))
    }
}

#[derive(Default)]
struct Toy {
    outgoing: VecDeque<Vec<u8>>,
    arrived: VecDeque<Vec<u8>>,
}

impl Protocol for Toy {
    fn state(&self) -> State {
        State::Open
    }

    fn handle(&mut self, _now: Nanos, datagram: &[u8]) {
        if let [MARK, message @ ..] = datagram {
            self.arrived.push_back(message.to_vec());
        }
    }

    fn transmit(&mut self, _now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<usize> {
        let message = self.outgoing.pop_front()?;
        batch.push(MARK);
        batch.extend_from_slice(&message);
        Some(message.len() + 1)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) {}

    fn room(&self, _lane: Lane) -> usize {
        if self.outgoing.len() < MOST_WAITING { LARGEST as usize } else { 0 }
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8]) -> io::Result<()> {
        self.outgoing.push_back(bytes.to_vec());
        Ok(())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        while let Some(message) = self.arrived.pop_front() {
            take(Lane(0), &message);
        }
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.outgoing.is_empty()
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn effective(&self) -> Effective {
        Effective::new()
    }
}
