//! The table of each contender's promises, from the program's own data.

use std::path::Path;

use deadheat::contract::{Congestion, Ending, Framing};
use deadheat::transport::{self, Transport};

use crate::docs;

/// Column: the head, and the cell of a transport.
type Column = (&'static str, fn(&dyn Transport) -> String);

const COLUMNS: &[Column] = &[
    ("contender", |transport| format!("`{}`", transport.info().id)),
    ("a lane is", |transport| transport.info().guarantees.service.to_string()),
    ("or may be", |transport| or_none(docs::offers(&transport.info().guarantees))),
    ("lanes", |transport| transport.info().guarantees.lanes.to_string()),
    ("boundaries", |transport| {
        word(match transport.info().guarantees.framing {
            Framing::ByteStream => "a length in front",
            Framing::Messages => "its own",
        })
    }),
    ("end told", |transport| yes(transport.info().guarantees.ending == Ending::Told)),
    ("congestion control", |transport| {
        word(match transport.info().guarantees.congestion {
            Congestion::Controlled => "yes",
            Congestion::Backpressure => "the receiver's buffer",
            Congestion::Uncontrolled => "no",
        })
    }),
    ("encrypted", |transport| yes(transport.info().guarantees.encrypted)),
    ("largest message", |transport| {
        let largest = transport.info().guarantees.largest_message;
        largest.map_or(word("any"), |bytes| format!("{bytes} B"))
    }),
    ("virtual time", |transport| {
        yes(transport.userspace().is_some() && transport.info().real_time.is_none())
    }),
];

fn word(word: &str) -> String {
    word.to_owned()
}

fn yes(is_so: bool) -> String {
    word(if is_so { "yes" } else { "no" })
}

fn or_none(words: String) -> String {
    if words.is_empty() { word("–") } else { words }
}

fn row(cells: impl Iterator<Item = String>) -> String {
    cells.fold(String::from("|"), |row, cell| row + &format!(" {cell} |")) + "\n"
}

/// Returns the table. Transports with the same promises share a row.
fn table(transports: &[&dyn Transport]) -> String {
    let mut out = row(COLUMNS.iter().map(|(head, _)| word(head)));
    out += &format!("|{}\n", "---|".repeat(COLUMNS.len()));
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for transport in transports {
        let mut cells = COLUMNS.iter().map(|(_, cell)| cell(*transport));
        let name = cells.next().unwrap();
        let promises: Vec<String> = cells.collect();
        match rows.iter_mut().find(|(_, same)| *same == promises) {
            Some((names, _)) => *names += &format!(", {name}"),
            None => rows.push((name, promises)),
        }
    }
    for (names, promises) in rows {
        out += &row(std::iter::once(names).chain(promises));
    }
    out
}

/// Compares the table of the page about contenders; `UPDATE_GOLDEN=1` writes it.
pub(crate) fn check(root: &Path) {
    let mut parts = vec![("promises", table(&docs::everywhere().collect::<Vec<_>>()))];
    if docs::is_whole() {
        parts.push(("optional", table(&docs::behind_features().collect::<Vec<_>>())));
    }
    if docs::has_those_apart() {
        parts.push(("apart", table(&docs::apart().collect::<Vec<_>>())));
    }
    docs::generated(root, "docs/contenders.md", &parts);
}

#[test]
fn a_row_has_what_the_transport_says_of_itself() {
    let found = |id: &str| *transport::ALL.iter().find(|t| t.info().id == id).unwrap();
    let text = table(&[found("udp"), found("pipe")]);
    let rows: Vec<Vec<&str>> =
        text.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == COLUMNS.len() + 2), "{text}");
    let of = |row: usize, head: &str| rows[row][rows[0].iter().position(|h| *h == head).unwrap()];
    for (head, udp, pipe) in [
        ("contender", "`udp`", "`pipe`"),
        ("a lane is", "best effort, unordered", "reliable, ordered"),
        ("end told", "no", "yes"),
        ("congestion control", "no", "the receiver's buffer"),
        ("virtual time", "no", "no"),
    ] {
        assert_eq!((of(2, head), of(3, head)), (udp, pipe), "{head}");
    }
}
