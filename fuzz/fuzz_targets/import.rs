//! Files of other tools from anybody, in every format: nothing panics, and what is imported can be saved, loaded and shown.
//! The last byte may choose a format; ends of text, as files of other tools have them, leave the format to its signs, so that
//! such files are seeds as they are.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use std::sync::LazyLock;

use deadheat::import::{ALL, Import, all};
use deadheat::report::{self, ReportInput, Style};
use deadheat::result::save;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<std::path::PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("deadheat-fuzz-{}", std::process::id())));

/// Last bytes that choose a format, from the first one on: behind the line feed, 10, and before the brace, 125.
const FIRST: u8 = 32;

fuzz_target!(|data: &[u8]| {
    let [content @ .., last] = data else { return };
    let mut formats = ALL.iter().copied().chain(all());
    let format = last.checked_sub(FIRST).and_then(|place| formats.nth(usize::from(place)));
    let content = if format.is_some() { content } else { data };
    std::fs::write(&*FILE, content).expect("a file can be written");
    let mut asked = Import::new([FILE.as_path()]);
    if let Some(reader) = format {
        asked = asked.format(reader.id()).expect("a format");
        // Other formats say their units themselves, and refuse this one.
        if reader.id() == ALL[ALL.len() - 1].id() {
            asked = asked.unit("ms").expect("a unit");
        }
    }
    let Ok(outcome) = asked.run(None) else { return };
    let saved = serde_json::to_vec(&outcome).expect("what was imported can be saved");
    assert_eq!(save::parse(&saved).expect("what was saved can be loaded"), outcome);
    let report = report::ALL[content.len() % report::ALL.len()];
    let _ = report.render(&ReportInput { outcome: &outcome, samples: None }, &Style::default());
});
