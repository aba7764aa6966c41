//! Where a shared secret comes from: a file or the environment, never an argument that `ps` shows.

use std::path::Path;

use crate::error::{Error, Result};

/// The variable that may hold it.
pub(super) const VARIABLE: &str = "DEADHEAT_SECRET";

/// The secret in `file`, or else in the environment; `None` where there is none.
///
/// # Errors
/// Where the file cannot be read or has nothing in it.
pub(super) fn find(file: Option<&Path>) -> Result<Option<String>> {
    let Some(file) = file else {
        return Ok(std::env::var(VARIABLE).ok().filter(|secret| !secret.is_empty()));
    };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::setup(format!("read the secret from {}", file.display()), e))?;
    let secret = text.trim_end_matches(['\n', '\r']);
    if secret.is_empty() {
        return Err(Error::data(file.display().to_string(), "the secret is empty"));
    }
    Ok(Some(secret.to_owned()))
}
