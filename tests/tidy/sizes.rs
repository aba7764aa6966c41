//! A file is a room for one idea, and a function fits on a screen and into a head. Tests and comments do not count.

use crate::source::{Source, closing};

const FILE: usize = 400;
const FUNCTION: usize = 70;

/// Parameters of a function, beside `self`.
const PARAMETERS: usize = 5;

/// Blocks of `if`, `match` and loops within each other.
const NESTING: usize = 4;

/// Function in code.
struct Function<'a> {
    at: usize,
    name: &'a str,
    /// Text between the parentheses.
    parameters: &'a str,
    /// Text between the braces; empty for a declaration.
    body: &'a str,
}

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let total = lines(&source.code);
        if total > FILE {
            let path = &source.path;
            findings.push(format!("{path}: {total} lines of code, at most {FILE}"));
        }
        for function in functions(&source.code) {
            let at = source.at(function.at);
            let mut limit = |value: usize, most: usize, unit: &str| {
                if value > most {
                    let name = function.name;
                    findings.push(format!("{at}: {name} has {value} {unit}, at most {most}"));
                }
            };
            limit(lines(function.body), FUNCTION, "lines");
            limit(parameters(function.parameters), PARAMETERS, "parameters");
            limit(nesting(function.body), NESTING, "nested blocks");
        }
    }
    findings
}

fn functions(code: &str) -> Vec<Function<'_>> {
    let starts = code.match_indices("fn ").filter(|(at, _)| !ends_word(&code[..*at]));
    starts.filter_map(|(at, word)| function(code, at, at + word.len())).collect()
}

/// Returns the function whose name starts at `name`; `None` for a type of functions.
fn function(code: &str, at: usize, name: usize) -> Option<Function<'_>> {
    let rest = &code[name..];
    let length = rest.find(|c: char| !is_part(c))?;
    let open = (length > 0).then(|| opening(rest, length)).flatten()?;
    let close = end_of_group(rest, open)?;
    let mut depth = 0_i32;
    let body = rest[close..].char_indices().find(|(_, c)| {
        depth += i32::from("([".contains(*c)) - i32::from(")]".contains(*c));
        depth == 0 && matches!(*c, '{' | ';')
    });
    let (body, c) = body.map(|(at, c)| (close + at, c))?;
    let body = if c == ';' { "" } else { &rest[body + 1..closing(rest, body) - 1] };
    Some(Function { at, name: &rest[..length], parameters: &rest[open + 1..close - 1], body })
}

/// Returns the parenthesis behind the name of a function and its generics.
fn opening(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    let mut previous = ' ';
    code[from..].char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '<') - i32::from(c == '>' && previous != '-');
        previous = c;
        (depth == 0 && c == '(').then_some(from + at)
    })
}

/// Returns the offset behind the parenthesis that closes the one at `open`.
fn end_of_group(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    code[open..].char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(open + at + 1)
    })
}

/// Counts the parameters between the parentheses of a function, without `self`.
fn parameters(text: &str) -> usize {
    let (mut depth, mut previous) = (0_i32, ' ');
    let parts = text.split(|c: char| {
        depth += i32::from("([{<".contains(c));
        depth -= i32::from(")]}".contains(c) || c == '>' && previous != '-');
        previous = c;
        depth == 0 && c == ','
    });
    let is_receiver = |part: &str| {
        let name = part.split(':').next().unwrap_or_default();
        name.split(|c: char| !is_part(c)).any(|word| word == "self")
    };
    parts.map(str::trim).filter(|part| !part.is_empty() && !is_receiver(part)).count()
}

/// Returns the greatest number of blocks of `if`, `else`, `match` and loops within each other.
fn nesting(body: &str) -> usize {
    let (mut depth, mut most, mut head) = (0_usize, 0, 0);
    let mut open: Vec<(Brace, usize)> = Vec::new();
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'{' => {
                let brace = Brace::after(&body[head..at]);
                open.push((brace, head));
                depth += usize::from(brace.is_control);
                most = most.max(depth);
                head = at + 1;
            }
            b'}' => {
                let (brace, before) = open.pop().unwrap_or_default();
                depth -= usize::from(brace.is_control);
                head = if brace.is_within { before } else { at + 1 };
            }
            b';' if unclosed(&body[head..at]).is_none() => head = at + 1,
            b'>' if body[..at].ends_with('=') => head = at + 1,
            _ => {}
        }
    }
    most
}

/// Kind of an opening brace.
#[derive(Clone, Copy, Default)]
struct Brace {
    /// True for the block of a condition or a loop.
    is_control: bool,
    /// True in the middle of an expression that goes on behind the closing brace.
    is_within: bool,
}

impl Brace {
    /// Returns the kind of a brace behind `head`, the code since the last statement or brace.
    fn after(head: &str) -> Brace {
        let inner = unclosed(head);
        let text = outside_groups(inner.unwrap_or(head));
        let has = |word: &str| text.split(|c: char| !is_part(c)).any(|one| one == word);
        // The brace of a pattern: `if let A {`, `for A {`.
        let after_let = text.rsplit("let ").next().unwrap_or_default();
        let is_pattern = has("let") && !after_let.contains('=') || has("for") && !has("in");
        let words = ["if", "else", "match", "for", "while", "loop"];
        Brace {
            is_control: !is_pattern && words.into_iter().any(has),
            is_within: is_pattern || inner.is_some(),
        }
    }
}

/// Returns text without the content of parentheses, brackets and braces.
fn outside_groups(text: &str) -> String {
    let mut depth = 0_i32;
    let is_outside = |c: &char| {
        depth += i32::from("([{".contains(*c)) - i32::from(")]}".contains(*c));
        depth == 0
    };
    text.chars().filter(is_outside).collect()
}

/// Returns the text behind the last parenthesis that is open: `if a` of `f(g(b), if a`.
fn unclosed(head: &str) -> Option<&str> {
    let mut depth = 0_i32;
    let open = head.char_indices().rev().find(|(_, c)| {
        depth += i32::from(")]".contains(*c)) - i32::from("([".contains(*c));
        depth < 0
    });
    open.map(|(at, _)| &head[at + 1..])
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_word(code: &str) -> bool {
    code.chars().next_back().is_some_and(is_part)
}

fn lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
fn findings(text: &str) -> Vec<String> {
    check(&[Source::new("src/a.rs", text)])
}

#[test]
fn a_long_file_and_a_long_function_are_found() {
    let long = format!("fn long(a: [u8; 4]) {{\n{}}}\n", "    f();\n".repeat(FUNCTION + 1));
    assert_eq!(findings(&long), ["src/a.rs:1: long has 71 lines, at most 70"]);
    assert_eq!(findings(&"const A: u8 = 0;\n".repeat(FILE + 1)).len(), 1);
}

#[test]
fn many_parameters_are_found() {
    let few = "fn a<F: Fn(u8) -> u8>(&mut self, a: (u8, u8), b: &[u8; 3], c: Map<u8, u8>, d: F, e: u8,) {}";
    assert_eq!(findings(few), [""; 0]);
    let many = "trait T {\n    fn a(self: &Self, a: u8, b: u8, c: u8, d: u8, e: fn(u8, u8) -> u8, f: u8);\n}";
    assert_eq!(findings(many), ["src/a.rs:2: a has 6 parameters, at most 5"]);
}

#[test]
fn deep_nesting_is_found() {
    let nested = |inner: &str| {
        format!(
            "fn a() {{ for A {{ x }} in f(if b {{ 1 }} else {{ 2 }}) {{ match g(B {{ y }}) {{ A {{ x }} if x => \
             while let Some(C {{ z }}) = h() {{ if z {{ {inner} }} }}, _ => D {{ x: 1 }} }} }} }}"
        )
    };
    assert_eq!(findings(&nested("let d = D { x: f(|a| { a }), y: E { z } };")), [""; 0]);
    let found = findings(&nested("loop { f() }"));
    assert_eq!(found, ["src/a.rs:1: a has 5 nested blocks, at most 4"]);
}

#[test]
fn comments_and_tests_do_not_count() {
    let file = format!(
        "{}fn short() {{\n{}    f();\n}}\n#[cfg(test)]\nmod tests {{\n{}}}\n",
        "// why\n".repeat(FILE),
        "    // why\n".repeat(FUNCTION),
        "const A: u8 = 0;\n".repeat(FILE)
    );
    assert_eq!(findings(&file), [""; 0]);
}
