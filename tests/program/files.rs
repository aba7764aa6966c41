//! Files sent and received, as a user sees it: what arrives is what was sent or is called partial,
//! nothing is overwritten unasked, and mistakes are named before anything runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// An odd number: three streams cannot carry equal parts of it.
const ODD: usize = 1_000_003;

/// A directory with a file `in`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(bytes: usize) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.path("in"), content(bytes)).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// One block, and one trial before it.
    fn race(&self, contenders: &[&str], workload: &str, more: &[&str]) -> Output {
        let args = ["-w", workload, "--blocks", "1", "--margin", "50%", "--seed", "1", "-q"];
        Command::new(env!("CARGO_BIN_EXE_deadheat"))
            .args(["race", "--idle", "host"])
            .args(contenders)
            .args(args)
            .args(["-o", "r.json"])
            .args(more)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }

    /// What became of the content in each trial of a race that ran.
    fn verified(&self, contenders: &[&str], workload: &str, more: &[&str]) -> Vec<Value> {
        let output = self.race(contenders, workload, more);
        let said = words(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{workload}: {said}");
        let trials = self.trials();
        assert!(trials.len() > contenders.len(), "the hidden copy ran, too");
        trials.into_iter().map(|trial| trial["verified"].clone()).collect()
    }

    fn trials(&self) -> Vec<Value> {
        let race: Value = serde_json::from_slice(&self.read("r.json")).unwrap();
        race["trials"].as_array().unwrap().clone()
    }
}

/// Bytes that repeat nowhere near.
fn content(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..bytes).map(next).collect()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_file_arrives_whole_in_both_directions_and_over_several_streams() {
    let folder = Folder::with(ODD);
    for direction in ["up", "down"] {
        let workload = format!("bulk:file=in,sink=out,streams=3,direction={direction}");
        let all = folder.verified(&["tcp", "unix", "unixgram"], &workload, &[]);
        for verified in &all {
            assert_eq!(verified["state"], "verified", "{verified}");
            assert_eq!(verified["bytes"], ODD, "{verified}");
            assert_eq!(verified["file"], "out", "{verified}");
            assert_eq!(verified["content"], all[0]["content"], "{verified}");
        }
        assert!(folder.read("out") == content(ODD), "the bytes are those that were sent");
        assert_eq!(folder.names(), ["in", "out", "r.json"]);
        fs::remove_file(folder.path("out")).unwrap();
    }
    let shown = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(["report", "r.json", "--format", "markdown"])
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    let shown = words(&shown.stdout);
    // A trial in which a busy host took all of a stream in one call is repeated, and counts here, too.
    let trials = folder.trials();
    let own = trials.iter().filter(|trial| trial["contender"] == 0 && trial["control"] != true);
    let verified = format!("tcp: verified in {} trial", own.count());
    assert!(shown.contains(&verified) && shown.contains("out: 1.00 MB, whole"), "{shown}");
}

#[test]
fn a_file_arrives_whole_over_protocols_in_user_space() {
    let folder = Folder::with(ODD);
    let contenders = ["arq", "quic", "kcp", "sctp-udp", "enet", "rbudp", "utp"];
    for verified in folder.verified(&contenders, "bulk:file=in,sink=out", &[]) {
        assert_eq!(verified["state"], "verified", "{verified}");
    }
    assert!(folder.read("out") == content(ODD), "the bytes are those that were sent");
}

#[test]
fn a_part_of_a_file_is_sent_where_bytes_says_so() {
    let folder = Folder::with(ODD);
    folder.verified(&["tcp"], "bulk:file=in,sink=out,bytes=300001", &[]);
    assert!(folder.read("out") == content(ODD)[..300_001]);
}

#[test]
fn datagrams_that_all_arrive_make_a_whole_file() {
    let folder = Folder::with(60_001);
    let contenders = ["udp:rcvbuf=4MiB", "udp:rcvbuf=4MiB,io=sendmmsg,rx=recvmmsg"];
    for verified in folder.verified(&contenders, "bulk:file=in,sink=out", &[]) {
        assert_eq!(verified["state"], "verified", "{verified}");
    }
    assert!(folder.read("out") == content(60_001));
}

#[test]
fn a_blast_that_loses_datagrams_leaves_a_partial_file_and_says_how_much_is_missing() {
    let folder = Folder::with(50_000_000);
    let lossy = "udp:rcvbuf=4096,io=sendmmsg,rx=recvmmsg";
    for verified in folder.verified(&[lossy], "bulk:file=in,sink=out", &[]) {
        assert_eq!(verified["state"], "partial", "{verified}");
        assert_eq!(verified["file"], "out.partial", "{verified}");
        let missing = verified["bytes_missing"].as_u64().unwrap();
        assert!((1..=50_000_000).contains(&missing), "{verified}");
    }
    assert!(!folder.path("out").exists());
    let (sent, arrived) = (folder.read("in"), folder.read("out.partial"));
    // A message that is not there is a hole of zeros; any other is in its place.
    let payload = 1400 - 12;
    let pairs = sent.chunks(payload).zip(arrived.chunks(payload));
    let whole = pairs.filter(|(sent, arrived)| {
        arrived.iter().any(|byte| *byte != 0) && {
            assert!(sent[..arrived.len()] == **arrived);
            true
        }
    });
    let there = whole.count() * payload;
    let last = folder.trials().pop().unwrap();
    let missing = last["verified"]["bytes_missing"].as_u64().unwrap() as usize;
    assert!(there.abs_diff(50_000_000 - missing) < payload, "{there} bytes and {missing} missing");
}

#[test]
fn made_up_content_is_checked_on_demand_and_in_a_sink_always() {
    let folder = Folder::with(1);
    let cases = [
        ("bulk:bytes=3000001,streams=3,verify=on", &["tcp", "unix"][..]),
        ("bulk:bytes=3000001,direction=both,verify=on", &["tcp", "unixgram"]),
        ("bulk:time=50ms,verify=on", &["tcp"]),
        ("bulk:bytes=60000,verify=on", &["udp:rcvbuf=4MiB"]),
        ("bulk:bytes=3000001,streams=2,sink=out", &["tcp", "unixgram"]),
        ("bulk:bytes=8MB,alloc=fresh,verify=on", &["tcp", "unix"]),
    ];
    for (workload, contenders) in cases {
        for verified in folder.verified(contenders, workload, &[]) {
            assert_eq!(verified["state"], "verified", "{workload}: {verified}");
        }
    }
}

#[test]
fn a_file_without_a_sink_is_checked_only_if_that_is_asked_for() {
    let folder = Folder::with(ODD);
    for verified in folder.verified(&["tcp"], "bulk:file=in", &[]) {
        assert_eq!(verified["state"], "not_verified", "{verified}");
    }
    for verified in folder.verified(&["tcp"], "bulk:file=in,verify=on,streams=3", &[]) {
        assert_eq!(verified["state"], "verified", "{verified}");
    }
    folder.verified(&["tcp"], "bulk:bytes=1MB", &[]);
    assert!(folder.trials().iter().all(|trial| trial.get("verified").is_none()));
}

#[test]
fn connecting_is_part_of_the_transfer_where_it_is_asked_for() {
    let folder = Folder::with(1);
    folder.verified(&["tcp"], "bulk:bytes=2MB,connect=timed", &[]);
    for trial in folder.trials() {
        let connect = trial["connect_ns"].as_f64().unwrap();
        let transfer = trial["metrics"]["transfer_ns"].as_f64().unwrap();
        assert!(transfer > connect && connect > 0.0, "{transfer} ns with {connect} ns to connect");
        let rate = 2e6 * 8e9 / transfer;
        let goodput = trial["metrics"]["goodput_bps"].as_f64().unwrap();
        assert!((goodput / rate - 1.0).abs() < 1e-9, "all bytes over all of the time");
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    let folder = Folder::with(ODD);
    let workload = "bulk:file=in,sink=out";
    for there in ["out", "out.partial"] {
        fs::write(folder.path(there), "precious").unwrap();
        let output = folder.race(&["tcp"], workload, &[]);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{there} is there already; --force")), "{said}");
        assert_eq!(folder.read(there), b"precious");
        assert_eq!(folder.names(), ["in", there]);
        folder.verified(&["tcp"], workload, &["--force"]);
        assert!(folder.read("out") == content(ODD));
        assert_eq!(folder.names(), ["in", "out", "r.json"]);
        ["out", "r.json"].iter().for_each(|name| fs::remove_file(folder.path(name)).unwrap());
    }
    folder.verified(&["tcp"], workload, &[]);
    let replay = |more: &[&str]| {
        let args = ["race", "--replay", "r.json", "-o", "again.json", "-q", "--allow", "files"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
        command.args(args).args(more).current_dir(folder.0.path()).output().unwrap()
    };
    assert_eq!(replay(&[]).status.code(), Some(2), "a file of an earlier race is a file");
    assert!(matches!(replay(&["--force"]).status.code(), Some(0 | 3)));
}

#[test]
fn mistakes_with_files_are_named_before_anything_runs() {
    let folder = Folder::with(5);
    fs::write(folder.path("empty"), "").unwrap();
    fs::create_dir(folder.path("dir")).unwrap();
    let cases: &[(&str, &str)] = &[
        ("bulk:file=missing", "missing: there is no such file"),
        ("bulk:file=dir", "it is a directory"),
        ("bulk:file=empty", "it is empty"),
        ("bulk:file=/dev/zero", "device"),
        ("bulk:sink=dir,bytes=1MB", "is a directory"),
        ("bulk:sink=no/out,bytes=1MB", "there is no directory no"),
        ("bulk:sink=out", "takes file, or bytes"),
        ("bulk:file=in,sink=in", "in is there already"),
        ("bulk:file=in,direction=both", "a file goes one way"),
        ("bulk:file=in,streams=6", "too few for 6 streams"),
        ("bulk:alloc=fresh", "takes bytes or file"),
        ("bulk:alloc=sometimes", "ready, fresh"),
    ];
    for (workload, wanted) in cases {
        let output = folder.race(&["tcp"], workload, &[]);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{workload}: {said}");
        assert!(said.contains(wanted), "{workload}: {said}");
    }
    let output = folder.race(&["udp"], "bulk:file=in,verify=on", &[]);
    assert!(words(&output.stderr).contains("give sink=PATH"), "{}", words(&output.stderr));
    assert_eq!(folder.names(), ["dir", "empty", "in"], "nothing was written");
}

/// A file system of its own, unmounted on drop.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(at: &Path) -> Option<SmallDisk<'_>> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_is_the_reason_given() {
    let folder = Folder::with(4_000_000);
    let small = folder.path("small");
    fs::create_dir(&small).unwrap();
    let Some(_disk) = SmallDisk::mount(&small) else {
        println!("skipped: mounting a small file system needs root");
        return;
    };
    for contender in ["tcp", "unixgram"] {
        let output = folder.race(&[contender], "bulk:file=in,sink=small/out", &["--force"]);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("small/out.partial: byte") && said.contains("free space"), "{said}");
        assert!(!small.join("out").exists());
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn files_go_to_a_server_and_come_from_it_without_it_touching_any() {
    let (folder, elsewhere) = (Folder::with(ODD), tempfile::tempdir().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(["serve", "--bind", "127.0.0.1:0", "--max-rate", "400gbit"])
        .current_dir(elsewhere.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let _server = Server(child);
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let to = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap();
    let to = to.trim_end_matches(',').to_owned();
    let told = std::thread::spawn(move || log.lines().map_while(Result::ok).collect::<Vec<_>>());

    for verified in folder.verified(&["tcp"], "bulk:file=in,verify=on,streams=2", &["--to", &to]) {
        assert_eq!(verified["state"], "verified", "{verified}");
    }
    let down = "bulk:sink=out,bytes=1000003,direction=down";
    for verified in folder.verified(&["tcp"], down, &["--to", &to]) {
        assert_eq!(verified["state"], "verified", "{verified}");
    }
    assert_eq!(folder.read("out").len(), ODD);
    for (workload, wanted) in [
        ("bulk:file=in,direction=down", "would be read on"),
        ("bulk:sink=new,bytes=1MB", "would be written on"),
    ] {
        let output = folder.race(&["tcp"], workload, &["--to", &to]);
        assert_eq!(output.status.code(), Some(2), "{}", words(&output.stderr));
        assert!(words(&output.stderr).contains(wanted), "{}", words(&output.stderr));
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    drop(_server);
    let told = told.join().unwrap();
    assert!(told.iter().any(|line| line.contains("done")), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("file=in") || line.contains("sink=out")));
}
