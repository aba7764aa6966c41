//! Short forms of networks, `dumbbell:pairs=4,rate=50mbit,delay=10ms|40ms`, and networks by name, `three-cities`. Each
//! becomes the text of a path, so that it can have nothing that a path as typed has not.

use super::WHOLE;
use super::hosts::BETWEEN;
use super::keys::MTU;
use crate::profile;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};

/// Short form of a network: `NAME:KEY=N,…`, with words of its links, and keys of the whole path.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Name of the form.
    pub name: &'static str,
    /// Key of the number of its hosts or pairs.
    pub keys: &'static [Key],
    /// The same, to read it.
    count: Preset<u64>,
    /// Summary of it, in a few words.
    pub summary: &'static str,
    /// Names of its hosts, and what becomes of the words of a link.
    pub doc: &'static str,
    /// Writes the links for this number and these words.
    links: fn(u64, &[&str]) -> Result<Vec<String>>,
    /// Roles that its first and last host do not have, in words of the whole path.
    roles: &'static str,
}

const PAIRS: Preset<u64> =
    Optional::count("pairs", (1, 127)).or("2").doc("pairs of a sender and a receiver");

const SPOKES: Preset<u64> = Optional::count("hosts", (2, 255)).or("3").doc("hosts around the hub");

const PEERS: Preset<u64> = Optional::count("hosts", (2, 23)).or("3").doc("hosts, all linked");

/// Every short form. The numbers keep to the most links of a network.
pub const FORMS: &[Form] = &[
    Form {
        name: "dumbbell",
        keys: &[PAIRS.key()],
        count: PAIRS,
        summary: "pairs of hosts on both sides of one bottleneck",
        doc: "`sender-1`… at `left`, `receiver-1`… at `right`, and the bottleneck from `left` to `right`, which has the \
              words of a link; `delay` is that of the pairs, in turn: delay=10ms|40ms",
        links: dumbbell,
        roles: "far=receiver-1",
    },
    Form {
        name: "star",
        keys: &[SPOKES.key()],
        count: SPOKES,
        summary: "hosts around a hub that passes packets on",
        doc: "`host-1`… with a link each to `hub`; words of a link hold for all, or in turn: rate=1mbit|9mbit",
        links: star,
        roles: "",
    },
    Form {
        name: "mesh",
        keys: &[PEERS.key()],
        count: PEERS,
        summary: "hosts with a link between every two",
        doc: "`host-1`… with a link between every two; words of a link hold for all, or in turn",
        links: mesh,
        roles: "",
    },
];

/// Returns the text of the network that a short form or a name stands for; `None` where `typed` is neither.
///
/// # Errors
/// [`Error::Usage`] for a number of hosts out of range, and for words that do not belong there.
pub(super) fn text(typed: &str) -> Result<Option<String>> {
    let (name, keys) = typed.split_once(',').unwrap_or((typed, ""));
    if let Some(network) = profile::ALL.iter().find(|known| known.name == name.trim()) {
        return network.is_network().then(|| overruled(network.text, keys)).transpose();
    }
    let (name, words) = typed.split_once([':', ',']).unwrap_or((typed, ""));
    let form = FORMS.iter().find(|form| form.name == name.trim());
    form.map(|form| form.text(words)).transpose()
}

impl Form {
    fn text(&self, typed: &str) -> Result<String> {
        if typed.contains('+') {
            let name = self.name;
            return Err(Error::usage(format!(
                "path: `{name}` stands alone; to add a link, take the links that `deadheat path show {name}` prints"
            )));
        }
        let words = typed.split(',').map(str::trim).filter(|_| !typed.trim().is_empty());
        let (whole, words): (Vec<&str>, Vec<&str>) = words.partition(|word| is_whole(word));
        let (count, words): (Vec<&str>, Vec<&str>) = words
            .into_iter()
            .partition(|word| word.contains('=') && key_of(word) == self.count.name());
        let options = count.iter().filter_map(|word| word.split_once('='));
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let spec = Spec { name: self.name.to_owned(), options };
        let settings = Settings::check(&spec, self.keys)?;
        let links = (self.links)(settings.get(&self.count), &words)?.join(" + ");
        overruled(&overruled(&links, self.roles)?, &whole.join(","))
    }
}

/// Returns the text of a network in which keys of the whole path, as typed, take the place of its own; an MTU is that of
/// links without their own.
///
/// # Errors
/// [`Error::Usage`] for a key that is none of the whole path: it would be one of the last link.
pub(super) fn overruled(text: &str, typed: &str) -> Result<String> {
    if typed.is_empty() {
        return Ok(text.to_owned());
    }
    let typed: Vec<&str> = typed.split(',').map(str::trim).collect();
    let is_mtu = |word: &&str| key_of(word) == MTU.name();
    if let Some(word) = typed.iter().find(|word| !is_whole(word)) {
        let names: Vec<&str> = WHOLE.iter().map(|key| key.name).collect();
        return Err(Error::usage(format!(
            "path: `{word}` is none of the keys that follow a whole network ({}); for another link, take the links that \
             `deadheat path show` prints",
            names.join(", ")
        )));
    }
    let (mtu, typed): (Vec<&str>, Vec<&str>) = typed.into_iter().partition(is_mtu);
    let is_typed = |word: &str| typed.iter().any(|other| key_of(other) == key_of(word));
    let links = text.split('+').map(|link| {
        let (ends, words) = link.trim().split_once(':').unwrap_or((link.trim(), ""));
        (ends, words.split(',').filter(|word| !word.is_empty() && !is_typed(word)).collect())
    });
    let mut links: Vec<(&str, Vec<&str>)> = links.collect();
    for (_, words) in &mut links {
        let has_own = words.iter().any(is_mtu);
        words.extend(mtu.iter().filter(|_| !has_own));
    }
    if let Some((_, words)) = links.last_mut() {
        words.extend(&typed);
    }
    let links = links.into_iter().map(|(ends, words)| link(ends, &words));
    Ok(links.collect::<Vec<_>>().join(" + "))
}

/// Returns the key of a word: the part before its value.
pub(super) fn key_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word).trim()
}

fn is_whole(word: &str) -> bool {
    WHOLE.iter().any(|whole| whole.name == key_of(word))
}

/// Writes a link between two hosts, as `a--b`.
fn link(ends: &str, words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("{ends}{}{}", if words.is_empty() { "" } else { ":" }, words.join(","))
}

/// Returns the words of link number `at`, from 0: where values stand in turn, `1ms|9ms`, the one whose turn it is.
fn in_turn(words: &[&str], at: usize) -> Vec<String> {
    let nth = |values: &str| {
        let values: Vec<&str> = values.split('|').collect();
        values[at % values.len()].to_owned()
    };
    let word = |word: &&str| match word.split_once('=') {
        Some((key, values)) => format!("{key}={}", nth(values)),
        None => nth(word),
    };
    words.iter().map(word).collect()
}

fn dumbbell(pairs: u64, words: &[&str]) -> Result<Vec<String>> {
    let is_delay = |word: &&&str| key_of(word).split('.').next_back() == Some("delay");
    let (delays, shared): (Vec<&str>, Vec<&str>) = words.iter().partition(is_delay);
    if let Some(word) = shared.iter().find(|word| word.contains('|')) {
        return Err(Error::usage(format!(
            "path: `{word}`: pairs of a dumbbell differ in their `delay` alone; other keys are of the one bottleneck"
        )));
    }
    let sender = |(at, pair)| link(&format!("sender-{pair}{BETWEEN}left"), &in_turn(&delays, at));
    let receiver = |pair| format!("right{BETWEEN}receiver-{pair}");
    let bottleneck = [link(&format!("left{BETWEEN}right"), &shared)];
    let senders = (1..=pairs).enumerate().map(sender);
    Ok(senders.chain(bottleneck).chain((1..=pairs).map(receiver)).collect())
}

fn star(hosts: u64, words: &[&str]) -> Result<Vec<String>> {
    let spoke = |(at, host)| link(&format!("host-{host}{BETWEEN}hub"), &in_turn(words, at));
    Ok((1..=hosts).enumerate().map(spoke).collect())
}

fn mesh(hosts: u64, words: &[&str]) -> Result<Vec<String>> {
    let pairs = (1..=hosts).flat_map(|a| (a + 1..=hosts).map(move |b| (a, b)));
    let between = |(at, (a, b))| link(&format!("host-{a}{BETWEEN}host-{b}"), &in_turn(words, at));
    Ok(pairs.enumerate().map(between).collect())
}

#[cfg(test)]
mod tests {
    use crate::grammar::written_out;
    use crate::network::Network;
    use crate::routes;

    fn refused(typed: &str, word: &str) {
        let said =
            Network::parse(typed).map(|network| network.to_string()).unwrap_err().to_string();
        assert!(said.contains(word), "{typed}: {said}");
    }

    #[test]
    fn a_dumbbell_has_delays_of_its_pairs_and_one_bottleneck() {
        let typed = "dumbbell:pairs=3,rate=50mbit,delay=10ms|40ms,queue=64kB,seed=7";
        let links = "sender-1--left:delay=10ms + sender-2--left:delay=40ms + sender-3--left:delay=10ms + \
                     left--right:rate=50mbit,queue=64kB + right--receiver-1 + right--receiver-2 + \
                     right--receiver-3:far=receiver-1,seed=7";
        assert_eq!(Network::parse(typed).unwrap(), Network::parse(links).unwrap());
        let other = Network::parse("dumbbell:far=receiver-2,near=sender-2").unwrap();
        let roles = [other.near, other.far].map(|host| other.hosts[host].as_str());
        assert_eq!(roles, ["sender-2", "receiver-2"]);
    }

    #[test]
    fn values_of_stars_and_meshes_stand_in_turn() {
        let star = Network::parse("star:hosts=3,lte|dsl,loss=1%|2%,mtu=1280").unwrap();
        let links = "host-1--hub:lte,loss=1%,mtu=1280 + host-2--hub:dsl,loss=2%,mtu=1280 + host-3--hub:lte,loss=1%,mtu=1280";
        assert_eq!(star, Network::parse(links).unwrap());
        let mesh = Network::parse("mesh:hosts=3,delay=5ms|7ms").unwrap();
        let links =
            "host-1--host-2:delay=5ms + host-1--host-3:delay=7ms + host-2--host-3:delay=5ms";
        assert_eq!(mesh, Network::parse(links).unwrap());
        assert_eq!(Network::parse("mesh:hosts=23").unwrap().links.len(), 253);
        assert_eq!(Network::parse("star:hosts=255").unwrap().links.len(), 255);
        assert_eq!(Network::parse("dumbbell:pairs=127").unwrap().links.len(), 255);
    }

    #[test]
    fn a_form_that_cannot_be_is_refused_with_a_remedy() {
        for (typed, word) in [
            ("dumbbell:pairs=0", "1..127"),
            ("star:hosts=10000", "2..255"),
            ("star:hosts=10,000", "000"),
            ("mesh:hosts=1", "2..23"),
            ("mesh:hosts=3,hosts=4", "given twice"),
            ("star:pairs=3", "unknown key"),
            ("dumbbell:rate=1mbit|2mbit", "alone"),
            ("dumbbell:pairs=2 + a--left", "deadheat path show dumbbell"),
            ("a--b:star", "stands alone"),
            ("a--b:three-cities", "stands alone"),
            ("three-cities,delay=5ms", "keys that follow a whole network (seed, "),
            ("three-cities,near=berlin", "unknown host `berlin`"),
            ("three-citis", "did you mean `three-cities`?"),
            ("star:hosts=3,dleay=1ms", "did you mean `delay`?"),
        ] {
            refused(typed, word);
        }
    }

    #[test]
    fn what_stands_for_links_is_written_out_in_them() {
        let text = written_out("dumbbell:pairs=1,delay=5ms").unwrap();
        assert_eq!(text, "sender-1--left:delay=5ms + left--right + right--receiver-1");
        let other = written_out("three-cities,near=vancouver").unwrap();
        assert!(other.contains("near=vancouver") && !other.contains("near=hamburg"), "{other}");
        assert_eq!(written_out("sim:mesh:hosts=2,loss=1%").unwrap(), "sim:host-1--host-2:loss=1%");
    }

    #[test]
    fn three_cities_have_the_published_round_trips() {
        let rtt_ms = |from: &str, to: &str| {
            let typed = format!("three-cities,near={from},far={to}");
            let network = Network::parse(&typed).unwrap();
            let ways = routes::round_ways(&network);
            let ns: u64 = ways[0].up.iter().chain(&ways[0].down).map(|on| on.delay.0).sum();
            ns as f64 / 1e6
        };
        assert_eq!(rtt_ms("hamburg", "vancouver"), 160.1);
        assert_eq!(rtt_ms("hamburg", "los-angeles"), 146.0);
        assert_eq!(rtt_ms("vancouver", "los-angeles"), 29.7);
    }
}
