//! Doc comments, and with them the help of the command line, are in plain English: they name their subject, and things
//! neither tell nor hear.
//!
//! The check finds phrases that readers had to translate. It is no judge of style: good English passes.

use crate::source::Source;

/// Folders held to this rule.
pub(crate) const FOLDERS: &[&str] = &[
    "crates/base/",
    "crates/contract/",
    "crates/datapath/",
    "crates/driver/",
    "crates/everything/",
    "crates/host/",
    "crates/import/",
    "crates/path/",
    "crates/race/",
    "crates/records/",
    "crates/report/",
    "crates/result/",
    "crates/server/",
    "crates/stats/",
    "crates/transports/",
    "crates/trial/",
    "crates/web/",
    "crates/workloads/",
    "examples/",
    "src/",
];

/// Words that no doc comment begins with: a doc comment begins with the name of the thing or with a verb.
const FIRST: &[&str] = &[
    "what",
    "whether",
    "who",
    "whom",
    "whose",
    "where",
    "when",
    "how",
    "why",
    "ones",
    "one that",
    "those",
    "that",
    "all that",
    "everything that",
    "something",
];

/// A phrase without its subject or with an odd verb, word by word; `|` separates alternatives.
struct Phrase {
    words: &'static [&'static str],
    /// Words right before the phrase that make it good English.
    after: &'static [&'static str],
    /// Words anywhere behind the phrase that make it good English.
    before: &'static [&'static str],
}

const PHRASES: &[Phrase] = &[
    phrase(&["whoever|nobody|somebody"]),
    phrase(&["hears|heard"]),
    phrase(&["those", "that|of"]),
    phrase(&["ones", "that"]),
    Phrase { words: &["one", "that"], after: &["the", "only", "same"], before: &[] },
    // To tell two things apart is an idiom of everybody.
    Phrase { words: &["tells"], after: &[], before: &["apart", "from"] },
    Phrase { words: &["is|are|was|were|be|been|being", "told"], after: &[], before: &["apart"] },
    phrase(&[
        "what",
        "is|are|was|were|has|have|had|came|comes|come|waits|waited|arrives|arrived|leaves|left|goes|went|belongs|\
         stands|stood|lies|lasts|counts",
    ]),
];

const fn phrase(words: &'static [&'static str]) -> Phrase {
    Phrase { words, after: &[], before: &[] }
}

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let held = |source: &&Source| FOLDERS.iter().any(|folder| source.path.starts_with(folder));
    sources.iter().filter(held).flat_map(found).collect()
}

fn found(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_example = false;
    for doc in &source.docs {
        is_example &= !doc.is_first;
        if doc.text.trim_start().starts_with("```") {
            is_example = !is_example;
        } else if !is_example && let Some(phrase) = idiom(&doc.text, doc.is_first) {
            findings.push(format!("{}: \"{phrase}\" in: {}", source.at(doc.at), doc.text.trim()));
        }
    }
    findings
}

/// Returns the phrase in a line that is not plain.
fn idiom(line: &str, is_first: bool) -> Option<String> {
    let line = without_code(line).to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '_' | '-' | '#' | '|');
    let words: Vec<&str> = line.split(|c| !is_part(c)).filter(|word| !word.is_empty()).collect();
    let begins = |with: &&&str| {
        let with: Vec<&str> = with.split(' ').collect();
        words.starts_with(&with)
    };
    if is_first && let Some(first) = FIRST.iter().find(begins) {
        return Some((*first).to_owned());
    }
    (0..words.len()).find_map(|at| {
        let found = PHRASES.iter().find(|phrase| phrase.is_at(&words, at))?;
        Some(words[at..at + found.words.len()].join(" "))
    })
}

impl Phrase {
    fn is_at(&self, words: &[&str], at: usize) -> bool {
        let Some(here) = words.get(at..at + self.words.len()) else { return false };
        let is_same = |(any, word): (&&str, &&str)| any.split('|').any(|one| one == *word);
        let previous = at.checked_sub(1).map(|before| words[before]);
        self.words.iter().zip(here).all(is_same)
            && !previous.is_some_and(|word| self.after.contains(&word))
            && !words[at..].iter().any(|word| self.before.contains(word))
    }
}

/// Returns a line without code between backticks and without links, whose words are names.
fn without_code(line: &str) -> String {
    let text: Vec<&str> = line.split('`').step_by(2).collect();
    let text = text.join(" _ ");
    let mut out = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
fn findings(text: &str) -> Vec<String> {
    check(&[Source::new("src/x.rs", text)])
}

#[test]
fn a_private_idiom_is_found() {
    for line in [
        "What is left of the budget.",
        "Whether it is done.",
        "Those that are due act.",
        "Lets one that waits go on.",
        "Returns what came.",
        "The peer is told at the end.",
        "Nobody is left to read it.",
        "The far end hears of it.",
        "Tells the other end.",
    ] {
        let found = findings(&format!("/// {line}\nfn f() {{}}\n"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
    }
    let found = findings("//! A thing.\n//!\n//! It waits for whoever is late.\n");
    assert_eq!(found, ["src/x.rs:3: \"whoever\" in: It waits for whoever is late."]);
}

#[test]
fn good_english_passes() {
    for line in [
        "Bytes in the queue.",
        "Returns what the kernel reports.",
        "Contenders that are told apart by colour.",
        "A tag tells trials from each other.",
        "The file is the one that holds the plan.",
        "Reads `what is` [those of](x) the file.",
        "Returns true when the queue is empty, and where it ends.",
    ] {
        assert_eq!(findings(&format!("/// {line}\nfn f() {{}}\n")), [""; 0], "{line}");
    }
}

#[test]
fn help_is_held_to_it_too() {
    let found =
        findings("#[derive(Debug, clap::Args)]\nstruct A {\n    /// What to race\n    a: u8,\n}\n");
    assert_eq!(found, ["src/x.rs:3: \"what\" in: What to race"]);
}

#[test]
fn examples_tests_and_ordinary_comments_are_left_alone() {
    let text = "/// A thing.\n///\n/// ```\n/// // what is left\n/// ```\nfn f() {}\n// What is left.\n\
        #[cfg(test)]\nmod tests {\n    /// What is left.\n    fn g() {}\n}\n";
    assert_eq!(findings(text), [""; 0]);
    assert_eq!(check(&[Source::new("tests/x.rs", "/// What is left.")]), [""; 0]);
}
