//! Entry into the hosts of an emulated network, by the descriptors of their namespaces.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::namespace;

/// Network namespaces of the hosts.
#[derive(Debug)]
pub struct Namespaces {
    /// User namespace that owns the other two, where the user is not root.
    user: Option<OwnedFd>,
    /// Network namespaces of the hosts; at least the near and the far one.
    hosts: Vec<OwnedFd>,
}

impl Namespaces {
    /// Takes over namespaces that another process made.
    pub fn new(user: Option<OwnedFd>, hosts: Vec<OwnedFd>) -> Namespaces {
        Namespaces { user, hosts }
    }

    /// Returns the descriptor of the user namespace, if there is one.
    pub fn user(&self) -> Option<BorrowedFd<'_>> {
        self.user.as_ref().map(AsFd::as_fd)
    }

    /// Returns the descriptors of the hosts' network namespaces, in the order of the network's hosts.
    pub fn hosts(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.hosts.iter().map(AsFd::as_fd)
    }

    /// Returns the entry to the host with this index; `None` if there is none.
    pub fn entry(&self, host: usize) -> Option<Entry<'_>> {
        Some(Entry { user: self.user(), net: self.hosts.get(host)?.as_fd() })
    }
}

/// Entry into a host: the namespaces to join.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    user: Option<BorrowedFd<'a>>,
    net: BorrowedFd<'a>,
}

impl<'a> Entry<'a> {
    /// Creates an entry into a user namespace, where there is one, and a network namespace.
    pub fn new(user: Option<BorrowedFd<'a>>, net: BorrowedFd<'a>) -> Entry<'a> {
        Entry { user, net }
    }

    /// Returns the descriptors, for [`namespace::enter`].
    pub(super) fn raw(&self) -> (Option<RawFd>, RawFd) {
        (self.user.map(|fd| fd.as_raw_fd()), self.net.as_raw_fd())
    }

    /// Makes the command run in that host. The namespaces must exist until it is started.
    pub fn prepare(&self, command: &mut Command) {
        let (user, net) = self.raw();
        // SAFETY: the closure makes two system calls on integers and touches nothing else.
        unsafe { command.pre_exec(move || namespace::enter(user, net)) };
    }

    /// Makes the command run in that host, and keeps the namespaces alive until then with descriptors of its own.
    ///
    /// # Errors
    /// Fails if this process may have no more descriptors.
    pub fn prepare_for_later(&self, command: &mut Command) -> io::Result<()> {
        let user = self.user.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let net = self.net.try_clone_to_owned()?;
        let enter =
            move || namespace::enter(user.as_ref().map(AsRawFd::as_raw_fd), net.as_raw_fd());
        // SAFETY: the closure makes two system calls on integers and touches nothing else.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}
