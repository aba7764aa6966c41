//! A file is a room for one idea, and a function fits on a screen. Tests and comments do not count.

use crate::source::{Source, closing};

const FILE: usize = 400;
const FUNCTION: usize = 70;

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let total = lines(&source.code);
        if total > FILE {
            let path = &source.path;
            findings.push(format!("{path}: {total} lines of code, at most {FILE}"));
        }
        for (at, word) in source.code.match_indices("fn ") {
            let before = source.code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &source.code[at..];
            let name: String = rest[word.len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let Some(open) = rest.find(['{', ';']).filter(|i| rest[*i..].starts_with('{')) else {
                continue;
            };
            let body = &rest[open + 1..closing(rest, open)];
            let long = lines(body.trim_end_matches('}'));
            if long > FUNCTION && !name.is_empty() {
                let at = source.at(at);
                findings.push(format!("{at}: {name} has {long} lines, at most {FUNCTION}"));
            }
        }
    }
    findings
}

fn lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn a_long_file_and_a_long_function_are_found() {
    let long = format!("fn long() {{\n{}}}\n", "    f();\n".repeat(FUNCTION + 1));
    let findings = check(&[Source::new("src/a.rs", &long)]);
    assert_eq!(findings, ["src/a.rs:1: long has 71 lines, at most 70"]);
    let file = "const A: u8 = 0;\n".repeat(FILE + 1);
    assert_eq!(check(&[Source::new("src/a.rs", &file)]).len(), 1);
}

#[test]
fn comments_and_tests_do_not_count() {
    let file = format!(
        "{}fn short() {{\n{}    f();\n}}\n#[cfg(test)]\nmod tests {{\n{}}}\n",
        "// why\n".repeat(FILE),
        "    // why\n".repeat(FUNCTION),
        "const A: u8 = 0;\n".repeat(FILE)
    );
    assert!(check(&[Source::new("src/a.rs", &file)]).is_empty());
}
