//! Absence of the far end: a link that is down, or a server that restarts. The race waits, connects again, and goes on
//! with the trial that was lost.

use std::time::{Duration, UNIX_EPOCH};

use crate::race::context::{RaceContext, RaceEvent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::span_text;
use deadheat_result::analysis::far_end;
use deadheat_result::date;
use deadheat_result::outcome::{Absence, Entrant, Warning};
use deadheat_trial::{FarLink, Reconnection};

/// Least time for which a race waits for a far end, unless a person asks for another.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(300);

/// Longest time for which a far end that answers no packet is not asked by its name again.
const UNASKED: Nanos = Nanos::from_secs(30);

/// Pause after the first attempt that a far end answered; each later pause is longer by half, up to the longest.
const FIRST_PAUSE: Nanos = Nanos::from_secs(1);

const LONGEST_PAUSE: Nanos = Nanos::from_secs(10);

/// Number of losses in a row, without a finished block between them, that end a race: a far end that takes every
/// connection and keeps none is not away.
const MOST_IN_A_ROW: u64 = 5;

/// Loss of the connection to the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    /// Time since which nothing came from the far end, in milliseconds since the Unix epoch; the start of the lost trial
    /// if it is not known.
    pub(super) from_ms: u64,
    /// Evidence.
    pub(super) why: String,
    /// Block in which it was lost; `None` before the first and after the last block.
    pub(super) block: Option<u64>,
}

impl Loss {
    /// Returns the time of the loss, as in results: `2026-01-31T10:00:00Z`.
    pub(super) fn since(&self) -> String {
        date::rfc3339(UNIX_EPOCH + Duration::from_millis(self.from_ms))
    }
}

impl RaceContext<'_> {
    /// Waits until the far end answers again, at most for `longest` unless a person asked for another patience, and
    /// records the absence.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once the stop flag is set; [`Error::Stopped`] if the far end does not answer in time, or is
    /// lost again and again; the reason if it answers and no race can go on with it.
    pub(super) fn recover(&mut self, loss: Loss, longest: Nanos) -> Result<()> {
        let longest = self.patience.unwrap_or(longest);
        let host = self.runner.path().spec;
        let since = loss.since();
        let began = self.clock.now();
        let mut pause = FIRST_PAUSE;
        // An attempt may take seconds, too.
        let (lost, left) = (&*loss.why, longest);
        let away = RaceEvent::FarEndAway { host: &host, since: &since, why: lost, left };
        self.observer.on(away);
        let of_block = |absence: &&Absence| absence.block == loss.block;
        let again = self.absences.iter().rev().take_while(of_block).count() as u64;
        if again + 1 >= MOST_IN_A_ROW {
            return Err(unsteady(&host, &loss));
        }
        let first = self.clock.now() + Nanos(FIRST_PAUSE.0 * again);
        self.wait_until(first, |_, _| {})?;
        let (mut asked, mut why) = (began, loss.why.clone());
        let to_ms = loop {
            if self.stopped() {
                return Err(Error::Interrupted);
            }
            let knocked = self.runner.far_link().map_or(Ok(Nanos::ZERO), FarLink::knock);
            let now = self.clock.now();
            let is_asked = knocked.is_ok() || now >= asked + UNASKED;
            let ago = knocked.unwrap_or_else(|silent| {
                why = silent;
                Nanos::ZERO
            });
            let answered_ms = self.epoch_ms().saturating_sub(ago.0 / 1_000_000);
            if is_asked {
                asked = now;
                let link = self.runner.far_link();
                match link.map_or(Ok(Reconnection::Back), FarLink::reconnect)? {
                    Reconnection::Back => break answered_ms,
                    Reconnection::Away(refused) => why = refused,
                }
            }
            let waited = self.clock.now() - began;
            if waited >= longest {
                return Err(gone(&host, &loss, &why, longest));
            }
            let (host, since, why) = (&*host, &*since, &*why);
            let left = longest - waited;
            if !is_asked {
                self.observer.on(RaceEvent::FarEndAway { host, since, why, left });
                continue;
            }
            let until = self.clock.now() + pause.min(left);
            self.wait_until(until, |observer, before| {
                let left = began + longest - until + before;
                observer.on(RaceEvent::FarEndAway { host, since, why, left });
            })?;
            pause = Nanos(pause.0 * 3 / 2).min(LONGEST_PAUSE);
        };
        let waited = self.clock.now() - began;
        self.observer.on(RaceEvent::FarEndBack { host: &host, waited });
        let Loss { from_ms, why, block } = loss;
        self.absences.push(Absence { from_ms, to_ms: to_ms.max(from_ms), block, why });
        Ok(())
    }
}

/// Returns the warning of all absences so far; `None` if there were none.
pub(super) fn warning(host: &str, absences: &[Absence]) -> Option<Warning> {
    let from_ms = absences.first()?.from_ms;
    let since = date::rfc3339(UNIX_EPOCH + Duration::from_millis(from_ms));
    far_end::away(host, absences, &since)
}

fn unsteady(host: &str, loss: &Loss) -> Error {
    Error::stopped(
        host,
        format!(
            "it takes connections and was lost {MOST_IN_A_ROW} times in a row without a finished block, at last at {} ({}); \
             the blocks done are kept, and `race --resume` goes on with them",
            loss.since(),
            loss.why
        ),
    )
}

fn gone(host: &str, loss: &Loss, last: &str, longest: Nanos) -> Error {
    let first = &loss.why;
    let last = if last == first { String::new() } else { format!("; at last: {last}") };
    Error::stopped(
        host,
        format!(
            "no answer since {} ({first}{last}), and the race waits no longer than {}; the blocks done are kept, and \
             `race --resume` goes on with them",
            loss.since(),
            span_text(longest)
        ),
    )
}

pub(super) fn active(entrants: &[Entrant]) -> impl Iterator<Item = &Entrant> {
    entrants.iter().filter(|entrant| entrant.is_racing())
}

/// Returns the error of a race in which all contenders dropped out.
pub(super) fn none_left(entrants: &[Entrant]) -> Error {
    let dropped = |of: fn(&Entrant) -> Option<&String>| -> Vec<String> {
        let named = entrants.iter().filter_map(|one| Some(format!("{}: {}", one.label, of(one)?)));
        named.collect()
    };
    let blocked = dropped(|entrant| entrant.blocked.as_ref());
    let limited = dropped(|entrant| entrant.limited.as_ref());
    let overload = dropped(|entrant| entrant.overload.as_ref());
    let failed = [overload, dropped(|entrant| entrant.failed.as_ref())].concat();
    let unfit = dropped(|entrant| entrant.not_applicable.as_ref());
    if failed.is_empty() && blocked.is_empty() && limited.is_empty() {
        return Error::usage(format!("no contender can carry the work; {}", unfit.join("; ")));
    }
    if failed.is_empty() && blocked.is_empty() {
        let all = limited.join("; ");
        return Error::limited(format!("no contender fits the limits of the far end; {all}"));
    }
    if failed.is_empty() && limited.is_empty() {
        return Error::blocked(format!("no contender gets through; {}", blocked.join("; ")));
    }
    let all = [failed, limited, blocked].concat().join("; ");
    Error::broken("race", format!("no contender is left; {all}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::testing::{self, Diary, TRIAL, WORKLOAD, ran};
    use super::super::{Request, replay, resume};
    use super::*;
    use deadheat_base::time::{Clock, Manual, epoch_ms};
    use deadheat_datapath::transport::commands::CommandPair;
    use deadheat_host::placement::Load;
    use deadheat_records::commands::ProgramFile;
    use deadheat_records::host::HostFacts;
    use deadheat_records::placement::Placement;
    use deadheat_records::trial::PathFacts;
    use deadheat_result::outcome::{Outcome, Status, blocks_done};
    use deadheat_trial::sim::fake::Fake;
    use deadheat_trial::{FarLink, Order, Runner, TrialOutcome};

    /// Far end that is lost in trials with these numbers, from 1, and answers after as many attempts.
    struct Line<'a> {
        clock: &'a Manual,
        lost_in: &'a [u32],
        attempts: u32,
        trials: u32,
        tried: u32,
        /// Attempt at which Ctrl-C is pressed.
        pressed_at: Option<(u32, Arc<AtomicBool>)>,
        changes: Vec<String>,
        down: Option<Outage>,
    }

    /// Outage of 10 s that begins in a trial, from 1; its start once it has begun.
    #[derive(Clone, Copy)]
    struct Outage {
        in_trial: u32,
        from: Nanos,
    }

    impl Outage {
        fn end(&self) -> Nanos {
            self.from + Nanos::from_secs(10)
        }
    }

    impl<'a> Line<'a> {
        fn new(clock: &'a Manual, lost_in: &'a [u32], attempts: u32) -> Line<'a> {
            let (trials, tried, pressed_at, changes) = (0, 0, None, Vec::new());
            Line { clock, lost_in, attempts, trials, tried, pressed_at, changes, down: None }
        }

        fn fake() -> Fake<fn(&Order) -> TrialOutcome> {
            Fake(|order| ran(order, 100.0))
        }
    }

    impl Runner for Line<'_> {
        fn run(&mut self, order: &Order) -> TrialOutcome {
            self.trials += 1;
            if let Some(down) = self.down.as_mut().filter(|down| down.in_trial == self.trials) {
                down.from = self.clock.now() + Nanos::from_millis(300);
                self.clock.pass(Nanos::from_millis(5_300));
                return TrialOutcome::Lost("server 10.0.0.1:5210: it no longer answers".into());
            }
            self.clock.pass(TRIAL);
            if self.lost_in.contains(&self.trials) {
                TrialOutcome::Lost("server 10.0.0.1:5210: it no longer answers".into())
            } else {
                ran(order, if order.contender() == "udp" { 80.0 } else { 100.0 })
            }
        }

        fn placement(&mut self, asked: Option<Placement>, on: Load) -> Result<(Placement, String)> {
            Line::fake().placement(asked, on)
        }

        fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
            Line::fake().hosts()
        }

        fn path(&self) -> PathFacts {
            PathFacts { spec: "far.example".into(), ..Line::fake().path() }
        }

        fn far_link(&mut self) -> Option<&mut dyn FarLink> {
            Some(self)
        }
    }

    impl FarLink for Line<'_> {
        fn knock(&mut self) -> std::result::Result<Nanos, String> {
            let Some(down) = self.down else { return Ok(Nanos::ZERO) };
            let is_down = self.clock.now() < down.end();
            self.clock.pass(Nanos::from_millis(100));
            if is_down {
                Err("connect to 10.0.0.1:5210: timed out".into())
            } else {
                Ok(Nanos::from_millis(100))
            }
        }

        fn silent_ms(&mut self) -> Option<u64> {
            let down = self.down?;
            Some(epoch_ms(testing::day()) + down.from.0 / 1_000_000)
        }

        fn reconnect(&mut self) -> Result<Reconnection> {
            self.tried += 1;
            if let Some((at, stop)) = &self.pressed_at
                && *at == self.tried
            {
                stop.store(true, Ordering::Relaxed);
            }
            if self.tried < self.attempts {
                return Ok(Reconnection::Away("connect to 10.0.0.1:5210: refused".into()));
            }
            self.tried = 0;
            Ok(Reconnection::Back)
        }

        fn changes(&mut self) -> Vec<String> {
            std::mem::take(&mut self.changes)
        }

        fn round_trip(&self) -> Option<Nanos> {
            None
        }

        fn far_files(&mut self, _: &Arc<CommandPair>) -> Result<Option<Vec<ProgramFile>>> {
            Ok(None)
        }
    }

    fn ask() -> Request {
        Request::new(["tcp", "udp"]).workload(WORKLOAD).margin(0.05).seed(7).blocks(8)
    }

    fn race(line: &mut Line<'_>, stop: &Arc<AtomicBool>) -> (Result<Outcome>, Vec<String>) {
        let (clock, mut diary) = (line.clock, Diary::default());
        let context = RaceContext::new(line, &mut diary).at(clock, testing::day());
        let outcome = ask().run_with(context.stop(Arc::clone(stop)));
        (outcome, diary.0.into_inner())
    }

    /// The pilot has one trial, and each block three: the fifth is the first of the second block, the sixth the second.
    #[test]
    fn a_block_is_lost_with_the_far_end_and_not_the_race() {
        let clock = Manual::default();
        let mut line = Line::new(&clock, &[6], 4);
        line.changes.push("its version of deadheat is 0.9.1 and was 0.9.0".into());
        let (outcome, diary) = race(&mut line, &Arc::default());
        let outcome = outcome.unwrap();
        assert_eq!(outcome.status, Status::Decided);
        assert_eq!(diary.iter().filter(|line| *line == "back").count(), 1);
        let lost: Vec<(u64, u64, &str)> = outcome
            .trials
            .iter()
            .filter(|trial| trial.record.lost_ms.is_some())
            .map(|trial| (trial.block, trial.order, trial.record.why_invalid.as_deref().unwrap()))
            .collect();
        let reason = "lost with the far end at 2026-01-01T00:00:00Z: server 10.0.0.1:5210: it no longer answers";
        assert_eq!(lost, [(1, 1, reason)]);
        let block: Vec<bool> =
            outcome.trials.iter().filter(|t| t.block == 1).map(|t| t.record.valid).collect();
        assert_eq!(
            block,
            [true, false, true, true],
            "the trial before stays, and the lost one runs anew"
        );
        let [absence] = &outcome.absences[..] else { panic!("{:?}", outcome.absences) };
        assert_eq!(absence.block, Some(1));
        let codes: Vec<&str> = outcome.warnings.iter().map(|w| w.code.as_str()).collect();
        assert!(codes.contains(&"far_end_away") && codes.contains(&"far_end_changed"), "{codes:?}");
        assert!(!codes.iter().any(|code| code.starts_with("gate_failed")), "{codes:?}");
        let away = outcome.warnings.iter().find(|w| w.code == "far_end_away").unwrap();
        assert!(
            away.message.contains("for ") && away.message.contains(" in block 2 "),
            "{}",
            away.message
        );
    }

    /// A race without a limit loses no block to a wait, and a pilot that is lost begins anew.
    #[test]
    fn the_race_waits_with_patience_and_no_longer() {
        let clock = Manual::default();
        let (outcome, _) = race(&mut Line::new(&clock, &[1], 3), &Arc::default());
        assert_eq!(outcome.unwrap().status, Status::Decided);
        let clock = Manual::default();
        let mut line = Line::new(&clock, &[6], u32::MAX);
        let (outcome, _) = race(&mut line, &Arc::default());
        let outcome = outcome.unwrap();
        assert_eq!((outcome.status, blocks_done(&outcome)), (Status::Failed, 1));
        let why = outcome.why_failed().unwrap();
        assert!(why.contains("no answer since 2026-01-01T00:00:00Z"), "{why}");
        assert!(why.contains("at last: connect to 10.0.0.1:5210: refused"), "{why}");
        let waited = clock.now();
        assert!((PATIENCE..PATIENCE + Nanos::from_secs(2)).contains(&waited), "{waited}");
        // The blocks done go on later.
        let (clock, mut diary) = (Manual::default(), Diary::default());
        let mut line = Line::new(&clock, &[], 0);
        let context = RaceContext::new(&mut line, &mut diary).at(&clock, testing::day());
        let request = replay(&outcome).unwrap();
        assert_eq!(resume(outcome, None, &request, context).unwrap().status, Status::Decided);
    }

    #[test]
    fn ctrl_c_ends_the_wait_with_the_blocks_done() {
        let (clock, stop) = (Manual::default(), Arc::new(AtomicBool::new(false)));
        let mut line = Line::new(&clock, &[6], u32::MAX);
        line.pressed_at = Some((2, Arc::clone(&stop)));
        let (outcome, _) = race(&mut line, &stop);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.status, blocks_done(&outcome)), (Status::Interrupted, 1));
        assert!(clock.now() < Nanos::from_secs(5));
        assert!(outcome.trials.iter().all(|trial| trial.record.valid));
    }

    /// An outage of 10 s begins 300 ms into the first trial of the second block, and nobody notices for 5 s. It ends between
    /// two packets that are 100 ms apart.
    #[test]
    fn an_absence_begins_with_the_silence_and_ends_with_the_first_answer() {
        for (lost_in, block) in [(5, Some(1)), (1, None)] {
            let clock = Manual::default();
            let mut line = Line::new(&clock, &[], 1);
            line.down = Some(Outage { in_trial: lost_in, from: Nanos::ZERO });
            let (outcome, _) = race(&mut line, &Arc::default());
            let outcome = outcome.unwrap();
            assert_eq!(outcome.status, Status::Decided);
            let from = line.down.unwrap().from.0 / 1_000_000;
            let [absence] = &outcome.absences[..] else { panic!("{:?}", outcome.absences) };
            let began = epoch_ms(testing::day());
            assert_eq!((absence.from_ms - began, absence.block), (from, block));
            let length = absence.to_ms - absence.from_ms;
            assert!((10_000..=10_200).contains(&length), "{length} ms");
            let lost = outcome.trials.iter().filter(|trial| trial.record.lost_ms.is_some()).count();
            assert_eq!(lost, usize::from(block.is_some()), "only the trial in which it was lost");
        }
    }

    /// The second block is lost each time: in its first trial, the fifth of the race.
    #[test]
    fn a_far_end_that_keeps_no_connection_ends_the_race_with_the_blocks_done() {
        let clock = Manual::default();
        let every: Vec<u32> = (5..1_000).collect();
        let (outcome, diary) = race(&mut Line::new(&clock, &every, 0), &Arc::default());
        let outcome = outcome.unwrap();
        assert_eq!((outcome.status, blocks_done(&outcome)), (Status::Failed, 1));
        let why = outcome.why_failed().unwrap();
        assert!(why.contains("lost 5 times in a row"), "{why}");
        assert_eq!(diary.iter().filter(|line| *line == "back").count(), 4);
        // Pauses of 1, 2 and 3 s before the second, third and fourth attempt.
        assert!(
            (Nanos::from_secs(6)..Nanos::from_secs(9)).contains(&clock.now()),
            "{}",
            clock.now()
        );
        let before: Vec<u32> = (1..1_000).collect();
        let (outcome, _) = race(&mut Line::new(&Manual::default(), &before, 0), &Arc::default());
        assert!(outcome.unwrap_err().to_string().contains("lost 5 times in a row"));
    }

    #[test]
    fn no_patience_is_no_wait() {
        let (clock, mut diary) = (Manual::default(), Diary::default());
        let mut line = Line::new(&clock, &[6], 2);
        let context = RaceContext::new(&mut line, &mut diary).at(&clock, testing::day());
        let outcome = ask().run_with(context.patience(Some(Nanos::ZERO))).unwrap();
        assert_eq!((outcome.status, blocks_done(&outcome)), (Status::Failed, 1));
        assert!(diary.0.borrow().contains(&"away".to_owned()), "it is said even so");
        assert!(clock.now() < Nanos::from_secs(3), "{}", clock.now());
    }
}
