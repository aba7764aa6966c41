//! A model of plain datagrams for simulated paths: each message is one UDP datagram, which arrives
//! whole or not at all. It is not the kernel's UDP: neither end spends any time on a message.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use super::simulated::{Endpoint, Opening, Simulated, UDP_HEADER, virtual_only};
use super::*;
use crate::contract::{Congestion, Delivery, Framing, Ordering};
use crate::figures::Headers;

/// The model.
pub(super) struct SimDatagram;

/// The largest message in bytes: what the length fields of UDP and IPv4 leave.
const LARGEST: u64 = 65_507;

/// What a sending socket holds in bytes, as Linux has it by default (`net.core.wmem_default`); here
/// headers and the kernel's own bookkeeping take nothing of it.
const SEND_BUFFER: usize = 212_992;

static INFO: Info = Info {
    id: "sim-datagram",
    label: "simulated datagrams",
    colour: "#8a6fae",
    implementation: "deadheat",
    summary: "a model of best-effort datagrams",
    guarantees: Guarantees {
        delivery: Delivery::BestEffort,
        ordering: Ordering::Unordered,
        framing: Framing::Messages,
        congestion: Congestion::Uncontrolled,
        encrypted: false,
        largest_message: Some(LARGEST),
    },
    peer: PeerKind::Process,
    reach: Reach::Process,
    framing_bytes: 0,
    options: &[],
    keys: &[],
};

impl Transport for SimDatagram {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn simulated(&self) -> Option<&dyn Simulated> {
        Some(self)
    }

    fn dial(&self, _dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        virtual_only(INFO.id)
    }

    fn listen(&self, _listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        virtual_only(INFO.id)
    }
}

impl Simulated for SimDatagram {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Endpoint>> {
        Ok(Box::new(Datagrams {
            outgoing: Line::default(),
            arrived: Line::default(),
            unsent: Vec::new(),
            calls: [0; 2],
            headers: Headers {
                ip_bytes: u64::from(opening.ip_header),
                transport_bytes: u64::from(UDP_HEADER),
                framing_bytes: 0,
                mtu: Some(u64::from(opening.mtu)),
                packets: None,
            },
        }))
    }
}

/// Messages that wait in line, and the memory of those that are gone.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl Line {
    fn push(&mut self, message: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(message);
        self.bytes += copy.len();
        self.waiting.push_back(copy);
    }

    /// Hands the next message to `take`; whether there was one.
    fn pop(&mut self, take: impl FnOnce(&[u8])) -> Progress {
        let Some(message) = self.waiting.pop_front() else { return Progress::Idle };
        self.bytes -= message.len();
        take(&message);
        self.spare.push(message);
        Progress::Moved
    }
}

/// One end.
struct Datagrams {
    /// The socket's buffer, which the interface empties.
    outgoing: Line,
    arrived: Line,
    /// A bulk message that is stamped and found no room; empty otherwise.
    unsent: Vec<u8>,
    /// That sent, and that received.
    calls: [u64; 2],
    headers: Headers,
}

impl Datagrams {
    fn offer(&mut self, message: &[u8]) -> Progress {
        self.calls[0] += 1;
        // A single message always fits, as an empty buffer takes any.
        if self.outgoing.bytes > 0 && self.outgoing.bytes + message.len() > SEND_BUFFER {
            return Progress::Idle;
        }
        self.outgoing.push(message);
        Progress::Moved
    }
}

impl Conn for Datagrams {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        lane_0_only(lane)?;
        if message.len() as u64 > LARGEST {
            let what = format!("a message of {} B; at most {LARGEST} B", message.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(self.offer(message))
    }

    fn receive(&mut self, _patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.calls[1] += 1;
        Ok(self.arrived.pop(|message| inbox.message(Lane(0), message)))
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let mut progress = Progress::Idle;
        while source.budget() > 0 {
            let mut message = std::mem::take(&mut self.unsent);
            if message.is_empty() {
                message.resize(source.message_size(), 0xA5);
                source.stamp(&mut message);
            }
            let offered = self.offer(&message);
            self.unsent = message;
            if offered == Progress::Idle {
                break;
            }
            source.accepted(self.unsent.len() as u64);
            self.unsent.clear();
            progress = Progress::Moved;
        }
        Ok(progress)
    }

    fn drain(&mut self, _patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        self.calls[1] += 1;
        Ok(self.arrived.pop(|message| sink.take(message)))
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn effective(&self) -> Effective {
        Effective::from([("sndbuf".to_owned(), SEND_BUFFER.to_string())])
    }

    fn stats(&self) -> ConnStats {
        ConnStats {
            send_calls: self.calls[0],
            receive_calls: self.calls[1],
            socket_drops: Some(0),
            headers: Some(self.headers),
            ..ConnStats::default()
        }
    }
}

impl Endpoint for Datagrams {
    fn handle_datagram(&mut self, _now: Nanos, datagram: &[u8]) {
        self.arrived.push(datagram);
    }

    fn poll_transmit(&mut self, _now: Nanos, room: &mut Vec<u8>) -> Progress {
        self.outgoing.pop(|message| room.extend_from_slice(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> Box<dyn Endpoint> {
        let knobs = Settings::default();
        let opening = Opening {
            side: crate::contract::Side::Near,
            knobs: &knobs,
            largest_message: 1_000,
            mtu: 1_500,
            ip_header: 20,
        };
        SimDatagram.open(&opening).unwrap()
    }

    #[test]
    fn what_is_sent_comes_out_once_and_in_order() {
        let (mut near, mut far) = (end(), end());
        for message in [b"one", b"two"] {
            assert_eq!(near.send(Lane(0), message).unwrap(), Progress::Moved);
        }
        let mut room = Vec::new();
        while near.poll_transmit(Nanos::ZERO, &mut room) == Progress::Moved {
            far.handle_datagram(Nanos::ZERO, &room);
            room.clear();
        }
        struct Kept(Vec<Vec<u8>>);
        impl Inbox for Kept {
            fn message(&mut self, _: Lane, bytes: &[u8]) {
                self.0.push(bytes.to_vec());
            }
        }
        let mut kept = Kept(Vec::new());
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
        assert_eq!(near.poll_transmit(Nanos::ZERO, &mut room), Progress::Moved);
        assert_eq!(near.send(Lane(0), &message).unwrap(), Progress::Moved);
        assert!(near.send(Lane(0), &[0; 65_508]).is_err());
    }
}
