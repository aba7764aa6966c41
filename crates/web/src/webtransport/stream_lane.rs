//! Stream of a session: messages with their lengths in front, and the work that they belong to.

use quinn_proto::{Connection, StreamId, VarInt, WriteError};

use super::stream::{StreamState, read, refuse};
use crate::work::{LONGEST, Work};
use deadheat_base::time::Nanos;

/// Bytes of the length before a message.
const LENGTH: usize = 4;

/// Most bytes that arrived and are not taken: two messages.
const MOST_HELD: usize = 2 * (LENGTH + LONGEST);

/// Code of a stream whose browser breaks the protocol.
const BROKEN: VarInt = VarInt::from_u32(1);

/// Stream with the work on it.
pub(super) struct StreamLane {
    stream: StreamId,
    work: Work,
    /// Bytes that arrived and were not taken.
    held: Vec<u8>,
    /// Message with its length that leaves, and the bytes of it that have left.
    leaving: Vec<u8>,
    left: usize,
    state: LaneState,
    /// Time until which nothing is read, for the rate of the trial.
    reads_from: Nanos,
}

/// State of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneState {
    Open,
    /// There is no room for the next bytes.
    Blocked,
    Closed,
}

impl StreamLane {
    pub(super) fn new(stream: StreamId, held: Vec<u8>, work: Work) -> StreamLane {
        let (leaving, state) = (Vec::new(), LaneState::Open);
        StreamLane { stream, work, held, leaving, left: 0, state, reads_from: Nanos::ZERO }
    }

    /// Takes all bytes that arrived, and sends while there is room; returns false once the stream is closed.
    pub(super) fn carry(&mut self, connection: &mut Connection, now: Nanos) -> bool {
        self.give(connection, now);
        self.reads_from = Nanos::ZERO;
        // While answers find no room, nothing is read: the browser's window fills, and it slows down.
        while self.state == LaneState::Open && !self.is_early(now) {
            let (before, room) = (self.held.len(), MOST_HELD - self.held.len());
            let state = read(connection, self.stream, room, &mut self.held);
            let has_more = self.held.len() > before;
            let has_taken = self.take(connection, now);
            if self.state != LaneState::Open {
                break;
            }
            match state {
                StreamState::Open if has_more || has_taken => {}
                StreamState::Open => break,
                StreamState::Ended if self.work.due().is_some() || self.is_early(now) => break,
                StreamState::Ended => self.finish(connection),
                StreamState::Reset => self.close(connection, VarInt::from_u32(0)),
            }
        }
        self.state != LaneState::Closed
    }

    /// Returns the time at which its trial must be over; `None` without one.
    pub(super) fn ends(&self) -> Option<Nanos> {
        self.work.ends()
    }

    pub(super) fn due(&self) -> Option<Nanos> {
        if self.state != LaneState::Open {
            return None;
        }
        let reads = Some(self.reads_from).filter(|from| *from > Nanos::ZERO);
        self.work.due().into_iter().chain(reads).min()
    }

    /// Returns true if nothing may be read yet, which is noted.
    fn is_early(&mut self, now: Nanos) -> bool {
        let from = self.work.reads_from();
        if from > now {
            self.reads_from = from;
        }
        from > now
    }

    /// Takes whole messages, and answers each before the next; returns true if there was one.
    fn take(&mut self, connection: &mut Connection, now: Nanos) -> bool {
        let mut at = 0;
        while self.state == LaneState::Open && !self.is_early(now) {
            let Some((length, rest)) = self.held[at..].split_first_chunk::<LENGTH>() else { break };
            let length = u32::from_be_bytes(*length) as usize;
            if length > LONGEST {
                self.close(connection, BROKEN);
                break;
            }
            let Some(message) = rest.get(..length) else { break };
            self.work.received(now, message);
            at += LENGTH + length;
            self.give(connection, now);
        }
        self.held.drain(..at);
        at > 0
    }

    /// Sends messages while there is room.
    fn give(&mut self, connection: &mut Connection, now: Nanos) {
        if self.state == LaneState::Closed {
            return;
        }
        self.state = LaneState::Open;
        loop {
            if self.left == self.leaving.len() {
                let Some(message) = self.work.next(now) else { break };
                self.left = 0;
                self.leaving.clear();
                self.leaving.extend_from_slice(&(message.len() as u32).to_be_bytes());
                self.leaving.extend_from_slice(&message);
            }
            match connection.send_stream(self.stream).write(&self.leaving[self.left..]) {
                Ok(taken) => self.left += taken,
                Err(WriteError::Blocked) => {
                    self.state = LaneState::Blocked;
                    return;
                }
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return self.close(connection, VarInt::from_u32(0));
                }
            }
        }
        if self.work.is_over() {
            self.finish(connection);
        }
    }

    /// Ends the stream behind the last message.
    fn finish(&mut self, connection: &mut Connection) {
        self.state = LaneState::Closed;
        // Both fail only for a direction that is gone.
        let _ = connection.send_stream(self.stream).finish();
        let _ = connection.recv_stream(self.stream).stop(VarInt::from_u32(0));
    }

    fn close(&mut self, connection: &mut Connection, code: VarInt) {
        self.state = LaneState::Closed;
        refuse(connection, self.stream, code);
    }
}
