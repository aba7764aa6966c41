//! Result files and samples files from anybody: nothing panics, what loads is saved and loaded the
//! same, and every report can show it.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use deadheat::records::samples::{Chunks, MAGIC};
use deadheat::report::{self, ReportInput, Style};
use deadheat::result::outcome::Outcome;
use deadheat::result::save;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // As it is, and behind the magic that a fuzzer is slow to guess.
    for file in [data.to_vec(), [MAGIC, data].concat()] {
        if let Ok(chunks) = Chunks::new(file.as_slice(), "fuzz") {
            for chunk in chunks.map_while(Result::ok) {
                assert!(chunk.samples.len() <= data.len());
            }
        }
    }
    let Ok(outcome) = save::parse(data) else {
        return;
    };
    let _ = outcome.trusted();
    let saved = serde_json::to_vec(&outcome).expect("what was loaded can be saved");
    let again: Outcome = serde_json::from_slice(&saved).expect("what was saved can be loaded");
    assert_eq!(again, outcome);
    for report in report::ALL {
        let _ = report.render(&ReportInput { outcome: &outcome, samples: None }, &Style::default());
    }
});
