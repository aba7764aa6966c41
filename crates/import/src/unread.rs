//! Formats that are known and not read: the signs of each, and its remedy (`unread.txt`).

use std::sync::LazyLock;

use super::summaries::{Entry, behind, entries, signs};

/// Format that is not read.
pub struct UnreadFormat {
    /// Its name for people: `a packet dump of tcpdump`.
    pub name: &'static str,
    /// Signs of such a file: all texts of one of these lists are in its first lines.
    signs: &'static [&'static [&'static str]],
    /// Reason why it is not read, or its remedy.
    pub why: &'static str,
    /// Figures that a command can list for an import; empty if there are none.
    pub figures: &'static str,
    /// The command; `FILE` stands for the file.
    command: &'static str,
    /// Options for their import.
    options: &'static str,
}

/// Number of lines in which signs are looked for.
const LINES: usize = 8;

/// All formats that are known and not read.
pub static UNREAD: LazyLock<Vec<UnreadFormat>> = LazyLock::new(|| {
    let format = |entry: Entry| {
        let text = |word| behind(&entry, word).next().unwrap_or_default();
        UnreadFormat {
            name: entry.0,
            signs: signs(&entry, "sign"),
            why: text("why"),
            figures: text("figures"),
            command: text("command"),
            options: text("options"),
        }
    };
    entries(include_str!("unread.txt")).map(format).collect()
});

/// Returns the format of a file with this beginning, if it is known and not read.
pub(super) fn recognised(head: &str) -> Option<&'static UnreadFormat> {
    let lines = head.split_inclusive('\n').filter(|line| !line.trim().is_empty());
    let first: String = lines.take(LINES).collect();
    let has_all = |signs: &&[&str]| signs.iter().all(|sign| first.contains(sign));
    UNREAD.iter().find(|format| format.signs.iter().any(&has_all))
}

impl UnreadFormat {
    /// Returns the refusal of a file with this name.
    pub(super) fn refusal(&self, name: &str) -> String {
        let why = self.why.replace("FILE", &typed(name));
        let refusal = format!("this is {}, which is not read: {why}", self.name);
        match self.command(name) {
            Some(command) => format!("{refusal}; to import {}: `{command}`", self.figures),
            None => refusal,
        }
    }

    /// Returns the command that imports figures of a file with this name.
    pub fn command(&self, name: &str) -> Option<String> {
        let command = self.command.replace("FILE", &typed(name));
        let import = format!("{command} | deadheat import - {}", self.options);
        (!self.figures.is_empty()).then_some(import)
    }
}

/// Returns a name as typed in a shell.
fn typed(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./-+,:@%=".contains(c);
    match name {
        "" | "-" => "FILE".to_owned(),
        _ if name.chars().all(is_plain) => name.to_owned(),
        _ => format!("'{}'", name.replace('\'', "'\\''")),
    }
}
