//! Saving of a race to disk, atomically, and reading it back with checks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

use super::outcome::{FORMAT, Factor, Outcome};
use super::{date, json_path, layout};
use deadheat_base::error::{Error, Result};

/// Maximum size of a file to read, in bytes. A race of 10,000 blocks has about 100 MB.
pub const LARGEST: u64 = 512 << 20;

/// New file with an unused name, reserved for the result of this run. Dropping it removes the file if it is still
/// empty.
#[derive(Debug)]
pub struct FreshFile {
    /// Name of the file.
    pub path: PathBuf,
}

impl FreshFile {
    /// Creates `STEM-YYYYMMDD-HHMMSS.json` (UTC) in the current directory, or the first unused name of
    /// `STEM-YYYYMMDD-HHMMSS-2.json` and so on: two runs in one second get a file each.
    ///
    /// # Errors
    /// [`Error::Setup`] if no file can be created here.
    pub fn make(stem: &str, at: SystemTime) -> Result<FreshFile> {
        let make = |path: &Path| File::options().write(true).create_new(true).open(path);
        fresh(stem, at, ".json", |path| make(path).map(drop)).map(|path| FreshFile { path })
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|there| there.len() == 0) {
            // An empty file that remains does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// New directory with an unused name, for results. Dropping it removes the directory if it is empty.
#[derive(Debug)]
pub struct FreshDirectory {
    /// Name of the directory.
    pub path: PathBuf,
}

impl FreshDirectory {
    /// Creates the directory `STEM-YYYYMMDD-HHMMSS` (UTC) in the current one, or the first unused name of
    /// `STEM-YYYYMMDD-HHMMSS-2` and so on.
    ///
    /// # Errors
    /// [`Error::Setup`] if no directory can be created here.
    pub fn make(stem: &str, at: SystemTime) -> Result<FreshDirectory> {
        fresh(stem, at, "", |path| fs::create_dir(path)).map(|path| FreshDirectory { path })
    }
}

impl Drop for FreshDirectory {
    fn drop(&mut self) {
        // rmdir(2) refuses a directory with results, as it should.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Maximum number of names to try: more than runs can start in a second.
const MOST_NAMES: u32 = 10_000;

fn fresh(
    stem: &str,
    at: SystemTime,
    ending: &str,
    make: impl Fn(&Path) -> io::Result<()>,
) -> Result<PathBuf> {
    let dated = format!("{stem}-{}", date::compact(at));
    let others = (2..=MOST_NAMES).map(|nth| format!("{dated}-{nth}{ending}"));
    let mut last = PathBuf::new();
    for name in std::iter::once(format!("{dated}{ending}")).chain(others) {
        last = PathBuf::from(name);
        match make(&last) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| last.clone()).map_err(|error| explained(&last, error)),
        }
    }
    Err(explained(&last, io::ErrorKind::AlreadyExists.into()))
}

/// Checks that a race can be saved to `file`, before it runs: the directory is writable, and `file` is nothing but
/// a file, because saving replaces it.
///
/// # Errors
/// [`Error::Usage`] for a directory or device, [`Error::Setup`] if the directory is not writable.
pub fn prepare(file: &Path) -> Result<()> {
    let there = fs::metadata(file);
    if there.is_ok_and(|there| !there.is_file()) {
        return Err(Error::usage(format!(
            "{} is not a file; -o takes the name of a file to write or replace",
            file.display()
        )));
    }
    let temporary = beside(file);
    let tried = File::create(&temporary).and_then(|_| fs::remove_file(&temporary));
    tried.map_err(|error| explained(file, error))
}

/// Saves a race, or a value made from races, so that `file` holds either the old state or the new one, even after a
/// crash: it is written beside the file, synced, and renamed over it (rename(2) is atomic); then the directory is
/// synced.
///
/// # Errors
/// [`Error::Setup`] with the file and a remedy. The old state is intact.
pub fn save<T: Serialize>(value: &T, file: &Path) -> Result<()> {
    let temporary = beside(file);
    let saved = write_out(value, &temporary)
        .and_then(|()| keep_mode(file, &temporary))
        .and_then(|()| fs::rename(&temporary, file))
        .and_then(|()| sync_directory(file));
    saved.map_err(|error| {
        // A half-written file is useless; an error in removing it changes nothing.
        let _ = fs::remove_file(&temporary);
        explained(file, error)
    })
}

/// Returns the file of raw samples beside a result: `race.samples` for `race.json` and for `race.json.gz`.
pub fn samples_file(result: &Path) -> PathBuf {
    match result.extension() {
        Some(ending) if ending == "gz" => result.with_extension("").with_extension("samples"),
        _ => result.with_extension("samples"),
    }
}

/// Returns the file of raw samples beside a result, if there is one.
pub fn samples_of(result: &Path) -> Option<PathBuf> {
    let samples = samples_file(result);
    samples.is_file().then_some(samples)
}

/// Reads a race from its JSON.
///
/// # Errors
/// A sentence with the problem.
pub fn parse(text: &[u8]) -> Result<Outcome, String> {
    check_head(text)?;
    let mut outcome: Outcome =
        layout::read(text).map_err(|error| field_with_error(text, &error))?;
    check_references(&outcome)?;
    outcome.settle_trust();
    Ok(outcome)
}

/// Parses the fields that identify a file of this program. `foreign` is the message for other JSON; `whole` ends
/// the message for truncated text.
pub fn head<T: DeserializeOwned>(text: &[u8], foreign: &str, whole: &str) -> Result<T, String> {
    // No saved file is an array. One that is none of JSON, or ends in the middle, is refused as such.
    let read = if text.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice(text).and_then(|_: Value| Err(serde::de::Error::custom("an array")))
    } else {
        layout::read(text)
    };
    read.map_err(|error: serde_json::Error| match error.classify() {
        _ if text.is_empty() => "the file is empty".to_owned(),
        _ if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") => {
            "this is text in UTF-16, as `>` of Windows PowerShell writes it; save it as UTF-8".to_owned()
        }
        _ if is_at_end(&error, text) => {
            let bytes = text.len();
            format!(
                "the file ends in the middle, after {bytes} bytes; it was cut off when copied{whole}"
            )
        }
        Category::Data => foreign.to_owned(),
        _ => format!("this is not JSON: {error}"),
    })
}

/// Checks that the text is JSON, from this program, in this format.
fn check_head(text: &[u8]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct ResultHead {
        format: Option<Value>,
        deadheat: Option<Value>,
        kind: Option<Value>,
    }
    let foreign = "this is JSON, but not a race saved by deadheat; `deadheat import` reads files of other tools";
    let head: ResultHead = head(text, foreign, ", as races are saved whole")?;
    if head.kind.is_some_and(|kind| kind == "map") {
        return Err("this is a map and no single race; `deadheat report` shows it".to_owned());
    }
    let (Some(format), Some(_)) = (head.format, head.deadheat) else {
        return Err(foreign.to_owned());
    };
    match format.as_u64() {
        Some(format) if format == u64::from(FORMAT) => Ok(()),
        Some(newer) if newer > u64::from(FORMAT) => {
            Err(format!("written by a newer deadheat, format {newer}; this one reads {FORMAT}"))
        }
        Some(other) => Err(format!("format {other} does not exist; this one reads {FORMAT}")),
        None => Err(foreign.to_owned()),
    }
}

/// Returns true if reading failed because the text ended. The parser reports a truncated number as an invalid
/// number, so the position decides.
pub fn is_at_end(error: &serde_json::Error, text: &[u8]) -> bool {
    let lines = text.split(|byte| *byte == b'\n');
    let (count, last) = lines.fold((0, 0), |(count, _), line| (count + 1, line.len()));
    error.is_eof() || (error.line(), error.column()) == (count, last)
}

/// Checks that every id refers to a contender, as readers of a race expect.
fn check_references(outcome: &Outcome) -> Result<(), String> {
    let n = outcome.contenders.len();
    let ids = outcome.contenders.iter().enumerate();
    if let Some((place, entrant)) = ids.into_iter().find(|(place, entrant)| entrant.id != *place) {
        return Err(format!("contenders[{place}].id is {}, not {place}", entrant.id));
    }
    check_cells(outcome)?;
    let trials = outcome.trials.iter().map(|trial| trial.contender);
    let summary = outcome.summary.iter().map(|summary| summary.contender);
    let verdicts = outcome.verdicts.iter();
    let control = outcome.control.iter();
    let named = [
        ("trials", trials.max()),
        ("summary", summary.max()),
        ("verdicts", verdicts.map(|v| v.a.max(v.b).max(v.ahead.unwrap_or(0))).max()),
        ("control", control.map(|control| control.contender).max()),
    ];
    match named.into_iter().find(|(_, largest)| largest.is_some_and(|id| id >= n)) {
        Some((what, Some(id))) => Err(format!("{what} name contender {id}, and there are {n}")),
        _ => Ok(()),
    }
}

/// Checks that every cell refers to a contender, and to a level of each factor.
fn check_cells(outcome: &Outcome) -> Result<(), String> {
    for (at, entrant) in outcome.contenders.iter().enumerate() {
        let Some(cell) = &entrant.cell else { continue };
        let known = |(level, factor): (&usize, &Factor)| *level < factor.levels.len();
        let whole = cell.levels.len() == outcome.factors.len()
            && cell.levels.iter().zip(&outcome.factors).all(known)
            && cell.contender < outcome.asked.contenders.len();
        if !whole {
            return Err(format!(
                "contenders[{at}].cell does not fit the factors and the contenders asked for"
            ));
        }
    }
    Ok(())
}

/// Returns the field with the error, and the reason.
fn field_with_error(text: &[u8], error: &serde_json::Error) -> String {
    let path = json_path::of(error, text);
    if path.is_empty() { error.to_string() } else { format!("{path}: {error}") }
}

/// Returns `.race.json.part` for `race.json`: in the same directory, because a rename cannot cross file systems.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.part"))
}

fn write_out<T: Serialize>(value: &T, temporary: &Path) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    write_json(value, &mut file)?;
    file.sync_all()
}

/// Copies the permissions of the replaced file.
fn keep_mode(file: &Path, temporary: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(there) => fs::set_permissions(temporary, there.permissions()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

fn write_json<T: Serialize>(value: &T, file: &mut impl Write) -> io::Result<()> {
    let mut buffered = io::BufWriter::new(file);
    layout::write(value, &mut buffered)?;
    buffered.write_all(b"\n")?;
    buffered.flush()
}

/// Syncs the directory, so that the new name survives a power failure (fsync(2), NOTES).
fn sync_directory(file: &Path) -> io::Result<()> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

/// Returns the error of a file that could not be saved, with what would help.
pub fn explained(file: &Path, error: io::Error) -> Error {
    let op = format!("save {}", file.display());
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space or choose another place with -o; the blocks saved before are intact"
        }
        io::ErrorKind::FileTooLarge => {
            "files may be no larger here (ulimit -f); raise that, or ask for fewer blocks; the blocks \
             saved before are intact"
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "the directory does not exist; make it or choose another place with -o"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a place that can be written with -o"
        }
        _ => "choose another place with -o",
    };
    Error::setup_advice(op, error, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::derived::load;
    use crate::outcome::{Status, Trial};
    use crate::testing;
    use deadheat_contract::measurements::Metrics;

    fn race() -> Outcome {
        let mut outcome = testing::outcome(2);
        outcome.trials.push(Trial {
            block: 0,
            order: 0,
            contender: 1,
            control: false,
            record: testing::record(Metrics::from([("rtt_p50_ns".to_owned(), 12.5)])),
        });
        outcome
    }

    fn refusal(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("race.json");
        fs::write(&file, text).unwrap();
        let error = load(&file).unwrap_err();
        assert!(matches!(error, Error::Data { .. }), "{error}");
        error.to_string()
    }

    fn json() -> Value {
        serde_json::to_value(race()).unwrap()
    }

    #[test]
    fn what_is_saved_is_read_back_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("race.json");
        let mut outcome = race();
        save(&outcome, &file).unwrap();
        outcome.status = Status::Decided;
        save(&outcome, &file).unwrap();
        assert_eq!(load(&file).unwrap(), outcome);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn runs_of_one_second_have_names_of_their_own_and_leave_nothing_empty() {
        let directory = tempfile::tempdir().unwrap();
        let stem = directory.path().join("deadheat").display().to_string();
        let at = SystemTime::UNIX_EPOCH;
        let make = || FreshFile::make(&stem, at).unwrap();
        let threads: Vec<_> = (0..8).map(|_| make).collect();
        let files: Vec<FreshFile> = std::thread::scope(|scope| {
            let running: Vec<_> = threads.iter().map(|make| scope.spawn(make)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut names: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 8);
        assert!(names.contains(&PathBuf::from(format!("{stem}-19700101-000000.json"))));
        assert!(names.contains(&PathBuf::from(format!("{stem}-19700101-000000-8.json"))));
        save(&race(), &names[3]).unwrap();
        let folders = [(); 2].map(|()| FreshDirectory::make(&stem, at).unwrap());
        assert!(folders[1].path.ends_with("deadheat-19700101-000000-2"));
        fs::write(folders[0].path.join("x"), "").unwrap();
        drop((files, folders));
        let mut left: Vec<PathBuf> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut wanted = vec![names[3].clone(), PathBuf::from(format!("{stem}-19700101-000000"))];
        wanted.sort();
        assert_eq!(left, wanted);
    }

    #[test]
    fn a_full_disk_is_named_with_a_remedy() {
        let Ok(mut full) = File::options().write(true).open("/dev/full") else {
            println!("skipped: no /dev/full here");
            return;
        };
        let error = write_json(&race(), &mut full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let said = explained(Path::new("race.json"), error).to_string();
        assert!(said.starts_with("save race.json: "), "{said}");
        assert!(said.contains("free space") && said.contains("intact"), "{said}");
    }

    #[test]
    fn a_failed_save_leaves_the_old_state() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("race.json");
        let old = race();
        save(&old, &file).unwrap();
        // A directory has the name of the temporary file, which stops even root.
        fs::create_dir(beside(&file)).unwrap();
        assert!(save(&testing::outcome(1), &file).is_err());
        assert_eq!(load(&file).unwrap(), old);
        let missing = directory.path().join("no/race.json");
        let said = save(&old, &missing).unwrap_err().to_string();
        assert!(said.contains("directory does not exist"), "{said}");
    }

    #[test]
    fn every_truncation_is_refused_without_a_panic() {
        let text = serde_json::to_string(&race()).unwrap();
        for end in 1..text.len() {
            let error = parse(&text.as_bytes()[..end]).unwrap_err();
            assert!(error.contains("ends in the middle"), "{end}: {error}");
        }
        assert!(refusal("").contains("empty"));
    }

    #[test]
    fn every_changed_byte_is_read_or_refused_without_a_panic() {
        let text = serde_json::to_vec(&race()).unwrap();
        for place in 0..text.len() {
            for byte in [b'"', b'9', b'-', b'}', 0xff] {
                let mut changed = text.clone();
                changed[place] = byte;
                if let Err(error) = parse(&changed) {
                    assert!(!error.is_empty());
                }
            }
        }
    }

    #[test]
    fn foreign_files_are_told_apart() {
        assert!(refusal("{}").contains("not a race saved by deadheat"));
        assert!(refusal("[1, 2]").contains("not a race saved by deadheat"));
        assert!(refusal(r#"{"format": 1}"#).contains("not a race saved by deadheat"));
        assert!(refusal("{}").contains("`deadheat import`"));
        assert!(refusal("hello").contains("not JSON"));
        let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(parse(&wide).unwrap_err().contains("UTF-16"));
        assert!(refusal(&"[".repeat(100_000)).contains("not JSON"));
        let mut newer = json();
        newer["format"] = 2.into();
        newer["trials"] = "in a new shape".into();
        assert!(
            refusal(&newer.to_string())
                .ends_with("written by a newer deadheat, format 2; this one reads 1")
        );
    }

    #[test]
    fn the_field_that_does_not_fit_is_named() {
        let with = |change: &dyn Fn(&mut Value)| {
            let mut race = json();
            change(&mut race);
            refusal(&race.to_string())
        };
        let said = with(&|race| race["trials"][0]["metrics"]["rtt_p50_ns"] = "fast".into());
        assert!(said.contains("trials[0].metrics.rtt_p50_ns: invalid type: string"), "{said}");
        let said = with(&|race| race["contenders"][1]["id"] = (-1).into());
        assert!(said.contains("contenders[1].id: invalid value"), "{said}");
        let said = with(&|race| race["plan"]["margin"] = Value::Null);
        assert!(said.contains("plan.margin: invalid type: null"), "{said}");
        let said = with(&|race| {
            race.as_object_mut().unwrap().remove("host");
        });
        assert!(said.contains("missing field `host`"), "{said}");
    }

    #[test]
    fn ids_that_point_nowhere_are_refused() {
        let mut outcome = race();
        outcome.trials[0].contender = 7;
        let said = refusal(&serde_json::to_string(&outcome).unwrap());
        assert!(said.contains("trials name contender 7, and there are 2"), "{said}");
        let mut outcome = race();
        outcome.contenders[0].id = 1;
        let said = refusal(&serde_json::to_string(&outcome).unwrap());
        assert!(said.contains("contenders[0].id is 1"), "{said}");
    }

    #[test]
    fn a_file_that_is_not_there_is_a_matter_of_set_up() {
        let error = load(Path::new("/nowhere/race.json")).unwrap_err();
        assert!(error.to_string().starts_with("read /nowhere/race.json: "), "{error}");
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("race.json");
        save(&race(), &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        save(&race(), &file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
    }
}
