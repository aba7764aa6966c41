//! Summaries of programs whose figures stand behind names, in JSON or in printed lines: which figure stands where is text
//! (`summaries.txt`), and one reader serves all.
//!
//! An entry has the name and the summary of a format, and lines with a word in front: `sign`, texts of which a file has all;
//! `json`, `column` and `label`, the place of a figure and its name; `line`, a pattern; `intervals` or `flows`, the begin of
//! what repeats; `unknown`, `says` and `trial`.

use std::sync::LazyLock;

use super::foreign_file::ForeignFile;
use super::loose_json::documents;
use super::{FigureNames, FileContent, Format, NONE};
use readings::{Readings, Repeats};

pub(super) mod line;
pub(super) mod readings;

static ALL: LazyLock<Vec<Format>> =
    LazyLock::new(|| entries(include_str!("summaries/summaries.txt")).filter_map(format).collect());

/// Returns all formats of summaries.
pub(super) fn all() -> impl Iterator<Item = &'static Format> {
    ALL.iter()
}

/// Entry of a text: its first line, and the others, each split behind its first word.
pub(super) type Entry = (&'static str, Vec<(&'static str, &'static str)>);

/// Returns the entries of a text, which empty lines separate.
pub(super) fn entries(text: &'static str) -> impl Iterator<Item = Entry> {
    text.trim_end().split("\n\n").filter_map(|entry| {
        let mut lines = entry.lines();
        let first = lines.next()?;
        Some((first, lines.filter_map(|line| line.trim_start().split_once(' ')).collect()))
    })
}

/// Returns the texts of the lines of an entry with this word in front.
pub(super) fn behind(entry: &Entry, word: &str) -> impl Iterator<Item = &'static str> {
    entry.1.iter().filter(move |(own, _)| *own == word).map(|(_, text)| *text)
}

/// Returns lists of texts, which are written as JSON.
pub(super) fn signs(entry: &Entry, word: &str) -> &'static [&'static [&'static str]] {
    let list = |text: &str| -> &'static [&'static str] {
        let texts: Vec<String> = serde_json::from_str(text).unwrap_or_default();
        texts.into_iter().map(|text| &*text.leak()).collect::<Vec<&str>>().leak()
    };
    behind(entry, word).map(list).collect::<Vec<_>>().leak()
}

fn format(entry: Entry) -> Option<Format> {
    let (id, summary) = entry.0.split_once(": ")?;
    let list =
        |word| -> &'static [&'static str] { behind(&entry, word).collect::<Vec<_>>().leak() };
    let pairs = |word| -> FigureNames {
        let pairs = behind(&entry, word).filter_map(|text| text.rsplit_once(" = "));
        pairs.map(|(place, name)| (place, name.trim_matches('-'))).collect::<Vec<_>>().leak()
    };
    let begin = |word| signs(&entry, word).first().and_then(|texts| texts.first().copied());
    let intervals = begin("intervals").map(Repeats::Intervals);
    Some(Format {
        id,
        summary,
        signs: signs(&entry, "sign"),
        json: pairs("json"),
        lines: list("line"),
        columns: pairs("column"),
        labels: pairs("label"),
        unknown: list("unknown"),
        says: list("says"),
        trial: behind(&entry, "trial").next().unwrap_or("a run"),
        unit: "as printed",
        repeats: intervals.or(begin("flows").map(Repeats::Flows)).unwrap_or(Repeats::Next),
        ..NONE
    })
}

/// Reads a file of a format by the places of its figures.
///
/// # Errors
/// If there is no figure in it, or it cannot be read.
pub(super) fn read(format: &Format, file: &mut ForeignFile) -> Result<FileContent, String> {
    let mut readings = Readings::new(format.repeats);
    if !format.json.is_empty() && file.head().trim_start().starts_with(['{', '[']) {
        for document in documents(&file.whole()?).documents {
            readings.document(&document.value, format.json, document.is_cut);
        }
    } else {
        format.printed(file, &mut readings)?;
    }
    let mut content = readings.content();
    if content.arms.is_empty() {
        return Err(format!("there is no figure of {} in it", format.id));
    }
    content.program = format.id.to_owned();
    Ok(content)
}

impl Format {
    fn printed(&self, file: &mut ForeignFile, readings: &mut Readings) -> Result<(), String> {
        let mut columns: Vec<&'static str> = Vec::new();
        let mut above = String::new();
        while let Some(line) = file.next_line()? {
            self.lines.iter().for_each(|pattern| readings.line(line, pattern));
            match line::columns(line, self.columns) {
                Some(found) => columns = found,
                None => readings.row(line, &columns),
            }
            if !self.labels.is_empty() && !readings.labelled(line, self.labels, &above) {
                above = line.to_owned();
            }
        }
        Ok(())
    }

    /// Returns the names of its figures.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let pairs = self.json.iter().chain(self.columns).chain(self.labels).map(|(_, name)| *name);
        pairs.chain(self.lines.iter().flat_map(|pattern| line::names(pattern)))
    }

    /// Returns the labels of the metrics that its files may give, for the documentation.
    pub(super) fn becomes(&self) -> String {
        let mut labels: Vec<String> = Vec::new();
        for label in self.names().filter_map(|name| readings::label(line::bare(name))) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels.join(", ")
    }

    /// Returns the information that its files lack, and the peculiarities of its figures, for the documentation.
    pub(super) fn lacks(&self) -> String {
        let unknown = self.unknown.join("; ");
        let end = if unknown.is_empty() || self.says.is_empty() { "" } else { ". " };
        format!("{unknown}{end}{}", self.says.join(" ")).trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_numbers_and_to_sums() {
        let text = "{\"a\": {\"p99.9\": 1.5, \"b\": {\"200\": 3, \"302\": 4, \"x\": 9}}, \"e\": {}, \"s\": \"w\"}";
        let found = documents(text);
        let value = &found.documents[0].value;
        let at = |path| value.number_at(path);
        assert_eq!((at("a/p99.9"), at("a/b/*"), at("a/b/!x")), (Some(1.5), Some(16.0), Some(7.0)));
        assert_eq!((at("e/*"), at("a/none"), at("none/*")), (Some(0.0), None, None));
        assert_eq!((value.text_at("s"), value.text_at("a/s")), (Some("w"), None));
    }

    #[test]
    fn every_name_in_the_data_is_one_of_a_figure() {
        for format in all() {
            assert!(!format.becomes().is_empty(), "{}", format.id);
            for name in format.names().filter(|name| !name.is_empty()) {
                assert!(readings::is_known(line::bare(name)), "{}: {name}", format.id);
            }
        }
    }

    /// Fails if a line of `text` begins with none of these words, or has no list or pair where its word asks for one.
    fn check_lines(text: &'static str, words: &[&str]) {
        for entry in entries(text) {
            let lines = text.split("\n\n").find(|lines| lines.starts_with(entry.0)).unwrap();
            assert_eq!(entry.1.len(), lines.trim_end().lines().count() - 1, "{}", entry.0);
            for (word, rest) in entry.1 {
                assert!(words.contains(&word), "{}: {word}", entry.0);
                match word {
                    "sign" | "intervals" | "flows" => {
                        assert!(serde_json::from_str::<Vec<String>>(rest).is_ok(), "{rest}");
                    }
                    "json" | "column" | "label" => assert!(rest.contains(" = "), "{rest}"),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn each_line_of_the_texts_is_read() {
        let text = include_str!("summaries/summaries.txt");
        let words = "sign json column label line intervals flows unknown says trial";
        check_lines(text, &words.split(' ').collect::<Vec<_>>());
        assert_eq!(all().count(), entries(text).count());
        let words = ["sign", "why", "figures", "command", "options"];
        check_lines(include_str!("unread.txt"), &words);
    }
}
