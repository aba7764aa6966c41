//! A study file: from its text to a study that was checked. Nothing runs.

use std::path::Path;

use super::check::{self, Checked};
use super::model::Study;
use crate::error::{Error, Result};
use crate::race::written;

/// Reads and checks a study.
///
/// # Errors
/// [`Error::Setup`] where the file cannot be read; [`Error::Data`] naming the file and what is wrong in
/// it.
pub fn load(file: &Path) -> Result<Checked> {
    study(&written::text(file, "study")?, &file.display().to_string())
}

/// Checks the study that `text` holds; `name` is its file, for what is wrong.
///
/// # Errors
/// [`Error::Data`].
pub fn study(text: &str, name: &str) -> Result<Checked> {
    let study: Study = written::parse(text, name)?;
    check::check(study).map_err(|what| Error::data(name, what))
}

#[cfg(test)]
mod tests;
