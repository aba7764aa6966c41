//! Commands with placeholders, which are filled in for each trial.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::transport::command_line::{Piece, pieces, words};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::time::Nanos;

/// Placeholders that every command has, besides the variables of its file.
pub(super) const PLACES: [&str; 7] = ["host", "port", "bytes", "seconds", "dir", "seed", "pair"];

/// Program with its arguments, with placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandTemplate {
    /// Text as written, before variables are filled in.
    pub typed: String,
    /// Line of the file at which it stands; absent if there is no file.
    pub line: Option<usize>,
    /// Words with the variables filled in.
    words: Vec<String>,
    /// True if it runs copies of programs in place of the files that it names.
    #[serde(default)]
    pub is_copy: bool,
}

/// Values of the placeholders in a trial, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandValues(BTreeMap<String, String>);

impl CommandValues {
    /// Sets the value of a placeholder.
    #[must_use]
    pub fn with(mut self, place: &str, value: impl ToString) -> CommandValues {
        self.0.insert(place.to_owned(), value.to_string());
        self
    }

    /// Sets the values for an address: with the name `far`, the placeholders `far`, `far_host` and `far_port`; with an empty
    /// name, `host` and `port`.
    #[must_use]
    pub fn with_address(self, name: &str, at: SocketAddr) -> CommandValues {
        let part = |part: &str| format!("{name}_{part}").trim_start_matches('_').to_owned();
        self.with(name, at).with(&part("host"), at.ip()).with(&part("port"), at.port())
    }
}

impl CommandTemplate {
    /// Reads a command. It may have the placeholders in `places`, and each variable as another one.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no command, or has a placeholder that has no value.
    pub(in super::super) fn new(
        typed: &str,
        line: Option<usize>,
        places: &[&str],
        variables: &BTreeMap<String, String>,
    ) -> Result<CommandTemplate> {
        CommandTemplate::read((typed, line), places, variables, &|_| None)
    }

    /// Reads it likewise, with other texts in place of variables that stand alone, where `other` has one.
    fn read(
        (typed, line): (&str, Option<usize>),
        places: &[&str],
        variables: &BTreeMap<String, String>,
        other: &dyn Fn(&str) -> Option<String>,
    ) -> Result<CommandTemplate> {
        let raw = words(typed).filter(|words| words.first().is_some_and(|first| !first.is_empty()));
        let raw = raw.ok_or_else(|| {
            Error::usage(format!(
                "`{typed}` is no command; write a program and its arguments, with ' or \" around those with spaces"
            ))
        })?;
        let mut filled = Vec::with_capacity(raw.len());
        for word in &raw {
            let mut text = String::new();
            let all: Vec<Piece<'_>> = pieces(word).collect();
            for (at, piece) in all.iter().enumerate() {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Place(name) if places.contains(name) => {
                        text.push_str(&format!("{{{name}}}"));
                    }
                    Piece::Place(name) => {
                        let value = variables.get(*name).ok_or_else(|| {
                            let own = variables.keys().map(String::as_str);
                            let all: Vec<&str> = places.iter().copied().chain(own).collect();
                            unknown("placeholder", name, &all)
                        })?;
                        let other = stands_alone(&all, at).then(|| other(value)).flatten();
                        text.push_str(other.as_ref().unwrap_or(value));
                    }
                }
            }
            // A word that is one empty variable is left out, so that a file can have optional arguments.
            if !(text.is_empty() && word.starts_with('{') && word.ends_with('}')) {
                filled.push(text);
            }
        }
        if filled.first().is_some_and(|program| !program.is_empty()) {
            Ok(CommandTemplate { typed: typed.to_owned(), line, words: filled, is_copy: false })
        } else {
            Err(Error::usage(format!(
                "`{typed}` names no program once its variables are filled in"
            )))
        }
    }

    /// Returns the program, with `pair` as the folder of the file.
    pub fn program(&self, pair: &Path) -> String {
        self.words.first().map_or_else(String::new, |word| with_folder(word, pair))
    }

    /// Returns its words with `{pair}` alone filled in: which files they name does not change from trial to trial.
    pub fn fixed_words(&self, pair: &Path) -> Vec<String> {
        self.words.iter().map(|word| with_folder(word, pair)).collect()
    }

    /// Returns the paths of [`super::CommandPair::program_paths`].
    pub(super) fn paths(&self, variables: &BTreeMap<String, String>, pair: &Path) -> Vec<String> {
        let words = self.fixed_words(pair).into_iter().enumerate();
        let words = words.filter(|(at, word)| is_path(*at, word)).map(|(_, word)| word);
        let used = variables.iter().filter(|(name, _)| self.is_written_with(name));
        let values = used.map(|(_, value)| with_folder(value, pair));
        words.chain(values.filter(|value| value.starts_with('/'))).collect()
    }

    /// Returns it with other paths in place of the ones for which `other` has one.
    pub(super) fn with_paths(
        &self,
        variables: &BTreeMap<String, String>,
        pair: &Path,
        other: &dyn Fn(&str) -> Option<String>,
    ) -> CommandTemplate {
        let of_variable = |value: &str| {
            let path = with_folder(value, pair);
            path.starts_with('/').then(|| other(&path)).flatten()
        };
        let typed = (&*self.typed, self.line);
        let read = CommandTemplate::read(typed, &PLACES, variables, &of_variable);
        // It was read before, so it can be read again.
        let mut changed = read.unwrap_or_else(|_| self.clone());
        for (at, word) in changed.words.iter_mut().enumerate() {
            let path = with_folder(word, pair);
            let found = is_path(at, &path).then(|| other(&path)).flatten();
            *word = found.unwrap_or_else(|| std::mem::take(word));
        }
        changed.is_copy = changed.words != self.words;
        changed
    }

    /// Returns true if it has this placeholder.
    pub fn names(&self, place: &str) -> bool {
        let is_it = |piece: Piece<'_>| matches!(piece, Piece::Place(name) if name == place);
        self.words.iter().any(|word| pieces(word).any(is_it))
    }

    /// Returns true if it is written with this placeholder, which may be a variable.
    pub(super) fn is_written_with(&self, place: &str) -> bool {
        pieces(&self.typed).any(|piece| matches!(piece, Piece::Place(name) if name == place))
    }

    /// Returns the words to run. A placeholder without a value becomes nothing.
    pub fn filled(&self, values: &CommandValues) -> Vec<String> {
        let fill = |piece: Piece<'_>| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Place(name) => values.0.get(name).cloned().unwrap_or_default(),
        };
        self.words.iter().map(|word| pieces(word).map(fill).collect()).collect()
    }
}

/// Returns true if nothing in front of the piece at this place of a word and nothing behind it is a part of the same path.
fn stands_alone(all: &[Piece<'_>], at: usize) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let text = |place: Option<usize>| match place.and_then(|place| all.get(place)) {
        None => Some(""),
        Some(Piece::Text(text)) => Some(*text),
        Some(Piece::Place(_)) => None,
    };
    text(at.checked_sub(1)).is_some_and(|text| !text.ends_with(is_part))
        && text(Some(at + 1)).is_some_and(|text| !text.starts_with(is_part))
}

/// Returns true if the word at this place is a path: the first one may be relative to where the race was typed, and the others
/// would be relative to a folder of the trial.
fn is_path(at: usize, word: &str) -> bool {
    word.starts_with('/') || (at == 0 && word.contains('/'))
}

fn with_folder(word: &str, pair: &Path) -> String {
    word.replace("{pair}", &pair.display().to_string())
}

/// Returns a time in seconds, without a fraction where it has none: programs often take whole ones alone.
pub fn seconds(time: Nanos) -> String {
    match time.0 % 1_000_000_000 {
        0 => (time.0 / 1_000_000_000).to_string(),
        _ => time.as_secs_f64().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(typed: &str) -> Result<CommandTemplate> {
        let variables = [("bin", "old/iperf3"), ("flags", ""), ("n", "a b")];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        CommandTemplate::new(typed, Some(3), &PLACES, &variables.into_iter().map(own).collect())
    }

    #[test]
    fn placeholders_are_filled_in_after_the_words_are_split() {
        let template =
            template("{bin} {flags} -p {port} '{n} x' {dir}/out --t={seconds}s {pair}/x {json:1}")
                .unwrap();
        let values = CommandValues::default()
            .with_address("", "127.0.0.1:7".parse().unwrap())
            .with("seconds", seconds(Nanos::from_millis(1_500)))
            .with("dir", "/tmp/d")
            .with("pair", "/home/p");
        let filled = template.filled(&values);
        let expected =
            ["old/iperf3", "-p", "7", "a b x", "/tmp/d/out", "--t=1.5s", "/home/p/x", "{json:1}"];
        assert_eq!(filled, expected);
        assert!(template.names("seconds") && !template.names("bytes"));
        assert_eq!(seconds(Nanos::from_secs(2)), "2");
    }

    #[test]
    fn paths_of_programs_are_found_and_replaced_and_nothing_else_is() {
        let variables =
            [("bin", "/b/new"), ("tool", "{pair}/tool"), ("name", "sh"), ("own", "./x")];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let variables = variables.into_iter().map(own).collect();
        let template = |typed| CommandTemplate::new(typed, None, &PLACES, &variables).unwrap();
        let pair = Path::new("/p");
        let paths = |typed| template(typed).paths(&variables, pair);
        assert_eq!(paths("{own} {own} {port} /a b/c"), ["./x", "/a"]);
        assert_eq!(paths("{name} -c 'exec {bin} {tool}' {port}"), ["/b/new", "/p/tool"]);
        let other = |path: &str| Some(format!("/c{path}")).filter(|_| path != "/a");
        let changed = |typed| template(typed).with_paths(&variables, pair, &other);
        assert_eq!(changed("{own} {own} /a {port}").words, ["/c./x", "./x", "/a", "{port}"]);
        let shell = changed("{name} -c 'exec {bin} {bin}.conf --tool={tool}'");
        assert_eq!(shell.words, ["sh", "-c", "exec /c/b/new /b/new.conf --tool=/c/p/tool"]);
        assert!(shell.is_copy && shell.typed.contains("{bin}"));
        assert!(!changed("{name} {port}").is_copy);
    }

    #[test]
    fn an_unknown_placeholder_is_refused_with_all() {
        let said = |typed: &str| template(typed).unwrap_err().to_string();
        assert!(said("x {prot}").contains("did you mean"), "{}", said("x {prot}"));
        assert!(said("x {prot}").contains("port") && said("x {prot}").contains("bin"));
        assert!(said("x 'y").contains("no command"));
        assert!(said("{flags}").contains("names no program"));
    }
}
