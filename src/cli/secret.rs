//! Where a shared secret comes from: a file or the environment, never an argument that `ps` shows.

use std::path::Path;

use crate::error::{Error, Result};
use crate::trial::control::Secret;

/// The secret in `file`, or else in the environment; `None` where there is none.
///
/// # Errors
/// Where the file cannot be read, or what was given is empty.
pub(super) fn find(file: Option<&Path>) -> Result<Option<Secret>> {
    let Some(file) = file else { return Secret::from_environment() };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::setup(format!("read the secret from {}", file.display()), e))?;
    Secret::new(&text, &file.display().to_string()).map(Some)
}
