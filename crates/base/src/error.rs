//! Errors, by the party that must act: the user, this host's set-up, the peer, or a file.
//!
//! Each message names the operation, the address or file, and the remedy.

use std::io;

use serde::{Deserialize, Serialize};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error, by the party that must act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Usage: invalid input by the user. Exit code 2.
    #[error("{0}")]
    Usage(String),

    /// Failure of an operation on this host: a system call, a permission, a full disk.
    #[error("{op}: {source}{}", advice_suffix(.advice))]
    Setup {
        /// Operation and its object, such as `connect to 10.0.0.2:5210`.
        op: String,
        /// Error of the system.
        source: io::Error,
        /// Advice; empty if there is none.
        advice: String,
    },

    /// Peer error: the far end refused, vanished, or violated the protocol.
    #[error("{who}: {what}")]
    Peer {
        /// Address or role of the peer.
        who: String,
        /// Fault of the peer, and the correct behaviour.
        what: String,
    },

    /// Nonsense: the far end sent text without a meaning. A repeated request gets the same text.
    #[error("{who}: {what}")]
    Nonsense {
        /// Address or role of the peer.
        who: String,
        /// Text in question, its position, and correct text.
        what: String,
    },

    /// Breakdown of a contender: its endpoint panicked, ended, or hangs. Other contenders are not affected.
    #[error("{who}: {what}")]
    Broken {
        /// Contender or end that broke.
        who: String,
        /// Evidence of the breakdown.
        what: String,
    },

    /// Connection under test that was lost after it had been opened. Other contenders are not affected.
    #[error("{what}")]
    Disconnected {
        /// End and operation, with the error of the system or of the protocol.
        what: String,
    },

    /// Blocked: control works, but the contender's own packets do not get through.
    #[error("blocked: {evidence}")]
    Blocked {
        /// Evidence: packets sent and received, and the time.
        evidence: String,
    },

    /// Limit of the far end's operator, which a contender exceeded: its value, and the option that raises it.
    #[error("{what}")]
    Limited {
        /// The limit.
        what: String,
    },

    /// Stop of the far end by its operator: no trial can continue there.
    #[error("{who}: {what}")]
    Stopped {
        /// Address of the far end.
        who: String,
        /// Message of the far end.
        what: String,
    },

    /// Unsupported: a feature that this host or kernel lacks.
    #[error("{what}: {lacks}")]
    Unsupported {
        /// Transport, knob or option.
        what: String,
        /// Missing feature, and an alternative.
        lacks: String,
    },

    /// Data error: a file has wrong content, or the file of a transfer cannot be read or written.
    #[error("{file}: {what}")]
    Data {
        /// Name of the file.
        file: String,
        /// Fault in the file, its position, and correct content.
        what: String,
    },

    /// Interruption of the run by the user (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Creates a usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Error::Usage(message.into())
    }

    /// Creates the error of a failed operation on this host.
    pub fn setup(op: impl Into<String>, source: io::Error) -> Self {
        Error::Setup { op: op.into(), source, advice: String::new() }
    }

    /// Creates the error of a failed operation on this host, with advice.
    pub fn setup_advice(
        op: impl Into<String>,
        source: io::Error,
        advice: impl Into<String>,
    ) -> Self {
        Error::Setup { op: op.into(), source, advice: advice.into() }
    }

    /// Creates the error of a peer that violated the protocol.
    pub fn peer(who: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Peer { who: who.into(), what: what.into() }
    }

    /// Creates the error of a contender that broke down.
    pub fn broken(who: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Broken { who: who.into(), what: what.into() }
    }

    /// Creates the error of a connection under test that was lost.
    pub fn disconnected(what: impl Into<String>) -> Self {
        Error::Disconnected { what: what.into() }
    }

    /// Creates the error of a contender without arriving packets.
    pub fn blocked(evidence: impl Into<String>) -> Self {
        Error::Blocked { evidence: evidence.into() }
    }

    /// Creates the error of a contender that exceeded a limit of the far end's operator.
    pub fn limited(what: impl Into<String>) -> Self {
        Error::Limited { what: what.into() }
    }

    /// Creates the error of a far end that its operator stopped.
    pub fn stopped(who: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Stopped { who: who.into(), what: what.into() }
    }

    /// Creates the error of something this host does not have.
    pub fn unsupported(what: impl Into<String>, lacks: impl Into<String>) -> Self {
        Error::Unsupported { what: what.into(), lacks: lacks.into() }
    }

    /// Creates the error of a file with wrong content.
    pub fn data(file: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Data { file: file.into(), what: what.into() }
    }

    /// Returns the process exit code for this error: 2 for usage, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            _ => 1,
        }
    }

    /// Converts the error to cross a process boundary.
    pub fn to_fault(&self) -> Fault {
        let kind = match self {
            Error::Usage(_) => FaultKind::Usage,
            Error::Setup { .. } => FaultKind::Setup,
            Error::Peer { .. } | Error::Nonsense { .. } | Error::Stopped { .. } => FaultKind::Peer,
            Error::Broken { .. } => FaultKind::Broken,
            Error::Disconnected { .. } => FaultKind::Disconnected,
            Error::Blocked { .. } => FaultKind::Blocked,
            Error::Limited { .. } => FaultKind::Limited,
            Error::Unsupported { .. } => FaultKind::Unsupported,
            Error::Data { .. } => FaultKind::Data,
            Error::Interrupted => FaultKind::Interrupted,
        };
        let message = match self {
            Error::Blocked { evidence } => evidence.clone(),
            other => other.to_string(),
        };
        Fault { kind, message }
    }
}

/// Fault: an [`Error`] in a form that crosses a process boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Kind of the error, by the party that must act.
    pub kind: FaultKind,
    /// Message as a person reads it.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub message: String,
}

/// Kinds of [`Error`], without their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// See [`Error::Usage`].
    Usage,
    /// See [`Error::Setup`].
    Setup,
    /// See [`Error::Peer`].
    Peer,
    /// See [`Error::Broken`].
    Broken,
    /// See [`Error::Disconnected`].
    Disconnected,
    /// See [`Error::Blocked`].
    Blocked,
    /// See [`Error::Limited`].
    Limited,
    /// See [`Error::Unsupported`].
    Unsupported,
    /// See [`Error::Data`].
    Data,
    /// See [`Error::Interrupted`].
    Interrupted,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

fn advice_suffix(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!(" ({advice})") }
}

/// Returns the name in `known` nearest to `typed`, if it is near enough to be meant.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = typed.to_lowercase();
    known
        .into_iter()
        .map(|name| {
            let folded = strsim::damerau_levenshtein(&lower, &name.to_lowercase());
            (folded, strsim::damerau_levenshtein(typed, name), name)
        })
        .filter(|(folded, _, name)| *folded <= 1 + name.len() / 3)
        // Half of the letters are right.
        .filter(|(folded, _, name)| folded * 2 <= name.len().max(typed.len()))
        .min_by_key(|(folded, exact, _)| (*folded, *exact))
        .map(|(_, _, name)| name)
}

/// Creates a usage error: "unknown X `typed`; did you mean `near`? valid: a, b, c".
pub fn unknown(what: &str, typed: &str, known: &[&str]) -> Error {
    let near = nearest(typed, known.iter().copied())
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let behind = if what.ends_with('`') { ":" } else { "" };
    Error::usage(format!("unknown {what}{behind} `{typed}`{near} (valid: {list})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_suggests_the_nearest_name() {
        let error = unknown("contender", "tpc", &["tcp", "udp"]);
        assert_eq!(
            error.to_string(),
            "unknown contender `tpc`; did you mean `tcp`? (valid: tcp, udp)"
        );
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn unknown_stays_silent_when_nothing_is_near() {
        assert_eq!(
            unknown("contender", "carrier-pigeon", &["tcp", "udp"]).to_string(),
            "unknown contender `carrier-pigeon` (valid: tcp, udp)"
        );
        assert_eq!(nearest("far", ["arq"]), None, "one letter of three");
        assert_eq!(
            unknown("key of `udp`", "x", &["df"]).to_string(),
            "unknown key of `udp`: `x` (valid: df)"
        );
    }

    #[test]
    fn a_fault_keeps_kind_and_words() {
        let fault = Error::blocked("no answer to 8 hellos").to_fault();
        assert_eq!(fault.kind, FaultKind::Blocked);
        assert_eq!(fault.message, "no answer to 8 hellos");
    }
}
