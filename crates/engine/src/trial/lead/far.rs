//! Far end of a race: where it is, and whether it is still there.

use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::path::{Family, PathKind};
use crate::time::Nanos;
use crate::trial::control::remote::{Redial, RemoteServer};
use crate::trial::{EmulatedPath, PathFacts, Reconnection, TrialOutcome};

/// Location of the far end.
#[derive(Debug)]
pub enum Far {
    /// Far end in another process on this machine.
    Loopback(Family),
    /// Far end on a host behind a path that this program emulates on this machine.
    Emulated(Box<EmulatedPath>),
    /// Far end on a host behind a server.
    Server {
        /// Name of the host as typed after `--to`.
        host: String,
        /// Control connection to the server.
        server: Box<RemoteServer>,
    },
}

impl Far {
    /// Returns the time that a trial may take beyond the work and the usual slack before it counts as hung.
    pub(super) fn extra_time(&self) -> Nanos {
        match self {
            Far::Emulated(path) => path.extra_time(),
            Far::Loopback(_) | Far::Server { .. } => Nanos::ZERO,
        }
    }

    /// Returns true if no trial can be opened there any more; to be asked while none is open.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Far::Server { server, .. } if server.is_gone())
    }

    /// Returns true if the connection to it was lost.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Far::Server { server, .. } if server.control.is_lost())
    }

    /// Tries once to connect to a server again; also returns what changed there, in words.
    ///
    /// # Errors
    /// Fails if a server answers and no race can go on with it; [`Error::Interrupted`] on Ctrl-C.
    pub(super) fn reconnect(&mut self, stop: &AtomicBool) -> Result<(Reconnection, Vec<String>)> {
        let Far::Server { server, .. } = self else { return Ok((Reconnection::Back, Vec::new())) };
        match server.again(stop)? {
            Redial::Back(new) => {
                let changes = new.changes_since(server);
                *server = new;
                Ok((Reconnection::Back, changes))
            }
            Redial::Away(why) => Ok((Reconnection::Away(why), Vec::new())),
        }
    }

    /// Returns the outcome of a trial that ended with `error`: if the connection to a server was lost, no contender is to
    /// blame.
    pub(super) fn outcome_of(&self, error: Error) -> TrialOutcome {
        match error {
            Error::Interrupted => Error::Interrupted.into(),
            error if self.is_lost() || matches!(error, Error::Stopped { .. }) => {
                TrialOutcome::Lost(error.to_string())
            }
            error => error.into(),
        }
    }

    /// Returns the path in words.
    pub(super) fn facts(&self) -> PathFacts {
        match self {
            Far::Loopback(family) => PathFacts {
                spec: "loopback".into(),
                kind: PathKind::Loopback,
                address: family.loopback().to_string(),
                built: None,
            },
            Far::Emulated(path) => path.facts(),
            Far::Server { host, server } => PathFacts {
                spec: host.clone(),
                kind: PathKind::Remote,
                address: server.address.to_string(),
                built: None,
            },
        }
    }
}
