//! `race --gate`: a race against its baseline, for continuous integration.

use crate::analysis::derived;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::race::Request;
use crate::race::gate::{Judgement, check};
use crate::result::outcome::Outcome;

/// A baseline, read before the race runs.
pub(super) struct Gate {
    file: PathBuf,
    baseline: Outcome,
}

impl Gate {
    /// The baseline in `file`, which the race will not replace.
    pub(super) fn open(file: &Path, replaced: Option<&Path>) -> Result<Gate> {
        if replaced.is_some_and(|replaced| is_same(file, replaced)) {
            return Err(Error::usage(format!(
                "--gate: the race would overwrite its own baseline, {}; choose another file with -o",
                file.display()
            )));
        }
        Ok(Gate { file: file.to_path_buf(), baseline: derived::load(file)? })
    }

    /// Returns true if `request` can be held against it.
    pub(super) fn check(&self, request: &Request) -> Result<()> {
        check(&self.baseline, request)
    }

    /// Says what became of the contenders since, and whether any is worse.
    pub(super) fn judge(&self, race: &Outcome) -> bool {
        let judgement = Judgement::of(&self.baseline, race);
        for line in crate::report::compare::judged(&judgement, &self.file.display().to_string()) {
            tell!("gate: {line}");
        }
        judgement.is_worse()
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    a == b || real(a).is_some_and(|a| real(b) == Some(a))
}
