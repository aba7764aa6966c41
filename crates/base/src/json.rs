//! JSON in two layouts: a line for other processes, and indented text for people. In the text the numbers of one array
//! share a line: series over time consist of such arrays, and would otherwise need a line per number.
//!
//! The text is made of the line, so that the program has the code that writes a saved type once, not for each layout.

use std::fmt::Write as _;
use std::io::Write;

use crate::foreign::is_obeyed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Writes `value` as indented JSON, without a newline at its end.
///
/// # Errors
/// Error of the writer, or of a value that JSON cannot hold.
pub fn write<T: Serialize + ?Sized>(value: &T, writer: &mut dyn Write) -> serde_json::Result<()> {
    writer.write_all(text(value)?.as_bytes()).map_err(serde_json::Error::io)
}

/// Returns `value` as indented JSON, without a newline at its end.
///
/// # Errors
/// As [`write()`].
pub fn text<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|line| indented(&line))
}

/// Returns `value` as JSON without any space, and without a newline at its end.
///
/// # Errors
/// As [`write()`].
pub fn line<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    serde_json::to_string(value).map(String::into_bytes)
}

/// Reads a value from its JSON.
///
/// # Errors
/// If it is not JSON, or has another form.
pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}

/// Returns `value` as the tree that its JSON is read as.
///
/// # Errors
/// As [`write()`].
pub fn tree<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Value> {
    serde_json::from_slice(&line(value)?)
}

/// Returns a line of JSON as indented text. Characters that a terminal obeys are escaped in it.
fn indented(line: &str) -> String {
    let mut text = String::with_capacity(line.len() + line.len() / 4);
    let (mut rest, mut before, mut depth, mut is_inline) = (line, b' ', 0, false);
    let new_line = |text: &mut String, depth: usize| {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str("  "));
    };
    while let Some(first) = rest.bytes().next() {
        let (token, after) = rest.split_at(token_end(rest.as_bytes()));
        match first {
            b',' => {}
            b':' => text.push_str(": "),
            b']' | b'}' => {
                depth -= 1;
                let is_empty = matches!(before, b'[' | b'{');
                if !(is_empty || is_inline && first == b']') {
                    new_line(&mut text, depth);
                }
                is_inline = false;
                text.push_str(token);
            }
            b'[' | b'{' | b'"' => {
                text.push_str(if before == b',' { "," } else { "" });
                if matches!(before, b',' | b'[' | b'{') {
                    new_line(&mut text, depth);
                }
                is_inline = false;
                depth += usize::from(first != b'"');
                token.chars().for_each(|c| push(&mut text, c));
            }
            _ => {
                text.push_str(if before == b',' { ", " } else { "" });
                is_inline = true;
                text.push_str(token);
            }
        }
        (rest, before) = (after, first);
    }
    text
}

/// Returns the end of the first token: a string, a number or word, or one sign.
fn token_end(json: &[u8]) -> usize {
    match json[0] {
        b'"' => {
            let mut at = 1;
            while json[at] != b'"' {
                at += if json[at] == b'\\' { 2 } else { 1 };
            }
            at + 1
        }
        b'[' | b']' | b'{' | b'}' | b',' | b':' => 1,
        _ => json.iter().position(|byte| b",]}".contains(byte)).unwrap_or(json.len()),
    }
}

/// Appends a character of a string, escaped if a terminal obeys it.
fn push(text: &mut String, c: char) {
    if !is_obeyed(c) {
        return text.push(c);
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_share_a_line_and_all_else_has_its_own() {
        let value = json!({
            "a": [1, -2, 3.5, null, true],
            "b": [],
            "c": {},
            "d": [[1], [], ["x", "y"], {"e": [7]}],
            "f": "g",
        });
        let expected = r#"{
  "a": [1, -2, 3.5, null, true],
  "b": [],
  "c": {},
  "d": [
    [1],
    [],
    [
      "x",
      "y"
    ],
    {
      "e": [7]
    }
  ],
  "f": "g"
}"#;
        assert_eq!(text(&value).unwrap(), expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mixed = json!([null, {"k": [1, {"l": []}, 2]}, 3, "s", [[], [[4, "t"]]], false]);
        for value in [mixed, json!(5), json!("x"), json!(null), json!([{}])] {
            assert_eq!(serde_json::from_str::<Value>(&text(&value).unwrap()).unwrap(), value);
            assert_eq!(line(&value).unwrap(), value.to_string().into_bytes());
            assert_eq!(tree(&value).unwrap(), value);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_read_back_whole() {
        let said = "a\u{9b}2J\u{202e}b\u{e0001}\u{1b}µ\n";
        let json = text(&said).unwrap();
        assert_eq!(json, r#""a\u009b2J\u202eb\udb40\udc01\u001bµ\n""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), said);
    }
}
