//! Blocks with start times: each begins at least the given time after the previous one. For races over hours and
//! days that show how things change.

use super::request::Request;
use crate::race::context::{RaceContext, RaceEvent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::span_text;
use deadheat_result::outcome::RecordedRequest;

/// Maximum time between the starts of two blocks.
const LONGEST: Nanos = Nanos::from_secs(7 * 86_400);

/// Checks that the requested time between blocks is sensible.
///
/// # Errors
/// [`Error::Usage`] with a value that would be.
pub(super) fn check(request: &Request) -> Result<()> {
    let Some(every) = request.asked.every_ns.map(Nanos) else { return Ok(()) };
    if every == Nanos::ZERO || every > LONGEST {
        return Err(Error::usage(format!(
            "a block every {}; more than nothing and at most 7d make sense, such as --every 10m",
            span_text(every)
        )));
    }
    let text = span_text(every);
    match (request.asked.blocks, request.asked.budget_ns.map(Nanos)) {
        (None, None) => Err(Error::usage(format!(
            "a block every {text}, and no end to it; give --blocks N, or --budget 7d"
        ))),
        (None | Some(2..), Some(budget)) if budget <= every => Err(Error::usage(format!(
            "a block every {text} within {} is one block; raise --budget, or leave --every out",
            span_text(budget)
        ))),
        _ => Ok(()),
    }
}

/// Schedule of the start times of blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    every: Option<Nanos>,
    /// Start time of the last block.
    last: Option<Nanos>,
}

impl Pace {
    /// Creates the requested schedule before the first block of this run, which begins at once.
    pub(super) fn of(asked: &RecordedRequest) -> Pace {
        Pace { every: asked.every_ns.map(Nanos), last: None }
    }

    /// Returns true if blocks have start times; then no verdict ends the race early.
    pub(super) fn is_given(&self) -> bool {
        self.every.is_some()
    }

    /// Returns the start time of the next block; `None` if it may start at once.
    pub(super) fn next(&self) -> Option<Nanos> {
        Some(self.last? + self.every?)
    }

    /// Returns the time between the starts of two blocks; `None` if blocks have no start times.
    pub(super) fn every(&self) -> Option<Nanos> {
        self.every
    }

    /// Waits for the start time of the next block, and records that the block begins.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once the stop flag is set.
    pub(super) fn wait(&mut self, context: &mut RaceContext<'_>) -> Result<()> {
        let mut announced = None;
        let due = self.next().unwrap_or_default();
        context.wait_until(due, |observer, left| {
            let seconds = left.0.div_ceil(1_000_000_000);
            if announced.replace(seconds) != Some(seconds) {
                observer.on(RaceEvent::Waiting { left });
            }
        })?;
        self.last = Some(context.clock.now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use deadheat_result::outcome;
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::testing::{self, TRIAL, WORKLOAD, ran};
    use super::super::{replay, resume};
    use super::*;
    use crate::race::context::Observer;
    use deadheat_base::time::{Clock, Manual};
    use deadheat_result::outcome::Status;
    use deadheat_stats as stats;
    use deadheat_trial::Order;
    use deadheat_trial::sim::fake::Fake;

    const TEN_MINUTES: Nanos = Nanos::from_secs(600);

    fn ask() -> Request {
        Request::new(["tcp", "udp"]).workload(WORKLOAD).margin(0.05).seed(7).every(TEN_MINUTES)
    }

    /// Records the announced length of each wait, and stops the race at the wait with a given number.
    #[derive(Default)]
    struct Waits {
        seen: RefCell<Vec<Nanos>>,
        stop_at: Option<usize>,
        stop: Arc<AtomicBool>,
    }

    impl Observer for Waits {
        fn on(&mut self, event: RaceEvent<'_>) {
            let RaceEvent::Waiting { left } = event else { return };
            self.seen.get_mut().push(left);
            if self.stop_at == Some(self.seen.get_mut().len()) {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Runs on `clock` with trials of 100 ms, udp a fifth faster; also returns the start of each trial.
    fn race(
        clock: &Manual,
        waits: &mut Waits,
        go: impl FnOnce(RaceContext<'_>) -> Result<deadheat_result::outcome::Outcome>,
    ) -> (deadheat_result::outcome::Outcome, Vec<Nanos>) {
        let mut began = Vec::new();
        let ticking = clock.clone();
        let mut runner = Fake(|order: &Order| {
            began.push(ticking.now());
            ticking.pass(TRIAL);
            ran(order, if order.contender() == "udp" { 80.0 } else { 100.0 })
        });
        let stop = Arc::clone(&waits.stop);
        let context = RaceContext::new(&mut runner, waits).at(clock, testing::day()).stop(stop);
        let outcome = go(context).unwrap();
        (outcome, began)
    }

    #[test]
    fn blocks_begin_at_their_times_and_no_verdict_ends_the_race_early() {
        let (clock, mut waits) = (Manual::default(), Waits::default());
        let request = ask().blocks(20);
        let (outcome, began) = race(&clock, &mut waits, |context| request.run_with(context));
        // The first trial is the pilot's, and each block has three.
        let starts: Vec<Nanos> = began[1..].iter().step_by(3).copied().collect();
        assert_eq!(starts.len(), 20);
        for pair in starts.windows(2) {
            assert_eq!(pair[1] - pair[0], TEN_MINUTES);
        }
        assert_eq!(outcome.status, Status::Decided);
        assert_eq!(outcome.verdicts[0].outcome, stats::Outcome::Ahead);
        assert_eq!(outcome.asked.every_ns, Some(TEN_MINUTES.0));
        let seen = waits.seen.into_inner();
        assert_eq!(seen[0], TEN_MINUTES - Nanos::from_millis(300));
        assert_eq!(seen.len(), 19 * 600, "said again whenever a second is over");
    }

    #[test]
    fn a_week_is_planned_with_a_block_each_ten_minutes() {
        let (clock, mut waits) =
            (Manual::default(), Waits { stop_at: Some(1), ..Waits::default() });
        let request = ask().budget(Nanos::from_secs(7 * 86_400));
        let (outcome, _) = race(&clock, &mut waits, |context| request.run_with(context));
        assert_eq!((outcome.status, outcome.plan.blocks_max), (Status::Interrupted, 1008));
    }

    #[test]
    fn a_race_that_waits_stops_at_once_and_goes_on_with_what_is_left_of_its_time() {
        let clock = Manual::default();
        let mut waits = Waits { stop_at: Some(700), ..Waits::default() };
        let request = ask().budget(Nanos::from_secs(3_600));
        let (outcome, _) = race(&clock, &mut waits, |context| request.run_with(context));
        assert_eq!((outcome.status, outcome::blocks_done(&outcome)), (Status::Interrupted, 2));
        let stopped = clock.now();
        // Block 2 is 600 s after block 1, and the 700th second was the 100th of that wait.
        assert!(stopped < Nanos::from_secs(702), "{stopped}");

        clock.advance_to(stopped + Nanos::from_secs(86_400));
        let mut waits = Waits::default();
        let asked = replay(&outcome).unwrap();
        let (outcome, began) =
            race(&clock, &mut waits, |context| resume(outcome, None, &asked, context));
        assert_eq!(outcome::blocks_done(&outcome), 6, "a day without the race is no time of it");
        let starts: Vec<Nanos> = began[1..].iter().step_by(3).copied().collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == TEN_MINUTES));
    }

    #[test]
    fn a_block_that_takes_longer_is_followed_at_once() {
        let (clock, mut waits) = (Manual::default(), Waits::default());
        let request = ask().every(Nanos::from_millis(200)).blocks(6);
        let (_, began) = race(&clock, &mut waits, |context| request.run_with(context));
        assert!(began.windows(2).all(|pair| pair[1] - pair[0] == TRIAL), "{began:?}");
        assert_eq!(waits.seen.into_inner(), Vec::new());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let refusal = |request: Request| request.check().unwrap_err().to_string();
        assert!(refusal(ask()).contains("--budget 7d"));
        assert!(refusal(ask().blocks(9).every(Nanos::ZERO)).contains("--every 10m"));
        assert!(refusal(ask().budget(TEN_MINUTES)).contains("one block; raise --budget"));
        let simulated = Request::new(["arq"]).path("sim:delay=1ms").blocks(9).every(TEN_MINUTES);
        assert!(refusal(simulated).contains("leave --every out"));
    }
}
