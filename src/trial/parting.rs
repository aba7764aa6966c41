//! How an end leaves a trial.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::datapath::option;
use crate::transport::Conn;

/// How an end leaves. On an emulated path, the next trial follows over the same one, and nothing of
/// this one must cross it then: neither FINs, nor what a kernel goes on to send again for a process that
/// is gone. So connections stay open until the race ends the process, and are then reset, not closed:
/// that is one packet, and it comes before the next trial begins.
pub(super) struct Parting {
    pub(super) conns: Vec<Box<dyn Conn>>,
    pub(super) emulated: bool,
}

impl Parting {
    /// Returns once the race wants no more of this end.
    pub(super) fn wait(self, control: &UnixStream) {
        if !self.emulated {
            return;
        }
        for fd in self.conns.iter().filter_map(|conn| conn.fd()) {
            // Other sockets than TCP's have no such option, and nothing to say in the end.
            let _ = option::reset_on_close(fd);
        }
        let mut poll = libc::pollfd { fd: control.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: `poll` is one valid pollfd; a hang-up is reported unasked (poll(2)).
        while unsafe { libc::poll(&raw mut poll, 1, -1) } < 0 {}
    }
}
