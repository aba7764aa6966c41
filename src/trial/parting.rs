//! How an end leaves a trial.

use std::os::unix::net::UnixStream;

use super::upkeep::{Until, attend};
use crate::datapath::option;
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

impl Parting {
    /// Returns once the race wants no more of this end.
    pub(super) fn wait(mut self, control: &UnixStream) {
        if self.emulated {
            for fd in self.conns.iter().filter_map(|conn| conn.fd()) {
                // Other sockets than TCP's have no such option, and nothing to say in the end.
                let _ = option::reset_on_close(fd);
            }
        }
        let mut conns: Vec<&mut dyn Conn> = match self.userspace {
            true => self.conns.iter_mut().map(|conn| &mut **conn as &mut dyn Conn).collect(),
            false => Vec::new(),
        };
        if self.emulated || self.userspace {
            attend(control, Until::End, &mut conns);
        }
    }
}
