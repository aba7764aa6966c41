//! `deadheat path`: emulated networks for other programs.

use clap::{Args, Subcommand};

use super::Verdict;
use deadheat_base::error::Result;

mod check;
mod run;
mod show;

pub(super) use deadheat_path::run::enter;

/// Options as typed.
#[derive(Debug, Args)]
pub(super) struct PathArgs {
    #[command(subcommand)]
    command: PathCommand,
}

#[derive(Debug, Subcommand)]
enum PathCommand {
    /// Run any program on an emulated network
    Run(run::PathRunArgs),
    /// Draw a network: hosts, links, ways
    Show(show::PathShowArgs),
    /// Measure an emulated network against what it says
    Check(check::CheckArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// Errors of the subcommand.
pub(super) fn run(args: PathArgs) -> Result<Verdict> {
    match args.command {
        PathCommand::Run(args) => run::run(args),
        PathCommand::Show(args) => show::run(&args),
        PathCommand::Check(args) => check::run(args),
    }
}
