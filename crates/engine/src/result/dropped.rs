//! Contenders that dropped out of a race, and the reasons.

/// Reason why a contender dropped out of a race, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropReason {
    /// Its packets do not arrive.
    Blocked(String),
    /// It exceeded a limit of the far end's operator.
    Limited(String),
    /// Its endpoints failed twice in a row.
    Failed(String),
}

impl DropReason {
    /// Returns the reason as one word.
    pub fn word(&self) -> &'static str {
        match self {
            DropReason::Blocked(_) => "blocked",
            DropReason::Limited(_) => "limited",
            DropReason::Failed(_) => "failed",
        }
    }

    /// Returns the evidence.
    pub fn evidence(&self) -> &str {
        match self {
            DropReason::Blocked(evidence)
            | DropReason::Limited(evidence)
            | DropReason::Failed(evidence) => evidence,
        }
    }

    /// Returns the reason as a sentence about one contender, or a list of contenders.
    pub fn sentence(&self, label: &str) -> String {
        match self {
            DropReason::Blocked(evidence) => format!("{label} blocked: {evidence}"),
            DropReason::Limited(what) => format!("{label} took no part: {what}"),
            DropReason::Failed(evidence) => {
                format!("{label} failed twice in a row, and dropped out: {evidence}")
            }
        }
    }

    /// Returns the advice for the user.
    pub fn advice(&self) -> &'static str {
        match self {
            DropReason::Blocked(_) => {
                "look for a firewall or address filter between the hosts; the others raced on"
            }
            DropReason::Limited(_) => {
                "ask the far end's operator to raise it, or ask for less work: a rate (cbr:rate=), fewer bytes; the \
                 others raced on"
            }
            DropReason::Failed(_) => {
                "the others raced on; a panic is a defect of the library that it names"
            }
        }
    }
}
