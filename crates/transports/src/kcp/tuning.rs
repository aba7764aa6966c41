//! Knobs of KCP, as its machine takes them.

use super::{CONTROL, FLUSH, INTERVAL, MIN_RTO, MODE, NODELAY, RESEND, WINDOW};
use deadheat_base::spec::Settings;
use deadheat_base::time::Nanos;

/// Knobs as the machine takes them; times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    pub(super) nodelay: bool,
    pub(super) interval: u32,
    pub(super) resend: u32,
    pub(super) is_controlled: bool,
    pub(super) min_rto: Option<u32>,
    pub(super) window: u16,
    pub(super) flushes: bool,
}

/// Sets of defaults, named by [`MODE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Default,
    Normal,
    Fast,
    Turbo,
}

impl Tuning {
    /// Reads the knobs; unset ones get the mode's values.
    pub(super) fn new(knobs: &Settings) -> Tuning {
        // nodelay, resend, congestion control and the least timeout of test.cpp and README.en.md.
        let (nodelay, resend, is_controlled, min_rto) = match knobs.get(&MODE) {
            Mode::Default => (false, 0, true, None),
            Mode::Normal => (false, 0, false, None),
            Mode::Fast => (true, 1, false, Some(10)),
            Mode::Turbo => (true, 2, false, None),
        };
        let ms = |span: Nanos| (span.0 / 1_000_000).max(1) as u32;
        Tuning {
            nodelay: knobs.find(&NODELAY).unwrap_or(nodelay),
            interval: ms(knobs.get(&INTERVAL)),
            resend: knobs.find(&RESEND).map_or(resend, |count| count as u32),
            is_controlled: knobs.find(&CONTROL).unwrap_or(is_controlled),
            min_rto: knobs.find(&MIN_RTO).map(ms).or(min_rto),
            window: knobs.get(&WINDOW) as u16,
            flushes: knobs.get(&FLUSH),
        }
    }
}
