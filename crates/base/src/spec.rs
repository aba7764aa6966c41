//! The grammar `NAME[:key=value,…]` of contenders and workloads, and typed access to it (paths use the keys, within a
//! grammar of their own).
//!
//! [`Spec::parse`] checks only the syntax. [`Settings::check`] compares a spec with the keys that a transport or
//! workload declares: it refuses unknown and repeated keys, and ignores none silently.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, Result, unknown};
use crate::time::Nanos;
use crate::units::{
    Bare, BitRate, Bytes, OfferedRate, PacketRate, exact_bytes, parse_bytes, parse_count,
    parse_offered, parse_rate, parse_share, parse_span, rate_text, span_text,
};

pub mod outside;
pub mod typed;

/// Maximum length of a spec in bytes.
const LONGEST: usize = 4096;

/// Spec as typed: a name and its options in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Name: the part before the colon.
    pub name: String,
    /// Options, keys unique, except for those whose values set variables: `set=bin=old,set=cc=bbr`.
    pub options: Vec<(String, String)>,
}

impl Spec {
    /// Reads `NAME` or `NAME:key=value,key=value`.
    pub fn parse(typed: &str) -> Result<Spec> {
        if typed.len() > LONGEST {
            return Err(Error::usage(format!(
                "a spec of {} bytes; at most {LONGEST}",
                typed.len()
            )));
        }
        let (name, rest) = typed.split_once(':').unwrap_or((typed, ""));
        if name.is_empty() {
            return Err(Error::usage(format!(
                "`{typed}` has no name; write NAME or NAME:key=value"
            )));
        }
        if typed.ends_with(':') {
            return Err(Error::usage(format!(
                "`{typed}` ends in a colon; write NAME or NAME:key=value"
            )));
        }
        let mut options: Vec<(String, String)> = Vec::new();
        for part in rest.split(',').filter(|_| !rest.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                Error::usage(format!("option `{part}` in `{typed}` is not of the form key=value"))
            })?;
            if key.is_empty() || value.is_empty() {
                return Err(Error::usage(format!(
                    "option `{part}` in `{typed}` lacks its {}",
                    if key.is_empty() { "key" } else { "value" }
                )));
            }
            if options.iter().any(|(k, v)| k == key && is_same_variable(v, value)) {
                return Err(Error::usage(format!("key `{key}` is given twice in `{typed}`")));
            }
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Spec { name: name.to_owned(), options })
    }

    /// Removes the options with these keys, and returns them as a spec with the same name.
    pub fn split_off(&mut self, keys: &[Key]) -> Spec {
        let is_theirs = |name: &str| keys.iter().any(|key| key.name == name);
        let (theirs, own) =
            std::mem::take(&mut self.options).into_iter().partition(|(name, _)| is_theirs(name));
        self.options = own;
        Spec { name: self.name.clone(), options: theirs }
    }
}

/// Returns true unless both values set variables of different names: `bin=old` and `cc=bbr`.
fn is_same_variable(one: &str, other: &str) -> bool {
    match (one.split_once('='), other.split_once('=')) {
        (Some((one, _)), Some((other, _))) => one == other,
        _ => true,
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.options.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// A key that a transport or workload understands.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name before the equals sign.
    pub name: &'static str,
    /// Kind of its value.
    pub kind: Kind,
    /// Default value, as typed; empty for "not set".
    pub default: &'static str,
    /// Description of its effect, in one line.
    pub doc: &'static str,
}

impl Key {
    /// Declares a key with values of a form of its own, for people, which `check` checks.
    pub const fn own(name: &'static str, form: &'static str, check: fn(&str) -> Result<()>) -> Key {
        Key { name, kind: Kind::Own { form, check, refers: plain }, default: "", doc: "" }
    }

    /// Adds the things outside of the program that values of its own form refer to.
    pub const fn referring(self, refers: fn(&str) -> Reference<'_>) -> Key {
        match self.kind {
            Kind::Own { form, check, .. } => {
                Key { kind: Kind::Own { form, check, refers }, ..self }
            }
            _ => self,
        }
    }

    /// Adds a default, as typed.
    pub const fn or(self, default: &'static str) -> Key {
        Key { default, ..self }
    }

    /// Adds the description of its effect, in one line.
    pub const fn doc(self, doc: &'static str) -> Key {
        Key { doc, ..self }
    }

    /// Returns the key itself, as typed keys do.
    pub const fn key(&self) -> Key {
        *self
    }
}

/// Makes a list of keys of typed ones.
#[macro_export]
macro_rules! keys {
    ($($key:expr),* $(,)?) => { &[$($key.key()),*] };
}

/// Kind of a value: its syntax, and its range.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `on` or `off`.
    Switch,
    /// A word from a list.
    Choice(&'static [&'static str]),
    /// A free word, such as the name of a congestion control; letters, digits, `_` and `-`.
    Word,
    /// Path of a file. The grammar has no escape for a comma in it.
    Path,
    /// Command to run. The grammar has no escape for a comma in it.
    Command,
    /// A whole number from `.0` to `.1`.
    Count(u64, u64),
    /// A size from `.0` to `.1` bytes; a bare number is bytes.
    Size(u64, u64),
    /// A rate from `.0` to `.1` bits per second.
    Rate(u64, u64),
    /// A rate to offer: up to `.0` bits or up to `.1` packets per second, at least 1 of either, or
    /// `max`.
    Offered(u64, u64),
    /// A duration from `.0` to `.1` nanoseconds.
    Span(u64, u64),
    /// A share, `0%` to `100%`.
    Share,
    /// Values of kind `.0` that `.1` also accepts.
    Narrow(&'static Kind, fn(&str) -> Result<()>),
    /// Form that the owner of the key defines.
    Own {
        /// Form as help shows it.
        form: &'static str,
        /// Check of a value against the form.
        check: fn(&str) -> Result<()>,
        /// Thing outside of the program that a value refers to; [`plain`] if values refer to none.
        refers: fn(&str) -> Reference<'_>,
    },
}

/// Thing outside of the program that a value refers to, so that using the value acts on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference<'a> {
    /// None.
    Nothing,
    /// File of this name, which is read or written.
    File(&'a str),
    /// Command that is run.
    Command(&'a str),
    /// Contender, with its options joined by `+`; they may refer to more.
    Contender(&'a str),
}

/// Returns [`Reference::Nothing`], for values that refer to nothing outside of the program.
pub fn plain(_: &str) -> Reference<'_> {
    Reference::Nothing
}

/// Returns [`Reference::Contender`], for values that are contenders.
pub fn contender(value: &str) -> Reference<'_> {
    Reference::Contender(value)
}

impl Kind {
    /// Returns the description of the values in help.
    pub fn describe(&self) -> String {
        match self {
            Kind::Switch => "on|off".into(),
            Kind::Choice(words) => words.join("|"),
            Kind::Word => "NAME".into(),
            Kind::Path => "PATH".into(),
            Kind::Command => "COMMAND".into(),
            Kind::Count(low, high) => format!("{low}..{high}"),
            Kind::Size(low, high) => format!("{}..{}", exact_bytes(*low), exact_bytes(*high)),
            Kind::Rate(low, high) => {
                format!("{}..{}", rate_text(BitRate(*low)), rate_text(BitRate(*high)))
            }
            Kind::Offered(bits, packets) => {
                format!("..{}|..{}|max", rate_text(BitRate(*bits)), PacketRate(*packets))
            }
            Kind::Span(low, high) => {
                format!("{}..{}", span_text(Nanos(*low)), span_text(Nanos(*high)))
            }
            Kind::Share => "0%..100%".into(),
            Kind::Narrow(kind, _) => kind.describe(),
            Kind::Own { form, .. } => (*form).into(),
        }
    }

    /// Returns the thing outside of the program that a value of this kind refers to.
    pub fn reference<'a>(&self, value: &'a str) -> Reference<'a> {
        match *self {
            Kind::Path => Reference::File(value),
            Kind::Command => Reference::Command(value),
            Kind::Own { refers, .. } => refers(value),
            Kind::Narrow(kind, _) => kind.reference(value),
            Kind::Switch
            | Kind::Choice(_)
            | Kind::Word
            | Kind::Count(..)
            | Kind::Size(..)
            | Kind::Rate(..)
            | Kind::Offered(..)
            | Kind::Span(..)
            | Kind::Share => Reference::Nothing,
        }
    }

    /// Checks that a value is of this kind.
    ///
    /// # Errors
    /// [`Error::Usage`] with the mistake and a correction.
    pub fn check(&self, value: &str) -> Result<()> {
        self.read(value).map(drop)
    }

    /// Reads a value of this kind.
    fn read(&self, value: &str) -> Result<Value> {
        let in_range = |low: u64, high: u64, number: u64| within(number, low, high, value, self);
        Ok(match *self {
            Kind::Switch => {
                one_of(value, &["on", "off"])?;
                Value::Switch(value == "on")
            }
            Kind::Choice(words) => {
                one_of(value, words)?;
                Value::Text
            }
            Kind::Word => {
                let ok = value.len() <= 32
                    && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                if !ok {
                    let why = format!("`{value}` is not a word of letters, digits, _ and -");
                    return Err(Error::usage(why));
                }
                Value::Text
            }
            Kind::Path if value.contains(char::is_control) => {
                return Err(Error::usage("a path with control characters in it; rename the file"));
            }
            Kind::Command if value.contains(char::is_control) => {
                return Err(Error::usage(
                    "a command with control characters in it; write it without",
                ));
            }
            Kind::Path | Kind::Command => Value::Text,
            Kind::Count(low, high) => {
                let count = parse_count(value)?;
                in_range(low, high, count)?;
                Value::Count(count)
            }
            Kind::Size(low, high) => {
                let size = parse_bytes(value, Bare::Allowed)?;
                in_range(low, high, size.0)?;
                Value::Size(size)
            }
            Kind::Rate(low, high) => {
                let rate = parse_rate(value)?;
                in_range(low, high, rate.0)?;
                Value::Rate(rate)
            }
            Kind::Offered(bits, packets) => {
                let rate = parse_offered(value)?;
                match rate {
                    OfferedRate::Bits(rate) => in_range(1, bits, rate.0)?,
                    OfferedRate::Packets(rate) => in_range(1, packets, rate.0)?,
                    OfferedRate::Max => {}
                }
                Value::Offered(rate)
            }
            Kind::Span(low, high) => {
                let span = parse_span(value)?;
                in_range(low, high, span.0)?;
                Value::Span(span)
            }
            Kind::Share => Value::Share(parse_share(value)?),
            Kind::Narrow(kind, check) => {
                check(value)?;
                kind.read(value)?
            }
            Kind::Own { check, .. } => {
                check(value)?;
                Value::Text
            }
        })
    }
}

/// Value of a key, parsed once, when the settings are checked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    /// Words and forms that the owner of the key parses.
    Text,
    Switch(bool),
    Count(u64),
    Size(Bytes),
    Rate(BitRate),
    Offered(OfferedRate),
    Span(Nanos),
    Share(f64),
}

/// Accessors; each returns the value if it is of that kind.
impl Value {
    fn switch(self) -> Option<bool> {
        if let Value::Switch(switch) = self { Some(switch) } else { None }
    }

    fn count(self) -> Option<u64> {
        if let Value::Count(count) = self { Some(count) } else { None }
    }

    fn size(self) -> Option<Bytes> {
        if let Value::Size(size) = self { Some(size) } else { None }
    }

    fn length(self) -> Option<usize> {
        usize::try_from(self.size()?.0).ok()
    }

    fn rate(self) -> Option<BitRate> {
        if let Value::Rate(rate) = self { Some(rate) } else { None }
    }

    fn offered(self) -> Option<OfferedRate> {
        if let Value::Offered(offered) = self { Some(offered) } else { None }
    }

    fn span(self) -> Option<Nanos> {
        if let Value::Span(span) = self { Some(span) } else { None }
    }

    fn share(self) -> Option<f64> {
        if let Value::Share(share) = self { Some(share) } else { None }
    }
}

fn one_of(value: &str, words: &[&str]) -> Result<()> {
    if words.contains(&value) { Ok(()) } else { Err(unknown("value", value, words)) }
}

fn within(value: u64, low: u64, high: u64, typed: &str, kind: &Kind) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::usage(format!("`{typed}` is outside {}", kind.describe())))
}

/// A checked spec: every declared key has a value of its kind, or is not set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Each value as typed, and as parsed.
    values: BTreeMap<&'static str, (String, Value)>,
    given: Vec<&'static str>,
}

impl Settings {
    /// Checks `spec` against the declared `keys`.
    ///
    /// # Errors
    /// [`Error::Usage`] with the option, the mistake and a correction.
    pub fn check(spec: &Spec, keys: &'static [Key]) -> Result<Settings> {
        let mut settings = Settings::default();
        for key in keys.iter().filter(|key| !key.default.is_empty()) {
            settings.set(key, key.default)?;
        }
        for (name, value) in &spec.options {
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
                return Err(unknown(&format!("key of `{}`", spec.name), name, &names));
            };
            if settings.given(key.name) {
                return Err(Error::usage(format!("key `{name}` is given twice in `{spec}`")));
            }
            settings
                .set(key, value)
                .map_err(|e| Error::usage(format!("{}:{name}={value}: {e}", spec.name)))?;
            settings.given.push(key.name);
        }
        Ok(settings)
    }

    fn set(&mut self, key: &Key, value: &str) -> Result<()> {
        self.values.insert(key.name, (value.to_owned(), key.kind.read(value)?));
        Ok(())
    }

    /// Replaces the default of a key by another one, empty for "not set". A value that the user typed is unchanged.
    ///
    /// # Errors
    /// [`Error::Usage`] if the value is not of the key's kind.
    pub fn assume(&mut self, key: &Key, value: &str) -> Result<()> {
        if self.given(key.name) {
            return Ok(());
        }
        if value.is_empty() {
            self.values.remove(key.name);
            return Ok(());
        }
        self.set(key, value)
    }

    /// Adds the settings of other keys.
    pub fn join(&mut self, other: Settings) {
        self.values.extend(other.values);
        self.given.extend(other.given);
    }

    /// Returns true if the user typed this key, as opposed to a default.
    pub fn given(&self, key: &str) -> bool {
        self.given.contains(&key)
    }

    /// Returns the value as typed, or else the default; `None` without either.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|(text, _)| text.as_str())
    }

    /// Returns the parsed value of a key. A getter of a kind other than the key's is a bug.
    fn read<T>(&self, key: &str, of_kind: impl Fn(Value) -> Option<T>) -> Option<T> {
        let (_, value) = self.values.get(key)?;
        let read = of_kind(*value);
        debug_assert!(read.is_some(), "`{key}` is of another kind than it is asked for");
        read
    }

    /// Returns a count; `None` if not set.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.read(key, Value::count)
    }

    /// Returns a size; `None` if not set.
    pub fn size(&self, key: &str) -> Option<Bytes> {
        self.read(key, Value::size)
    }

    /// Iterates over all keys with their values, with defaults, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, (text, _))| (*key, text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[Key] = &[
        Key { name: "cc", kind: Kind::Word, default: "cubic", doc: "" },
        Key { name: "nodelay", kind: Kind::Switch, default: "on", doc: "" },
        Key { name: "sndbuf", kind: Kind::Size(2048, 1 << 30), default: "", doc: "" },
        Key { name: "log", kind: Kind::Path, default: "", doc: "" },
    ];

    fn check(typed: &str) -> Result<Settings> {
        Settings::check(&Spec::parse(typed)?, KEYS)
    }

    #[test]
    fn a_spec_prints_as_it_was_typed() {
        for typed in ["tcp", "tcp:cc=bbr", "tcp:cc=bbr,nodelay=off"] {
            assert_eq!(Spec::parse(typed).unwrap().to_string(), typed);
        }
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        let settings = check("tcp:log=/tmp/a file=1 of é.bin").unwrap();
        assert_eq!(settings.text("log"), Some("/tmp/a file=1 of é.bin"));
    }

    #[test]
    fn defaults_stand_where_nothing_is_given() {
        let settings = check("tcp:sndbuf=64kB").unwrap();
        assert_eq!(settings.text("cc"), Some("cubic"));
        assert_eq!(settings.text("nodelay"), Some("on"));
        assert_eq!(settings.size("sndbuf"), Some(Bytes(64_000)));
        assert!(settings.given("sndbuf") && !settings.given("cc"));
    }

    #[test]
    fn another_default_gives_way_to_what_was_typed() {
        let mut settings = check("tcp:nodelay=off").unwrap();
        let [cc, nodelay, sndbuf, _] = KEYS else { panic!("four keys") };
        settings.assume(nodelay, "on").unwrap();
        settings.assume(cc, "").unwrap();
        settings.assume(sndbuf, "1MB").unwrap();
        assert_eq!(settings.text("nodelay"), Some("off"));
        assert_eq!(settings.text("cc"), None);
        assert_eq!(settings.size("sndbuf"), Some(Bytes(1_000_000)));
        assert!(!settings.given("sndbuf"));
        let said = settings.assume(sndbuf, "a lot").unwrap_err().to_string();
        assert!(said.contains("does not start with a number"), "{said}");
        assert_eq!(settings.size("sndbuf"), Some(Bytes(1_000_000)), "it stays as it was");
    }

    #[test]
    fn every_mistake_is_named() {
        let say = |typed: &str| check(typed).unwrap_err().to_string();
        assert!(say("tcp:nodlay=on").contains("did you mean `nodelay`?"));
        assert!(say("tcp:cc=bbr,cc=reno").contains("given twice"));
        assert!(say("tcp:cc").contains("key=value"));
        assert!(say("tcp:cc=").contains("lacks its value"));
        assert!(say("tcp:=x").contains("lacks its key"));
        assert!(say("tcp:").contains("ends in a colon"));
        assert!(say(":cc=x").contains("has no name"));
        assert!(say("tcp:nodelay=maybe").contains("valid: on, off"));
        assert!(say("tcp:sndbuf=1").contains("outside"));
        assert!(say("tcp:sndbuf=-4").contains("does not start with a number"));
        assert!(say("tcp:cc=a/b").contains("not a word"));
        assert!(say("tcp:log=a\nb").contains("control characters"));
    }
}
