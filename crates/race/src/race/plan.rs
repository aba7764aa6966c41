//! Plan of a race, fixed before block 0, so that no result can move it: placement, trial length, blocks,
//! looks.
//!
//! The trials before block 0 (the pilot) run one contender against itself. They warm up the environment, and
//! measure the duration of a trial and the scatter between trials. They compare nothing, so their results may shape
//! the plan. Half-way, the number of blocks is estimated again from the scatter of the blocks so far, which does
//! not depend on the leader; and again before the last look, if the blocks do not reach the planned resolution.

use super::cost::{BlockCost, most};
use super::enough::TimeLimit;
use super::pilot::Pilot;
use super::request::{
    CheckedRequest, DEFAULT_BLOCKS, DEFAULT_BUDGET, LONGEST_UNASKED, MOST_BLOCKS, Request,
};
use deadheat_base::error::{Error, Result};
use deadheat_base::figures::{percent, wait};
use deadheat_base::time::Nanos;
use deadheat_records::placement::Placement;
use deadheat_result::analysis::claims::{alpha, claimed, claims, looks};
use deadheat_result::outcome::{DEFAULT_MARGIN, Entrant, RecordedPlan, RecordedRequest, Replan};
use deadheat_stats::{self as stats, Plan, quantile};

/// Planned resolution, as a share of the margin. Even if the scatter is larger than in the pilot, the resolution
/// then stays below the margin.
const AIM: f64 = 0.75;

/// Minimum number of blocks that a race plans, if it may choose. Half of them are enough to estimate the scatter
/// again, which the few trials of a calm pilot understate.
const FEWEST: u64 = 12;

/// Blocks per spare block in the time for a verdict.
pub const SPARE: u64 = 4;

/// Fixed plan, and the time the race may take.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedPlan {
    /// Fixed plan.
    pub fixed: RecordedPlan,
    /// Limit of the race's duration.
    pub limit: TimeLimit,
}

/// Fixes the plan of a checked request. `elapsed` is the used part of the budget, `cost` the expected duration of blocks, and
/// `placement` the pilot's placement with its reason.
///
/// # Errors
/// [`Error::Usage`] if the time is too short for a verdict, or if a requested resolution takes longer than the
/// limit; each with a remedy.
pub(super) fn fix(
    request: &Request,
    CheckedRequest { metrics, entrants, .. }: &CheckedRequest,
    placement: (Placement, String),
    pilot: &Pilot,
    (elapsed, cost): (Nanos, BlockCost),
) -> Result<FixedPlan> {
    if let Some(earlier) = &request.plan {
        return Ok(FixedPlan { fixed: earlier.clone(), limit: request.limit() });
    }
    let task = PlanInput {
        request,
        claims: claims(entrants, metrics),
        cost,
        scatter: claimed(metrics).filter_map(|metric| pilot.scatter(metric)).reduce(f64::max),
        elapsed,
    };
    let (blocks_max, limit) = if pilot.is_refused {
        (request.asked.blocks.unwrap_or(DEFAULT_BLOCKS).max(1), request.limit())
    } else {
        task.blocks()?
    };
    let whole = usize::try_from(blocks_max).unwrap_or(usize::MAX);
    let (workload, workload_reason) =
        pilot.work.as_ref().map(|(work, why)| (work.to_string(), why.clone())).unzip();
    // A single contender makes no claim, but its control is tested like one.
    // No look may end a race of all blocks, so the error is for the last.
    let plan = if request.asked.all_blocks { Plan::at_the_end } else { Plan::new };
    let looks = plan(whole, task.claims.max(1), alpha(request.asked.confidence));
    let fixed = RecordedPlan {
        margin: request.asked.margin.unwrap_or(DEFAULT_MARGIN),
        margin_reason: match request.asked.margin {
            Some(_) => "asked for".to_owned(),
            None => "the default".to_owned(),
        },
        placement: placement.0.to_string(),
        placement_reason: placement.1,
        idle: None,
        idle_reason: None,
        blocks_max,
        looks: looks.looks,
        any_time: looks.any_time,
        claims: task.claims as u64,
        workload,
        workload_reason,
        replans: Vec::new(),
        quantile_definition: quantile::DEFINITION.to_owned(),
    };
    Ok(FixedPlan { fixed, limit })
}

/// Returns the time that a race over a line with this round trip takes at least for a verdict, before anything has run;
/// `None` if that is not known: the work has an open length, or no round trip was measured.
///
/// # Errors
/// [`Error::Usage`] as of [`fix`], if not even that fits the time.
pub(super) fn expect(
    request: &Request,
    CheckedRequest { metrics, entrants, pairings, .. }: &CheckedRequest,
    round_trip: Option<Nanos>,
) -> Result<Option<Nanos>> {
    let Some(round_trip) = round_trip.filter(|_| request.plan.is_none()) else { return Ok(None) };
    let lasts = |entrant: &&Entrant| -> Option<u64> {
        let planned = pairings.get(entrant.id)?.as_ref()?.task.info().planned?;
        Some(planned.0.saturating_add(round_trip.0.saturating_mul(ROUND_TRIPS_OF_TRIAL)))
    };
    let of = |is_floor: bool| -> Option<u64> {
        let own = entrants.iter().filter(|one| one.is_racing() && one.floor == is_floor);
        own.map(|entrant| lasts(&entrant)).sum()
    };
    let first = entrants.iter().find(|entrant| entrant.is_racing() && !entrant.floor);
    let trial = first.as_ref().and_then(lasts);
    let (Some(trial), Some(racing), Some(floors)) = (trial, of(false), of(true)) else {
        return Ok(None);
    };
    let input = PlanInput {
        request,
        claims: claims(entrants, metrics),
        cost: BlockCost { block: Nanos(racing + trial), floors: Nanos(floors) },
        scatter: None,
        elapsed: Nanos(FEWEST_PILOT_TRIALS.saturating_mul(trial)),
    };
    input.blocks()?;
    let fewest = request.fewest(input.claims);
    Ok((fewest > 0).then(|| input.takes_at_least(fewest)))
}

/// Round trips that a trial takes beside its work: two handshakes, the signal to start and the reports.
const ROUND_TRIPS_OF_TRIAL: u64 = 4;

/// Least number of trials of a pilot that has something to estimate.
const FEWEST_PILOT_TRIALS: u64 = 2;

/// Data for planning the number of blocks of a race.
struct PlanInput<'a> {
    request: &'a Request,
    claims: usize,
    /// Expected duration of blocks.
    cost: BlockCost,
    /// Scatter of the log-ratio of a block in the pilot.
    scatter: Option<f64>,
    elapsed: Nanos,
}

impl PlanInput<'_> {
    /// Returns the maximum number of blocks, and the time limit for them.
    fn blocks(&self) -> Result<(u64, TimeLimit)> {
        let request = self.request;
        let most_asked =
            if request.asked.every_ns.is_some() { MOST_BLOCKS } else { DEFAULT_BLOCKS };
        let asked = request.asked.blocks.unwrap_or(most_asked).max(1);
        let needed = self.needed();
        let RecordedRequest { resolve, budget_ns, blocks, .. } = request.asked;
        if let (Some(aim), None, None) = (resolve, budget_ns, blocks) {
            let blocks = needed.unwrap_or(most_asked);
            let takes = self.takes(blocks);
            if takes > LONGEST_UNASKED {
                return Err(self.too_fine(aim, takes));
            }
            // The scatter may be larger than in the pilot.
            let limit = TimeLimit::Unasked(Nanos(takes.0.saturating_mul(2)));
            return Ok((blocks.min(MOST_BLOCKS), limit));
        }
        let fewest = request.fewest(self.claims);
        let (limit, time) = match request.limit() {
            TimeLimit::None => return Ok((self.planned(needed, asked, asked), TimeLimit::None)),
            TimeLimit::Asked(limit) if fewest > 0 && self.takes_at_least(fewest) > limit => {
                return Err(self.too_short(fewest));
            }
            TimeLimit::Asked(limit) => (TimeLimit::Asked(limit), limit),
            TimeLimit::Unasked(limit) if self.takes_surely(fewest) > limit.max(LONGEST_UNASKED) => {
                return Err(self.too_short(fewest));
            }
            // A verdict fits the default, if all goes well.
            TimeLimit::Unasked(limit) if self.takes_at_least(fewest) <= limit => {
                (TimeLimit::Unasked(limit), limit)
            }
            // The user did not ask for the default, so it extends for long trials.
            TimeLimit::Unasked(limit) => {
                let limit = limit.max(self.takes_surely(fewest));
                (TimeLimit::Unasked(limit), limit)
            }
        };
        let room = most(|blocks| self.takes(blocks) <= time).clamp(1, asked);
        Ok((self.planned(needed, asked, room), limit))
    }

    /// Returns the planned number of blocks: the needed number if it is open, and at most the number that fits.
    fn planned(&self, needed: Option<u64>, asked: u64, room: u64) -> u64 {
        let is_open = self.request.leaves_blocks_open();
        match needed {
            Some(needed) if is_open && self.claims > 0 => needed.min(room),
            _ => asked.min(room),
        }
    }

    /// Returns the number of blocks that reach the planned resolution, with 80 % power; `None` if the scatter is
    /// not known.
    fn needed(&self) -> Option<u64> {
        Some(needed(self.scatter?, self.request, self.claims))
    }

    fn takes(&self, blocks: u64) -> Nanos {
        self.elapsed.saturating_add(self.cost.of_blocks(
            0,
            blocks,
            self.request.asked.every_ns.map(Nanos),
        ))
    }

    /// Returns the minimum time for `blocks` blocks: their own, and one block more.
    fn takes_at_least(&self, blocks: u64) -> Nanos {
        let spare = self.cost.of_blocks(0, blocks + 1, None);
        self.takes(blocks).max(self.elapsed.saturating_add(spare))
    }

    /// Returns a time in which `blocks` blocks surely end, although their duration is known from one contender only
    /// and invalid trials are repeated.
    fn takes_surely(&self, blocks: u64) -> Nanos {
        let paced = self.takes(blocks);
        let spare = self.cost.of_blocks(0, blocks + blocks.div_ceil(SPARE), None);
        paced.max(self.elapsed.saturating_add(spare))
    }

    fn too_short(&self, fewest: u64) -> Error {
        let takes = self.takes_surely(fewest);
        let limit = match self.request.asked.budget_ns.map(Nanos) {
            Some(limit) => format!("{limit} is too short"),
            None => {
                let longest = wait(LONGEST_UNASKED);
                format!(
                    "the {longest} that a race takes at most unless asked for more are too short"
                )
            }
        };
        let (verdicts, on) = match self.claims {
            1 => ("a verdict takes", String::new()),
            n => ("verdicts take", format!(" on {n} claims")),
        };
        Error::usage(format!(
            "{limit}: {verdicts} at least {fewest} blocks of {} each{on}, after {} for the trials before them, and room for \
             {} more; write --budget {}s or more, make a block shorter by fewer contenders or shorter trials, or write \
             --blocks 1 for figures without a verdict",
            self.cost.block,
            self.elapsed,
            fewest.div_ceil(SPARE),
            // Leave time for the trials before the first block.
            takes.0.saturating_add(takes.0 / 10).div_ceil(1_000_000_000),
        ))
    }

    fn too_fine(&self, aim: f64, takes: Nanos) -> Error {
        let room = DEFAULT_BUDGET.0 / self.cost.block.0.max(1);
        let level = level(self.request.asked.confidence, self.claims);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let now = self.scatter.and_then(|scatter| stats::resolution(scatter, room, level));
        let now = now.map_or_else(String::new, |now| {
            let budget = wait(DEFAULT_BUDGET);
            format!("; this machine resolves {} in {budget}", percent(now))
        });
        Error::usage(format!(
            "--resolve {} would take {}{now}; ask for less, or give the time with --budget",
            percent(aim),
            wait(takes)
        ))
    }
}

/// Returns the number of blocks with which a race of this scatter reaches its planned resolution.
fn needed(scatter: f64, request: &Request, claims: usize) -> u64 {
    let margin = request.asked.margin.unwrap_or(DEFAULT_MARGIN);
    aimed(scatter, request.asked.resolve, margin, request.asked.confidence, claims)
}

fn aimed(scatter: f64, resolve: Option<f64>, margin: f64, confidence: f64, claims: usize) -> u64 {
    let aim = resolve.unwrap_or(AIM * margin);
    let blocks = stats::blocks_for(scatter, aim, level(confidence, claims)).max(FEWEST);
    blocks.max(Plan::fewest_blocks(claims.max(1), alpha(confidence)) as u64)
}

/// Returns the two-sided level of one claim at the last look.
fn level(confidence: f64, claims: usize) -> f64 {
    let last = Plan::new(100, claims.max(1), alpha(confidence));
    last.looks.last().map_or(alpha(confidence), |look| look.alpha) / claims.max(1) as f64
}

/// Returns true if `after` blocks of this scatter reach the race's target resolution.
pub(super) fn is_resolved(
    fixed: &RecordedPlan,
    asked: &RecordedRequest,
    scatter: f64,
    after: u64,
) -> bool {
    let claims = usize::try_from(fixed.claims).unwrap_or(usize::MAX);
    let wanted = asked.resolve.unwrap_or(fixed.margin);
    stats::blocks_for(scatter, wanted, level(asked.confidence, claims)) <= after
}

/// Estimates the number of blocks again after `after` of them, from the scatter alone: the needed number, and at
/// most `room`. Changes `fixed`, and returns true if it did.
pub(super) fn again(
    fixed: &mut RecordedPlan,
    asked: &RecordedRequest,
    scatter: f64,
    after: u64,
    room: u64,
) -> bool {
    let claims = usize::try_from(fixed.claims).unwrap_or(usize::MAX);
    let needed = aimed(scatter, asked.resolve, fixed.margin, asked.confidence, claims);
    let to = needed.min(after.saturating_add(room)).clamp(after + 1, MOST_BLOCKS);
    let from = std::mem::replace(&mut fixed.blocks_max, to);
    let done = usize::try_from(after).unwrap_or(usize::MAX);
    let whole = usize::try_from(to).unwrap_or(usize::MAX);
    let planned = looks(fixed, asked.confidence).replanned(done, whole);
    (fixed.looks, fixed.any_time) = (planned.looks, planned.any_time);
    fixed.replans.push(Replan { after, from, to, scatter });
    from != to
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{Metric, Metrics};

    /// Returns a pilot on a request's first claim, with these figures, 10 ms each.
    fn pilot(metrics: &[Metric], figures: &[f64]) -> Pilot {
        let name = &claimed(metrics).next().unwrap().name;
        let one = |figure: &f64| Metrics::from([(name.clone(), *figure)]);
        Pilot {
            took: vec![Nanos::from_millis(10); figures.len()],
            figures: figures.iter().map(one).collect(),
            label: "tcp".into(),
            ..Pilot::default()
        }
    }

    fn plan(request: &Request, figures: &[f64]) -> Result<FixedPlan> {
        let checked = request.check().unwrap();
        let pilot = pilot(&checked.metrics, figures);
        let common = request.common(checked.pairings.clone(), Placement::SameCore);
        let placement = (Placement::SameCore, String::new());
        let spent =
            (Nanos::from_millis(100), BlockCost::expected(&common, &checked.entrants, &pilot));
        fix(request, &checked, placement, &pilot, spent)
    }

    fn fixed(request: &Request, figures: &[f64]) -> RecordedPlan {
        plan(request, figures).unwrap().fixed
    }

    const CALM: [f64; 6] = [150.0, 100.0, 100.5, 99.5, 100.2, 99.8];
    const WILD: [f64; 6] = [100.0, 100.0, 150.0, 80.0, 120.0, 90.0];

    #[test]
    fn the_margin_is_the_users_whatever_the_noise() {
        for figures in [&CALM[..], &WILD[..], &WILD[..2]] {
            assert_eq!(fixed(&Request::new(["tcp", "udp"]), figures).margin, 0.05);
            assert_eq!(fixed(&Request::new(["tcp", "udp"]).margin(0.1), figures).margin, 0.1);
        }
    }

    #[test]
    fn noise_takes_blocks_and_a_finer_resolution_more_of_them() {
        let blocks = |figures: &[f64]| fixed(&Request::new(["tcp", "udp"]), figures).blocks_max;
        // A scatter of 0.6 % resolves 3.75 % in fewer blocks than are needed to estimate it; 33 % takes hundreds.
        assert_eq!(blocks(&CALM), 12);
        assert!(blocks(&WILD) > 500, "{}", blocks(&WILD));
        let finer = fixed(&Request::new(["tcp", "udp"]).resolve(0.003), &CALM).blocks_max;
        assert!(finer > 2 * blocks(&CALM), "{finer}");
    }

    #[test]
    fn a_resolution_that_takes_for_ever_is_refused_with_what_it_would_take() {
        let ask = |aim| plan(&Request::new(["tcp", "udp"]).resolve(aim), &WILD);
        let said = ask(0.0001).unwrap_err().to_string();
        assert!(said.contains("--resolve 0 % would take") || said.contains("days"), "{said}");
        assert!(said.contains("this machine resolves"), "{said}");
        let planned = ask(0.02).unwrap();
        assert!(matches!(planned.limit, TimeLimit::Unasked(limit) if limit > DEFAULT_BUDGET));
    }

    /// 10 ms a trial, three contenders and the control: 40 ms a block; 100 ms are used.
    #[test]
    fn blocks_fit_the_budget() {
        let ask = || Request::new(["tcp", "udp", "udp"]);
        let blocks = |request: Request| fixed(&request, &WILD).blocks_max;
        assert_eq!(blocks(ask().budget(Nanos::from_millis(1_100))), 25);
        assert_eq!(blocks(ask().blocks(12)), 12);
        assert_eq!(blocks(ask().blocks(5).budget(Nanos::from_millis(300))), 5);
    }

    #[test]
    fn a_budget_without_room_for_a_verdict_is_refused_with_one_that_has_it() {
        let ask = Request::new(["tcp", "udp", "udp"]).budget(Nanos::from_millis(300));
        let said = plan(&ask, &WILD).unwrap_err().to_string();
        assert!(said.contains("at least 7 blocks") && said.contains("--budget 1s"), "{said}");
        assert!(
            plan(&ask.clone().blocks(12), &WILD).is_err(),
            "as many as decide, and no time for them"
        );
        assert!(said.starts_with("300 ms is too short") && said.contains("--blocks 1"), "{said}");
        assert!(plan(&ask.blocks(5), &WILD).is_ok());
        // The default budget is not a request: trials of a minute each.
        let checked = Request::new(["tcp", "udp", "udp"]);
        let cost = |seconds| BlockCost { block: Nanos::from_secs(seconds), floors: Nanos::ZERO };
        let task = PlanInput {
            request: &checked,
            claims: 3,
            cost: cost(240),
            scatter: None,
            elapsed: Nanos::from_secs(60),
        };
        // Time for the seven blocks of a verdict, and a quarter more.
        assert_eq!(task.blocks().unwrap(), (9, TimeLimit::Unasked(Nanos::from_secs(2_220))));
        let task = PlanInput { cost: cost(420), ..task };
        let said = task.blocks().unwrap_err().to_string();
        assert!(said.starts_with("the 60 min that a race takes at most"), "{said}");
        assert!(
            said.contains(
                "7 blocks of 420 s each on 3 claims, after 60.0 s for the trials before them"
            ),
            "{said}"
        );
        let alone = Request::new(["tcp"]).budget(Nanos::from_millis(130));
        assert!(plan(&alone, &WILD).is_ok());
    }

    /// `race tcp udp icmp --to HOST`, 20 ms away.
    #[test]
    fn a_known_round_trip_plans_the_race_before_anything_runs() {
        let at = |request: Request, ms: u64| {
            let round_trip = Some(Nanos::from_millis(ms));
            let request = Request { round_trip, ..request.to("far.example") };
            expect(&request, &request.check().unwrap(), round_trip)
        };
        let ask = || Request::new(["tcp", "udp", "icmp"]);
        for ms in [1, 5, 25, 50] {
            let takes = at(ask(), ms).unwrap().unwrap();
            assert!(takes < DEFAULT_BUDGET, "{ms} ms: {takes}");
        }
        for budget in [1, 8, 20].map(Nanos::from_secs) {
            let said = at(ask().budget(budget), 50).unwrap_err().to_string();
            assert!(
                said.contains(&format!("{budget} is too short: a verdict takes at least 6 blocks")),
                "{said}"
            );
            // The budget that is named is enough.
            let named = said.split("--budget ").nth(1).unwrap();
            let named: u64 = named.split('s').next().unwrap().parse().unwrap();
            assert!(at(ask().budget(Nanos::from_secs(named)), 50).is_ok(), "{said}");
        }
        assert!(at(ask().budget(Nanos::from_secs(1)).blocks(1), 50).is_ok(), "figures only");
        assert_eq!(expect(&ask(), &ask().check().unwrap(), None).unwrap(), None);
    }

    #[test]
    fn looks_share_the_error_over_all_claims() {
        let fixed = fixed(&Request::new(["tcp", "udp", "udp"]).blocks(30), &CALM);
        assert_eq!(fixed.claims, 3);
        let sum: f64 = fixed.looks.iter().map(|look| look.alpha).sum();
        assert!((sum + fixed.any_time - 0.05).abs() < 1e-12);
        assert_eq!(fixed.looks.last().map(|look| look.blocks), Some(30));
        assert_eq!(fixed.looks, looks(&fixed, 0.95).looks);
    }

    #[test]
    fn a_kernel_that_answers_competes_only_where_asked_or_among_its_like() {
        let floors = |request: Request| -> Vec<bool> {
            request.check().unwrap().entrants.iter().map(|entrant| entrant.floor).collect()
        };
        assert_eq!(floors(Request::new(["tcp", "udp", "icmp"])), [false, false, true]);
        assert_eq!(floors(Request::new(["icmp", "icmp"])), [false, false]);
        assert_eq!(floors(Request::new(["udp", "icmp"]).claims_all()), [false, false]);
        let fixed = fixed(&Request::new(["tcp", "icmp", "udp"]), &CALM);
        assert_eq!(fixed.claims, 1);
    }

    #[test]
    fn blocks_are_planned_anew_from_the_scatter() {
        let request = Request::new(["tcp", "udp"]);
        let mut fixed = fixed(&request, &CALM);
        let from = fixed.blocks_max;
        assert!(again(&mut fixed, &request.asked(), 0.1, 6, 500));
        assert!(fixed.blocks_max > from, "{fixed:?}");
        let sum: f64 = fixed.looks.iter().map(|look| look.alpha).sum();
        assert!((sum + fixed.any_time - 0.05).abs() < 1e-12 && fixed.replans.len() == 1);
        let mut tight = fixed.clone();
        again(&mut tight, &request.asked(), 0.1, 20, 5);
        assert_eq!(tight.blocks_max, 25);
    }
}
