//! The name of a type is unique within its crate, so that a search finds one type, and a reader knows which is meant.

use std::collections::BTreeMap;

use crate::source::Source;

/// Crates held to this rule; `src` is the program.
pub(crate) const CRATES: &[&str] = &[
    "base",
    "contract",
    "datapath",
    "everything",
    "host",
    "import",
    "path",
    "race",
    "records",
    "report",
    "result",
    "server",
    "src",
    "stats",
    "transports",
    "trial",
    "web",
    "workloads",
];

/// Names that several types of a crate may have, with the reason.
const SHARED: &[(&str, &str, &str)] = &[];

const KEYWORDS: &[&str] = &["struct ", "enum ", "trait ", "union "];

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut types: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for source in sources {
        let Some(name) = crate_of(&source.path).filter(|name| CRATES.contains(name)) else {
            continue;
        };
        for (at, type_name) in defined(&source.code) {
            types.entry((name, type_name)).or_default().push(source.at(at));
        }
    }
    let is_shared = |name: &str, of: &str| SHARED.iter().any(|(c, n, _)| (*c, *n) == (of, name));
    types
        .into_iter()
        .filter(|((of, name), places)| places.len() > 1 && !is_shared(name, of))
        .map(|((of, name), places)| format!("{of}: {name} is at {}", places.join(" and ")))
        .collect()
}

fn crate_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()?, parts.next()) {
        ("crates", name, Some("src")) => Some(name),
        ("src", ..) => Some("src"),
        _ => None,
    }
}

/// Returns the types that code defines, with their places.
fn defined(code: &str) -> Vec<(usize, String)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for keyword in KEYWORDS {
        for (at, _) in code.match_indices(keyword) {
            let name: String =
                code[at + keyword.len()..].chars().take_while(|c| is_part(*c)).collect();
            let is_word = !code[..at].chars().next_back().is_some_and(is_part);
            if is_word && name.starts_with(char::is_uppercase) {
                found.push((at, name));
            }
        }
    }
    found
}

#[test]
fn a_name_of_two_types_is_found() {
    let one = "pub struct End;\n#[cfg(test)]\nmod tests { struct Fake; }";
    let other =
        "// struct End\nenum End { A }\n#[cfg(test)]\nmod tests { struct Fake; }\nstruct Ending;";
    let sources = [
        Source::new("crates/report/src/a.rs", one),
        Source::new("crates/report/src/b.rs", other),
        Source::new("src/a.rs", "struct End;"),
        Source::new("crates/elsewhere/src/a.rs", "struct End; mod m { struct End; }"),
    ];
    let expected = "report: End is at crates/report/src/a.rs:1 and crates/report/src/b.rs:2";
    assert_eq!(check(&sources), [expected]);
}
