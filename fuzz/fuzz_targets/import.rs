//! Files of other tools from anybody, in every format: nothing panics, and what is imported can be saved,
//! loaded and shown.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use std::sync::LazyLock;

use deadheat::import::{ALL, Import};
use deadheat::report::{self, ReportInput, Style};
use deadheat::result::save;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<std::path::PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("deadheat-fuzz-{}", std::process::id())));

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*FILE, data).expect("a file can be written");
    let formats = ALL.iter().map(|reader| Some(reader.id())).chain([None]);
    for format in formats {
        let asked = Import::new([FILE.as_path()]).unit("ms").expect("a unit");
        let asked = match format {
            Some(id) => asked.format(id).expect("a format"),
            None => asked,
        };
        let Ok(outcome) = asked.run(None) else { continue };
        let saved = serde_json::to_vec(&outcome).expect("what was imported can be saved");
        assert_eq!(save::parse(&saved).expect("what was saved can be loaded"), outcome);
        for report in report::ALL {
            let _ = report.render(&ReportInput { outcome: &outcome, samples: None }, &Style::default());
        }
    }
});
