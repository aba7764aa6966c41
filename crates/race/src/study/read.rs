//! A study file, from its text to a checked study. No race is run.

use std::path::Path;

use super::check::{self, CheckedStudy};
use crate::race::written;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::Outside;
use deadheat_result::study::model::Study;

/// Reads and checks a study that may name files and commands of the `allowed` kinds.
///
/// # Errors
/// [`Error::Setup`] if the file cannot be read; [`Error::Data`] with the file and the problem in it.
pub fn load(file: &Path, allowed: &[Outside]) -> Result<CheckedStudy> {
    checked(&written::text(file, "study")?, &file.display().to_string(), allowed)
}

/// Checks the study in `text`, which may name no files and no commands; `name` is its file, for messages.
///
/// # Errors
/// [`Error::Data`].
pub fn study(text: &str, name: &str) -> Result<CheckedStudy> {
    checked(text, name, &[])
}

fn checked(text: &str, name: &str, allowed: &[Outside]) -> Result<CheckedStudy> {
    let study: Study = written::parse(text, name)?;
    check::check(study, allowed).map_err(|what| Error::data(name, what))
}

#[cfg(test)]
mod tests;
