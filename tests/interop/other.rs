//! Other ends: programs that are there or not, and end with their test.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

pub(crate) use crate::python::{PYTHON, python_with, skipped};

/// Returns whether the command is there; where it is not, says that the test is skipped.
pub(crate) fn has(command: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(command).is_file());
    if !is_there {
        skipped(package);
    }
    is_there
}

/// The path of a file beside this one.
pub(crate) fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name)
}

/// A command that runs a script beside this file.
pub(crate) fn script(python: &str, name: &str) -> Command {
    let mut command = Command::new(python);
    // It may import what is beside it, and leaves nothing there.
    command.arg("-B").arg(beside(name));
    command
}

/// The other end, which is stopped with the test.
pub(crate) struct Other {
    pub(crate) child: Child,
    says: BufReader<ChildStdout>,
}

impl Other {
    pub(crate) fn start(command: &mut Command) -> Other {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Other { child, says }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// What it says last.
    pub(crate) fn end(mut self) -> String {
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest.trim().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
