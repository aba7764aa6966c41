//! Python with the modules of other ends.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::process::{Command, Stdio};

/// Debian's, which has Debian's modules.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Python with the modules that no package of this system has; scripts/need.sh makes it.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/bin/python3");

/// Says that a test is skipped for want of what `package` holds.
pub(crate) fn skipped(package: &str) {
    println!("skipped: `{package}` is not installed (make test installs it)");
}

/// The Python that has the module, or `None` and why the test is skipped.
pub(crate) fn python_with(module: &str) -> Option<&'static str> {
    let imports = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = [PYTHON, PEERS].into_iter().find(imports);
    if found.is_none() {
        skipped(&format!("python3-{module}"));
    }
    found
}
