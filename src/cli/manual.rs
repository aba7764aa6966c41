//! `deadheat man`: a manual page for the program and for each subcommand, from the declarations that parse the command
//! line, with examples, exit codes and the environment.

use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory};

use deadheat_base::error::{Error, Result, unknown};
use deadheat_datapath::transport::far_end;
use deadheat_report::words;

use super::{Cli, emit, exit};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
  deadheat man race | man -l -
  deadheat man --all ~/.local/share/man/man1")]
pub(super) struct Man {
    /// The command, such as race or path run; without it, the page of the program
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages to a folder instead: deadheat.1, deadheat-race.1, …
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

/// Variables that the program reads, with their use and the commands that read them; none for all. Far ends have more.
const ENVIRONMENT: &[(&str, &str, &[&str])] = &[
    (
        "DEADHEAT_SECRET",
        "The secret that a server and its clients share.",
        &["race", "serve", "line", "study-run", "map", "advise"],
    ),
    (
        "DEADHEAT_PIN",
        "The key of the server, as it prints it; control is then encrypted.",
        &["race", "line", "study-run", "map", "advise"],
    ),
    (
        "DEADHEAT_TURN_USER, DEADHEAT_TURN_PASSWORD",
        "The login at a TURN server, with via=turn:HOST.",
        &["race"],
    ),
    ("NO_COLOR", "No colour, whatever its value.", &[]),
];

/// Examples of all commands, below a heading for each. The tests of documents run them.
const EXAMPLES: &str = include_str!("examples.md");

/// Prints a manual page, or writes all of them.
pub(super) fn page(args: &Man) -> Result<()> {
    let root = whole();
    let Some(folder) = &args.all else {
        let name = args.command.iter().fold("deadheat".to_owned(), |name, word| name + "-" + word);
        let all = commands(&root);
        let Some(command) = all.iter().find(|command| page_name(command) == name) else {
            let names: Vec<String> = all
                .iter()
                .skip(1)
                .map(|one| page_name(one)["deadheat-".len()..].to_owned())
                .collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return Err(unknown("command", &args.command.join("-"), &names));
        };
        return emit(manual(command, &all).as_bytes());
    };
    fs::create_dir_all(folder)
        .map_err(|e| Error::setup(format!("make {}", folder.display()), e))?;
    let all = commands(&root);
    for command in &all {
        let file = folder.join(page_name(command) + ".1");
        fs::write(&file, manual(command, &all))
            .map_err(|e| Error::setup(format!("write {}", file.display()), e))?;
    }
    tell!("{} pages in {}", all.len(), folder.display());
    Ok(())
}

fn whole() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// Returns the program and every command that has a page, in order.
fn commands(root: &Command) -> Vec<&Command> {
    let is_shown = |command: &&Command| command.get_name() != "complete";
    std::iter::once(root).chain(leaves(root).into_iter().filter(is_shown)).collect()
}

/// Returns the name of a command's page: `deadheat-path-run`.
fn page_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

/// Returns the page of a command; the program's names the pages of all.
fn manual(command: &Command, all: &[&Command]) -> String {
    let name = page_name(command);
    // A screen of short help leaves these options out; a page does not.
    let whole = command.clone().mut_args(|argument| argument.hide_short_help(false));
    let man = clap_mangen::Man::new(whole).title(name.to_uppercase());
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = man.render_title(&mut page);
    page.extend(format!(".SH NAME\n{} \\- {}\n", roff(&name), roff(&about(command))).bytes());
    let _ = man.render_synopsis_section(&mut page);
    let _ = man.render_description_section(&mut page);
    let _ = man.render_options_section(&mut page);
    let mut page = String::from_utf8_lossy(&page).into_owned();
    let is_program = name == "deadheat";
    let pages = all.iter().skip(1).map(|one| (format!("{}(1)", page_name(one)), about(one)));
    if is_program {
        page += &section("COMMANDS", pages);
    } else if let Some(more) = command.get_after_long_help().or(command.get_after_help()) {
        page += &format!(".SH NOTES\n.nf\n{}\n.fi\n", roff(&more.to_string()));
    }
    page += &section(
        "EXIT STATUS",
        exit::CODES.iter().map(|(code, text)| (code.to_string(), words::capital(text) + ".")),
    );
    let reads = |commands: &[&str]| {
        let own = name.strip_prefix("deadheat-").unwrap_or_default();
        is_program || commands.is_empty() || commands.contains(&own)
    };
    let read = ENVIRONMENT.iter().filter(|(.., commands)| reads(commands));
    let of_far_ends = far_end::ALL.iter().filter(|_| reads(&["race"]));
    let of_far_ends = of_far_ends.filter_map(|end| end.info.variables);
    page += &section(
        "ENVIRONMENT",
        read.map(|(name, text, _)| ((*name).to_owned(), (*text).to_owned()))
            .chain(of_far_ends.map(|own| (own.names.join(", "), own.purpose.to_owned()))),
    );
    let lines: Vec<&str> = examples(&name).collect();
    if !lines.is_empty() {
        page += &format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(&lines.join("\n")));
    }
    if !is_program {
        page += ".SH SEE ALSO\n\\fBdeadheat\\fR(1)\n";
    }
    page
}

/// Returns the lines of a command's examples.
fn examples(name: &str) -> impl Iterator<Item = &'static str> {
    let mut heading = "";
    let is_line = move |line: &&'static str| {
        if let Some(of) = line.strip_prefix("## ") {
            heading = of;
        }
        line.starts_with("deadheat ") && heading.replace(' ', "-") == name
    };
    EXAMPLES.lines().filter(is_line)
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Writes a section of terms and their meaning.
fn section(heading: &str, entries: impl Iterator<Item = (String, String)>) -> String {
    let entry =
        |(term, text): (String, String)| format!(".TP\n\\fB{}\\fR\n{}\n", roff(&term), roff(&text));
    format!(".SH \"{heading}\"\n{}", entries.map(entry).collect::<String>())
}

/// Escapes text for roff: backslashes, hyphens that are typed, and lines that would be requests.
fn roff(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns every command that runs something, in order.
fn leaves(command: &Command) -> Vec<&Command> {
    let mut leaves = Vec::new();
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        if subcommand.has_subcommands() {
            leaves.extend(self::leaves(subcommand))
        } else {
            leaves.push(subcommand)
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
    fn every_command_has_a_page_with_its_options_examples_exit_codes_and_environment() {
        let root = whole();
        let all = super::commands(&root);
        for command in &all {
            let name = page_name(command);
            let page = manual(command, &all).replace('\\', "");
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long).filter(|long| *long != "help") {
                assert!(page.contains(&format!("--{option}")), "{name}: {option}\n{page}");
            }
            for heading in
                [".SH NAME", ".SH SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", ".SH EXAMPLES"]
            {
                assert!(page.contains(heading), "{name}: {heading}\n{page}");
            }
            assert!(page.contains("trusted") && page.contains("NO_COLOR"), "{page}");
        }
        let program = manual(all[0], &all);
        assert!(program.contains("deadheat\\-race(1)"), "{program}");
        assert!(program.contains("deadheat\\-path\\-run(1)"), "{program}");
    }
}
