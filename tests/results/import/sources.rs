//! Folders, patterns, archives, standard input and packed files.

use super::*;
use std::io::Write;
use std::process::{Command, Stdio};

/// Labels of the contenders, each with its number of trials.
fn contenders(outcome: &Outcome) -> Vec<(&str, usize)> {
    let trials = |id| outcome.trials.iter().filter(|trial| trial.contender == id).count();
    outcome.contenders.iter().map(|own| (own.label.as_str(), trials(own.id))).collect()
}

/// A folder with two folders of two files each, and files that are no measurements.
fn runs() -> Written {
    let written = Written::new(&[("notes.md", b"what I did\n"), (".hidden.txt", b"1 ms\n")]);
    for (folder, files) in [
        ("tcp", ["iperf3-tcp.json", "iperf3-tcp-parallel.json"]),
        ("udp", ["iperf3-udp.json", "iperf3-udp-loss.json"]),
    ] {
        std::fs::create_dir(written.path(folder)).unwrap();
        for (number, name) in files.iter().enumerate() {
            let to = written.path(folder).join(format!("run{}.json", 9 + number));
            std::fs::copy(file(name), to).unwrap();
        }
    }
    written
}

/// A tar archive of the folder, as tar(1) writes one, packed by `pack`.
fn archive(written: &Written) -> Vec<u8> {
    let made = Command::new("tar").arg("-C").arg(written.0.path()).args(["-cf", "-", "."]).output();
    made.unwrap().stdout
}

#[test]
fn a_folder_alone_stands_for_what_is_in_it() {
    let written = runs();
    let outcome = Import::new([written.0.path()]).run(None).unwrap();
    assert_eq!(contenders(&outcome), [("tcp", 2), ("udp", 2)]);
    let left_out = &outcome.warnings[0];
    assert_eq!((left_out.code.as_str(), outcome.warnings.len()), ("files_left_out", 1));
    assert!(
        left_out.message.contains("notes.md (no format that is read looks like this"),
        "{left_out:?}"
    );
    let files = Import::new([written.path("tcp")]).run(None).unwrap();
    assert_eq!(contenders(&files), [("run9", 1), ("run10", 1)], "numbers in names by their size");
    let labelled = Import::new([written.path("tcp")]).label("t").run(None).unwrap();
    assert_eq!(contenders(&labelled), [("t", 2)]);
}

#[test]
fn folders_among_several_arguments_are_contenders() {
    let written = runs();
    let paths = [written.path("udp"), written.path("tcp"), file("iperf3-bidir.json")];
    let outcome = Import::new(paths.clone()).run(None).unwrap();
    assert_eq!(contenders(&outcome), [("udp", 2), ("tcp", 2), ("iperf3-bidir", 1)]);
    let outcome = Import::new(paths).label("udp=u").label("run9=first").run(None).unwrap();
    assert_eq!(contenders(&outcome), [("first", 2), ("u", 1), ("tcp", 1), ("iperf3-bidir", 1)]);
    let said = Import::new([written.path("nothing-*")]).run(None).unwrap_err().to_string();
    assert!(said.contains("no file matches"), "{said}");
    let empty = tempfile::tempdir().unwrap();
    let said = Import::new([empty.path()]).run(None).unwrap_err().to_string();
    assert!(said.contains("this folder is empty"), "{said}");
}

#[test]
fn a_pattern_stands_for_the_files_that_match() {
    let written = runs();
    let pattern = written.path("tcp").join("run*.json");
    let outcome = Import::new([&pattern]).run(None).unwrap();
    assert_eq!(contenders(&outcome), [("run9", 1), ("run10", 1)]);
    let others = written.path("udp").join("*.json");
    let outcome = Import::new([&pattern, &others]).label("t").label("u").run(None).unwrap();
    assert_eq!(contenders(&outcome), [("t", 2), ("u", 2)]);
    let outcome = Import::new([&pattern]).label("run1?=long").run(None).unwrap();
    assert_eq!(contenders(&outcome), [("run9", 1), ("long", 1)]);
}

#[test]
fn an_archive_is_the_folder_that_it_was_made_of() {
    let written = runs();
    let plain = archive(&written);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let files = Written::new(&[("all.tar", &plain), ("all.tgz", &gzip.finish().unwrap())]);
    for name in ["all.tar", "all.tgz"] {
        let outcome = Import::new([files.path(name)]).run(None).unwrap();
        assert_eq!(contenders(&outcome), [("tcp", 2), ("udp", 2)], "{name}");
        assert!(outcome.warnings[0].message.contains("notes.md"), "{:?}", outcome.warnings);
    }
    let several = Import::new([files.path("all.tar"), file("ping.txt")]).run(None).unwrap();
    assert_eq!(contenders(&several), [("all", 4), ("ping", 1)]);
    let cut = Written::new(&[("cut.tar", &plain[..plain.len() / 2])]);
    let said = Import::new([cut.path("cut.tar")]).run(None).unwrap_err().to_string();
    assert!(said.contains("this archive cannot be read"), "{said}");
}

#[test]
fn a_bomb_ends_in_a_clear_error() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let piece = "12.5\n".repeat(1 << 18);
    for _ in 0..100 {
        bomb.write_all(piece.as_bytes()).unwrap();
    }
    let written = Written::new(&[("bomb.txt.gz", &bomb.finish().unwrap())]);
    let import = Import::new([written.path("bomb.txt.gz")]).unit("ms").unwrap();
    let said = import.run(None).unwrap_err().to_string();
    assert!(said.contains("more than 250 times as large once unpacked"), "{said}");
}

#[test]
fn standard_input_is_a_file_like_others_and_results_are_not_replaced() {
    let written = runs();
    let run = |arguments: &[&str], input: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_deadheat"))
            .current_dir(written.0.path())
            .arg("import")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let done = child.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let content = std::fs::read(file("irtt.json.gz")).unwrap();
    let (code, said) = run(&["-", "-o", "in.json"], &content);
    assert_eq!(code, Some(0), "{said}");
    let saved = derived::load(&written.path("in.json")).unwrap();
    let own = &saved.imported.as_ref().unwrap().files[0];
    assert_eq!((own.name.as_str(), own.format.as_str()), ("standard input", "irtt"));
    let direct = import(&["irtt.json.gz"]);
    assert_eq!(own.sha256, direct.imported.as_ref().unwrap().files[0].sha256);
    assert_eq!(saved.trials[0].record, direct.trials[0].record);
    let (code, said) = run(&["-", "-", "-o", "two.json"], &content);
    assert_eq!(code, Some(2), "{said}");
    // A measurement in an imported folder is not replaced, and an earlier result is.
    let (code, said) = run(&["tcp", "udp", "-o", "tcp/run9.json"], b"");
    assert!(code == Some(2) && said.contains("would be replaced"), "{said}");
    for _ in 0..2 {
        let (code, said) = run(&["tcp", "udp", "-o", "tcp/result.json"], b"");
        assert_eq!(code, Some(0), "{said}");
    }
    let saved = derived::load(&written.path("tcp/result.json")).unwrap();
    assert!(
        saved.warnings[0].message.contains("a result of deadheat already"),
        "{:?}",
        saved.warnings
    );
}

#[test]
fn text_of_other_systems_is_read() {
    let text = text_of("iperf3-tcp.json");
    let utf16: Vec<u8> =
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let written = Written::new(&[("powershell.json", &utf16)]);
    let outcome = Import::new([written.path("powershell.json")]).run(None).unwrap();
    assert_eq!(figure(&outcome, "goodput_bps"), 15_882_583_116.254_03);
    let outcome = Import::new([written.path("powershell.json"), file("iperf3-tcp.json")]);
    assert_eq!(outcome.run(None).unwrap().trials.len(), 1, "the same run in another encoding");
}
