//! Contenders behind a Cargo feature of their own, off by default: what they bring with them is more than most builds
//! need. The feature is called as the contender is, and `all-contenders` has them all.
//!
//! Adding one is its file, its line in [`super::ALL`] under `#[cfg(feature = …)]`, and a line in [`ALL`] here, from which
//! a build that leaves it out says so.

use crate::error::Error;

/// Contender that a build may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optional {
    /// Its name, and that of its feature.
    pub id: &'static str,
    /// Summary in one line, for lists of builds without it.
    pub summary: &'static str,
    /// Presence in this build.
    pub presence: Presence,
}

/// Presence of an optional contender in this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Built with its feature.
    Built,
    /// Left out.
    LeftOut,
}

impl Presence {
    const fn of(is_built: bool) -> Presence {
        if is_built { Presence::Built } else { Presence::LeftOut }
    }
}

impl Optional {
    /// Returns the reason why it cannot be raced by a build without it, and what would help.
    pub fn missing(&self) -> Error {
        let Optional { id, .. } = self;
        let lacks = format!(
            "this build of deadheat leaves it out; `cargo install --locked --path . --features {id}` builds \
             one that has it"
        );
        Error::unsupported(*id, lacks)
    }
}

/// Every contender that a build may leave out, in the order in which lists show them.
pub const ALL: &[Optional] = &[
    Optional {
        id: "renet",
        summary: "messages over UDP as games have them, sent again every 300 ms until they are acknowledged",
        presence: Presence::of(cfg!(feature = "renet")),
    },
    Optional {
        id: "laminar",
        summary: "messages over UDP as games have them, acknowledged by what travels the other way only; last release 2021",
        presence: Presence::of(cfg!(feature = "laminar")),
    },
    Optional {
        id: "webtransport",
        summary: "a reliable, encrypted byte stream in a session over HTTP/3, as browsers have it",
        presence: Presence::of(cfg!(feature = "webtransport")),
    },
    Optional {
        id: "datachannel",
        summary: "reliable, encrypted messages with congestion control, SCTP in DTLS over UDP, as browsers have it",
        presence: Presence::of(cfg!(feature = "datachannel")),
    },
    Optional {
        id: "quic-s2n",
        summary: "a reliable, encrypted byte stream over UDP (RFC 9000), by s2n-quic",
        presence: Presence::of(cfg!(feature = "quic-s2n")),
    },
    Optional {
        id: "misbehaving",
        summary: "arq that breaks down where it is told to: to see what a race does then",
        presence: Presence::of(cfg!(feature = "misbehaving")),
    },
];

/// Returns those that this build leaves out.
pub fn left_out() -> impl Iterator<Item = &'static Optional> {
    ALL.iter().filter(|optional| optional.presence == Presence::LeftOut)
}

/// Returns true if the contender of this name is behind a feature, whether this build has it or not.
pub fn is_one(id: &str) -> bool {
    ALL.iter().any(|optional| optional.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Contender;

    #[test]
    fn what_is_left_out_says_how_to_get_it_and_what_is_built_is_listed() {
        for optional in ALL {
            let listed = super::super::ALL.iter().find(|t| t.info().id == optional.id);
            let parsed = Contender::parse(optional.id).map_err(|error| error.to_string());
            match optional.presence {
                Presence::Built => {
                    assert_eq!(listed.map(|t| t.info().summary), Some(optional.summary));
                    assert!(parsed.is_ok(), "{parsed:?}");
                }
                Presence::LeftOut => {
                    assert!(listed.is_none(), "{}", optional.id);
                    let said = parsed.unwrap_err();
                    assert!(said.contains(&format!("--features {}", optional.id)), "{said}");
                }
            }
        }
    }
}
