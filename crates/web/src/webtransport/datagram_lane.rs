//! Datagrams of a session (RFC 9297), and the work that they belong to.

use bytes::Bytes;
use deadheat_far_ends::http3::{put_varint, varint};
use quinn_proto::{Connection, SendDatagramError, StreamId};
use serde_json::json;

use crate::work::Work;
use deadheat_base::time::Nanos;

/// Datagrams of a session with the work on them.
pub(super) struct DatagramLane {
    /// Quarter of the session's number, which begins each of them (RFC 9297, 2.1).
    quarter: u64,
    work: Work,
    /// Datagram that waits for room.
    leaving: Option<Bytes>,
    /// True once a message was too long for a datagram.
    is_broken: bool,
}

impl DatagramLane {
    pub(super) fn new(session: StreamId, work: Work) -> DatagramLane {
        DatagramLane { quarter: u64::from(session) / 4, work, leaving: None, is_broken: false }
    }

    /// Takes all datagrams that arrived, and sends while there is room.
    pub(super) fn carry(&mut self, connection: &mut Connection, now: Nanos) {
        self.give(connection, now);
        while let Some(datagram) = connection.datagrams().recv() {
            if let Some((quarter, len)) = varint(&datagram)
                && quarter == self.quarter
            {
                self.work.received(now, &datagram[len..]);
                self.give(connection, now);
            }
        }
    }

    /// Returns the time at which its trial must be over; `None` without one.
    pub(super) fn ends(&self) -> Option<Nanos> {
        self.work.ends().filter(|_| !self.is_broken)
    }

    pub(super) fn due(&self) -> Option<Nanos> {
        if self.leaving.is_none() && !self.is_broken { self.work.due() } else { None }
    }

    fn give(&mut self, connection: &mut Connection, now: Nanos) {
        while !self.is_broken {
            let next = self.leaving.take();
            let next = next.or_else(|| self.work.next(now).map(|message| self.datagram(&message)));
            let Some(datagram) = next else { return };
            match connection.datagrams().send(datagram, false) {
                Ok(()) => {}
                Err(SendDatagramError::Blocked(datagram)) => {
                    self.leaving = Some(datagram);
                    return;
                }
                Err(SendDatagramError::TooLarge) => {
                    self.is_broken = true;
                    let why =
                        json!({ "refused": "a message of this work is too long for a datagram" });
                    let refusal = self.datagram(why.to_string().as_bytes());
                    // If it is lost, too, the page waits in vain, as it does for all that is lost.
                    let _ = connection.datagrams().send(refusal, true);
                }
                Err(SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled) => {
                    self.is_broken = true;
                }
            }
        }
    }

    fn datagram(&self, message: &[u8]) -> Bytes {
        let mut datagram = Vec::with_capacity(8 + message.len());
        put_varint(&mut datagram, self.quarter);
        datagram.extend_from_slice(message);
        datagram.into()
    }
}
