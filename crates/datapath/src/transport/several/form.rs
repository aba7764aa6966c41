//! Forms, as typed, of contenders that consist of others.

use crate::transport::contender::with_commands;

/// Name of a mix.
pub(super) const MIX: &str = "mix";

/// Sign between the two of an order of preference.
pub(super) const SIGN: char = '|';

/// Returns true if `typed` has the form of a mix.
pub(super) fn is_mix(typed: &str) -> bool {
    typed.strip_prefix(MIX).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Returns true if `typed` has the form of an order of preference, and not of a command with a pipe.
pub(super) fn is_preference(typed: &str) -> bool {
    typed.contains(SIGN) && with_commands(typed).is_none()
}
