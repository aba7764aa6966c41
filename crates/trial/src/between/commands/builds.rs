//! Files of a pair of commands that decide what runs, with their digests: programs, and scripts that arguments name.

use deadheat_records::commands::ProgramFile;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

use super::copies::ProgramCopies;
use super::folder::digest;
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::command_line::found;
use deadheat_datapath::transport::commands::CommandPair;

/// Largest file whose digest is computed.
const LARGEST: u64 = 1 << 30;

/// Returns the files of the commands of these sides, each with its digest, in the order of the sides. A file that cannot be
/// read is left out: the commands may read it none the less. The digest is that of the copy that runs, if there is one.
pub fn builds(pair: &CommandPair, sides: &[Side], copies: &ProgramCopies) -> Vec<ProgramFile> {
    let mut known = BTreeMap::new();
    let of = |side: Side| files_of(pair, side).into_iter().map(move |path| (side, path));
    let all = sides.iter().copied().flat_map(of);
    all.filter_map(|(side, path)| {
        let (copy, content) = copies.of_file(pair, &path);
        let whole = || digest(content, &|| true).ok();
        let content = known.entry(path.clone()).or_insert_with(whole).clone()?;
        let path = path.display().to_string();
        Some(ProgramFile { side, path, bytes: content.bytes, sha256: content.sha256, copy })
    })
    .collect()
}

/// Stamps of the files of one side's command: they change with the files, and cost no reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamps(Vec<(PathBuf, Option<[i128; 5]>)>);

impl FileStamps {
    /// Reads the current stamps.
    pub fn of(pair: &CommandPair, side: Side) -> FileStamps {
        let stamp = |path: &Path| {
            let file = path.metadata().ok()?;
            let [device, inode, bytes] = [file.dev(), file.ino(), file.len()].map(i128::from);
            let changed = [file.mtime(), file.mtime_nsec()].map(i128::from);
            Some([device, inode, bytes, changed[0], changed[1]])
        };
        let all = files_of(pair, side).into_iter();
        FileStamps(all.map(|path| (path.clone(), stamp(&path))).collect())
    }
}

fn files_of(pair: &CommandPair, side: Side) -> Vec<PathBuf> {
    files(pair.command(side).fixed_words(&pair.folder), pair)
}

/// Returns the program of a command, and the files that its arguments, or variables in them, name by a path.
fn files(words: Vec<String>, pair: &CommandPair) -> Vec<PathBuf> {
    let is_used =
        |value: &&String| value.contains('/') && words.iter().any(|word| word.contains(*value));
    let variables: Vec<PathBuf> =
        pair.variables.values().filter(is_used).map(PathBuf::from).collect();
    let mut words = words.into_iter();
    let program = words.next().and_then(|program| found(&program));
    let is_small =
        |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.len() <= LARGEST);
    let arguments = words.filter(|word| word.starts_with('/')).map(PathBuf::from);
    let all = program.into_iter().chain(arguments).chain(variables).filter(|path| is_small(path));
    let mut all: Vec<PathBuf> =
        all.map(|path| path.canonicalize().or_else(|_| absolute(&path)).unwrap_or(path)).collect();
    all.sort();
    all.dedup();
    all
}
