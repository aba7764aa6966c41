//! Stock clients of other programs against `deadheat serve`: Debian's iperf3 and irtt, and far ends of our own. Everything is on
//! loopback: what the clients say is the point here, and the paths of other tests have the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::net::ran;
use crate::path::{DEADHEAT, can};
use crate::runs_all;

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Running `deadheat serve` with responders.
pub(crate) struct Serving {
    child: Child,
    lines: Receiver<String>,
    /// Lines about its responders.
    pub(crate) answered: Vec<String>,
}

impl Serving {
    pub(crate) fn start(args: &[&str]) -> Serving {
        let mut child = Command::new(DEADHEAT)
            .args(["serve", "--bind", "127.0.0.1:0"])
            .args(args)
            .env_remove("DEADHEAT_IRTT_HMAC")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            log.lines().map_while(Result::ok).try_for_each(|line| to.send(line))
        });
        let mut serving = Serving { child, lines, answered: Vec::new() };
        loop {
            let line = serving.lines.recv_timeout(PATIENCE).unwrap();
            if line.contains("are answered at") {
                serving.answered.push(line);
            } else if line.contains("each trial may last") {
                return serving;
            }
        }
    }

    /// Returns the port at which the clients of this kind are answered.
    pub(crate) fn port(&self, clients: &str) -> String {
        let line = self.answered.iter().find(|line| line.contains(clients)).unwrap();
        let (_, at) = line.split_once("127.0.0.1:").unwrap();
        at.chars().take_while(char::is_ascii_digit).collect()
    }

    pub(crate) fn line_with(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no line with `{words}`"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Ends it; returns its summary.
    pub(crate) fn end(mut self) -> String {
        self.interrupt();
        let summary = self.line_with("stopped;");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        summary
    }

    fn interrupt(&self) {
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs iperf3's client; returns what it prints as JSON.
fn iperf3(port: &str, args: &[&str]) -> Value {
    let output = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", port, "-J"])
        .args(args)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{args:?}: {e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Holds a cell of the matrix to what a client shows against iperf3's own server.
fn check_cell(port: &str, args: &[&str], streams: usize) {
    let shown = iperf3(port, args);
    assert!(shown.get("error").is_none(), "{args:?}: {}", shown["error"]);
    let end = &shown["end"];
    let rows = end["streams"].as_array().unwrap();
    assert_eq!(rows.len(), streams, "{args:?}: {end}");
    let bytes = |of: &Value| of["bytes"].as_u64().unwrap();
    if args.contains(&"-u") {
        for row in rows.iter().map(|row| &row["udp"]) {
            let (packets, lost) =
                (row["packets"].as_i64().unwrap(), row["lost_packets"].as_i64().unwrap());
            assert!(bytes(row) > 0 && packets > 0 && lost <= packets, "{args:?}: {row}");
        }
    } else {
        for row in rows {
            let (sent, received) = (bytes(&row["sender"]), bytes(&row["receiver"]));
            // What is left out at the beginning, each end leaves out by its own clock.
            let is_whole = !args.contains(&"-O");
            assert!(received > 0 && (received <= sent || !is_whole), "{args:?}: {row}");
        }
        // Both ends account for their CPU time.
        let both = &end["cpu_utilization_percent"];
        assert!(both["remote_total"].as_f64().unwrap() > 0.0, "{args:?}: {both}");
    }
    if args.contains(&"--get-server-output") {
        let words = shown["server_output_text"].as_str().unwrap();
        assert!(words.contains("Accepted connection"), "{args:?}: {words}");
    }
}

/// The whole matrix takes half a minute: `make soak`.
#[test]
fn iperf3s_client_measures_in_each_direction_over_both_protocols() {
    if !can("loopback", &["iperf3"]) {
        return;
    }
    let serving = Serving::start(&["--iperf3=0"]);
    let port = serving.port("iperf3 clients");
    if !runs_all() {
        check_cell(&port, &["-n", "1M", "--get-server-output"], 1);
        // By time: a few bytes may be over before each stream has had some.
        check_cell(&port, &["-t", "1", "-P", "4", "-R"], 4);
        check_cell(&port, &["-u", "-b", "8M", "-n", "100K"], 1);
        check_cell(&port, &["-u", "-b", "8M", "-t", "1", "-P", "2", "--bidir"], 4);
    } else {
        for over in [&[][..], &["-u", "-b", "8M"]] {
            for (way, each) in [(&[][..], 1), (&["-R"], 1), (&["--bidir"], 2)] {
                for streams in [1, 4] {
                    for extra in [&["-t", "1"][..], &["-t", "2", "-O", "1", "--get-server-output"]]
                    {
                        let number = streams.to_string();
                        let args = [over, way, &["-P", &number], extra].concat();
                        check_cell(&port, &args, streams * each);
                    }
                }
            }
        }
    }
    let refused = iperf3(&port, &["-t", "3600"]);
    let why = refused["error"].as_str().unwrap();
    assert!(why.contains("duration"), "{why}");
    serving.line_with("done in");
    let summary = serving.end();
    assert!(
        summary.contains("iperf3 clients") && summary.contains("trials of 1 clients"),
        "{summary}"
    );
}

#[test]
fn irtts_client_measures_with_and_without_a_key_and_is_told_the_limits() {
    if !can("loopback", &["irtt"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("key"), "sesame\n").unwrap();
    let key_file = dir.path().join("key");
    let with_key = ["--irtt=0", "--irtt-key-file", key_file.to_str().unwrap()];
    for (args, hmac) in [(&["--irtt=0"][..], &[][..]), (&with_key, &["--hmac=sesame"])] {
        let serving = Serving::start(args);
        let at = format!("127.0.0.1:{}", serving.port("irtt clients"));
        let work = ["-d", "300ms", "-i", "20ms", "-l", "200", "-o", "irtt.json"];
        let client = |args: &[&str]| {
            let mut command = Command::new("irtt");
            let command = command.arg("client").args(args).args(hmac).arg(&at);
            command.current_dir(dir.path()).output().unwrap()
        };
        let output = client(&work);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let saved = fs::read(dir.path().join("irtt.json")).unwrap();
        let saved: Value = serde_json::from_slice(&saved).unwrap();
        let stats = &saved["stats"];
        // A client on a busy host leaves out those that it is late with.
        let count = |name: &str| stats[name].as_u64().unwrap();
        assert!((1..=15).contains(&count("packets_sent")), "{stats}");
        // At its end it waits for three round trips alone, less than a millisecond here: the last replies of a busy host
        // are too late for it. All before them are there.
        let trips = saved["round_trips"].as_array().unwrap();
        let answered = trips.iter().take_while(|trip| trip["lost"] == "false").count() as u64;
        assert!(answered > 0, "{stats}");
        assert_eq!(count("packets_received"), answered, "{stats}");
        assert_eq!(count("server_packets_received"), answered, "{stats}");
        assert!(stats["server_processing_time"]["n"].as_u64() > Some(0), "{stats}");
        // Faster than the server allows.
        let refused = client(&["-d", "300ms", "-i", "1ms"]);
        let said = String::from_utf8_lossy(&refused.stdout).into_owned()
            + &String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("server increased interval from 1ms to 10ms"), "{said}");
        let summary = serving.end();
        assert!(summary.contains("2 irtt clients"), "{summary}");
    }
}

/// Runs a race of one block to a far end; returns the saved race.
fn race(args: &[&str], env: &[(&str, &str)], dir: &Path) -> Value {
    let output = Command::new(DEADHEAT)
        .arg("race")
        .args(args)
        .args(["--blocks", "1", "--idle", "host", "-q", "-o", "race.json"])
        .envs(env.iter().copied())
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{args:?}: {said}");
    serde_json::from_slice(&fs::read(dir.join("race.json")).unwrap()).unwrap()
}

#[test]
fn far_ends_of_ours_race_against_responders_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let serving = Serving::start(&["--stamp=0", "--echo=0", "--irtt=0"]);
    for (scheme, clients, contenders) in [
        ("stamp", "STAMP senders", &["udp"][..]),
        ("echo", "echo clients", &["tcp", "udp"]),
        ("irtt", "irtt clients", &["udp"]),
    ] {
        let to = format!("{scheme}://127.0.0.1:{}", serving.port(clients));
        let work = ["-w", "ping:count=20,warmup=0,interval=10ms", "--to", &to];
        let saved = race(&[contenders, &work].concat(), &[], dir.path());
        for trial in ran(&saved) {
            // A far end that counts splits the round trip into its ways.
            let ways = trial["ledger"].as_object().unwrap();
            assert!(["round_trip", "up"].iter().any(|way| ways.contains_key(*way)), "{trial}");
            for way in ways.values() {
                let of = |what: &str| way[what].as_u64().unwrap_or(0);
                let lost = of("lost_on_path") + of("dropped_at_receiver");
                assert_eq!(of("sent"), of("delivered") + lost, "{trial}");
                // The irtt responder answers five at once, and then one in 10 ms: not all, where a late client catches up.
                let least = if scheme == "irtt" { 5 } else { 20 };
                assert!(of("delivered") >= least, "{trial}");
            }
        }
    }
    let summary = serving.end();
    assert!(summary.contains("echo clients") && summary.contains("STAMP senders"), "{summary}");
}
