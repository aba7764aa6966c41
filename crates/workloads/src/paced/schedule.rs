//! Schedule of messages: a grid of due times that is fixed at the start, in whole numbers, so that rounding errors do
//! not add up.

use deadheat_base::time::Nanos;

/// Interval between two messages: a fraction of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    /// Nanoseconds, times [`Period::over`].
    pub(crate) ns: u64,
    /// Denominator; not 0.
    pub(crate) over: u64,
}

impl Period {
    /// Returns the period of messages of `bits` bits at `bps` bits per second.
    pub(crate) fn of_bits(bits: u64, bps: u64) -> Period {
        Period { ns: bits * 1_000_000_000, over: bps }
    }

    /// Returns the period of `pps` messages per second.
    pub(crate) fn of_packets(pps: u64) -> Period {
        Period { ns: 1_000_000_000, over: pps }
    }

    /// Returns the due time of slot `index` after the start, and the rest in units of `1 / over` ns.
    fn at(self, index: u64) -> (Nanos, u64) {
        let exact = u128::from(self.ns) * u128::from(index);
        let over = u128::from(self.over);
        let whole = u64::try_from(exact / over).unwrap_or(u64::MAX);
        (Nanos(whole), (exact % over) as u64)
    }

    /// Returns the duration of `slots` periods.
    pub(crate) fn times(self, slots: u64) -> Nanos {
        self.at(slots).0
    }

    /// Returns the number of slots that begin within `span`.
    pub(crate) fn within(self, span: Nanos) -> u64 {
        let slots = (u128::from(span.0) * u128::from(self.over)).div_ceil(u128::from(self.ns));
        u64::try_from(slots).unwrap_or(u64::MAX)
    }
}

/// The slots of one flow: every `flows`-th of the direction's grid, so that the flows take turns.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    period: Period,
    step: Nanos,
    step_rest: u64,
    due: Nanos,
    rest: u64,
    left: u64,
    slots: u64,
    total: u64,
}

impl Schedule {
    /// Creates the slots of flow `flow` of `flows`, out of `total` slots of all flows of the direction.
    pub(crate) fn new(period: Period, total: u64, flow: u64, flows: u64) -> Schedule {
        let slots = total.saturating_sub(flow).div_ceil(flows);
        let (step, step_rest) = period.at(flows);
        let (due, rest) = period.at(flow);
        Schedule { period, step, step_rest, due, rest, left: slots, slots, total }
    }

    /// Returns the due time of the next slot, from the start; `None` after the last.
    pub(crate) fn due(&self) -> Option<Nanos> {
        (self.left > 0).then_some(self.due)
    }

    /// Moves on to the next slot.
    pub(crate) fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.due += self.step;
        self.rest += self.step_rest;
        if self.rest >= self.period.over {
            self.rest -= self.period.over;
            self.due += Nanos(1);
        }
    }

    /// Returns the interval between two slots of this flow.
    pub(crate) fn step(&self) -> Nanos {
        self.step
    }

    /// Returns the number of slots of this flow.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the duration of the grid of all flows, from its first slot to the end of its last.
    pub(crate) fn span(&self) -> Nanos {
        self.period.times(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_million_slots_without_drift() {
        // 3 Mpps is 333.33 ns, 7.77 Mbit/s with 1400 bytes a fraction as well.
        for period in [Period::of_packets(3_000_000), Period::of_bits(11_200, 7_770_001)] {
            let mut schedule = Schedule::new(period, 10_000_000, 0, 1);
            for index in 0..10_000_000u64 {
                let exact = u128::from(period.ns) * u128::from(index) / u128::from(period.over);
                assert_eq!(schedule.due().unwrap().0, exact as u64, "slot {index}");
                schedule.advance();
            }
            assert_eq!(schedule.due(), None);
        }
    }

    #[test]
    fn flows_take_turns_on_one_grid() {
        let period = Period::of_packets(7_000);
        let mut all: Vec<Nanos> = Vec::new();
        let mut slots = 0;
        for flow in 0..3 {
            let mut schedule = Schedule::new(period, 1_000, flow, 3);
            slots += schedule.slots();
            while let Some(due) = schedule.due() {
                all.push(due);
                schedule.advance();
            }
        }
        all.sort_unstable();
        let want: Vec<Nanos> = (0..1_000).map(|index| period.times(index)).collect();
        assert_eq!((slots, all), (1_000, want));
        assert_eq!(Schedule::new(period, 2, 2, 3).slots(), 0);
    }

    #[test]
    fn slots_within_a_time() {
        let period = Period::of_packets(1_000);
        assert_eq!(period.within(Nanos::from_secs(1)), 1_000);
        assert_eq!(period.within(Nanos(1_000_001)), 2);
        assert_eq!(Period::of_packets(3).within(Nanos::from_secs(1)), 3);
        let day = Nanos::from_secs(86_400);
        assert_eq!(Period::of_bits(96, 400_000_000_000).within(day), 360_000_000_000_000);
    }
}
