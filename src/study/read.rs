//! A study file: from its text to a study that was checked. Nothing runs.

use std::ops::Range;
use std::path::Path;

use super::check::{self, Checked};
use super::model::Study;
use crate::error::{Error, Result, nearest};
use crate::race::packed;

/// The largest file that is read, in bytes. A study is written by hand.
pub const LARGEST: u64 = 1 << 20;

/// Reads and checks a study.
///
/// # Errors
/// [`Error::Setup`] where the file cannot be read; [`Error::Data`] naming the file and what is wrong in
/// it.
pub fn load(file: &Path) -> Result<Checked> {
    let name = file.display().to_string();
    let bytes = packed::read(file, LARGEST)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::data(&name, "not text in UTF-8, and so no study"))?;
    study(&text, &name)
}

/// Checks the study that `text` holds; `name` is its file, for what is wrong.
///
/// # Errors
/// [`Error::Data`].
pub fn study(text: &str, name: &str) -> Result<Checked> {
    let study: Study = toml::from_str(text).map_err(|error| {
        let line =
            error.span().map_or_else(String::new, |span| format!("line {}: ", at(text, &span)));
        Error::data(name, format!("{line}{}", in_words(error.message(), text, error.span())))
    })?;
    check::check(study).map_err(|what| Error::data(name, what))
}

/// Returns the line, from 1, on which the span begins.
fn at(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Rewrites the parser's message about a key in the terms of this program, with the nearest valid key.
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
    message
}

/// Returns the first name in backticks behind `prefix`, and the others.
fn parts<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let mut names = message.strip_prefix(prefix)?.split('`').skip(1).step_by(2);
    let first = names.next()?;
    Some((first, names.collect()))
}

#[cfg(test)]
mod tests;
