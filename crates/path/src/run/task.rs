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
    /// Descriptor of the near host's network namespace.
    pub near: RawFd,
    /// Descriptor of the far host's network namespace.
    pub far: RawFd,
    /// Command on the far host, for a shell.
    pub far_command: Option<String>,
    /// Port at which it must listen before the near command starts.
    pub far_ready: Option<u16>,
    /// Lines for /etc/hosts: names of the hosts for the commands.
    pub names: String,
    /// Amount of messages, such as the end of the far command.
    pub talk: Talk,
}
