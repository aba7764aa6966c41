//! CPU time that a flow's thread spends waiting: vain looks at the socket, and watching the clock.
//!
//! This time belongs to the instrument, so it is reported apart from the cost of messages. The driver reads the clock
//! after each turn anyway, and nothing else is read here.

use deadheat_base::time::Nanos;
use deadheat_datapath::transport::Progress;

/// Most CPU time that a look at socket and clock can take: a receiving call, sched_yield(2) and two readings of the
/// clock take about 1 µs together, and watching the clock takes 2 at the end. If one took longer, another program had
/// the CPU.
const LONGEST_LOOK: Nanos = Nanos::from_micros(3);

/// Assumed time of a vain look, if none was timed.
const USUAL_LOOK: Nanos = Nanos(300);

/// Use of a turn's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnUse {
    /// Useful work or sleep: data was moved, or the thread slept.
    Well,
    /// Looks that found nothing; their number.
    Vain(u32),
    /// Looks of which the last found something; the number of those before it.
    Found(u32),
    /// Watching the clock until the due time.
    Watching,
}

impl TurnUse {
    /// Classifies one look with the result `progress`.
    pub(super) fn looking(progress: Progress) -> TurnUse {
        if progress == Progress::Idle { TurnUse::Vain(1) } else { TurnUse::Well }
    }
}

/// Waiting time of one flow, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitingTime {
    /// CPU time of turns that were only waiting.
    time: Nanos,
    /// Looks in that time.
    looks: u64,
    /// Vain looks in turns that also did useful work.
    untimed: u64,
}

impl WaitingTime {
    /// Adds a turn that took `took`, if the time of that turn alone is known.
    #[inline]
    pub(super) fn add(&mut self, spent: TurnUse, took: Option<Nanos>) {
        match (spent, took) {
            (TurnUse::Well, _) | (TurnUse::Watching, None) => {}
            (TurnUse::Watching, Some(took)) => self.time += took.min(LONGEST_LOOK),
            (TurnUse::Vain(looks), Some(took)) => {
                self.time += took.min(Nanos(LONGEST_LOOK.0 * u64::from(looks)));
                self.looks += u64::from(looks);
            }
            (TurnUse::Vain(looks), None) | (TurnUse::Found(looks), _) => {
                self.untimed += u64::from(looks);
            }
        }
    }

    /// Returns the total; an untimed look counts as much as the average timed one.
    pub fn total(&self) -> Nanos {
        let each = self.time.0.checked_div(self.looks).unwrap_or(USUAL_LOOK.0);
        self.time + Nanos(self.untimed.saturating_mul(each.min(LONGEST_LOOK.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(turns: &[(TurnUse, Option<u64>)]) -> u64 {
        let mut waiting = WaitingTime::default();
        for (spent, took) in turns {
            waiting.add(*spent, took.map(Nanos));
        }
        waiting.total().0
    }

    #[test]
    fn only_vain_looks_and_the_clock_are_waiting() {
        assert_eq!(
            total(&[(TurnUse::Well, Some(50_000)), (TurnUse::looking(Progress::Moved), None)]),
            0
        );
        let turns = [
            (TurnUse::looking(Progress::Idle), Some(900)),
            (TurnUse::looking(Progress::Idle), Some(1_100)),
            (TurnUse::Watching, Some(2_000)),
        ];
        assert_eq!(total(&turns), 4_000);
    }

    #[test]
    fn a_look_that_somebody_interrupted_is_not_counted_whole() {
        assert_eq!(total(&[(TurnUse::Vain(1), Some(40_000))]), LONGEST_LOOK.0);
        assert_eq!(total(&[(TurnUse::Vain(64), Some(1_000_000))]), 64 * LONGEST_LOOK.0);
        assert_eq!(total(&[(TurnUse::Watching, Some(1_000_000))]), LONGEST_LOOK.0);
    }

    #[test]
    fn looks_before_a_message_take_as_long_as_the_others() {
        assert_eq!(
            total(&[(TurnUse::Vain(64), Some(12_800)), (TurnUse::Found(10), Some(9_000))]),
            14_800
        );
        // Right after a send the turn includes the send's time, so only the look is counted.
        assert_eq!(total(&[(TurnUse::Vain(2), Some(800)), (TurnUse::Vain(1), None)]), 1_200);
        assert_eq!(total(&[(TurnUse::Found(10), None)]), 10 * USUAL_LOOK.0);
    }
}
