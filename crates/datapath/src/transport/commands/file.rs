//! File of a pair of commands: its keys, and its mistakes by line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::figure::{FigureSource, FigureText, LineSign, own_file};
use super::template::{CommandTemplate, PLACES};
use super::{CommandPair, CopyRule, PairFigure, Port, ReadySign, StopSignal};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::foreign;
use deadheat_base::time::Nanos;
use deadheat_base::units::parse_span;
use deadheat_contract::contract::Direction;
use deadheat_contract::workload::ProgramFigure;
use deadheat_contract::workload::programs::{CPU_USED, FigureUnit, TIME_TAKEN, better};

/// Largest size of a file in bytes.
const LONGEST: u64 = 64 << 10;

/// Longest time that a client command may take, if the file gives none.
const TIMEOUT: &str = "60s";
/// Bounds of that time.
const TIMEOUTS: std::ops::RangeInclusive<Nanos> =
    Nanos::from_millis(100)..=Nanos::from_secs(86_400);

/// Text with the line at which it stands, if it is from a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) line: Option<usize>,
}

/// Pair as written, before it is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WrittenPair {
    /// Single keys, by name.
    pub(super) keys: BTreeMap<&'static str, Said>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) figures: Vec<BTreeMap<&'static str, Said>>,
}

/// Keys of a file beside its tables.
pub(super) const KEYS: [&str; 10] = [
    "name",
    "server",
    "client",
    "ready",
    "ready-line",
    "direction",
    "timeout",
    "stop",
    "received",
    "copy",
];
/// Keys of a figure.
pub(super) const FIGURE_KEYS: [&str; 7] =
    ["name", "unit", "better", "of", "pointer", "regex", "in"];

/// File as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PairTable {
    name: Option<Spanned<String>>,
    server: Spanned<String>,
    client: Spanned<String>,
    ready: Option<Spanned<String>>,
    ready_line: Option<Spanned<String>>,
    direction: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    stop: Option<Spanned<String>>,
    received: Option<Spanned<String>>,
    copy: Option<Spanned<String>>,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default, rename = "figure")]
    figures: Vec<FigureTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureTable {
    name: Spanned<String>,
    unit: Option<Spanned<String>>,
    better: Option<Spanned<String>>,
    of: Option<Spanned<String>>,
    pointer: Option<Spanned<String>>,
    regex: Option<Spanned<String>>,
    #[serde(rename = "in")]
    text: Option<Spanned<String>>,
}

/// Reads a file, with the variables that were typed in place of its own.
///
/// # Errors
/// [`Error::Usage`] with the file, the line, and what would be right.
pub(super) fn read(file: &str, typed: &[(String, String)]) -> Result<WrittenPair> {
    let text = &text(file, "server and client, two commands")?;
    let table: PairTable = toml::from_str(text)
        .map_err(|error| Error::usage(format!("{file}:{}", misread(text, &error))))?;
    let mut written = written(text, table);
    for (name, value) in typed {
        let Some(own) = written.variables.get_mut(name) else {
            let names: Vec<&str> = written.variables.keys().map(String::as_str).collect();
            let used = [&written.keys["server"], &written.keys["client"]];
            let is_used = used.iter().any(|command| command.text.contains(&format!("{{{name}}}")));
            if is_used && !PLACES.contains(&name.as_str()) {
                written.variables.insert(name.clone(), value.clone());
                continue;
            }
            let error = unknown("variable to set", name, &names);
            return Err(Error::usage(format!(
                "{file}: {error}; neither command has {{{name}}} in it"
            )));
        };
        own.clone_from(value);
    }
    Ok(written)
}

/// Reads the text of a file of commands; a message about a missing file names the `keys` of such a file.
pub(in super::super) fn text(file: &str, keys: &str) -> Result<String> {
    let bytes = foreign::file::read(Path::new(file), LONGEST).map_err(|error| {
        Error::usage(format!("{error}; file= names a TOML file with the keys {keys}"))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::usage(format!("{file}: it is not text (UTF-8)")))?;
    Ok(foreign::file::unmarked(&text).to_owned())
}

/// Returns the line of a mistake in a text, what it is, and what would be right.
fn misread(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| line_at(text, span.start));
    let what = error.message().replace('\n', ", ");
    let lacks = |key: &&str| what == format!("missing field `{key}`");
    let right = if ["server", "client"].iter().any(lacks) {
        "; a pair has both commands, as in client = \"./mine --connect {host}:{port} --bytes {bytes}\""
    } else if lacks(&"name") {
        "; each [[figure]] has a name"
    } else if ["expected a string", "unexpected key or value"]
        .iter()
        .any(|words| what.contains(words))
    {
        "; each value is a text in quotes, as in timeout = \"60s\""
    } else if ["key with no value", "invalid key-value pair"]
        .iter()
        .any(|words| what.contains(words))
    {
        "; the file is in TOML, as in server = \"./mine --listen {port}\""
    } else {
        ""
    };
    format!("{line}: {what}{right}")
}

/// Returns the figure with this name, unit and better end; or else the key that is wrong, and why.
fn declared(
    name: &str,
    unit: &str,
    better_end: Option<&str>,
) -> std::result::Result<ProgramFigure, (&'static str, Error)> {
    FigureUnit::parse(unit).map_err(|error| ("unit", error))?;
    better_end.map(better).transpose().map_err(|error| ("better", error))?;
    ProgramFigure::new(name, unit, better_end).map_err(|error| ("name", error))
}

/// Returns the number of the line with the byte at this place.
fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn written(text: &str, table: PairTable) -> WrittenPair {
    let said = |value: Spanned<String>| {
        let line = line_at(text, value.span().start);
        Said { text: value.into_inner(), line: Some(line) }
    };
    let keys = [
        table.name,
        Some(table.server),
        Some(table.client),
        table.ready,
        table.ready_line,
        table.direction,
        table.timeout,
        table.stop,
        table.received,
        table.copy,
    ];
    let keys = KEYS.into_iter().zip(keys).filter_map(|(key, value)| Some((key, said(value?))));
    let keys = keys.collect();
    let figures = table.figures.into_iter().map(|figure| {
        let values = [
            Some(figure.name),
            figure.unit,
            figure.better,
            figure.of,
            figure.pointer,
            figure.regex,
            figure.text,
        ];
        let all = FIGURE_KEYS.into_iter().zip(values);
        all.filter_map(|(key, value)| Some((key, said(value?)))).collect()
    });
    WrittenPair { keys, variables: table.set, figures: figures.collect() }
}

/// Check of a written pair; `file` is the name of the file for messages.
pub(super) struct PairCheck<'a> {
    pub(super) file: &'a str,
    pub(super) written: &'a WrittenPair,
}

impl PairCheck<'_> {
    /// Returns the pair.
    ///
    /// # Errors
    /// [`Error::Usage`] with the file, the line, and what would be right.
    pub(super) fn pair(&self) -> Result<CommandPair> {
        let (server, client) = (self.command("server")?, self.command("client")?);
        if !server.names("port") {
            let what = "it has no {port} in it, the port that it is to listen at; deadheat chooses a free one for each trial";
            return Err(self.at("server", what));
        }
        if !client.names("port") {
            return Err(self.at("client", "it has no {port} in it, the port of the server"));
        }
        let stem = Path::new(self.file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.key("name").map(|said| said.text.clone()).or(stem);
        let pair = CommandPair {
            file: self.file.to_owned(),
            folder: self.folder(),
            name: name.unwrap_or_else(|| "pair".to_owned()),
            variables: self.written.variables.clone(),
            server,
            client,
            ready: self.ready()?,
            direction: self
                .choice("direction", &[("up", Direction::Up), ("down", Direction::Down)])?,
            timeout: self.timeout()?,
            stop: self.choice("stop", &StopSignal::ALL)?,
            copy: self.choice("copy", &CopyRule::WORDS)?,
            received: self
                .key("received")
                .map(|said| own_file(&said.text))
                .transpose()
                .map_err(|e| self.wrap("received", e))?,
            figures: self.figures()?,
        };
        Ok(pair)
    }

    fn key(&self, key: &str) -> Option<&Said> {
        self.written.keys.get(key)
    }

    /// Returns the folder of the file, as a whole path.
    fn folder(&self) -> PathBuf {
        let folder = Path::new(self.file).parent().unwrap_or(Path::new(""));
        std::path::absolute(folder.join(".")).unwrap_or_else(|_| folder.to_owned())
    }

    /// Returns an error about a key.
    fn at(&self, key: &str, what: &str) -> Error {
        let line = self.key(key).and_then(|said| said.line);
        Error::usage(format!("{}{key}: {what}", self.place(line)))
    }

    fn wrap(&self, key: &str, error: Error) -> Error {
        self.at(key, &error.to_string())
    }

    fn place(&self, line: Option<usize>) -> String {
        match line {
            Some(line) => format!("{}:{line}: ", self.file),
            None => format!("{}: ", self.file),
        }
    }

    fn command(&self, key: &'static str) -> Result<CommandTemplate> {
        let said = self.key(key).ok_or_else(|| self.at(key, "it is missing"))?;
        CommandTemplate::new(&said.text, said.line, &PLACES, &self.written.variables)
            .map_err(|e| self.wrap(key, e))
    }

    fn choice<T: Copy, const N: usize>(&self, key: &str, words: &[(&str, T); N]) -> Result<T> {
        let Some(said) = self.key(key) else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| *word == said.text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrap(key, unknown("word", &said.text, &all))
        })
    }

    fn ready(&self) -> Result<ReadySign> {
        if let Some(line) = self.key("ready-line") {
            if self.key("ready").is_some() {
                return Err(self.at("ready-line", "give either ready or ready-line"));
            }
            LineSign::new(&line.text).map_err(|e| self.wrap("ready-line", e))?;
            return Ok(ReadySign::Line(line.text.clone()));
        }
        let signs = [None, Some(Port::Tcp), Some(Port::Udp)].map(ReadySign::Port);
        let words = signs.each_ref().map(ReadySign::word);
        let Some(said) = self.key("ready") else { return Ok(ReadySign::Port(None)) };
        let at = words.iter().position(|word| *word == said.text);
        at.and_then(|at| signs.get(at).cloned()).ok_or_else(|| {
            let error = unknown("word", &said.text, &words.each_ref().map(String::as_str));
            self.at("ready", &format!("{error}; a line that the server prints is `ready-line`"))
        })
    }

    fn timeout(&self) -> Result<Nanos> {
        let typed = self.key("timeout").map_or(TIMEOUT, |said| said.text.as_str());
        let timeout = parse_span(typed).map_err(|e| self.wrap("timeout", e))?;
        if TIMEOUTS.contains(&timeout) {
            Ok(timeout)
        } else {
            Err(self.at("timeout", &format!("`{typed}`; from 100ms to 24h")))
        }
    }

    fn figures(&self) -> Result<Vec<PairFigure>> {
        let mut all: Vec<PairFigure> = Vec::new();
        for written in &self.written.figures {
            let figure = self.figure(written)?;
            if let Some(first) = all.iter().find(|other| other.figure.name == figure.figure.name) {
                let first = first.line.map(|line| format!(", at line {line}")).unwrap_or_default();
                let what = format!(
                    "a figure has the name `{}` already{first}; give each a name of its own",
                    figure.figure.name
                );
                return Err(Error::usage(format!("{}{what}", self.place(figure.line))));
            }
            all.push(figure);
        }
        for (typed, source) in [(TIME_TAKEN, FigureSource::Time), (CPU_USED, FigureSource::Cpu)] {
            let figure = ProgramFigure::parse(typed)?;
            if all.iter().all(|own| own.figure.name != figure.name) {
                all.push(PairFigure { figure, source, text: FigureText::Stdout, line: None });
            }
        }
        Ok(all)
    }

    fn figure(&self, written: &BTreeMap<&'static str, Said>) -> Result<PairFigure> {
        let text = |key: &str| written.get(key).map(|said| said.text.as_str());
        let line = |key: &str| written.get(key).and_then(|said| said.line);
        let wrong = |key: &str, error: Error| {
            Error::usage(format!(
                "{}figure, {key}: {error}",
                self.place(line(key).or(line("name")))
            ))
        };
        let usage = |key: &str, what: &str| wrong(key, Error::usage(what));
        let name = text("name").unwrap_or_default();
        let ways = ["of", "pointer", "regex"].map(|key| (key, text(key)));
        let given: Vec<(&str, &str)> =
            ways.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
        let [(way, value)] = given[..] else {
            return Err(usage(
                "name",
                "give one of pointer = \"/a/b\" (a member of a JSON document), regex = '(?<NAME>[0-9.]+)' (a named group), and \
                 of = \"time\", \"goodput\" or \"cpu\"",
            ));
        };
        let source = match (way, value) {
            ("pointer", pointer) => FigureSource::pointer(pointer),
            ("regex", regex) => FigureSource::pattern(regex, name),
            (_, "time") => Ok(FigureSource::Time),
            (_, "goodput") => Ok(FigureSource::Goodput),
            (_, "cpu") => Ok(FigureSource::Cpu),
            (_, other) => Err(unknown("word", other, &["time", "goodput", "cpu"])),
        };
        let source = source.map_err(|e| wrong(way, e))?;
        let of_run =
            matches!(source, FigureSource::Time | FigureSource::Goodput | FigureSource::Cpu);
        let unit = match (&source, text("unit")) {
            (FigureSource::Time | FigureSource::Cpu, None) => "s",
            (FigureSource::Goodput, None) => "bit/s",
            (FigureSource::Time | FigureSource::Cpu, Some(unit)) if unit != "s" => {
                return Err(usage("unit", "a time is measured here, and is in s; leave unit out"));
            }
            (FigureSource::Goodput, Some(unit)) if unit != "bit/s" => {
                return Err(usage(
                    "unit",
                    "a goodput is measured here, and is in bit/s; leave unit out",
                ));
            }
            (_, Some(unit)) => unit,
            (_, None) => {
                return Err(usage(
                    "name",
                    "write the unit of the numbers, as in unit = \"Mbit/s\"",
                ));
            }
        };
        let figure =
            declared(name, unit, text("better")).map_err(|(key, error)| wrong(key, error))?;
        if of_run && written.contains_key("in") {
            return Err(usage("in", "it is measured here, and read from no text; leave `in` out"));
        }
        let place =
            FigureText::parse(text("in").unwrap_or("stdout")).map_err(|e| wrong("in", e))?;
        Ok(PairFigure { figure, source, text: place, line: line("name") })
    }
}
