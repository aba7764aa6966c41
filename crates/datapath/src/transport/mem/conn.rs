//! Both ends of a connection inside one process, and the messages on the way between them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use super::{Fate, Fates, LARGEST, ROOM, lock};
use crate::datapath::stamps::Stamps;
use crate::datapath::wait::Interest;
use crate::transport::bulk_message::BulkMessage;
use crate::transport::{Conn, ConnInfo, Effective, Progress, Readiness, unstamped};
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_contract::contract::{GUARD, Inbox, Lane, Patience, Sink, Source};
use deadheat_contract::measurements::ConnStats;

/// Kind of time, which decides whether waiting makes it pass.
#[derive(Debug, Clone)]
pub(super) enum Time {
    /// Real time, which passes by itself.
    Real,
    /// Virtual time, which a test moves.
    Virtual(Manual),
}

/// Treatment of a message that finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The message stays with the sender.
    Waits,
    /// The message is lost, and counted.
    Drops,
}

/// Direction of a connection.
#[derive(Debug, Default)]
struct Wire {
    state: Mutex<WireState>,
    changed: Condvar,
}

#[derive(Default)]
struct WireState {
    /// Messages under way, the earliest arrival first.
    on_the_way: BinaryHeap<Reverse<Flight>>,
    /// Memory of received messages, to use again.
    spare: Vec<Vec<u8>>,
    sent: u64,
    dropped: u64,
    finished: bool,
}

impl fmt::Debug for WireState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WireState({} on the way)", self.on_the_way.len())
    }
}

/// Message under way; messages that arrive at the same time stay in the order of sending.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Nanos,
    number: u64,
    bytes: Vec<u8>,
}

impl WireState {
    fn launch(&mut self, at: Nanos, bytes: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        let number = self.sent;
        self.on_the_way.push(Reverse(Flight { at, number, bytes: copy }));
    }

    fn land(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let due = self.on_the_way.peek().is_some_and(|flight| flight.0.at <= now);
        due.then(|| self.on_the_way.pop().map(|flight| flight.0.bytes)).flatten()
    }
}

/// End of a connection inside this process.
pub struct MemConn {
    time: Time,
    full: Full,
    fates: Fates,
    outgoing: Arc<Wire>,
    incoming: Arc<Wire>,
    /// Bulk data that is being sent.
    bulk: BulkMessage,
    send_calls: u64,
    receive_calls: u64,
}

impl fmt::Debug for MemConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemConn({:?}, {:?})", self.outgoing, self.incoming)
    }
}

/// Creates both ends of a connection.
pub(super) fn connect(time: Time, full: Full, up: Fates, down: Fates) -> (MemConn, MemConn) {
    let wires = [Arc::<Wire>::default(), Arc::<Wire>::default()];
    let end = |fates, outgoing: usize| MemConn {
        time: time.clone(),
        full,
        fates,
        outgoing: Arc::clone(&wires[outgoing]),
        incoming: Arc::clone(&wires[1 - outgoing]),
        bulk: BulkMessage::default(),
        send_calls: 0,
        receive_calls: 0,
    };
    (end(up, 0), end(down, 1))
}

impl MemConn {
    /// Returns the time at which the next message to this end arrives, in virtual time.
    pub fn next_arrival(&self) -> Option<Nanos> {
        lock(&self.incoming.state).on_the_way.peek().map(|flight| flight.0.at)
    }

    fn now(&self) -> Nanos {
        match &self.time {
            Time::Real => Nanos::ZERO,
            Time::Virtual(clock) => clock.now(),
        }
    }

    /// Waits, at most [`GUARD`], while `idle` holds. In virtual time waiting changes nothing.
    fn wait<'a>(
        &self,
        wire: &'a Wire,
        patience: Patience,
        mut idle: impl FnMut(&WireState) -> bool,
    ) -> MutexGuard<'a, WireState> {
        let mut state = lock(&wire.state);
        if patience == Patience::None || matches!(self.time, Time::Virtual(_)) {
            return state;
        }
        let deadline = Instant::now() + Duration::from(GUARD);
        while idle(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = wire.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn deliver(&mut self, patience: Patience, message: &[u8]) -> Progress {
        self.send_calls += 1;
        let now = self.now();
        let wire = Arc::clone(&self.outgoing);
        let patience = if self.full == Full::Drops { Patience::None } else { patience };
        let mut state = self.wait(&wire, patience, |state| state.on_the_way.len() >= ROOM);
        if state.on_the_way.len() >= ROOM {
            if self.full == Full::Waits {
                return Progress::Idle;
            }
            state.dropped += 1;
        } else {
            match (self.fates)(state.sent) {
                Fate::Lost => {}
                Fate::After(delay) => state.launch(now + delay, message),
                Fate::Twice(first, second) => {
                    state.launch(now + first, message);
                    state.launch(now + second, message);
                }
            }
        }
        state.sent += 1;
        wire.changed.notify_all();
        Progress::Moved
    }

    /// Takes the next message that is due, and hands it to `take` with no lock held.
    fn collect(&mut self, patience: Patience, take: impl FnOnce(&[u8])) -> Progress {
        self.receive_calls += 1;
        let now = self.now();
        let wire = Arc::clone(&self.incoming);
        let empty = |state: &WireState| state.on_the_way.is_empty() && !state.finished;
        let mut state = self.wait(&wire, patience, empty);
        let Some(bytes) = state.land(now) else {
            let over = state.finished && state.on_the_way.is_empty();
            return if over { Progress::Closed } else { Progress::Idle };
        };
        drop(state);
        take(&bytes);
        lock(&wire.state).spare.push(bytes);
        wire.changed.notify_all();
        Progress::Moved
    }
}

impl Conn for MemConn {
    fn readiness(&self) -> Readiness<'_> {
        Readiness { fd: None, room: Interest::ReadWrite, has_backlog: false }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn send(&mut self, _lane: Lane, message: &[u8]) -> io::Result<Progress> {
        if message.len() as u64 > LARGEST {
            let what = format!("a message of {} B; at most {LARGEST} B", message.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(self.deliver(Patience::None, message))
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        Ok(self.collect(patience, |bytes| inbox.message(Lane::default(), bytes)))
    }

    /// Does nothing, since there is no backlog.
    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Moved)
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let mut bulk = std::mem::take(&mut self.bulk);
        let pumped = bulk.pump(source, |message| Ok(self.deliver(Patience::Block, message)));
        self.bulk = bulk;
        pumped
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        Ok(self.collect(patience, |bytes| sink.take(bytes)))
    }

    fn finish(&mut self) -> io::Result<()> {
        lock(&self.outgoing.state).finished = true;
        self.outgoing.changed.notify_all();
        Ok(())
    }

    /// Returns true: the peer acknowledges nothing.
    fn is_drained(&self) -> bool {
        true
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        Effective::new()
    }

    fn info(&self) -> ConnInfo {
        ConnInfo::counted(ConnStats {
            send_calls: self.send_calls,
            receive_calls: self.receive_calls,
            socket_drops: Some(lock(&self.incoming.state).dropped),
            ..ConnStats::default()
        })
    }
}

impl Drop for MemConn {
    /// Ends the direction, so that the peer sees the end as with a closed socket.
    fn drop(&mut self) {
        lock(&self.outgoing.state).finished = true;
        self.outgoing.changed.notify_all();
    }
}
