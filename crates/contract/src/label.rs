//! Label of a contender, as typed among its knobs: `tcp:cc=bbr,label=BBR`. It is a name for people, so that contenders
//! which differ by their settings only are told apart on every screen. It changes nothing that runs: it is taken off
//! before the contender is read, and results are compared by what ran.

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign;
use deadheat_base::spec::Key;

/// Largest number of characters of a label.
pub const LONGEST: usize = 32;

/// Key for the label, which every contender of a race takes beside its own.
pub const KEYS: &[Key] = &[KEY];

const KEY: Key = Key::own("label", "TEXT", check)
    .doc("its name in every report, up to 32 characters, unique in the race; races are compared by what ran, not by \
     labels");

/// Contender as typed, apart from its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledText {
    /// The contender without its label.
    pub typed: String,
    /// The label, if it has one.
    pub label: Option<String>,
}

impl LabelledText {
    /// Takes the label off a contender as typed.
    ///
    /// # Errors
    /// [`Error::Usage`] for a second label, or for text that cannot be shown in a row of a table.
    pub fn parse(typed: &str) -> Result<LabelledText> {
        let Some((before, value, after)) = split(typed) else {
            return Ok(LabelledText { typed: typed.to_owned(), label: None });
        };
        let wrong = |e: Error| Error::usage(format!("`{}`: {e}", foreign::visible(typed)));
        check(value).map_err(wrong)?;
        let rest = match (before.ends_with(':'), after.is_empty()) {
            (true, false) => format!("{before}{}", &after[1..]),
            (true, true) | (false, true) => before[..before.len() - 1].to_owned(),
            (false, false) => format!("{}{after}", &before[..before.len() - 1]),
        };
        if split(&rest).is_some() {
            return Err(wrong(Error::usage("it has two labels; give it one")));
        }
        Ok(LabelledText { typed: rest, label: Some(value.to_owned()) })
    }

    /// Returns the contender without its label; text with a label that cannot be read is returned unchanged.
    pub fn without(typed: &str) -> String {
        LabelledText::parse(typed).map_or_else(|_| typed.to_owned(), |own| own.typed)
    }
}

/// Splits a contender at its first label: the text before the key, the value, the text after it.
fn split(typed: &str) -> Option<(&str, &str, &str)> {
    let key = format!("{}=", KEY.name);
    let mut places = typed.match_indices(&key).map(|(at, _)| at);
    let at = places.find(|at| typed[..*at].ends_with([':', ',']))?;
    let value = &typed[at + key.len()..];
    let end = value.find(',').unwrap_or(value.len());
    Some((&typed[..at], &value[..end], &value[end..]))
}

fn check(label: &str) -> Result<()> {
    let refuse =
        |why: String| Err(Error::usage(format!("label `{}`: {why}", foreign::short(label))));
    let length = label.chars().count();
    if length == 0 {
        return Err(Error::usage("a label without text; write label=TEXT, or leave it out"));
    }
    if length > LONGEST {
        return refuse(format!(
            "{length} characters; at most {LONGEST}, so that it fits into tables"
        ));
    }
    if label.chars().any(foreign::is_obeyed) {
        return refuse(
            "it has characters that a terminal obeys or does not show; leave them out".into(),
        );
    }
    if label.contains('|') {
        return refuse(
            "`|` separates the contenders of an order of preference; write the label behind the second, without `|`"
                .into(),
        );
    }
    // A spreadsheet reads a cell that begins with `=`, `+`, `-` or `@` as a formula.
    if !label.starts_with(char::is_alphanumeric) || label.ends_with(char::is_whitespace) {
        return refuse("it must begin with a letter or digit, and not end in a space".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(typed: &str) -> (String, Option<String>) {
        let own = LabelledText::parse(typed).unwrap();
        (own.typed, own.label)
    }

    #[test]
    fn a_label_is_taken_off_wherever_it_stands() {
        let with = |text: &str, label: &str| (text.to_owned(), Some(label.to_owned()));
        assert_eq!(parsed("tcp:label=plain"), with("tcp", "plain"));
        assert_eq!(parsed("tcp:cc=bbr,label=my BBR"), with("tcp:cc=bbr", "my BBR"));
        assert_eq!(parsed("tcp:label=a,cc=bbr"), with("tcp:cc=bbr", "a"));
        assert_eq!(parsed("tcp:cc=bbr,label=ä=1,mss=500"), with("tcp:cc=bbr,mss=500", "ä=1"));
        assert_eq!(parsed("udp|tcp:after=1s,label=fast"), with("udp|tcp:after=1s", "fast"));
        assert_eq!(parsed("external:file=label=x.toml").1, None, "a value is no key");
        assert_eq!(parsed("tcp:cc=bbr"), ("tcp:cc=bbr".to_owned(), None));
    }

    #[test]
    fn labels_that_break_a_table_are_refused() {
        for (typed, want) in [
            ("tcp:label=", "without text"),
            ("tcp:label=a,label=b", "two labels"),
            ("tcp:label=a\u{1b}[31m", "a terminal obeys"),
            ("tcp:label=a\u{202e}b", "a terminal obeys"),
            ("udp:label=x|tcp", "order of preference"),
            ("tcp:label==1", "begin with a letter"),
            ("tcp:label=a ", "end in a space"),
            ("tcp:label=123456789012345678901234567890123", "33 characters; at most 32"),
        ] {
            let said = LabelledText::parse(typed).unwrap_err();
            assert_eq!(said.exit_code(), 2);
            assert!(said.to_string().contains(want), "{typed:?}: {said}");
            assert!(!said.to_string().contains(['\u{1b}', '\u{202e}']));
            assert_eq!(LabelledText::without(typed), typed);
        }
    }
}
