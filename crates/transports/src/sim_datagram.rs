//! A model of plain datagrams for simulated paths: each message is one UDP datagram, which arrives
//! whole or not at all. It is not the kernel's UDP: neither end spends any time on a message.

use std::collections::VecDeque;
use std::io;

use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Guarantees, Lane, Reach};
use deadheat_datapath::transport::userspace::{
    Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat_datapath::transport::{Effective, Info, Progress};

/// The model.
#[derive(Clone, Copy)]
pub(super) struct SimDatagram;

/// Largest message in bytes, by the length fields of UDP and IPv4.
const LARGEST: u64 = 65_507;

/// Bytes of a sending socket's buffer, Linux's default (`net.core.wmem_default`); here headers and the kernel's
/// overhead take none of it.
const SEND_BUFFER: usize = 212_992;

static INFO: Info = Info {
    id: "sim-datagram",
    label: "simulated datagrams",
    colour: "#8a6fae",
    summary: "a model of best-effort datagrams",
    guarantees: Guarantees { largest_message: Some(LARGEST), ..Guarantees::DATAGRAMS },
    reach: Reach::Process,
    ..Info::IN_USER_SPACE
};

impl Userspace for SimDatagram {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, _opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        Ok(Box::new(SimDatagramEnd {
            outgoing: MessageQueue::default(),
            arrived: MessageQueue::default(),
        }))
    }
}

/// Queue of messages, with the memory of removed ones.
#[derive(Default)]
struct MessageQueue {
    waiting: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl MessageQueue {
    fn push(&mut self, message: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(message);
        self.bytes += copy.len();
        self.waiting.push_back(copy);
    }

    /// Passes the next message to `take`; returns `Idle` if there is none.
    fn pop(&mut self, take: impl FnOnce(&[u8])) -> Progress {
        let Some(message) = self.waiting.pop_front() else { return Progress::Idle };
        self.bytes -= message.len();
        take(&message);
        self.spare.push(message);
        Progress::Moved
    }
}

/// End of a connection.
struct SimDatagramEnd {
    /// Buffer of the socket, which the interface empties.
    outgoing: MessageQueue,
    arrived: MessageQueue,
}

impl Protocol for SimDatagramEnd {
    fn state(&self) -> State {
        State::Open
    }

    fn handle(&mut self, datagram: Received<'_>) {
        self.arrived.push(datagram.bytes);
    }

    fn transmit(&mut self, _now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        let from = batch.len();
        let moved = self.outgoing.pop(|message| batch.extend_from_slice(message));
        (moved == Progress::Moved).then(|| Transmit::plain(batch.len() - from))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) {}

    /// Returns room for at least one message, because an empty buffer takes any.
    fn room(&self, _lane: Lane) -> usize {
        match self.outgoing.bytes {
            0 => LARGEST as usize,
            waiting => SEND_BUFFER.saturating_sub(waiting),
        }
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.outgoing.push(bytes);
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        self.arrived.pop(|message| {
            take(Lane(0), message);
        });
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    /// Returns true: the interface empties the socket's buffer even if this end ends.
    fn is_drained(&self) -> bool {
        true
    }

    fn stats(&self) -> ProtocolStats {
        ProtocolStats::default()
    }

    fn effective(&self) -> Effective {
        Effective::from([("sndbuf".to_owned(), SEND_BUFFER.to_string())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Kept;
    use deadheat_base::spec::Settings;
    use deadheat_base::time::Manual;
    use deadheat_contract::contract::{Patience, Service, Side};
    use deadheat_datapath::transport::Conn;
    use deadheat_datapath::transport::hello::Token;
    use deadheat_datapath::transport::userspace::OverPath;

    fn end() -> OverPath {
        let knobs = Settings::default();
        let opening = Opening {
            side: Side::Near,
            token: Token::from_bytes([7; 16]),
            knobs: &knobs,
            lanes: &[Service::BEST_EFFORT],
            largest_message: 1_000,
            mtu: 1_500,
            ip_header: 20,
            tickets: &deadheat_datapath::transport::Tickets::default(),
        };
        OverPath::open(&SimDatagram, &opening, &Manual::default()).unwrap()
    }

    #[test]
    fn what_is_sent_comes_out_once_and_in_order() {
        let (mut near, mut far) = (end(), end());
        for message in [b"one", b"two"] {
            assert_eq!(near.send(Lane(0), message).unwrap(), Progress::Moved);
        }
        let mut room = Vec::new();
        while near.transmit(&mut room).is_some() {
            far.handle(Received::plain(Nanos::ZERO, &room));
            room.clear();
        }
        let mut kept = Kept::default();
        while far.receive(Patience::None, &mut kept).unwrap() == Progress::Moved {}
        assert_eq!(kept.0, [b"one", b"two"]);
    }

    #[test]
    fn a_full_buffer_holds_its_sender_back_until_a_datagram_has_left() {
        let mut near = end();
        let message = [0; 1_000];
        let taken = (0..1_000)
            .take_while(|_| near.send(Lane(0), &message).unwrap() == Progress::Moved)
            .count();
        assert_eq!(taken, SEND_BUFFER / 1_000);
        let mut room = Vec::new();
        assert!(near.transmit(&mut room).is_some());
        assert_eq!(near.send(Lane(0), &message).unwrap(), Progress::Moved);
        assert!(near.send(Lane(0), &[0; 65_508]).is_err());
    }
}
