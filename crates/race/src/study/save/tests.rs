use super::*;
use crate::study::read;
use deadheat_result::study::outcome::{RaceRun, Setting};
use std::fs;
use std::io::Write;

const STUDY: &str = r#"
title = "Echoes"
question = "Which one is quicker?"
[[race]]
id = "one"
variant = "beyond"
about = "Echoes."
contenders = ["tcp", "udp"]
workload = "ping:count=200"
"#;

fn run() -> StudyRun {
    let outcome = crate::race::testing::outcome(2);
    StudyRun {
        study_format: FORMAT,
        deadheat: outcome.deadheat,
        name: "echoes".into(),
        study: read::study(STUDY, "x.toml").unwrap().study,
        setting: Setting::Quick,
        full: Vec::new(),
        started: "2026-01-01T00:00:00Z".into(),
        host: "fake".into(),
        races: vec![RaceRun {
            id: "one".into(),
            file: Some("one.json".into()),
            why_not: None,
            trusted: true,
        }],
        beside: Vec::new(),
        rulings: Vec::new(),
    }
}

fn pack(file: &Path) {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&fs::read(file).unwrap()).unwrap();
    fs::write(format!("{}.gz", file.display()), packed.finish().unwrap()).unwrap();
    fs::remove_file(file).unwrap();
}

#[test]
fn it_comes_back_as_it_was_from_its_directory_its_file_and_packed() {
    let dir = tempfile::tempdir().unwrap();
    let (run, outcome) = (run(), crate::race::testing::outcome(2));
    save(&run, dir.path()).unwrap();
    save::save(&outcome, &dir.path().join("one.json")).unwrap();
    let results = BTreeMap::from([("one".to_owned(), outcome)]);
    for place in [dir.path().to_owned(), dir.path().join(FILE)] {
        assert_eq!(load(&place).unwrap(), run);
        assert_eq!(super::results(&run, &place).unwrap(), results);
    }
    for file in [FILE, "one.json"] {
        pack(&dir.path().join(file));
    }
    for place in [dir.path().to_owned(), dir.path().join("study.json.gz")] {
        assert_eq!(load(&place).unwrap(), run);
        assert_eq!(super::results(&run, &place).unwrap(), results);
    }
    let file = result_file(&run, dir.path(), "one").unwrap();
    assert_eq!(file, dir.path().join("one.json.gz"));
    assert_eq!(save::samples_file(&file), dir.path().join("one.samples"));
}

#[test]
fn what_is_no_such_file_is_named_for_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = load(dir.path()).unwrap_err().to_string();
    assert!(nothing.contains("no study was run here: it has no study.json"), "{nothing}");
    let whole = serde_json::to_string(&run()).unwrap();
    let race = serde_json::to_string(&crate::race::testing::outcome(2)).unwrap();
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "the file is empty"),
        (whole[..whole.len() / 2].to_owned(), "the file ends in the middle"),
        ("{\"hello\": 1}".into(), "not what `deadheat study run` saves"),
        ("[1, 2]".into(), "not what `deadheat study run` saves"),
        ("title = 1".into(), "this is not JSON"),
        (race, "this is a single race; `deadheat report` shows it"),
        (whole.replace("\"study_format\":1", "\"study_format\":2"), "written by a newer deadheat"),
        (whole.replace("\"study_format\":1", "\"study_format\":0"), "format 0 does not exist"),
        (whole.replace("\"quick\"", "\"slow\""), "slow"),
        (
            whole.replace("\"races\":[{\"id\":\"one\"", "\"races\":[{\"id\":\"two\""),
            "are not those of",
        ),
        (whole.replace("one.json", "../one.json"), "`../one.json` is not a file beside it"),
        (whole.replace("one.json", "/etc/passwd"), "`/etc/passwd` is not a file beside it"),
    ];
    for (text, wanted) in cases {
        fs::write(dir.path().join(FILE), &text).unwrap();
        let error = load(dir.path()).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains(wanted), "{wanted}: {error}");
    }
}
