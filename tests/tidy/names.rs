//! No file but its own names a transport or a workload.

use crate::source::Source;

/// Modules that give the names.
const NAMED: &[&str] = &["transport", "transports", "workload", "workloads"];

/// Modules that may know none of them. `cli` may show examples.
const BLIND: &[&str] = &[
    "datapath",
    "transport",
    "transports",
    "workload",
    "workloads",
    "path",
    "stats",
    "trial",
    "race",
    "advise",
    "line",
    "map",
    "report",
    "server",
];

/// File with the protocols of IP that a path can block; some transports have their names.
const PROTOCOLS: &str = "crates/path/src/block.rs";

/// Fixtures of tests, which may race whatever they like.
const FIXTURES: &str = "/testing.rs";

/// Returns every string that a file gives to a field: `id` or, of a key of its own, `name`.
fn given<'a>(sources: &'a [Source], field: &str) -> Vec<(&'a str, &'a str)> {
    let mut given = Vec::new();
    for source in sources {
        if !source.module().is_some_and(|module| NAMED.contains(&module)) {
            continue;
        }
        for (at, text) in &source.strings {
            let before = source.code[..*at].trim_end_matches('"').trim_end();
            let before = before.strip_suffix(':').and_then(|before| before.strip_suffix(field));
            let is_field =
                before.is_some_and(|f| f.is_empty() || f.ends_with([' ', '{', ',', '\n']));
            if is_field || (field == "name" && declares_key(&source.code[..*at])) {
                given.push((text.as_str(), source.path.as_str()));
            }
        }
    }
    given
}

/// Returns true if a string after `before` is the name of a typed key: `Optional::count(` or `Text::path(`.
fn declares_key(before: &str) -> bool {
    let call = before.trim_end_matches('"').trim_end().strip_suffix('(');
    let path = call.map(|call| call.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_'));
    path.is_some_and(|path| ["Optional::", ">::", "Text::"].iter().any(|end| path.ends_with(end)))
}

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let (ids, keys) = (given(sources, "id"), given(sources, "name"));
    if ids.is_empty() {
        return vec!["no transport or workload gives itself an id".to_owned()];
    }
    let mut findings = Vec::new();
    for source in sources {
        if source.path == PROTOCOLS
            || source.path.ends_with(FIXTURES)
            || !source.module().is_some_and(|module| BLIND.contains(&module))
        {
            continue;
        }
        for (at, text) in &source.strings {
            let named = ids.iter().any(|(id, _)| id == text);
            // A feature has the name of the contender behind it.
            if source.code[..*at].trim_end_matches('"').ends_with("cfg(feature = ") {
                continue;
            }
            // A key of its own may have the name of something else.
            let mut own = ids.iter().chain(&keys).filter(|(_, path)| *path == source.path);
            if named && !own.any(|(name, _)| name == text) {
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
        Source::new("crates/transports/src/tcp.rs", tcp),
        Source::new("crates/race/src/race/run.rs", blind),
        Source::new("src/cli/mod.rs", "fn example() -> &str { \"tcp\" }"),
    ];
    assert_eq!(check(&sources), ["crates/race/src/race/run.rs:1: names \"tcp\""]);
    let behind = Source::new("crates/transports/src/lib.rs", "#[cfg(feature = \"tcp\")] mod tcp;");
    assert!(
        check(&[Source::new("crates/transports/src/tcp.rs", tcp), behind]).is_empty(),
        "a feature"
    );
    assert_eq!(check(&sources[1..]).len(), 1);
    let key = "const KEY: Key = Key { name: \"tcp\" }; fn f() { g(\"tcp\") }";
    let sources = [
        Source::new("crates/transports/src/tcp.rs", tcp),
        Source::new("crates/workloads/src/bulk/settings.rs", key),
    ];
    assert!(check(&sources).is_empty(), "a key of its own");
    let typed =
        "const KEY: Optional<u64> = Optional::count(\n    \"tcp\", (1, 2)); fn f() { g(\"tcp\") }";
    let sources = [
        Source::new("crates/transports/src/tcp.rs", tcp),
        Source::new("crates/workloads/src/bulk/settings.rs", typed),
    ];
    assert!(check(&sources).is_empty(), "a typed key of its own");
}
