//! Bounds of the steps of a far end's protocol: the bytes and the time that a peer may take until it goes on. All clients of
//! programs of others have them from here.
//!
//! A thread that waits for a step has its deadline ([`StepBudget::deadline`]). A protocol without a clock looks at its steps
//! now and then ([`StepLooks`]), and a step that has not gone on for too many looks is too old.

use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;

/// Longest time of one step, unless the path is known to be slower.
pub const STEP: Nanos = Nanos::from_secs(10);

/// Most bytes of one step, beside data that was asked for.
pub const STEP_BYTES: u64 = 1 << 20;

/// Number of looks at a step until its time is over.
const LOOKS: u64 = 10;

/// Bytes and time that are left of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBudget {
    time: Nanos,
    most: u64,
    used: u64,
    looks: u64,
}

impl Default for StepBudget {
    fn default() -> StepBudget {
        StepBudget::of(STEP)
    }
}

impl StepBudget {
    /// Creates the budget of a step with this time.
    pub const fn of(time: Nanos) -> StepBudget {
        StepBudget { time, most: STEP_BYTES, used: 0, looks: 0 }
    }

    /// Begins anew: the peer went on.
    pub fn renew(&mut self) {
        (self.used, self.looks) = (0, 0);
    }

    /// Takes bytes of the peer that do not go on with anything.
    ///
    /// # Errors
    /// A sentence, if it has sent too many.
    pub fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.used = self.used.saturating_add(bytes as u64);
        if self.used > self.most {
            Err(format!("it sent more than {} and did not go on", Bytes(self.most)))
        } else {
            Ok(())
        }
    }

    /// Checks that so many bytes may wait until the peer reads them.
    ///
    /// # Errors
    /// A sentence, if they are too many.
    pub fn owe(self, bytes: usize) -> Result<(), String> {
        if bytes as u64 > self.most {
            Err(format!("it asks for more than it reads: {} wait", Bytes(bytes as u64)))
        } else {
            Ok(())
        }
    }

    /// Notes a look at it.
    ///
    /// # Errors
    /// A sentence, if its time is over.
    pub fn look(&mut self) -> Result<(), String> {
        self.looks += 1;
        if self.looks > LOOKS { Err(self.late()) } else { Ok(()) }
    }

    /// Returns the time at which a step that began then is over.
    pub fn deadline(self, began: Nanos) -> Nanos {
        began + self.time
    }

    /// Returns its whole time.
    pub fn time(self) -> Nanos {
        self.time
    }

    /// Returns the sentence about a peer that does not go on in time.
    pub fn late(self) -> String {
        format!("it did not go on for {}", self.time)
    }
}

/// Times of looks at the steps of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLooks {
    every: Nanos,
    due: Option<Nanos>,
}

impl Default for StepLooks {
    fn default() -> StepLooks {
        StepLooks { every: Nanos(STEP.0 / LOOKS), due: None }
    }
}

impl StepLooks {
    /// Returns the time of the next look, while a step is `awaited`; a time in the past if there was none yet.
    pub fn next(self, awaited: bool) -> Option<Nanos> {
        awaited.then(|| self.due.unwrap_or(Nanos::ZERO))
    }

    /// Returns true if a look is due at `now`. The first one only sets the time of the next.
    pub fn is_due(&mut self, now: Nanos) -> bool {
        let due = self.due;
        if due.is_some_and(|due| due > now) {
            return false;
        }
        self.due = Some(now + self.every);
        // Where nothing was awaited for long, no look of that time counts.
        due.is_some_and(|due| now - due < self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a step until it is too old; returns the time that it took.
    fn age(budget: &mut StepBudget, mut went_on: impl FnMut(Nanos) -> bool) -> Nanos {
        let (mut looks, start) = (StepLooks::default(), Nanos::from_secs(7));
        let mut now = start;
        loop {
            now = looks.next(true).unwrap().max(now);
            if went_on(now - start) {
                budget.renew();
            }
            if looks.is_due(now) && budget.look().is_err() {
                return now - start;
            }
        }
    }

    #[test]
    fn a_step_ends_after_its_time_and_one_that_goes_on_does_not() {
        let took = age(&mut StepBudget::default(), |_| false);
        assert!(took > STEP && took <= STEP + Nanos::from_secs(1), "{took}");
        let until = Nanos::from_secs(100);
        let took = age(&mut StepBudget::default(), |at| at < until);
        assert!(took > until + STEP - Nanos::from_secs(2), "{took}");
    }

    #[test]
    fn a_pause_between_two_steps_makes_none_older() {
        let (mut looks, mut now) = (StepLooks::default(), Nanos::from_secs(1));
        for _ in 0..100 {
            let mut step = StepBudget::default();
            assert!(looks.next(true).is_some());
            if looks.is_due(now) {
                step.look().unwrap();
            }
            assert_eq!(looks.next(false), None);
            now += Nanos::from_secs(30);
        }
    }

    #[test]
    fn bytes_are_bounded_until_it_goes_on() {
        let mut step = StepBudget::default();
        for _ in 0..16 {
            step.take(1 << 16).unwrap();
        }
        let why = step.take(1).unwrap_err();
        assert!(why.contains("1.05 MB"), "{why}");
        step.renew();
        step.take(1).unwrap();
        assert!(step.take(usize::MAX).is_err() && step.owe(1 << 20).is_ok());
        assert!(step.owe((1 << 20) + 1).unwrap_err().contains("more than it reads"));
    }
}
