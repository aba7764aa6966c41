//! Kind of a path, with its name in settings and results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{PathSpec, SIMULATED};

/// Kind of a path between two ends; its name is in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathKind {
    /// Loopback of this machine.
    #[default]
    Loopback,
    /// Network that is emulated in real time.
    Emulated,
    /// Network in virtual time.
    Simulated,
    /// Path to a server on another host.
    Remote,
    /// Unknown: another tool measured there, and its file does not name the path.
    Imported,
}

impl PathKind {
    /// Returns the kind of a path as [`PathSpec::parse`] reads it, from the first words alone: no file that it
    /// names is opened.
    pub fn of_typed(typed: &str) -> PathKind {
        match typed.trim() {
            "loopback" => PathKind::Loopback,
            typed if typed.starts_with(SIMULATED) => PathKind::Simulated,
            _ => PathKind::Emulated,
        }
    }

    /// Returns its name in results: `loopback`.
    pub fn name(self) -> &'static str {
        match self {
            PathKind::Loopback => "loopback",
            PathKind::Emulated => "emulated",
            PathKind::Simulated => "simulated",
            PathKind::Remote => "remote",
            PathKind::Imported => "imported",
        }
    }
}

impl PathSpec {
    /// Returns its kind.
    pub fn kind(&self) -> PathKind {
        match self {
            PathSpec::Loopback => PathKind::Loopback,
            PathSpec::Emulated(_) => PathKind::Emulated,
            PathSpec::Simulated(_) => PathKind::Simulated,
        }
    }
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_path_is_of_the_kind_that_it_is_read_as() {
        for typed in
            ["loopback", "delay=25ms,loss=1%", "sim:delay=25ms", " sim:delay=1ms", " loopback "]
        {
            assert_eq!(
                PathKind::of_typed(typed),
                PathSpec::parse(typed).unwrap().kind(),
                "{typed}"
            );
        }
    }

    #[test]
    fn a_kind_is_written_by_its_name() {
        use PathKind::{Emulated, Imported, Loopback, Remote, Simulated};
        for kind in [Loopback, Emulated, Simulated, Remote, Imported] {
            let written = serde_json::to_string(&kind).unwrap();
            assert_eq!(written, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<PathKind>(&written).unwrap(), kind);
        }
        let said = serde_json::from_str::<PathKind>("\"moon\"").unwrap_err().to_string();
        assert!(said.contains("`loopback`") && said.contains("`moon`"), "{said}");
    }
}
