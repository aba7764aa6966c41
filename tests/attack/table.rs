//! One line of a table for each attack.

use std::fmt::Write;

pub(crate) const HEADER: &str = "\
| attack | what was thrown at it | honest races | longest | memory of the server | verdict |
|---|---|---|---|---|---|";

/// What came of an attack.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) thrown: String,
    pub(crate) honest: String,
    pub(crate) longest: String,
    pub(crate) memory: String,
    pub(crate) faults: Vec<String>,
}

impl Row {
    /// Prints it, and fails the test where anything was wrong.
    pub(crate) fn conclude(self) {
        let Row { name, thrown, honest, longest, memory, faults } = self;
        let verdict = match faults.first() {
            None => "holds".to_owned(),
            Some(_) => {
                let mut words = "**fails**: ".to_owned();
                let clean = faults.join("; ").replace(['|', '\n'], " ");
                let _ = write!(words, "{}", clean.chars().take(300).collect::<String>());
                words
            }
        };
        println!("\n| {name} | {thrown} | {honest} | {longest} | {memory} | {verdict} |");
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}
