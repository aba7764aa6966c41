//! Things that exist, in full: each with its keys, their values and defaults, and sources.

use std::fmt::Write;

use deadheat_base::figures::list;
use deadheat_base::foreign::visible;
use deadheat_base::spec::{self, Key};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Reach;
use deadheat_contract::label;
use deadheat_contract::workload::{self, load};
use deadheat_datapath::transport::{
    self, Place, Transport, equal, far_end, header, optional, prefers, several, via,
};
use deadheat_path::{grammar, profile};
use deadheat_race::advise::bundled as apps;
use deadheat_race::study::{bundled, plan};
use deadheat_report::wrap;
use deadheat_result::study::model::Study;
use deadheat_result::study::outcome::Setting;

/// Entries to list.
#[derive(Debug, Clone, Copy)]
pub(super) enum NamePick<'a> {
    All,
    /// Entries of exactly this name.
    Name(&'a str),
    /// Entries with this in their name, or with a key of this name.
    Part(&'a str),
}

/// Selection of entries, and the width of lines.
pub(super) struct Selection<'a> {
    pub(super) pick: NamePick<'a>,
    pub(super) width: usize,
}

impl Selection<'_> {
    fn has(&self, name: &str) -> bool {
        match self.pick {
            NamePick::All => true,
            NamePick::Name(word) => name == word,
            NamePick::Part(word) => name.contains(word),
        }
    }

    /// Returns true if a key is selected by its own name.
    fn has_key(&self, keys: &[Key]) -> bool {
        matches!(self.pick, NamePick::Part(word) if keys.iter().any(|key| key.name == word))
    }
}

pub(super) fn transports(wanted: &Selection<'_>) -> String {
    let width = wanted.width;
    let mut out = String::from("TRANSPORTS\n");
    for transport in transport::ALL.iter() {
        let info = transport.info();
        if !wanted.has(info.id) && !wanted.has_key(info.keys) {
            continue;
        }
        let works = match transport.check() {
            Ok(()) if info.reach == Reach::Process => "simulated paths only".to_owned(),
            Ok(()) => "works here".to_owned(),
            Err(why) => format!("does not work here: {why}"),
        };
        put(&mut out, 2, (info.id, 12), &format!("{}; {works}", info.summary), width);
        put_keys(&mut out, info.keys, width, &|key| works_here(*transport, key));
    }
    for left_out in optional::left_out().filter(|optional| wanted.has(optional.id)) {
        let text = format!("{}; not available: {}", left_out.summary, left_out.missing());
        put(&mut out, 2, (left_out.id, 12), &text, width);
    }
    for (form, what) in several::FORMS.iter().filter(|(form, _)| wanted.has(form)) {
        put(&mut out, 2, (form, 12), what, width);
    }
    if wanted.has(BETWEEN) || wanted.has_key(via::KEYS) {
        let what = "with any transport over IP that a process answers: relays in between";
        put(&mut out, 2, (BETWEEN, 12), what, width);
        put_keys(&mut out, via::KEYS, width, &|_| None);
    }
    if wanted.has(HEADER) || wanted.has_key(header::KEYS) {
        let what = "with any transport over IP: fields of its packets, and their pace";
        put(&mut out, 2, (HEADER, 12), what, width);
        put_keys(&mut out, header::KEYS, width, &|_| None);
    }
    if wanted.has(TERMS) || wanted.has_key(equal::KEYS) {
        put(&mut out, 2, (TERMS, 12), "with any: options that are not typed", width);
        put_keys(&mut out, equal::KEYS, width, &|_| None);
    }
    if wanted.has(LANES) || wanted.has_key(prefers::KEYS) {
        put(&mut out, 2, (LANES, 12), "with any: the service of its lanes", width);
        put_keys(&mut out, prefers::KEYS, width, &|_| None);
    }
    if wanted.has(LABEL) || wanted.has_key(label::KEYS) {
        put(&mut out, 2, (LABEL, 12), "with any: its name", width);
        put_keys(&mut out, label::KEYS, width, &|_| None);
    }
    out
}

/// Returns which words of a knob work on this host, and why the others do not; empty for a knob without
/// words to choose from.
fn works_here(transport: &dyn Transport, key: &Key) -> Option<String> {
    let spec::Kind::Choice(words) = key.kind else { return None };
    let mut broken = words.iter().filter_map(|word| {
        let why = transport.check_knob(key.name, word, Place::Loopback).err()?;
        Some(format!("{word} does not work here: {why}"))
    });
    let Some(first) = broken.next() else { return Some("all work here".to_owned()) };
    Some(broken.fold(first, |all, next| format!("{all}; {next}")))
}

pub(super) fn workloads(wanted: &Selection<'_>) -> String {
    let mut out = String::from("WORKLOADS\n");
    for workload in workload::ALL.iter() {
        let info = workload.info();
        if wanted.has(info.id) || wanted.has_key(info.keys) {
            put(&mut out, 2, (info.id, 12), info.summary, wanted.width);
            put_keys(&mut out, info.keys, wanted.width, &|_| None);
        }
    }
    if wanted.has(BESIDE) || wanted.has_key(load::KEYS) {
        let what = "with any workload: bulk data that shares the path meanwhile";
        put(&mut out, 2, (BESIDE, 12), what, wanted.width);
        put_keys(&mut out, load::KEYS, wanted.width, &|_| None);
    }
    out
}

/// Heading of the keys that every workload has.
const BESIDE: &str = "…:load=";

/// Heading of the key that contenders have beside their knobs.
const TERMS: &str = "…:terms=";

/// Heading of the key for the services of lanes.
const LANES: &str = "…:lane=";

/// Heading of the key for the name of a contender.
const LABEL: &str = "…:label=";

/// Heading of the keys for relays in between.
const BETWEEN: &str = "…:via=";

/// Heading of the keys for the IP header.
const HEADER: &str = "…:dscp=";

pub(super) fn paths(wanted: &Selection<'_>) -> String {
    let width = wanted.width;
    let mut out = String::from("PATHS\n");
    for (name, what) in super::entries::PATHS.iter().filter(|(name, _)| wanted.has(name)) {
        put(&mut out, 2, (name, 15), what, width);
    }
    for (keys, what) in [
        (
            grammar::LINK,
            "keys of a link, for both directions, or with up. or down. in front for one",
        ),
        (grammar::WHOLE, "keys of the whole path, once"),
    ] {
        let found: Vec<&Key> = keys.iter().filter(|key| wanted.has(key.name)).collect();
        if !found.is_empty() {
            let _ = writeln!(out, "  {what}");
            put_keys(&mut out, found, width, &|_| None);
        }
    }
    let forms: Vec<_> = grammar::FORMS.iter().filter(|form| wanted.has(form.name)).collect();
    if !forms.is_empty() {
        out.push_str("  short forms of networks; keys of the whole path may follow\n");
    }
    for form in forms {
        put(&mut out, 4, (form.name, 15), form.doc, width);
        put_keys(&mut out, form.keys, width, &|_| None);
    }
    let profiles: Vec<_> = profile::ALL.iter().filter(|known| wanted.has(known.name)).collect();
    if !profiles.is_empty() {
        out.push_str("  profiles; keys that follow one replace its own: of the whole path, where it is a network\n");
    }
    for profile in profiles {
        put(&mut out, 4, (profile.name, 24), profile.summary, width);
        // In one piece, as it would be typed.
        let _ = writeln!(out, "      {}", profile.text);
        put(&mut out, 6, ("from", 12), profile.source, width);
    }
    out
}

pub(super) fn far_ends(wanted: &Selection<'_>) -> String {
    let width = wanted.width;
    let mut out = String::from("FAR ENDS\n");
    for end in far_end::ALL.iter().filter(|end| wanted.has(end.info.id)) {
        let info = &end.info;
        let port = if info.over.is_empty() { String::new() } else { format!("[:{}]", info.port) };
        let name = format!("{}://HOST{port}", info.id);
        put(&mut out, 2, (&name, 26), info.summary, width);
        let over: Vec<String> = info.over.iter().map(ToString::to_string).collect();
        let over = if over.is_empty() { "nothing of ours".to_owned() } else { list(&over) };
        put(
            &mut out,
            4,
            ("carries", 14),
            &format!("{over}; and contenders that the far kernel answers"),
            width,
        );
        put(&mut out, 4, ("counts", 14), info.counts.unwrap_or("nothing"), width);
        put(&mut out, 4, ("not known", 14), &info.unknown.join("; "), width);
    }
    out
}

pub(super) fn studies(wanted: &Selection<'_>) -> String {
    let mut out = String::from("STUDIES\n");
    for name in bundled::names().filter(|name| wanted.has(name)) {
        let says = |study: &Study| format!("{} ({})", study.question, at_most(study));
        let says = bundled::study(name).map(|checked| says(&checked.study));
        let says = says.unwrap_or_else(|error| error.to_string());
        put(&mut out, 2, (name, 26), &visible(&says), wanted.width);
    }
    out
}

/// Returns each application that `deadheat advise` knows by its name.
pub(super) fn applications(wanted: &Selection<'_>) -> String {
    let mut out = String::from("APPLICATIONS\n");
    for name in apps::names().filter(|name| wanted.has(name)) {
        let says = apps::app(name).map(|app| app.about).unwrap_or_else(|error| error.to_string());
        put(&mut out, 2, (name, 26), &visible(&says), wanted.width);
    }
    out
}

/// Formats the maximum duration of a study, at both settings.
pub(in crate::cli) fn at_most(study: &Study) -> String {
    let [quick, full] =
        [Setting::Quick, Setting::Full].map(|setting| match plan::at_most(study, setting) {
            None => "as long as its blocks".to_owned(),
            Some(time) => lasting(time),
        });
    let besides = if plan::has_simulated_races(study) { ", besides virtual time" } else { "" };
    format!("at most {quick} quick, {full} in full{besides}")
}

/// Formats a time as people say it: `50 s`, `4 min`, `6.5 h`, `7 d`.
fn lasting(time: Nanos) -> String {
    let seconds = time.0 as f64 / 1e9;
    let (value, unit) = match seconds {
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3_600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    let text = format!("{value:.1}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Lists `keys`, each with the addition that `more` returns.
fn put_keys<'a>(
    out: &mut String,
    keys: impl IntoIterator<Item = &'a Key>,
    width: usize,
    more: &dyn Fn(&Key) -> Option<String>,
) {
    for key in keys {
        let default = match key.default {
            "" => String::new(),
            default => format!(" [{default}]"),
        };
        let head = format!("{}={}{default}", key.name, key.kind.describe());
        let doc = match more(key) {
            Some(more) => format!("{}; {more}", key.doc),
            None => key.doc.to_owned(),
        };
        put(out, 4, (&head, 40), &doc, width);
    }
}

/// Writes an entry: its name at `indent`, its text from `column` on, or on a line of its own if the name
/// is too long.
fn put(out: &mut String, indent: usize, (name, column): (&str, usize), text: &str, width: usize) {
    let _ = write!(out, "{:indent$}{name}", "");
    let mut at = indent + name.chars().count();
    for line in wrap(text, width.saturating_sub(column).max(30)) {
        if at >= column {
            let _ = writeln!(out);
            at = 0;
        }
        let _ = write!(out, "{:pad$}{line}", "", pad = column - at);
        at = column;
    }
    let _ = writeln!(out);
}
