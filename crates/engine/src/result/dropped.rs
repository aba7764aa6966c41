//! Contenders that dropped out of a race, and why.

/// Reason why a contender dropped out of a race, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// Its packets do not get through.
    Blocked(String),
    /// It went beyond a limit of the far end's operator.
    Limited(String),
    /// Its endpoints broke down, twice in a row.
    Failed(String),
}

impl Dropped {
    /// Returns it in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Dropped::Blocked(_) => "blocked",
            Dropped::Limited(_) => "limited",
            Dropped::Failed(_) => "failed",
        }
    }

    /// Returns the evidence.
    pub fn evidence(&self) -> &str {
        match self {
            Dropped::Blocked(evidence) | Dropped::Limited(evidence) | Dropped::Failed(evidence) => {
                evidence
            }
        }
    }

    /// Returns it as a sentence about one contender, or a list of them.
    pub fn told(&self, label: &str) -> String {
        match self {
            Dropped::Blocked(evidence) => format!("{label} blocked: {evidence}"),
            Dropped::Limited(what) => format!("{label} took no part: {what}"),
            Dropped::Failed(evidence) => {
                format!("{label} failed twice in a row, and dropped out: {evidence}")
            }
        }
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Dropped::Blocked(_) => {
                "look for a firewall or address filter between the hosts; the others raced on"
            }
            Dropped::Limited(_) => {
                "ask the far end's operator to raise it, or ask for less work: a rate (cbr:rate=), fewer bytes; the \
                 others raced on"
            }
            Dropped::Failed(_) => {
                "the others raced on; a panic is a defect of the library that it names"
            }
        }
    }
}
