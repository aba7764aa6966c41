//! Text of foreign origin: from a server, a client, a file. It is displayed, and never interpreted by a terminal.
//!
//! Every foreign text passes [`visible`] on its way to a terminal, a log, a CSV file or a page, and a peer's text is
//! shortened as it is read ([`text`]). `tests/common/hostile.rs` sends text that would forge lines, colours and titles
//! through every way out.

use serde::{Deserialize, Deserializer};

pub mod file;

/// Largest number of characters in a peer's text; the rest is cut off.
pub const LONGEST: usize = 1_000;

/// Returns `text` with escapes in place of characters that move the cursor, are invisible, or change the reading
/// direction: `\n`, `\u{1b}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns [`visible`] text of at most [`LONGEST`] characters, with `…` if some were cut off. Shortened text is not
/// shortened again.
pub fn short(text: &str) -> String {
    let (mut shown, mut length) = (String::new(), 0);
    for c in text.chars() {
        let written = if is_obeyed(c) { c.escape_default().to_string() } else { c.to_string() };
        length += written.chars().count();
        if length > LONGEST {
            return shown + "…";
        }
        shown += &written;
    }
    shown
}

/// Returns the context of byte `at` of `bytes`, for an error at that position: a few dozen characters before it and
/// some after, made [`visible`].
pub fn around(bytes: &[u8], at: usize) -> String {
    let at = at.min(bytes.len());
    let (from, to) = (at.saturating_sub(48), bytes.len().min(at + 16));
    let [before, after] = [from > 0, to < bytes.len()].map(|cut| if cut { "…" } else { "" });
    format!("{before}{}{after}", visible(&String::from_utf8_lossy(&bytes[from..to])))
}

/// Cleans a message of several lines: each is made [`visible`], and the rest after 10,000 characters is cut off.
pub fn lines(text: &str) -> String {
    let end = text.char_indices().nth(10 * LONGEST).map_or(text.len(), |(end, _)| end);
    let all: Vec<String> = text[..end].lines().map(visible).collect();
    all.join("\n") + if end < text.len() { "…" } else { "" }
}

/// Reads a peer's text as [`short`] text, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// Fails if it is not text.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(short(&String::deserialize(from)?))
}

/// Returns true if a terminal would interpret the character instead of displaying it.
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Returns true for format characters, which are invisible but change the text around them: zero-width ones,
/// bidirectional controls (Unicode UAX #9), line and paragraph separators.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_a_place_is_cut_and_made_visible() {
        assert_eq!(around(b"a\x1bb", 2), "a\\u{1b}b");
        let long = [b'x'; 200];
        assert_eq!(around(&long, 100).chars().filter(|c| *c == 'x').count(), 64);
        assert!(around(&long, 100).starts_with('…') && around(&long, 100).ends_with('…'));
        assert_eq!([around(b"", 9), around(b"ab", 9)], ["", "ab"]);
    }

    #[test]
    fn nothing_foreign_reaches_the_terminal_as_a_command() {
        assert_eq!(visible("a\u{1b}[31mb\r\n\t\u{9b}"), "a\\u{1b}[31mb\\r\\n\\t\\u{9b}");
        assert_eq!(visible("x\u{202e}y\u{200b}"), "x\\u{202e}y\\u{200b}");
        assert_eq!(visible("Zürich µs – 東京"), "Zürich µs – 東京");
        assert_eq!(visible(&visible("\n")), "\\n", "twice is as once");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("µ"), "µ");
        let cut = short(&"µ".repeat(5_000));
        assert_eq!(cut.chars().count(), LONGEST + 1);
        assert!(cut.ends_with("µ…"), "{cut}");
        // What is written out counts as it is written, and is cut whole.
        let cut = short(&"\u{7f}".repeat(LONGEST));
        assert_eq!(cut, "\\u{7f}".repeat(LONGEST / 6) + "…");
        assert_eq!(short(&cut), cut);
        assert_eq!(lines("one\ntwo\u{7}"), "one\ntwo\\u{7}");
        assert_eq!(lines(&"x\n".repeat(6_000)).lines().count(), 5_000);
    }

    #[test]
    fn a_fault_is_cleaned_as_it_is_read() {
        let said =
            serde_json::json!({ "kind": "peer", "message": "no\u{1b}]0;owned\u{7}\nFORGED" });
        let fault: crate::error::Fault = serde_json::from_value(said).unwrap();
        assert_eq!(fault.message, "no\\u{1b}]0;owned\\u{7}\\nFORGED");
    }
}
