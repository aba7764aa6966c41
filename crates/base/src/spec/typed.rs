//! Typed keys. One declaration gives the check, the default, the help and the reference, and the type of the value: a
//! getter with such a key has that type, and no caller repeats the default.
//!
//! ```
//! use deadheat_base::spec::{Key, Settings, Spec};
//! use deadheat_base::spec::typed::{Optional, Preset};
//! use deadheat_base::time::Nanos;
//! use deadheat_base::units::BitRate;
//!
//! const DELAY: Preset<Nanos> =
//!     Optional::span("delay", (0, 1_000_000_000)).or("5ms").doc("time on the way");
//! const RATE: Optional<BitRate> = Optional::rate("rate", (1, 1_000_000)).doc("packets leave at it");
//! const KEYS: &[Key] = &[DELAY.key(), RATE.key()];
//!
//! let settings = Settings::check(&Spec::parse("link").unwrap(), KEYS).unwrap();
//! assert_eq!(settings.get(&DELAY), Nanos::from_millis(5));
//! assert_eq!(settings.find(&RATE), None);
//! ```

use std::fmt;

use super::{Key, Kind, Settings, Value};
use crate::error::Result;
use crate::time::Nanos;
use crate::units::{BitRate, Bytes, OfferedRate};

/// Key without a value if it is not given.
#[derive(Debug, Clone, Copy)]
pub struct Optional<T: 'static> {
    key: Key,
    reading: Reading<T>,
}

/// Key with a default.
#[derive(Debug, Clone, Copy)]
pub struct Preset<T: 'static>(Optional<T>);

/// Key with text as its value, as typed: a word that the host knows, a path, or a form of the owner's.
#[derive(Debug, Clone, Copy)]
pub struct Text(Key);

/// Conversion of a parsed value to the type of the key.
#[derive(Debug, Clone, Copy)]
enum Reading<T: 'static> {
    /// Accessor of a kind of value, and the value if the default is invalid.
    OfKind(fn(Value) -> Option<T>, T),
    /// Words to choose from, and their values, in the same order.
    Chosen(&'static [&'static str], &'static [T]),
    /// Parser of a form that the owner of the key defines, and the value if the default is invalid.
    Form(fn(&str) -> Result<T>, T),
}

impl<T: Clone> Reading<T> {
    fn read(&self, text: &str, value: Value) -> Option<T> {
        match self {
            Reading::OfKind(of_kind, _) => of_kind(value),
            Reading::Chosen(words, values) => {
                let at = words.iter().position(|word| *word == text)?;
                values.get(at).cloned()
            }
            Reading::Form(form, _) => form(text).ok(),
        }
    }
}

impl<T: 'static> Optional<T> {
    const fn new(name: &'static str, kind: Kind, reading: Reading<T>) -> Optional<T> {
        Optional { key: Key { name, kind, default: "", doc: "" }, reading }
    }

    /// Adds the description of its effect, in one line.
    pub const fn doc(self, doc: &'static str) -> Optional<T>
    where
        T: Copy,
    {
        Optional { key: Key { doc, ..self.key }, reading: self.reading }
    }

    /// Declares a choice of words; each stands for the value at its index.
    pub const fn choice<const N: usize>(
        name: &'static str,
        words: &'static [&'static str; N],
        values: &'static [T; N],
    ) -> Optional<T> {
        Optional::new(name, Kind::Choice(words), Reading::Chosen(words, values))
    }

    /// Declares a form of the owner's, of kind [`Kind::Own`] with the check that `form` parses the value. `blank` is
    /// the value if the default is invalid.
    pub const fn form(
        name: &'static str,
        kind: Kind,
        form: fn(&str) -> Result<T>,
        blank: T,
    ) -> Optional<T> {
        Optional::new(name, kind, Reading::Form(form, blank))
    }

    /// Adds a default, as typed, which [`Settings::assume`] may remove: then the key has no value.
    pub const fn assumed(self, default: &'static str) -> Optional<T>
    where
        T: Copy,
    {
        Optional { key: Key { default, ..self.key }, reading: self.reading }
    }

    /// Adds a default, as typed.
    pub const fn or(self, default: &'static str) -> Preset<T>
    where
        T: Copy,
    {
        Preset(Optional { key: Key { default, ..self.key }, reading: self.reading })
    }

    /// Returns the declaration, for the table of keys.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        self.key.name
    }
}

impl<T: Copy + PartialEq + 'static> Optional<T> {
    /// Returns the word for a value of a [`Optional::choice`]; empty if there is none.
    pub fn word(&self, value: T) -> &'static str {
        let Reading::Chosen(words, values) = self.reading else { return "" };
        let mut pairs = words.iter().zip(values);
        pairs.find(|(_, other)| **other == value).map_or("", |(word, _)| *word)
    }
}

impl<T: Copy + PartialEq + 'static> Preset<T> {
    /// Returns the word for a value of a [`Optional::choice`]; empty if there is none.
    pub fn word(&self, value: T) -> &'static str {
        self.0.word(value)
    }
}

impl<T: 'static> Preset<T> {
    /// Gives the declaration of a form of the owner's, of kind [`Kind::Own`] with a default, its parser and the value
    /// if the default is invalid.
    pub const fn form(key: Key, form: fn(&str) -> Result<T>, blank: T) -> Preset<T> {
        Preset(Optional { key, reading: Reading::Form(form, blank) })
    }
}

impl<T: Copy + 'static> Preset<T> {
    /// Adds the description of its effect, in one line.
    pub const fn doc(self, doc: &'static str) -> Preset<T> {
        Preset(self.0.doc(doc))
    }

    /// Parses a value; `None` if it is invalid for the key.
    pub fn read(&self, typed: &str) -> Option<T> {
        self.0.read(typed)
    }

    /// Returns the declaration, for the table of keys.
    pub const fn key(&self) -> Key {
        self.0.key
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        self.0.key.name
    }
}

impl Optional<bool> {
    /// Declares `on` or `off`.
    pub const fn switch(name: &'static str) -> Optional<bool> {
        Optional::new(name, Kind::Switch, Reading::OfKind(Value::switch, false))
    }
}

impl Optional<u64> {
    /// Declares a count within a range.
    pub const fn count(name: &'static str, (low, high): (u64, u64)) -> Optional<u64> {
        Optional::new(name, Kind::Count(low, high), Reading::OfKind(Value::count, 0))
    }
}

impl Optional<Bytes> {
    /// Declares a size within a range, in bytes.
    pub const fn size(name: &'static str, (low, high): (u64, u64)) -> Optional<Bytes> {
        Optional::new(name, Kind::Size(low, high), Reading::OfKind(Value::size, Bytes(0)))
    }
}

impl Optional<usize> {
    /// Declares a size within a range, in bytes, as a length in memory.
    pub const fn length(name: &'static str, (low, high): (u64, u64)) -> Optional<usize> {
        Optional::new(name, Kind::Size(low, high), Reading::OfKind(Value::length, 0))
    }
}

impl Optional<OfferedRate> {
    /// Declares a rate to offer: at most `bits` or `packets` per second, or `max`.
    pub const fn offered(name: &'static str, (bits, packets): (u64, u64)) -> Optional<OfferedRate> {
        let reading = Reading::OfKind(Value::offered, OfferedRate::Max);
        Optional::new(name, Kind::Offered(bits, packets), reading)
    }
}

impl Optional<BitRate> {
    /// Declares a rate within a range, in bits per second.
    pub const fn rate(name: &'static str, (low, high): (u64, u64)) -> Optional<BitRate> {
        Optional::new(name, Kind::Rate(low, high), Reading::OfKind(Value::rate, BitRate(0)))
    }
}

impl Optional<Nanos> {
    /// Declares a duration within a range, in nanoseconds.
    pub const fn span(name: &'static str, (low, high): (u64, u64)) -> Optional<Nanos> {
        Optional::new(name, Kind::Span(low, high), Reading::OfKind(Value::span, Nanos::ZERO))
    }
}

impl Optional<f64> {
    /// Declares a share from 0 to 1, as a fraction.
    pub const fn any_share(name: &'static str) -> Optional<f64> {
        Optional::new(name, Kind::Share, Reading::OfKind(Value::share, 0.0))
    }

    /// Declares a share, as a fraction, that `check` also accepts.
    pub const fn share(
        name: &'static str,
        check: fn(&str) -> crate::error::Result<()>,
    ) -> Optional<f64> {
        Optional::new(name, Kind::Narrow(&Kind::Share, check), Reading::OfKind(Value::share, 0.0))
    }
}

impl Text {
    /// Declares a free word, of letters, digits, `_` and `-`.
    pub const fn word(name: &'static str) -> Text {
        Text(Key { name, kind: Kind::Word, default: "", doc: "" })
    }

    /// Declares a path of a file.
    pub const fn path(name: &'static str) -> Text {
        Text(Key { name, kind: Kind::Path, default: "", doc: "" })
    }

    /// Declares a command line.
    pub const fn command(name: &'static str) -> Text {
        Text(Key { name, kind: Kind::Command, default: "", doc: "" })
    }

    /// Declares a form of the owner's, of kind [`Kind::Own`].
    pub const fn form(name: &'static str, kind: Kind) -> Text {
        Text(Key { name, kind, default: "", doc: "" })
    }

    /// Adds the description of its effect, in one line.
    pub const fn doc(self, doc: &'static str) -> Text {
        Text(Key { doc, ..self.0 })
    }

    /// Adds a default, as typed.
    pub const fn or(self, default: &'static str) -> Text {
        Text(Key { default, ..self.0 })
    }

    /// Returns the declaration, for the table of keys.
    pub const fn key(&self) -> Key {
        self.0
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        self.0.name
    }
}

impl<T: 'static> fmt::Display for Optional<T> {
    /// Writes the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.name)
    }
}

impl<T: 'static> fmt::Display for Preset<T> {
    /// Writes the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Settings {
    /// Returns the value of a key with a default, as typed.
    pub fn as_typed<T>(&self, key: &Preset<T>) -> &str {
        self.text(key.0.key.name).unwrap_or(key.0.key.default)
    }

    /// Returns the text of a key, as typed or its default; `None` if it is not set.
    pub fn text_of(&self, key: &Text) -> Option<&str> {
        self.text(key.0.name)
    }

    /// Returns the value of a key; `None` if it is not set.
    pub fn find<T: Clone>(&self, key: &Optional<T>) -> Option<T> {
        let (text, value) = self.values.get(key.key.name)?;
        key.reading.read(text, *value)
    }

    /// Returns the value of a key with a default, also if these settings are of another table of keys.
    pub fn get<T: Clone>(&self, key: &Preset<T>) -> T {
        let Preset(key) = key;
        self.find(key).unwrap_or_else(|| key.usual())
    }
}

impl<T: Clone> Optional<T> {
    /// Parses a value; `None` if it is invalid for the key.
    pub fn read(&self, typed: &str) -> Option<T> {
        self.reading.read(typed, self.key.kind.read(typed).ok()?)
    }

    /// Returns the value of its default.
    fn usual(&self) -> T {
        self.read(self.key.default).unwrap_or(match &self.reading {
            Reading::OfKind(_, blank) | Reading::Form(_, blank) => blank.clone(),
            Reading::Chosen(_, values) => values[0].clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Order {
        Kept,
        Free,
    }

    const ORDER: Preset<Order> =
        Optional::choice("order", &["kept", "free"], &[Order::Kept, Order::Free]).or("kept");
    const MTU: Preset<u64> = Optional::count("mtu", (576, 65_535)).or("1500");
    const ECN: Optional<bool> = Optional::switch("ecn");
    const ROOM: Optional<Bytes> = Optional::size("room", (0, 1_000_000));
    const KEYS: &[Key] = &[ORDER.key(), MTU.key(), ECN.key(), ROOM.key()];

    #[test]
    fn one_declaration_gives_the_check_the_default_and_the_value() {
        let check = |typed: &str| Settings::check(&Spec::parse(typed).unwrap(), KEYS);
        let usual = check("link").unwrap();
        assert_eq!((usual.get(&ORDER), usual.get(&MTU)), (Order::Kept, 1_500));
        assert_eq!((usual.find(&ECN), usual.find(&ROOM)), (None, None));
        let typed = check("link:order=free,mtu=576,ecn=on,room=64kB").unwrap();
        assert_eq!((typed.get(&ORDER), typed.get(&MTU)), (Order::Free, 576));
        assert_eq!((typed.find(&ECN), typed.find(&ROOM)), (Some(true), Some(Bytes(64_000))));
        let said = check("link:order=fre").unwrap_err().to_string();
        assert!(said.contains("did you mean `free`?"), "{said}");
        assert!(check("link:mtu=575").unwrap_err().to_string().contains("outside 576..65535"));
    }

    #[test]
    fn words_forms_and_texts_are_declared_once_too() {
        const WORD: Text = Text::word("control").or("cubic");
        const EVEN: fn(&str) -> Result<u64> = |typed| match typed.parse() {
            Ok(number) if number % 2 == 0 => Ok(number),
            _ => Err(crate::error::Error::usage("not an even number")),
        };
        const KIND: Kind = Kind::Own {
            form: "EVEN",
            check: |typed| EVEN(typed).map(drop),
            refers: crate::spec::plain,
        };
        const PAIRS: Preset<u64> = Optional::form("pairs", KIND, EVEN, 0).or("4");
        const ROOM: Optional<Bytes> = Optional::size("room", (0, 1_000_000)).assumed("1kB");
        const KEYS: &[Key] = &[WORD.key(), PAIRS.key(), ROOM.key()];
        let check = |typed: &str| Settings::check(&Spec::parse(typed).unwrap(), KEYS);
        let mut usual = check("link").unwrap();
        assert_eq!((usual.text_of(&WORD), usual.get(&PAIRS)), (Some("cubic"), 4));
        assert_eq!((usual.as_typed(&PAIRS), PAIRS.to_string()), ("4", "pairs".to_owned()));
        assert_eq!(usual.find(&ROOM), Some(Bytes(1_000)));
        usual.assume(&ROOM.key(), "").unwrap();
        assert_eq!(usual.find(&ROOM), None);
        assert_eq!(check("link:pairs=6").unwrap().get(&PAIRS), 6);
        assert!(check("link:pairs=5").is_err());
        assert_eq!((ORDER.word(Order::Free), MTU.word(1)), ("free", ""));
    }

    #[test]
    fn settings_of_another_table_have_the_default_of_the_key() {
        assert_eq!(Settings::default().get(&MTU), 1_500);
    }
}
