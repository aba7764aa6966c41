//! Applications in the program: every file of `apps/`, as the program hands them in.

use super::app;
use deadheat_contract::handed_in::HandedIn;
use deadheat_result::advise::app::App;

use crate::race::written::{self, BundledFile};
use deadheat_base::error::Result;

/// Name and text of each application, by name.
pub static FILES: HandedIn<BundledFile> = HandedIn::new();

/// Returns the names of the bundled applications, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.name)
}

/// Returns the file of the application with this name.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] for an unknown name, with the nearest name and the list of all; of a
/// file that cannot be unpacked.
pub fn text(name: &str) -> Result<String> {
    written::bundled(&FILES, "application", name)
}

/// Returns the application with this name, checked.
///
/// # Errors
/// As [`text`]; an error in the file.
pub fn app(name: &str) -> Result<App> {
    app::parse(&text(name)?, &format!("apps/{name}.toml"))
}
