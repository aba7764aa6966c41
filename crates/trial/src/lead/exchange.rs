//! Exchanges with a server between two trials, while it has nothing to say by itself.

use std::sync::atomic::AtomicBool;

use crate::control::patient::Patient;
use crate::control::remote::RemoteServer;
use crate::control::{self, FromServer, ToAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Longest time for an answer of the server over control.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(5);

/// Largest number of unread messages of an ended trial.
const MOST_STRAYS: u32 = 16;

/// Returns the name of a server in messages.
pub(super) fn who(server: &RemoteServer) -> String {
    format!("server {}", server.address)
}

/// Sends a server a message; `what` is asked of it.
///
/// # Errors
/// Fails if the connection is gone.
pub(super) fn say(server: &RemoteServer, message: &ToAgent, what: &str) -> Result<()> {
    control::write(&mut &*server.control, message)
        .map_err(|e| Error::setup(format!("ask {} for {what}", who(server)), e))
}

/// Returns the server's next message; messages of an ended trial's agent are skipped.
///
/// # Errors
/// Fails if no whole message arrives in time; [`Error::Peer`] if it sends other ones without end.
pub(super) fn answer(server: &RemoteServer, stop: &AtomicBool) -> Result<FromServer> {
    let failed = |e| Error::setup(format!("hear from {}", who(server)), e);
    let deadline = Monotonic.now() + ANSWER_TIMEOUT;
    for _ in 0..MOST_STRAYS {
        let mut stream = Patient { stream: &*server.control, deadline, stop };
        let frame = control::read_frame(&mut stream).map_err(failed)?;
        if FromServer::is_meant(&frame) {
            return control::parse(&frame).map_err(failed);
        }
    }
    Err(Error::peer(who(server), "it sends messages of an ended trial"))
}
