//! The words of a path: `[PROFILE,]key=value,… + …`, one link between each `+`.
//!
//! A key holds for both directions; with `up.` or `down.` in front for one, where it then takes
//! precedence. What is typed takes precedence over what a profile says. Beyond that nothing is
//! overruled and nothing ignored: what contradicts itself is refused, and so is a key that has no
//! effect in any direction.

use std::collections::BTreeMap;

use super::files::{self, Files, ReadFile};
use super::network::{Backend, Grouping, Link, Network};
use super::profile;
use crate::contract::{Direction, WaitMode};
use crate::error::{Error, Result, unknown};
use crate::spec::{Key, Kind, Settings, Spec};

mod build;
mod keys;
mod text;

pub use keys::{LINK, WHOLE};

/// The longest path that is read at all, in bytes.
const LONGEST: usize = 65_536;

/// The most links: as many as the kernel's MPTCP takes addresses (`MPTCP_PM_ADDR_MAX`).
const MOST_LINKS: usize = 8;

/// Keys of which at most one can hold: (key, key).
const EXCLUSIVE: &[(&str, &str)] = &[
    ("loss", "ge"),
    ("loss", "drop"),
    ("ge", "drop"),
    ("burst", "ge"),
    ("burst", "drop"),
    ("rate", "trace"),
];

/// Keys that say how another key's work is done: (key, those of which one must be there).
const NEEDS: &[(&str, &[&str])] = &[
    ("jitter-shape", &["jitter"]),
    ("order", &["jitter"]),
    ("burst", &["loss"]),
    ("reorder-depth", &["reorder"]),
    ("reorder-patience", &["reorder"]),
    ("trace-mode", &["trace"]),
    ("overhead", &["rate", "trace"]),
    ("queue", &["rate", "trace"]),
    ("aqm", &["rate", "trace"]),
    ("target", &["rate", "trace"]),
    ("interval", &["rate", "trace"]),
    ("ecn", &["rate", "trace"]),
];

/// Keys that only some queue disciplines understand: (key, disciplines).
const BY_DISCIPLINE: &[(&str, &[&str])] = &[
    ("target", &["codel", "fq-codel", "pie"]),
    ("interval", &["codel", "fq-codel"]),
    ("ecn", &["codel", "fq-codel", "pie"]),
];

/// What people write elsewhere: (there, here).
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

/// What carries a path out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// This host, in real time.
    Emulated,
    /// Nothing but arithmetic.
    Simulated,
}

impl Network {
    /// Reads links as typed, and the files that they name.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the key, what is wrong with it and what would be right;
    /// [`Error::Setup`] or [`Error::Data`] for a file, with the line.
    pub fn parse(typed: &str) -> Result<Network> {
        Network::parse_with(typed, &mut files::read)
    }

    /// [`Network::parse`] with files that `read` has.
    ///
    /// # Errors
    /// As of [`Network::parse`], and what `read` answers.
    pub fn parse_with(typed: &str, read: ReadFile<'_>) -> Result<Network> {
        parse(typed, Carrier::Emulated, read)
    }
}

/// Reads links for a carrier.
pub(super) fn parse(typed: &str, carrier: Carrier, read: ReadFile<'_>) -> Result<Network> {
    if typed.len() > LONGEST {
        return Err(Error::usage(format!("a path of {} bytes; at most {LONGEST}", typed.len())));
    }
    let texts: Vec<&str> = typed.split('+').map(str::trim).collect();
    if texts.len() > MOST_LINKS {
        return Err(Error::usage(format!("a path of {} links; at most {MOST_LINKS}", texts.len())));
    }
    let mut whole: Vec<Word<'_>> = Vec::new();
    let mut links: Vec<Vec<Word<'_>>> = Vec::new();
    for text in texts {
        let (of_path, of_link) = link_words(text)?.into_iter().partition(|word| word.is_whole());
        whole.extend::<Vec<_>>(of_path);
        links.push(of_link);
    }
    let mut network = whole_path(&whole, carrier)?;
    let mut files = Files::new(read);
    for words in &links {
        network.links.push(link(words, network.mtu, &mut files)?);
    }
    Ok(network)
}

/// A key with its value, as typed or from a profile.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    key: &'static Key,
    way: Option<Direction>,
    value: &'a str,
    from: From,
}

/// Where a word stands, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Profile,
    Typed,
}

impl Word<'_> {
    fn is_whole(&self) -> bool {
        WHOLE.iter().any(|key| key.name == self.key.name)
    }

    fn holds(&self, direction: Direction) -> bool {
        self.way.is_none_or(|way| way == direction)
    }

    /// The higher takes precedence.
    fn rank(&self) -> (From, bool) {
        (self.from, self.way.is_some())
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

/// The words of one link, those of its profile first.
fn link_words(text: &str) -> Result<Vec<Word<'_>>> {
    if text.is_empty() {
        return Err(Error::usage(
            "path: a link without words; a link is a profile, key=value, or both, such as `lte` or `delay=25ms`",
        ));
    }
    let (first, rest) = text.split_once(',').unwrap_or((text, ""));
    let first = first.trim();
    if first.contains('=') {
        return words(text, From::Typed);
    }
    let Some(profile) = profile::ALL.iter().find(|profile| profile.name == first) else {
        return Err(no_profile(first));
    };
    let mut all = words(profile.text, From::Profile)?;
    if text.contains(',') {
        all.extend(words(rest, From::Typed)?);
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
    let known = unknown("path", typed, &names);
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

/// The words of `key=value,…`, each of its kind and none twice.
fn words(text: &str, from: From) -> Result<Vec<Word<'_>>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let word = word(part, from)?;
        if words.iter().any(|other| other.key.name == word.key.name && other.way == word.way) {
            return Err(Error::usage(format!("path: `{word}`: the key is given twice")));
        }
        words.push(word);
    }
    Ok(words)
}

fn word(part: &str, from: From) -> Result<Word<'_>> {
    if part.is_empty() {
        return Err(Error::usage("path: nothing between two commas, or after the last"));
    }
    if part.starts_with("sim:") {
        return Err(Error::usage("path: `sim:` stands once, in front of the whole path"));
    }
    let Some((name, value)) = part.split_once('=') else {
        let profile = profile::ALL.iter().any(|profile| profile.name == part);
        return Err(match profile {
            true => Error::usage(format!("path: profile `{part}` comes first in its link")),
            false => Error::usage(format!("path: `{part}` is not of the form key=value")),
        });
    };
    let (way, bare) = split_way(name);
    let key = match LINK.iter().find(|key| key.name == bare) {
        Some(key) => key,
        None => whole_key(name, bare)?,
    };
    let word = Word { key, way, value, from };
    let wrong = |what: String| Error::usage(format!("path: `{word}`: {what}"));
    if value.is_empty() {
        return Err(wrong(format!("lacks its value; write {}", key.kind.describe())));
    }
    let signed = key.name == "jitter-shape" || matches!(key.kind, Kind::Path);
    if value.starts_with('-') && !signed {
        return Err(wrong("negative; nothing of a path is less than zero".into()));
    }
    let netem = matches!(key.kind, Kind::Span(..)) && value.contains(char::is_whitespace);
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

/// What holds for the whole path; its links are still to come.
fn whole_path(words: &[Word<'_>], carrier: Carrier) -> Result<Network> {
    let mut options: Vec<(String, String)> = Vec::new();
    for word in words {
        let name = word.key.name;
        if options.iter().any(|(other, _)| other == name) {
            return Err(Error::usage(format!(
                "path: `{word}`: `{name}` is given twice; it holds for all links, so give it once"
            )));
        }
        if carrier == Carrier::Simulated && name != "seed" {
            return Err(Error::usage(format!(
                "path: `{word}`: a simulated path has no devices and no waiting; leave it out"
            )));
        }
        options.push((name.to_owned(), word.value.to_owned()));
    }
    let settings = Settings::check(&Spec { name: "path".into(), options }, WHOLE)?;
    Ok(Network {
        links: Vec::new(),
        seed: settings.count("seed"),
        backend: settings.text("backend").and_then(|name| match name {
            "tun" => Some(Backend::Tun),
            "packet" => Some(Backend::Packet),
            "netem" => Some(Backend::Netem),
            _ => None,
        }),
        wait: match settings.text("wait") {
            Some("spin") => WaitMode::Spin,
            _ => WaitMode::Hybrid,
        },
        grouping: settings.text("mode").and_then(|name| match name {
            "strict" => Some(Grouping::Strict),
            "aggregate" => Some(Grouping::Aggregate),
            _ => None,
        }),
        mtu: settings.count("mtu").and_then(|mtu| u16::try_from(mtu).ok()).unwrap_or(1500),
    })
}

/// One link of its words.
fn link(words: &[Word<'_>], mtu: u16, files: &mut Files<'_>) -> Result<Link> {
    let mut link = Link::default();
    let mut idle: Vec<Idle> = Vec::new();
    for direction in [Direction::Up, Direction::Down] {
        let (held, mut unused) = resolve(words, direction)?;
        let options =
            held.values().map(|word| (word.key.name.to_owned(), word.value.to_owned())).collect();
        let settings = Settings::check(&Spec { name: "path".into(), options }, LINK)?;
        let (built, without_effect) = build::impairments(&settings, mtu, files)?;
        for (name, why) in without_effect {
            let at = words
                .iter()
                .position(|word| held.get(name).is_some_and(|held| std::ptr::eq(*held, word)));
            unused.extend(at.map(|word| Idle { word, why }));
        }
        idle.extend(unused);
        match direction {
            Direction::Up => link.up = built,
            Direction::Down => link.down = built,
        }
    }
    for (at, word) in words.iter().enumerate().filter(|(_, word)| word.from == From::Typed) {
        let ways = [Direction::Up, Direction::Down].iter().filter(|way| word.holds(**way)).count();
        let reasons: Vec<&Idle> = idle.iter().filter(|idle| idle.word == at).collect();
        if let Some(first) = reasons.first().filter(|_| reasons.len() == ways) {
            return Err(Error::usage(format!("path: `{word}` has no effect: {}", first.why)));
        }
    }
    Ok(link)
}

/// A word that has no effect in one direction.
struct Idle {
    word: usize,
    why: String,
}

/// Which words hold in a direction, by key; and which do not, and why.
fn resolve<'w, 'a>(
    words: &'w [Word<'a>],
    direction: Direction,
) -> Result<(BTreeMap<&'static str, &'w Word<'a>>, Vec<Idle>)> {
    let index = |word: &Word<'_>| words.iter().position(|other| std::ptr::eq(other, word));
    let mut idle: Vec<Idle> = Vec::new();
    let mut drop = |word: &Word<'_>, why: String| {
        idle.extend(index(word).map(|word| Idle { word, why }));
    };
    let mut held: BTreeMap<&'static str, &Word<'_>> = BTreeMap::new();
    for word in words.iter().filter(|word| word.holds(direction)) {
        match held.get(word.key.name).copied() {
            Some(other) if other.rank() > word.rank() => {
                drop(word, format!("`{other}` takes precedence"));
            }
            before => {
                if let Some(other) = before {
                    drop(other, format!("`{word}` takes precedence"));
                }
                held.insert(word.key.name, word);
            }
        }
    }
    for (one, other) in EXCLUSIVE {
        let (Some(a), Some(b)) = (held.get(one).copied(), held.get(other).copied()) else {
            continue;
        };
        if a.rank() == b.rank() {
            return Err(Error::usage(format!(
                "path: `{a}` and `{b}` exclude each other; give one"
            )));
        }
        let (weak, strong) = if a.rank() < b.rank() { (a, b) } else { (b, a) };
        held.remove(weak.key.name);
        drop(weak, format!("`{strong}` takes precedence"));
    }
    for (key, needed) in NEEDS {
        let missing = !needed.iter().any(|name| held.get(name).is_some_and(|word| !is_zero(word)));
        if missing && let Some(word) = held.remove(key) {
            drop(word, format!("it needs {}", or(needed)));
        }
    }
    for (key, disciplines) in BY_DISCIPLINE {
        let aqm = held.get("aqm").map_or("droptail", |word| word.value);
        if !disciplines.contains(&aqm)
            && let Some(word) = held.remove(key)
        {
            drop(word, format!("it needs aqm={}", disciplines.join("|")));
        }
    }
    Ok((held, idle))
}

/// Whether a word says that nothing is to happen.
fn is_zero(word: &Word<'_>) -> bool {
    matches!(word.key.name, "loss" | "jitter" | "reorder")
        && word.value.bytes().all(|b| !b.is_ascii_digit() || b == b'0')
}

fn or(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names {
        [_] => format!("{} above 0", quoted.join("")),
        _ => quoted.join(" or "),
    }
}

#[cfg(test)]
mod tests;
