//! Runs a race up to its first block: hosts, pilot, plan.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use super::absence::{PATIENCE, active};
use super::block::TrialSettings;
use super::cost::BlockCost;
use super::plan::{self, FixedPlan};
use super::request::{CheckedRequest, Request};
use super::{commands, pilot, quiet};
use crate::race::block_loop::BlockLoop;
use crate::race::context::{RaceContext, RaceEvent, SilentObserver};
use deadheat_base::error::Result;
use deadheat_base::rng::fresh_seed;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Metric, Role, Unit};
use deadheat_contract::workload::SharedTask;
use deadheat_host::idle::ClaimKind;
use deadheat_host::placement::Load;
use deadheat_records::placement::Placement;
use deadheat_result::analysis::claims;
use deadheat_result::date;
use deadheat_result::outcome::{Entrant, Outcome};
use deadheat_trial::Pairing;
use deadheat_trial::agent::intervals;
use deadheat_trial::control::remote::{Credentials, ServerWait};
use deadheat_trial::lead::agents::Agents;

impl Request {
    /// Runs the race on `context`.
    ///
    /// Once a block is complete there is always an outcome: its `status` shows how the race ended, and its warnings
    /// have the reason of a failure (`trial_failed`, `save_failed`).
    ///
    /// # Errors
    /// Any error of [`Request::check`]; a contender that this host cannot run; a host without readable facts; a
    /// trial that failed twice before the first block was complete; a file that cannot be written before the first
    /// block. [`deadheat_base::error::Error::Interrupted`] before the plan.
    pub fn run_with(&self, context: RaceContext<'_>) -> Result<Outcome> {
        let measured = context.runner.far_link().and_then(|link| link.round_trip());
        let round_trip = measured.and_then(|measured| step_of(&ROUND_TRIPS, measured));
        Request { round_trip, ..self.clone() }.run_over(context, measured)
    }

    /// Runs the race over a line with this round trip, as far as it was measured.
    fn run_over(&self, mut context: RaceContext<'_>, round_trip: Option<Nanos>) -> Result<Outcome> {
        let mut checked = self.check()?;
        for contender in &checked.contenders {
            contender.check_at(self.place())?;
        }
        let seed = match self.seed {
            Some(seed) => seed,
            None => fresh_seed()?,
        };
        let (host, peer_host) = context.runner.hosts()?;
        if let Some(takes) = plan::expect(self, &checked, round_trip)? {
            context.observer.on(RaceEvent::Expected { takes });
        }
        // Before the host settles: a copy disturbs it.
        let copies = commands::copies(&context, &checked.contenders, &checked.entrants)?;
        let placement = context.runner.placement(checked.placement, checked.load)?;
        let (asked, claimed) = (self.asked_idle(), claimed(&checked.metrics));
        let idle = context.runner.own_host().map(|own| own.idle(asked, claimed)).transpose()?;
        // A race of too few blocks for any verdict has nothing to protect by a wait.
        let decides = self
            .asked
            .blocks
            .is_none_or(|most| most >= claims::fewest_for(1, self.asked.confidence));
        let probe = if decides { quiet::settle(&mut context) } else { quiet::begin(&mut context) };
        // The time in which the host settles does not count.
        let began = context.clock.now();
        let common = self.common(checked.pairings.clone(), placement.0);
        let mut common = TrialSettings { copies, ..common };
        let entrants = &mut checked.entrants;
        rule_out(entrants, &mut context, checked.load)?;
        commands::meet(&mut context, &checked.contenders, entrants, &common.copies)?;
        let pilot = match pilot::run(self, &mut context, &common, entrants, seed) {
            Ok(pilot) => pilot,
            Err(error) => {
                context.drop_samples_part();
                return Err(error);
            }
        };
        commands::describe(&mut context, &common, entrants)?;
        let elapsed = context.clock.now() - began;
        let cost = BlockCost::expected(&common, entrants, &pilot);
        let spent = (elapsed, cost);
        let FixedPlan { mut fixed, limit } = plan::fix(self, &checked, placement, &pilot, spent)?;
        if let Some((work, _)) = &pilot.work {
            common.run_as(work);
        } else if let Some(planned) = &fixed.workload {
            common.run_as(&SharedTask::parse(planned)?);
        }
        if let Some((idle, why)) = idle {
            (fixed.idle, fixed.idle_reason) = (Some(idle.name().to_owned()), Some(why));
        }
        let CheckedRequest { contenders, entrants, metrics, factors, network, .. } = checked;
        let outcome = Outcome {
            title: self.title.clone(),
            labels: self.labels.clone(),
            started: date::rfc3339(context.started),
            seed,
            host,
            peer_host,
            probe,
            metrics,
            factors,
            contenders: entrants,
            ..Outcome::new(self.asked(), fixed, context.runner.path())
        };
        let mut course = BlockLoop::new(context, contenders, common, network, outcome);
        if self.plan.is_none() && self.leaves_blocks_open() {
            course = course.replanning();
        }
        course.within(limit, began).at_least(self.least_blocks).expecting(cost).drive()
    }

    /// Runs the race with real agents: on this machine, or against its server. The environment has the server's
    /// secret, if any, in `DEADHEAT_SECRET`, and its key in `DEADHEAT_PIN`. Saves no file.
    ///
    /// The program's `main` must begin with [`deadheat_trial::process::enter`].
    ///
    /// As [`Request::run_with`]; if the server cannot be reached.
    /// As [`Request::run_with`]; if the server cannot be reached.
    pub fn run(&self) -> Result<Outcome> {
        self.check()?;
        if let Some(mut simulation) = self.simulation()? {
            let clock = simulation.clock();
            let mut observer = SilentObserver;
            let context = RaceContext::new(&mut simulation, &mut observer);
            return self.run_with(context.at(&clock, SystemTime::now()));
        }
        let credentials = Credentials::from_environment()?;
        let mut waiting = ServerWait { stop: &AtomicBool::new(false), on_full: &mut |_| {} };
        let far = self.far(&credentials, &mut waiting)?;
        let mut agents = Agents::new(far).overwrite(self.overwrite()).blast(self.blast);
        self.run_with(RaceContext::new(&mut agents, &mut SilentObserver))
    }

    /// Returns a note to show before the race if the work may offer more than the path carries, for the first
    /// condition under which it does.
    pub fn beforehand(&self, checked: &CheckedRequest) -> Option<String> {
        let mut works = checked.pairings.iter().flatten().map(|pairing| &pairing.task);
        works.find_map(|work| work.info().overload.clone())
    }

    /// Returns the settings that all trials of this race share.
    pub(super) fn common(
        &self,
        pairings: Vec<Option<Pairing>>,
        placement: Placement,
    ) -> TrialSettings {
        let interval = self.asked.interval_ns.map_or(intervals::DEFAULT, Nanos);
        TrialSettings { pairings, copies: Arc::default(), placement, interval, patience: PATIENCE }
    }
}

/// Steps to which a measured round trip is rounded up where defaults follow from it, so that two races over one line
/// have the same work.
const ROUND_TRIPS: [Nanos; 5] = [
    Nanos::from_millis(5),
    Nanos::from_millis(25),
    Nanos::from_millis(100),
    Nanos::from_millis(400),
    Nanos::from_millis(1_600),
];

/// Returns the first of `steps` that is not below `time`.
fn step_of(steps: &[Nanos], time: Nanos) -> Option<Nanos> {
    steps.iter().copied().find(|step| *step >= time)
}

/// Returns the quantities of the claims.
pub(super) fn claimed(metrics: &[Metric]) -> ClaimKind {
    let mut claims = metrics.iter().filter(|metric| metric.role == Role::Claim).peekable();
    let is_any = claims.peek().is_some();
    if is_any && claims.all(|metric| metric.unit == Unit::BitRate) {
        ClaimKind::Rates
    } else {
        ClaimKind::Times
    }
}

/// Rules out the cells with a placement that is not possible on this machine.
///
/// # Errors
/// If no cell is left, with the reason for the first.
fn rule_out(entrants: &mut [Entrant], context: &mut RaceContext<'_>, load: Load) -> Result<()> {
    let mut first = None;
    for cell in entrants.iter_mut().filter_map(|entrant| entrant.cell.as_mut()) {
        let (Some(placement), None) = (cell.placement, &cell.infeasible) else { continue };
        if let Err(error) = context.runner.placement(Some(placement), load) {
            cell.infeasible = Some(error.to_string());
            first.get_or_insert(error);
        }
    }
    match first {
        Some(error) if active(entrants).next().is_none() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::absence::none_left;

    #[test]
    fn a_race_that_no_contender_fits_says_why_for_each() {
        let mut entrants = crate::race::testing::outcome(1).contenders;
        entrants[0].not_applicable = Some("no".to_owned());
        let said = none_left(&entrants[..1]).to_string();
        assert_eq!(said, format!("no contender can carry the work; {}: no", entrants[0].label));
    }

    #[test]
    fn claims_of_bulk_data_are_rates_and_those_of_messages_and_connections_are_times() {
        let of =
            |work: &str| claimed(&deadheat_contract::workload::parse(work).unwrap().info().metrics);
        assert_eq!(of("bulk"), ClaimKind::Rates);
        assert_eq!(of("bulk:bytes=1MB"), ClaimKind::Rates);
        for work in ["ping", "ping:load=tcp", "rpc", "connect"] {
            assert_eq!(of(work), ClaimKind::Times, "{work}");
        }
        assert_eq!(claimed(&[]), ClaimKind::Times);
    }
}
