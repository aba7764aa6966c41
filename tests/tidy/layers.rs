//! Imports point left only.

use crate::source::{OF_MODULES, Source};

/// Modules of the crates with several, from left to right; none uses its neighbour. Between crates the compiler holds
/// the order.
const LAYERS: &[&[&str]] = &[
    &["buffer", "contract", "dscp", "handed_in", "label"],
    &["measurements"],
    &["workload"],
    &["recorded"],
    &["datapath"],
    &["transport"],
    &["race"],
    &["study", "advise", "line", "map"],
];

/// Modules that may use everything of their crate; `results` has tests alone.
const TOP: &[&str] = &["registry", "lib", "results"];

/// Names that a module, or the files of a crate with this prefix, must not mention, whatever else
/// it may use.
const ABSENT: &[(&str, &[&str])] = &[
    ("stats", OUTSIDE),
    ("crates/path/src/impair", OUTSIDE),
    ("crates/path/src/network", OUTSIDE),
    ("crates/path/src/grammar", OUTSIDE),
    ("crates/path/src/gate", OUTSIDE),
    ("workload", OUTSIDE),
    ("workloads", OUTSIDE),
    ("measurements", OUTSIDE),
    ("records", RUNNING),
    ("result", RUNNING),
    ("import", RUNNING),
    ("report", &["net", "libc", "socket2", "Instant", "Monotonic"]),
];

/// Names of what runs, which a crate that only reads must not mention.
const RUNNING: &[&str] =
    &["process", "thread", "libc", "socket2", "TcpStream", "UdpSocket", "Instant", "Monotonic"];

const OUTSIDE: &[&str] = &[
    "net",
    "fs",
    "process",
    "thread",
    "env",
    "os",
    "libc",
    "socket2",
    "Instant",
    "SystemTime",
    "Monotonic",
    "getrandom",
];

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn may_use(from: &str, to: &str) -> bool {
    if from == to || TOP.contains(&from) {
        return true;
    }
    match rank(to) {
        // An item of the crate's root.
        None => !TOP.contains(&to),
        Some(to) => rank(from).is_some_and(|from| to < from),
    }
}

pub(crate) fn imports(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| is_of_modules(&source.path)) {
        let Some(from) = source.module() else {
            continue;
        };
        if !TOP.contains(&from) && rank(from).is_none() {
            findings.push(format!("{}: module `{from}` is in no layer", source.path));
            continue;
        }
        for (offset, used) in uses(source) {
            if !may_use(from, &used) {
                findings.push(format!("{}: {from} uses {used}", source.at(offset)));
            }
        }
    }
    findings
}

fn is_of_modules(path: &str) -> bool {
    OF_MODULES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// Returns every module of this crate that a file mentions by a path from the root: `crate::x`,
/// `crate::{x, y::z}`, or enough of `super::`.
fn uses(source: &Source) -> Vec<(usize, String)> {
    let inner = source.path.split_once("src/").map_or("", |(_, inner)| inner);
    let depth = inner.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").count();
    let up = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", &up] {
        for (at, _) in source.code.match_indices(prefix) {
            let before = source.code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "_:".contains(c)) {
                continue;
            }
            let rest = &source.code[at + prefix.len()..];
            found.extend(heads(rest).into_iter().map(|head| (at, head)));
        }
    }
    found
}

/// Returns the first names after a path: one, or each of a group in braces.
fn heads(rest: &str) -> Vec<String> {
    let name = |text: &str| {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    if !rest.starts_with('{') {
        return vec![name(rest)];
    }
    let group = &rest[1..crate::source::closing(rest, 0).saturating_sub(1)];
    let mut depth = 0;
    group
        .split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        })
        .map(name)
        .filter(|head| !head.is_empty())
        .collect()
}

pub(crate) fn absences(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let is_meant = |name: &str| {
            source.module() == Some(name) || name.contains('/') && source.path.starts_with(name)
        };
        let absent = ABSENT.iter().find(|(name, _)| is_meant(name));
        let Some((module, absent)) = absent else {
            continue;
        };
        for word in *absent {
            let hit = source.code.match_indices(word).find(|(at, word)| {
                let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                let after = &source.code[at + word.len()..];
                let before = &source.code[..*at];
                edge(before.chars().next_back())
                    && edge(after.chars().next())
                    // A module counts where it is part of a path; a field of that name does not.
                    && (after.starts_with("::") || before.ends_with("::") || before.ends_with('{'))
            });
            if let Some((at, _)) = hit {
                findings.push(format!("{}: {module} mentions {word}", source.at(at)));
            }
        }
    }
    findings
}

#[test]
fn an_import_to_the_right_is_found() {
    let bad = |path: &str, text: &str| imports(&[Source::new(path, text)]);
    let right = "use crate::{Registry, study::{a, b}};";
    let found = bad("crates/race/src/race/x.rs", right);
    assert_eq!(found, ["crates/race/src/race/x.rs:1: race uses study"]);
    assert_eq!(
        bad("crates/datapath/src/datapath/x.rs", "fn f() { crate::transport::g() }").len(),
        1
    );
    assert_eq!(bad("crates/race/src/map/mod.rs", "use crate::line::x;").len(), 1);
    assert_eq!(bad("crates/race/src/race/x.rs", "use super::super::study::y;").len(), 1);
    assert_eq!(bad("crates/contract/src/contract.rs", "use crate::measurements::x;").len(), 1);
    assert_eq!(bad("crates/race/src/nowhere/x.rs", "").len(), 1);
}

#[test]
fn an_import_to_the_left_is_fine() {
    let good = "use crate::{Registry, name::Bytes};\n// crate::study\n#[cfg(test)] mod tests { use crate::study; }";
    let fine = |path: &str, text: &str| imports(&[Source::new(path, text)]).is_empty();
    assert!(fine("crates/race/src/race/x.rs", good));
    assert!(fine("crates/race/src/map/x.rs", "use crate::race::y; use super::z;"));
    assert!(fine("crates/race/src/registry.rs", "use crate::study::y;"));
    assert!(fine("crates/report/src/x.rs", "use crate::race::y;"), "the compiler's to hold");
}

#[test]
fn a_clock_in_the_statistics_is_found() {
    let find = |path: &str, text: &str| absences(&[Source::new(path, text)]).len();
    assert_eq!(find("crates/stats/src/x.rs", "use std::time::Instant;"), 1);
    assert_eq!(find("crates/stats/src/x.rs", "use std::{net::IpAddr, fmt};"), 1);
    assert_eq!(find("crates/path/src/impair.rs", "use std::time::Instant;"), 1);
    assert_eq!(find("crates/path/src/emulated/x.rs", "use std::time::Instant;"), 0);
    assert_eq!(find("crates/workloads/src/x.rs", "let t = crate::time::Monotonic;"), 1);
    assert_eq!(find("crates/workloads/src/x.rs", "let net = 1; struct Os { net: u8 }"), 0);
    assert_eq!(find("crates/trial/src/x.rs", "use std::net::IpAddr;"), 0);
}
