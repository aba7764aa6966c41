//! Files of a pair of commands that decide what runs, with their digests: programs, and scripts that arguments name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf, absolute};

use serde::{Deserialize, Serialize};

use super::folder::digest;
use crate::contract::Side;
use crate::transport::command_line::found;
use crate::transport::commands::CommandPair;

/// Largest file whose digest is computed.
const LARGEST: u64 = 1 << 30;

/// File that a command runs, or that its arguments name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// Side of the command.
    pub side: Side,
    /// Path of the file, without links.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 (FIPS 180-4) of it in hexadecimal.
    pub sha256: String,
}

/// Returns the files of both commands, each with its digest, the files of the client first. A file that cannot be read is left
/// out: the commands may read it none the less.
pub fn builds(pair: &CommandPair) -> Vec<ProgramFile> {
    let mut known = BTreeMap::new();
    let sides = [(Side::Near, &pair.client), (Side::Far, &pair.server)];
    let of = |(side, words): (Side, Vec<String>)| {
        files(words, pair).into_iter().map(move |path| (side, path))
    };
    let all = sides
        .map(|(side, command)| (side, command.fixed_words(&pair.folder)))
        .into_iter()
        .flat_map(of);
    all.filter_map(|(side, path)| {
        let content = known.entry(path.clone()).or_insert_with(|| digest(&path).ok()).clone()?;
        let path = path.display().to_string();
        Some(ProgramFile { side, path, bytes: content.bytes, sha256: content.sha256 })
    })
    .collect()
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
