//! Departure of an end from a trial.

use std::os::unix::net::UnixStream;

use super::upkeep::{ControlEvent, attend};
use deadheat_datapath::datapath::option;
use deadheat_datapath::transport::Conn;

/// Departure of an end. On an emulated path, the next trial uses the same path, and no packet of this trial may cross
/// it then: neither FINs, nor the retransmissions of a kernel for a process that is gone. So connections stay open
/// until the race ends the process, and are then reset, not closed: that is one packet, and it is sent before the next
/// trial begins.
///
/// A protocol in user space also stays, and answers: its peer may not know yet that everything has arrived. So does an
/// end that was stopped during its work: its peer may still be sending, and would take a reset for a failure.
pub(super) struct Parting {
    pub(super) conns: Vec<Box<dyn Conn>>,
    pub(super) emulated: bool,
    pub(super) userspace: bool,
    pub(super) stopped: bool,
    /// True if the far end is a program of others for which no agent stands in: it learns the end from the connection.
    pub(super) at_others: bool,
}

impl Parting {
    /// Closes the connections to a program of others, which would otherwise wait for its timeout: the race ends this
    /// process once it has the report.
    pub(super) fn leave_others(&mut self) {
        if self.at_others && !self.emulated {
            self.conns.clear();
        }
    }

    /// Returns once the race needs this end no more.
    pub(super) fn wait(mut self, control: &UnixStream) {
        if self.emulated {
            for fd in self.conns.iter().flat_map(|conn| conn.sockets()) {
                // Only TCP sockets have this option; other sockets send nothing when they close.
                let _ = option::reset_on_close(fd);
            }
        }
        let mut conns: Vec<&mut dyn Conn> = if self.userspace {
            self.conns.iter_mut().map(|conn| &mut **conn as &mut dyn Conn).collect()
        } else {
            Vec::new()
        };
        if self.emulated || self.userspace || self.stopped {
            attend(control, ControlEvent::End, &mut conns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use deadheat_base::time::Manual;
    use deadheat_datapath::transport::mem;

    /// The race ends the process once it has the report, so what ends a connection leaves before.
    #[test]
    fn connections_to_a_program_of_others_are_closed_before_the_report() {
        for at_others in [true, false] {
            let (conn, _peer) = mem::pair(&Manual::default(), mem::losing(0, 1), mem::losing(0, 1));
            let conns = vec![Box::new(conn) as Box<dyn Conn>];
            let (emulated, userspace, stopped) = (false, true, false);
            let mut parting = Parting { conns, emulated, userspace, stopped, at_others };
            parting.leave_others();
            assert_eq!(parting.conns.is_empty(), at_others);
        }
    }

    /// Connections of an end stay open until the race ends it.
    #[test]
    fn an_end_that_was_stopped_keeps_its_connections_open_until_it_is_wanted_no_more() {
        let (control, race) = UnixStream::pair().unwrap();
        let let_go = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Long enough to notice an end that does not wait; an end that waits passes at any length.
                thread::sleep(Duration::from_millis(50));
                let_go.store(true, Ordering::Release);
                drop(race);
            });
            let (conn, _peer) = mem::pair(&Manual::default(), mem::losing(0, 1), mem::losing(0, 1));
            let conns = vec![Box::new(conn) as Box<dyn Conn>];
            let (emulated, userspace, at_others) = (false, false, false);
            Parting { conns, emulated, userspace, stopped: true, at_others }.wait(&control);
            assert!(let_go.load(Ordering::Acquire));
        });
    }
}
