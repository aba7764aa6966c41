//! Result files from anybody: nothing panics, and what loads is saved and loaded the same.
#![no_main]

use deadheat::race::outcome::Outcome;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(outcome) = serde_json::from_slice::<Outcome>(data) else {
        return;
    };
    let _ = outcome.trusted();
    let saved = serde_json::to_vec(&outcome).expect("what was loaded can be saved");
    let again: Outcome = serde_json::from_slice(&saved).expect("what was saved can be loaded");
    assert_eq!(again, outcome);
});
