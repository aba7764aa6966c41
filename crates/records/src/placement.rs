//! Placement of the two ends of a trial on CPUs. On one machine it affects a round trip more than any protocol does, so
//! it is the same for every contender, and printed.

use std::fmt;

use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Result, unknown};
use deadheat_contract::contract::WaitMode;

/// Placement of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Placement {
    /// Both on one CPU, in turns.
    SameCore,
    /// Each on a CPU of its own, sleeping between messages.
    CrossCore,
    /// Each on a CPU of its own, never sleeping.
    Busy,
    /// Chosen by the host's scheduler.
    Host,
    /// Near end on the first CPU, far end on the second.
    Cpus(usize, usize),
    /// No CPU: the ends run in virtual time.
    Virtual,
}

const NAMES: &[&str] = &["same-core", "cross-core", "busy", "host"];

impl Placement {
    /// Parses `same-core`, `cross-core`, `busy`, `host` or `A,B`.
    ///
    /// # Errors
    /// [`Error::Usage`] with the error and the valid values.
    pub fn parse(typed: &str) -> Result<Placement> {
        if let Some((near, far)) = typed.split_once(',') {
            let cpu = |text: &str| {
                text.parse::<usize>().map_err(|_| {
                    Error::usage(format!(
                        "placement `{typed}`: `{text}` is not a CPU number, as in 0,1"
                    ))
                })
            };
            return Ok(Placement::Cpus(cpu(near)?, cpu(far)?));
        }
        match typed {
            "same-core" => Ok(Placement::SameCore),
            "cross-core" => Ok(Placement::CrossCore),
            "busy" => Ok(Placement::Busy),
            "host" => Ok(Placement::Host),
            // Not for users, but present in the result of a simulated race.
            "virtual" => Ok(Placement::Virtual),
            _ => Err(unknown("placement", typed, &[NAMES, &["A,B"]].concat())),
        }
    }

    /// Returns the mode in which both ends wait under this placement.
    pub fn wait(&self) -> WaitMode {
        match self {
            Placement::Busy => WaitMode::Spin,
            _ => WaitMode::Hybrid,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::SameCore => f.write_str("same-core"),
            Placement::CrossCore => f.write_str("cross-core"),
            Placement::Busy => f.write_str("busy"),
            Placement::Host => f.write_str("host"),
            Placement::Virtual => f.write_str("virtual"),
            Placement::Cpus(near, far) => write!(f, "{near},{far}"),
        }
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> String {
        placement.to_string()
    }
}

impl TryFrom<String> for Placement {
    type Error = Error;
    fn try_from(text: String) -> Result<Placement> {
        Placement::parse(&text)
    }
}
