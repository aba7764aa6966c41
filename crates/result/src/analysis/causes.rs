//! Causes of notices, on which their advice depends.

use deadheat_contract::contract::Side;

/// Place of the two ends, on which advice about two regimes depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndPlacement {
    /// The host's scheduler chooses the CPUs.
    Free,
    /// Pinned to CPUs.
    Pinned,
    /// Commands, which nothing holds on CPUs.
    Commands,
    /// No CPU: virtual time.
    Virtual,
}

/// Cause of a gate failure, on which the advice depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateCause {
    /// The emulated path differed from its model.
    Path {
        /// True if both ends share a CPU, which leaves the others to the path.
        has_cpu: bool,
    },
    /// The trial ended with an error before it had figures.
    NoFigures,
    /// An account of messages does not close.
    Ledger,
    /// Any other problem of the workload: usually a late generator.
    Work,
}

/// Returns the words at the far end, and none at the near one.
pub(super) fn of_far(end: Side, words: &str) -> &str {
    if end == Side::Far { words } else { "" }
}

/// Returns the advice about an option of an end that is not as asked for.
pub(super) fn on_option(end: Side, effective: &str) -> &'static str {
    match end {
        _ if effective.contains(" (") => {
            "correct the setting in brackets, or type the value in force"
        }
        Side::Near => "load the kernel module or allow the setting, or ask for what the host has",
        Side::Far => {
            "that end sends with this value: have its operator allow the setting (sysctl \
             net.ipv4.tcp_allowed_congestion_control for cc), or ask for what that host has"
        }
    }
}

/// Origin of a requested value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueOrigin {
    /// It was typed.
    Typed,
    /// It is the default.
    Default,
}

impl ValueOrigin {
    /// Returns the message about a value that is not in force.
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
    /// Returns the advice about two regimes.
    pub(super) fn on_regimes(self) -> &'static str {
        match self {
            EndPlacement::Free => {
                "pin both ends with --placement same-core or cross-core, and look at the trials \
                 one by one"
            }
            EndPlacement::Pinned => {
                "look at the trials one by one for a difference between the two groups other than the CPUs"
            }
            EndPlacement::Commands => {
                "look at the trials one by one: nothing holds commands on CPUs, unless their file does (taskset -c 0 …)"
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
            GateCause::Path { has_cpu: false } => {
                "leave the path's threads a CPU of their own (--placement same-core, fewer programs), \
                 emulate a longer delay or a lower rate, or use wait=spin where CPUs are to spare"
            }
            // Both ends are on one CPU already.
            GateCause::Path { has_cpu: true } => {
                "the path's threads have a CPU of their own: stop other programs on it, emulate a longer delay or a lower \
                 rate, or race on a host with more CPUs"
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
