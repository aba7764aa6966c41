//! Text of commands: words, placeholders, and the program's file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};

/// Piece of a word.
pub(super) enum Piece<'a> {
    /// Text as it is.
    Text(&'a str),
    /// Name of a placeholder.
    Place(&'a str),
}

/// Returns the pieces of a word. Braces are text unless they contain a name of small letters, digits and `_`.
pub(super) fn pieces(word: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        if rest.is_empty() {
            return None;
        }
        let inside = rest.strip_prefix('{').and_then(|after| after.split_once('}'));
        if let Some((name, after)) = inside.filter(|(name, _)| is_name(name)) {
            rest = after;
            return Some(Piece::Place(name));
        }
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find('{').map_or(rest.len(), |at| at + first);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(text))
    })
}

/// Splits a command at spaces, outside of quotes; `None` where a quote has no end. There is no shell: nothing else
/// is special.
pub(super) fn words(typed: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in typed.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Returns the file of a program as a shell would find it; `None` if this host has none.
pub fn found(program: &str) -> Option<PathBuf> {
    let runs = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    if program.contains('/') {
        Some(PathBuf::from(program)).filter(|path| runs(path))
    } else {
        std::env::split_paths(&dirs).map(|dir| dir.join(program)).find(|path| runs(path))
    }
}

/// Checks that this host has a program; `place` is where it is named, for the message.
///
/// # Errors
/// [`Error::Unsupported`] with the remedy.
pub(super) fn check_program(program: &str, place: impl FnOnce() -> String) -> Result<()> {
    if found(program).is_some() {
        return Ok(());
    }
    let here = std::env::current_dir().unwrap_or_default();
    let file = fs::metadata(program).ok().filter(|_| program.contains('/'));
    let what = match (program.starts_with('/'), program.contains('/')) {
        _ if file.as_ref().is_some_and(fs::Metadata::is_dir) => {
            format!("`{program}` is a folder; write the path of a program")
        }
        _ if file.is_some() => format!(
            "`{program}` is not executable; chmod +x makes it so, or the program that runs it is written in front, such as python3"
        ),
        (false, true) => format!(
            "there is no program `{program}` in {}, where the race was typed and relative paths begin; write its whole path, or a \
             variable with the folder in front of it",
            here.display()
        ),
        _ => format!(
            "there is no program `{program}` on this host; install it, or write its whole path"
        ),
    };
    Err(Error::unsupported(place(), what))
}
