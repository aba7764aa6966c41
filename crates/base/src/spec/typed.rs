//! Keys whose values have a type. One declaration gives what is checked, the default, the help and the reference, and the type
//! of what is read: settings asked by such a key cannot answer anything else, and no caller repeats its default.
//!
//! ```
//! use deadheat_base::spec::{Key, Settings, Spec};
//! use deadheat_base::spec::typed::{Optional, Preset};
//! use deadheat_base::time::Nanos;
//! use deadheat_base::units::BitRate;
//!
//! const DELAY: Preset<Nanos> =
//!     Optional::span("delay", (0, 1_000_000_000), "time on the way").or("5ms");
//! const RATE: Optional<BitRate> = Optional::rate("rate", (1, 1_000_000), "packets leave at it");
//! const KEYS: &[Key] = &[DELAY.key(), RATE.key()];
//!
//! let settings = Settings::check(&Spec::parse("link").unwrap(), KEYS).unwrap();
//! assert_eq!(settings.get(&DELAY), Nanos::from_millis(5));
//! assert_eq!(settings.find(&RATE), None);
//! ```

use super::{Key, Kind, Settings, Value};
use crate::time::Nanos;
use crate::units::{BitRate, Bytes};

/// Key that may be left out, and then has no value.
#[derive(Debug, Clone, Copy)]
pub struct Optional<T: 'static> {
    key: Key,
    reading: Reading<T>,
}

/// Key with a default.
#[derive(Debug, Clone, Copy)]
pub struct Preset<T: 'static>(Optional<T>);

/// Way from a value as it was read to the type of the key.
#[derive(Debug, Clone, Copy)]
enum Reading<T: 'static> {
    /// Value of a kind, and the value where there is none.
    OfKind(fn(Value) -> Option<T>, T),
    /// The words that may be chosen, and the values that they stand for, at the same places.
    Chosen(&'static [&'static str], &'static [T]),
}

impl<T: Copy> Reading<T> {
    fn read(&self, text: &str, value: Value) -> Option<T> {
        match self {
            Reading::OfKind(of_kind, _) => of_kind(value),
            Reading::Chosen(words, values) => {
                let at = words.iter().position(|word| *word == text)?;
                values.get(at).copied()
            }
        }
    }
}

impl<T: 'static> Optional<T> {
    const fn new(
        name: &'static str,
        kind: Kind,
        reading: Reading<T>,
        doc: &'static str,
    ) -> Optional<T> {
        Optional { key: Key { name, kind, default: "", doc }, reading }
    }

    /// Declares a word out of a few, each of which stands for the value at its place.
    pub const fn choice<const N: usize>(
        name: &'static str,
        words: &'static [&'static str; N],
        values: &'static [T; N],
        doc: &'static str,
    ) -> Optional<T> {
        Optional::new(name, Kind::Choice(words), Reading::Chosen(words, values), doc)
    }

    /// Gives it a default, as it would be typed.
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

impl<T: Copy + 'static> Preset<T> {
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
    pub const fn switch(name: &'static str, doc: &'static str) -> Optional<bool> {
        Optional::new(name, Kind::Switch, Reading::OfKind(Value::switch, false), doc)
    }
}

impl Optional<u64> {
    /// Declares a count within a range.
    pub const fn count(
        name: &'static str,
        (low, high): (u64, u64),
        doc: &'static str,
    ) -> Optional<u64> {
        Optional::new(name, Kind::Count(low, high), Reading::OfKind(Value::count, 0), doc)
    }
}

impl Optional<Bytes> {
    /// Declares a size within a range, in bytes.
    pub const fn size(
        name: &'static str,
        (low, high): (u64, u64),
        doc: &'static str,
    ) -> Optional<Bytes> {
        Optional::new(name, Kind::Size(low, high), Reading::OfKind(Value::size, Bytes(0)), doc)
    }
}

impl Optional<BitRate> {
    /// Declares a rate within a range, in bits per second.
    pub const fn rate(
        name: &'static str,
        (low, high): (u64, u64),
        doc: &'static str,
    ) -> Optional<BitRate> {
        Optional::new(name, Kind::Rate(low, high), Reading::OfKind(Value::rate, BitRate(0)), doc)
    }
}

impl Optional<Nanos> {
    /// Declares a duration within a range, in nanoseconds.
    pub const fn span(
        name: &'static str,
        (low, high): (u64, u64),
        doc: &'static str,
    ) -> Optional<Nanos> {
        Optional::new(name, Kind::Span(low, high), Reading::OfKind(Value::span, Nanos::ZERO), doc)
    }
}

impl Optional<f64> {
    /// Declares a share, as a fraction, which `check` finds right, too.
    pub const fn share(
        name: &'static str,
        check: fn(&str) -> crate::error::Result<()>,
        doc: &'static str,
    ) -> Optional<f64> {
        Optional::new(
            name,
            Kind::Narrow(&Kind::Share, check),
            Reading::OfKind(Value::share, 0.0),
            doc,
        )
    }
}

impl Settings {
    /// Returns the value of a key; `None` where it is not set.
    pub fn find<T: Copy>(&self, key: &Optional<T>) -> Option<T> {
        let (text, value) = self.values.get(key.key.name)?;
        key.reading.read(text, *value)
    }

    /// Returns the value of a key with a default. Settings of another table of keys have that default.
    pub fn get<T: Copy>(&self, key: &Preset<T>) -> T {
        let Preset(key) = key;
        self.find(key).unwrap_or_else(|| key.usual())
    }
}

impl<T: Copy> Optional<T> {
    /// Returns what its default stands for.
    fn usual(&self) -> T {
        let default = self.key.default;
        let value = self.key.kind.read(default).ok();
        let read = value.and_then(|value| self.reading.read(default, value));
        read.unwrap_or(match &self.reading {
            Reading::OfKind(_, blank) => *blank,
            Reading::Chosen(_, values) => values[0],
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
        Optional::choice("order", &["kept", "free"], &[Order::Kept, Order::Free], "").or("kept");
    const MTU: Preset<u64> = Optional::count("mtu", (576, 65_535), "").or("1500");
    const ECN: Optional<bool> = Optional::switch("ecn", "");
    const ROOM: Optional<Bytes> = Optional::size("room", (0, 1_000_000), "");
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
    fn settings_of_another_table_have_the_default_of_the_key() {
        assert_eq!(Settings::default().get(&MTU), 1_500);
    }
}
