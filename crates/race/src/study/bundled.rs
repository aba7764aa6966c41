//! Studies in the program: every file of `studies/`, as the program hands them in.

use super::check::CheckedStudy;
use super::read;
use deadheat_contract::handed_in::HandedIn;

use crate::race::written::{self, BundledFile};
use deadheat_base::error::Result;

/// Name and text of each study, by name.
pub static FILES: HandedIn<BundledFile> = HandedIn::new();

/// Returns the names of the bundled studies, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.name)
}

/// Returns the file of the study with this name.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] for an unknown name, with the nearest name and the list of all; of a
/// file that cannot be unpacked.
pub fn text(name: &str) -> Result<String> {
    written::bundled(&FILES, "study", name)
}

/// Returns the study with this name, checked.
///
/// # Errors
/// As [`text`]; an error in the file.
pub fn study(name: &str) -> Result<CheckedStudy> {
    read::study(&text(name)?, &format!("studies/{name}.toml"))
}
