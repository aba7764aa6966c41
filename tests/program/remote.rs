//! The table of what runs over a real network, workload × contender, from the program's own checks.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it finds the unexpected"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::remote_cells::{RemoteCell, cell, cell_at, contenders, works};
use deadheat::transport::far_end;

/// Row of a table: names that share it, and a cell for each work.
type Row = (String, Vec<RemoteCell>);

/// Returns the table, and the list of reasons that its numbers stand for. `command` has no column: it takes no contender
/// of the table.
fn table() -> String {
    let works: Vec<String> = works().into_iter().filter(|work| work != "command").collect();
    let mut rows: Vec<Row> = Vec::new();
    for contender in contenders() {
        let cells = works.iter().map(|work| unnamed(&contender, alone(cell(&contender, work))));
        let cells: Vec<RemoteCell> = cells.collect();
        share(&mut rows, format!("`{contender}`"), cells);
    }
    table_of("contender", &works, rows)
}

/// Adds a row, or its name to the row with the same cells.
fn share(rows: &mut Vec<Row>, name: String, cells: Vec<RemoteCell>) {
    match rows.iter_mut().find(|(_, same)| *same == cells) {
        Some((names, _)) => write!(names, ", {name}").unwrap(),
        None => rows.push((name, cells)),
    }
}

/// Returns a cell whose reason calls the contender "it", so that contenders that are refused alike have one reason.
fn unnamed(contender: &str, cell: RemoteCell) -> RemoteCell {
    match cell {
        RemoteCell::Refused(why) => {
            let rest = why.strip_prefix(&format!("`{contender}` "));
            RemoteCell::Refused(rest.map_or(why.clone(), |rest| format!("it {rest}")))
        }
        other => other,
    }
}

/// Works of the table of far ends of others: one for each thing that they may have to do.
const WORKS_OF_OTHERS: &[&str] = &[
    "ping",
    "bulk:direction=up",
    "bulk:direction=down",
    "bulk:bytes=100MB",
    "bulk:direction=both",
    "cbr:direction=up",
    "cbr:direction=down",
    "connect",
    "rpc",
];

/// Returns the table of far ends of others, with the contenders that run against any of them.
fn table_of_others() -> String {
    let works: Vec<String> = WORKS_OF_OTHERS.iter().map(|work| (*work).to_owned()).collect();
    let mut rows = Vec::new();
    for end in far_end::ALL.iter() {
        let info = &end.info;
        let to = format!("{}://host.example", info.id);
        let mut of_end: Vec<Row> = Vec::new();
        for contender in contenders() {
            let judged = |work: &String| alone(cell_at(&to, &contender, work));
            let cells: Vec<RemoteCell> =
                works.iter().map(|work| unlabelled(info.label, judged(work))).collect();
            if cells.iter().any(|cell| !matches!(cell, RemoteCell::Refused(_))) {
                share(&mut of_end, format!("`{contender}`"), cells);
            }
        }
        for (names, cells) in of_end {
            share(&mut rows, format!("`{}://` {names}", info.id), cells);
        }
    }
    table_of("far end, contender", &works, rows)
}

/// Returns a cell whose reason calls the far end "this", so that far ends that refuse alike have one reason.
fn unlabelled(label: &str, cell: RemoteCell) -> RemoteCell {
    match cell {
        RemoteCell::Refused(why) => {
            let named = format!(", and {label} is none");
            RemoteCell::Refused(why.replace(&named, ", and this is none"))
        }
        other => other,
    }
}

/// Returns a cell with its reason alone, without the contender and the work.
fn alone(cell: RemoteCell) -> RemoteCell {
    match cell {
        RemoteCell::Refused(why) => {
            let reason =
                why.split_once("` cannot carry `").and_then(|(_, rest)| rest.split_once("`: "));
            RemoteCell::Refused(reason.map_or(why.clone(), |(_, reason)| reason.to_owned()))
        }
        other => other,
    }
}

/// What is not known of any far end; the page says so above the table.
const UNKNOWN_OF_ALL: &str = "cost and options of the far end";

/// Returns what each far end of others is.
fn far_ends() -> String {
    let mut out = String::from(
        "| `--to` | what it is | carries | counts | not known |\n|---|---|---|---|---|\n",
    );
    for end in far_end::ALL.iter() {
        let info = &end.info;
        let over: Vec<String> = info.over.iter().map(ToString::to_string).collect();
        let over = over.join(", ");
        writeln!(
            out,
            "| `{}://HOST{}` | {} | {over} | {} | {} |",
            info.id,
            if info.over.is_empty() { String::new() } else { format!("[:{}]", info.port) },
            info.summary,
            info.counts.unwrap_or("nothing"),
            info.unknown
                .iter()
                .copied()
                .filter(|one| *one != UNKNOWN_OF_ALL)
                .collect::<Vec<_>>()
                .join("; ")
        )
        .unwrap();
    }
    out.pop();
    out
}

/// Returns a table of cells, and the list of reasons that its numbers stand for. Works with the same cells share a column.
fn table_of(head: &str, works: &[String], rows: Vec<Row>) -> String {
    let mut reasons = Vec::<String>::new();
    let mut out = format!("| {head} |");
    let mut columns: Vec<(String, usize)> = Vec::new();
    for (at, work) in works.iter().enumerate() {
        let is_same = |other: usize| rows.iter().all(|(_, cells)| cells[at] == cells[other]);
        match columns.iter_mut().find(|(_, other)| is_same(*other)) {
            Some((names, _)) => write!(names, ", `{work}`").unwrap(),
            None => columns.push((format!("`{work}`"), at)),
        }
    }
    columns.iter().for_each(|(names, _)| write!(out, " {names} |").unwrap());
    write!(out, "\n|{}\n", "---|".repeat(columns.len() + 1)).unwrap();
    for (name, cells) in rows {
        write!(out, "| {} |", name.replace('|', "\\|")).unwrap();
        for cell in columns.iter().map(|(_, at)| cells[*at].clone()) {
            let word = match cell {
                RemoteCell::Runs => "runs".to_owned(),
                RemoteCell::RunsWithPort => "runs, `--also`".to_owned(),
                RemoteCell::RunsWithBlast => "runs, `--blast`".to_owned(),
                RemoteCell::Refused(why) => {
                    let known = reasons.iter().position(|reason| *reason == why);
                    let at = known.unwrap_or_else(|| {
                        reasons.push(why);
                        reasons.len() - 1
                    });
                    format!("[{}]", at + 1)
                }
            };
            write!(out, " {word} |").unwrap();
        }
        out.push('\n');
    }
    for (at, why) in reasons.iter().enumerate() {
        write!(out, "\n{}. {why}", at + 1).unwrap();
    }
    out.push('\n');
    out
}

/// Compares the generated parts of a page; `UPDATE_GOLDEN=1` writes them.
fn compare(page: &str, parts: &[(&str, String)]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&file).unwrap();
    let wanted = parts.iter().fold(text.clone(), |text, (name, part)| {
        let (begin, end) =
            (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
        let (before, rest) = text.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        format!("{before}{begin}{part}\n{end}{after}")
    });
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, wanted).unwrap();
        return;
    }
    assert!(
        text == wanted,
        "{page} is not what the program judges; UPDATE_GOLDEN=1 cargo test --features all-contenders --test \
         program writes it"
    );
}

#[test]
fn the_table_of_what_runs_over_a_real_network_is_what_the_program_judges() {
    if cfg!(feature = "all-contenders") {
        compare("docs/remote.md", &[("cells", table())]);
    }
}

#[test]
fn the_tables_of_far_ends_of_others_are_what_the_program_judges() {
    if cfg!(feature = "all-contenders") {
        let parts = [("far ends", far_ends()), ("far end cells", table_of_others())];
        compare("docs/far-ends.md", &parts);
    }
}

#[test]
fn a_library_that_speaks_to_ends_of_ours_alone_is_refused_with_the_ones_that_do_not() {
    if cfg!(not(feature = "all-contenders")) {
        return;
    }
    let RemoteCell::Refused(why) = cell_at("https://host.example", "quic-s2n", "rpc") else {
        panic!("it must be refused")
    };
    assert!(why.contains("a web server carries QUIC by `quic` and `quic-noq`"), "{why}");
}
