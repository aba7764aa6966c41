//! The table of what runs over a real network, workload × contender, from the program's own checks.

#![allow(clippy::unwrap_used, reason = "a test may end where it finds the unexpected")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::remote_cells::{RemoteCell, cell, contenders, works};

/// Returns the table, and the list of reasons that its numbers stand for.
fn table() -> String {
    let (works, mut reasons) = (works(), Vec::<String>::new());
    let mut out = String::from("| contender |");
    works.iter().for_each(|work| write!(out, " `{work}` |").unwrap());
    write!(out, "\n|{}\n", "---|".repeat(works.len() + 1)).unwrap();
    for contender in contenders() {
        write!(out, "| `{}` |", contender.replace('|', "\\|")).unwrap();
        for work in &works {
            let word = match cell(&contender, work) {
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

/// Compares the table of docs/remote.md; `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_table_of_what_runs_over_a_real_network_is_what_the_program_judges() {
    if !cfg!(feature = "all-contenders") {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/remote.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("<!-- generated: cells -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end: cells -->").unwrap();
    let wanted =
        format!("{before}<!-- generated: cells -->\n{}\n<!-- end: cells -->{after}", table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&page, wanted).unwrap();
        return;
    }
    assert!(
        text == wanted,
        "docs/remote.md is not what the program judges; UPDATE_GOLDEN=1 cargo test --features all-contenders --test \
         program writes it"
    );
}
