//! Log of the packets that the loss model dropped, in a form that the model can read back.

use std::fmt;
use std::sync::Arc;

use crate::network::{Impairments, Loss, Rate};

/// Largest number of runs of lost packets in the log; their memory is allocated at the start.
const MOST_RUNS: usize = 1 << 16;

/// Largest number of runs that are written into a trial's account.
const FEW: usize = 256;

/// Log of the losses of one direction of a link, numbered from 1 in order of arrival. `Display` writes them as
/// ranges, as `drop=` takes them: `5-6/40`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    runs: Vec<(u64, u64)>,
    complete_until: Option<u64>,
}

impl Log {
    /// Creates an empty log, with room where something can be lost.
    pub(super) fn new(model: &Impairments) -> Log {
        let lossless = model.loss == Loss::None && !matches!(model.rate, Rate::Trace(_));
        let room = if lossless { 0 } else { MOST_RUNS };
        Log { runs: Vec::with_capacity(room), complete_until: None }
    }

    /// Adds a loss. Numbers rise.
    pub(super) fn note(&mut self, number: u64, run: LossRun) {
        if self.complete_until.is_some() {
            return;
        }
        let full = self.runs.len() >= MOST_RUNS;
        match self.runs.last_mut() {
            Some((_, last)) if run == LossRun::Same => *last = number,
            _ if !full => self.runs.push((number, number)),
            _ => self.complete_until = Some(number - 1),
        }
    }

    /// Returns the runs of lost packets, the first and the last of each.
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// Returns the last packet that the log covers, where there were more runs than it holds (65 536).
    pub fn complete_until(&self) -> Option<u64> {
        self.complete_until
    }

    /// Formats all losses as text, if there were some and no more than 256 runs of them.
    pub fn if_short(&self) -> Option<String> {
        let short = (1..=FEW).contains(&self.runs.len()) && self.complete_until.is_none();
        short.then(|| self.to_string())
    }

    /// Returns the model that loses just these packets.
    pub fn replay(&self) -> Loss {
        let numbers: Arc<[u64]> =
            self.runs.iter().flat_map(|(first, last)| *first..=*last).collect();
        if numbers.is_empty() { Loss::None } else { Loss::List(numbers) }
    }
}

/// Run that a loss belongs to: the run of the loss before it, or a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossRun {
    /// Same run: the loss follows another without a packet between them.
    Same,
    /// New run.
    New,
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.runs.iter().enumerate() {
            let slash = if i == 0 { "" } else { "/" };
            if first == last {
                write!(f, "{slash}{first}")?;
            } else {
                write!(f, "{slash}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        Log::new(&Impairments { loss: Loss::Bernoulli(0.5), ..Impairments::default() })
    }

    #[test]
    fn losses_are_written_as_ranges_and_given_back() {
        let mut log = log();
        for (number, run) in [(5, LossRun::New), (6, LossRun::Same), (40, LossRun::New)] {
            log.note(number, run);
        }
        assert_eq!(log.to_string(), "5-6/40");
        assert_eq!(log.if_short().as_deref(), Some("5-6/40"));
        assert_eq!(log.replay(), Loss::List([5, 6, 40].into()));
        assert_eq!(log.complete_until(), None);
        let none = Log::new(&Impairments::default());
        assert_eq!((none.replay(), none.if_short()), (Loss::None, None));
    }

    #[test]
    fn a_full_log_says_how_far_it_goes() {
        let mut log = log();
        for i in 0..MOST_RUNS as u64 + 10 {
            log.note(2 * i + 1, LossRun::New);
        }
        assert_eq!((log.runs().len(), log.if_short()), (MOST_RUNS, None));
        assert_eq!(log.complete_until(), Some(2 * MOST_RUNS as u64));
    }
}
