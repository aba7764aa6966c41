//! Results of a study on disk: `study.json` in a directory, beside the results of its races.

use deadheat_result::analysis::derived;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::again::judge_again;
use deadheat_base::error::{Error, Result};
use deadheat_result::outcome::Outcome;
use deadheat_result::study::outcome::{FORMAT, StudyRun};
use deadheat_result::{layout, packed, save};

/// Name of the file.
pub const FILE: &str = "study.json";

/// Maximum size of a file to read, in bytes.
const LARGEST: u64 = 16 << 20;

/// Saves a study's run into its directory, atomically.
///
/// # Errors
/// [`Error::Setup`] with the file and a remedy.
pub fn save(run: &StudyRun, dir: &Path) -> Result<()> {
    save::save(run, &dir.join(FILE))
}

/// Returns the file of a study's run, compressed or not; `place` is its directory or the file itself.
pub fn file_of(place: &Path) -> PathBuf {
    if place.is_dir() { existing(&place.join(FILE)) } else { place.to_owned() }
}

/// Returns `FILE`, or `FILE.gz` if only that exists.
fn existing(file: &Path) -> PathBuf {
    let packed = PathBuf::from(format!("{}.gz", file.display()));
    if !file.exists() && packed.exists() { packed } else { file.to_owned() }
}

/// Returns the directories in `place` that contain a study's run, by name; empty if `place` is one itself.
pub fn within(place: &Path) -> Vec<PathBuf> {
    let was_run = |dir: &PathBuf| dir.is_dir() && file_of(dir).exists();
    if was_run(&place.to_owned()) {
        return Vec::new();
    }
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(was_run).collect();
    found.sort();
    found
}

/// Loads a study's run, from its directory or its file.
///
/// # Errors
/// [`Error::Setup`] if it cannot be read, [`Error::Data`] if it is not a complete run in this format, with a
/// description of its content.
pub fn load(place: &Path) -> Result<StudyRun> {
    let file = file_of(place);
    if place.is_dir() && !file.exists() {
        let name = place.display().to_string();
        return Err(Error::data(name, format!("no study was run here: it has no {FILE}")));
    }
    let text = packed::read(&file, LARGEST)?;
    parse(&text).map_err(|what| Error::data(file.display().to_string(), what))
}

/// Loads the results of a study's races, by id, from the directory of its file.
///
/// # Errors
/// As [`derived::load`], for the first result that cannot be read.
pub fn results(run: &StudyRun, place: &Path) -> Result<BTreeMap<String, Outcome>> {
    let file = file_of(place);
    let dir = file.parent().unwrap_or(Path::new("."));
    let files = run.races.iter().filter_map(|race| Some((&race.id, race.file.as_ref()?)));
    files.map(|(id, file)| Ok((id.clone(), derived::load(&existing(&dir.join(file)))?))).collect()
}

/// Loads the results of a study's races as this version rules on them ([`derived::ruled_anew`]).
///
/// # Errors
/// As [`results`].
pub fn ruled(run: &StudyRun, place: &Path) -> Result<BTreeMap<String, Outcome>> {
    let saved = results(run, place)?;
    Ok(saved.iter().map(|(id, outcome)| (id.clone(), derived::ruled_anew(outcome))).collect())
}

/// Loads a study's run with the results of its races, judged by the rules of this version: older files have rulings
/// by older rules.
///
/// # Errors
/// As [`load`] and [`results`].
pub fn judged(place: &Path) -> Result<(StudyRun, BTreeMap<String, Outcome>)> {
    let mut run = load(place)?;
    let results = ruled(&run, place)?;
    judge_again(&mut run, &results);
    Ok((run, results))
}

/// Returns the result file of a race, beside the study's file.
pub fn result_file(run: &StudyRun, place: &Path, race: &str) -> Option<PathBuf> {
    let found = run.races.iter().find(|one| one.id == race)?;
    Some(existing(&file_of(place).with_file_name(found.file.as_ref()?)))
}

/// Parses a study's run from its JSON.
///
/// # Errors
/// A sentence with the problem.
pub fn parse(text: &[u8]) -> Result<StudyRun, String> {
    check_head(text)?;
    let run: StudyRun = layout::read(text).map_err(|error| error.to_string())?;
    check_references(&run)?;
    Ok(run)
}

/// Checks that the text is JSON, a study's run by this program, in this format.
fn check_head(text: &[u8]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct StudyHead {
        study_format: Option<Value>,
        format: Option<Value>,
        deadheat: Option<Value>,
    }
    let foreign = "this is JSON, but not what `deadheat study run` saves".to_owned();
    let head: StudyHead = save::head(text, &foreign, "")?;
    match (head.study_format.as_ref().and_then(Value::as_u64), head.format, head.deadheat) {
        (Some(format), _, Some(_)) if format == u64::from(FORMAT) => Ok(()),
        (Some(format), _, Some(_)) if format > u64::from(FORMAT) => Err(format!(
            "written by a newer deadheat, study format {format}; this one reads {FORMAT}"
        )),
        (Some(format), _, Some(_)) => {
            Err(format!("study format {format} does not exist; this one reads {FORMAT}"))
        }
        (None, Some(_), Some(_)) => {
            Err("this is a single race; `deadheat report` shows it".to_owned())
        }
        _ => Err(foreign),
    }
}

/// Checks that races, files and rulings match the study, as readers expect.
fn check_references(run: &StudyRun) -> Result<(), String> {
    let plans = run.study.races.iter().map(|plan| &plan.id);
    if !run.races.iter().map(|race| &race.id).eq(plans) {
        return Err("its races are not those of its study".into());
    }
    let claims = run.study.claims.iter().map(|claim| &claim.id);
    if !run.rulings.iter().map(|ruling| &ruling.id).eq(claims) {
        return Err("its rulings are not on the claims of its study".into());
    }
    let mut files = run.races.iter().filter_map(|race| race.file.as_ref());
    match files.find(|file| Path::new(file).file_name().is_none_or(|name| name != file.as_str())) {
        Some(file) => Err(format!("`{file}` is not a file beside it")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
