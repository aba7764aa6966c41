//! `deadheat list`: what exists, what works on this host, and why not.

use std::fmt::Write;

use clap::ValueEnum;

use crate::contract::Reach;
use crate::error::Result;
use crate::path::{grammar, profile};
use crate::report::{visible, wrap};
use crate::spec::{self, Key};
use crate::study::bundled;
use crate::study::model::Study;
use crate::study::outcome::Setting;
use crate::time::Nanos;
use crate::transport::Transport;
use crate::{transport, workload};

use super::{print, stdout_style};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only one kind
    kind: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Transports,
    Workloads,
    Paths,
    Studies,
}

/// One part of the list, made for a width.
type Section = fn(usize) -> String;

pub(super) fn run(args: Args) -> Result<()> {
    let width = stdout_style().width;
    let sections: [(Kind, Section); 4] = [
        (Kind::Transports, transports),
        (Kind::Workloads, workloads),
        (Kind::Paths, paths),
        (Kind::Studies, studies),
    ];
    let wanted = sections.iter().filter(|(kind, _)| args.kind.is_none_or(|only| only == *kind));
    let texts: Vec<String> = wanted.map(|(_, text)| text(width)).collect();
    print(&texts.join("\n"))
}

fn transports(width: usize) -> String {
    let mut out = String::from("TRANSPORTS\n");
    for transport in transport::ALL {
        let info = transport.info();
        let works = match transport.check() {
            Ok(()) if info.reach == Reach::Process => "simulated paths only".to_owned(),
            Ok(()) => "works here".to_owned(),
            Err(why) => format!("does not work here: {why}"),
        };
        put(&mut out, 2, (info.id, 12), &format!("{}; {works}", info.summary), width);
        put_keys(&mut out, info.keys, width, &|key| works_here(*transport, key));
    }
    out
}

/// Which of a knob's words work on this host, and why the others do not; nothing for a knob without
/// words to choose from.
fn works_here(transport: &dyn Transport, key: &Key) -> Option<String> {
    let spec::Kind::Choice(words) = key.kind else { return None };
    let mut broken = words.iter().filter_map(|word| {
        let why = transport.check_knob(key.name, word).err()?;
        Some(format!("{word} does not work here: {why}"))
    });
    let Some(first) = broken.next() else { return Some("all work here".to_owned()) };
    Some(broken.fold(first, |all, next| format!("{all}; {next}")))
}

fn workloads(width: usize) -> String {
    let mut out = String::from("WORKLOADS\n");
    for workload in workload::ALL {
        let info = workload.info();
        put(&mut out, 2, (info.id, 12), info.summary, width);
        put_keys(&mut out, info.keys, width, &|_| None);
    }
    out
}

fn paths(width: usize) -> String {
    let mut out = String::from("PATHS\n");
    for (name, what) in [
        (
            "loopback",
            "the far end is another process on this machine (-4 or -6 for the IP version)",
        ),
        ("--to HOST", "the far end is `deadheat serve` on another host"),
        ("LINK + LINK", "a network of its own, emulated; each link is [PROFILE,]key=value,…"),
        ("sim:LINK", "the same in virtual time, without a kernel, for simulated contenders"),
    ] {
        put(&mut out, 2, (name, 15), what, width);
    }
    out.push_str("  keys of a link, for both directions, or with up. or down. in front for one\n");
    put_keys(&mut out, grammar::LINK, width, &|_| None);
    out.push_str("  keys of the whole path, once\n");
    put_keys(&mut out, grammar::WHOLE, width, &|_| None);
    out.push_str("  profiles of a link, whose keys others after them overrule\n");
    for profile in profile::ALL {
        put(&mut out, 4, (profile.name, 24), profile.summary, width);
        // In one piece, as it would be typed.
        let _ = writeln!(out, "      {}", profile.text);
        put(&mut out, 6, ("from", 12), profile.source, width);
    }
    out
}

/// Each study with its question.
pub(super) fn studies(width: usize) -> String {
    let mut out = String::from("STUDIES\n");
    for name in bundled::names() {
        let says = |study: &Study| format!("{} ({})", study.question, at_most(study));
        let says = bundled::study(name).map(|checked| says(&checked.study));
        let says = says.unwrap_or_else(|error| error.to_string());
        put(&mut out, 2, (name, 26), &visible(&says), width);
    }
    out
}

/// How long a study may take, at both settings.
pub(super) fn at_most(study: &Study) -> String {
    let [quick, full] =
        [Setting::Quick, Setting::Full].map(|setting| match study.at_most(setting) {
            None => "as long as its blocks".to_owned(),
            Some(time) => lasting(time),
        });
    format!("at most {quick} quick, {full} in full")
}

/// A time as people say it: `50 s`, `4 min`, `6.5 h`, `7 d`.
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

/// Lists `keys`, each with what `more` has to say of it.
fn put_keys(out: &mut String, keys: &[Key], width: usize, more: &dyn Fn(&Key) -> Option<String>) {
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

/// One entry: its name at `indent`, its text from `column` on, on a line of its own where the name
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
