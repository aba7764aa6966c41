//! Contenders that dropped out of a race, and why.

/// Reason why a contender dropped out of a race, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// Its packets do not get through.
    Blocked(String),
    /// Its endpoints broke down, twice in a row.
    Failed(String),
}

impl Dropped {
    /// Returns it in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Dropped::Blocked(_) => "blocked",
            Dropped::Failed(_) => "failed",
        }
    }

    /// Returns it as a sentence about the contender of this label.
    pub fn told(&self, label: &str) -> String {
        match self {
            Dropped::Blocked(evidence) => format!("{label} is blocked: {evidence}"),
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
            Dropped::Failed(_) => {
                "the others raced on; a panic is a defect of the library that it names"
            }
        }
    }
}
