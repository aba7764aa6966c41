//! Race by the program as a user types it, and the file that it saves.

use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Result file of a race, with the exit code.
pub(crate) struct RaceFile {
    pub(crate) text: Vec<u8>,
    pub(crate) code: Option<i32>,
}

/// Runs a race with these words behind `race`, in a directory that goes with it.
///
/// # Errors
/// If it saves nothing; with what the race said.
pub(crate) fn race(words: &[&str]) -> Result<RaceFile, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("race.json");
    let ended = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .arg("race")
        .args(words)
        .args([Path::new("-q"), Path::new("-o"), file.as_path()])
        .current_dir(directory.path())
        .output()?;
    let text = std::fs::read(&file).map_err(|error| {
        let said = String::from_utf8_lossy(&ended.stderr);
        format!("deadheat race {}: no result ({error}); it said: {said}", words.join(" "))
    })?;
    Ok(RaceFile { text, code: ended.status.code() })
}
