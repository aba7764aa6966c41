//! `deadheat compare`: two saved races, and whether anything changed between them.

use crate::analysis::derived;
use std::path::PathBuf;

use crate::analysis::compare::{check, compare};
use crate::error::Result;
use crate::report::{Detail, Style};

use super::{Verdict, print, stdout_style};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The earlier race
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// The later one
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    /// Exit with 3 if a contender got worse by more than the margin
    #[arg(long)]
    gate: bool,
    /// Show all there is to say, and not only the answer
    #[arg(long)]
    details: bool,
}

pub(super) fn run(args: Args) -> Result<Verdict> {
    let (old, new) = (derived::load(&args.old)?, derived::load(&args.new)?);
    check(&old, &new)?;
    let comparison = compare(&old, &new);
    let detail = if args.details { Detail::Full } else { Detail::Brief };
    let style = Style { detail, ..stdout_style() };
    print(&crate::report::compare::render(&comparison, &style))?;
    let worse = comparison.is_worse();
    Ok(if args.gate && worse { Verdict::Doubtful } else { Verdict::Fine })
}
