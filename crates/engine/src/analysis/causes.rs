//! Causes of notices, by which their advice differs.

/// Place of the two ends, by which advice on two regimes differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndPlacement {
    /// Wherever the host's scheduler puts them.
    Free,
    /// Held on CPUs.
    Pinned,
    /// On no CPU: in virtual time.
    Virtual,
}

/// Cause of a gate failure, by which advice differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateCause {
    /// The emulated path did not do as its model says.
    Path,
    /// The trial ended with an error, before it had figures.
    NoFigures,
    /// An account of messages does not close.
    Ledger,
    /// Anything else that the workload found: mostly a generator that was late.
    Work,
}

/// Limit of the number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockLimit {
    /// The number asked for.
    Blocks,
    /// The time that the race may take.
    Budget,
}

/// Fate of messages among which a figure falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CensoredFate {
    /// Some of them arrived after the timeout.
    Late,
    /// None of them arrived.
    Lost,
}

/// Origin of a value that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueOrigin {
    /// It was typed.
    Typed,
    /// It is the default.
    Default,
}

impl ValueOrigin {
    /// Returns the message on a value that is not in force.
    pub(super) fn message(self, label: &str, option: &str, asked: &str, effective: &str) -> String {
        match self {
            ValueOrigin::Typed => format!("{label} asked for {option}={asked} and has {effective}"),
            ValueOrigin::Default => {
                format!("{label} has {option}={effective}, and not its default, {asked}")
            }
        }
    }
}

impl EndPlacement {
    /// Returns the advice on two regimes.
    pub(super) fn on_regimes(self) -> &'static str {
        match self {
            EndPlacement::Free => {
                "pin both ends with --placement same-core or cross-core, and look at the trials \
                 one by one"
            }
            EndPlacement::Pinned => {
                "look at the trials one by one: what differs between the two groups, if not the CPUs?"
            }
            EndPlacement::Virtual => {
                "look at the trials one by one: in virtual time only the path and the contender make a difference"
            }
        }
    }
}

impl GateCause {
    pub(super) fn advice(self) -> &'static str {
        match self {
            GateCause::Path => {
                "leave the path's threads a CPU of their own (--placement same-core, fewer programs), \
                 emulate a longer delay or a lower rate, or use wait=spin where CPUs are to spare"
            }
            GateCause::NoFigures => {
                "look at what path and far end did at that time: the result has when each trial began and how long it took"
            }
            GateCause::Ledger => "do not rely on the figures of these trials; the ledger says why",
            GateCause::Work => {
                "close other programs, or ask for less: a longer interval, a lower rate"
            }
        }
    }
}

impl CensoredFate {
    pub(super) fn advice(self) -> &'static str {
        match self {
            CensoredFate::Late => {
                "read the loss in the ledger first; a longer timeout shows the tail"
            }
            CensoredFate::Lost => {
                "read the loss in the ledger first; a longer timeout would show no more, as nothing came late"
            }
        }
    }
}
