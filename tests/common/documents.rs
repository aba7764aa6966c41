//! Commands in the fenced blocks of the documents, as a reader copies them.

use std::fs;
use std::path::{Path, PathBuf};

/// Command of this program in a document.
#[derive(Debug, Clone)]
pub(crate) struct DocumentedCommand {
    /// Document, from the root of the repository, and line.
    pub(crate) place: String,
    /// Heading above the command.
    pub(crate) heading: String,
    /// Words behind the program's name, as a shell splits them.
    pub(crate) words: Vec<String>,
}

impl DocumentedCommand {
    /// Returns the value of an option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// Returns the command as text.
    pub(crate) fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// Returns all commands of README.md, docs/ and the manual pages.
pub(crate) fn all(root: &Path) -> Vec<DocumentedCommand> {
    let mut pages = vec![root.join("README.md"), root.join("src/cli/examples.md")];
    for folder in ["docs", "docs/workloads"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    }
    pages.sort();
    let page = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        of_page(&name, &fs::read_to_string(path).unwrap())
    };
    pages.iter().flat_map(page).collect()
}

/// Returns the commands of a page; a block of `text` is a screen.
pub(crate) fn of_page(name: &str, text: &str) -> Vec<DocumentedCommand> {
    let (mut found, mut is_fenced, mut heading) = (Vec::new(), false, String::new());
    let mut is_screen = false;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_fenced = !is_fenced;
            is_screen = language == "text";
        } else if let Some(title) = line.strip_prefix('#').filter(|_| !is_fenced) {
            heading = title.trim_start_matches('#').trim().to_owned();
        } else if is_fenced && !is_screen {
            let mut whole = line.trim().to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole += lines.next().map_or("", |(_, more)| more.trim());
            }
            if let Some(words) = command(&whole) {
                let place = format!("{name}:{}", at + 1);
                found.push(DocumentedCommand { place, heading: heading.clone(), words });
            }
        }
    }
    found
}

/// Returns the words behind the program's name if a line of a shell runs it. A prompt, variables and a timer may
/// precede it.
fn command(line: &str) -> Option<Vec<String>> {
    let mut words = split(line).into_iter();
    let is_before = |word: &str| {
        let variable = word.split_once('=').map(|(name, _)| name);
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        ["$", "time", "run:", "-"].contains(&word) || variable.is_some_and(is_name)
    };
    let program = words.find(|word| !is_before(word))?;
    (program.rsplit('/').next() == Some("deadheat")).then(|| words.collect())
}

/// Splits a line as a shell does, up to a comment or the end of the command.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars().chain([' ']) {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ', None) => words.extend(word.take()),
            ('#', None) if word.is_none() => break,
            ('|' | ';' | '&' | '>', None) if word.is_none() => break,
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_reader_copies_them() {
        let page = "# One\ndeadheat race a\n```sh\n$ deadheat race 'a|b' \\\n    -w x # why\n\
                    X=1 time deadheat list\n  all of it: deadheat report FILE\n- run: ../bin/deadheat race c | tee x\n\
                    deadheat-trace 1\n```\n## Two\n```sh\ndeadheat report \"a b\"\n```\n";
        let found = of_page("p.md", page);
        let said: Vec<(&str, &str, String)> = found
            .iter()
            .map(|one| (one.place.as_str(), one.heading.as_str(), one.words.join("\u{1f}")))
            .collect();
        let words = |words: &[&str]| words.join("\u{1f}");
        assert_eq!(
            said,
            [
                ("p.md:4", "One", words(&["race", "a|b", "-w", "x"])),
                ("p.md:6", "One", words(&["list"])),
                ("p.md:8", "One", words(&["race", "c"])),
                ("p.md:13", "Two", words(&["report", "a b"])),
            ]
        );
        assert_eq!(found[0].option("-w"), Some("x"));
    }
}
