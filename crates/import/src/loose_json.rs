//! JSON as measuring programs write it, with the faults that they make: the same key twice, `nan`, `-inf`, `1.2e 09`, a
//! decimal comma, text around and between documents, and documents that end in the middle.
//!
//! A strict parser refuses these, or keeps the last of two equal keys.

use std::borrow::Cow;

/// Maximum depth of objects and lists.
const DEEPEST: usize = 64;

/// A value. Members of an object are in the order of the text, equal keys among them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LooseValue<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, which may be NaN or infinite.
    Number(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<LooseValue<'a>>),
    /// An object.
    Object(Vec<(Cow<'a, str>, LooseValue<'a>)>),
}

/// Documents in a text, and the words around them.
#[derive(Debug, Default)]
pub(super) struct LooseDocuments<'a> {
    /// Objects at the top level, in order.
    pub documents: Vec<LooseDocument<'a>>,
    /// Text before, between and after them: a line each, without empty ones.
    pub words: Vec<&'a str>,
}

/// A document.
#[derive(Debug)]
pub(super) struct LooseDocument<'a> {
    /// The object, as far as it is there.
    pub value: LooseValue<'a>,
    /// True if the text ends, or goes on with another document, in the middle of this one.
    pub is_cut: bool,
}

impl<'a> LooseValue<'a> {
    /// Returns the first member with this key.
    pub(super) fn get(&self, key: &str) -> Option<&LooseValue<'a>> {
        self.members().iter().find(|(own, _)| own == key).map(|(_, value)| value)
    }

    /// Returns all members with this key.
    pub(super) fn all<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s LooseValue<'a>> {
        self.members().iter().filter(move |(own, _)| own == key).map(|(_, value)| value)
    }

    /// Returns the elements of a list; none for other values.
    pub(super) fn elements(&self) -> &[LooseValue<'a>] {
        if let LooseValue::List(elements) = self { elements } else { &[] }
    }

    /// Returns the members of an object; none for other values.
    pub(super) fn members(&self) -> &[(Cow<'a, str>, LooseValue<'a>)] {
        if let LooseValue::Object(members) = self { members } else { &[] }
    }

    /// Returns a finite number, also of a string that is one, and of `true` and `false` 1 and 0.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match self {
            LooseValue::Number(number) => *number,
            LooseValue::Text(text) => text.trim().parse().ok()?,
            LooseValue::Bool(value) => f64::from(u8::from(*value)),
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// Returns a string.
    pub(super) fn text(&self) -> Option<&str> {
        if let LooseValue::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the number at a path, `a/b`: the sum where several members are asked for, by `*`, or `!x` for all but `x`. `x?`
    /// stands for `x` or, where there is none, for nothing.
    pub(super) fn number_at(&self, path: &str) -> Option<f64> {
        let Some((key, rest)) = path.split_once('/').or((!path.is_empty()).then_some((path, "")))
        else {
            return self.number();
        };
        if let Some(key) = key.strip_suffix('?') {
            return self.get(key).unwrap_or(self).number_at(rest);
        }
        let but = key.strip_prefix('!');
        if key == "*" || but.is_some() {
            let members = self.members().iter().filter(|(own, _)| Some(own.as_ref()) != but);
            // An object without members counts nothing.
            return Some(members.filter_map(|(_, own)| own.number_at(rest)).sum());
        }
        self.get(key)?.number_at(rest)
    }

    /// Returns the value at a path of keys.
    pub(super) fn at(&self, path: &str) -> Option<&LooseValue<'a>> {
        path.split('/').try_fold(self, |value, key| value.get(key))
    }

    /// Returns the text at a path of keys.
    pub(super) fn text_at(&self, path: &str) -> Option<&str> {
        self.at(path)?.text()
    }

    /// Returns the elements of the list at a path of keys; none for other values.
    pub(super) fn list_at(&self, path: &str) -> &[LooseValue<'a>] {
        self.at(path).map_or(&[], LooseValue::elements)
    }
}

/// Returns the documents in a text.
pub(super) fn documents(text: &str) -> LooseDocuments<'_> {
    let mut found = LooseDocuments::default();
    let mut at = 0;
    while at < text.len() {
        let Some(begin) = text[at..].find('{').map(|offset| at + offset) else {
            found.words(&text[at..]);
            break;
        };
        found.words(&text[at..begin]);
        let mut parser = LooseParser { text, at: begin, depth: 0, cut: false };
        let value = parser.looks_like_object().then(|| parser.object());
        at = match value {
            Some(value) if !value.members().is_empty() || !parser.cut => {
                let is_cut = parser.cut;
                let next =
                    if is_cut { after_cut(text, begin, parser.at, &value) } else { parser.at };
                found.documents.push(LooseDocument { value, is_cut });
                next
            }
            _ => {
                let end = text[begin..].find('\n').map_or(text.len(), |offset| begin + offset + 1);
                found.words(&text[begin..end]);
                end
            }
        };
    }
    found
}

/// Returns the place to go on after a document that was cut: the next one may begin within an unfinished string of it,
/// and has the same first key.
fn after_cut(text: &str, begin: usize, end: usize, value: &LooseValue<'_>) -> usize {
    let first = value.members().first().map(|(key, _)| format!("\"{key}\""));
    let begins =
        |at: &usize| first.as_ref().is_some_and(|key| text[at + 2..].trim_start().starts_with(key));
    let taken = &text[begin..end];
    let mut lines = taken.match_indices("\n{").map(|(at, _)| begin + at);
    lines.find(begins).unwrap_or(end)
}

impl<'a> LooseDocuments<'a> {
    /// Adds text outside of documents; brackets and commas of a list around them are no words.
    fn words(&mut self, text: &'a str) {
        let is_between = |c: char| c.is_whitespace() || "[],".contains(c);
        self.words.extend(text.lines().map(str::trim).filter(|line| !line.chars().all(is_between)));
    }
}

/// Kind of the value around a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    List,
}

/// Parser of a text from `at` on. After a fault, `cut` is true, and the values so far are returned.
struct LooseParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    cut: bool,
}

impl<'a> LooseParser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Returns true if a key or the end of the object follows: braces in words are no objects.
    fn looks_like_object(&self) -> bool {
        self.rest()[1..].trim_start().starts_with(['"', '}'])
    }

    fn value(&mut self, within: Container) -> Option<LooseValue<'a>> {
        match self.peek()? {
            b'{' => self.nested(LooseParser::object),
            b'[' => self.nested(LooseParser::list),
            b'"' => self.string().map(LooseValue::Text),
            _ => self.bare(within),
        }
    }

    fn nested(
        &mut self,
        parse: fn(&mut LooseParser<'a>) -> LooseValue<'a>,
    ) -> Option<LooseValue<'a>> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        Some(value)
    }

    fn object(&mut self) -> LooseValue<'a> {
        LooseValue::Object(self.sequence(b'}', |own| {
            let key = if own.peek()? == b'"' { own.string()? } else { return None };
            own.takes(b':').then_some(())?;
            Some((key, own.value(Container::Object)?))
        }))
    }

    fn list(&mut self) -> LooseValue<'a> {
        LooseValue::List(self.sequence(b']', |own| own.value(Container::List)))
    }

    /// Parses members or elements, with commas between them, up to the closing byte.
    fn sequence<T>(&mut self, close: u8, parse: fn(&mut LooseParser<'a>) -> Option<T>) -> Vec<T> {
        self.at += 1;
        let mut all = Vec::new();
        while !self.cut && !self.takes(close) {
            let next = parse(self);
            self.cut |= next.is_none();
            all.extend(next);
            self.cut = self.cut || !self.takes(b',') && self.peek() != Some(close);
        }
        all
    }

    /// Parses a string; control characters in it are allowed.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.at += 1;
        let rest = self.rest();
        let end = rest.find(['"', '\\'])?;
        if rest.as_bytes()[end] == b'"' {
            self.at += end + 1;
            return Some(Cow::Borrowed(&rest[..end]));
        }
        let mut text = String::new();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Some(Cow::Owned(text));
                }
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'u' => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).ok()?;
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        None
    }

    /// Parses a number or a word: all up to the next comma, bracket or end of line.
    fn bare(&mut self, within: Container) -> Option<LooseValue<'a>> {
        let rest = self.rest();
        let mut end = rest.find([',', '}', ']', '\n', '\r', '"', '{']).unwrap_or(rest.len());
        // In an object a comma before a digit is a decimal one, as a key follows after others.
        let behind = rest.get(end + 1..).unwrap_or_default();
        if within == Container::Object
            && rest[end..].starts_with(',')
            && behind.starts_with(|c: char| c.is_ascii_digit())
        {
            end += 1 + behind.find([',', '}', ']', '\n', '\r']).unwrap_or(behind.len());
        }
        let word = &rest[..end];
        let value = bare_value(word.trim())?;
        // A number at the end of the text may go on behind it.
        if end == rest.len() {
            return None;
        }
        self.at += end;
        Some(value)
    }
}

/// Returns the value of a bare word: `-1.5`, `1.2e 09`, `nan`, `-inf`, `true`, `null`.
fn bare_value<'a>(word: &str) -> Option<LooseValue<'a>> {
    let value = match word {
        "true" => LooseValue::Bool(true),
        "false" => LooseValue::Bool(false),
        "null" => LooseValue::Null,
        _ => {
            let plain: String = word.chars().filter(|c| !c.is_whitespace()).collect();
            let plain = plain.replace(',', ".").to_ascii_lowercase();
            let unsigned = plain.trim_start_matches(['-', '+']);
            // `-nan(ind)` and `1.#IND` are of Windows' C library.
            if unsigned.starts_with("nan") || unsigned.contains('#') {
                LooseValue::Number(f64::NAN)
            } else {
                LooseValue::Number(plain.parse().ok()?)
            }
        }
    };
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> LooseValue<'_> {
        let found = documents(text);
        assert_eq!((found.documents.len(), found.words.len()), (1, 0), "{found:?}");
        assert!(!found.documents[0].is_cut, "{text}");
        found.documents.into_iter().next().unwrap().value
    }

    #[test]
    fn faults_of_programs_are_read() {
        let value = one(
            "{\"a\":\t1.2e 09, \"a\": -nan, \"b\": [inf, -1, 18446744073709551615, 1,5], \"c\": 1,5,\n\
             \"d\": \"x\\n\\u00e9\\\"\", \"e\": null, \"f\": true, \"g\": {} }",
        );
        let all: Vec<Option<f64>> = value.all("a").map(LooseValue::number).collect();
        assert_eq!(all, [Some(1.2e9), None]);
        let list: Vec<Option<f64>> =
            value.get("b").unwrap().elements().iter().map(LooseValue::number).collect();
        assert_eq!(
            list,
            [None, Some(-1.0), Some(18_446_744_073_709_551_615.0), Some(1.0), Some(5.0)]
        );
        assert_eq!(value.get("c").and_then(LooseValue::number), Some(1.5));
        assert_eq!(value.get("d").and_then(LooseValue::text), Some("x\né\""));
        assert_eq!(value.get("f").and_then(LooseValue::number), Some(1.0));
        assert_eq!((value.get("e"), value.get("h")), (Some(&LooseValue::Null), None));
    }

    #[test]
    fn documents_stand_among_words() {
        let text =
            "warning: {x} ignored\n[{\"a\": 1},\n{\"a\": 2}]\n{\"a\": 3}{\"a\": 4}\nbroken pipe\n";
        let found = documents(text);
        let values: Vec<Option<f64>> =
            found.documents.iter().map(|own| own.value.get("a")?.number()).collect();
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0].map(Some));
        assert_eq!(found.words, ["warning:", "{x} ignored", "broken pipe"]);
    }

    #[test]
    fn what_is_there_of_a_document_that_was_cut_is_read() {
        let text = "{\"a\": 1, \"b\": [{\"c\": 2}, {\"c\": 31";
        let found = documents(text);
        assert!(found.documents[0].is_cut);
        let value = &found.documents[0].value;
        assert_eq!(value.get("a").and_then(LooseValue::number), Some(1.0));
        let list = value.get("b").unwrap().elements();
        assert_eq!(list[0].get("c").and_then(LooseValue::number), Some(2.0));
        assert_eq!(list[1].get("c"), None, "31 may be the beginning of a longer number");
        let text = "{\n \"a\": 1, \"bits_per{\n \"a\": 2}\n{\n \"a\": 3}\n";
        let values = |text: &str| -> Vec<Option<f64>> {
            documents(text).documents.iter().map(|own| own.value.get("a")?.number()).collect()
        };
        assert_eq!(values(&text.replace("per{", "per\n{")), [1.0, 2.0, 3.0].map(Some));
        assert_eq!(values("{\n \"a\": 1{\n \"a\": 2}"), [1.0, 2.0].map(Some));
    }

    #[test]
    fn nothing_is_too_deep_or_too_strange() {
        for text in ["{\"a\":".repeat(100_000), "[".repeat(100_000), "{\"a\":[".repeat(9_999)] {
            documents(&text);
        }
        for text in
            ["", "{", "{\"", "{\"\\", "{\"\\u12", "}", "{\"a\"", "{\"a\":", "{\"é\": é}", "{é"]
        {
            documents(text);
        }
    }
}
