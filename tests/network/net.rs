//! Two hosts, each a network namespace, with a veth pair between them: races from one to the other
//! over IPv4 and IPv6, with the server as an ordinary user, and with a firewall in the way.
//!
//! Needs root, `ip`, `setpriv` and, for the firewall, `nft`; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything here takes; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Two namespaces and what runs in them; taken down on drop.
struct TwoHosts {
    near: String,
    far: String,
}

const NEAR_V4: &str = "198.18.0.1";
const FAR_V4: &str = "198.18.0.2";
const NEAR_V6: &str = "2001:db8::1";
const FAR_V6: &str = "2001:db8::2";

impl TwoHosts {
    fn new(name: &str) -> TwoHosts {
        let id = std::process::id();
        let hosts = TwoHosts { near: format!("dh{id}{name}n"), far: format!("dh{id}{name}f") };
        let (near, far) = (hosts.near.as_str(), hosts.far.as_str());
        for host in [near, far] {
            run("ip", &["netns", "add", host]);
            run("ip", &["-n", host, "link", "set", "lo", "up"]);
        }
        run(
            "ip",
            &["-n", near, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", far],
        );
        for (host, v4, v6) in [(near, NEAR_V4, NEAR_V6), (far, FAR_V4, FAR_V6)] {
            run("ip", &["-n", host, "addr", "add", &format!("{v4}/24"), "dev", "v0"]);
            // Without duplicate address detection the address can be used at once.
            run("ip", &["-n", host, "addr", "add", &format!("{v6}/64"), "dev", "v0", "nodad"]);
            run("ip", &["-n", host, "link", "set", "v0", "up"]);
        }
        hosts
    }

    /// `deadheat serve` on the far host, as nobody; answers once it listens.
    fn serve(&self) -> FarServer {
        self.serve_at("5210")
    }

    fn serve_at(&self, port: &str) -> FarServer {
        served(&self.far, port)
    }

    fn race(&self, args: &[&str], dir: &Path) -> Output {
        Command::new("ip")
            .args(["netns", "exec", &self.near, env!("CARGO_BIN_EXE_deadheat"), "race"])
            .args(["--idle", "host"])
            .args(args)
            .current_dir(dir)
            .output()
            .unwrap()
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", host]).status();
        }
    }
}

/// `deadheat serve` on the host `far`, as nobody; answers once it listens.
pub(crate) fn served(far: &str, port: &str) -> FarServer {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let there = [&["ip", "netns", "exec", far], &nobody[..]].concat();
    FarServer::start(&there, &["--max-rate", "200gbit", "--port", port], "")
}

/// `deadheat serve` on another host, with the lines of its log; ended when dropped.
pub(super) struct FarServer {
    pub(super) child: Child,
    pub(super) lines: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl FarServer {
    /// Starts `deadheat serve` by this command with these options, and waits until it listens. Its far ends have the clock
    /// `clock`, or the host's.
    pub(super) fn start(there: &[&str], options: &[&str], clock: &str) -> FarServer {
        let mut child = Command::new(there[0])
            .args(&there[1..])
            .args([env!("CARGO_BIN_EXE_deadheat"), "serve"])
            .args(options)
            .env("DEADHEAT_TEST_CLOCK", clock)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
        let (log, into) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                into.lock().unwrap().push((Instant::now(), line));
            }
        });
        let server = FarServer { child, lines };
        server.line(0, "listens at");
        server
    }

    /// Waits for the `nth` line with these words, from 0; returns its time and text.
    pub(super) fn line(&self, nth: usize, words: &str) -> (Instant, String) {
        let began = Instant::now();
        loop {
            let lines = self.lines.lock().unwrap();
            if let Some(line) = lines.iter().filter(|(_, line)| line.contains(words)).nth(nth) {
                return line.clone();
            }
            assert!(began.elapsed() < PATIENCE, "no `{words}` in {lines:#?}");
            drop(lines);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for FarServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Whether this host lets a test make namespaces and has the programs for it.
pub(crate) fn can(programs: &[&str]) -> bool {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: network namespaces need root");
        return false;
    }
    let missing = programs.iter().find(|program| {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_err()
    });
    if let Some(missing) = missing {
        println!("skipped: `{missing}` is not installed (make test installs it)");
    }
    missing.is_none()
}

pub(crate) fn outcome(file: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Trials of which there are figures. An attempt that a busy host kept from connecting is listed without any, and repeated.
pub(crate) fn ran(outcome: &serde_json::Value) -> Vec<&serde_json::Value> {
    let (ran, without): (Vec<&serde_json::Value>, Vec<_>) = outcome["trials"]
        .as_array()
        .unwrap()
        .iter()
        .partition(|trial| trial["implementation"] != "");
    assert!(!ran.is_empty());
    let is_fault =
        |trial: &&serde_json::Value| trial["why_invalid"].to_string().contains("panicked");
    assert_eq!(without.into_iter().find(is_fault), None);
    ran
}

pub(crate) fn check_schema(outcome: &serde_json::Value) {
    let schema = include_str!("../../docs/result.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(outcome).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn races_run_from_host_to_host_over_both_ip_versions() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = TwoHosts::new("r");
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    for (to, file) in [(FAR_V4, "v4.json"), (FAR_V6, "v6.json")] {
        let args = [
            "tcp",
            "udp",
            "icmp",
            "-w",
            "ping:count=100,interval=4ms",
            "--blocks",
            "2",
            "--margin",
            "50%",
        ];
        let output = hosts.race(&[&args[..], &["--to", to, "-o", file, "-q"]].concat(), dir.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        let outcome = outcome(&dir.path().join(file));
        check_schema(&outcome);
        assert_eq!(outcome["path"]["kind"], "remote");
        assert_eq!(outcome["contenders"].as_array().unwrap().len(), 3);
        for trial in ran(&outcome) {
            let ledger = trial["ledger"].as_object().unwrap();
            assert!(!ledger.is_empty(), "{trial}");
            for account in ledger.values() {
                assert_eq!(account["sent"], 100, "{account}");
                assert_eq!(account["delivered"], 100, "{account}");
            }
        }
        for contender in outcome["contenders"].as_array().unwrap() {
            assert_eq!(contender.get("blocked"), None, "{contender}");
        }
        // This server has no right to choose congestion control, and its host's default may be another.
        let far_cc = &outcome["contenders"][0]["far_effective"]["cc"];
        let is_named = outcome["warnings"].as_array().unwrap().iter().any(|warning| {
            warning["code"] == "not_as_asked"
                && warning["message"].as_str().unwrap().starts_with("at the far end tcp has cc=")
        });
        assert_eq!(is_named, *far_cc != "cubic", "{far_cc}");
    }
}

#[test]
fn bulk_crosses_in_both_directions_and_streams() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = TwoHosts::new("b");
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let workload = "bulk:bytes=4MB,direction=both,streams=2";
    let args = ["tcp", "udp", "-w", workload, "--blocks", "1", "--margin", "50%", "-q"];
    let output = hosts
        .race(&[&args[..], &["--blast", "--to", FAR_V6, "-o", "bulk.json"]].concat(), dir.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let outcome = outcome(&dir.path().join("bulk.json"));
    check_schema(&outcome);
    for trial in ran(&outcome) {
        for way in ["up", "down"] {
            let account = &trial["ledger"][way];
            let number = |key: &str| account[key].as_u64().unwrap();
            let dropped = account["dropped_at_receiver"].as_u64().unwrap_or(0);
            let sum = number("delivered") + number("lost_on_path") + dropped;
            assert_eq!(number("sent"), sum, "{account}");
            if account["unit"] == "bytes" {
                assert_eq!(number("delivered"), 4_000_000, "{account}");
            }
        }
    }
}

/// A load beside the work all along, and in a phase of it; several receivers of the same data, each a process.
#[test]
fn a_server_runs_the_whole_cast_of_a_trial() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = TwoHosts::new("c");
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let far_more = format!("{FAR_V4}:5211");
    let _more = hosts.serve_at("5211");
    let race = |contenders: &[&str], workload: &str, file: &str| {
        let args = ["-w", workload, "--blocks", "1", "--margin", "50%", "-q", "--to", FAR_V4];
        let more = ["--to", &far_more, "-o", file];
        let more = if file == "hosts.json" { &more[..] } else { &more[2..] };
        let output = hosts.race(&[contenders, &args, more].concat(), dir.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{workload}: {said}");
        let outcome = outcome(&dir.path().join(file));
        check_schema(&outcome);
        let trials: Vec<serde_json::Value> = ran(&outcome).into_iter().cloned().collect();
        for trial in &trials {
            // A host that tests keep busy sends late, takes all of a transfer in one call, or begins late to take it, which is no
            // fault of the servers'.
            let why = trial.get("why_invalid").and_then(|why| why.as_str());
            let busy = ["late", "came in one call", "held it up"];
            let is_busy = |why: &str| busy.iter().any(|one| why.contains(one));
            assert!(why.is_none_or(is_busy), "{workload}: {trial}");
        }
        trials
    };
    let ping = "ping:count=100,interval=4ms";
    let both = ["udp", "icmp"];
    // A load that a busy host holds up for the whole of a trial has no rate in that one.
    let has_load =
        |trial: &serde_json::Value| trial["metrics"]["load_goodput_bps"].as_f64() > Some(1e6);
    let beside = race(&both, &format!("{ping},load=tcp,load-lead=100ms"), "load.json");
    assert!(beside.iter().any(has_load), "{beside:#?}");
    for trial in beside {
        // The kernel's echo has one account for both directions.
        let accounts = ["up", "round_trip"].map(|way| trial["ledger"][way]["delivered"].as_u64());
        assert!(accounts.contains(&Some(100)), "{trial}");
    }
    let phases = "ping:interval=4ms,load=tcp,load-direction=down,load-from=200ms,load-for=200ms,load-lead=50ms";
    let phased = race(&["tcp"], phases, "phases.json");
    assert!(phased.iter().any(has_load), "{phased:#?}");
    // What goes through the relay arrives from its far end's host, at the one port.
    let relayed = ["udp", "udp:via=relay", "tcp:via=relay", "quic:via=relay"];
    for trial in race(&relayed, ping, "relay.json") {
        assert_eq!(trial["ledger"]["up"]["delivered"], 100, "{trial}");
    }
    for file in ["fanout.json", "hosts.json"] {
        for trial in race(&["tcp", "udp", "kcp"], "fanout:receivers=3,bytes=1MB", file) {
            let up = &trial["ledger"]["up"];
            let number = |key: &str| up[key].as_u64().unwrap_or(0);
            let lost = number("lost_on_path") + number("dropped_at_receiver");
            assert_eq!(number("sent"), number("delivered") + lost, "{trial}");
            // Datagrams that nobody slows down may find no room.
            assert!(number("delivered") > 0 && (lost == 0 || trial["contender"] == 1), "{trial}");
        }
    }
    let several = outcome(&dir.path().join("hosts.json"));
    assert_eq!(several["asked"]["to"], serde_json::json!([FAR_V4, far_more]));
    assert_eq!(several["path"]["address"], format!("{FAR_V4}:5210, {FAR_V4}:5211"));
}

#[test]
fn a_firewall_blocks_one_contender_and_not_the_race() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = TwoHosts::new("w");
    let rules = "add table ip filter; add chain ip filter in { type filter hook input priority 0; }; \
                 add rule ip filter in ip protocol { udp, icmp } drop";
    run("ip", &["netns", "exec", &hosts.far, "nft", rules]);
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "udp",
        "tcp",
        "icmp",
        "-w",
        "ping:count=100,interval=4ms",
        "--blocks",
        "2",
        "--margin",
        "50%",
        "-q",
    ];
    let output =
        hosts.race(&[&args[..], &["--to", FAR_V4, "-o", "wall.json"]].concat(), dir.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let outcome = outcome(&dir.path().join("wall.json"));
    check_schema(&outcome);
    let blocked: Vec<Option<&str>> =
        outcome["contenders"].as_array().unwrap().iter().map(|c| c["blocked"].as_str()).collect();
    assert!(blocked[0].is_some_and(|why| why.contains("hello")), "{blocked:?}");
    assert_eq!(blocked[1], None);
    assert!(blocked[2].is_some_and(|why| why.contains("echo")), "{blocked:?}");
    let trials = outcome["trials"].as_array().unwrap();
    assert!(trials.iter().any(|t| t["contender"] == 1 && t["ledger"]["up"]["delivered"] == 100));
}

/// The far namespace forwards the server's port to an address behind it, and answers echo requests itself: as a router
/// does.
#[test]
fn an_echo_in_front_of_a_port_forward_is_no_floor() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = TwoHosts::new("x");
    run("ip", &["-n", &hosts.far, "addr", "add", "10.9.9.9/32", "dev", "lo"]);
    let rules = "add table ip forward; \
                 add chain ip forward in { type nat hook prerouting priority dstnat; }; \
                 add rule ip forward in tcp dport 5210 dnat to 10.9.9.9; \
                 add rule ip forward in udp dport 5210 dnat to 10.9.9.9";
    let nft =
        Command::new("ip").args(["netns", "exec", &hosts.far, "nft", rules]).output().unwrap();
    if !nft.status.success() {
        println!("skipped: nft translates no addresses: {}", String::from_utf8_lossy(&nft.stderr));
        return;
    }
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["udp", "icmp", "-w", "ping:count=100,interval=4ms", "--blocks", "2", "--margin", "50%"];
    let more = ["-q", "--to", FAR_V4, "-o", "forward.json"];
    let output = hosts.race(&[&args[..], &more].concat(), dir.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let outcome = outcome(&dir.path().join("forward.json"));
    check_schema(&outcome);
    assert_eq!(outcome["peer_host"]["reached_at"], "10.9.9.9");
    let told = warning(&outcome, "floor_elsewhere");
    assert!(told.starts_with("icmp is no floor here: the race dials 198.18.0.2"), "{told}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!shown.contains("floor: no program") && !shown.contains("as the floor"), "{shown}");
}

/// The warning of that code about the only contender.
fn warning<'a>(outcome: &'a serde_json::Value, code: &str) -> &'a str {
    let warnings = outcome["warnings"].as_array().unwrap();
    let found = warnings.iter().find(|warning| warning["code"] == code);
    found.unwrap_or_else(|| panic!("no {code} among {warnings:#?}"))["message"].as_str().unwrap()
}

#[test]
fn lost_fragments_are_named_with_what_they_lost() {
    if !can(&["ip", "setpriv", "nft"]) {
        return;
    }
    let hosts = TwoHosts::new("g");
    // One fragment in a hundred is lost, and never two of one message, which has 23. The first of each
    // message gets through; room for the incomplete ones is ample.
    let rules = "add table ip thin; \
                 add chain ip thin in { type filter hook prerouting priority -450; }; \
                 add rule ip thin in ip frag-off & 0x1fff != 0 numgen inc mod 100 0 drop";
    run("ip", &["netns", "exec", &hosts.far, "nft", rules]);
    let ample = "echo 1000000000 > /proc/sys/net/ipv4/ipfrag_high_thresh";
    run("ip", &["netns", "exec", &hosts.far, "sh", "-c", ample]);
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let udp = "udp:io=send,rx=recv";
    let args = [udp, "--blast", "-w", "bulk:size=32KiB,bytes=20MB", "--blocks", "1", "-q"];
    let more = ["--margin", "50%", "--to", FAR_V4, "-o", "cut.json"];
    let output = hosts.race(&[&args[..], &more].concat(), dir.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let outcome = outcome(&dir.path().join("cut.json"));
    check_schema(&outcome);
    for trial in ran(&outcome) {
        let number = |pointer: &str| trial.pointer(pointer).and_then(|n| n.as_u64()).unwrap();
        let (sent, made) = (number("/ledger/up/sent"), number("/counters/fragments_created"));
        assert_eq!(made, 23 * sent, "{trial}");
        let missing = made - number("/far_counters/fragments_received");
        assert!(missing > sent / 5, "{trial}");
        // A busy host may lose more, in its queue of arrivals and in the socket; what is missing is
        // never put together, and what is whole always is.
        let whole = number("/far_counters/reassembled");
        assert!(whole + missing >= sent && whole <= sent - sent / 5, "{trial}");
        assert!(number("/ledger/up/lost_on_path") > 0, "{trial}");
        assert_eq!(number("/packets/path_mtu"), 1_500);
    }
    let told = warning(&outcome, "fragmented");
    assert!(told.contains("messages of 32768 B in 23 fragments each"), "{told}");
    assert!(told.contains("path MTU of 1500 B (at most 1472 B fit one packet)"), "{told}");
    assert!(told.contains("% for missing fragments (the receiving host put "), "{told}");
}

#[test]
fn messages_over_the_path_mtu_are_refused_where_fragments_are() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = TwoHosts::new("d");
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    for (knobs, to, want) in [
        ("df=on,io=send", FAR_V4, "and df=on allows no fragments: send at most 1472 B"),
        ("df=on,io=sendmmsg", FAR_V6, "and df=on allows no fragments: send at most 1452 B"),
        ("io=gso", FAR_V4, "udp:io=gso: a message of 2000 B exceeds the path MTU of 1500 B"),
    ] {
        let contender = format!("udp:{knobs}");
        let args = [
            contender.as_str(),
            "--blast",
            "-w",
            "bulk:size=2000,bytes=1MB",
            "--blocks",
            "1",
            "-q",
        ];
        let output = hosts.race(&[&args[..], &["--to", to]].concat(), dir.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(want), "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
    }
}

/// Both ends are in namespaces of one kernel, so each way is known by itself, and the time to think
/// that is put into the far end shows up in its application.
#[test]
fn a_race_to_another_host_is_explained_with_the_far_ends_notes() {
    if !can(&["ip", "setpriv"]) {
        return;
    }
    let hosts = TwoHosts::new("e");
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let explained = |think: &str| {
        let workload = format!("ping:count=60,think={think}");
        let args = ["tcp", "udp", "--to", FAR_V4, "-w", &workload, "--blocks", "1"];
        let args = [&args[..], &["--margin", "5%", "--explain", "-o", "e.json"]].concat();
        let output = hosts.race(&args, dir.path());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        let outcome = outcome(&dir.path().join("e.json"));
        check_schema(&outcome);
        outcome["explain"]["contenders"].as_array().unwrap().clone()
    };
    for contender in &explained("100us") {
        assert_eq!(contender["clocks"], "same");
        assert!(contender["round_trip"]["residual_ns"].as_f64().unwrap().abs() <= 1_000.0);
        let parts = contender["round_trip"]["parts"].as_array().unwrap();
        let thinking = parts.iter().find(|part| part["part"] == "far_application").unwrap();
        // The far end never answers before its time.
        assert!(thinking["low_ns"].as_f64().unwrap() >= 100_000.0, "{contender:#}");
    }
}

/// A link of 5 Mbit/s takes what is offered below that and no more above: the shape of a sweep, from
/// counts that hold however late the generator was.
#[test]
fn a_sweep_over_a_shaped_link_loses_what_the_link_does_not_take() {
    if !can(&["ip", "setpriv", "tc"]) {
        return;
    }
    let hosts = TwoHosts::new("s");
    let shape = ["rate", "5mbit", "burst", "10kb", "limit", "60kb"];
    let shaped = Command::new("tc")
        .args(["-n", &hosts.near, "qdisc", "add", "dev", "v0", "root", "tbf"])
        .args(shape)
        .output()
        .unwrap();
    if !shaped.status.success() {
        println!("skipped: no TBF here: {}", String::from_utf8_lossy(&shaped.stderr));
        return;
    }
    let _server = hosts.serve();
    let dir = tempfile::tempdir().unwrap();
    let args = ["udp:io=send", "-w", "cbr:rate=1mbit..50mbit/3,time=500ms", "--to", FAR_V4];
    let output = hosts.race(&[&args[..], &["--blocks", "1", "-o", "s.json"]].concat(), dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let outcome = outcome(&dir.path().join("s.json"));
    check_schema(&outcome);
    let factors = &outcome["factors"][0];
    assert_eq!(factors["name"], "rate");
    assert_eq!(factors["levels"], serde_json::json!(["1mbit", "7.07mbit", "50mbit"]));
    let mut seen = [0; 3];
    for trial in ran(&outcome) {
        let level =
            outcome["contenders"][trial["contender"].as_u64().unwrap() as usize]["cell"]["levels"]
                [0]
            .as_u64()
            .unwrap() as usize;
        let count = |field: &str| trial["ledger"]["up"][field].as_u64().unwrap();
        // What the link takes in the time of the whole trial, and what its queue holds.
        let took = trial["took_ns"].as_u64().unwrap();
        let link = (5_000_000 / 8 * took / 1_000_000_000 + 70_000) / 1_400;
        let (sent, delivered) = (count("sent"), count("delivered"));
        assert!(delivered <= link.min(sent), "{delivered} of {sent}: {trial:#}");
        assert_eq!(sent, delivered + count("lost_on_path") + count("dropped_at_receiver"));
        if level == 0 {
            assert_eq!(delivered, sent, "{trial:#}");
        }
        seen[level] += 1;
    }
    assert!(seen.iter().all(|trials| *trials > 0), "{seen:?}");
}
