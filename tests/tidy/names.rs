//! Nobody matches on a transport's or workload's name outside its own file.

use crate::source::Source;

/// Where the names are given.
const NAMED: &[&str] = &["transport", "workload"];

/// Where none may be known. `cli` may show examples.
const BLIND: &[&str] =
    &["datapath", "transport", "workload", "path", "stats", "trial", "race", "report", "server"];

/// Every id that a file gives itself: the string behind `id:`.
fn ids(sources: &[Source]) -> Vec<(&str, &str)> {
    let mut ids = Vec::new();
    for source in sources {
        if !source.module().is_some_and(|module| NAMED.contains(&module)) {
            continue;
        }
        for (at, text) in &source.strings {
            let before = source.code[..*at].trim_end_matches('"').trim_end();
            let field = before.strip_suffix("id:");
            if field.is_some_and(|f| f.is_empty() || f.ends_with([' ', '{', ',', '\n'])) {
                ids.push((text.as_str(), source.path.as_str()));
            }
        }
    }
    ids
}

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let ids = ids(sources);
    if ids.is_empty() {
        return vec!["no transport or workload gives itself an id".to_owned()];
    }
    let mut findings = Vec::new();
    for source in sources {
        if !source.module().is_some_and(|module| BLIND.contains(&module)) {
            continue;
        }
        for (at, text) in &source.strings {
            let own = |path: &str| path == source.path;
            let named = ids.iter().any(|(id, _)| id == text);
            if named && !ids.iter().any(|(id, path)| id == text && own(path)) {
                findings.push(format!("{}: names \"{text}\"", source.at(*at)));
            }
        }
    }
    findings
}

#[test]
fn a_name_outside_its_own_file_is_found() {
    let tcp = "const INFO: Info = Info { id: \"tcp\", label: \"TCP\" }; fn f() { g(\"tcp\") }";
    let blind = "fn f(t: &str) -> bool { t == \"tcp\" } // \"tcp\"\n#[cfg(test)] mod tests { const T: &str = \"tcp\"; }";
    let sources = [
        Source::new("src/transport/tcp.rs", tcp),
        Source::new("src/race/run.rs", blind),
        Source::new("src/cli/mod.rs", "fn example() -> &str { \"tcp\" }"),
    ];
    assert_eq!(check(&sources), ["src/race/run.rs:1: names \"tcp\""]);
    assert_eq!(check(&sources[1..]).len(), 1);
}
