//! Pages of one result, of several, of a study, and of a folder.

use deadheat_result::analysis::derived;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};
use deadheat_race::study::save as studies;
use deadheat_report::ReportInput;
use deadheat_report::html::{EntryContent, IndexEntry, Page, Part, index, page};
use deadheat_result::outcome::Outcome;
use deadheat_result::save;
use deadheat_result::study::outcome::StudyRun;

use super::folder::{FolderContents, reason, search};

/// File name of a folder's page.
pub(super) const INDEX: &str = "index.html";

/// Checks, before a race or a study runs, that its page can be written.
pub(super) fn prepare(file: &Path, option: &str) -> Result<()> {
    if file.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(Error::usage(format!(
            "{} is not a file; {option} takes the name of a file to write or replace",
            file.display()
        )));
    }
    save::prepare(file)
}

/// Returns the page of one result, which is in `file`.
pub(super) fn of_race(outcome: &Outcome, file: &Path) -> String {
    let samples = save::samples_of(file);
    let shown = ReportInput { outcome, samples: samples.as_deref() };
    page(&Page::of(Part { name: name_of(file), shown }))
}

/// Returns one page of several results, and whether all of them are trusted.
pub(super) fn of_several(files: &[PathBuf]) -> Result<(String, bool)> {
    let results: Vec<Outcome> =
        files.iter().map(|file| derived::load(file)).collect::<Result<_>>()?;
    let samples: Vec<Option<PathBuf>> = files.iter().map(|file| save::samples_of(file)).collect();
    let parts = results.iter().zip(&samples).zip(names(files));
    let parts = parts.map(|((outcome, samples), name)| Part {
        name,
        shown: ReportInput { outcome, samples: samples.as_deref() },
    });
    let title = deadheat_report::words::count(files.len() as u64, "race");
    let page = page(&Page { title, parts: parts.collect(), study: None });
    Ok((page, results.iter().all(Outcome::trusted)))
}

/// Returns the page of a study that was run, with its results by race; `place` is its directory or file.
pub(super) fn of_study(
    run: &StudyRun,
    results: &BTreeMap<String, Outcome>,
    place: &Path,
) -> String {
    let found = |id: &String| {
        let outcome = results.get(id)?;
        let file = studies::result_file(run, place, id);
        Some((id.clone(), outcome, file.and_then(|file| save::samples_of(&file))))
    };
    let races: Vec<_> = run.races.iter().filter_map(|race| found(&race.id)).collect();
    let parts = races.iter().map(|(name, outcome, samples)| Part {
        name: name.clone(),
        shown: ReportInput { outcome, samples: samples.as_deref() },
    });
    page(&Page { title: run.study.title.clone(), parts: parts.collect(), study: Some(run) })
}

/// Writes a page of each result and study in `folder` into `out`, and an index of them; returns the number of
/// pages beside the index.
pub(super) fn of_folder(folder: &Path, out: &Path) -> Result<usize> {
    let FolderContents { results, unread } = search(folder)?;
    let files = shown(results);
    if files.is_empty() {
        return Err(Error::usage(format!(
            "{} has no results: none of its files ends in .json or .json.gz",
            folder.display()
        )));
    }
    if out.exists() && !out.is_dir() {
        return Err(Error::usage(format!(
            "{} is not a folder; -o takes the folder to write the pages of {} to",
            out.display(),
            folder.display()
        )));
    }
    fs::create_dir_all(out).map_err(|e| Error::setup(format!("make {}", out.display()), e))?;
    let mut kept = Vec::new();
    let mut taken = BTreeSet::from([INDEX.to_owned()]);
    let name_of = |file: &Path| file.strip_prefix(folder).unwrap_or(file).display().to_string();
    kept.extend(unread.into_iter().map(|(below, why)| (name_of(&below), PageEntry::Not(why))));
    for file in &files {
        let relative = name_of(file);
        kept.push((relative.clone(), keep(file, out, &page_name(&relative, &mut taken))?));
    }
    // The newest first; files that cannot be shown last.
    kept.sort_by(|(a, one), (b, other)| other.started().cmp(one.started()).then(a.cmp(b)));
    let entries: Vec<IndexEntry<'_>> = kept.iter().map(|(file, kept)| kept.entry(file)).collect();
    let title = format!("Results in {}", folder.display());
    write(&out.join(INDEX), &index(&title, &entries))?;
    Ok(kept.iter().filter(|(_, kept)| !matches!(kept, PageEntry::Not(_))).count())
}

/// Entry of the index for a file with a written page. Series of trials are dropped, to save memory.
enum PageEntry {
    Race(Box<Outcome>, String),
    Study(Box<StudyRun>, String),
    Not(String),
}

impl PageEntry {
    fn started(&self) -> &str {
        match self {
            PageEntry::Race(outcome, _) => &outcome.started,
            PageEntry::Study(run, _) => &run.started,
            PageEntry::Not(_) => "",
        }
    }

    fn entry<'a>(&'a self, file: &str) -> IndexEntry<'a> {
        let found = match self {
            PageEntry::Race(outcome, page) => EntryContent::Race { outcome, page: page.clone() },
            PageEntry::Study(run, page) => EntryContent::Study { run, page: page.clone() },
            PageEntry::Not(why) => EntryContent::Unreadable { why: why.clone() },
        };
        IndexEntry { file: file.to_owned(), found }
    }
}

/// Writes the page of a file. For a file that cannot be read, the entry has the reason, and the other pages are
/// written.
fn keep(file: &Path, out: &Path, name: &str) -> Result<PageEntry> {
    let why = |error: Error| Ok(PageEntry::Not(reason(file, &error)));
    if is_study(file) {
        let (run, results) = match studies::judged(file) {
            Ok(read) => read,
            Err(error) => return why(error),
        };
        write(&out.join(name), &of_study(&run, &results, file))?;
        return Ok(PageEntry::Study(Box::new(run), name.to_owned()));
    }
    match derived::load(file) {
        Ok(mut outcome) => {
            write(&out.join(name), &of_race(&outcome, file))?;
            outcome.trials.iter_mut().for_each(|trial| {
                trial.record.intervals.clear();
                trial.record.far_intervals.clear();
                trial.record.load_intervals.clear();
                trial.record.load_far_intervals.clear();
            });
            Ok(PageEntry::Race(Box::new(outcome), name.to_owned()))
        }
        Err(error) => why(error),
    }
}

fn is_study(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".gz") == studies::FILE
}

/// Returns the results in a folder that are shown: races of a study are in its page, and not again.
fn shown(results: Vec<PathBuf>) -> Vec<PathBuf> {
    let studies: BTreeSet<PathBuf> = results
        .iter()
        .filter(|file| is_study(file))
        .filter_map(|file| file.parent().map(Path::to_path_buf))
        .collect();
    let is_shown = |file: &PathBuf| {
        is_study(file) || !file.parent().is_some_and(|folder| studies.contains(folder))
    };
    results.into_iter().filter(is_shown).collect()
}

/// Returns a unique name for the page of `file`: `a/b.json` has `a-b.html`.
fn page_name(file: &str, taken: &mut BTreeSet<String>) -> String {
    let stem = file.trim_end_matches(".gz").trim_end_matches(".json");
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let stem: String = stem.chars().map(plain).collect();
    let stem = stem.trim_matches(['.', '-']);
    let stem = if stem.is_empty() { "result" } else { stem };
    let mut name = format!("{stem}.html");
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{stem}-{number}.html");
    }
    name
}

/// Returns the text that identifies a result among others on a page.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".gz").trim_end_matches(".json").to_owned()
}

/// Returns the names of several results; whole paths where files of one name are in different folders.
fn names(files: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = files.iter().map(|file| name_of(file)).collect();
    let is_unique = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let whole = files.iter().map(|file| file.display().to_string());
    short.iter().zip(whole).map(|(n, path)| if is_unique(n) { n.clone() } else { path }).collect()
}

pub(super) fn write(file: &Path, page: &str) -> Result<()> {
    fs::write(file, page).map_err(|e| Error::setup(format!("write {}", file.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_names_of_their_own() {
        let mut taken = BTreeSet::from([INDEX.to_owned()]);
        let mut name = |file: &str| page_name(file, &mut taken);
        assert_eq!(name("a/b.json"), "a-b.html");
        assert_eq!(name("a-b.json.gz"), "a-b-2.html");
        assert_eq!(name("index.json"), "index-2.html");
        assert_eq!(name("../é \"<x.json"), "x.html");
        assert_eq!([name(".json"), name("é.json")], ["result.html", "result-2.html"]);
    }

    #[test]
    fn results_of_one_name_are_told_apart_by_their_folders() {
        let files = ["a/x.json", "b/x.json", "b/y.json.gz"].map(PathBuf::from);
        assert_eq!(names(&files), ["a/x.json", "b/x.json", "y"]);
    }
}
