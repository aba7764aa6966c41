//! Where the two ends of a trial run. On one machine this decides a round trip more than any
//! protocol does, so it is the same for every contender, and printed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, unknown};

/// Where the two ends run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Placement {
    /// Both on one CPU, taking turns.
    SameCore,
    /// Each on a CPU of its own, sleeping between messages.
    CrossCore,
    /// Each on a CPU of its own, never sleeping.
    Busy,
    /// Wherever the host's scheduler puts them.
    Host,
    /// Near end on the first CPU, far end on the second.
    Cpus(usize, usize),
}

const NAMES: &[&str] = &["same-core", "cross-core", "busy", "host"];

impl Placement {
    /// Reads `same-core`, `cross-core`, `busy`, `host` or `A,B`.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is wrong and what would be right.
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
            _ => Err(unknown("placement", typed, &[NAMES, &["A,B"]].concat())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read_back() {
        for text in ["same-core", "cross-core", "busy", "host", "0,1"] {
            assert_eq!(Placement::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let say = |text: &str| Placement::parse(text).unwrap_err().to_string();
        assert!(say("samecore").contains("did you mean `same-core`?"));
        assert!(say("0,x").contains("`x` is not a CPU number"));
    }
}
