//! Path in a JSON text to the value at which reading failed, for messages: `trials[3].block`.
//!
//! serde_json reports only line and column. Reading the text a second time up to that place costs less than a
//! second set of deserializers for every saved type that track the path (serde_path_to_error).

use serde_json::Error;

/// Level of nesting.
#[derive(Debug)]
enum Level {
    /// Object, with the name of the current member once the name is complete.
    Object(Option<String>),
    /// Array, with the index of the current element.
    Array(usize),
}

/// Returns the path to the value at which `error` occurred in `text`; empty for the whole text.
pub(super) fn of(error: &Error, text: &[u8]) -> String {
    let before: usize =
        text.split_inclusive(|b| *b == b'\n').take(error.line().max(1) - 1).map(<[u8]>::len).sum();
    let end = before.saturating_add(error.column()).min(text.len());
    let mut levels: Vec<Level> = Vec::new();
    let mut at = 0;
    while at < end {
        match text[at] {
            b'{' => levels.push(Level::Object(None)),
            b'[' => levels.push(Level::Array(0)),
            b'}' | b']' => drop(levels.pop()),
            b',' => match levels.last_mut() {
                Some(Level::Object(name)) => *name = None,
                Some(Level::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                let close = string_end(text, at);
                if let Some(Level::Object(name @ None)) = levels.last_mut() {
                    *name = serde_json::from_slice(&text[at..close]).ok();
                }
                at = close - 1;
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for level in levels {
        match level {
            Level::Object(Some(name)) if path.is_empty() => path = name,
            Level::Object(Some(name)) => path += &format!(".{name}"),
            Level::Array(index) => path += &format!("[{index}]"),
            Level::Object(None) => {}
        }
    }
    path
}

/// Returns the position after the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Outer {
        name: String,
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        a: u64,
        b: Option<[u8; 2]>,
    }

    fn found(text: &str) -> String {
        of(&serde_json::from_str::<Outer>(text).unwrap_err(), text.as_bytes())
    }

    #[test]
    fn the_value_that_does_not_fit_is_named() {
        for (text, path) in [
            (r#"{"name":7,"inner":[]}"#, "name"),
            (
                "{\"name\": \"a\\\"],[\",\n \"inner\": [\n  {\"a\": 1},\n  {\"a\": \"x\"}\n ]\n}",
                "inner[1].a",
            ),
            (r#"{"name":"","inner":[{"a":1,"b":[1,300]}]}"#, "inner[0].b[1]"),
            (r#"{"name":"","inner":[{"a":1,"b":[1]}]}"#, "inner[0].b"),
            (r#"{"name":"","inner":[{"a":1},{"a":-1}]}"#, "inner[1].a"),
            (r#"{"name":"","inner":[{"a":1},{"b":null}]}"#, "inner[1]"),
            (r#"{"name":"","inner":[{"a":1,"c":2}]}"#, "inner[0].c"),
            (r#"{"name":""}"#, ""),
            ("7", ""),
        ] {
            assert_eq!(found(text), path, "{text}");
        }
    }
}
