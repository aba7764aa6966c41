//! `deadheat completions` and `deadheat man`: from the declarations that parse the command line.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::error::{Error, Result};

use super::{Cli, emit};

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
#[command(after_help = "  deadheat man > ~/.local/share/man/man1/deadheat.1")]
pub(super) struct Man {}

/// Prints the completion script for a shell.
pub(super) fn script(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "deadheat", &mut script);
    emit(&script)
}

/// Prints one manual page of all subcommands, for `man -l -`.
pub(super) fn page(_: &Man) -> Result<()> {
    let page = manual().map_err(|e| Error::setup("write the manual page", e))?;
    emit(&page)
}

fn manual() -> std::io::Result<Vec<u8>> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for subcommand in leaves(&command) {
        section(subcommand, &mut page)?;
    }
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// Writes a subcommand: its name as a heading, and the sections of a page of its own below it.
fn section(command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    // A screen of short help leaves these options out; a page does not.
    let whole = command.clone().mut_args(|argument| argument.hide_short_help(false));
    let man = clap_mangen::Man::new(whole);
    let mut body = Vec::new();
    man.render_description_section(&mut body)?;
    man.render_synopsis_section(&mut body)?;
    man.render_options_section(&mut body)?;
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        man.render_extra_section(&mut body)?;
    }
    let body = String::from_utf8_lossy(&body);
    // Sections become subsections; the page has the definitions for readers of roff already.
    let body = body.lines().filter(|line| !line.starts_with(".ie ") && !line.starts_with(".el "));
    page.extend(format!(".SH \"{}\"\n", name.to_uppercase()).bytes());
    for line in body {
        match line.strip_prefix(".SH ") {
            Some(heading) => page.extend(format!(".SS {heading}\n").bytes()),
            None => page.extend(format!("{line}\n").bytes()),
        }
    }
    Ok(())
}

/// Returns every command that runs something, in order.
fn leaves(command: &Command) -> Vec<&Command> {
    let mut leaves = Vec::new();
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        match subcommand.has_subcommands() {
            true => leaves.extend(self::leaves(subcommand)),
            false => leaves.push(subcommand),
        }
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command, those with subcommands too.
    fn all(command: &Command) -> Vec<Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command.clone()).chain(below).collect()
    }

    fn commands() -> Vec<Command> {
        let mut command = Cli::command().term_width(80);
        command.build();
        all(&command).into_iter().filter(|command| command.get_name() != "help").collect()
    }

    #[test]
    fn short_help_fits_a_screen_and_long_help_has_every_option() {
        let mut wrong = Vec::new();
        for mut command in commands() {
            let name = command.get_bin_name().unwrap_or("deadheat").to_owned();
            let short = command.render_help().to_string();
            if short.lines().count() > 24 || short.lines().any(|line| line.chars().count() > 80) {
                wrong.push(format!("{name}: {} lines\n{short}", short.lines().count()));
            }
            let long = command.render_long_help().to_string();
            let missing = options(&command).into_iter().filter(|option| !long.contains(option));
            wrong.extend(missing.map(|option| format!("{name}: {option}")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn options(command: &Command) -> Vec<String> {
        let name = |argument: &clap::Arg| match (argument.get_long(), argument.get_short()) {
            (Some(long), _) => Some(format!("--{long}")),
            (None, short) => short.map(|short| format!("-{short}")),
        };
        command.get_arguments().filter_map(name).collect()
    }

    #[test]
    fn completions_and_the_manual_name_every_command_and_option() {
        let manual = String::from_utf8(manual().unwrap()).unwrap().replace('\\', "");
        assert!(manual.contains("Use IPv4 only"), "what options mean is there, too");
        let mut scripts = vec![manual];
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "deadheat", &mut script);
            // Fish writes `-l option` for `--option`, and `-s o` for `-o`.
            let script = String::from_utf8(script).unwrap();
            scripts.push(script.replace(" -l ", " --").replace(" -s ", " -"));
        }
        for text in &scripts {
            for command in commands() {
                assert!(text.contains(command.get_name()), "{}\n{text}", command.get_name());
                for option in options(&command) {
                    assert!(text.contains(&option), "{option}\n{text}");
                }
            }
        }
    }
}
