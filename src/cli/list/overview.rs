//! All names on one screen, and a kind of things in a line each.

use std::fmt::Write;

use super::entries::{EntryGroup, ListEntry};
use super::{KINDS, ListKind, ScreenForm};
use deadheat_report::{columns, wrap};

/// Columns of the screen at most: long lines of names are hard to read.
const WIDTH: usize = 80;

/// Lines of the screen at most.
const LINES: usize = 40;

/// Column at which names and descriptions begin on the screen.
const TEXT: usize = 15;

/// Column at which the names of a group begin on the screen.
const GROUP: usize = 21;

/// Columns that a name takes at most in front of its description.
const NAME: usize = 24;

/// Returns the names of everything, on one screen.
pub(super) fn screen(width: usize) -> String {
    let width = width.min(WIDTH);
    let more = "In full: deadheat list NAME. A line for each: deadheat list transports (or workloads, \
                paths, …). Everything: deadheat list --all.";
    let more = wrap(more, width);
    let parts = KINDS.iter().filter(|kind| kind.compact != ScreenForm::Rest);
    let mut out: String = parts.map(|kind| compact(kind, width, LINES)).collect();
    for kind in KINDS.iter().filter(|kind| kind.compact == ScreenForm::Rest) {
        let taken = out.lines().count() + more.len();
        out += &compact(kind, width, LINES.saturating_sub(taken).max(1));
    }
    more.iter().for_each(|line| put(&mut out, line));
    out
}

/// Returns a kind as it stands on the screen, in at most `most` lines if it may be cut.
fn compact(kind: &ListKind, width: usize, most: usize) -> String {
    let entries = (kind.entries)();
    let mut out = String::new();
    if matches!(kind.compact, ScreenForm::Names | ScreenForm::Rest) {
        let all: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        beside(&mut out, &kind.title(), &fitting(&all, width.saturating_sub(TEXT), most), TEXT);
        return out;
    }
    put(&mut out, &format!("{}: {}", kind.title(), kind.about));
    for (group, entries) in groups(&entries) {
        match group {
            // Keys are in the lists of each kind.
            EntryGroup::Shared | EntryGroup::PathKey => {}
            EntryGroup::Way | EntryGroup::Plain => {
                entries.iter().for_each(|entry| put(&mut out, &line(entry, 2, TEXT, width)));
            }
            _ => {
                let all: Vec<&str> = entries.iter().map(|entry| stem(&entry.name)).collect();
                let title = format!("  {}", group.title());
                beside(&mut out, &title, &fitting(&all, width.saturating_sub(GROUP), most), GROUP);
            }
        }
    }
    out
}

/// Returns the fixed start of a contender's form: `mix:` of `mix:LANE=CONTENDER,…`.
fn stem(name: &str) -> &str {
    name.find(':').map_or(name, |at| &name[..=at])
}

/// Returns lines of names; where they are more than `most`, the last line counts the names that are left out.
fn fitting(names: &[&str], width: usize, most: usize) -> Vec<String> {
    let shown = |count: usize| {
        let rest = names.len() - count;
        let more = if rest == 0 { String::new() } else { format!(" … and {rest} more") };
        wrap(&(names[..count].join(" ") + &more), width)
    };
    let counts = (0..=names.len()).rev();
    let fits = counts.map(shown).find(|lines| lines.len() <= most);
    fits.unwrap_or_else(|| shown(0))
}

/// Adds lines behind a title.
fn beside(out: &mut String, title: &str, lines: &[String], column: usize) {
    for (at, line) in lines.iter().enumerate() {
        let title = if at == 0 { title } else { "" };
        put(out, &format!("{title:column$}{line}"));
    }
}

/// Returns the things of a kind in a line each, below the titles of their groups.
pub(super) fn lines(kind: &ListKind, width: usize) -> String {
    let entries = (kind.entries)();
    let mut out = format!("{}: {}\n", kind.title(), kind.about);
    for (group, entries) in groups(&entries) {
        let mut indent = 2;
        if !group.title().is_empty() {
            put(&mut out, &format!("  {}", group.title()));
            indent = 4;
        }
        let longest = entries.iter().map(|entry| columns(&entry.name)).max().unwrap_or(0);
        let column = indent + longest.min(NAME) + 2;
        entries.iter().for_each(|entry| put(&mut out, &line(entry, indent, column, width)));
    }
    let name = kind.name;
    let more =
        format!("In full: deadheat list NAME, or deadheat list {name} --all for all of these.");
    wrap(&more, width).iter().for_each(|line| put(&mut out, line));
    out
}

/// Returns the entries by group, without groups that have none.
fn groups(entries: &[ListEntry]) -> Vec<(EntryGroup, Vec<&ListEntry>)> {
    let of = |group: EntryGroup| {
        let its: Vec<&ListEntry> = entries.iter().filter(|entry| entry.group == group).collect();
        (group, its)
    };
    EntryGroup::ALL.map(of).into_iter().filter(|(_, its)| !its.is_empty()).collect()
}

/// Returns an entry in one line; what does not fit is left out behind `…`.
fn line(entry: &ListEntry, indent: usize, column: usize, width: usize) -> String {
    let name = format!("{:indent$}{}", "", entry.name);
    let head = match column.saturating_sub(columns(&name)) {
        0 | 1 => name + "  ",
        pad => name + &" ".repeat(pad),
    };
    let room = width.saturating_sub(columns(&head));
    format!("{head}{}", clipped(&entry.says, room))
}

/// Returns a text that is cut behind a word, with `…` in its place, if it is wider than `width`.
fn clipped(text: &str, width: usize) -> String {
    match &wrap(text, width)[..] {
        [whole] => whole.clone(),
        _ => {
            let cut = wrap(text, width.saturating_sub(2)).swap_remove(0);
            format!("{} …", cut.trim_end_matches([',', ';', ':']))
        }
    }
}

fn put(out: &mut String, line: &str) {
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_have_no_room_are_counted() {
        let names = ["one", "two", "three", "four"];
        assert_eq!(fitting(&names, 20, 1), ["one two three four"]);
        assert_eq!(fitting(&names, 17, 1), ["one … and 3 more"]);
        assert_eq!(fitting(&names, 10, 2), ["one two", "three four"]);
        assert_eq!(fitting(&names, 8, 9), ["one two", "three", "four"]);
    }

    #[test]
    fn a_text_is_cut_behind_a_word() {
        assert_eq!(clipped("a line, and more", 16), "a line, and more");
        assert_eq!(clipped("a line, and more", 15), "a line, and …");
        assert_eq!(clipped("a line, and more", 9), "a line …");
    }
}
