//! `deadheat completions`: scripts for shells. In bash, zsh and fish they ask the program for the words that may stand at
//! the end of a line, so that contenders, their keys and paths are of this version.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use deadheat_base::error::Result;

use super::{Cli, emit, print};

mod words;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
  deadheat completions bash > ~/.local/share/bash-completion/completions/deadheat
  deadheat completions zsh > ~/.zfunc/_deadheat
  deadheat completions fish > ~/.config/fish/completions/deadheat.fish")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(super) struct Complete {
    /// Command line up to the cursor, as one word
    #[arg(allow_hyphen_values = true)]
    line: String,
}

/// Script for bash: the program is asked for whole words, and readline replaces them from the last `:` or `=` on.
const BASH: &str = include_str!("complete/deadheat.bash");

/// Script for zsh. Words that go on have no space behind them.
const ZSH: &str = include_str!("complete/deadheat.zsh");

/// Script for fish, which reads words and their meaning as the program prints them.
const FISH: &str = include_str!("complete/deadheat.fish");

/// Prints the completion script for a shell.
pub(super) fn script(args: &Completions) -> Result<()> {
    emit(&script_for(args.shell))
}

fn script_for(shell: Shell) -> Vec<u8> {
    match shell {
        Shell::Bash => BASH.into(),
        Shell::Zsh => ZSH.into(),
        Shell::Fish => FISH.into(),
        // These complete commands and options alone.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Cli::command(), "deadheat", &mut script);
            script
        }
    }
}

/// Prints the words that may end a command line, one a line, each with a tab and its meaning; `:files` where a file
/// belongs.
pub(super) fn answer(args: &Complete) -> Result<()> {
    let lines = words::of_line(&whole(), &args.line).unwrap_or_else(|| ":files\n".to_owned());
    print(&lines)
}

/// Returns the command with all that its subcommands inherit.
fn whole() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}
