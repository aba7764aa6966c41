//! The service file and the container file of `packaging/` start the program with options that it has, and
//! shut in what they say they do. What `make dist` packs is called what others fetch, and packed as they unpack it.
#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::Digest;

const PROGRAM: &str = env!("CARGO_BIN_EXE_deadheat");

/// What `systemd-analyze security` may come to; docs/serve.md names what it does come to.
const MOST_EXPOSED: f64 = 1.5;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap()
}

/// The values of an option in a unit.
fn values<'a>(unit: &'a str, option: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(name, _)| *name == option).map(|(_, value)| value).collect()
}

/// What is wrong with options of `deadheat serve`: it is run with them and with one more that it refuses, so
/// that it ends before it listens and names the first mistake.
fn serves_with(options: &[&str]) -> Result<(), String> {
    let last = ["--trials", "0"];
    let ran = Command::new(PROGRAM).args(options).args(last).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if said.contains("`--trials 0` would let nothing run") { Ok(()) } else { Err(said) }
}

#[test]
fn the_service_starts_the_program_with_options_that_it_has() {
    let unit = file("packaging/deadheat.service");
    let start = values(&unit, "ExecStart");
    let [start] = start[..] else { panic!("{start:?}") };
    let own = values(&unit, "Environment")[0].trim_matches('"').strip_prefix("OPTIONS=").unwrap();
    let options = start.strip_prefix("deadheat ").unwrap().replace("%d/", "/nowhere/");
    let options = options.replace("$OPTIONS", own);
    let options: Vec<&str> = options.split_whitespace().collect();
    assert_eq!(options[0], "serve");
    assert!(start.contains("--secret-file %d/secret"), "{start}");
    assert!(values(&unit, "LoadCredential")[0].starts_with("secret:"));
    serves_with(&options).unwrap();
    assert!(serves_with(&["serve", "--max-rat", "1gbit"]).is_err(), "this test can fail");
}

#[test]
fn the_container_starts_the_program_with_options_that_it_has() {
    let container = file("packaging/Containerfile");
    let last = container.rsplit("\nFROM ").next().unwrap();
    assert!(last.starts_with("scratch\n"), "nothing else is in it");
    let line = |word: &str| last.lines().find_map(|line| line.strip_prefix(word)).unwrap().trim();
    let words = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
    assert_eq!(words(line("ENTRYPOINT")), ["/deadheat"]);
    let options = words(line("CMD"));
    serves_with(&options.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(line("EXPOSE"), "5210/tcp 5210/udp");
    assert_ne!(line("USER").split(':').next(), Some("0"));
    for copied in container.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let names: Vec<&str> = copied.split_whitespace().collect();
        let from = &names[..names.len() - 1];
        for name in from.iter().filter(|_| !copied.starts_with("--from")) {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
            assert!(path.exists(), "COPY {name}: not in this repository");
        }
    }
}

/// The image that `make dist` writes without a daemon is the one of the container file.
#[test]
fn both_images_start_the_program_alike() {
    let (container, image) = (file("packaging/Containerfile"), file("scripts/dist/image.py"));
    let line = |word: &str| {
        let found = container.lines().filter_map(|line| line.strip_prefix(word)).next_back();
        found.unwrap().trim().to_owned()
    };
    let ports: Vec<String> =
        line("EXPOSE").split(' ').map(|port| format!("\"{port}\": {{}}")).collect();
    for entry in [
        format!("\"User\": \"{}\"", line("USER")),
        format!("\"Entrypoint\": {}", line("ENTRYPOINT")),
        format!("\"Cmd\": {}", line("CMD")),
        format!("\"StopSignal\": \"{}\"", line("STOPSIGNAL")),
        format!("\"ExposedPorts\": {{{}}}", ports.join(", ")),
    ] {
        assert!(image.contains(&entry), "scripts/dist/image.py lacks {entry}");
    }
}

/// `cargo binstall`, the formula, the release and the manual of installing name one file.
#[test]
fn a_release_is_fetched_by_the_name_that_it_is_packed_under() {
    let manifest: toml::Table = file("Cargo.toml").parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let version = env!("CARGO_PKG_VERSION");
    for target in ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"] {
        let filled = |key: &str| {
            let text = binstall[key].as_str().unwrap();
            [("name", "deadheat"), ("version", version), ("target", target), ("bin", "deadheat")]
                .iter()
                .fold(text.to_owned(), |text, (key, value)| {
                    text.replace(&format!("{{ {key} }}"), value)
                })
        };
        let folder = format!("deadheat-{version}-{target}");
        let at = format!("/releases/download/v{version}/{folder}.tar.gz");
        assert_eq!(filled("pkg-url"), format!("{{ repo }}{at}"));
        assert_eq!(filled("bin-dir"), format!("{folder}/deadheat"));
        let formula = file("packaging/homebrew/deadheat.rb.in").replace("@VERSION@", version);
        assert!(formula.contains(&at), "the formula lacks {at}");
        assert!(file("docs/install.md").contains(&at), "docs/install.md lacks {at}");
    }
    let tarball = file("scripts/dist/tarball.sh");
    assert!(tarball.contains("name=deadheat-$VERSION-$(target \"$arch\")"));
    assert!(
        file("scripts/dist/common.sh").contains("target() { echo \"$1-unknown-linux-musl\"; }")
    );
    let release = file(".github/workflows/release.yml");
    for target in ["make dist ARCHES=\"x86_64 aarch64\"\n", "make dist-test\n"] {
        assert!(release.contains(target), "the release does not run {target}");
    }
}

/// The first step of the action takes the program out of what `scripts/dist/tarball.sh` packs, and nothing else.
#[test]
fn the_action_unpacks_a_release() {
    let dir = tempfile::tempdir().unwrap();
    let packed = dir.path().join("deadheat-1-x86_64-unknown-linux-musl");
    std::fs::create_dir_all(packed.join("completions")).unwrap();
    let script = "#!/bin/sh\necho deadheat 1\n";
    for (name, text) in
        [("deadheat", script), ("deadheat.service", "[Unit]"), ("completions/deadheat.bash", "#")]
    {
        std::fs::write(packed.join(name), text).unwrap();
    }
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(packed.join("deadheat"), runs).unwrap();
    let archive = dir.path().join("deadheat.tar.gz");
    let ran = |command: &mut Command| command.output().unwrap();
    let made = ran(Command::new("tar")
        .arg("-czf")
        .arg(&archive)
        .arg("-C")
        .args([dir.path().as_os_str(), packed.file_name().unwrap()]));
    assert!(made.status.success(), "{made:?}");
    let digest = deadheat::units::hex::hex(&sha2::Sha256::digest(std::fs::read(&archive).unwrap()));
    let step = |digest: &str| {
        let url = format!("file://{}", archive.display());
        action_step(
            "program.sh",
            dir.path(),
            &[("DEADHEAT_URL", &url), ("DEADHEAT_DIGEST", digest)],
        )
    };
    let done = step(&digest);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "deadheat 1\n", "{done:?}");
    let bin: Vec<_> = std::fs::read_dir(dir.path().join("work/bin")).unwrap().collect();
    assert_eq!(bin.len(), 1, "{bin:?}");
    let refused = step(&"0".repeat(64));
    assert_eq!(refused.status.code(), Some(1), "another file than the one that was meant");
}

/// Runs a step of the action in a folder, with a folder `work` in it for its files.
fn action_step(script: &str, folder: &Path, inputs: &[(&str, &str)]) -> Output {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/action").join(script);
    let mut command = Command::new("bash");
    command.arg(script).current_dir(folder).env("DEADHEAT_WORK", folder.join("work"));
    command.envs(inputs.iter().copied()).output().unwrap()
}

#[test]
fn each_step_of_the_action_names_the_wrong_input_and_a_right_one() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("work/base");
    std::fs::create_dir_all(&base).unwrap();
    std::fs::write(base.join("pair.toml"), "server = 'build/server {port}'\n").unwrap();
    let git = Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status();
    let has_git = git.is_ok_and(|ended| ended.success());
    for (script, name, value, said) in [
        ("program.sh", "DEADHEAT_URL", "http://far.example/x", "neither https:// nor file://"),
        ("program.sh", "DEADHEAT_URL", "file:///x", "SHA256SUMS (input: digest)"),
        ("program.sh", "DEADHEAT_PROGRAM", "/no/deadheat", "there is no program /no/deadheat"),
        ("builds.sh", "DEADHEAT_BASE", "no-such", "`no-such` is no revision here"),
        ("builds.sh", "DEADHEAT_BASE", "0000000", "such as main (input: base)"),
        ("race.sh", "DEADHEAT_PAIR", "ci/pair.toml", "neither revision has a file `ci/pair.toml`"),
        ("race.sh", "DEADHEAT_PAIR", "pair.toml", "pair.toml has no {tree} in it"),
        ("race.sh", "DEADHEAT_MINUTES", "8.5", "`8.5` minutes; write a whole number"),
    ] {
        if script == "builds.sh" && !has_git {
            println!("skipped: no git here");
            continue;
        }
        let ended = action_step(script, dir.path(), &[(name, value)]);
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{script} {value}: {text}");
        assert!(text.contains(&format!("{script}: ")) && text.contains(said), "{value}: {text}");
    }
}

/// The module of the wheel runs the program and reads what it saves.
#[test]
fn python_runs_a_race_and_reads_it() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("packaging/python");
    let ran = Command::new("python3")
        .args(["-B", "check.py", "simulated"])
        .current_dir(folder)
        .env("DEADHEAT", PROGRAM)
        .output();
    let Ok(ran) = ran else {
        println!("skipped: no python3 here");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.starts_with("python: "), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

/// What the service may do is held against systemd's own list.
#[test]
fn the_service_is_shut_in_by_systemds_own_account() {
    let analyze = |args: &[&str]| Command::new("systemd-analyze").args(args).output();
    let Ok(version) = analyze(&["--version"]) else {
        println!("skipped: no systemd-analyze here");
        return;
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let number = version.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
    // --offline came with 250.
    if number.is_none_or(|number| number < 250) {
        println!("skipped: {version}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("deadheat.service");
    // It is verified that the program is there, which it need not be on this host.
    let text = file("packaging/deadheat.service")
        .replace("ExecStart=deadheat", &format!("ExecStart={PROGRAM}"));
    std::fs::write(&unit, text).unwrap();
    let unit = unit.to_str().unwrap();
    let verified = analyze(&["verify", unit]).unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    // It also reads the host's own units, which may be wrong.
    assert!(!said.contains("deadheat"), "{said}");

    let security = analyze(&["security", "--offline=true", "--no-pager", unit]).unwrap();
    let said = String::from_utf8_lossy(&security.stdout);
    let overall = said.lines().find(|line| line.contains("Overall exposure level"));
    let level =
        overall.and_then(|line| line.split(": ").nth(1)?.split(' ').next()?.parse::<f64>().ok());
    let level = level.unwrap_or_else(|| panic!("{said}"));
    assert!(level <= MOST_EXPOSED, "{said}");
    let measured = format!("{level:.1}");
    if number == Some(252) {
        assert!(
            file("docs/serve.md").contains(&format!("**{measured}**")),
            "docs/serve.md has another level"
        );
    }
}
