//! Credentials of servers and clients: a shared secret from a file or the environment, never an
//! argument that `ps` shows; and its pin, which is no secret.

use std::path::Path;

use crate::error::{Error, Result};
use crate::trial::control::Secret;
use crate::trial::control_key::Pin;
use crate::trial::remote::Credentials;

/// The secret in `file` and the pin as typed, each or else from the environment.
///
/// # Errors
/// Where the file cannot be read, or what was given is empty or no pin.
pub(super) fn credentials(file: Option<&Path>, pin: Option<&str>) -> Result<Credentials> {
    let secret = match file {
        None => Secret::from_environment()?,
        Some(file) => Some(in_file(file)?),
    };
    let pin = match pin {
        None => Pin::from_environment()?,
        Some(typed) => Some(Pin::parse(typed)?),
    };
    Ok(Credentials { secret, pin })
}

/// The secret in a file.
///
/// # Errors
/// Where it cannot be read, or is empty.
pub(super) fn in_file(file: &Path) -> Result<Secret> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::setup(format!("read the secret from {}", file.display()), e))?;
    Secret::new(&text, &file.display().to_string())
}
