//! The applications that are in the program: every file of `apps/` as `build.rs` finds it.

use super::app::{self, App};
use crate::error::Result;
use crate::race::written;

/// Name and text of each, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/apps.rs"));

/// Returns the names of the bundled applications, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns the file of the application of this name.
///
/// # Errors
/// [`crate::Error::Usage`] for another name, with the nearest one and all.
pub fn text(name: &str) -> Result<&'static str> {
    written::bundled(FILES, "application", name)
}

/// Returns the application of this name, checked.
///
/// # Errors
/// As [`text`]; what is wrong in the file.
pub fn app(name: &str) -> Result<App> {
    app::parse(text(name)?, &format!("apps/{name}.toml"))
}
