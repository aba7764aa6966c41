//! Credentials of servers and clients: a shared secret from a file or the environment, never an
//! argument that `ps` shows; and its pin, which is no secret.

use std::io::{self, Write};
use std::path::Path;

use deadheat_base::error::{Error, Result};
use deadheat_trial::control::key::Pin;
use deadheat_trial::control::remote::Credentials;
use deadheat_trial::control::{Secret, private_file};

/// Returns the secret in `file` and the pin as typed; if either is absent, its value from the environment.
///
/// # Errors
/// If the file cannot be read, the secret is empty, or the pin is malformed.
pub(super) fn credentials(file: Option<&Path>, pin: Option<&str>) -> Result<Credentials> {
    let secret = match file {
        None => Secret::from_environment()?,
        Some(file) => {
            if let Some(warning) = private_file::exposed(file) {
                // Standard error may be gone; then the warning is lost.
                let _ = writeln!(io::stderr().lock(), "warning: {warning}");
            }
            Some(in_file(file)?)
        }
    };
    let pin = match pin {
        None => Pin::from_environment()?,
        Some(typed) => Some(Pin::parse(typed)?),
    };
    Ok(Credentials { secret, pin })
}

/// Returns the secret in a file.
///
/// # Errors
/// If the file cannot be read, or is empty.
pub(super) fn in_file(file: &Path) -> Result<Secret> {
    let failed = |e| Error::setup(format!("read the secret from {}", file.display()), e);
    let text = private_file::read(file).map_err(failed)?;
    let text = String::from_utf8(text).map_err(|_| {
        failed(io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)"))
    })?;
    Secret::new(&text, &file.display().to_string())
}
