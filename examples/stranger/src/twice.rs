//! A transport: datagrams that are sent twice, some time apart, so that one loss costs nothing. Each has a number, and
//! its second copy is dropped at the far end.
//!
//! ```text
//! 0        4
//! +--------+--------------
//! | number | message          big-endian; both copies have the same
//! +--------+--------------
//! ```

use std::collections::VecDeque;
use std::io;

use deadheat::Result;
use deadheat::contract::{Guarantees, Lane};
use deadheat::spec::Key;
use deadheat::spec::typed::{Optional, Preset};
use deadheat::time::Nanos;
use deadheat::transport::userspace::{
    Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat::transport::{Effective, Info};
use deadheat::workload::header::{Arrival, SeqWindow};

/// The transport. It implements [`Userspace`], so it runs over UDP and in virtual time.
#[derive(Clone, Copy)]
pub(crate) struct Twice;

/// Bytes of the number in front of each message.
const HEADER: usize = 4;

/// The largest message in bytes.
const LARGEST: usize = 1_200;

/// Maximum number of bytes in the queue.
const SEND_BUFFER: usize = 200_000;

const APART: Preset<Nanos> = Optional::span("apart", (0, 1_000_000_000))
    .or("5ms")
    .doc("the time between a message and its copy");

const KEYS: &[Key] = &[APART.key()];

static INFO: Info = Info {
    id: "twice",
    label: "datagrams, twice",
    colour: "#3f7f5f",
    implementation: concat!("stranger ", env!("CARGO_PKG_VERSION")),
    summary: "datagrams that are sent twice, so that one loss costs nothing",
    guarantees: Guarantees { largest_message: Some(LARGEST as u64), ..Guarantees::DATAGRAMS },
    keys: KEYS,
    ..Info::IN_USER_SPACE
};

impl Userspace for Twice {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        opening.payload(INFO.id, (HEADER + LARGEST) as u32)?;
        Ok(Box::new(TwiceEnd {
            apart: opening.knobs.get(&APART),
            next: 0,
            waiting: VecDeque::new(),
            copies: VecDeque::new(),
            bytes: 0,
            sent: 0,
            resent: 0,
            seen: SeqWindow::new(),
            arrived: VecDeque::new(),
        }))
    }
}

/// An end of a connection.
struct TwiceEnd {
    apart: Nanos,
    /// Number of the next message.
    next: u32,
    /// Datagrams that are due now.
    waiting: VecDeque<Vec<u8>>,
    /// Copies with the time at which they leave.
    copies: VecDeque<(Nanos, Vec<u8>)>,
    /// Bytes of messages that have not left for the first time.
    bytes: usize,
    sent: u64,
    resent: u64,
    seen: SeqWindow,
    arrived: VecDeque<Vec<u8>>,
}

impl Protocol for TwiceEnd {
    fn state(&self) -> State {
        State::Open
    }

    fn handle(&mut self, datagram: Received<'_>) {
        let Some((number, message)) = datagram.bytes.split_first_chunk::<HEADER>() else { return };
        if self.seen.note(u32::from_be_bytes(*number).into()) != Arrival::Duplicate {
            self.arrived.push_back(message.to_vec());
        }
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(datagram) = self.waiting.pop_front() {
            batch.extend_from_slice(&datagram);
            self.bytes -= datagram.len();
            self.sent += 1;
            let len = datagram.len();
            self.copies.push_back((now + self.apart, datagram));
            return Some(Transmit::plain(len));
        }
        if self.copies.front().is_none_or(|(due, _)| *due > now) {
            return None;
        }
        let (_, datagram) = self.copies.pop_front()?;
        batch.extend_from_slice(&datagram);
        self.resent += 1;
        Some(Transmit::plain(datagram.len()))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.copies.front().map(|(due, _)| *due)
    }

    /// Does nothing: the adapter asks for datagrams afterwards.
    fn on_deadline(&mut self, _now: Nanos) {}

    fn room(&self, _lane: Lane) -> usize {
        SEND_BUFFER.saturating_sub(self.bytes)
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        let datagram = [&self.next.to_be_bytes(), bytes].concat();
        self.next = self.next.wrapping_add(1);
        self.bytes += datagram.len();
        self.waiting.push_back(datagram);
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        for message in self.arrived.drain(..) {
            take(Lane(0), &message);
        }
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    /// Returns true once every copy has left; the peer does not acknowledge messages.
    fn is_drained(&self) -> bool {
        self.waiting.is_empty() && self.copies.is_empty()
    }

    fn stats(&self) -> ProtocolStats {
        ProtocolStats::of(self.sent, self.resent, HEADER as u64)
    }

    fn effective(&self) -> Effective {
        Effective::from([("apart".to_owned(), self.apart.to_string())])
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_keeps_what_it_promises() {
        deadheat_conformance::hold(deadheat::Program::new().transport(&super::Twice), &["twice"]);
    }
}
