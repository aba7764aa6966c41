//! Wishes of a person while a race runs: a pause between two blocks, and an end after the present one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use deadheat_base::time::Nanos;

/// Wishes that another thread states while the race runs. The race reads them between blocks, and takes no lock for it.
#[derive(Debug, Default)]
pub struct Steering {
    pause: AtomicBool,
    last: AtomicBool,
}

/// Time between two looks at the wishes during a pause.
const STEP: Duration = Duration::from_millis(100);

impl Steering {
    /// Asks for a pause after the present block, or for its end.
    pub fn pause(&self, wanted: bool) {
        self.pause.store(wanted, Ordering::Relaxed);
    }

    /// Returns true while a pause is asked for.
    pub fn is_paused(&self) -> bool {
        self.pause.load(Ordering::Relaxed)
    }

    /// Asks for the end of the race after the present block; this ends a pause, too.
    pub fn end_after_block(&self) {
        self.last.store(true, Ordering::Relaxed);
    }

    /// Returns true if the present block is the last.
    pub fn is_last(&self) -> bool {
        self.last.load(Ordering::Relaxed)
    }

    /// Waits while a pause is asked for, and neither an end nor `stop`. Returns the time that this took, on the clock of
    /// the person, in virtual time too.
    pub(super) fn hold(&self, stop: &AtomicBool) -> Nanos {
        let began = Instant::now();
        while self.is_paused() && !self.is_last() && !stop.load(Ordering::Relaxed) {
            thread::park_timeout(STEP);
        }
        began.elapsed().into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::race::{Observer, RaceContext, RaceEvent, Request, testing};
    use deadheat_base::time::Manual;
    use deadheat_result::outcome::{Status, blocks_done};
    use deadheat_trial::sim::fake::Fake;

    /// Person who pauses after the second block, goes on, and ends the race amid the fifth.
    struct Person(Arc<Steering>, Vec<&'static str>);

    impl Observer for Person {
        fn on(&mut self, event: RaceEvent<'_>) {
            match event {
                RaceEvent::BlockDone { blocks: 2, .. } => self.0.pause(true),
                RaceEvent::Paused => {
                    self.1.push("paused");
                    self.0.pause(false);
                }
                RaceEvent::Continued { .. } => self.1.push("continued"),
                RaceEvent::TrialStarted(place) if place.block == 4 => self.0.end_after_block(),
                _ => {}
            }
        }
    }

    #[test]
    fn a_pause_is_between_blocks_and_in_the_result_and_the_last_block_is_whole() {
        let steering = Arc::<Steering>::default();
        let mut person = Person(Arc::clone(&steering), Vec::new());
        let mut trial = testing::noisy(1, 0.02, |_| 90e3);
        let mut runner = Fake(&mut trial);
        let clock = Manual::default();
        let context = RaceContext::new(&mut runner, &mut person)
            .at(&clock, testing::day())
            .steering(steering);
        let request = Request::new(["tcp", "udp"]).workload(testing::WORKLOAD).blocks(40).seed(1);
        let outcome = request.run_with(context).unwrap();
        assert_eq!((outcome.status, blocks_done(&outcome)), (Status::Interrupted, 5));
        assert_eq!(outcome.trials.len(), 5 * 3, "two contenders and the copy of one");
        assert_eq!(person.1, ["paused", "continued"]);
        let paused = outcome.warnings.iter().find(|warning| warning.code == "paused").unwrap();
        assert!(paused.message.ends_with("blocks before that: 2"), "{}", paused.message);
        assert!(outcome.trusted(), "a pause is no doubt");
    }
}
