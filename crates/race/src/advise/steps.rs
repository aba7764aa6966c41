//! Steps of the searches for crossovers between the two best contenders in the most important traffic.

use super::course::{AdviceCourse, PlannedRace};
use super::plan::PlanEntry;
use super::rank;
use deadheat_base::time::Nanos;
use deadheat_path::PathSpec;
use deadheat_result::advise::axis::Axis;
use deadheat_result::advise::outcome::{Crossover, Purpose, RankedContender, VerdictEvidence};
use deadheat_result::advise::search::{Lead, Search, SearchStep};

/// Maximum number of blocks of a step in real time.
const STEP_BLOCKS: u64 = 24;

impl AdviceCourse<'_> {
    /// Searches for crossovers between the two best contenders in the most important traffic.
    pub(super) fn search(&mut self, places: &[RankedContender]) -> Vec<Crossover> {
        let plan = self.plan;
        let entry = &plan.entries[0];
        let Some((first, others)) = places.split_first().filter(|_| !self.is_stopped) else {
            return Vec::new();
        };
        let Some(first) = self.carrier(&first.contender) else { return Vec::new() };
        let against = |placed: &RankedContender| {
            self.verdict(entry, &first, &self.carrier(&placed.contender)?)
        };
        let compared: Vec<VerdictEvidence> = others.iter().filter_map(against).collect();
        if compared.is_empty() {
            let traffic = &entry.considered.name;
            self.not_searched.push(format!("crossovers: no two were compared in `{traffic}`"));
        }
        // A lead can change; without a lead, a dead heat can end. An open verdict can do neither.
        let of = |wanted: fn(Lead) -> bool| compared.iter().position(|one| wanted(one.lead));
        let leads = of(|lead| matches!(lead, Lead::First | Lead::Second));
        let Some(at) = leads.or_else(|| of(|lead| lead == Lead::Tie)) else {
            let open = compared.iter().map(|pair| {
                format!("crossovers of {} and {}: undecided here", pair.first, pair.second)
            });
            self.not_searched.extend(open);
            return Vec::new();
        };
        let base = compared[at].clone();
        let pair = [base.first.clone(), base.second.clone()];
        let path = match plan.in_virtual_time() {
            Some(path) if pair.iter().all(|typed| entry.simulated.contains_key(typed)) => path,
            _ => &plan.path,
        };
        let mut searches = self.searches(entry, &base, path);
        // Alternate between the searches, so that each has its end before any is refined.
        while !self.is_stopped {
            let mut moved = false;
            for search in &mut searches {
                moved |= self.step(entry, search, &pair, path);
            }
            if !moved {
                break;
            }
        }
        let is_virtual = matches!(path, PathSpec::Simulated(_));
        let [first, second] = pair;
        let crossover = |search: Search| Crossover {
            axis: search.axis,
            first: first.clone(),
            second: second.clone(),
            base: search.base,
            lead: search.lead,
            file: base.file.clone(),
            end: search.end,
            found: search.found(),
            open: search.open(),
            steps: search.steps,
            is_virtual,
        };
        searches.into_iter().filter(|search| !search.steps.is_empty()).map(crossover).collect()
    }

    /// Returns the contender that carries the most important traffic for a candidate.
    fn carrier(&self, name: &str) -> Option<String> {
        self.plan.candidates.iter().find(|one| one.name == name)?.carries[0].clone()
    }

    /// Returns a search for each end of each axis.
    fn searches(
        &mut self,
        entry: &PlanEntry,
        base: &VerdictEvidence,
        path: &PathSpec,
    ) -> Vec<Search> {
        let mut searches = Vec::new();
        for axis in Axis::ALL {
            match axis.of(path) {
                Ok(at) => searches.extend(
                    axis.ends(at, entry.bounds)
                        .into_iter()
                        .map(|end| Search::new(axis, at, base.lead, end)),
                ),
                Err(why) => self.not_searched.push(format!("{}: {why}", axis.name())),
            }
        }
        searches
    }

    /// Runs the next step of a search; returns false if there is none, or no time for it.
    fn step(
        &mut self,
        entry: &PlanEntry,
        search: &mut Search,
        pair: &[String; 2],
        path: &PathSpec,
    ) -> bool {
        let Some(value) = search.next().filter(|_| !self.is_stopped) else { return false };
        let axis = search.axis;
        let path = axis.changed(path, value);
        let is_virtual = matches!(path, PathSpec::Simulated(_));
        let raced = entry.whole(&path);
        let blocks = if is_virtual { self.task.virtual_blocks.div_ceil(2) } else { STEP_BLOCKS };
        let costs = if is_virtual { self.virtual_time(&raced, 2, blocks) } else { raced.costs(2) };
        let has_time = self.plan.is_virtual() || costs < self.left();
        if !has_time {
            let narrower = if search.steps.is_empty() { "" } else { ", not narrowed further" };
            let end = axis.text(search.end);
            let note = format!("{} towards {end}{narrower}: no time left", axis.name());
            if !self.not_searched.contains(&note) {
                self.not_searched.push(note);
            }
            return false;
        }
        let budget = Nanos(self.left().0.min(costs.0.saturating_mul(2)));
        let at = axis.text(value).replace('%', "pct");
        let typed = |typed: &String| {
            if is_virtual {
                entry.simulated.get(typed).unwrap_or(typed).clone()
            } else {
                typed.clone()
            }
        };
        let typed = [typed(&pair[0]), typed(&pair[1])];
        let ran = self.run(PlannedRace {
            name: format!("{}-{}-{at}", entry.considered.name, axis.name()),
            entry,
            raced: &raced,
            purpose: Purpose::Search,
            path: &path,
            contenders: &typed,
            budget: (!is_virtual).then_some(budget),
            blocks,
        });
        let lead = ran.and_then(|outcome| rank::verdict(outcome, &typed[0], &typed[1]));
        let lead = lead.map_or(Lead::Open, |(lead, _)| lead);
        let file = self.races.last().and_then(|ran| ran.file.clone()).unwrap_or_default();
        search.put(SearchStep { value, lead, file });
        true
    }
}
