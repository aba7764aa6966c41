//! Connections of a flow after its first, for work that uses several, one after the other.

use std::io;
use std::sync::mpsc::Receiver;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Nanos};
use deadheat_contract::contract::Patience;
use deadheat_contract::measurements::ConnStats;
use deadheat_contract::workload::FlowEvent;
use deadheat_datapath::transport::{Conn, ConnInfo};

use super::Flow;

/// Source of the connections after a flow's first.
pub enum Further<C: ?Sized> {
    /// No further connections.
    None,
    /// This end dials when the endpoint asks for a connection.
    Dial(Box<dyn FnMut() -> Result<Box<C>> + Send>),
    /// This end accepts connections, each of which ends the one before. The flow's [`Signal`](super::Signal) announces
    /// them.
    Accept(Receiver<Box<C>>),
}

impl<C: Conn + ?Sized> Flow<C> {
    /// Closes the connection and opens the next.
    pub(super) fn open(&mut self, clock: &impl Clock) -> Result<()> {
        match &mut self.further {
            Further::Dial(dial) => {
                let next = dial()?;
                self.go_on_with(next, clock);
                Ok(())
            }
            Further::None | Further::Accept(_) => Err(no_dialling()),
        }
    }

    /// Switches to the newest connection that arrived, if any.
    #[cold]
    pub(super) fn take_what_came_in(&mut self, clock: &impl Clock) -> Result<()> {
        if let Further::Accept(came_in) = &self.further
            && let Some(newest) = came_in.try_iter().last()
        {
            self.go_on_with(newest, clock);
            // Data that arrived with the end of the handshake makes no descriptor readable.
            self.receive(Patience::None, clock)?;
        }
        Ok(())
    }

    fn go_on_with(&mut self, next: Box<C>, clock: &impl Clock) {
        self.leave_for(next);
        self.goes_on(clock);
    }

    /// Replaces the connection by the next, which may still be in its handshake.
    pub fn leave_for(&mut self, next: Box<C>) {
        self.past = Some(self.stats());
        self.conn = next;
        self.is_closed = false;
    }

    /// Informs the endpoint that the next connection is open.
    pub fn goes_on(&mut self, clock: &impl Clock) {
        let set_up = Nanos(self.conn.info().stats.connect_ns);
        self.half.on_event(clock.now(), FlowEvent::Opened { set_up });
    }

    /// Returns the counters of all its connections.
    pub fn stats(&self) -> ConnStats {
        self.info().stats
    }

    /// Returns the counters of all its connections, and the state of the current one.
    pub(super) fn info(&self) -> ConnInfo {
        let mut info = self.conn.info();
        if let Some(past) = &self.past {
            info.stats.add(past);
        }
        info
    }
}

fn no_dialling() -> Error {
    Error::setup("open a connection", io::Error::other("this flow dials none (a defect)"))
}
