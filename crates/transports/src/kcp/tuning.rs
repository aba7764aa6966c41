//! Knobs of KCP, as its machine takes them.

use crate::spec::Settings;

/// The knobs as the machine takes them; times in milliseconds.
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

impl Tuning {
    /// Returns what the knobs ask for, and otherwise the mode's.
    pub(super) fn new(knobs: &Settings) -> Tuning {
        // nodelay, resend, congestion control and the least timeout of test.cpp and README.en.md.
        let (nodelay, resend, is_controlled, min_rto) = match knobs.text("mode") {
            Some("default") => (false, 0, true, None),
            Some("normal") => (false, 0, false, None),
            Some("fast") => (true, 1, false, Some(10)),
            _ => (true, 2, false, None),
        };
        let ms = |key| knobs.span(key).map(|span| (span.0 / 1_000_000).max(1) as u32);
        Tuning {
            nodelay: knobs.switch("nodelay").unwrap_or(nodelay),
            interval: ms("interval").unwrap_or(10),
            resend: knobs.count("resend").map_or(resend, |count| count as u32),
            is_controlled: knobs.text("cc").map_or(is_controlled, |cc| cc == super::INFO.id),
            min_rto: ms("min-rto").or(min_rto),
            window: knobs.count("window").map_or(128, |count| count as u16),
            flushes: knobs.switch("flush").unwrap_or(true),
        }
    }
}
