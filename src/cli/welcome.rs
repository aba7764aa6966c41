//! The first words of the program, for a command line that asks for nothing.

use std::process::ExitCode;

const WELCOME: &str = "\
deadheat races network transports on equal terms. It says which one is ahead,
that it is a tie, or how much longer it takes to know.

  deadheat race                Does TCP or UDP answer sooner on this machine?
  deadheat race --path lte     And over an emulated mobile line?
  deadheat line HOST           What is my line to another host worth?
  deadheat advise action-game  Which transport suits an application?

Each takes a minute or two, and saves what it measured to a file here. For
`line`, start `deadheat serve` on HOST.

  deadheat list                All transports, workloads, paths, on one screen
  deadheat help                All commands; deadheat COMMAND -h has options";

/// Returns true if the command line has no words but the program's name.
pub(super) fn is_due() -> bool {
    std::env::args_os().nth(1).is_none()
}

/// Prints the first words, and returns the exit code of an incomplete command line: a script with an empty variable in
/// the place of a command must not pass for a success.
pub(super) fn show() -> ExitCode {
    tell!("{WELCOME}");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn it_fits_on_a_screen_and_its_commands_exist() {
        assert!(WELCOME.lines().count() <= 25, "{WELCOME}");
        let mut tried = 0;
        for line in WELCOME.lines() {
            assert!(line.chars().count() < 80, "{line}");
            let Some(command) = line.strip_prefix("  ") else { continue };
            let words = command.split("  ").next().unwrap_or_default();
            if words != "deadheat help" {
                assert!(Cli::try_parse_from(words.split(' ')).is_ok(), "{words}");
                tried += 1;
            }
        }
        assert_eq!(tried, 5);
    }
}
