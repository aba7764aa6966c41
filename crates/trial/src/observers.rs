//! Observers of the packets of a race's trials, where this program moves them.

use std::path::PathBuf;

use crate::Order;
use deadheat_path::observe::{Capture, Observation};

/// Observers of the packets of each trial.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observers {
    /// True if trains, gaps and acknowledgements are counted.
    pub wire: bool,
    /// Capture to which the packets of each trial are appended, with an absolute path; the file exists already.
    pub pcap: Option<PathBuf>,
    /// Number of trials so far.
    pub trials: u64,
}

impl Observers {
    /// Returns true if packets are captured.
    pub(crate) fn captures(&self) -> bool {
        self.pcap.is_some()
    }

    /// Counts a trial, and returns what to observe in it; `None` if that is nothing.
    pub(crate) fn of(&mut self, order: &Order) -> Option<Observation> {
        self.trials += 1;
        let title = format!("trial {}: {}, {}", self.trials, order.contender(), order.workload());
        let capture = self.pcap.clone().map(|file| Capture { file, title });
        (self.wire || capture.is_some()).then_some(Observation { wire: self.wire, capture })
    }
}
