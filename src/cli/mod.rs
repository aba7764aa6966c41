//! The command line: one file per subcommand. It turns arguments into a request; the library decides their meaning.
//! Only this module and `report` write to a terminal.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Parser, Subcommand};

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign;
use deadheat_report::{Colour, Style};
use deadheat_result::save::{FreshDirectory, FreshFile};

/// Writes a line to stderr. A reader that has gone, as behind a pipe into head(1), is no error.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod advise;
mod allow;
mod compare;
mod complete;
mod deciding;
mod doctor;
#[cfg(test)]
mod documents;
pub mod exit;
mod folder;
mod form;
mod gate;
mod habits;
mod history;
mod import;
mod interrupt;
mod line;
mod list;
mod live;
mod manual;
mod map;
mod matrix;
mod merge;
mod next_step;
mod observe;
mod pages;
mod path;
mod progress;
mod race;
mod report;
mod responders;
mod screen;
mod secret;
mod serve;
mod staging;
mod standing;
mod study;
mod welcome;

/// Races network transports on equal terms, and knows when it is a tie.
#[derive(Debug, Parser)]
#[command(
    name = "deadheat",
    version,
    disable_version_flag = true,
    max_term_width = 100,
    subcommand_required = true
)]
#[command(override_usage = "deadheat <COMMAND>    (a first race: deadheat race)")]
struct Cli {
    /// Print version
    // Not in short help, so that the list of commands fits on a screen.
    #[arg(short = 'V', long, action = clap::ArgAction::Version, hide_short_help = true)]
    version: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Race transports for the same work on one path [default: tcp udp]
    Race(Box<race::RaceArgs>),
    /// Show who is ahead at each delay, loss or other key of a path
    Map(Box<map::MapArgs>),
    /// Show who shares a bottleneck fairly with whom, and whom that harms
    Matrix(Box<matrix::MatrixArgs>),
    /// Join the parts of a map that several runs made
    Merge(merge::MergeArgs),
    /// Measure a line to another host in a minute, idle and under load
    Line(line::LineArgs),
    /// Answer races from other hosts, as their far end
    Serve(serve::ServeArgs),
    /// Show a saved race again, in any format
    Report(report::ReportArgs),
    /// Compare saved races, old and new: did anything change?
    Compare(compare::CompareArgs),
    /// Read results of other tools, and apply the same statistics
    Import(Box<import::ImportArgs>),
    /// Show the races of a folder over time: when did anything change?
    History(history::HistoryArgs),
    /// List transports, workloads and paths, and what works on this host
    List(list::ListArgs),
    /// Run programs on an emulated network
    Path(path::PathArgs),
    /// Measure how small a difference this machine can show
    Doctor(doctor::DoctorArgs),
    /// Run published experiments again and compare the figures
    Study(study::StudyArgs),
    /// Say which transport suits an application on a path
    Advise(advise::AdviseArgs),
    /// Print what a shell needs to complete command lines
    #[command(hide = true)] // So that the list fits on a screen; packages call it.
    Completions(complete::Completions),
    /// Print what may end a command line; shells call it
    #[command(hide = true)] // So that the list fits on a screen; completion scripts call it.
    Complete(complete::Complete),
    /// Print the manual page of the program or of a command
    #[command(hide = true)] // So that the list fits on a screen; packages call it.
    Man(manual::Man),
}

/// Outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It ran, and its result can be trusted.
    Fine,
    /// It ran, but its result is not to be trusted.
    Doubtful,
    /// It ran and can be trusted, but claims are undecided that a script asked to be decided.
    Undecided,
    /// It ran and can be trusted, and a gate found a contender worse than it was.
    Worse,
    /// It ran a command, which ended with this exit code.
    Ended(u8),
}

impl Verdict {
    /// Returns the verdict on results of which all are trusted, or not.
    fn of(are_trusted: bool) -> Verdict {
        if are_trusted { Verdict::Fine } else { Verdict::Doubtful }
    }
}

/// Parses the command line, runs the command, and returns the exit code, one of [`exit::CODES`] or that of a command.
pub fn run() -> ExitCode {
    if let Some(code) = path::enter() {
        return code;
    }
    if welcome::is_due() {
        return welcome::show();
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| habits::refuse(&error));
    let done = match cli.command {
        Command::Race(args) => race::run(*args),
        Command::Map(args) => map::run(&args),
        Command::Matrix(args) => matrix::run(*args),
        Command::Merge(args) => merge::run(&args).map(|()| Verdict::Fine),
        Command::Line(args) => line::run(&args),
        Command::Serve(args) => serve::run(&args).map(|()| Verdict::Fine),
        Command::Report(args) => report::run(args),
        Command::Compare(args) => compare::run(&args),
        Command::Import(args) => import::run(*args).map(|()| Verdict::Fine),
        Command::History(args) => history::run(&args).map(|()| Verdict::Fine),
        Command::List(args) => list::run(args).map(|()| Verdict::Fine),
        Command::Doctor(args) => doctor::run(args).map(|()| Verdict::Fine),
        Command::Study(args) => study::run(args),
        Command::Advise(args) => advise::run(&args),
        Command::Path(args) => path::run(args),
        Command::Completions(args) => complete::script(&args).map(|()| Verdict::Fine),
        Command::Complete(args) => complete::answer(&args).map(|()| Verdict::Fine),
        Command::Man(args) => manual::page(&args).map(|()| Verdict::Fine),
    };
    match done {
        Ok(Verdict::Fine) => ExitCode::from(exit::FINE),
        Ok(Verdict::Doubtful) => ExitCode::from(exit::DOUBTFUL),
        Ok(Verdict::Undecided) => ExitCode::from(exit::UNDECIDED),
        Ok(Verdict::Worse) => ExitCode::from(exit::WORSE),
        Ok(Verdict::Ended(code)) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

/// Prints an error, and returns its exit code.
pub(crate) fn fail(error: &Error) -> ExitCode {
    tell!("deadheat: {}", said(error));
    ExitCode::from(error.exit_code())
}

/// Returns the text of an error on one line, but for a usage error: the text may be of a peer or a file.
fn said(error: &Error) -> String {
    match error {
        Error::Usage(_) => foreign::lines(&error.to_string()),
        _ => foreign::lines(&error.to_string().replace('\n', "\\n")),
    }
}

/// File for a result.
enum Target {
    /// The given file, which may be replaced.
    Given(PathBuf),
    /// A new file, named by date and time.
    Fresh(FreshFile),
}

impl Target {
    /// Returns the given file, or a new file with a name that begins with `stem`.
    fn of(given: Option<&PathBuf>, stem: &str) -> Result<Target> {
        match given {
            Some(file) => Ok(Target::Given(file.clone())),
            None => FreshFile::make(stem, SystemTime::now()).map(Target::Fresh),
        }
    }

    fn file(&self) -> &Path {
        match self {
            Target::Given(file) => file,
            Target::Fresh(fresh) => &fresh.path,
        }
    }
}

/// Returns the directory for results: the given one, or a new one with a name that begins with `stem`. Dropping the
/// second
/// value removes a new directory if it is empty.
fn directory(
    given: Option<&PathBuf>,
    stem: &str,
    at: SystemTime,
) -> Result<(PathBuf, Option<FreshDirectory>)> {
    if let Some(given) = given {
        return Ok((given.clone(), None));
    }
    let fresh = FreshDirectory::make(stem, at)?;
    Ok((fresh.path.clone(), Some(fresh)))
}

/// Parses a label: `key=value`.
fn label(typed: &str) -> Result<(&str, &str)> {
    let wrong = || Error::usage(format!("label `{typed}` is not of the form key=value"));
    typed.split_once('=').ok_or_else(wrong)
}

/// Returns colour and width for text on a stream: none and 80 where it is not a terminal, or where
/// `NO_COLOR` is set (no-color.org).
fn style(is_terminal: bool) -> Style {
    let colour = if is_terminal && std::env::var_os("NO_COLOR").is_none() {
        Colour::Always
    } else {
        Colour::Never
    };
    let width = if is_terminal { terminal_width().unwrap_or(80) } else { 80 };
    Style { colour, width, ..Style::default() }
}

/// Returns the width for a report, if standard output is a terminal.
fn terminal_width() -> Option<usize> {
    let (columns, _) = terminal_size(libc::STDOUT_FILENO)?;
    (columns >= 40).then(|| columns.min(120))
}

/// Returns columns and rows of the terminal behind a descriptor.
fn terminal_size(descriptor: libc::c_int) -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, which `size` is.
    let done = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) };
    let is_known = done == 0 && size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Writes to stdout; a reader that has gone away (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    emit(text.as_bytes())
}

fn emit(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|e| Error::setup("write to standard output", e)),
    }
}

/// Writes to a file, or to stdout where none is given.
fn deliver(content: &[u8], file: Option<&Path>) -> Result<()> {
    match file {
        None => emit(content),
        Some(file) => std::fs::write(file, content)
            .map_err(|e| Error::setup(format!("write {}", file.display()), e)),
    }
}

fn stdout_style() -> Style {
    style(io::stdout().is_terminal())
}
