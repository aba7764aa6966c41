//! Files of strangers: what is written in one never acts unasked, costs no more than it is worth, and is not mistaken
//! for what it is not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
    command.args(args).current_dir(folder).env_remove("DEADHEAT_HISTORY");
    command
}

fn deadheat(folder: &Path, args: &[&str]) -> (Output, String) {
    let output = command(folder, args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// A race in virtual time, which takes no time to speak of.
const RACE: [&str; 10] = [
    "race",
    "sim-datagram",
    "kcp",
    "--path",
    "sim:delay=1ms",
    "-w",
    "ping:count=20",
    "--blocks",
    "2",
    "-q",
];

/// Saves a race as `r.json`, broken off, after `change`.
fn saved(folder: &Path, change: impl Fn(&mut Value)) {
    let (output, said) = deadheat(folder, &[&RACE[..], &["-o", "r.json"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let mut race: Value =
        serde_json::from_slice(&fs::read(folder.join("r.json")).unwrap()).unwrap();
    race["status"] = "interrupted".into();
    race["plan"]["blocks_max"] = 9.into();
    race["asked"]["path"] = "loopback".into();
    race["plan"]["placement"] = "host".into();
    race["asked"]["contenders"] = serde_json::json!(["tcp", "udp"]);
    for (at, name) in ["tcp", "udp"].iter().enumerate() {
        race["contenders"][at]["spec"] = (*name).into();
        race["contenders"][at]["label"] = (*name).into();
        race["contenders"][at]["transport"] = (*name).into();
    }
    change(&mut race);
    fs::write(folder.join("r.json"), race.to_string()).unwrap();
}

/// Change of a saved race by a stranger.
type Change<'a> = Box<dyn Fn(&mut Value) + 'a>;

#[test]
fn a_result_that_names_commands_and_files_runs_and_opens_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mark = path("mark");
    fs::write(path("private"), "private").unwrap();
    let touch = format!(
        "external:near=touch {mark} {{listen}} {{far}},far=touch {mark} {{listen}} {{target}},carries=tcp"
    );
    let changes: [(&str, Change, String); 4] = [
        (
            "asked.contenders",
            Box::new(|race| race["asked"]["contenders"][0] = touch.clone().into()),
            format!("`touch {mark} {{listen}} {{far}}`"),
        ),
        (
            "contenders.spec",
            Box::new(|race| race["contenders"][0]["spec"] = touch.clone().into()),
            format!("`touch {mark} {{listen}} {{target}}`"),
        ),
        (
            "asked.workload",
            Box::new(|race| {
                let copy = format!("bulk:file={},sink={mark}", path("private"));
                race["asked"]["workload"] = copy.into();
            }),
            format!("the file `{}`", path("private")),
        ),
        (
            "plan.workload",
            Box::new(|race| {
                race["plan"]["workload"] = format!("bulk:sink={mark},bytes=1kB").into()
            }),
            format!("the file `{mark}`"),
        ),
    ];
    for (field, change, shown) in changes {
        saved(folder.path(), change);
        for option in ["--replay", "--resume"] {
            let (output, said) = deadheat(folder.path(), &["race", option, "r.json", "-q"]);
            assert_eq!(output.status.code(), Some(2), "{field} {option}: {said}");
            assert!(said.contains("r.json names ") && said.contains(&shown), "{field}: {said}");
            assert!(said.contains("add --allow "), "{field} {option}: {said}");
            assert!(!Path::new(&mark).exists(), "{field} {option}");
        }
    }
    let (output, said) = deadheat(folder.path(), &["race", "tcp", "--allow", "files"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("--allow is for what a file names"), "{said}");
    let (_, said) = deadheat(folder.path(), &["race", "--replay", "r.json", "--allow", "file"]);
    assert!(said.contains("did you mean `files`?"), "{said}");
}

#[test]
fn neither_do_studies_and_applications() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark").display().to_string();
    let touch = format!(
        "external:near=touch {mark} {{listen}} {{far}},far=touch {mark} {{listen}} {{target}},carries=tcp"
    );
    let study = |contender: &str, workload: &str, path: &str| {
        let text = format!(
            "title = \"A study\"\nquestion = \"Which?\"\n[[race]]\nid = \"one\"\nvariant = \"done_right\"\n\
             about = \"Two.\"\ncontenders = [\"tcp\", '''{contender}''']\nworkload = \"{workload}\"\n\
             path = \"{path}\"\nblocks = 1\n"
        );
        fs::write(folder.path().join("s.toml"), text).unwrap();
    };
    let app = |contender: &str, path: &str| {
        let text = format!(
            "format = 1\ntitle = \"An application\"\ncontenders = [\"tcp\", '''{contender}''']\n[path]\n\
             default = \"{path}\"\n[[traffic]]\nname = \"world\"\nkind = \"state\"\nper-second = 30\n"
        );
        fs::write(folder.path().join("a.toml"), text).unwrap();
    };
    let refused = |args: &[&str], shown: &str| {
        let (output, said) = deadheat(folder.path(), args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {said}");
        assert!(said.contains(shown) && said.contains("add --allow "), "{args:?}: {said}");
        assert!(!Path::new(&mark).exists(), "{args:?}");
    };
    let run = ["study", "run", "s.toml", "-q"];
    study(&touch, "ping:count=20", "loopback");
    refused(&run, "`touch ");
    refused(&["study", "show", "s.toml"], "`touch ");
    study("udp", &format!("bulk:sink={mark},bytes=1kB"), "loopback");
    refused(&run, &format!("the file `{mark}`"));
    // A pipe that nothing writes to would hold a program that opens it.
    study("udp", "ping:count=20", "trace=/dev/stdin");
    refused(&run, "the file `/dev/stdin`");
    app(&touch, "loopback");
    refused(&["advise", "a.toml", "-q"], "`touch ");
    app("udp", "trace=/etc/passwd");
    refused(&["advise", "a.toml", "-q"], "the file `/etc/passwd`");
    let left: BTreeSet<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["a.toml", "s.toml"].map(str::to_owned).into());
}

#[test]
fn races_of_one_second_are_saved_to_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut race = command(folder.path(), &RACE);
        race.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let races: Vec<Child> = (0..6).map(|_| start()).collect();
    let mut named = BTreeSet::new();
    for race in races {
        let said = race.wait_with_output().unwrap().stderr;
        let said = String::from_utf8_lossy(&said).into_owned();
        let file = said.lines().find_map(|line| line.strip_prefix("saved: ")).unwrap().to_owned();
        assert!(named.insert(file.clone()), "{file} twice");
        let race: Value =
            serde_json::from_slice(&fs::read(folder.path().join(file)).unwrap()).unwrap();
        assert_eq!(race["contenders"].as_array().unwrap().len(), 2);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6, "{named:?}");
}

#[test]
fn a_small_compressed_file_costs_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    saved(folder.path(), |_| {});
    let result = fs::read(folder.path().join("r.json")).unwrap();
    // Blanks behind a result are part of its JSON.
    let file = fs::File::create(folder.path().join("blank.json.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(&result).unwrap();
    let blanks = vec![b' '; 1 << 20];
    (0..256).for_each(|_| packed.write_all(&blanks).unwrap());
    packed.finish().unwrap().sync_all().unwrap();
    let limited =
        format!("ulimit -v 600000; exec {} report blank.json.gz", env!("CARGO_BIN_EXE_deadheat"));
    let output =
        Command::new("bash").args(["-c", &limited]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("more than 64 times as large once unpacked"), "{said}");
}
