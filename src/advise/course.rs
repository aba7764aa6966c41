//! The course of advice: race after race, the most important traffic first, as far as the time goes.

use super::axis::Axis;
use super::outcome::{Crossover, Evidence, Placed, Purpose, Ran};
use super::plan::{Entry, Plan};
use super::rank;
use super::run::{Job, Task};
use super::search::{Lead, Search, Step};
use crate::error::{Error, Result};
use crate::path::Path;
use crate::race::Request;
use crate::result::outcome::{Outcome, Status};
use crate::time::{Clock, Nanos};
use crate::transport::Contender;

/// Share of the time that the most important traffic may take.
const FIRST_SHARE: f64 = 0.7;

/// Maximum number of blocks of a race in real time; time bounds it first.
const MOST_BLOCKS: u64 = 200;

/// Maximum number of blocks of a step of a search in real time.
const STEP_BLOCKS: u64 = 24;

/// Races so far, and what they found.
pub(super) struct Course<'a> {
    task: &'a Task<'a>,
    plan: &'a Plan,
    clock: &'a dyn Clock,
    began: Nanos,
    race: &'a mut dyn FnMut(Job) -> Result<Outcome>,
    /// Races in the order run, and the result of each.
    pub(super) races: Vec<Ran>,
    pub(super) results: Vec<Option<Outcome>>,
    pub(super) notes: Vec<String>,
    pub(super) not_searched: Vec<String>,
    /// Error of the first race that has no result.
    pub(super) failure: Option<Error>,
    is_stopped: bool,
}

/// Race to be run.
struct Wanted<'a> {
    name: String,
    entry: &'a Entry,
    purpose: Purpose,
    path: &'a Path,
    contenders: &'a [String],
    /// Time for it; `None` in virtual time.
    budget: Option<Nanos>,
    blocks: u64,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        task: &'a Task<'a>,
        plan: &'a Plan,
        clock: &'a dyn Clock,
        race: &'a mut dyn FnMut(Job) -> Result<Outcome>,
    ) -> Course<'a> {
        Course {
            task,
            plan,
            clock,
            began: clock.now(),
            race,
            races: Vec::new(),
            results: Vec::new(),
            notes: Vec::new(),
            not_searched: Vec::new(),
            failure: None,
            is_stopped: false,
        }
    }

    /// Returns the races of some traffic that are no steps of a search, those on the path itself first.
    pub(super) fn of(&self, traffic: &str) -> impl Iterator<Item = (&Ran, &Outcome)> {
        let all = || {
            let pairs = self.races.iter().zip(&self.results);
            pairs.filter_map(|(ran, outcome)| Some((ran, outcome.as_ref()?)))
        };
        let is_of = move |ran: &Ran, purpose| ran.traffic == traffic && ran.purpose == purpose;
        let compared = all().filter(move |(ran, _)| is_of(ran, Purpose::Comparison));
        compared.chain(all().filter(move |(ran, _)| is_of(ran, Purpose::Screening)))
    }

    /// Returns the verdict on two contenders in some traffic.
    pub(super) fn verdict(&self, traffic: &str, a: &str, b: &str) -> Option<Evidence> {
        self.of(traffic).find_map(|(ran, outcome)| {
            let (lead, verdict) = rank::verdict(outcome, a, b)?;
            Some(Evidence {
                traffic: traffic.to_owned(),
                first: a.to_owned(),
                second: b.to_owned(),
                lead,
                note: verdict.note.clone(),
                file: ran.file.clone()?,
                is_virtual: ran.is_virtual,
            })
        })
    }

    /// Compares the contenders in each traffic.
    pub(super) fn compare(&mut self) {
        let plan = self.plan;
        for (at, entry) in plan.entries.iter().enumerate() {
            let considered = &entry.considered;
            match &considered.contenders[..] {
                _ if self.is_stopped => return,
                [] => self.notes.push(format!("`{}`: no contender carries it", considered.name)),
                [only] => {
                    self.notes.push(format!("`{}`: {only} alone carries it", considered.name));
                }
                all if plan.is_virtual() => {
                    self.run(Wanted {
                        name: considered.name.clone(),
                        entry,
                        purpose: Purpose::Comparison,
                        path: &plan.path,
                        contenders: all,
                        budget: None,
                        blocks: self.task.virtual_blocks,
                    });
                }
                all => {
                    let screened = self.screen(entry, all);
                    self.meet(entry, &self.finalists(entry, all, &screened), at == 0);
                }
            }
        }
    }

    /// Screens the protocols in user space among `all` in virtual time, and returns them.
    fn screen(&mut self, entry: &Entry, all: &[String]) -> Vec<String> {
        let Some(path) = &self.plan.simulated else { return Vec::new() };
        let screened: Vec<String> =
            all.iter().filter(|typed| is_userspace(typed)).cloned().collect();
        if screened.len() < 2 || all.len() < 3 {
            return Vec::new();
        }
        let ran = self.run(Wanted {
            name: format!("{}-virtual", entry.considered.name),
            entry,
            purpose: Purpose::Screening,
            path,
            contenders: &screened,
            budget: None,
            blocks: self.task.virtual_blocks,
        });
        if ran.is_some_and(Outcome::trusted) { screened } else { Vec::new() }
    }

    /// Returns those that meet on the path, the most wanted first: of the screened the best that carries all traffic,
    /// then those that were not screened, then the best of the screened at all.
    fn finalists(&self, entry: &Entry, all: &[String], screened: &[String]) -> Vec<String> {
        let carries_all = |typed: &&String| self.plan.eligible.contains(typed);
        let best = |of: Vec<&String>| {
            let ahead = |a: usize, b: usize| {
                let found = self.verdict(&entry.considered.name, of[a], of[b]);
                found.is_some_and(|evidence| evidence.lead == Lead::First)
            };
            let places = rank::places(of.len(), ahead);
            let first = of.iter().zip(&places).min_by_key(|(_, place)| **place);
            first.map(|(typed, _)| (*typed).clone())
        };
        let (able, unable): (Vec<&String>, Vec<&String>) =
            all.iter().filter(|typed| !screened.contains(typed)).partition(carries_all);
        let mut finalists: Vec<String> =
            best(screened.iter().filter(carries_all).collect()).into_iter().collect();
        finalists.extend(able.into_iter().cloned());
        let best = best(screened.iter().collect());
        finalists.extend(best.filter(|best| !finalists.contains(best)));
        finalists.extend(unable.into_iter().cloned());
        finalists
    }

    /// Has as many of `finalists` meet on the path as the time allows.
    fn meet(&mut self, entry: &Entry, finalists: &[String], is_first: bool) {
        let left = self.left();
        let share = if is_first { (left.0 as f64 * FIRST_SHARE) as u64 } else { left.0 };
        let fits = |n: &usize| entry.costs(*n).0 <= share;
        // Two at least, if need be in all the time there is.
        let two = finalists.len() >= 2 && entry.costs(2) <= left;
        let most = (2..=finalists.len()).rev().find(fits).or(two.then_some(2));
        let Some(n) = most else {
            if finalists.len() >= 2 && !self.is_stopped {
                self.notes.push(format!(
                    "`{}` was not raced on the path: that takes {} at least; --budget gives more time",
                    entry.considered.name,
                    spoken(entry.costs(2))
                ));
            }
            return;
        };
        let (met, others) = finalists.split_at(n);
        if !others.is_empty() {
            self.notes.push(format!(
                "`{}`: {} not raced on the path, for want of time; --budget gives more",
                entry.considered.name,
                others.join(", ")
            ));
        }
        let costs = entry.costs(n).0;
        let budget = Nanos(share.max(costs).min(costs.saturating_mul(2)));
        self.run(Wanted {
            name: entry.considered.name.clone(),
            entry,
            purpose: Purpose::Comparison,
            path: &self.plan.path,
            contenders: met,
            budget: Some(budget),
            blocks: MOST_BLOCKS,
        });
    }

    /// Searches for crossovers between the two best contenders in the most important traffic.
    pub(super) fn search(&mut self, places: &[Placed]) -> Vec<Crossover> {
        let plan = self.plan;
        let entry = &plan.entries[0];
        let Some((first, others)) = places.split_first().filter(|_| !self.is_stopped) else {
            return Vec::new();
        };
        let traffic = &entry.considered.name;
        let against = |placed: &Placed| self.verdict(traffic, &first.contender, &placed.contender);
        let mut compared: Vec<Evidence> = others.iter().filter_map(against).collect();
        if compared.is_empty() {
            self.not_searched.push(format!("crossovers: no two were compared in `{traffic}`"));
        }
        // What is undecided here has no verdict that could change.
        let decided = compared.iter().position(|evidence| evidence.lead != Lead::Open);
        let open = compared.iter().take(decided.unwrap_or(compared.len()));
        let open = open.map(|pair| {
            format!("crossovers of {} and {}: undecided here", pair.first, pair.second)
        });
        self.not_searched.extend(open);
        let Some(base) = decided.map(|at| compared.swap_remove(at)) else { return Vec::new() };
        let pair = [base.first.clone(), base.second.clone()];
        let path = match &plan.simulated {
            Some(simulated) if pair.iter().all(|typed| is_userspace(typed)) => simulated,
            _ => &plan.path,
        };
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
        // In turns, so that each has its end before any is refined.
        while !self.is_stopped {
            let mut moved = false;
            for search in &mut searches {
                moved |= self.step(entry, search, &pair, path);
            }
            if !moved {
                break;
            }
        }
        let is_virtual = matches!(path, Path::Simulated(_));
        let [first, second] = pair;
        let tell = |search: Search| Crossover {
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
        searches.into_iter().filter(|search| !search.steps.is_empty()).map(tell).collect()
    }

    /// Makes the next step of a search; `false` if there is none, or no time for it.
    fn step(
        &mut self,
        entry: &Entry,
        search: &mut Search,
        pair: &[String; 2],
        path: &Path,
    ) -> bool {
        let Some(value) = search.next().filter(|_| !self.is_stopped) else { return false };
        let axis = search.axis;
        let path = axis.changed(path, value);
        let is_virtual = matches!(path, Path::Simulated(_));
        if !is_virtual && entry.costs(2) > self.left() {
            let narrower = if search.steps.is_empty() { "" } else { ", not narrowed further" };
            let end = axis.text(search.end);
            let note = format!("{} towards {end}{narrower}: no time left", axis.name());
            if !self.not_searched.contains(&note) {
                self.not_searched.push(note);
            }
            return false;
        }
        let budget = Nanos(self.left().0.min(entry.costs(2).0.saturating_mul(2)));
        let at = axis.text(value).replace('%', "pct");
        let ran = self.run(Wanted {
            name: format!("{}-{}-{at}", entry.considered.name, axis.name()),
            entry,
            purpose: Purpose::Search,
            path: &path,
            contenders: pair,
            budget: (!is_virtual).then_some(budget),
            blocks: if is_virtual { self.task.virtual_blocks } else { STEP_BLOCKS },
        });
        let lead = ran.and_then(|outcome| rank::verdict(outcome, &pair[0], &pair[1]));
        let lead = lead.map_or(Lead::Open, |(lead, _)| lead);
        let file = self.races.last().and_then(|ran| ran.file.clone()).unwrap_or_default();
        search.put(Step { value, lead, file });
        true
    }

    /// Runs a race and notes what came of it.
    fn run(&mut self, wanted: Wanted<'_>) -> Option<&Outcome> {
        let file = format!("{}.json", wanted.name);
        let mut ran = Ran {
            traffic: wanted.entry.considered.name.clone(),
            purpose: wanted.purpose,
            path: self.typed(wanted.path),
            contenders: wanted.contenders.to_vec(),
            is_virtual: matches!(wanted.path, Path::Simulated(_)),
            file: None,
            trusted: false,
            why_not: None,
        };
        let request = self.request(&wanted, &ran.path);
        let result = request.check().and_then(|_| {
            let file = self.task.dir.join(&file);
            (self.race)(Job { name: wanted.name.clone(), request, file })
        });
        let outcome = match result {
            Ok(outcome) => {
                ran.file = Some(file);
                ran.trusted = outcome.trusted();
                ran.why_not = outcome.why_failed().map(str::to_owned);
                self.is_stopped |= matches!(outcome.status, Status::Interrupted | Status::Running);
                Some(outcome)
            }
            Err(error) => {
                self.is_stopped |= matches!(error, Error::Interrupted);
                ran.why_not = Some(error.to_string());
                self.failure.get_or_insert(error);
                None
            }
        };
        if self.is_stopped {
            self.notes.push(format!("stopped by hand during `{}`", wanted.name));
        } else if let Some(why) = &ran.why_not {
            self.notes.push(format!("`{}` has no whole result: {why}", wanted.name));
        } else if let Some(why) = outcome.as_ref().and_then(Outcome::why_not_trusted) {
            let name = &wanted.name;
            let note = format!("`{name}` is not trusted, and none of its verdicts counts: {why}");
            self.notes.push(note);
        }
        self.races.push(ran);
        self.results.push(outcome);
        self.results.last().and_then(Option::as_ref)
    }

    fn request(&self, wanted: &Wanted<'_>, path: &str) -> Request {
        let title: String = self.task.app.title.chars().take(200).collect();
        let mut request = Request::new(wanted.contenders.iter().cloned())
            .workload(&wanted.entry.considered.workload)
            .path(path)
            .blocks(wanted.blocks)
            .title(format!("{title}: {}", wanted.name))
            .label("advise", self.task.name);
        if let Some(seed) = self.task.seed {
            request = request.seed(seed);
        }
        match wanted.budget {
            Some(budget) => request.budget(budget.max(Nanos(1))),
            None => request,
        }
    }

    /// Returns a path as typed: the one that was given in the words in which it was.
    fn typed(&self, path: &Path) -> String {
        if *path == self.plan.path { self.task.path.to_owned() } else { path.to_string() }
    }

    /// Returns the time left.
    fn left(&self) -> Nanos {
        self.task.budget - (self.clock.now() - self.began)
    }
}

/// Returns true if a contender as typed is a protocol in user space, which virtual time can carry.
fn is_userspace(typed: &str) -> bool {
    Contender::parse(typed).is_ok_and(|contender| {
        let transport = &contender.transport;
        transport.userspace().is_some() && transport.needs_real_time().is_none()
    })
}

/// Formats a time to wait for.
fn spoken(span: Nanos) -> String {
    format!("{} s", span.0.div_ceil(1_000_000_000))
}
