//! Files that people write by hand, in TOML: an error has its line and an explanation, with the nearest valid key.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use flate2::bufread::GzDecoder;
use serde::de::DeserializeOwned;

use deadheat_base::error::{Error, Result, nearest, unknown};
use deadheat_result::packed;

/// Maximum size of a file, in bytes.
pub const LARGEST: u64 = 1 << 20;

/// Reads the text of a file; `what` names its kind: `study`.
///
/// # Errors
/// [`Error::Setup`] if it cannot be read; [`Error::Data`] if it is not text.
pub fn text(file: &Path, what: &str) -> Result<String> {
    let bytes = packed::read(file, LARGEST)?;
    String::from_utf8(bytes).map_err(|_| {
        Error::data(file.display().to_string(), format!("not text in UTF-8, and so no {what}"))
    })
}

/// File in the program.
pub struct BundledFile {
    /// Its name, without an ending.
    pub name: &'static str,
    /// Its text, packed by gzip: texts are a third of that then.
    packed: &'static [u8],
}

impl BundledFile {
    /// Creates a file with this name, of a text that gzip packed.
    pub const fn new(name: &'static str, packed: &'static [u8]) -> BundledFile {
        BundledFile { name, packed }
    }

    fn text(&self) -> Result<String> {
        let mut text = String::new();
        let read = GzDecoder::new(self.packed).read_to_string(&mut text);
        read.map(|_| text)
            .map_err(|e| Error::data(format!("{} in this program", self.name), e.to_string()))
    }
}

/// Returns the text with this name among the program's own `files`; `what` names their kind.
///
/// # Errors
/// [`Error::Usage`] for an unknown name, with the nearest name and the list of all; [`Error::Data`] if it cannot be unpacked.
pub fn bundled(files: &[&'static BundledFile], what: &str, name: &str) -> Result<String> {
    match files.iter().find(|file| file.name == name) {
        Some(file) => file.text(),
        None => {
            let names: Vec<&str> = files.iter().map(|file| file.name).collect();
            Err(unknown(what, name, &names))
        }
    }
}

/// Parses `text`; `name` is its file, for error messages.
///
/// # Errors
/// [`Error::Data`].
pub fn parse<T: DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let line =
            error.span().map_or_else(String::new, |span| format!("line {}: ", at(text, &span)));
        Error::data(name, format!("{line}{}", in_words(error.message(), text, error.span())))
    })
}

/// Returns the line, from 1, on which the span begins.
fn at(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Rewrites the parser's message about a key in this program's terms, with the nearest valid key.
fn in_words(message: &str, text: &str, span: Option<Range<usize>>) -> String {
    let message = message.trim_end().replace('\n', "; ");
    if let Some((key, valid)) = parts(&message, "unknown field ") {
        let near = nearest(key, valid.iter().copied())
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        return format!("unknown key `{key}`{near} (valid: {})", valid.join(", "));
    }
    if let Some((word, valid)) = parts(&message, "unknown variant ") {
        return format!("`{word}` is none of {}", valid.join(", "));
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        let table = span.and_then(|span| text.get(span)?.lines().next().map(str::trim));
        let table = table.filter(|line| line.starts_with('['));
        let place = table.map_or_else(String::new, |table| format!(" in {table}"));
        return format!("the key {key} is missing{place}");
    }
    match message.split_once(", expected ") {
        Some((_, "a sequence")) if message.contains("map") => {
            format!(
                "{message}; a table that may stand several times has two brackets, as in [[race]]"
            )
        }
        Some((_, "a sequence")) => {
            format!("{message}; a list has brackets, as in [\"tcp\", \"udp\"]")
        }
        Some((_, "a string")) => format!("{message}; a text has quotes, as in \"5s\""),
        _ if message.contains("expected key") || message.contains("expected `=`") => {
            format!("{message}; the file is in TOML, as in title = \"Ping\"")
        }
        _ => message,
    }
}

/// Returns the first name in backticks behind `prefix`, and the others.
fn parts<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let mut names = message.strip_prefix(prefix)?.split('`').skip(1).step_by(2);
    let first = names.next()?;
    Some((first, names.collect()))
}
