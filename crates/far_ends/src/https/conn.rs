//! Connection to a web server: its end in time, and the farewell.

use std::io;
use std::os::fd::BorrowedFd;

use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source};
use deadheat_contract::workload::header::LEN;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::transport::{Conn, ConnInfo, Effective, Progress, Readiness};

/// Connection around one with an application protocol on it.
pub(super) struct VisitConn {
    inside: Box<dyn Conn>,
    /// Longest time of bulk data; `None` for work of messages, and for bulk data that bytes end.
    time: Option<Nanos>,
    /// Start of the bulk data, which the first request is.
    began: Option<Nanos>,
}

impl VisitConn {
    /// Wraps a connection whose bulk data ends after `time`.
    pub(super) fn around(inside: Box<dyn Conn>, time: Option<Nanos>) -> Box<dyn Conn> {
        Box::new(VisitConn { inside, time, began: None })
    }
}

impl Drop for VisitConn {
    /// Closes the connection, so that the far end need not wait for more; a far end that is gone needs no farewell.
    fn drop(&mut self) {
        let _ = self.inside.finish();
    }
}

impl Conn for VisitConn {
    fn readiness(&self) -> Readiness<'_> {
        self.inside.readiness()
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.inside.sockets()
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        self.inside.send(lane, message)
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.inside.receive(patience, inbox)
    }

    fn flush(&mut self) -> io::Result<Progress> {
        self.inside.flush()
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        self.inside.pump(source)
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        let now = Monotonic.now();
        let began = match self.began {
            Some(began) => began,
            None => {
                self.inside.send(Lane(0), &[0; LEN])?;
                *self.began.insert(now)
            }
        };
        if self.time.is_some_and(|time| now - began >= time) {
            return Ok(Progress::Closed);
        }
        let progress = self.inside.drain(patience, sink)?;
        if progress == Progress::Idle {
            self.inside.on_deadline(now)?;
        }
        Ok(progress)
    }

    /// Sends the rest: the connection stays open for the answers.
    fn finish(&mut self) -> io::Result<()> {
        self.inside.flush().map(drop)
    }

    fn is_drained(&self) -> bool {
        self.inside.is_drained()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.inside.next_deadline()
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.inside.on_deadline(now)
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        self.inside.stamps()
    }

    fn effective(&self) -> Effective {
        self.inside.effective()
    }

    fn info(&self) -> ConnInfo {
        self.inside.info()
    }
}
