//! Words of one link: a profile, and keys with their values.

use super::{LINK, OF_BOTH, WHOLE};
use crate::profile;
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::spec::{Key, Kind};

/// Names of keys in other tools: (their name, our name).
const ELSEWHERE: &[(&str, &str)] = &[
    ("latency", "delay"),
    ("rtt", "delay"),
    ("bandwidth", "rate"),
    ("bw", "rate"),
    ("plr", "loss"),
    ("buffer", "queue"),
    ("limit", "queue"),
    ("dup", "duplicate"),
    ("gemodel", "ge"),
    ("qdisc", "aqm"),
];

/// Key with its value, as typed or from a profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) key: &'static Key,
    pub(super) way: Option<Direction>,
    pub(super) value: &'a str,
    pub(super) origin: Origin,
}

/// Origin of a word, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Profile,
    Typed,
}

impl Word<'_> {
    pub(super) fn is_whole(&self) -> bool {
        WHOLE.iter().any(|key| key.name == self.key.name)
    }

    pub(super) fn holds(&self, direction: Direction) -> bool {
        self.way.is_none_or(|way| way == direction)
    }

    /// Returns the rank; the higher takes precedence.
    pub(super) fn rank(&self) -> (Origin, bool) {
        (self.origin, self.way.is_some())
    }
}

impl std::fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match self.way {
            None => "",
            Some(Direction::Up) => "up.",
            Some(Direction::Down) => "down.",
        };
        write!(f, "{way}{}={}", self.key.name, self.value)
    }
}

/// Splits the words of one link, with the words of its profile first.
pub(super) fn link_words(text: &str) -> Result<Vec<Word<'_>>> {
    if text.is_empty() {
        return Err(Error::usage(
            "path: a link without words; a link is a profile, key=value, or both, such as `lte` or `delay=25ms`",
        ));
    }
    let (first, rest) = text.split_once(',').unwrap_or((text, ""));
    let first = first.trim();
    if first.contains('=') {
        return words(text, Origin::Typed);
    }
    let profile = profile::ALL.iter().find(|profile| profile.name == first);
    let Some(profile) = profile.filter(|profile| !profile.is_network()) else {
        return Err(no_profile(first));
    };
    let mut all = words(profile.text, Origin::Profile)?;
    if text.contains(',') {
        all.extend(words(rest, Origin::Typed)?);
    }
    Ok(all)
}

fn no_profile(typed: &str) -> Error {
    let (_, name) = split_way(typed);
    if let Some(key) = LINK.iter().chain(WHOLE).find(|key| key.name == name) {
        return Error::usage(format!(
            "path: key `{typed}` lacks its value; write {typed}={}",
            key.kind.describe()
        ));
    }
    if typed == "loopback" {
        return Error::usage("path: `loopback` stands alone; it takes no keys and no other link");
    }
    if typed.is_empty() {
        return Error::usage(
            "path: a comma before the first word; write PROFILE,key=value or key=value",
        );
    }
    let mut names: Vec<&str> = profile::ALL.iter().map(|profile| profile.name).collect();
    names.insert(0, "loopback");
    names.extend(super::FORMS.iter().map(|form| form.name));
    if names.contains(&typed) {
        return Error::usage(format!(
            "path: `{typed}` is a whole network; it stands alone, with keys of the whole path: {typed},seed=7"
        ));
    }
    let known = match profile::known_as(typed) {
        // The nearest name by its letters means something different: 5g for 4g.
        Some(name) => format!(
            "unknown path `{typed}`; here it is called `{name}` (valid: {})",
            names.join(", ")
        ),
        None => unknown("path", typed, &names).to_string(),
    };
    Error::usage(format!("{known}, or impairments such as delay=25ms,loss=1%"))
}

fn split_way(name: &str) -> (Option<Direction>, &str) {
    if let Some(name) = name.strip_prefix("up.") {
        (Some(Direction::Up), name)
    } else if let Some(name) = name.strip_prefix("down.") {
        (Some(Direction::Down), name)
    } else {
        (None, name)
    }
}

/// Splits the words of `key=value,…`, each with a known key and none twice.
fn words(text: &str, origin: Origin) -> Result<Vec<Word<'_>>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let word = word(part, origin)?;
        if words.iter().any(|other| other.key.name == word.key.name && other.way == word.way) {
            return Err(Error::usage(format!("path: `{word}`: the key is given twice")));
        }
        words.push(word);
    }
    Ok(words)
}

fn word(part: &str, origin: Origin) -> Result<Word<'_>> {
    if part.is_empty() {
        return Err(Error::usage("path: nothing between two commas, or after the last"));
    }
    if part.starts_with("sim:") {
        return Err(Error::usage("path: `sim:` stands once, in front of the whole path"));
    }
    let Some((name, value)) = part.split_once('=') else {
        let profile = profile::ALL.iter().any(|profile| profile.name == part);
        return Err(if profile {
            Error::usage(format!("path: profile `{part}` comes first in its link"))
        } else {
            Error::usage(format!("path: `{part}` is not of the form key=value"))
        });
    };
    let (way, bare) = split_way(name);
    let key = match LINK.iter().find(|key| key.name == bare) {
        Some(key) => key,
        None => whole_key(name, bare)?,
    };
    let word = Word { key, way, value, origin };
    let wrong = |what: String| Error::usage(format!("path: `{word}`: {what}"));
    if way.is_some() && OF_BOTH.contains(&bare) {
        return Err(wrong(format!(
            "it stands at the link's first host and holds for both directions; write {bare}={value}"
        )));
    }
    if value.is_empty() {
        return Err(wrong(format!("lacks its value; write {}", key.kind.describe())));
    }
    let signed = key.name == "jitter-shape" || matches!(key.kind, Kind::Path);
    if value.starts_with('-') && !signed {
        return Err(wrong("negative; nothing of a path is less than zero".into()));
    }
    let netem = matches!(key.kind, Kind::Span(..)) && value.contains(char::is_whitespace);
    let another = value.split_once([':', ';', ' ']).filter(|(_, other)| other.contains('='));
    if let Some((own, other)) = another.filter(|_| !matches!(key.kind, Kind::Path)) {
        let (own, other) = (own.trim(), other.trim());
        return Err(wrong(format!("a comma stands between keys; write {name}={own},{other}")));
    }
    if key.name == "delay" && netem {
        return Err(wrong("one duration; how it varies is a key of its own, jitter=2ms".into()));
    }
    key.kind.check(value).map_err(|e| wrong(e.to_string()))?;
    Ok(word)
}

fn whole_key(name: &str, bare: &str) -> Result<&'static Key> {
    if let Some(key) = WHOLE.iter().find(|key| key.name == bare) {
        if name != bare {
            return Err(Error::usage(format!(
                "path: `{name}`: `{bare}` holds for the whole path, without a direction"
            )));
        }
        return Ok(key);
    }
    let names: Vec<&str> = LINK.iter().chain(WHOLE).map(|key| key.name).collect();
    let meant = ELSEWHERE.iter().find(|(there, _)| *there == bare).map(|(_, here)| *here);
    match meant {
        Some(here) => Err(Error::usage(format!("path: unknown key `{name}`; here it is `{here}`"))),
        None => Err(unknown("key of a path", bare, &names)),
    }
}
