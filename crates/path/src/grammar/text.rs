//! Text of a network: settings that are the same in both directions are written once, and defaults not at all.

use std::fmt;

use super::build::{chain_of, outages_of};
use super::forms::{EVERY, limit_text};
use super::hosts;
use super::keys::{HAIRPIN, IP, NAT, NAT_TIMEOUT, REORDERING};
use crate::nat::Middlebox;
use crate::network::{
    self, Discipline, Ecn, GilbertElliott, Impairments, Jitter, Link, Loss, LossPer, Network, Nic,
    Order, Outages, Queue, Rate, ReleaseWait, Shape, USUAL_MTU,
};
use crate::trace::Content;
use crate::{Family, block};
use deadheat_base::time::Nanos;
use deadheat_base::units::{Bytes, bytes_text, percent, rate_text, span_text};

impl fmt::Display for Network {
    /// Writes it as [`Network::parse`] reads it, to the same network. A list or table from a file is written in
    /// full, which may be longer than the parser accepts; a trace is written as the name of its file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, link) in self.links.iter().enumerate() {
            let mut words = link_words(link);
            let is_named = self.names_hosts();
            if is_named && link.mtu != USUAL_MTU {
                words.push(format!("mtu={}", link.mtu));
            }
            if i == 0 {
                words.extend(whole_words(self, is_named));
            } else {
                f.write_str(" + ")?;
            }
            if is_named {
                let [a, b] = link.ends.map(|host| &self.hosts[host]);
                write!(f, "{a}--{b}{}", if words.is_empty() { "" } else { ":" })?;
            } else if words.is_empty() {
                words.push("delay=0ms".to_owned());
            }
            f.write_str(&words.join(","))?;
        }
        Ok(())
    }
}

impl Impairments {
    /// Returns its words, without a direction: `delay=5ms, rate=10mbit`; empty for a direction without impairments.
    pub fn words(&self) -> String {
        let words = pairs(self).into_iter().map(|(key, value)| format!("{key}={value}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Key and value.
type Pair = (&'static str, String);

fn link_words(link: &Link) -> Vec<String> {
    let (mut up, mut down) = (pairs(&link.up), pairs(&link.down));
    for pairs in [&mut up, &mut down] {
        pairs.extend(link.middlebox.iter().flat_map(middlebox_pairs));
        let is_usual = link.family == Family::Any || link.is_nat64();
        pairs.extend((!is_usual).then(|| (IP.name(), IP.word(link.family).to_owned())));
    }
    let mut words: Vec<String> = Vec::new();
    let of = |pairs: &[Pair], key: &str| {
        pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
    };
    for key in super::LINK.iter().map(|key| key.name) {
        match (of(&up, key), of(&down, key)) {
            (Some(up), Some(down)) if up == down => words.push(format!("{key}={up}")),
            (up, down) => {
                words.extend(up.map(|value| format!("up.{key}={value}")));
                words.extend(down.map(|value| format!("down.{key}={value}")));
            }
        }
    }
    words
}

fn middlebox_pairs(of: &Middlebox) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    pairs.push(match of.mapping {
        Some(mapping) => ("nat", NAT.word((mapping, of.filtering, of.is_nat64)).to_owned()),
        None => ("firewall", "stateful".to_owned()),
    });
    let timeout = span_text(of.timeout);
    pairs.extend((timeout != NAT_TIMEOUT.key().default).then_some(("nat-timeout", timeout)));
    pairs.extend((!of.hairpin).then(|| (HAIRPIN.name(), "off".to_owned())));
    pairs
}

fn whole_words(of: &Network, is_named: bool) -> Vec<String> {
    let backend = of.backend.map(|backend| format!("backend={}", backend.name()));
    let mode = of.grouping.map(|grouping| format!("mode={}", grouping.name()));
    let mut words: Vec<String> = Vec::new();
    words.extend(of.seed.map(|seed| format!("seed={seed}")));
    let mtu = of.mtu();
    words.extend((!is_named && mtu != USUAL_MTU).then(|| format!("mtu={mtu}")));
    words.extend(backend);
    words.extend((of.wait != ReleaseWait::Hybrid).then(|| format!("wait={}", of.wait.name())));
    words.extend(mode);
    let names = |hosts: &Vec<usize>| {
        let names: Vec<&str> = hosts.iter().map(|host| of.hosts[*host].as_str()).collect();
        names.join(hosts::LISTED)
    };
    let routes: Vec<String> = of.routes.iter().map(names).collect();
    words.extend((!routes.is_empty()).then(|| format!("route={}", routes.join(hosts::SEVERAL))));
    words.extend(of.reroute.map(|after| format!("reroute={}", span_text(after))));
    let [near, far] = of.usual_ends();
    let usual = [(network::NEAR, vec![near]), (network::FAR, vec![far])];
    for (role, of_role) in of.roles().into_iter().filter(|role| !usual.contains(role)) {
        words.push(format!("{role}={}", names(&of_role)));
    }
    words
}

/// Returns the keys that differ from the defaults in one direction.
fn pairs(way: &Impairments) -> Vec<Pair> {
    // Taken apart, so that a new field is not forgotten here.
    let Impairments {
        nic,
        block,
        down,
        loss,
        loss_per,
        duplicate,
        corrupt,
        rate: _,
        overhead: _,
        queue: _,
        delay,
        jitter,
        reorder,
    } = way;
    let mut pairs: Vec<Pair> = Vec::new();
    let mut put = |key: &'static str, value: String| pairs.push((key, value));
    if *delay > Nanos::ZERO {
        put("delay", span_text(*delay));
    }
    for (key, share) in [("duplicate", *duplicate), ("corrupt", *corrupt)] {
        if share > 0.0 {
            put(key, percent(share));
        }
    }
    if let Some(reorder) = reorder {
        put("reorder", percent(reorder.share));
        put("reorder-depth", reorder.depth.to_string());
        put("reorder-patience", span_text(reorder.patience));
    }
    if let Some(jitter) = jitter {
        pairs.extend(jitter_pairs(jitter));
    }
    pairs.extend((!block.is_empty()).then(|| ("block", block::text(block))));
    pairs.extend((!down.is_empty()).then(|| ("down", down.to_string())));
    pairs.extend(loss_pairs(loss));
    pairs.extend((*loss_per == LossPer::Super).then(|| ("loss-per", "super".to_owned())));
    match nic {
        Nic::Usual => {}
        Nic::Rate(rate) => pairs.push(("nic", rate_text(*rate))),
        Nic::None => pairs.push(("nic", "none".to_owned())),
    }
    pairs.extend(rate_pairs(way));
    pairs
}

fn jitter_pairs(jitter: &Jitter) -> Vec<Pair> {
    let key = if jitter.order == Order::Free { REORDERING.name() } else { "jitter" };
    let mut pairs = vec![(key, span_text(jitter.scale))];
    let shape = match &jitter.shape {
        Shape::Uniform => None,
        Shape::Normal => Some("normal".to_owned()),
        Shape::Pareto => Some("pareto".to_owned()),
        Shape::Table(table) => Some(table.iter().map(f64::to_string).collect::<Vec<_>>().join("/")),
    };
    pairs.extend(shape.map(|shape| ("jitter-shape", shape)));
    pairs
}

fn loss_pairs(loss: &Loss) -> Vec<Pair> {
    match loss {
        Loss::None => Vec::new(),
        Loss::Bernoulli(share) => vec![("loss", percent(*share))],
        Loss::GilbertElliott(chain) => chain_pairs(chain),
        Loss::Outages(outages) => {
            vec![("loss", percent(outage_share(outages))), ("burst", span_text(outages.bad))]
        }
        Loss::List(numbers) => vec![("drop", ranges(numbers))],
        Loss::Every(step) => vec![("drop", format!("{EVERY}{step}"))],
    }
}

/// Returns loss and mean burst if they give the same chain, its parameters otherwise.
fn chain_pairs(chain: &GilbertElliott) -> Vec<Pair> {
    let (share, mean) = (chain.p / (chain.p + chain.r), 1.0 / chain.r);
    for digits in [4, 8, 12] {
        let (share, mean) = (rounded(share, digits), rounded(mean, digits));
        if (1.0..=1e6).contains(&mean)
            && share > 0.0
            && share < 1.0
            && chain_of(share, mean).is_ok_and(|same| same == *chain)
        {
            return vec![("loss", percent(share)), ("burst", mean.to_string())];
        }
    }
    let shares = [chain.p, chain.r, chain.bad, chain.good].map(percent);
    vec![("ge", shares.join("/"))]
}

/// Returns the share of the time that outages take, in as few digits as give the same outages.
fn outage_share(outages: &Outages) -> f64 {
    let share = outages.bad.0 as f64 / (outages.bad.0 as f64 + outages.good.0 as f64);
    let same = |share: &f64| {
        *share > 0.0
            && *share < 1.0
            && outages_of(*share, outages.bad).is_ok_and(|same| same == *outages)
    };
    let near = [share, share.next_up(), share.next_down()];
    (2..=16).map(|digits| rounded(share, digits)).chain(near).find(same).unwrap_or(share)
}

/// Rounds the value to this number of significant digits.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

/// Formats numbers in increasing order, consecutive ones as ranges.
fn ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let texts: Vec<String> = runs
        .filter_map(|run| Some((run.first()?, run.last()?)))
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    texts.join("/")
}

fn rate_pairs(way: &Impairments) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    match &way.rate {
        Rate::Unlimited => return pairs,
        Rate::Fixed(rate) => {
            pairs.push(("rate", rate_text(*rate)));
            if way.overhead > 0 {
                pairs.push(("overhead", bytes_text(Bytes(u64::from(way.overhead)))));
            }
        }
        Rate::Trace(trace) => {
            pairs.push(("trace", trace.file.clone()));
            if matches!(trace.content, Content::Opportunities { .. }) {
                pairs.push(("trace-mode", "burst".to_owned()));
            }
            pairs.push(("overhead", bytes_text(Bytes(u64::from(way.overhead)))));
        }
    }
    pairs.extend(queue_pairs(&way.queue));
    pairs
}

fn queue_pairs(queue: &Queue) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    if queue.limit != Queue::default().limit {
        pairs.push(("queue", limit_text(queue.limit)));
    }
    let (name, target, interval) = match queue.discipline {
        Discipline::DropTail => return pairs,
        Discipline::Codel { target, interval } => ("codel", Some(target), Some(interval)),
        Discipline::FqCodel { target, interval } => ("fq-codel", Some(target), Some(interval)),
        Discipline::Pie { target } => ("pie", Some(target), None),
        Discipline::Red => ("red", None, None),
        Discipline::DualPi2 { target } => ("dualpi2", Some(target), None),
    };
    pairs.push(("aqm", name.to_owned()));
    pairs.extend(target.map(|target| ("target", span_text(target))));
    pairs.extend(interval.map(|interval| ("interval", span_text(interval))));
    if queue.ecn == Ecn::Marks {
        pairs.push(("ecn", "on".to_owned()));
    }
    pairs
}
