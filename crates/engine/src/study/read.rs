//! A study file: from its text to a study that was checked. Nothing runs.

use std::path::Path;

use super::check::{self, CheckedStudy};
use super::model::Study;
use crate::error::{Error, Result};
use crate::race::written;
use crate::spec::outside::Outside;

/// Reads and checks a study, in which a person allows these things to be named.
///
/// # Errors
/// [`Error::Setup`] where the file cannot be read; [`Error::Data`] naming the file and what is wrong in
/// it.
pub fn load(file: &Path, allowed: &[Outside]) -> Result<CheckedStudy> {
    checked(&written::text(file, "study")?, &file.display().to_string(), allowed)
}

/// Checks the study that `text` holds, which may name no files and no commands; `name` is its file, for what is wrong.
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
