//! Commands as contenders: a server command and a client command of anyone's, which do the whole of a trial's work by
//! themselves.
//!
//! ```text
//! near host: client command ── any protocol, over the path ──► far host: server command
//! ```
//! A TOML file names them, how the server is ready, and what a run yields. This module reads it and checks all that can be
//! known before anything runs; `trial::between::commands` runs the processes. No connection of ours exists, so there is no
//! agent at either end but a keeper of the command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::command_line::check_program;
use super::contender::with_commands;
use super::{Carrier, Conn, Contender, Dial, Info, Listen, Listener, Transport};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::{Named, Outside};
use deadheat_base::spec::typed::Text;
use deadheat_base::spec::{Key, Kind, Settings, Spec, plain};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Direction, Guarantees, PeerFacts, Reach, Side};
use deadheat_contract::workload::{ProgramFigure, ProgramWork};

mod figure;
mod file;
mod template;
mod terms;

pub use figure::{FigureSource, FigureText, LineSign};
pub(super) use file::text;
use file::{FIGURE_KEYS, PairCheck, Said, WrittenPair};
pub use template::{CommandTemplate, CommandValues, seconds};
pub use terms::PairTerms;

/// Name of such contenders.
pub(super) const ID: &str = "cmd";

/// Form as typed, and its description.
pub const FORM: (&str, &str) = (
    "cmd:file=PATH",
    "a server command and a client command of anyone's, which do the work themselves: the TOML file names them, and the \
     figures that they print; set=NAME=VALUE fills a variable of the file, as for two builds of one program",
);

/// Keys of such a contender.
pub const COMMAND_KEYS: &[Key] = &[FILE.key(), SET.key()];

/// The file contains commands, so its key names commands as well as a file ([`outside`]).
const FILE: Text = Text::path("file").doc("file with the keys server and client");
const SET: Text = Text::form(
    "set",
    Kind::Own { form: "NAME=VALUE", check: |typed| variable(typed).map(drop), refers: plain },
)
.doc("value of a variable, {NAME}; may be given several times");

fn variable(typed: &str) -> Result<(String, String)> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    typed.split_once('=').filter(|(name, _)| is_name(name)).map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(
        || Error::usage(format!("`{typed}` sets no variable; write set=NAME=VALUE, with small letters, digits and `_` in NAME")),
    )
}

/// Protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Port {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Sign that a server command is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadySign {
    /// A socket is bound to its port, over this protocol or any.
    Port(Option<Port>),
    /// It prints a line that matches this regular expression.
    Line(String),
}

impl ReadySign {
    /// Returns the word for it in files: the name of a protocol, or `port` for any.
    fn word(&self) -> String {
        match self {
            ReadySign::Port(Some(port)) => format!("{port:?}").to_lowercase(),
            ReadySign::Port(None) => "port".to_owned(),
            ReadySign::Line(line) => line.clone(),
        }
    }
}

/// Signal that ends a server command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGKILL, at once.
    Kill,
}

impl StopSignal {
    const ALL: [(&str, StopSignal); 3] =
        [("SIGTERM", StopSignal::Term), ("SIGINT", StopSignal::Int), ("SIGKILL", StopSignal::Kill)];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        StopSignal::ALL[self as usize].0
    }
}

/// Programs of a pair that are copied before a race, so that none owes its speed to where its file lies in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyRule {
    /// Programs that are named by a path, and can do without the files beside them.
    Programs,
    /// Each program that is named by a path.
    All,
    /// None.
    None,
}

impl CopyRule {
    const WORDS: [(&str, CopyRule); 3] =
        [("programs", CopyRule::Programs), ("all", CopyRule::All), ("none", CopyRule::None)];
}

/// Set of copies from which a trial runs its programs: each is copied twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopySet {
    /// The set of the contenders.
    #[default]
    Contenders,
    /// The set of the control.
    Control,
}

/// Figure of a pair, and where it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct PairFigure {
    /// The figure.
    pub figure: ProgramFigure,
    /// Way to read it from a run.
    pub source: FigureSource,
    /// Text in which it is looked up.
    pub text: FigureText,
    /// Line of the file at which it stands; absent if there is none.
    pub line: Option<usize>,
}

/// Pair of commands that do the work of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPair {
    /// File as typed.
    pub file: String,
    /// Folder of the file.
    pub folder: PathBuf,
    /// Name for people.
    pub name: String,
    /// Variables with their values.
    pub variables: BTreeMap<String, String>,
    /// Command at the far end's host.
    pub server: CommandTemplate,
    /// Command at the near end's host.
    pub client: CommandTemplate,
    /// Sign that the server is ready.
    pub ready: ReadySign,
    /// Direction in which it moves bytes.
    pub direction: Direction,
    /// Longest time that the client may take.
    pub timeout: Nanos,
    /// Signal that ends the server.
    pub stop: StopSignal,
    /// Programs that are copied before a race.
    pub copy: CopyRule,
    /// File in the receiving command's folder to which it writes the bytes that arrive, if it writes one.
    pub received: Option<String>,
    /// Figures: first the ones of the file.
    pub figures: Vec<PairFigure>,
}

impl CommandPair {
    /// Returns `FILE:LINE`, for messages about one of its commands.
    pub fn place(&self, line: Option<usize>) -> String {
        line.map_or_else(|| self.file.clone(), |line| format!("{}:{line}", self.file))
    }

    /// Returns the command of a side.
    pub fn command(&self, side: Side) -> &CommandTemplate {
        match side {
            Side::Near => &self.client,
            Side::Far => &self.server,
        }
    }

    /// Returns the paths by which the command of a side names programs: as its first word, as another word that is a whole
    /// path, or as a variable in it that is one.
    pub fn program_paths(&self, side: Side) -> Vec<String> {
        self.command(side).paths(&self.variables, &self.folder)
    }

    /// Returns the pair with other paths in place of the ones for which `other` has one.
    #[must_use]
    pub fn with_paths(&self, other: &dyn Fn(&str) -> Option<String>) -> CommandPair {
        let of =
            |command: &CommandTemplate| command.with_paths(&self.variables, &self.folder, other);
        CommandPair { server: of(&self.server), client: of(&self.client), ..self.clone() }
    }

    /// Checks that this host has the program of one side's command.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the file, the line, and a remedy.
    pub fn check(&self, side: Side) -> Result<()> {
        let command = self.command(side);
        let program = command.program(&self.folder);
        // The run finds a program in the folder of a trial, or behind a variable of a trial.
        if program.contains('{') {
            return Ok(());
        }
        let key = match side {
            Side::Near => "client",
            Side::Far => "server",
        };
        check_program(&program, || {
            format!("{}: {key} = `{}`", self.place(command.line), command.typed)
        })
    }

    /// Returns the reason why the pair cannot do this part of a task; `None` if it can.
    pub fn misfit(&self, work: &ProgramWork) -> Option<String> {
        let commands = [&self.server, &self.client];
        let has = |place: &str| commands.iter().any(|command| command.names(place));
        let name = &self.file;
        match work {
            ProgramWork::Transfer { direction, .. } if *direction != self.direction => {
                Some(format!(
                    "its bytes go {} ({name}, direction), and those of the work {direction}; write direction={}",
                    self.direction, self.direction
                ))
            }
            ProgramWork::Transfer { bytes, .. } if !has("bytes") => Some(format!(
                "neither command has {{bytes}} in it ({name}), so they do not know that {} are to be moved",
                Bytes(*bytes)
            )),
            ProgramWork::Transfer { .. } if has("seconds") => Some(format!(
                "a command has {{seconds}} in it ({name}), and a transfer of bytes takes as long as it takes; `command` fits"
            )),
            ProgramWork::Figures(asked) => {
                if asked.bytes.is_none() && has("bytes") {
                    return Some(format!(
                        "a command has {{bytes}} in it ({name}); write bytes=10MB, say"
                    ));
                }
                if asked.time.is_none() && has("seconds") {
                    return Some(format!(
                        "a command has {{seconds}} in it ({name}); write time=1s, say"
                    ));
                }
                let lacks = asked.figures.iter().find(|figure| self.figure(figure).is_none())?;
                let own: Vec<String> =
                    self.figures.iter().map(|own| own.figure.to_string()).collect();
                Some(format!("{name} has no figure {lacks}; it has {}", own.join(", ")))
            }
            _ => None,
        }
    }

    /// Returns its own declaration of a figure with this name, unit and better end.
    pub fn figure(&self, figure: &ProgramFigure) -> Option<&PairFigure> {
        self.figures.iter().find(|own| own.figure == *figure)
    }

    /// Returns the knobs as results carry them: everything that the file says.
    fn asked(&self, written: &WrittenPair) -> BTreeMap<String, String> {
        let keys = written.keys.iter().map(|(key, said)| ((*key).to_owned(), said.text.clone()));
        let set =
            self.variables.iter().map(|(name, value)| (format!("{SET_IN}{name}"), value.clone()));
        let figures = written.figures.iter().enumerate().flat_map(|(at, figure)| {
            figure
                .iter()
                .map(move |(key, said)| (format!("{FIGURE_IN}{at}.{key}"), said.text.clone()))
        });
        keys.chain(set).chain(figures).collect()
    }
}

/// Beginnings of keys in results.
const SET_IN: &str = "set.";
const FIGURE_IN: &str = "figure.";

/// Returns true if `typed` has the form of such a contender.
pub fn is_one(typed: &str) -> bool {
    with_commands(typed).is_some_and(|(id, _)| id == ID)
}

/// Reads such a contender, and the file that it names.
pub(super) fn parse(typed: &str) -> Result<Contender> {
    let (spec, file, variables) = split(typed)?;
    let written = file::read(&file, &variables)?;
    made(spec, &file, written)
}

/// Recreates the contender of a result. Its file may be gone or changed by now, and is not opened.
pub(super) fn recorded(typed: &str, asked: &BTreeMap<String, String>) -> Result<Contender> {
    let (spec, file, _) = split(typed)?;
    let said = |text: &String| Said { text: text.clone(), line: None };
    let mut written = WrittenPair::default();
    for key in file::KEYS {
        written.keys.extend(asked.get(key).map(|text| (key, said(text))));
    }
    for (key, value) in asked {
        if let Some(name) = key.strip_prefix(SET_IN) {
            written.variables.insert(name.to_owned(), value.clone());
        }
    }
    for at in 0.. {
        let of =
            |key: &&'static str| Some((*key, said(asked.get(&format!("{FIGURE_IN}{at}.{key}"))?)));
        let figure: BTreeMap<&'static str, Said> = FIGURE_KEYS.iter().filter_map(of).collect();
        if figure.is_empty() {
            break;
        }
        written.figures.push(figure);
    }
    if !written.keys.contains_key("server") {
        return Err(Error::usage(format!(
            "`{typed}`: its commands are not recorded, and no file is opened to read a result"
        )));
    }
    made(spec, &file, written)
}

/// Returns the files and commands that a contender with commands names. Does not open its file of commands, so they are
/// named by that file.
pub(super) fn outside(spec: &Spec, keys: &[Key]) -> Result<Vec<Named>> {
    let mut all = spec.outside(keys, &Contender::outside)?;
    let files = spec.options.iter().filter(|(key, _)| key == FILE.name());
    all.extend(files.map(|(_, file)| Named {
        kind: Outside::Commands,
        name: format!("those in {file}"),
        place: format!("{} of {}", FILE.name(), spec.name),
    }));
    Ok(all)
}

/// Returns the spec, the file, and the variables that were typed.
#[expect(clippy::type_complexity, reason = "three parts of one line")]
fn split(typed: &str) -> Result<(Spec, String, Vec<(String, String)>)> {
    let bare = typed.strip_prefix(ID).and_then(|rest| rest.strip_prefix(':'));
    if let Some(path) = bare.filter(|path| !path.contains('=')) {
        let path = if path.is_empty() { "PATH" } else { path };
        return Err(Error::usage(format!(
            "`{typed}` has no key; write {ID}:{}={path}",
            FILE.name()
        )));
    }
    let spec = Spec::parse(typed)?;
    let mut own = spec.clone();
    let (set, rest) = own.options.into_iter().partition(|(key, _)| key == SET.name());
    own.options = rest;
    let set: Vec<(String, String)> = set;
    let settings = Settings::check(&own, COMMAND_KEYS)?;
    let file = settings.text_of(&FILE).ok_or_else(|| {
        Error::usage(format!(
            "`{typed}` names no file; write {}, with the keys server and client in it",
            FORM.0
        ))
    })?;
    let variables = set.iter().map(|(_, value)| variable(value)).collect::<Result<_>>()?;
    Ok((spec, file.to_owned(), variables))
}

fn made(spec: Spec, file: &str, written: WrittenPair) -> Result<Contender> {
    let pair = PairCheck { file, written: &written }.pair()?;
    let asked = pair.asked(&written);
    let pair = Arc::new(pair);
    let carrier = Carrier::Made(Arc::new(Commands { info: info(), pair: Arc::clone(&pair) }));
    let commands = Some(Arc::new(CommandContender { pair, set: CopySet::default(), asked }));
    Ok(Contender { commands, ..Contender::plain(carrier, Settings::default(), spec) })
}

/// Pair with everything that its file says.
#[derive(Debug, PartialEq)]
pub struct CommandContender {
    /// The pair.
    pub pair: Arc<CommandPair>,
    /// Set of copies that a trial of it runs.
    pub set: CopySet,
    /// Keys of its file with their values, for results.
    pub(super) asked: BTreeMap<String, String>,
}

impl CommandContender {
    /// Returns the contender with the commands of `pair`, which run the programs of this set of copies.
    #[must_use]
    pub fn running(&self, pair: CommandPair, set: CopySet) -> CommandContender {
        CommandContender { pair: Arc::new(pair), set, asked: self.asked.clone() }
    }
}

fn info() -> Info {
    Info {
        id: ID,
        label: "commands",
        colour: "#7a5c2e",
        implementation: "programs",
        summary: FORM.1,
        guarantees: Guarantees::BYTE_STREAM,
        peer: PeerFacts { is_command: true, ..PeerFacts::OTHERS },
        reach: Reach::Path,
        keys: &[],
        ..Info::KERNEL
    }
}

/// Reason why such a contender cannot be raced to a far end of others, and an alternative.
pub(super) const UNSERVED: &str = "no far end of others runs its server command; race it to a `deadheat serve --command FILE`, on \
                                   loopback or with --path";

/// Reads a pair that an operator allows: its file, with `,set=NAME=VALUE` for each variable that is set.
///
/// # Errors
/// As of [`Contender::parse`]; [`Error::Unsupported`] if this host lacks the program of its server command.
pub fn allowed(typed: &str) -> Result<Arc<CommandPair>> {
    let form = format!("{ID}:{}=", FILE.name());
    if let Some(bare) = typed.strip_prefix(&form) {
        return Err(Error::usage(format!(
            "`{typed}` is the form of a contender; here the file is named alone: {bare}"
        )));
    }
    let pair =
        parse(&format!("{form}{typed}"))?.commands.map(|commands| Arc::clone(&commands.pair));
    let pair = pair.ok_or_else(|| Error::usage(format!("`{typed}` is no pair of commands")))?;
    pair.check(Side::Far)?;
    Ok(pair)
}

/// Transport of a pair: it has no connection of ours.
struct Commands {
    info: Info,
    pair: Arc<CommandPair>,
}

impl Transport for Commands {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self) -> Result<()> {
        [Side::Far, Side::Near].into_iter().try_for_each(|side| self.pair.check(side))
    }

    fn dial(&self, _: &Dial<'_>) -> Result<Box<dyn Conn>> {
        Err(no_connection())
    }

    fn listen(&self, _: Listen<'_>) -> Result<Box<dyn Listener>> {
        Err(no_connection())
    }
}

fn no_connection() -> Error {
    Error::usage(format!("{ID}: its commands have connections of their own"))
}

#[cfg(test)]
mod tests;
