//! Contenders that dropped out of a race, and the reasons.

/// Reason why a contender dropped out of a race, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropReason {
    /// Its packets do not arrive.
    Blocked(String),
    /// It exceeded a limit of the far end's operator.
    Limited(String),
    /// It offered more than the path carries, and nothing slows it down.
    Overload(String),
    /// Its endpoints failed twice in a row.
    Failed(String),
}

impl DropReason {
    /// Returns the reason as one word.
    pub fn word(&self) -> &'static str {
        match self {
            DropReason::Blocked(_) => "blocked",
            DropReason::Limited(_) => "limited",
            DropReason::Overload(_) => "overload",
            DropReason::Failed(_) => "failed",
        }
    }

    /// Returns the evidence.
    pub fn evidence(&self) -> &str {
        match self {
            DropReason::Blocked(evidence)
            | DropReason::Limited(evidence)
            | DropReason::Overload(evidence)
            | DropReason::Failed(evidence) => evidence,
        }
    }

    /// Returns the reason as a sentence about one contender, or a list of contenders.
    pub fn sentence(&self, label: &str) -> String {
        match self {
            DropReason::Blocked(evidence) => format!("{label} blocked: {evidence}"),
            DropReason::Limited(what) => format!("{label} took no part: {what}"),
            DropReason::Overload(evidence) => format!("{label} was stopped: {evidence}"),
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
            DropReason::Overload(_) => {
                "offer what the line carries (a lower rate=), or race contenders with a congestion control; the others \
                 raced on"
            }
            DropReason::Failed(_) => {
                "the others raced on; a panic is a defect of the library that it names"
            }
        }
    }
}
