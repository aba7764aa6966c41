//! Runs a study: one race after another into a directory, each saved while it runs and judged after it.
//!
//! A second run into the same directory continues: complete races are retained, and an interrupted race is resumed
//! from its next block.

use deadheat_result::analysis::derived;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::check::CheckedStudy;
use super::judge::{self, Extent, judge};
use super::lock::lock;
use super::{plan, save};
use crate::race::alongside::SideBySide;
use crate::race::resume::is_unfinished;
use crate::race::{RaceContext, Request, resume};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::panics::contained;
use deadheat_host::folder_lock::FolderLock;
use deadheat_result::date;
use deadheat_result::outcome::{Outcome, Program, Status};
use deadheat_result::study::model::RacePlan;
use deadheat_result::study::outcome::{FORMAT, RaceRun, Setting, StudyRun};

/// Task: a study to run, with its options.
#[derive(Debug)]
pub struct StudyTask<'a> {
    /// The study's name.
    pub name: &'a str,
    /// The study.
    pub study: &'a CheckedStudy,
    /// Setting of the run.
    pub setting: Setting,
    /// Ids of races that run in full at any setting.
    pub full: Vec<String>,
    /// Seed of each race; random if absent.
    pub seed: Option<u64>,
    /// Labels of each result.
    pub labels: BTreeMap<String, String>,
    /// Directory for results; created if it does not exist.
    pub dir: &'a Path,
    /// Time of day.
    pub started: SystemTime,
    /// Name of this host.
    pub host: String,
}

impl StudyTask<'_> {
    /// Returns a race at its setting.
    fn plan(&self, race: &RacePlan) -> RacePlan {
        race.at(if self.full.contains(&race.id) { Setting::Full } else { self.setting })
    }

    /// # Errors
    /// [`Error::Usage`] if the study has no race with a given name.
    fn check(&self) -> Result<()> {
        let ids: Vec<&str> = self.study.study.races.iter().map(|race| race.id.as_str()).collect();
        if let Some(id) = self.full.iter().find(|id| !ids.contains(&id.as_str())) {
            return Err(unknown("race", id, &ids));
        }
        for race in &self.study.study.races {
            // A race that this build cannot run is reported in its place.
            let request = self.request(race)?;
            if let Ok(checked) = request.check()
                && let Some(why) = request.too_few_blocks(&checked)
            {
                return Err(Error::usage(format!("race `{}` of `{}`: {why}", race.id, self.name)));
            }
        }
        Ok(())
    }

    /// Returns the queue of the races, each with its position in the study.
    fn queue(&self, most: usize, cpus: usize) -> Result<SideBySide<(usize, &RacePlan)>> {
        let mut races = Vec::new();
        for (at, race) in self.study.study.races.iter().enumerate() {
            let request = self.request(race)?;
            // A race that this build cannot run is reported in its place.
            let checked = request.check().ok();
            let rate = checked.and_then(|checked| request.rate_beside_others(&checked));
            races.push((rate, (at, race)));
        }
        Ok(SideBySide::new(races, most, cpus))
    }

    /// Returns the request for a race, with at least the blocks that the study's claims on it need.
    fn request(&self, race: &RacePlan) -> Result<Request> {
        // Claims of the study need intervals of their own, even if the race's claims are decided earlier.
        let least = judge::blocks_for(self.study, &race.id, self.extent());
        let request = plan::request(&self.plan(race))?.written_in("the study", &self.study.allowed);
        Ok(request.at_least(least))
    }

    fn extent(&self) -> Extent<'_> {
        Extent { setting: self.setting, full: &self.full }
    }
}

/// Job: a race to run or to resume.
#[derive(Debug)]
pub struct StudyJob<'a> {
    /// The race at the setting.
    pub plan: &'a RacePlan,
    /// Position in the study, from 1.
    pub place: usize,
    /// Number of races in the study.
    pub of: usize,
    /// Request for the race.
    pub request: Request,
    /// File for its result.
    pub file: PathBuf,
    /// Earlier result to resume from; absent if there is none.
    before: Option<Outcome>,
}

impl StudyJob<'_> {
    /// Runs the race in `context`, which saves to its file.
    ///
    /// # Errors
    /// As [`Request::run_with`] and [`resume()`].
    pub fn on(self, context: RaceContext<'_>) -> Result<Outcome> {
        match self.before {
            Some(before) => resume(before, None, &self.request, context),
            None => self.request.run_with(context),
        }
    }
}

/// Result of running a study.
#[derive(Debug)]
pub struct FinishedStudy {
    /// Run as it is saved.
    pub run: StudyRun,
    /// Results of its races, by id.
    pub results: BTreeMap<String, Outcome>,
    /// Reason for the end.
    pub end: StudyEnd,
}

/// Reason for the end of a study's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyEnd {
    /// Every race is complete, or cannot run on this host.
    Whole,
    /// Interrupted by the user.
    Interrupted,
    /// Failed: a race failed; the others ran.
    Failed,
}

/// Runs a study with up to `most` races at once on a host with `cpus` CPUs; `race` creates the context of each race and
/// runs it there ([`StudyJob::on`]). A race that others would change, or that would change others, runs alone. A failure
/// of a race costs only that one; after an interruption none begins.
///
/// # Errors
/// [`Error::Usage`] if the directory has other contents; [`Error::Setup`] if it is not writable. An error of a race is in
/// the race's part of the result.
pub fn run(
    task: &StudyTask<'_>,
    (most, cpus): (usize, usize),
    race: &(dyn Fn(StudyJob<'_>) -> Result<Outcome> + Sync),
) -> Result<FinishedStudy> {
    task.check()?;
    let races = task.queue(most, cpus)?;
    let course = StudyCourse::begin(task)?;
    course.save()?;
    let shared = Mutex::new((course, Ok(())));
    let open = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let job = |(at, plan): (usize, &RacePlan)| {
        let plan = task.plan(plan);
        let job = {
            let (course, failed) = &mut *open();
            if failed.is_err() || course.end == StudyEnd::Interrupted {
                return;
            }
            course.job(at, &plan)
        };
        let ran = match job {
            Ok(Some(job)) => Ok(contained(&format!("race {}", plan.id), || race(job))),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let (course, failed) = &mut *open();
        if let Err(error) = ran.and_then(|result| course.note(at, &plan, result)) {
            *failed = Err(error);
        }
    };
    let work = || while races.run_next(job) {};
    std::thread::scope(|scope| {
        let threads = most.min(task.study.study.races.len());
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let (course, failed) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed?;
    Ok(FinishedStudy { run: course.run, results: course.results, end: course.end })
}

struct StudyCourse<'a> {
    task: &'a StudyTask<'a>,
    run: StudyRun,
    results: BTreeMap<String, Outcome>,
    end: StudyEnd,
    _lock: FolderLock,
}

impl<'a> StudyCourse<'a> {
    /// Starts a new run, or continues the interrupted one in this directory.
    fn begin(task: &'a StudyTask<'a>) -> Result<StudyCourse<'a>> {
        let study = &task.study.study;
        let plans = study.races.iter();
        let blank = StudyRun {
            study_format: FORMAT,
            deadheat: Program { version: env!("CARGO_PKG_VERSION").to_owned() },
            name: task.name.to_owned(),
            study: study.clone(),
            setting: task.setting,
            full: task.full.clone(),
            started: date::rfc3339(task.started),
            host: task.host.clone(),
            races: plans.map(|plan| pending(&plan.id)).collect(),
            beside: Vec::new(),
            rulings: Vec::new(),
        };
        // Lock an existing directory before it is read, and a new one as soon as it is created.
        let there = task.dir.is_dir().then(|| lock(task.dir)).transpose()?;
        let run = match earlier_run(task.dir)? {
            Some(earlier) => check_same(earlier, &blank, task.dir)?,
            None => create_directory(task.dir, study.races.iter().map(|plan| &plan.id))
                .map(|()| blank)?,
        };
        let held = there.map_or_else(|| lock(task.dir), Ok)?;
        let mut course =
            StudyCourse { task, run, results: BTreeMap::new(), end: StudyEnd::Whole, _lock: held };
        course.read_results()?;
        Ok(course)
    }

    /// Reads the existing results, and checks each against its plan.
    fn read_results(&mut self) -> Result<()> {
        for plan in &self.task.study.study.races {
            let file = self.file(&plan.id);
            if !file.exists() {
                continue;
            }
            let (found, request) = (derived::load(&file)?, self.request(plan)?);
            if found.asked != request.asked() {
                return Err(Error::usage(format!(
                    "{} is the result of another race than `{}` of this study; give another \
                     directory with -o",
                    file.display(),
                    plan.id
                )));
            }
            if let Some(seed) = self.task.seed.filter(|seed| *seed != found.seed) {
                return Err(Error::usage(format!(
                    "{} was begun with seed {}, not {seed}; leave --seed out, or give another \
                     directory with -o",
                    file.display(),
                    found.seed
                )));
            }
            self.results.insert(plan.id.clone(), found);
        }
        self.judge();
        Ok(())
    }

    /// Returns the job for the race at `at`; `None` if the race is complete.
    fn job<'p>(&mut self, at: usize, plan: &'p RacePlan) -> Result<Option<StudyJob<'p>>> {
        let file = self.file(&plan.id);
        let before = match self.results.get(&plan.id) {
            Some(done) if !is_unfinished(done) => {
                self.set_state(at, self.race_state(plan, None));
                return Ok(None);
            }
            before => before.cloned(),
        };
        let request = self.request(plan)?;
        let of = self.task.study.study.races.len();
        Ok(Some(StudyJob { plan, place: at + 1, of, request, file, before }))
    }

    fn request(&self, plan: &RacePlan) -> Result<Request> {
        let study = &self.task.study.study;
        let mut request = self.task.request(plan)?.title(title(&study.title, &plan.id));
        if let Some(seed) = self.task.seed {
            request = request.seed(seed);
        }
        request = request.label("study", self.task.name).label("race", &plan.id);
        for (key, value) in &self.task.labels {
            request = request.label(key, value);
        }
        Ok(request)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.task.dir.join(format!("{id}.json"))
    }

    /// Records and saves the state of a race after its run.
    fn note(&mut self, at: usize, plan: &RacePlan, result: Result<Outcome>) -> Result<()> {
        let state = match result {
            Ok(outcome) => {
                match outcome.status {
                    Status::Decided | Status::Budget => {}
                    Status::Interrupted | Status::Running => self.end = StudyEnd::Interrupted,
                    Status::Failed => self.end = StudyEnd::Failed,
                }
                self.results.insert(plan.id.clone(), outcome);
                self.race_state(plan, None)
            }
            Err(Error::Interrupted) => {
                self.end = StudyEnd::Interrupted;
                self.race_state(plan, Some("stopped before its first block".into()))
            }
            Err(error) => {
                if matches!(error, Error::Peer { .. } | Error::Nonsense { .. } | Error::Data { .. })
                {
                    self.end = StudyEnd::Failed;
                }
                self.race_state(plan, Some(error.to_string()))
            }
        };
        self.set_state(at, state);
        self.save()
    }

    fn set_state(&mut self, at: usize, state: RaceRun) {
        if let Some(race) = self.run.races.get_mut(at) {
            *race = state;
        }
        self.judge();
    }

    /// Returns the state of a race, and the reason if it is not complete.
    fn race_state(&self, plan: &RacePlan, why_not: Option<String>) -> RaceRun {
        let there = self.results.get(&plan.id);
        RaceRun {
            id: plan.id.clone(),
            file: there.map(|_| format!("{}.json", plan.id)),
            why_not: why_not.or_else(|| there.and_then(broken_off)),
            trusted: there.is_some_and(Outcome::trusted),
        }
    }

    fn judge(&mut self) {
        let judged = judge(self.task.study, &self.results, self.task.extent());
        (self.run.beside, self.run.rulings) = (judged.beside, judged.rulings);
    }

    fn save(&self) -> Result<()> {
        save::save(&self.run, self.task.dir)
    }
}

fn pending(id: &str) -> RaceRun {
    RaceRun { id: id.to_owned(), file: None, why_not: Some("not run yet".into()), trusted: false }
}

/// Returns the reason why a race is not complete, or `None` if it is.
fn broken_off(outcome: &Outcome) -> Option<String> {
    match outcome.status {
        Status::Decided | Status::Budget => None,
        Status::Interrupted | Status::Running => Some("stopped before its end".into()),
        Status::Failed => outcome.why_failed().map(str::to_owned),
    }
}

/// Returns the title of a race, cut to the maximum length of a title.
fn title(study: &str, race: &str) -> String {
    let study: String = study.chars().take(200).collect();
    format!("{study}: {race}")
}

/// Returns the earlier run in this directory, if any.
fn earlier_run(dir: &Path) -> Result<Option<StudyRun>> {
    let file = save::file_of(dir);
    if !dir.is_dir() || !file.exists() {
        return Ok(None);
    }
    if file.extension().is_some_and(|ending| ending == "gz") {
        return Err(Error::usage(format!(
            "{} holds a study that was run and packed; give another directory with -o",
            dir.display()
        )));
    }
    save::load(&file).map(Some)
}

/// Returns the earlier run if it has the same study and setting.
fn check_same(earlier: StudyRun, now: &StudyRun, dir: &Path) -> Result<StudyRun> {
    let dir = dir.display();
    let refuse = |what: String| {
        Err(Error::usage(format!("{dir} holds {what}; give another directory with -o")))
    };
    if earlier.name != now.name {
        return refuse(format!("the study `{}`", earlier.name));
    }
    if (earlier.setting, &earlier.full) != (now.setting, &now.full) {
        return refuse(format!("this study at the {}", earlier.thoroughness()));
    }
    if earlier.study != now.study {
        return refuse(format!("an earlier version of the study `{}`", earlier.name));
    }
    Ok(earlier)
}

/// Creates the directory for a new run, unless it has results that would be replaced.
fn create_directory<'a>(dir: &Path, mut ids: impl Iterator<Item = &'a String>) -> Result<()> {
    let name = dir.display();
    if dir.exists() && !dir.is_dir() {
        return Err(Error::usage(format!("{name} is not a directory; -o takes one for a study")));
    }
    if let Some(id) = ids.find(|id| dir.join(format!("{id}.json")).exists()) {
        return Err(Error::usage(format!(
            "{name} has a {id}.json already, and no {}; give another directory with -o",
            save::FILE
        )));
    }
    fs::create_dir_all(dir).map_err(|error| {
        Error::setup_advice(format!("make the directory {name}"), error, "choose another with -o")
    })
}

#[cfg(test)]
mod tests;
