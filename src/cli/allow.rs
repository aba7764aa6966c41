//! The option that permits the content of a file to act: its commands run, and the files that it names are opened.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::Outside;

#[derive(Debug, clap::Args)]
pub(super) struct Allow {
    /// Let the file that is run name files, commands, or both
    ///
    /// Files and commands that a result, a study or an application names are shown, and neither opened nor run without this.
    #[arg(long, value_name = "files|commands", value_delimiter = ',', hide_short_help = true)]
    allow: Vec<String>,
}

impl Allow {
    /// Returns the permissions that were given.
    pub(super) fn all(&self) -> Result<Vec<Outside>> {
        self.allow.iter().map(|typed| Outside::parse(typed)).collect()
    }

    /// Refuses the option for a request that is typed.
    pub(super) fn refuse(&self) -> Result<()> {
        if self.allow.is_empty() {
            Ok(())
        } else {
            Err(Error::usage(
                "--allow is for what a file names, with --replay or --resume; a race that you type needs none",
            ))
        }
    }
}
