//! `deadheat list`: what exists, whether it works on this host, and if not, the reason. The names fit on one screen; a
//! kind has a line for each, and a name has everything.

use deadheat_base::error::{Error, Result, nearest};
use deadheat_contract::workload;
use deadheat_datapath::transport::{self, far_end, optional};
use deadheat_path::{grammar, profile};
use deadheat_race::advise::bundled as apps;
use deadheat_race::study::bundled;

use super::{print, stdout_style};
use entries::ListEntry;
use full::{NamePick, Selection};

mod entries;
mod full;
mod overview;

pub(super) use full::at_most;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  deadheat list               the names of everything, on one screen
  deadheat list transports    a line for each of a kind
  deadheat list udp           this one in full: its keys, their values and defaults
  deadheat list --all         everything in full")]
pub(super) struct ListArgs {
    /// A kind (transports, workloads, paths, far-ends, studies, applications), or a name of any kind
    ///
    /// A part of a name shows all names with this part.
    #[arg(value_name = "KIND|NAME")]
    what: Option<String>,
    /// Show each in full
    #[arg(long)]
    all: bool,
}

/// A kind of things that exist.
struct ListKind {
    /// Name on the command line.
    name: &'static str,
    /// Meaning, in a few words.
    about: &'static str,
    /// Returns its things in one line each.
    entries: fn() -> Vec<ListEntry>,
    /// Returns the selected ones in full, below a heading.
    full: fn(&Selection<'_>) -> String,
    /// Form on the screen of all names.
    compact: ScreenForm,
    /// A command to type next for one of them, with `{}` for its name; empty if there is none.
    next: &'static str,
}

/// Form in which a kind stands on the screen of all names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScreenForm {
    /// A line for each.
    Lines,
    /// Names in groups, below a heading.
    Groups,
    /// Names beside the heading.
    Names,
    /// As many names beside the heading as the other kinds leave room for.
    Rest,
}

const KINDS: &[ListKind] = &[
    ListKind {
        name: "transports",
        about: "how bytes travel",
        entries: entries::transports,
        full: full::transports,
        compact: ScreenForm::Groups,
        next: "",
    },
    ListKind {
        name: "workloads",
        about: "the traffic of an application",
        entries: entries::workloads,
        full: full::workloads,
        compact: ScreenForm::Lines,
        next: "",
    },
    ListKind {
        name: "paths",
        about: "the network between both ends",
        entries: entries::paths,
        full: full::paths,
        compact: ScreenForm::Groups,
        next: "deadheat race --path {}",
    },
    ListKind {
        name: "far-ends",
        about: "programs of others that answer",
        entries: entries::far_ends,
        full: full::far_ends,
        compact: ScreenForm::Names,
        next: "deadheat race --to {}://HOST",
    },
    ListKind {
        name: "applications",
        about: "known to `deadheat advise`",
        entries: entries::applications,
        full: full::applications,
        compact: ScreenForm::Names,
        next: "deadheat advise {}",
    },
    ListKind {
        name: "studies",
        about: "published experiments, to run again",
        entries: entries::studies,
        full: full::studies,
        compact: ScreenForm::Rest,
        next: "deadheat study show {}",
    },
];

impl ListKind {
    /// Returns the kind that a word names, in the singular or the plural.
    fn named(word: &str) -> Option<&'static ListKind> {
        let is_singular = |kind: &ListKind| match kind.name.strip_suffix("ies") {
            Some(stem) => word.strip_suffix('y') == Some(stem),
            None => kind.name.strip_suffix('s') == Some(word),
        };
        KINDS.iter().find(|kind| kind.name == word || is_singular(kind))
    }

    /// Returns the name as a heading.
    fn title(&self) -> String {
        self.name.replace('-', " ").to_uppercase()
    }
}

pub(super) fn run(args: ListArgs) -> Result<()> {
    let width = stdout_style().width;
    let typed = args.what.as_deref().map(str::to_lowercase);
    let everything = Selection { pick: NamePick::All, width };
    let text = match typed.as_deref() {
        None if args.all => {
            KINDS.iter().map(|kind| (kind.full)(&everything)).collect::<Vec<String>>().join("\n")
        }
        None => overview::screen(width),
        Some(word) => match ListKind::named(word) {
            Some(kind) if args.all => (kind.full)(&everything),
            Some(kind) => overview::lines(kind, width),
            None => in_full(word, width)?,
        },
    };
    print(&text)
}

/// Returns the study list of `deadheat study list`.
pub(super) fn all_studies(width: usize) -> String {
    full::studies(&Selection { pick: NamePick::All, width })
}

/// Returns everything about what a word names: a thing of this name or, where none is called so, all with the word in
/// their names or among their keys.
fn in_full(word: &str, width: usize) -> Result<String> {
    let is_name = names().contains(&word);
    let pick = if is_name { NamePick::Name(word) } else { NamePick::Part(word) };
    let wanted = Selection { pick, width };
    let mut texts = Vec::new();
    for kind in KINDS {
        let mut text = (kind.full)(&wanted);
        // A heading alone has no entries.
        if text.lines().count() < 2 {
            continue;
        }
        if is_name && !kind.next.is_empty() {
            text += &format!("\n  next: {}\n", kind.next.replace("{}", word));
        }
        texts.push(text);
    }
    // A part of a kind's name, such as `far`; beside a name, the first word of one.
    let is_part = |kind: &&ListKind| {
        if texts.is_empty() {
            kind.name.contains(word)
        } else {
            kind.name.split_once('-').is_some_and(|(first, _)| first == word)
        }
    };
    let kinds: Vec<String> =
        KINDS.iter().filter(is_part).map(|kind| overview::lines(kind, width)).collect();
    texts.splice(0..0, kinds);
    if texts.is_empty() {
        let near = nearest(word, names());
        let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        return Err(Error::usage(format!(
            "unknown name `{word}`{near} (`deadheat list` shows all names)"
        )));
    }
    Ok(texts.join("\n"))
}

/// Returns every name in the list.
fn names() -> Vec<&'static str> {
    let transports = transport::ALL.iter().map(|transport| transport.info().id);
    let left_out = optional::left_out().map(|optional| optional.id);
    let workloads = workload::ALL.iter().map(|workload| workload.info().id);
    let forms = grammar::FORMS.iter().map(|form| form.name);
    let profiles = profile::ALL.iter().map(|profile| profile.name).chain(forms);
    let kinds = KINDS.iter().map(|kind| kind.name);
    let files = bundled::names().chain(apps::names());
    let far_ends = far_end::ALL.iter().map(|end| end.info.id);
    let files = files.chain(far_ends);
    kinds.chain(transports).chain(left_out).chain(workloads).chain(profiles).chain(files).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns and lines of the screen on which every name stands.
    const SCREEN: (usize, usize) = (80, 40);

    #[test]
    fn the_names_of_everything_fit_on_one_screen() {
        let screen = overview::screen(SCREEN.0);
        let lines = screen.lines().count();
        let wide: Vec<&str> =
            screen.lines().filter(|line| line.chars().count() > SCREEN.0).collect();
        assert!(lines <= SCREEN.1 && wide.is_empty(), "{lines} lines, {wide:?}:\n{screen}");
        let words: Vec<&str> = screen.split_whitespace().collect();
        // Studies take the room that is left.
        let is_study = |name: &&str| bundled::names().any(|study| study == *name);
        let is_missing = |name: &&str| !words.contains(name) && ListKind::named(name).is_none();
        let named = names().into_iter().filter(|name| !is_study(name));
        let missing: Vec<&str> = named.filter(is_missing).collect();
        assert!(missing.is_empty(), "{missing:?} missing in\n{screen}");
        assert!(bundled::names().any(|study| words.contains(&study)), "{screen}");
    }

    #[test]
    fn a_kind_has_a_line_for_each() {
        for kind in KINDS {
            let text = overview::lines(kind, SCREEN.0);
            for entry in (kind.entries)() {
                let begins = |line: &str| line.trim_start().starts_with(&entry.name);
                assert!(text.lines().any(begins), "{} missing in\n{text}", entry.name);
            }
            assert!(text.lines().all(|line| line.chars().count() <= SCREEN.0), "{text}");
        }
    }

    #[test]
    fn a_name_has_its_own_text_alone_and_a_part_of_one_has_all_with_it() {
        let one = in_full("udp", 80).unwrap();
        assert!(one.starts_with("TRANSPORTS") && one.contains("\n  udp "), "{one}");
        assert!(!one.contains("udplite") && !one.contains("sctp-udp\n"), "{one}");
        let some = in_full("kreylos-echo", 80).unwrap();
        assert!(some.contains("kreylos-echo-local") && some.contains("kreylos-echo-internet"));
        let study = in_full("relay", 80).unwrap();
        assert!(study.ends_with("next: deadheat study show relay\n"), "{study}");
        let said = in_full("tpc", 80).unwrap_err().to_string();
        assert!(said.contains("did you mean `tcp`?"), "{said}");
        assert!(in_full("far", 80).unwrap().starts_with("FAR ENDS"));
    }

    #[test]
    fn a_kind_is_found_by_both_of_its_forms() {
        for (word, name) in [("path", "paths"), ("studies", "studies"), ("study", "studies")] {
            assert_eq!(ListKind::named(word).map(|kind| kind.name), Some(name));
        }
        assert!(ListKind::named("udp").is_none());
    }
}
