//! Study files from anybody: nothing panics, and what is read can be asked, judged without results and
//! written down.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use std::collections::BTreeMap;

use deadheat::result::study::outcome::{Ruling, Setting};
use deadheat::study::judge::{Extent, judge};
use deadheat::study::{plan, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(checked) = read::study(text, "fuzz.toml") else {
        return;
    };
    for race in &checked.study.races {
        for setting in [Setting::Quick, Setting::Full] {
            let race = race.at(setting);
            assert!(race.command().starts_with("deadheat race "));
            let request = plan::request(&race).expect("a study that was read can be asked");
            request.check().expect("what it asks was checked");
        }
    }
    let judged = judge(&checked, &BTreeMap::new(), Extent::FULL);
    assert!(judged.rulings.iter().all(|claim| claim.ruling == Ruling::Open));
    serde_json::to_vec(&checked.study).expect("what was read can be saved");
});
