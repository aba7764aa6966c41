//! The connections of a flow after its first, where its work asks for several, one after the other.

use std::io;
use std::sync::mpsc::Receiver;

use crate::contract::Patience;
use crate::error::{Error, Result};
use crate::measurements::ConnStats;
use crate::time::{Clock, Nanos};
use crate::transport::{Conn, ConnInfo};
use crate::workload::FlowEvent;

use super::Flow;

/// Source of the connections after a flow's first.
pub enum Further<C: ?Sized> {
    /// There are none.
    None,
    /// This end dials, when the endpoint asks for one.
    Dial(Box<dyn FnMut() -> Result<Box<C>> + Send>),
    /// Connections come in, and each ends the one before. The flow's [`Signal`](super::Signal) says when.
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

    /// Goes on with the newest connection that came in, if one did.
    #[cold]
    pub(super) fn take_what_came_in(&mut self, clock: &impl Clock) -> Result<()> {
        if let Further::Accept(came_in) = &self.further
            && let Some(newest) = came_in.try_iter().last()
        {
            self.go_on_with(newest, clock);
            // What came with the end of the handshake shows on no descriptor any more.
            self.receive(Patience::None, clock)?;
        }
        Ok(())
    }

    fn go_on_with(&mut self, next: Box<C>, clock: &impl Clock) {
        self.leave_for(next);
        self.goes_on(clock);
    }

    /// Leaves the connection for the next, which may still be in its handshake.
    pub(in crate::trial) fn leave_for(&mut self, next: Box<C>) {
        self.past = Some(self.stats());
        self.conn = next;
        self.is_closed = false;
    }

    /// Tells the endpoint that the next connection is open.
    pub(in crate::trial) fn goes_on(&mut self, clock: &impl Clock) {
        let set_up = Nanos(self.conn.info().stats.connect_ns);
        self.half.on_event(clock.now(), FlowEvent::Opened { set_up });
    }

    /// Returns the counters of all its connections.
    pub(in crate::trial) fn stats(&self) -> ConnStats {
        self.info().stats
    }

    /// Returns the counters of all its connections, and the state of the present one.
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
