//! End of a flow after its endpoint is done: the peer acknowledges the rest.

use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Nanos};
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::option;
use deadheat_datapath::datapath::wait::{Interest, SPIN_WINDOW, Waiter};
use deadheat_datapath::transport::{Conn, Progress};

use super::{Flow, Turns, failed};

/// Longest time that a flow, after its endpoint is done, waits for the peer to acknowledge more data. A protocol in
/// user space ends with the flow, and the kernel's counters are not final before the last acknowledgement. A live peer
/// answers much sooner.
const LINGER: Nanos = Nanos::from_secs(3);

/// Shortest and longest time between two looks at the acknowledged bytes, if no arrival shows them.
const LOOK_AGAIN: [Nanos; 2] = [Nanos::from_micros(50), Nanos::from_millis(1)];

impl Turns {
    /// Returns true if a flow may end after its endpoint is done: no data that it sent still depends on it, or it has
    /// waited for long enough.
    pub fn may_part<C: Conn + ?Sized>(&mut self, conn: &C) -> bool {
        let acknowledged = || conn.info().view.and_then(|view| view.bytes_acked);
        let Some(since) = self.done_since else {
            (self.done_since, self.acknowledged) = (Some(self.now), acknowledged());
            // The peer waits for this end's acknowledgements as well.
            for socket in conn.sockets() {
                let _ = option::acknowledge_now(socket);
            }
            return conn.is_drained();
        };
        if conn.is_drained() {
            return true;
        }
        if self.now - since < LINGER || conn.readiness().has_backlog {
            return false;
        }
        // A queue that empties slowly does not mean that the peer is gone.
        let before = std::mem::replace(&mut self.acknowledged, acknowledged());
        self.done_since = Some(self.now);
        self.acknowledged <= before
    }

    /// Returns the time since the endpoint was done, or since the peer last acknowledged more.
    pub(super) fn done_for(&self) -> Nanos {
        self.now - self.done_since.unwrap_or(self.now)
    }
}

impl<C: Conn + ?Sized> Flow<C> {
    /// Waits for the peer to acknowledge more: for an arrival that shows it or, because a kernel handles
    /// acknowledgements of its own protocols silently, for a part of the time `done_for` which this end has waited.
    fn await_acknowledgement(
        &mut self,
        done_for: Nanos,
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<()> {
        if self.conn.readiness().room == Interest::Read {
            return self.await_room(None, clock, waiter);
        }
        let [shortest, longest] = LOOK_AGAIN;
        let nap = Nanos(done_for.0 / 4).clamp(shortest, longest);
        // A wait sleeps until this long before its end, and would spend the rest polling.
        let latest = clock.now() + nap + SPIN_WINDOW;
        let until = self.conn.next_deadline().map_or(latest, |due| due.min(latest));
        waiter
            .wait(clock, None, Some(until), Interest::Read)
            .map_err(|e| failed("wait for acknowledgements", e))?;
        Ok(())
    }

    /// Sends the rest of the last message that a byte stream has buffered, and keeps a connection running until its
    /// last acknowledgement.
    pub(super) fn send_the_rest(
        &mut self,
        done_for: Nanos,
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<()> {
        let flushed = if self.conn.readiness().has_backlog {
            self.conn.flush().map_err(|e| failed("send", e))?
        } else {
            Progress::Moved
        };
        if flushed == Progress::Idle {
            self.await_room(None, clock, waiter)?;
            self.receive(Patience::None, clock)?;
        } else if !self.conn.is_drained() {
            self.await_acknowledgement(done_for, clock, waiter)?;
            let now = clock.now();
            self.conn.on_deadline(now).map_err(|e| failed("end the connection", e))?;
        }
        Ok(())
    }
}
