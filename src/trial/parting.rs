//! How an end leaves a trial.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::datapath::option;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::Conn;

/// How an end leaves. On an emulated path, the next trial follows over the same one, and nothing of
/// this one must cross it then: neither FINs, nor what a kernel goes on to send again for a process that
/// is gone. So connections stay open until the race ends the process, and are then reset, not closed:
/// that is one packet, and it comes before the next trial begins.
///
/// A protocol in user space also stays, and answers: its peer may not have heard that everything has
/// arrived.
pub(super) struct Parting {
    pub(super) conns: Vec<Box<dyn Conn>>,
    pub(super) emulated: bool,
    pub(super) userspace: bool,
}

/// How long to sleep at most where no connection says.
const LONGEST: Nanos = Nanos::from_secs(1);

impl Parting {
    /// Returns once the race wants no more of this end.
    pub(super) fn wait(mut self, control: &UnixStream) {
        if self.emulated {
            for fd in self.conns.iter().filter_map(|conn| conn.fd()) {
                // Other sockets than TCP's have no such option, and nothing to say in the end.
                let _ = option::reset_on_close(fd);
            }
        }
        while (self.emulated || self.userspace) && !self.was_let_go(control) {
            let now = Monotonic.now();
            for conn in self.conns.iter_mut().filter(|_| self.userspace) {
                // A connection that fails now has nothing left to lose.
                let _ = conn.on_deadline(now);
            }
        }
    }

    /// Sleeps until something happens; whether it was the end of `control`.
    fn was_let_go(&self, control: &UnixStream) -> bool {
        let entry = |fd: RawFd, events| libc::pollfd { fd, events, revents: 0 };
        // A hang-up is reported unasked (poll(2)).
        let mut entries = vec![entry(control.as_raw_fd(), 0)];
        let conns = self.conns.iter().filter(|_| self.userspace);
        entries.extend(
            conns
                .clone()
                .filter_map(|conn| conn.fd())
                .map(|fd| entry(fd.as_raw_fd(), libc::POLLIN)),
        );
        let now = Monotonic.now();
        let due = conns.filter_map(|conn| conn.next_deadline()).min();
        let left = due.map_or(LONGEST, |due| (due - now).min(LONGEST));
        let ms = i32::try_from(left.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: the pointer and length are those of a live array of valid pollfds.
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, ms) };
        ready > 0 && entries[0].revents != 0
    }
}
