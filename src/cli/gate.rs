//! `race --gate`: a race against its baseline, for continuous integration.

use std::path::{Path, PathBuf};

use super::folder;
use deadheat_base::error::{Error, Result};
use deadheat_race::race::Request;
use deadheat_race::race::gate::{check, check_baseline, first};
use deadheat_report::{against, comment, compare, markdown};
use deadheat_result::analysis::derived;
use deadheat_result::analysis::gate::Judgement;
use deadheat_result::analysis::gate::first::FirstJudgement;
use deadheat_result::outcome::Outcome;

/// Runs of the same race, read from files.
pub(super) struct Runs {
    /// Name of the set for people: the file, or the folder with its number of runs.
    pub(super) name: String,
    races: Vec<Outcome>,
}

impl Runs {
    /// Reads the results that `places` name: files, and folders of results.
    pub(super) fn read(places: &[PathBuf]) -> Result<Runs> {
        let mut races = Vec::new();
        for place in places {
            if place.is_dir() {
                let files = folder::search(place)?.results;
                if files.is_empty() {
                    return Err(Error::usage(format!("{} has no result in it", place.display())));
                }
                for file in files {
                    races.push(derived::load(&file)?);
                }
            } else {
                races.push(derived::load(place)?);
            }
        }
        let named: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let name = match (&named[..], races.len()) {
            ([only], 1) => only.clone(),
            ([only], runs) => format!("{only} ({runs} runs)"),
            ([first, ..], runs) => format!("{first} and others ({runs} runs)"),
            ([], _) => String::new(),
        };
        Ok(Runs { name, races })
    }

    pub(super) fn races(&self) -> Vec<&Outcome> {
        self.races.iter().collect()
    }
}

/// Name of the baseline that is the first contender of the race itself.
const FIRST: &str = "first";

/// A baseline, known before the race runs.
pub(super) enum Gate {
    /// Earlier runs.
    Runs(Runs),
    /// The first contender of the race, for one of so many races that are judged together.
    First { races: u64 },
}

impl Gate {
    /// Reads the baseline in `places`, `first` or files; refuses it if `replaced`, the file of the race, is in it. `races` is
    /// the number of races that a gate against the first contender has, if given.
    pub(super) fn open(
        places: &[PathBuf],
        races: Option<u64>,
        replaced: Option<&Path>,
    ) -> Result<Gate> {
        let is_first = is_first(places)?;
        if is_first {
            let races = races.unwrap_or(1);
            first::confidence(1.0, races)?;
            return Ok(Gate::First { races });
        }
        if races.is_some() {
            return Err(Error::usage(
                "--gate-races shares the error of a gate among races whose baseline is their first contender; it \
                 goes with --gate first",
            ));
        }
        let is_replaced = |place: &&PathBuf| replaced.is_some_and(|file| is_same(place, file));
        if let Some(place) = places.iter().find(is_replaced) {
            return Err(Error::usage(format!(
                "--gate: the race would overwrite its own baseline, {}; choose another file with -o",
                place.display()
            )));
        }
        if let Some(file) = replaced
            && let Some(folder) = places.iter().find(|place| is_in(file, place))
        {
            return Err(Error::usage(format!(
                "--gate: the race would be written into its own baseline, {}; choose a file elsewhere with -o, \
                 and move it there once it is to count",
                folder.display()
            )));
        }
        let runs = Runs::read(places)?;
        check_baseline(&runs.races())?;
        if let Some(foreseen) = compare::foreseen(&runs.races()) {
            tell!("gate: before the race: {foreseen}");
        }
        Ok(Gate::Runs(runs))
    }

    /// Gives the race the confidence that it needs so that the gate has `whole`.
    pub(super) fn apply(&self, request: Request, whole: f64) -> Result<Request> {
        Ok(match self {
            Gate::Runs(_) => request.confidence(whole),
            Gate::First { races } => {
                request.confidence(first::confidence(whole, *races)?).gate_races(*races)
            }
        })
    }

    /// Checks that `request` can be compared with the baseline.
    pub(super) fn check(&self, request: &Request) -> Result<()> {
        match self {
            Gate::Runs(runs) => check(&runs.races(), request),
            Gate::First { .. } => first::check(request),
        }
    }

    /// Judges the change of the contenders since the baseline.
    pub(super) fn judge<'a>(&'a self, race: &'a Outcome) -> GateJudgement<'a> {
        match self {
            Gate::Runs(runs) => GateJudgement::Runs {
                judgement: Judgement::of(&runs.races(), &[race]),
                baseline: &runs.name,
            },
            Gate::First { .. } => GateJudgement::First(FirstJudgement::of(&[race])),
        }
    }
}

/// Returns true if the baseline is the first contender.
///
/// # Errors
/// [`Error::Usage`] if files are named beside it.
pub(super) fn is_first(places: &[PathBuf]) -> Result<bool> {
    let is_first = |place: &PathBuf| place.as_os_str() == FIRST;
    match places {
        [only] => Ok(is_first(only)),
        several if several.iter().any(is_first) => Err(Error::usage(
            "--gate first: the baseline is the first contender, so there are no files to compare with; a file or \
             folder of that name is ./first",
        )),
        _ => Ok(false),
    }
}

/// Judgement of a gate, ready to be shown.
pub(super) enum GateJudgement<'a> {
    /// Against earlier runs.
    Runs { judgement: Judgement, baseline: &'a str },
    /// Against the first contender.
    First(FirstJudgement<'a>),
}

impl GateJudgement<'_> {
    /// Prints to standard error whether any contender got worse.
    pub(super) fn print(&self) {
        for line in self.lines() {
            tell!("gate: {line}");
        }
    }

    /// Returns its sentences.
    fn lines(&self) -> Vec<String> {
        match self {
            GateJudgement::Runs { judgement, baseline } => compare::judged(judgement, baseline),
            GateJudgement::First(judgement) => against::judged(judgement),
        }
    }

    /// Returns the judgement as a section of a report in `format`, if that is Markdown and does not say it itself.
    pub(super) fn beside(&self, format: &str) -> Option<String> {
        let is_beside = match self {
            GateJudgement::Runs { .. } => [comment::ID, markdown::ID].contains(&format),
            // A comment is this judgement.
            GateJudgement::First(_) => format == markdown::ID,
        };
        is_beside.then(|| compare::gate_in_markdown(self.lines()))
    }

    /// Returns true if a contender is worse.
    pub(super) fn is_worse(&self) -> bool {
        match self {
            GateJudgement::Runs { judgement, .. } => judgement.is_worse(),
            GateJudgement::First(judgement) => judgement.is_worse(),
        }
    }

    /// Returns true if the gate could not judge although the race may be trusted, such as for a baseline without figures.
    pub(super) fn is_doubtful(&self) -> bool {
        match self {
            GateJudgement::Runs { judgement, .. } => judgement.is_doubtful(),
            GateJudgement::First(judgement) => judgement.is_doubtful(),
        }
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    a == b || real(a).is_some_and(|a| real(b) == Some(a))
}

/// Returns true if a file, which need not exist yet, lies in `folder`.
fn is_in(file: &Path, folder: &Path) -> bool {
    let beside = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match (beside.canonicalize(), folder.canonicalize()) {
        (Ok(beside), Ok(folder)) => folder.is_dir() && beside.starts_with(folder),
        _ => false,
    }
}
