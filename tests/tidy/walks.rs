//! Files and functions that documents name: each is there.

use std::fs;
use std::path::{Path, PathBuf};

/// Pages with names of files and functions between backticks.
const PAGES: [&str; 5] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/methodology.md",
    "docs/security.md",
    "docs/limitations.md",
];

/// Words before the name of a function or a type.
const KEYWORDS: [&str; 5] = ["fn", "struct", "enum", "trait", "const"];

pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap();
        findings.extend(missing(root, &text).into_iter().map(|found| format!("{page}:{found}")));
    }
    findings
}

/// Finds names of files that are not there, and of items in parentheses behind a file that are not in it.
fn missing(root: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let parts: Vec<&str> = text.split('`').collect();
    let mut file: Option<(&str, String)> = None;
    let mut is_in_parentheses = false;
    let mut number = 1;
    // Odd parts are between backticks, also between those of a fence of code.
    for pair in parts.chunks_exact(2) {
        let [before, name] = [pair[0], pair[1]];
        number += before.matches('\n').count();
        is_in_parentheses = match before.trim() {
            "(" => file.is_some(),
            "," => is_in_parentheses,
            _ => false,
        };
        let is_file = name.contains('/') && name.ends_with(".rs") && !name.contains("NAME");
        if is_file {
            let found = fs::read_to_string(resolved(root, name));
            if found.is_err() {
                findings.push(format!("{number}: there is no {name}"));
            }
            file = found.ok().map(|content| (name, content));
        } else if !is_in_parentheses {
            file = None;
        } else if let Some((path, content)) = &file
            && !defines(content, name)
        {
            findings.push(format!("{number}: no {name} in {path}"));
        }
        number += name.matches('\n').count();
    }
    findings
}

/// Returns the path of a file that a page names: `trial/lead/agents.rs` is `crates/trial/src/lead/agents.rs`, others begin
/// at the root.
fn resolved(root: &Path, name: &str) -> PathBuf {
    match name.split_once('/') {
        Some((first, rest)) if root.join("crates").join(first).is_dir() => {
            root.join("crates").join(first).join("src").join(rest)
        }
        _ => root.join(name),
    }
}

fn defines(content: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    KEYWORDS.iter().any(|keyword| {
        let item = format!("{keyword} {name}");
        content.match_indices(item.as_str()).any(|(at, _)| ends(&content[at + item.len()..]))
    })
}

#[test]
fn a_file_or_function_that_is_not_there_is_found() {
    let text = "| stop | `stats/verdict.rs` (`rule`, `rul`), `stats/no.rs` (`x`) |\n`src/main.rs` (`main`), `TCP`, `stats/NAME.rs`\n\
                `stats/verdict.rs`\n   (`ru`)\n";
    assert_eq!(
        missing(crate::root(), text),
        [
            "1: no rul in stats/verdict.rs",
            "1: there is no stats/no.rs",
            "4: no ru in stats/verdict.rs"
        ]
    );
}
