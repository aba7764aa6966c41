//! Text for a screen of limited width: text from files is made visible, sentences are
//! wrapped, columns are aligned.

use deadheat_base::foreign::visible;

/// Columns that `text` takes on a terminal: two for East Asian wide characters and emoji (the
/// large blocks of Unicode's EastAsianWidth.txt), none for combining marks, one for all others.
pub fn columns(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x300..=0x36f | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
            0x1100..=0x115f
            | 0x2e80..=0x303e
            | 0x3041..=0xa4cf
            | 0xac00..=0xd7a3
            | 0xf900..=0xfaff
            | 0xfe30..=0xfe6f
            | 0xff00..=0xff60
            | 0xffe0..=0xffe6
            | 0x1f300..=0x1f64f
            | 0x1f680..=0x1f6ff
            | 0x1f900..=0x1f9ff
            | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

/// Pads `text` with spaces on the right.
pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns(text)))
}

/// Wraps `text` to lines of at most `width` columns, broken at spaces. A longer word is cut.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if !line.is_empty() && columns(&line) + columns(c.encode_utf8(&mut [0; 4])) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Pads numbers so that their decimal points are aligned: ` 9.21`, `12.3 `. Text that does not begin with
/// a digit stays at the left.
pub(super) fn align_decimals(numbers: &[String]) -> Vec<String> {
    let split = |text: &str| {
        let whole = text.find('.').unwrap_or(text.len());
        (whole, text.len() - whole)
    };
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let (mut before, mut after) = (0, 0);
    for text in numbers.iter().filter(|text| is_number(text)) {
        let (whole, rest) = split(text);
        before = before.max(whole);
        after = after.max(rest);
    }
    let align = |text: &String| {
        if !is_number(text) {
            return text.clone();
        }
        let (whole, rest) = split(text);
        format!(
            "{:2$}{text}{:3$}",
            "",
            "",
            before.saturating_sub(whole),
            after.saturating_sub(rest)
        )
    };
    numbers.iter().map(align).collect()
}

/// Formats a field of CSV, made visible, and quoted if necessary (RFC 4180, §2.5 to 2.7). A text that a spreadsheet would
/// take for a formula has `'` in front, and is quoted, also where another separator of fields could make a field begin
/// within it (OWASP, "CSV Injection"). Numbers stay as they are.
pub(super) fn field(text: &str) -> String {
    let mut text = visible(text);
    let is_formula = text.starts_with(FORMULA) && !is_number(&text);
    if is_formula {
        text.insert(0, '\'');
    }
    if is_formula || text.contains(['"', ',', ';']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

/// First characters of a formula. Tabs and ends of lines are made visible before. Programs accept the wide
/// forms of East Asian keyboards, too.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_to_their_width_and_lose_nothing() {
        let text = "a sentence of several words and one-unbreakable-long-word at its end";
        for width in 1..80 {
            let lines = wrap(text, width);
            assert!(lines.iter().all(|line| columns(line) <= width), "{lines:?}");
            let all: String = lines.concat().replace(' ', "");
            assert_eq!(all, text.replace(' ', ""));
        }
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("東京 東京", 4), ["東京", "東京"]);
    }

    #[test]
    fn points_stand_under_each_other() {
        let numbers = ["9.21", "12.3", "123", "–"].map(String::from);
        assert_eq!(align_decimals(&numbers), ["  9.21", " 12.3 ", "123   ", "–"]);
        assert_eq!(pad("µs", 4), "µs  ");
    }

    #[test]
    fn fields_are_quoted_only_where_they_must_be() {
        assert_eq!(field("tcp"), "tcp");
        assert_eq!(field("tcp:cc=bbr,nodelay=off"), "\"tcp:cc=bbr,nodelay=off\"");
        assert_eq!(field("say \"hi\"\n"), "\"say \"\"hi\"\"\\n\"");
    }

    #[test]
    fn no_field_begins_a_formula_and_numbers_stay_numbers() {
        for text in ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\u{ff1d}1", "-", "-inf"] {
            let shown = field(text);
            assert!(shown.starts_with("\"'") && shown.ends_with('"'), "{shown}");
        }
        assert_eq!(field("=HYPERLINK(\"http://x\",1)"), "\"'=HYPERLINK(\"\"http://x\"\",1)\"");
        assert_eq!(field("\t=1+1"), "\\t=1+1");
        assert_eq!(field("tcp;=1+1"), "\"tcp;=1+1\"");
        for number in ["-1", "-0.25", "+3", "1e-9", "-1.5E+3", "0"] {
            assert_eq!(field(number), number);
        }
    }
}
