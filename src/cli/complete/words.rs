//! Words that may stand at the end of a command line: commands, options, and everything that `list` knows, with keys
//! behind the colon and values behind the equals sign.

use std::fmt::Write;

use clap::{Arg, Command};

use deadheat_base::spec::{Key, Kind};
use deadheat_contract::label;
use deadheat_contract::workload::{self, load};
use deadheat_datapath::transport::{self, equal, far_end, header, prefers, via};
use deadheat_path::{grammar, profile};
use deadheat_race::advise::bundled as apps;
use deadheat_race::study::bundled;
use deadheat_report as report;

/// Word with its meaning.
type Word = (String, String);

/// Returns the words that may be at the end of `line`, a line each; `None` if a file belongs there.
pub(super) fn of_line(root: &Command, line: &str) -> Option<String> {
    let mut typed: Vec<&str> = line.split_whitespace().skip(1).collect();
    let last = if line.ends_with(char::is_whitespace) { "" } else { typed.pop().unwrap_or("") };
    let mut text = String::new();
    for (word, about) in at_end(root, &typed, last)? {
        // A meaning is one line. Writing to a String cannot fail.
        let about = about.lines().next().unwrap_or_default();
        let _ = writeln!(text, "{word}\t{about}");
    }
    Some(text)
}

/// Returns the words that begin with `last` and may follow `typed`; `None` if a file belongs there.
fn at_end(root: &Command, typed: &[&str], last: &str) -> Option<Vec<Word>> {
    let (mut command, mut pending, mut places) = (root, None, 0);
    for word in typed {
        match (pending.take(), command.find_subcommand(word)) {
            (Some(_), _) => {}
            (None, _) if *word == "--" => return None,
            (None, _) if word.starts_with('-') => pending = option(command, word),
            (None, Some(subcommand)) => (command, places) = (subcommand, 0),
            (None, None) => places += 1,
        }
    }
    if let Some(option) = pending {
        return values(command, option, last);
    }
    if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with("--")) {
        let option = option(command, name)?;
        let words = values(command, option, value)?.into_iter();
        return Some(words.map(|(word, about)| (format!("{name}={word}"), about)).collect());
    }
    let begins = |word: &Word| word.0.starts_with(last);
    if last.starts_with('-') {
        return Some(options(command).filter(begins).collect());
    }
    if command.has_subcommands() {
        return Some(subcommands(command).filter(begins).collect());
    }
    let positional: Vec<&Arg> = command.get_positionals().collect();
    values(command, positional.get(places).or(positional.last())?, last)
}

/// Returns the option that a word names if its value is the next word.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let takes_next = |arg: &&Arg| {
        let is_value = arg.get_action().takes_values();
        is_value && arg.get_num_args().is_none_or(|range| range.min_values() > 0)
    };
    let mut all = command.get_arguments().filter(takes_next);
    match word.strip_prefix("--") {
        Some(long) => all.find(|arg| arg.get_long() == Some(long)),
        None => all.find(|arg| arg.get_short().is_some_and(|short| word.ends_with(short))),
    }
}

fn options(command: &Command) -> impl Iterator<Item = Word> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional());
    shown.filter_map(|arg| {
        let name = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, short) => format!("-{}", short?),
        };
        Some((name, arg.get_help().map(ToString::to_string).unwrap_or_default()))
    })
}

fn subcommands(command: &Command) -> impl Iterator<Item = Word> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|one| {
        (one.get_name().to_owned(), one.get_about().map(ToString::to_string).unwrap_or_default())
    })
}

/// Returns the values of an argument that begin with `last`; `None` if they are files, or unknown.
fn values(command: &Command, arg: &Arg, last: &str) -> Option<Vec<Word>> {
    let possible = arg.get_possible_values();
    let begins = |word: &Word| word.0.starts_with(last);
    if !possible.is_empty() {
        let word = |value: &clap::builder::PossibleValue| {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            (value.get_name().to_owned(), about)
        };
        return Some(possible.iter().map(word).filter(begins).collect());
    }
    let names: Vec<Word> = match (command.get_name(), arg.get_id().as_str()) {
        (_, "contenders") => return Some(of_spec(last, &transports(), &transport_keys)),
        (_, "workload") => return Some(of_spec(last, &workloads(), &workload_keys)),
        (_, "path") => return Some(of_path(last)),
        ("run" | "check" | "show", "spec") => return Some(of_path(last)),
        (_, "format") => formats(),
        (_, "to") => far_end::ALL.iter().map(|end| far_end_word(&end.info)).collect(),
        (_, "placement") => plain(&["same-core", "cross-core", "busy", "host"]),
        (_, "idle") => plain(&["awake", "host"]),
        ("list", _) => everything(),
        ("show", _) | ("run", "study") => bundled::names().map(named).collect(),
        ("advise", _) => apps::names().map(named).collect(),
        _ => return None,
    };
    let found: Vec<Word> = names.into_iter().filter(begins).collect();
    // A study or an application may be a file, too.
    let may_be_file = matches!(command.get_name(), "run" | "advise");
    (!found.is_empty() || !may_be_file).then_some(found)
}

fn named(name: &str) -> Word {
    (name.to_owned(), String::new())
}

fn plain(words: &[&str]) -> Vec<Word> {
    words.iter().map(|word| named(word)).collect()
}

fn formats() -> Vec<Word> {
    report::ids()
        .map(|id| {
            (id.to_owned(), report::find(id).map_or("", |format| format.summary()).to_owned())
        })
        .collect()
}

fn far_end_word(info: &far_end::FarEndInfo) -> Word {
    (format!("{}://", info.id), info.summary.to_owned())
}

fn transports() -> Vec<Word> {
    let infos = transport::ALL.iter().map(|one| one.info());
    infos.map(|info| (info.id.to_owned(), info.summary.to_owned())).collect()
}

fn transport_keys(name: &str) -> Vec<&'static Key> {
    let own = transport::ALL.iter().map(|one| one.info()).find(|info| info.id == name);
    let shared = [via::KEYS, header::KEYS, equal::KEYS, prefers::KEYS, label::KEYS];
    own.map_or_else(Vec::new, |own| own.keys.iter().chain(shared.into_iter().flatten()).collect())
}

fn workloads() -> Vec<Word> {
    let infos = workload::ALL.iter().map(|one| one.info());
    infos.map(|info| (info.id.to_owned(), info.summary.to_owned())).collect()
}

fn workload_keys(name: &str) -> Vec<&'static Key> {
    let own = workload::ALL.iter().map(|one| one.info()).find(|info| info.id == name);
    own.map_or_else(Vec::new, |own| own.keys.iter().chain(load::KEYS).collect())
}

fn everything() -> Vec<Word> {
    let kinds = ["transports", "workloads", "paths", "far-ends", "studies", "applications"];
    let profiles = profile::ALL.iter().map(|one| (one.name.to_owned(), one.summary.to_owned()));
    plain(&kinds).into_iter().chain(transports()).chain(workloads()).chain(profiles).collect()
}

/// Returns the words of `NAME:key=value,…` that begin with `last`: names, then keys, then values.
fn of_spec(last: &str, names: &[Word], keys: &dyn Fn(&str) -> Vec<&'static Key>) -> Vec<Word> {
    let Some((name, rest)) = last.split_once(':') else {
        let found = names.iter().filter(|word| word.0.starts_with(last)).cloned();
        let mut found: Vec<Word> = found.collect();
        if let [(only, about)] = &found[..]
            && only == last
            && !keys(only).is_empty()
        {
            found.push((format!("{only}:"), format!("{about}, with keys")));
        }
        return found;
    };
    of_keys(&format!("{name}:"), rest, &keys(name))
}

/// Returns the words of `key=value,…` behind `before` that begin with `rest`.
fn of_keys(before: &str, rest: &str, keys: &[&'static Key]) -> Vec<Word> {
    let (set, last) = rest.rsplit_once(',').map_or(("", rest), |(set, last)| (set, last));
    let before = format!("{before}{}", &rest[..rest.len() - last.len()]);
    let is_set = |key: &str| set.split(',').any(|one| one.split('=').next() == Some(key));
    let Some((name, value)) = last.split_once('=') else {
        let free = keys.iter().filter(|key| key.name.starts_with(last) && !is_set(key.name));
        return free.map(|key| (format!("{before}{}=", key.name), key.doc.to_owned())).collect();
    };
    let key = keys.iter().find(|key| key.name == name);
    let words: &[&str] = match key.map(|key| key.kind) {
        Some(Kind::Switch) => &["on", "off"],
        Some(Kind::Choice(words)) => words,
        _ => &[],
    };
    let begins = words.iter().filter(|word| word.starts_with(value));
    begins.map(|word| (format!("{before}{name}={word}"), String::new())).collect()
}

/// Returns the words of a path that begin with `last`: profiles and keys, in virtual time too.
fn of_path(last: &str) -> Vec<Word> {
    const VIRTUAL: &str = "sim:";
    let (before, rest) = match last.strip_prefix(VIRTUAL) {
        Some(rest) => (VIRTUAL, rest),
        None => ("", last),
    };
    let keys: Vec<&'static Key> = grammar::LINK.iter().chain(grammar::WHOLE).collect();
    let mut found = Vec::new();
    if !rest.contains(',') {
        let kinds = [
            ("loopback", "this machine: both ends are processes on it"),
            (VIRTUAL, "in virtual time"),
        ];
        let kinds = kinds.map(|(name, about)| (name.to_owned(), about.to_owned()));
        let profiles = profile::ALL
            .iter()
            .map(|one| (format!("{before}{}", one.name), one.summary.to_owned()));
        let forms = grammar::FORMS
            .iter()
            .map(|form| (format!("{before}{}:", form.name), form.summary.to_owned()));
        let kinds = kinds.into_iter().filter(|_| before.is_empty());
        found.extend(kinds.chain(forms).chain(profiles).filter(|word| word.0.starts_with(last)));
    }
    found.extend(of_keys(before, rest, &keys));
    found
}

#[cfg(test)]
mod tests {
    use super::super::whole;
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let lines = of_line(&whole(), line).unwrap_or_else(|| ":files".to_owned());
        lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_place_of_a_line_has_its_words() {
        let cases: &[(&str, &[&str])] = &[
            ("deadheat ra", &["race"]),
            ("deadheat race tc", &["tcp"]),
            ("deadheat race tcp", &["tcp", "tcp:"]),
            ("deadheat race udp tcp:nod", &["tcp:nodelay="]),
            ("deadheat race tcp:nodelay=o", &["tcp:nodelay=on", "tcp:nodelay=off"]),
            ("deadheat race tcp:nodelay=off,lab", &["tcp:nodelay=off,label="]),
            ("deadheat race tcp -w pin", &["ping"]),
            ("deadheat race tcp --workload ping:inter", &["ping:interval="]),
            ("deadheat race tcp --path lt", &["lte"]),
            ("deadheat race tcp --path=delay=25ms,jit", &["--path=delay=25ms,jitter="]),
            ("deadheat race arq --path sim:lt", &["sim:lte"]),
            ("deadheat report r.json --format ht", &["html"]),
            ("deadheat report r.json --form", &["--format"]),
            ("deadheat report ", &[":files"]),
            ("deadheat race -o ", &[":files"]),
            ("deadheat list work", &["workloads"]),
            ("deadheat completions z", &["zsh"]),
        ];
        for (line, expected) in cases {
            let found = words(line);
            for word in *expected {
                assert!(found.iter().any(|one| one == word), "{line}: no {word} in {found:?}");
            }
            let last = line.rsplit(' ').next().unwrap();
            assert!(
                found.iter().all(|one| one.starts_with(last) || one == ":files"),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn whatever_a_list_names_is_completed_from_its_first_letter() {
        for (before, names) in [("race ", transports()), ("race -w ", workloads())] {
            for (name, _) in names {
                let found = words(&format!("deadheat {before}{}", &name[..1]));
                assert!(found.contains(&name), "{before}{name}: {found:?}");
                let keys = words(&format!("deadheat {before}{name}:"));
                assert!(keys.iter().all(|key| key.ends_with('=')), "{name}: {keys:?}");
            }
        }
    }

    #[test]
    fn hostile_lines_are_answered_or_left_to_files() {
        for line in [
            "",
            "deadheat",
            "deadheat race é:é=é,",
            "deadheat race --path=",
            "x -- -",
            "deadheat race -- ",
        ] {
            let _ = words(line);
        }
    }
}
