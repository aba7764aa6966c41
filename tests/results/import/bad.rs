//! Files that are not what they should be: a clear sentence, no panic, and nothing left behind.

use super::*;

/// What is said of a file with this content.
fn refusal(name: &str, content: &[u8]) -> String {
    let written = Written::new(&[(name, content)]);
    let import = Import::new([written.path(name)]).unit("ms").unwrap();
    let kept = written.path("kept.samples");
    let error = import.run(Some(&kept)).unwrap_err();
    assert_eq!(std::fs::read_dir(written.0.path()).unwrap().count(), 1, "something is left behind");
    let said = error.to_string();
    assert!(said.contains(name), "the file is not named: {said}");
    said
}

#[test]
fn what_is_no_measurement_is_refused_by_what_it_is() {
    for (content, want) in [
        (&b""[..], "the file is empty"),
        (b" \n\t\n", "the file is empty"),
        (b"\x7fELF\x02\x01\0\0", "binary data"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "read as capture: at byte 0: the header of a pcap file"),
        (b"# only this\n", "no format that is read looks like this"),
        (b"hello world\n", "it begins with `hello world`. Formats: iperf3, irtt, flent"),
        (b"{\"a\": 1}", "no format that is read looks like this"),
        (b"{\"format\": 1, \"deadheat\": {}}", "a result of deadheat already"),
        (b"PK\x03\x04\x14\0\0\0", "packed by zip, which is not read; unpack it (`unzip`)"),
        (b"\x1f\x8bnonsense", "begins as a file compressed by gzip, and cannot be unpacked"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x33\x34", "ends in the middle"),
    ] {
        let said = refusal("x.txt", content);
        assert!(said.contains(want), "{want}: {said}");
    }
}

#[test]
fn a_number_that_is_none_is_named_with_its_line() {
    for (content, want) in [
        ("1\n2\nabc\n", "line 3: `abc` is not a number"),
        ("1\n-2\n", "line 2: `-2`: it is negative"),
        ("1\ninf\n", "line 2: `inf`: it is too large"),
        ("1\n2,5\n", "line 2: `2,5` has more than one number, or a comma as decimal point"),
        ("1\n2 MB/s\n", "line 2: MB/s after ms; a time and a rate cannot be put together"),
        ("1\n2 parsecs\n", "line 2: `2 parsecs` has the unit `parsecs`, which is none of ns, us"),
    ] {
        let said = refusal("x.txt", content.as_bytes());
        assert!(said.contains(want), "{want}: {said}");
    }
}

#[test]
fn numbers_without_a_unit_are_refused_with_all_there_are() {
    let written = Written::new(&[("x.txt", b"1\n2\n")]);
    let said = Import::new([written.path("x.txt")]).run(None).unwrap_err().to_string();
    assert!(said.contains("`1` has no unit; say --unit with one of ns, us, ms, s"), "{said}");
}

#[test]
fn what_is_said_of_plain_numbers_does_not_fit_other_formats() {
    let import = Import::new([file("ping.txt")]);
    let said = import.unit("ms").unwrap().run(None).unwrap_err();
    assert!(said.to_string().contains("--unit is about plain numbers"), "{said}");
    assert_eq!(said.exit_code(), 2);
    let said = Import::new([file("ping.txt")]).each("trial").unwrap().run(None).unwrap_err();
    assert!(said.to_string().contains("--each is about plain numbers"), "{said}");
}

#[test]
fn names_that_mean_nothing_are_answered_with_what_there_is() {
    let import = || Import::new([file("ping.txt")]);
    let said = import().format("pnig").err().unwrap().to_string();
    assert!(said.contains("did you mean `ping`?"), "{said}");
    let said = import().each("packet").err().unwrap().to_string();
    assert!(said.contains("valid: sample, trial"), "{said}");
    assert!(import().confidence(1.0).is_err());
    let said = Import::new(Vec::<PathBuf>::new()).run(None).unwrap_err().to_string();
    assert!(said.contains("name at least one file"), "{said}");
}

#[test]
fn folders_devices_and_missing_files_are_told_apart() {
    let said = |path: &Path| Import::new([path]).run(None).unwrap_err().to_string();
    assert!(said(Path::new("/dev/zero")).contains("not a regular file"));
    assert!(said(&file("nowhere.json")).contains("No such file"));
}

#[test]
fn a_format_by_force_says_what_does_not_fit() {
    for name in [
        "iperf3",
        "irtt",
        "flent",
        "hyperfine",
        "mtr",
        "sockperf",
        "iperf2",
        "netperf",
        "fping",
        "wget",
        "ping",
        "capture",
    ] {
        let import = Import::new([file("../README.md")]).format(name).unwrap();
        let said = import.run(None).unwrap_err().to_string();
        assert!(said.contains(&format!("read as {name}: ")), "{said}");
    }
}

#[test]
fn every_truncation_of_every_json_is_refused_without_a_panic() {
    for name in ["hyperfine.json"] {
        let text = std::fs::read(file(name)).unwrap();
        let whole = text.trim_ascii_end().len();
        // The beginning must be there for the format to be told; a prime step meets every kind of place.
        for end in (500..whole).step_by(37) {
            let said = refusal("cut.json", &text[..end]);
            assert!(said.contains("the file ends in the middle"), "{name} {end}: {said}");
        }
    }
}

#[test]
fn cut_and_changed_text_is_read_or_refused_without_a_panic() {
    for name in ["ping-lossy.txt", "sockperf-loss.csv", "sockperf.txt", "ping-quiet.txt"] {
        let text = std::fs::read(file(name)).unwrap();
        for at in (0..text.len()).step_by(61) {
            let mut changed = text[..].to_vec();
            changed[at] = b'9';
            for content in [&text[..at], &changed] {
                let written = Written::new(&[("x.txt", content)]);
                if let Err(error) = Import::new([written.path("x.txt")]).run(None) {
                    assert!(error.to_string().contains("x.txt"), "{error}");
                }
            }
        }
    }
}

#[test]
fn newer_formats_say_so() {
    let irtt =
        br#"{"version": {"irtt": "9.9", "protocol": 1, "json_format": 2}, "round_trips": []}"#;
    assert!(refusal("i.json", irtt).contains("JSON format 2 of irtt is newer than 1"));
    let flent = br#"{"version": 5, "metadata": {"FLENT_VERSION": "9"}, "results": {}}"#;
    assert!(refusal("f.flent", flent).contains("version 5 of flent's data file is newer than 4"));
}

#[test]
fn a_line_without_end_is_given_up() {
    let mut line = b"1\n".to_vec();
    line.resize(65 << 20, b'7');
    assert!(refusal("long.txt", &line).contains("line 2 is longer than 64 MiB"));
}

#[test]
fn hostile_names_are_shown_and_not_obeyed() {
    let command = "\u{1b}[31m<script>alert(1)</script>\u{202e}|x";
    let json = serde_json::json!({"results": [{"command": command, "times": [0.1, 0.2, 0.3]}]});
    let written = Written::new(&[("h.json", json.to_string().as_bytes())]);
    let outcome = Import::new([written.path("h.json")]).run(None).unwrap();
    assert_eq!(outcome.contenders[0].label, command);
    let terminal = shown(&outcome, "terminal");
    assert!(!terminal.contains('\u{1b}') && !terminal.contains('\u{202e}'), "{terminal}");
    assert!(!shown(&outcome, "markdown").contains("<script>"));
}
