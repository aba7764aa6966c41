//! Words that do not belong: prints outside the edges, and work put off.

use crate::source::Source;

const PRINTS: &[&str] =
    &["println!", "eprintln!", "print!", "eprint!", "dbg!", "stdout()", "stderr()"];
const EDGES: &[&str] = &["cli", "report", "main"];

/// Programs in crates that are libraries as well.
const PROGRAMS: &[&str] = &["crates/path/src/main.rs", "crates/path/src/run/"];

const STUBS: &[&str] = &["todo!", "unimplemented!", "#[ignore"];
const NOTES: &[&str] = &["FIXME", "TODO", "XXX", "HACK"];

pub(crate) fn prints(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.module().is_some_and(|module| !EDGES.contains(&module)))
        .filter(|source| !PROGRAMS.iter().any(|program| source.path.starts_with(program)))
        .flat_map(|source| find(source, &source.code, PRINTS))
        .collect()
}

pub(crate) fn put_off(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .flat_map(|source| {
            let mut findings = find(source, &source.all_code, STUBS);
            findings.extend(find(source, &source.comments, NOTES));
            findings
        })
        .collect()
}

fn find(source: &Source, text: &str, words: &[&str]) -> Vec<String> {
    words
        .iter()
        .flat_map(|word| text.match_indices(word))
        .filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
        .map(|(at, word)| format!("{}: {word}", source.at(at)))
        .collect()
}

#[test]
fn a_print_in_the_middle_is_found() {
    let find = |path: &str, text: &str| prints(&[Source::new(path, text)]);
    assert_eq!(find("src/trial/x.rs", "\nprintln!()"), ["src/trial/x.rs:2: println!"]);
    assert_eq!(find("src/race/x.rs", "io::stderr().flush()").len(), 1);
    assert!(find("src/cli/x.rs", "println!()").is_empty());
    assert!(find("crates/path/src/run/x.rs", "println!()").is_empty());
    assert_eq!(find("crates/path/src/x.rs", "println!()").len(), 1);
    assert!(find("src/trial/x.rs", "let s = \"println!\"; // println!").is_empty());
}

#[test]
fn work_put_off_is_found() {
    let find = |text: &str| put_off(&[Source::new("src/x.rs", text)]).len();
    assert_eq!(find("fn f() { todo!() }"), 1);
    assert_eq!(find("#[cfg(test)] mod tests { #[test] #[ignore] fn f() {} }"), 1);
    assert_eq!(find("// FIXME: later\nlet s = \"TODO\";"), 1);
}
