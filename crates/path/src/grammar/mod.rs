//! Grammar of a path: `[PROFILE,]key=value,… + …`, one link between each `+`. In a network of more than two hosts each link
//! begins with the names of its own: `hamburg--router:delay=5ms + router--oslo:lte`. `file=NAME` reads these from a file,
//! `star:hosts=4` and other short forms and names stand for them.
//!
//! A key holds for both directions; with the prefix `up.` or `down.` for one, where it then takes precedence. A
//! typed key takes precedence over the profile. Beyond that no key overrules another and none is ignored:
//! contradictions are refused, and so is a key that has no effect in any direction.

use std::collections::BTreeMap;

use super::Family;
use super::block::{Block, BlockedProtocol};
use super::files::{self, Files, ReadFile};
use super::network::{self, Link, Network};
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::{Named, named};
use deadheat_base::spec::{Reference, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::{parse_share, parse_span, span_text};

mod build;
mod file;
mod forms;
mod host_keys;
mod hosts;
mod keys;
mod product;
mod short;
mod text;
mod words;

use self::keys::{BACKEND, IP, MODE, MTU, REROUTE, SEED, WAIT};
use self::words::{Origin, Word, link_words};

pub use hosts::is_role;
pub use keys::{LINK, OF_BOTH, WHOLE};
pub use short::{FORMS, Form};

/// Largest length of a path as typed, in bytes.
const LONGEST: usize = 65_536;

/// Largest number of links between two hosts: the number of addresses that the kernel's MPTCP takes (`MPTCP_PM_ADDR_MAX`).
const MOST_LINKS: usize = 8;

/// Largest number of links of a network whose links name their hosts: one octet of an address counts them.
const MOST_OF_NETWORK: usize = 255;

/// Pairs of keys of which at most one can hold: (key, key).
const EXCLUSIVE: &[(&str, &str)] = &[
    ("loss", "ge"),
    ("loss", "drop"),
    ("ge", "drop"),
    ("burst", "ge"),
    ("burst", "drop"),
    ("rate", "trace"),
    ("nat", "firewall"),
    ("jitter", "reordering-jitter"),
    ("order", "reordering-jitter"),
];

/// Keys that modify the effect of another key: (key, alternatives of which one must be present).
const NEEDS: &[(&str, &[&str])] = &[
    ("jitter-shape", &["jitter", "reordering-jitter"]),
    ("order", &["jitter"]),
    ("burst", &["loss"]),
    ("nat-timeout", &["nat", "firewall"]),
    ("hairpin", &["nat"]),
    ("loss-per", &["loss", "ge", "drop"]),
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
    ("target", &["codel", "fq-codel", "pie", "dualpi2"]),
    ("interval", &["codel", "fq-codel"]),
    ("ecn", &["codel", "fq-codel", "pie", "red"]),
];

/// Means that realise a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Emulation: this host, in real time.
    Emulated,
    /// Simulation: pure arithmetic.
    Simulated,
}

impl Network {
    /// Reads links as typed, and the files that they name.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the key, the mistake and a correct form; [`Error::Setup`] or [`Error::Data`] for a
    /// file, with the line.
    pub fn parse(typed: &str) -> Result<Network> {
        Network::parse_with(typed, &mut files::read)
    }

    /// Parses as [`Network::parse`] does, with files from `read`.
    ///
    /// # Errors
    /// As for [`Network::parse`], and the errors of `read`.
    pub fn parse_with(typed: &str, read: ReadFile<'_>) -> Result<Network> {
        parse(typed, Carrier::Emulated, read)
    }
}

/// Returns the files that a path as typed names. Opens none.
///
/// # Errors
/// [`Error::Usage`] naming the key, the mistake and a correct form.
pub fn outside(typed: &str) -> Result<Vec<Named>> {
    let typed = typed.trim();
    if typed == "loopback" {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    let links = typed.strip_prefix("sim:").unwrap_or(typed);
    if let Some((name, _)) = file::split(links) {
        let reference = Reference::File(name);
        return named(reference, || "file of the path".to_owned(), &|_| Ok(Vec::new()));
    }
    let whole = short::text(links)?;
    for link in whole.as_deref().unwrap_or(links).split('+') {
        let (ends, words) = hosts::split(link.trim())?;
        if ends.is_some() && words.is_empty() {
            continue;
        }
        for word in link_words(words)? {
            let place = || format!("{} of the path", word.key.name);
            // No key of a path takes a contender.
            all.extend(named(word.key.kind.reference(word.value), place, &|_| Ok(Vec::new()))?);
        }
    }
    Ok(all)
}

/// Returns a path as typed; for one in a file, in a short form or by the name of a network its links in one line, so that
/// a result is complete without the file and the name.
///
/// # Errors
/// As for [`super::PathSpec::parse`], of such a path.
pub fn written_out(typed: &str) -> Result<String> {
    let links = typed.trim();
    let links = links.strip_prefix(super::SIMULATED).unwrap_or(links);
    if file::split(links).is_some() || short::text(links)?.is_some() {
        return super::PathSpec::parse(typed).map(|path| path.to_string());
    }
    Ok(typed.to_owned())
}

/// Reads links for a carrier.
pub(super) fn parse(typed: &str, carrier: Carrier, read: ReadFile<'_>) -> Result<Network> {
    if typed.len() > LONGEST {
        return Err(Error::usage(format!("a path of {} bytes; at most {LONGEST}", typed.len())));
    }
    if let Some((name, keys)) = file::split(typed.trim()) {
        let text = file::text(name, keys, &mut Files::new(read))?;
        // The text names no file.
        let mut none = |name: &str| Err(Error::usage(format!("path: `{name}` in a file")));
        return parse(&text, carrier, &mut none)
            .map_err(|error| Error::data(name, error.to_string()));
    }
    if let Some(text) = short::text(typed.trim())? {
        return parse(&text, carrier, read);
    }
    if let Some(text) = product::text(typed, carrier, &mut *read)? {
        return parse(&text, carrier, read);
    }
    let texts: Vec<&str> = typed.split('+').map(str::trim).collect();
    let is_named = |text: &&str| hosts::split(text).is_ok_and(|(ends, _)| ends.is_some());
    let most = if texts.iter().any(is_named) { MOST_OF_NETWORK } else { MOST_LINKS };
    if texts.len() > most {
        return Err(Error::usage(format!("a path of {} links; at most {most}", texts.len())));
    }
    let mut whole: Vec<Word<'_>> = Vec::new();
    let mut links: Vec<Vec<Word<'_>>> = Vec::new();
    let mut ends = Vec::new();
    for text in texts {
        let (own, text) = hosts::split(text)?;
        ends.push(own);
        let words = if own.is_some() && text.is_empty() { Vec::new() } else { link_words(text)? };
        let is_own = |word: &Word<'_>| own.is_some() && word.key.name == MTU.name();
        let (of_path, of_link) =
            words.into_iter().partition(|word| word.is_whole() && !is_own(word));
        whole.extend::<Vec<_>>(of_path);
        links.push(of_link);
    }
    if carrier == Carrier::Simulated {
        refuse_in_simulation(links.iter().flatten())?;
    }
    let (mut network, usual_mtu) = whole_path(&whole, carrier)?;
    let mut files = Files::new(read);
    for mut words in links {
        let own = words.iter().position(|word| word.key.name == MTU.name());
        let own = own.map(|at| own_mtu(&words.remove(at))).transpose()?;
        network.links.push(link(&words, own.unwrap_or(usual_mtu), &mut files)?);
    }
    hosts::place(&mut network, &ends, &whole)?;
    hosts::take_down(&mut network, &whole)?;
    check_reroute(&network)?;
    hosts::check_versions(&network)?;
    Ok(network)
}

/// Refuses keys that make no sense in a simulation, which has only single packets of UDP, and no CPU that would
/// hold a sender back.
fn refuse_in_simulation<'a, 'b: 'a>(words: impl Iterator<Item = &'a Word<'b>>) -> Result<()> {
    for word in words {
        let wrong = match (word.key.name, word.value) {
            ("block", rules) if !blocks_udp(rules) => {
                "on a simulated path all packets are of UDP; block=udp has an effect"
            }
            ("ip", _) => {
                "packets of a simulated path have one version of IP, that of -4 or -6; leave it out"
            }
            ("mtu", _) => "a simulated path has no devices; leave it out",
            ("loss-per", _) => "a simulated path has no super-packets; leave it out",
            ("nic", "none") => {
                "without a network card a simulated host could send without end at one time; give a rate \
                 or leave it out"
            }
            _ => continue,
        };
        return Err(Error::usage(format!("path: `{word}`: {wrong}")));
    }
    Ok(())
}

/// Returns true unless a simulated path never carries the blocked protocol.
fn blocks_udp(typed: &str) -> bool {
    // A value that cannot be read is refused by its own parser.
    Block::parse_all(typed)
        .map_or(true, |rules| rules.iter().all(|rule| rule.protocol == BlockedProtocol::Udp))
}

/// Keys of a whole path that need devices, or threads that wait.
const OF_DEVICES: &[&str] = &["mtu", "backend", "wait", "mode"];

/// Reads the settings of the whole path, whose links are added later, and the MTU of links that have none of their own.
fn whole_path(words: &[Word<'_>], carrier: Carrier) -> Result<(Network, u16)> {
    let mut options: Vec<(String, String)> = Vec::new();
    for word in words {
        let name = word.key.name;
        if options.iter().any(|(other, _)| other == name) {
            return Err(Error::usage(format!(
                "path: `{word}`: `{name}` is given twice; it holds for all links, so give it once"
            )));
        }
        let is_relay = name == network::RELAY;
        if carrier == Carrier::Simulated && (OF_DEVICES.contains(&name) || is_relay) {
            let why = if is_relay {
                "no relay stands on a simulated path; leave out `sim:`, and it is emulated"
            } else {
                "a simulated path has no devices and no waiting; leave it out"
            };
            return Err(Error::usage(format!("path: `{word}`: {why}")));
        }
        options.push((name.to_owned(), word.value.to_owned()));
    }
    let settings = Settings::check(&Spec { name: "path".into(), options }, WHOLE)?;
    let network = Network {
        seed: settings.find(&SEED),
        backend: settings.find(&BACKEND),
        wait: settings.get(&WAIT),
        grouping: settings.find(&MODE),
        reroute: settings.find(&REROUTE),
        ..Network::between_two(Vec::new())
    };
    Ok((network, mtu(&settings)))
}

fn mtu(settings: &Settings) -> u16 {
    u16::try_from(settings.get(&MTU)).unwrap_or(u16::MAX)
}

/// Reads the MTU of one link.
fn own_mtu(word: &Word<'_>) -> Result<u16> {
    let options = vec![(word.key.name.to_owned(), word.value.to_owned())];
    Ok(mtu(&Settings::check(&Spec { name: "path".into(), options }, WHOLE)?))
}

/// Refuses changes of routes where nothing could change them.
fn check_reroute(network: &Network) -> Result<()> {
    let Some(after) = network.reroute else { return Ok(()) };
    let mut ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    let why = if !network.has_others() {
        "no host passes packets on, so there is no way around"
    } else if ways.all(|way| way.down.is_empty()) {
        "no link goes down, as with `down=10s-13s`"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("path: `reroute={}` has no effect: {why}", span_text(after))))
}

/// Builds a link from its words.
fn link(words: &[Word<'_>], mtu: u16, files: &mut Files<'_>) -> Result<Link> {
    let mut link = Link { mtu, ..Link::default() };
    let mut idle: Vec<UnusedWord> = Vec::new();
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
            unused.extend(at.map(|word| UnusedWord { word, why }));
        }
        idle.extend(unused);
        match direction {
            Direction::Up => {
                (link.up, link.middlebox) = (built, build::middlebox(&settings));
                let usual = if link.is_nat64() { Family::V4 } else { Family::Any };
                link.family = settings.find(&IP).unwrap_or(usual);
            }
            Direction::Down => link.down = built,
        }
    }
    for (at, word) in words.iter().enumerate().filter(|(_, word)| word.origin == Origin::Typed) {
        let ways = [Direction::Up, Direction::Down].iter().filter(|way| word.holds(**way)).count();
        let reasons: Vec<&UnusedWord> = idle.iter().filter(|idle| idle.word == at).collect();
        if let Some(first) = reasons.first().filter(|_| reasons.len() == ways) {
            return Err(Error::usage(format!("path: `{word}` has no effect: {}", first.why)));
        }
    }
    Ok(link)
}

/// Word without effect in one direction.
struct UnusedWord {
    word: usize,
    why: String,
}

/// Resolves the words that hold in a direction, by key; and the words without effect, with the reason.
fn resolve<'w, 'a>(
    words: &'w [Word<'a>],
    direction: Direction,
) -> Result<(BTreeMap<&'static str, &'w Word<'a>>, Vec<UnusedWord>)> {
    let index = |word: &Word<'_>| words.iter().position(|other| std::ptr::eq(other, word));
    let mut idle: Vec<UnusedWord> = Vec::new();
    let mut drop = |word: &Word<'_>, why: String| {
        idle.extend(index(word).map(|word| UnusedWord { word, why }));
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

/// Returns true if a word sets an effect to zero.
fn is_zero(word: &Word<'_>) -> bool {
    match word.key.name {
        "loss" | "reorder" => parse_share(word.value).is_ok_and(|share| share == 0.0),
        "jitter" | "reordering-jitter" => {
            parse_span(word.value).is_ok_and(|span| span == Nanos::ZERO)
        }
        _ => false,
    }
}

/// Keys that have no effect with the value 0.
const AMOUNTS: &[&str] = &["loss", "jitter", "reordering-jitter", "reorder"];

fn or(names: &[&str]) -> String {
    let quoted: Vec<String> =
        names
            .iter()
            .map(|name| {
                if AMOUNTS.contains(name) {
                    format!("`{name}` above 0")
                } else {
                    format!("`{name}`")
                }
            })
            .collect();
    quoted.join(" or ")
}

#[cfg(test)]
mod tests;
