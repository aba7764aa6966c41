//! The studies that are in the program: every file of `studies/` as the program hands it in.

use super::check::CheckedStudy;
use super::read;
use deadheat_contract::handed_in::HandedIn;

use crate::error::Result;
use crate::race::written::{self, BundledFile};

/// Name and text of each, by name.
pub static FILES: HandedIn<BundledFile> = HandedIn::new();

/// Returns the names of the bundled studies, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns the file of the study of this name.
///
/// # Errors
/// [`crate::error::Error::Usage`] for another name, with the nearest one and all.
pub fn text(name: &str) -> Result<&'static str> {
    written::bundled(&FILES, "study", name)
}

/// Returns the study of this name, checked.
///
/// # Errors
/// As [`text`]; what is wrong in the file.
pub fn study(name: &str) -> Result<CheckedStudy> {
    read::study(text(name)?, &format!("studies/{name}.toml"))
}
