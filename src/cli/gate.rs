//! `race --gate`: a race against its baseline, for continuous integration.

use std::path::{Path, PathBuf};

use super::folder;
use crate::analysis::derived;
use crate::error::{Error, Result};
use crate::race::Request;
use crate::race::gate::{Judgement, check, check_baseline};
use crate::report::compare::{judged, judged_in_markdown};
use crate::result::outcome::Outcome;

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

/// A baseline, read before the race runs.
pub(super) struct Gate {
    runs: Runs,
}

impl Gate {
    /// Reads the baseline in `places`; refuses it if `replaced`, the file of the race, is in it.
    pub(super) fn open(places: &[PathBuf], replaced: Option<&Path>) -> Result<Gate> {
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
        Ok(Gate { runs })
    }

    /// Checks that `request` can be compared with the baseline.
    pub(super) fn check(&self, request: &Request) -> Result<()> {
        check(&self.runs.races(), request)
    }

    /// Judges the change of the contenders since the baseline.
    pub(super) fn judge(&self, race: &Outcome) -> GateJudgement<'_> {
        GateJudgement {
            judgement: Judgement::of(&self.runs.races(), &[race]),
            baseline: &self.runs.name,
        }
    }
}

/// Judgement of a gate, ready to be shown.
pub(super) struct GateJudgement<'a> {
    pub(super) judgement: Judgement,
    pub(super) baseline: &'a str,
}

impl GateJudgement<'_> {
    /// Prints to standard error whether any contender got worse.
    pub(super) fn print(&self) {
        for line in judged(&self.judgement, self.baseline) {
            tell!("gate: {line}");
        }
    }

    /// Returns the judgement as a section of a Markdown report.
    pub(super) fn markdown(&self) -> String {
        judged_in_markdown(&self.judgement, self.baseline)
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
