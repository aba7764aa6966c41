//! Parts of Rust source: code, comments and string literals, and which of it is test code. It is no full parser.

use std::fs;
use std::ops::Range;
use std::path::Path;

/// A source file. All texts have the length and the line breaks of the original; everything else
/// is blank.
pub(crate) struct Source {
    /// Path from the package's root, with `/`.
    pub(crate) path: String,
    /// Code outside tests, without comments and the content of literals.
    pub(crate) code: String,
    /// The same, including tests.
    pub(crate) all_code: String,
    /// Comments only, including tests.
    pub(crate) comments: String,
    /// Lines of doc comments outside tests.
    pub(crate) docs: Vec<Doc>,
    /// String literals outside tests: their start, and their content as written.
    pub(crate) strings: Vec<(usize, String)>,
}

/// Line of a doc comment.
pub(crate) struct Doc {
    pub(crate) at: usize,
    /// Text without the marker.
    pub(crate) text: String,
    /// True for the first line of a doc comment.
    pub(crate) is_first: bool,
}

impl Source {
    /// Reads every `.rs` file under the folders, in alphabetical order.
    pub(crate) fn read_all(root: &Path, folders: &[&str]) -> Vec<Source> {
        let mut paths = Vec::new();
        for folder in folders {
            collect(&root.join(folder), &mut paths);
        }
        paths.sort();
        assert!(!paths.is_empty(), "no sources under {}", root.display());
        let sources = paths.iter().map(|path| {
            let name = path.strip_prefix(root).unwrap().to_string_lossy();
            Source::new(&name, &fs::read_to_string(path).unwrap())
        });
        mark_test_files(sources.collect())
    }

    /// Splits a text into its parts.
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let parts = split(text);
        let only = |wanted: Kind| {
            let mut bytes = blank(text);
            for (kind, range) in parts.iter().filter(|(kind, _)| *kind == wanted) {
                debug_assert_eq!(*kind, wanted);
                bytes[range.clone()].copy_from_slice(&text.as_bytes()[range.clone()]);
            }
            String::from_utf8(bytes).unwrap()
        };
        let all_code = only(Kind::Code);
        let tests = test_items(&all_code);
        let mut code = all_code.clone().into_bytes();
        for range in &tests {
            for byte in code[range.clone()].iter_mut().filter(|b| **b != b'\n') {
                *byte = b' ';
            }
        }
        let is_in_test = |at: usize| tests.iter().any(|test| test.contains(&at));
        let strings = parts
            .iter()
            .filter(|(kind, range)| *kind == Kind::Text && !is_in_test(range.start))
            .map(|(_, range)| (range.start, text[range.clone()].to_owned()))
            .collect();
        Source {
            path: path.to_owned(),
            code: String::from_utf8(code).unwrap(),
            all_code,
            comments: only(Kind::Comment),
            docs: docs(text, &parts).into_iter().filter(|doc| !is_in_test(doc.at)).collect(),
            strings,
        }
    }

    /// Returns the module that a file belongs to: `cli` for `src/cli/race.rs`; of a crate with several modules of its own the
    /// module, `study` for `crates/race/src/study/run.rs`; of others the crate, `transports` for
    /// `crates/transports/src/tcp.rs`.
    pub(crate) fn module(&self) -> Option<&str> {
        let inner = match self.path.strip_prefix("crates/") {
            Some(inner) => {
                let (name, rest) = inner.split_once("/src/")?;
                if !OF_MODULES.contains(&name) {
                    return Some(name);
                }
                rest
            }
            None => self.path.strip_prefix("src/")?,
        };
        let top = inner.split('/').next()?;
        Some(top.strip_suffix(".rs").unwrap_or(top))
    }

    /// Returns `path:line` of an offset.
    pub(crate) fn at(&self, offset: usize) -> String {
        let line = self.all_code[..offset].matches('\n').count() + 1;
        format!("{}:{line}", self.path)
    }
}

/// Crates with an order of their modules.
pub(crate) const OF_MODULES: &[&str] = &["contract", "datapath", "race"];

fn collect(folder: &Path, paths: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            paths.push(path);
        }
    }
}

fn blank(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| if byte == b'\n' { b'\n' } else { b' ' }).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// Splits the text into consecutive pieces.
fn split(text: &str) -> Vec<(Kind, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        let (kind, inside, next) = match literal(text, at) {
            Some(found) => found,
            None => {
                at += 1;
                continue;
            }
        };
        pieces.push((Kind::Code, from..inside.start));
        pieces.push((kind, inside.clone()));
        from = inside.end;
        at = next;
    }
    pieces.push((Kind::Code, from..bytes.len()));
    pieces
}

/// Returns the lines of doc comments.
fn docs(text: &str, pieces: &[(Kind, Range<usize>)]) -> Vec<Doc> {
    let mut docs = Vec::new();
    let mut end = None;
    for (_, range) in pieces.iter().filter(|(kind, _)| *kind == Kind::Comment) {
        let comment = &text[range.clone()];
        let doc = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        let Some(doc) = doc.filter(|doc| !doc.starts_with('/')) else { continue };
        let goes_on = end.is_some_and(|end: usize| {
            let between = &text[end..range.start];
            between.trim().is_empty() && between.matches('\n').count() == 1
        });
        docs.push(Doc { at: range.start, text: doc.to_owned(), is_first: !goes_on });
        end = Some(range.end);
    }
    docs
}

/// Returns the comment or literal that starts at `at`: its kind, its content, and the end of it.
fn literal(text: &str, at: usize) -> Option<(Kind, Range<usize>, usize)> {
    let rest = &text.as_bytes()[at..];
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        return Some((Kind::Comment, at..at + end, at + end));
    }
    if rest.starts_with(b"/*") {
        let end = at + block_comment(rest);
        return Some((Kind::Comment, at..end, end));
    }
    let previous = at.checked_sub(1).map(|before| text.as_bytes()[before]);
    let starts_word = !previous.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match rest[0] {
        b'"' => Some(quoted(rest, at)),
        b'r' if starts_word => raw(rest, at),
        b'\'' => character(rest).map(|end| (Kind::Text, at + 1..at + end - 1, at + end)),
        _ => None,
    }
    .map(|(kind, inside, next)| match kind {
        // A character is no string; it is blank in all texts.
        Kind::Text if rest[0] == b'\'' => (Kind::Comment, inside, next),
        _ => (kind, inside, next),
    })
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..rest.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8], at: usize) -> (Kind, Range<usize>, usize) {
    let mut end = 1;
    while end < rest.len() && rest[end] != b'"' {
        end += if rest[end] == b'\\' { 2 } else { 1 };
    }
    let end = end.min(rest.len());
    (Kind::Text, at + 1..at + end, at + rest.len().min(end + 1))
}

fn raw(rest: &[u8], at: usize) -> Option<(Kind, Range<usize>, usize)> {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let start = 2 + hashes;
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let len = rest[start..]
        .windows(close.len())
        .position(|window| window == close)
        .unwrap_or(rest.len() - start);
    let end = start + len;
    let next = (end + close.len()).min(rest.len());
    Some((Kind::Text, at + start..at + end, at + next))
}

/// Returns the length of a character literal; `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return rest[3..].iter().position(|b| *b == b'\'').map(|n| n + 4);
    }
    let end = rest.iter().skip(2).take(4).position(|b| *b == b'\'')? + 2;
    // `'a, 'b` is two lifetimes: a character is one scalar value.
    let inside = std::str::from_utf8(&rest[1..end]).ok()?;
    (inside.chars().count() == 1).then_some(end + 1)
}

/// Marks whole files as tests: files with a `mod` line behind `#[cfg(test)]`, and files of a crate's folder of
/// tests.
fn mark_test_files(mut sources: Vec<Source>) -> Vec<Source> {
    let mut files = Vec::new();
    for source in &sources {
        let path = source.path.trim_end_matches("/mod.rs").trim_end_matches("/lib.rs");
        let folder = path.trim_end_matches(".rs");
        for range in test_items(&source.all_code) {
            let item = source.all_code[range].trim_start_matches("#[cfg(test)]").trim();
            let name = item.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            if let Some(name) = name.strip_prefix("mod ") {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    for source in &mut sources {
        let path = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let is_of_tests = path.starts_with("crates/") && path.split('/').nth(2) == Some("tests");
        if is_of_tests
            || files.iter().any(|file| path == file || path.starts_with(&format!("{file}/")))
        {
            source.code = String::from_utf8(blank(&source.code)).unwrap();
            source.docs.clear();
            source.strings.clear();
        }
    }
    sources
}

/// Returns the items behind `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let marker = "#[cfg(test)]";
    code.match_indices(marker)
        .map(|(start, _)| {
            let body = start + marker.len();
            let end = code[body..].find(['{', ';']).map_or(code.len(), |n| body + n);
            start..if code[end..].starts_with('{') { closing(code, end) } else { end }
        })
        .collect()
}

/// Returns the offset just behind the brace that closes the brace at `open`.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    for (i, byte) in code.bytes().enumerate().skip(open) {
        depth += match byte {
            b'{' => 1,
            b'}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return i + 1;
        }
    }
    code.len()
}

#[test]
fn code_comments_and_literals_are_separated() {
    let source = Source::new(
        "src/x.rs",
        "/* a /* b */ c */ let s = \"// no \\\" \"; // yes\nlet r = r#\"raw \" here\"#; let c = '\"'; fn f<'a>(x: &'a u8) {}",
    );
    assert!(source.code.contains("let c = ' '; fn f<'a>(x: &'a u8) {}"));
    assert!(source.comments.contains("/* a /* b */ c */"));
    assert!(source.comments.contains("// yes") && !source.comments.contains("// no"));
    let strings: Vec<&str> = source.strings.iter().map(|(_, s)| s.as_str()).collect();
    assert_eq!(strings, ["// no \\\" ", "raw \" here"]);
}

#[test]
fn test_modules_are_separated() {
    let source = Source::new(
        "src/a/b.rs",
        "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { let s = \"in\"; } }\nfn c() {}\n",
    );
    assert!(source.code.contains("fn a") && source.code.contains("fn c"));
    assert!(!source.code.contains("fn b") && source.all_code.contains("fn b"));
    assert!(source.strings.is_empty());
    assert_eq!(source.at(source.code.find("fn c").unwrap()), "src/a/b.rs:4");
    assert_eq!(source.module(), Some("a"));
}

#[test]
fn a_file_that_is_a_test_module_is_all_test() {
    let sources = mark_test_files(vec![
        Source::new("src/a/mod.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
        Source::new("src/a/b.rs", "fn b() {}"),
        Source::new("src/a/tests.rs", "fn t() { f(\"x\") }"),
        Source::new("crates/c/tests/t.rs", "fn t() {}"),
    ]);
    assert!(sources[1].code.contains("fn b"));
    assert!(!sources[2].code.contains("fn t") && sources[2].strings.is_empty());
    assert!(!sources[3].code.contains("fn t"));
}
