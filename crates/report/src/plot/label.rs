//! Text in limited room: its width, estimated without a font, and labels cut to it.

use crate::text::columns;
use deadheat_base::foreign::visible;

/// Allowance for fonts with wider letters than Helvetica, which estimates are based on.
const LOOSE: f64 = 1.1;

/// Estimates the width of `text` in a sans-serif of `size`, in units of the size. Capitals and digits
/// count as in Helvetica; wide characters as two columns.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.26,
            ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '·' => 0.33,
            'm' | 'M' | 'W' | '%' => 0.86,
            'w' => 0.74,
            'A'..='Z' | '+' | '=' | '<' | '>' | '±' | '×' => 0.67,
            c if c.is_ascii() => 0.56,
            c => 0.6 * columns(c.encode_utf8(&mut [0; 4])) as f64,
        })
        .sum();
    em * size * LOOSE
}

/// Makes `text` visible, and cuts it with an ellipsis if it is wider than `room`. Contenders often differ
/// at the end of their names, so the end is kept, too.
pub(super) fn cut(text: &str, size: f64, room: f64) -> String {
    // Text beyond this length does not fit; measuring all of it would take long.
    let start: String = text.chars().take(400).collect();
    let whole = visible(&start);
    if text.len() == start.len() && width(&whole, size) <= room {
        return whole;
    }
    let letters: Vec<char> = whole.chars().collect();
    let mut kept = letters.len().saturating_sub(1);
    loop {
        let tail = kept / 3;
        let (head, rest) = (&letters[..kept - tail], &letters[letters.len() - tail..]);
        let text: String = head.iter().chain(&['…']).chain(rest).collect();
        if kept == 0 || width(&text, size) <= room {
            return text;
        }
        kept -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_loses_its_middle() {
        assert_eq!(cut("tcp", 12.0, 60.0), "tcp");
        let long = cut("tcp:cc=bbr,nodelay=off,sndbuf=4MiB", 12.0, 120.0);
        assert!(
            long.starts_with("tcp:cc") && long.ends_with("MiB") && long.contains('…'),
            "{long}"
        );
        assert!(width(&long, 12.0) <= 120.0);
        assert_eq!(cut("anything", 12.0, 1.0), "…");
        let endless = cut(&"x".repeat(1_000_000), 12.0, 100.0);
        assert!(endless.len() < 40, "{endless}");
        assert_eq!(cut("a\nb", 12.0, 100.0), "a\\nb");
    }
}
