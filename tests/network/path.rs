//! `deadheat path run`: programs of other people on an emulated network see what was configured, get
//! their signals and give their status, and nothing of it stays behind.
//!
//! Needs the right to make network namespaces, itself or in a user namespace, and `ping`, `iperf3`,
//! `irtt`, `tcpdump`, `bash`; says so and passes where they are missing. No bound on time here can be
//! broken by a busy host: delays are bounded from below, rates from above, and losses are counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const DEADHEAT: &str = env!("CARGO_BIN_EXE_deadheat");
pub(crate) const FAR: &str = "198.18.0.2";
const FAR_V6: &str = "fd64:6864:6868::2";
const BACKENDS: &[&str] = &["tun", "packet"];

/// Whether this host lets a test build networks with this backend, and has the programs for it.
pub(crate) fn can(backend: &str, programs: &[&str]) -> bool {
    let allowed = |flags: &[&str]| {
        let done = Command::new("unshare").args(flags).arg("true").stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    if !allowed(&["-n"]) && !allowed(&["-Urn"]) {
        println!("skipped: no network namespaces here, nor user namespaces to make them in");
        return false;
    }
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    if let (Err(error), "tun") = (tun, backend) {
        println!("skipped: /dev/net/tun: {error}");
        return false;
    }
    let missing = programs.iter().find(|program| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|output| output.status.success())
    });
    if let Some(missing) = missing {
        println!("skipped: `{missing}` is not installed (make test installs it)");
    }
    missing.is_none()
}

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// `deadheat path run ARGS…`.
fn path_run(args: &[&str]) -> Command {
    let mut command = Command::new(DEADHEAT);
    command.args(["path", "run"]).args(args);
    let heed_interrupts = || {
        // SAFETY: signal(2) is async-signal-safe, and takes integers.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // Where a shell runs these tests in the background, they ignore Ctrl-C, and no shell that they start could catch it.
    // SAFETY: the closure only makes async-signal-safe calls.
    unsafe { command.pre_exec(heed_interrupts) };
    command
}

pub(crate) fn run(args: &[&str]) -> Output {
    path_run(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What went in and came out one way, by the path's own account of its only link.
#[derive(Debug, PartialEq)]
struct Account {
    packets_in: u64,
    packets_out: u64,
    lost: u64,
}

fn account(output: &Output, way: &str) -> Account {
    let text = stderr(output);
    let prefix = format!("deadheat: {way}:");
    let line = text.lines().find(|line| line.starts_with(&prefix));
    let line = line.unwrap_or_else(|| panic!("no account of the way {way} in {text}"));
    let before = |what: &str| {
        let words: Vec<&str> = line.split([' ', ',', ';']).filter(|w| !w.is_empty()).collect();
        let at = words.iter().position(|word| *word == what)?;
        words[..at].iter().rev().find_map(|word| word.parse().ok())
    };
    Account {
        packets_in: before("in").unwrap(),
        packets_out: before("out").unwrap(),
        lost: before("lost").unwrap_or(0),
    }
}

/// The first number after `key` in `text`.
fn number_after(text: &str, key: &str) -> f64 {
    let rest = text.split(key).nth(1).unwrap_or_else(|| panic!("no `{key}` in {text}"));
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

/// At its end ping waits for two round trips, so that a short path would leave a busy host no time for the last reply.
#[test]
fn ping_sees_the_delay_over_both_ip_versions_and_backends() {
    for backend in BACKENDS {
        if !can(backend, &["ping"]) {
            continue;
        }
        for (version, far) in [("-4", FAR), ("-6", FAR_V6)] {
            let path = format!("delay=200ms,backend={backend}");
            let output = run(&[&path, "--", "ping", version, "-n", "-c", "5", "-i", "0.05", far]);
            let said = stdout(&output);
            assert_eq!(output.status.code(), Some(0), "{said}{}", stderr(&output));
            let times: Vec<f64> = said
                .lines()
                .filter(|line| line.contains(" time="))
                .map(|line| number_after(line, " time="))
                .collect();
            assert_eq!(times.len(), 5, "{said}");
            assert!(times.iter().all(|ms| *ms >= 400.0), "{said}");
            // Nothing else is on the wire: no solicitations, no reports, no neighbours.
            let all = Account { packets_in: 5, packets_out: 5, lost: 0 };
            assert_eq!(account(&output, "up"), all, "{}", stderr(&output));
            assert_eq!(account(&output, "down"), all, "{}", stderr(&output));
        }
    }
}

#[test]
fn ping_and_the_path_count_the_same_losses() {
    if !can("packet", &["ping"]) {
        return;
    }
    let flood = ["ping", "-n", "-q", "-c", "200", "-i", "0.002", "-W", "10", FAR];
    let args = [&["delay=200ms,loss=10%,seed=7", "--"], &flood[..]].concat();
    let output = run(&args);
    let said = stdout(&output);
    let (up, down) = (account(&output, "up"), account(&output, "down"));
    assert_eq!(number_after(&said, "statistics ---\n") as u64, 200, "{said}");
    assert_eq!(number_after(&said, "packets transmitted, ") as u64, down.packets_out, "{said}");
    assert_eq!(up.packets_in, 200);
    // 1 in 10^9 of seeds loses none of 200.
    assert!(up.lost > 0 && down.lost > 0, "{up:?} {down:?}");
    assert_eq!(up.packets_in, up.packets_out + up.lost, "{up:?}");
    assert_eq!(down.packets_in, up.packets_out, "{up:?} {down:?}");
    assert_eq!(down.packets_in, down.packets_out + down.lost, "{down:?}");
    // The same seed, the same requests: the same fates.
    assert_eq!(account(&run(&args), "up"), up);
}

#[test]
fn iperf3_sees_no_more_than_the_rate() {
    for backend in BACKENDS {
        if !can(backend, &["iperf3"]) {
            continue;
        }
        let path = format!("delay=5ms,rate=20mbit,backend={backend}");
        let client = ["iperf3", "-J", "-t", "2", "-c", "$DEADHEAT_FAR"];
        let output = run(&[&[&path, "--far", "iperf3 -s", "--"], &client[..]].concat());
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{result:#}{}", stderr(&output));
        let received = &result["end"]["sum_received"];
        let (bits, seconds) =
            (received["bytes"].as_f64().unwrap() * 8.0, received["seconds"].as_f64().unwrap());
        assert!(bits / seconds <= 20e6, "{backend}: {received}");
        assert!(bits > 1e6, "{backend}: {received}");
        let rtt = result["end"]["streams"][0]["sender"]["min_rtt"].as_f64().unwrap();
        assert!(rtt >= 10_000.0, "{backend}: {rtt} us");
    }
}

#[test]
fn irtt_sees_the_delay() {
    if !can("packet", &["irtt"]) {
        return;
    }
    let client = ["irtt", "client", "-i", "10ms", "-d", "300ms", "-o", "-", "-Q", FAR];
    let output = run(&[&["delay=20ms", "--far", "irtt server", "--"], &client[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rtt = &result["stats"]["rtt"];
    // A client on a busy host leaves out those that it is late with.
    assert!((1..=30).contains(&rtt["n"].as_u64().unwrap()), "{rtt}");
    assert!(rtt["min"].as_u64().unwrap() >= 40_000_000, "{rtt}");
    // One clock, so each way is known by itself. Both programs read the time of day once, as they start, and count on by
    // a clock whose rate is disciplined (adjtimex(2)): one has run a second longer, and may be off by some microseconds.
    for way in ["send_delay", "receive_delay"] {
        let delay = &result["stats"][way];
        assert!(delay["min"].as_u64().unwrap() >= 19_900_000, "{way}: {delay}");
    }
}

/// Captures at both hosts: each packet is at the other one after the delay of its way, to the
/// microsecond that tcpdump prints.
#[test]
fn tcpdump_sees_the_delay_of_each_way() {
    for backend in BACKENDS {
        if !can(backend, &["tcpdump", "ping"]) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let capture = |name: &str| {
            let what = "-tt -n -i dh0 -c 10 --immediate-mode icmp";
            format!("tcpdump {what} > {} 2> {}", file(name), file(&format!("{name}-says")))
        };
        let (near, far) = (file("near-says"), file("far-says"));
        let wait = format!(
            "until grep -q listening {near} && grep -q listening {far}; do sleep 0.01; done"
        );
        let near = format!("{} & {wait}; ping -q -c 5 -i 0.02 {FAR}; wait", capture("near"));
        let far = capture("far");
        let path = format!("delay=15ms,backend={backend}");
        let output = run(&[&path, "--far", &far, "--", "sh", "-c", &near]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let stamps = |name: &str, kind: &str| -> Vec<f64> {
            let text = fs::read_to_string(file(name)).unwrap();
            let lines = text.lines().filter(|line| line.contains(kind));
            lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
        };
        for (from, to, kind) in [("near", "far", "echo request"), ("far", "near", "echo reply")] {
            let (sent, arrived) = (stamps(from, kind), stamps(to, kind));
            assert_eq!((sent.len(), arrived.len()), (5, 5), "{backend}: {kind}");
            for (sent, arrived) in sent.iter().zip(&arrived) {
                let took = arrived - sent;
                assert!(took >= 0.015 - 2e-6, "{backend}: {kind} took {took} s");
            }
        }
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    if !can("packet", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain").display().to_string();
    fs::write(&plain, "no program").unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["true"], 0, ""),
        (&["sh", "-c", "exit 7"], 7, ""),
        (&["sh", "-c", "kill -TERM $$"], 128 + libc::SIGTERM, ""),
        (&["sh", "-c", "kill -KILL $$"], 128 + libc::SIGKILL, ""),
        (&["no-such-command-anywhere"], 127, "cannot run `no-such-command-anywhere`: No such file"),
        (&[&plain], 126, "Permission denied"),
    ];
    for (command, code, says) in cases {
        let output = run(&[&["delay=1ms", "-q", "--"], command].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
        assert!(said.contains(says), "{command:?}: {said}");
        // Without -q it is the same, and the network is told of.
        assert!(!says.is_empty() || said.is_empty(), "{said}");
    }
}

/// Messages go nowhere where standard error takes nothing, and the command runs all the same.
#[test]
fn a_full_standard_error_ends_nothing() {
    if !can("packet", &[]) {
        return;
    }
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let cases: [(&[&str], i32); 4] = [
        (&["delay=1ms", "--", "sh", "-c", "exit 7"], 7),
        (&["delay=1ms", "--far", "exit 3", "--", "sh", "-c", "exit 7"], 3),
        (&["delay=1ms", "--", "no-such-command-anywhere"], 127),
        (&["dely=1ms", "--", "true"], 2),
    ];
    for (args, code) in cases {
        let status = path_run(args).stdout(Stdio::null()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

/// Returns the processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    list.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::yield_now();
    }
}

/// The kernel's log has no end, and to read it waits; a trace is a regular file.
#[test]
fn a_trace_that_waits_is_refused() {
    for trace in ["/proc/kmsg", "/proc/self/mounts", "/dev/zero", "/sys/kernel/uevent_seqnum"] {
        if !Path::new(trace).exists() {
            continue;
        }
        let output = run(&[&format!("trace={trace}"), "--", "true"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{trace}: {said}");
        assert!(said.contains("not a regular file"), "{trace}: {said}");
    }
}

/// While an emulator builds it reads no word of its parent, whose end has to end it all the same.
#[test]
fn an_emulator_that_still_builds_ends_with_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("long").display().to_string();
    // Ten million lines take a while.
    let line = "1\n".repeat(1 << 20);
    let mut file = fs::File::create(&trace).unwrap();
    (0..9).for_each(|_| file.write_all(line.as_bytes()).unwrap());
    let mut parent = path_run(&[&format!("trace={trace}"), "--", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = parent.id();
    until("an emulator", || !children(id).is_empty());
    let emulator = children(id)[0];
    let name = format!("/proc/{emulator}/comm");
    let reads = format!("/proc/{emulator}/fd");
    let is_reading = || {
        let open = fs::read_dir(&reads).into_iter().flatten().flatten();
        let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        open.any(|file| file == Path::new(&trace)) || !Path::new(&name).exists()
    };
    until("it reads", is_reading);
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("its end", || {
        fs::read_to_string(format!("/proc/{emulator}/stat")).is_ok_and(|stat| stat.contains(") Z "))
            || !Path::new(&name).exists()
    });
}

#[test]
fn the_far_command_is_waited_for_and_ended() {
    if !can("packet", &["iperf3"]) {
        return;
    }
    let far = |far: &str, more: &[&str], command: &[&str]| {
        run(&[&["delay=1ms", "--far", far], more, &["--"], command].concat())
    };
    // It cannot start, ends with an error, or does not listen where it should.
    let output = far("no-such-command-anywhere", &[], &["true"]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended with status 127 before it listened"));
    let output = far("exit 3", &[], &["true"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let output = far("true", &["--far-ready", "5201"], &["true"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    // It may prepare something and end well.
    assert_eq!(far("true", &[], &["sh", "-c", "exit 4"]).status.code(), Some(4));
    // It is told to end, and what it printed is on standard error.
    let trap = "trap 'echo told to end; exit' TERM; iperf3 -s >&2 & wait";
    let client = ["iperf3", "-J", "-n", "10K", "-c", FAR];
    let output = far(trap, &["--far-ready", "5201"], &client);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("told to end"), "{}", stderr(&output));
    assert!(!stdout(&output).contains("told to end"));
}

#[test]
fn a_live_path_says_each_second_what_it_does_beside_what_the_command_prints() {
    if !can("packet", &["ping"]) {
        return;
    }
    let ping = ["ping", "-q", "-c", "12", "-i", "0.1", "-s", "1000", FAR];
    let output = run(&[&["delay=5ms,rate=1mbit", "--live", "--"], &ping[..]].concat());
    let said = stderr(&output);
    // On a busy host a line may come later than after a second, and says so.
    let is_one = |line: &&str| line.starts_with("deadheat: ") && line.contains(" s  up ");
    let mut lines = said.lines().filter(is_one);
    let is_whole = |line: &str| line.contains(" kbit/s in, ") && line.contains(" | down ");
    assert!(lines.any(is_whole), "{said}");
    assert!(stdout(&output).contains("12 packets transmitted"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("kbit/s in"), "{}", stdout(&output));
}

#[test]
fn addresses_are_in_the_environment_and_put_in_place() {
    if !can("packet", &[]) {
        return;
    }
    let words = "$DEADHEAT_NEAR $DEADHEAT_FAR $DEADHEAT_NEAR6 $DEADHEAT_FAR6 $DEADHEAT_FAR_2 \
                 $DEADHEAT_FAR6_2";
    let want = "198.18.0.1 198.18.0.2 fd64:6864:6868::1 fd64:6864:6868::2 198.18.1.2 \
                fd64:6864:6868:1::2\n";
    let replaced = run(&["delay=1ms + delay=2ms", "-q", "--", "echo", words]);
    assert_eq!(stdout(&replaced), want, "{}", stderr(&replaced));
    let script = "printenv DEADHEAT_NEAR DEADHEAT_FAR DEADHEAT_NEAR6 DEADHEAT_FAR6 DEADHEAT_FAR_2 \
                  DEADHEAT_FAR6_2 | xargs";
    let set = run(&["delay=1ms + delay=2ms", "-q", "--", "sh", "-c", script]);
    assert_eq!(stdout(&set), want, "{}", stderr(&set));
    // What runs the commands is nothing that they are to know.
    let all = run(&["delay=1ms", "-q", "--", "env"]);
    assert!(!stdout(&all).contains("DEADHEAT_KEEPER"), "{}", stdout(&all));
}

#[test]
fn the_hosts_have_names_which_nobody_else_sees() {
    if !can("packet", &["getent"]) {
        return;
    }
    let ask = ["sh", "-c", "getent ahostsv4 near far; getent ahostsv6 far; getent hosts localhost"];
    let output =
        run(&[&["delay=1ms", "-q", "--far", "getent hosts far >&2", "--"], &ask[..]].concat());
    let said = stdout(&output);
    for (address, name) in
        [("198.18.0.1", "near"), (FAR, "far"), (FAR_V6, "far"), ("", "localhost")]
    {
        let found = said.lines().any(|line| line.starts_with(address) && line.ends_with(name));
        assert!(found, "{address} {name}: {said}{}", stderr(&output));
    }
    assert!(stderr(&output).contains("far"), "{}", stderr(&output));
    assert!(!fs::read_to_string("/etc/hosts").unwrap().contains("198.18.0.1 near"));
    assert!(!Path::new("/tmp/hosts").exists());
}

#[test]
fn each_link_carries_what_is_from_its_address() {
    if !can("packet", &["ping"]) {
        return;
    }
    for backend in BACKENDS.iter().filter(|backend| can(backend, &[])) {
        let path = format!("delay=100ms,backend={backend} + delay=150ms");
        for (from, least) in
            [("198.18.0.1", 200.0), ("198.18.1.1", 300.0), ("fd64:6864:6868:1::1", 300.0)]
        {
            // To the address of the first link in any case.
            let far = if from.contains(':') { FAR_V6 } else { FAR };
            let output =
                run(&[&path, "--", "ping", "-n", "-c", "3", "-i", "0.02", "-I", from, far]);
            assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
            let fastest = number_after(&stdout(&output), "rtt min/avg/max/mdev = ");
            assert!(fastest >= least, "{from}: {fastest} ms");
            let link = if least > 200.0 { "link 2" } else { "link 1" };
            for way in ["up", "down"] {
                let line = format!("deadheat: {way} on {link}: 3 packets in, 3 out");
                assert!(stderr(&output).contains(&line), "{}", stderr(&output));
            }
        }
    }
}

#[test]
fn an_ordinary_user_gets_a_network_too_and_may_nest_one() {
    if !is_root() {
        println!("skipped: only root can become somebody else (the other tests run as this user)");
        return;
    }
    if !can("packet", &["setpriv", "ping"]) {
        return;
    }
    let nobody = |args: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
            .args([DEADHEAT, "path", "run"])
            .args(args)
            .current_dir("/")
            .output()
            .unwrap()
    };
    if !nobody(&["delay=1ms", "--", "true"]).status.success() {
        let unshare =
            ["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urn", "true"];
        let allowed = Command::new("setpriv").args(unshare).status().unwrap().success();
        assert!(!allowed, "{}", stderr(&nobody(&["delay=1ms", "--", "true"])));
        println!("skipped: ordinary users may not make user namespaces here");
        return;
    }
    let ping = ["ping", "-n", "-c", "3", "-i", "0.02", FAR];
    let output = nobody(&[&["delay=10ms", "--"], &ping[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("in a user namespace"), "{}", stderr(&output));
    assert!(number_after(&stdout(&output), "rtt min/avg/max/mdev = ") >= 20.0);
    let inner = [DEADHEAT, "path", "run", "delay=15ms", "--"];
    let output = nobody(&[&["delay=10ms", "-q", "--"], &inner[..], &ping].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(number_after(&stdout(&output), "rtt min/avg/max/mdev = ") >= 30.0);
}

#[test]
fn what_is_forbidden_is_named_with_what_allows_it() {
    if !can("packet", &["setpriv"]) {
        return;
    }
    // A user namespace in which no further ones are allowed, and in it a user without capabilities.
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && \
         exec setpriv --bounding-set=-all --inh-caps=-all {DEADHEAT} path run delay=1ms -- true"
    );
    let output = Command::new("unshare").args(["-Ur", "sh", "-c", &script]).output().unwrap();
    let said = stderr(&output);
    if said.contains("cannot create") {
        println!("skipped: the limit of user namespaces cannot be set here: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("make a user namespace"), "{said}");
    assert!(said.contains("sysctl user.max_user_namespaces="), "{said}");
    for (path, says) in [
        ("dleay=1ms", "did you mean"),
        ("loopback", "there already"),
        ("sim:delay=1ms", "a simulated network has no hosts"),
    ] {
        let output = run(&[path, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

/// A terminal with the command on it, as a person has it.
struct OnTerminal {
    child: std::process::Child,
    screen: BufReader<fs::File>,
    keyboard: fs::File,
}

impl OnTerminal {
    fn start(args: &[&str]) -> OnTerminal {
        OnTerminal::of(path_run(args))
    }

    fn of(mut command: Command) -> OnTerminal {
        let mut name = [0; 64];
        // SAFETY: the calls take integers, and a buffer with its length. No other process gets the
        // descriptor, so the terminal hangs up when this one closes it.
        let ours = unsafe {
            let ours = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
            assert_eq!(libc::grantpt(ours) | libc::unlockpt(ours), 0);
            assert_eq!(libc::ptsname_r(ours, name.as_mut_ptr(), name.len()), 0);
            fs::File::from_raw_fd(ours)
        };
        // SAFETY: ptsname_r wrote a NUL-terminated string.
        let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) }.to_str().unwrap();
        let mut options = fs::OpenOptions::new();
        let theirs = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name);
        let theirs = theirs.unwrap();
        let end = || Stdio::from(theirs.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("PS1", "prompt$ ");
        let own_session = || {
            // SAFETY: the calls take integers; descriptor 0 is the terminal.
            let done = unsafe { libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0 };
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: the closure only makes async-signal-safe calls.
        unsafe { command.pre_exec(own_session) };
        let child = command.spawn().unwrap();
        OnTerminal { child, screen: BufReader::new(ours.try_clone().unwrap()), keyboard: ours }
    }

    /// Reads until a line contains this; what was read.
    fn until(&mut self, what: &str) -> String {
        let mut all = String::new();
        while !all.contains(what) {
            let mut byte = [0];
            match self.screen.read(&mut byte) {
                Ok(1) => all.push(byte[0] as char),
                other => panic!("{other:?} before `{what}`: {all}"),
            }
        }
        all
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn code(mut self) -> Option<i32> {
        // Until the terminal is hung up; output that nobody reads would keep the command waiting.
        let mut rest = Vec::new();
        let _ = self.screen.read_to_end(&mut rest);
        self.child.wait().unwrap().code()
    }
}

#[test]
fn control_c_goes_to_the_command() {
    if !can("packet", &[]) {
        return;
    }
    let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done";
    let mut terminal = OnTerminal::start(&["delay=1ms", "--", "sh", "-c", script]);
    terminal.until("ready");
    terminal.press("\x03");
    terminal.until("caught");
    // The account is given nonetheless.
    terminal.until("packets in");
    assert_eq!(terminal.code(), Some(5));
    // Without `exec`, a shell that is just about to start `sleep` may take the signal as that one's.
    let script = "echo ready; exec sleep 100";
    let mut terminal = OnTerminal::start(&["delay=1ms", "-q", "--", "sh", "-c", script]);
    terminal.until("ready");
    terminal.press("\x03");
    assert_eq!(terminal.code(), Some(128 + libc::SIGINT));
}

#[test]
fn an_interactive_shell_has_job_control() {
    if !can("packet", &["bash"]) {
        return;
    }
    let mut terminal =
        OnTerminal::start(&["delay=1ms", "-q", "--", "bash", "--norc", "--noprofile", "-i"]);
    let greeting = terminal.until("prompt$ ");
    assert!(!greeting.contains("job control"), "{greeting}");
    terminal.press("echo $((6 * 7)) $DEADHEAT_FAR\n");
    terminal.until("42 198.18.0.2");
    // Ctrl-Z and Ctrl-C are for the job, and the shell lives on.
    // The terminal shows what is typed, too; only what the job prints has no quotes in it.
    terminal.press("sh -c 'echo run\"\"ning; exec sleep 100'\n");
    terminal.until("running");
    terminal.press("\x1a");
    terminal.until("Stopped");
    // The first is a warning; the second leaves the job to whoever runs the shell.
    terminal.press("exit 9\n");
    terminal.until("There are stopped jobs");
    terminal.press("exit 9\n");
    assert_eq!(terminal.code(), Some(9));
    let traces = Traces::new("terminal");
    let mut command = path_run(&["delay=1ms", "-q", "--", "bash", "--norc", "--noprofile", "-i"]);
    traces.mark(&mut command);
    let mut terminal = OnTerminal::of(command);
    terminal.until("prompt$ ");
    let namespaces = traces.namespaces();
    assert!(namespaces.len() >= 2, "{namespaces:?}");
    // The window is closed.
    let OnTerminal { mut child, screen, keyboard } = terminal;
    drop((screen, keyboard));
    child.wait().unwrap();
    traces.assert_gone(&namespaces);
}

#[test]
fn signals_that_are_sent_reach_the_command() {
    if !can("packet", &[]) {
        return;
    }
    for (signal, name, code) in
        [(libc::SIGTERM, "TERM", 5), (libc::SIGINT, "INT", 5), (libc::SIGUSR1, "USR1", 5)]
    {
        let script = format!("trap 'exit 5' {name}; echo ready; while :; do sleep 0.01; done");
        let mut child = path_run(&["delay=1ms", "-q", "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // SAFETY: the call takes integers; the child has not been waited for.
        unsafe { libc::kill(child.id().cast_signed(), signal) };
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
    }
}

/// What belongs to one run, found by a word in the environment that processes inherit.
struct Traces {
    mark: String,
}

impl Traces {
    fn new(name: &str) -> Traces {
        Traces { mark: format!("DEADHEAT_TEST_MARK={}-{name}", std::process::id()) }
    }

    fn mark(&self, command: &mut Command) {
        let (name, value) = self.mark.split_once('=').unwrap();
        command.env(name, value);
    }

    fn processes(&self) -> Vec<u32> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word == self.mark.as_bytes())
        })
        .collect()
    }

    /// The network namespaces that its processes are in or hold.
    fn namespaces(&self) -> BTreeSet<String> {
        let of = |id: u32| {
            let fds = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
            let files = fds.map(|fd| fd.path()).chain([format!("/proc/{id}/ns/net").into()]);
            files.filter_map(|file| fs::read_link(file).ok()).collect::<Vec<_>>()
        };
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let all = self.processes().into_iter().flat_map(of).filter(|link| *link != own);
        all.map(|link| link.display().to_string()).filter(|link| link.starts_with("net:")).collect()
    }

    /// Waits until no process is left, and makes sure that nothing else is.
    fn assert_gone(&self, namespaces: &BTreeSet<String>) {
        let began = Instant::now();
        while !self.processes().is_empty() {
            let left = self.processes();
            assert!(began.elapsed() < Duration::from_secs(20), "still there: {left:?}");
            std::thread::sleep(Duration::from_millis(5)); // Between two looks.
        }
        // A namespace is held by processes, descriptors and mounts, and nothing else.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        for namespace in namespaces {
            assert!(!mounts.contains(namespace.as_str()), "{namespace} is mounted");
        }
        let devices = fs::read_dir("/sys/class/net").unwrap().flatten();
        for device in devices.map(|device| device.file_name().into_string().unwrap()) {
            let ours = ["dh", "near", "far"].iter().any(|name| {
                device.strip_prefix(name).is_some_and(|rest| rest.parse::<u32>().is_ok())
            });
            assert!(!ours, "the device {device} is left");
        }
    }
}

fn is_deadheat(id: &u32) -> bool {
    fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe == Path::new(DEADHEAT))
}

/// One in five of the runs is killed outright at some place of its chain of processes; none leaves a
/// process, a namespace, a device or a file. `DEADHEAT_ROUNDS` says how many runs.
#[test]
fn nothing_is_left_behind() {
    if !can("packet", &[]) {
        return;
    }
    let rounds = std::env::var("DEADHEAT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let dir = tempfile::tempdir().unwrap();
    let traces = Traces::new("left");
    let mut seen = BTreeSet::new();
    for round in 0..rounds {
        let backends: Vec<&&str> = BACKENDS.iter().filter(|backend| can(backend, &[])).collect();
        let path = format!("delay=1ms,backend={}", backends[round % backends.len()]);
        // Commands that leave children behind, which ignore what can be ignored.
        let stubborn = "trap '' TERM HUP INT; sleep 1000 & (sleep 1000 &) ; ";
        let near =
            format!("{stubborn} echo up; {}", if round % 5 == 4 { "sleep 1000" } else { "" });
        let far = format!("{stubborn} sleep 1000");
        // In the background, so that nobody waits for it to listen.
        let far = format!("({far}) & true");
        let mut command = path_run(&["-q", &path, "--far", &far, "--", "sh", "-c", &near]);
        traces.mark(&mut command);
        command.current_dir(dir.path()).env("TMPDIR", dir.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        if round % 5 == 4 {
            seen.extend(traces.namespaces());
            // Each process of the chain in turn: the first, the emulator, the keeper, the init.
            let chain: Vec<u32> = traces.processes().into_iter().filter(is_deadheat).collect();
            assert_eq!(chain.len(), 4, "{chain:?}");
            let victim = chain[round / 5 % chain.len()];
            // SAFETY: the call takes integers.
            unsafe { libc::kill(victim.cast_signed(), libc::SIGKILL) };
        }
        child.wait().unwrap();
        traces.assert_gone(&seen);
    }
    assert!(rounds < 5 || seen.len() >= 2, "{seen:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
}
