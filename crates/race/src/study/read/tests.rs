use super::*;
use deadheat_result::study::outcome::Setting;

const SOUND: &str = r#"
title = "Echoes"
question = "Which one is quicker?"

[[race]]
id = "both"
variant = "done_right"
about = "Echoes under two placements."
contenders = ["tcp", "udp", "udp"]
workload = "ping:count=200"
vary.placement = ["busy", "host"]
blocks = 40
budget = "5m"
margin = "5%"
quick = { blocks = 8 }

[[published]]
race = "both"
metric = "rtt_p50_ns"
cell = { contender = "udp #2", where = { placement = "busy" } }
value = "310us"
stddev = "5us"

[[claim]]
id = "udp-quicker"
says = "UDP is quicker."
[[claim.test]]
race = "both"
metric = "rtt_p50_ns"
of = { contender = "udp", where = { placement = "busy" } }
against = { contender = "tcp", where = { placement = "busy" } }
expect = "below 1"
"#;

fn refusal(text: &str) -> String {
    let error = study(text, "mine.toml").expect_err("must be refused");
    assert_eq!(error.exit_code(), 1);
    let said = error.to_string();
    assert!(said.starts_with("mine.toml: "), "{said}");
    assert!(!said.contains('\n'), "{said}");
    said
}

/// Returns the error after `from` is replaced in a valid study.
fn changed(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    refusal(&SOUND.replacen(from, to, 1))
}

#[test]
fn a_sound_study_is_read_with_what_its_races_measure() {
    let checked = study(SOUND, "mine.toml").unwrap();
    assert_eq!(checked.metric("both", "rtt_p50_ns").unwrap().label, "RTT p50");
    assert_eq!(checked.metric("both", "moon"), None);
    assert_eq!(checked.study.races[0].at(Setting::Quick).blocks, Some(8));
}

#[test]
fn what_is_no_such_file_is_named_with_its_line_and_key() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("title = ", "titel = ", &["line 2: unknown key `titel`; did you mean `title`?", "claim"]),
        ("workload", "worklaod", &["line 10: unknown key `worklaod`; did you mean `workload`?"]),
        (
            "\"done_right\"",
            "\"perfect\"",
            &["line 7: `perfect` is none of as_published, done_right"],
        ),
        ("question = \"Which one is quicker?\"", "", &["the key `question` is missing"]),
        ("id = \"both\"", "", &["line 5: the key `id` is missing in [[race]]"]),
        ("blocks = 40", "blocks = \"many\"", &["line 12: ", "string \"many\"", "u64"]),
        ("blocks = 40", "blocks = -4", &["line 12: "]),
        ("title = \"Echoes\"", "title = \"Echoes", &["line 2: "]),
        ("[[claim.test]]", "", &["line "]),
        ("[[race]]", "[race]", &["expected a sequence; a table that may stand several times"]),
        ("contenders = ", "contenders = 5 #", &["a list has brackets, as in [\"tcp\", \"udp\"]"]),
        ("title = \"Echoes\"", "title = 5", &["a text has quotes"]),
        ("title = \"Echoes\"", "{}", &["line 2: ", "the file is in TOML"]),
    ];
    for (from, to, wanted) in cases {
        let said = changed(from, to);
        for wanted in *wanted {
            assert!(said.contains(wanted), "{to}: {said}");
        }
    }
    assert!(refusal("").contains("is missing"));
    assert!(refusal("\u{1b}[2J").contains("line 1: "));
    assert!(refusal("{\"format\": 1}").contains("line 1: "));
}

#[test]
fn what_cannot_be_meant_is_named_with_its_place() {
    let cases: &[(&str, &str, &str)] = &[
        ("quicker?", "quicker", "does not end in a question mark"),
        ("\"Echoes\"", "\" \"", "`title` is empty"),
        ("id = \"both\"", "id = \"../both\"", "race id `../both`: lower-case letters"),
        ("id = \"both\"", "id = \"Both\"", "race id `Both`"),
        ("id = \"both\"", "id = \"study\"", "the name of the study's own file"),
        ("id = \"udp-quicker\"", "id = \"\"", "claim id ``"),
        ("[\"tcp\", \"udp\"", "[\"tpc\", \"udp\"", "race `both`: unknown contender `tpc`; did you"),
        ("ping:count=200", "pnig", "race `both`: unknown workload `pnig`"),
        ("\"5m\"", "\"5\"", "race `both`: duration `5` has no unit"),
        ("\"5%\"", "\"5\"", "race `both`: share `5` needs a percent sign"),
        ("blocks = 40", "blocks = 0", "race `both`: 0 blocks"),
        ("blocks = 40", "every = \"10\"\nblocks = 40", "race `both`: duration `10` has no unit"),
        ("quick = { blocks = 8 }", "quick = { blocks = 0 }", "race `both`: quick: 0 blocks"),
        (
            "quick = { blocks = 8 }",
            "quick = { workload = \"bulk\" }",
            "in the quick setting: unknown metric `rtt_p50_ns`",
        ),
        ("race = \"both\"", "race = \"bith\"", "unknown race `bith`; did you mean `both`?"),
        ("metric = \"rtt_p50_ns\"", "metric = \"rtt_p50\"", "did you mean `rtt_p50_ns`?"),
        ("\"udp #2\"", "\"udp #3\"", "unknown contender `udp #3`"),
        (
            "= \"310us\"",
            "= \"310\"",
            "published figure 1 (race `both`): duration `310` has no unit",
        ),
        ("= \"5us\"", "= \"5%\"", "unknown duration unit `%`"),
        (
            "\"udp #2\", where = { placement = \"busy\" }",
            "\"tcp\"",
            "which placement of tcp? write where = { placement = \"busy\" }",
        ),
        (
            "where = { placement = \"busy\" }",
            "where = { plaecment = \"busy\" }",
            "unknown varied condition `plaecment`; did",
        ),
        (
            "where = { placement = \"busy\" }",
            "where = { placement = \"bsuy\" }",
            "unknown level of placement `bsuy`; did you mean `busy`?",
        ),
        ("\"below 1\"", "\"faster\"", "claim `udp-quicker`: test 1: expect `faster`: none of"),
        (
            "against = { contender = \"tcp\"",
            "against = { contender = \"udp\"",
            "udp (placement=busy) is set against itself",
        ),
        (
            "against = { contender = \"tcp\", where = { placement = \"busy\" } }",
            "",
            "duration `1` has no unit",
        ),
        ("says = \"UDP is quicker.\"", "says = \"\"", "`says` is empty"),
    ];
    for (from, to, wanted) in cases {
        let said = changed(from, to);
        assert!(said.contains(wanted), "{to}: {said}");
    }
}

#[test]
fn what_is_given_twice_or_too_often_is_refused() {
    let race = &SOUND[SOUND.find("[[race]]").unwrap()..SOUND.find("[[published]]").unwrap()];
    assert!(refusal(&format!("{SOUND}{race}")).contains("race id `both` is given twice"));
    let claim = &SOUND[SOUND.find("[[claim]]").unwrap()..];
    assert!(refusal(&format!("{SOUND}{claim}")).contains("claim id `udp-quicker` is given twice"));
    let many = format!("title = \"t\"\nquestion = \"q?\"\n{}", race.repeat(10_000));
    assert!(refusal(&many).contains("10000 races; at most 64"));
}

#[test]
fn a_file_that_is_no_text_or_too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.toml");
    let say = |content: &[u8]| {
        std::fs::write(&file, content).unwrap();
        load(&file, &[]).unwrap_err().to_string()
    };
    assert!(say(b"\xff\xfe\x00").contains("not text in UTF-8"));
    assert!(say(&vec![b'#'; (1 << 20) + 1]).contains("larger than 1 MiB"));
    std::fs::remove_file(&file).unwrap();
    assert!(load(&file, &[]).unwrap_err().to_string().starts_with("read "));
    std::fs::write(&file, SOUND).unwrap();
    assert!(load(&file, &[]).is_ok());
}
