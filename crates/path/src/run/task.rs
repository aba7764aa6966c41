//! Task of a keeper, which its environment carries.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use super::Talk;

/// Environment variable of a keeper: its [`Task`] in JSON.
pub(super) const VARIABLE: &str = "DEADHEAT_KEEPER";

/// Task of a keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// Id of the process that started it.
    pub parent: u32,
    /// Descriptor of the user namespace, where there is one.
    pub user: Option<RawFd>,
    /// Descriptors of the hosts' network namespaces.
    pub hosts: Vec<RawFd>,
    /// Index of the host of the command.
    pub host: usize,
    /// Commands beside it, which start before it, in this order.
    pub beside: Vec<BesideCommand>,
    /// Lines for /etc/hosts: names of the hosts for the commands.
    pub names: String,
    /// Amount of messages, such as the end of the far command.
    pub talk: Talk,
}

/// Command that runs beside the main command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BesideCommand {
    /// Index of its host.
    pub host: usize,
    /// Name of its host, for messages.
    pub name: String,
    /// Command, for a shell.
    pub command: String,
    /// Port at which it must listen before the next one starts.
    pub ready: Option<u16>,
}

impl Task {
    /// Returns all descriptors that it names.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.user.into_iter().chain(self.hosts.iter().copied())
    }
}
