//! The trials before block 0: one contender against itself.

use super::block::{self, Common};
use super::outcome::Entrant;
use super::plan::{self, Pilot};
use super::request::Request;
use super::schedule;
use super::stage::{Event, Stage};
use crate::error::{Error, Result};
use crate::trial::End;

/// Runs the trials before block 0 with the first contender whose packets get through; those that
/// do not are marked.
pub(super) fn run(
    request: &Request,
    stage: &mut Stage<'_>,
    common: &Common,
    entrants: &mut [Entrant],
    seed: u64,
) -> Result<Pilot> {
    let of = plan::pilot_trials(request);
    for entrant in entrants.iter_mut().filter(|entrant| entrant.is_racing()) {
        match pilot_with(stage, common, entrant, seed, of)? {
            Piloted::Through(pilot) => return Ok(pilot),
            Piloted::Blocked(evidence) => entrant.blocked = Some(evidence),
        }
    }
    Err(super::run::all_blocked(entrants))
}

enum Piloted {
    Through(Pilot),
    Blocked(String),
}

fn pilot_with(
    stage: &mut Stage<'_>,
    common: &Common,
    entrant: &Entrant,
    seed: u64,
    of: u64,
) -> Result<Piloted> {
    let mut pilot = Pilot { label: entrant.label.clone(), ..Pilot::default() };
    for trial in 0..of {
        let order = common.order(entrant, schedule::pilot_seed(seed, trial));
        stage.observer.on(Event::Pilot { trial: trial + 1, of });
        let mut attempt = || {
            let began = stage.clock.now();
            let end = stage.runner.run(&order);
            let took = stage.clock.now() - began;
            if stage.stopped() {
                return Err(Error::Interrupted);
            }
            Ok((end, took))
        };
        let (mut end, mut took) = attempt()?;
        let again = match &end {
            End::Ran(_) => false,
            End::Blocked(_) => true,
            End::Failed(error) => block::worth_repeating(error),
        };
        if again {
            (end, took) = attempt()?;
        }
        match end {
            End::Ran(record) => {
                pilot.took.push(took);
                if record.valid {
                    pilot.figures.push(record.metrics);
                }
            }
            End::Blocked(evidence) => return Ok(Piloted::Blocked(evidence)),
            End::Failed(error) => return Err(error),
        }
    }
    Ok(Piloted::Through(pilot))
}
