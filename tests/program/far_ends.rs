//! Races to far ends of others that are threads of the test: an echo port, a reflector of STAMP, and servers of iperf3 that
//! fail. tests/network/others.rs has real ones, across a path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Runs a race of one block; returns its result if it was saved, its exit code, and what it said.
fn race(args: &[&str], dir: &Path) -> (Option<Value>, Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .arg("race")
        .args(args)
        .args(["--blocks", "1", "--idle", "host", "-q", "-o", "race.json"])
        .current_dir(dir)
        .env_remove("DEADHEAT_HISTORY")
        .output()
        .unwrap();
    let saved = fs::read(dir.join("race.json")).ok();
    let outcome = saved.map(|bytes| serde_json::from_slice(&bytes).unwrap());
    (outcome, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sends each datagram back as `reflect` makes it, if it makes any; the thread ends with the test's process.
fn reflector(mut reflect: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut bytes) {
            let answer = reflect(&bytes[..len]);
            if !answer.is_empty() {
                let _ = socket.send_to(&answer, peer);
            }
        }
    });
    at
}

#[test]
fn an_echo_port_is_raced_with_what_its_kernel_answers() {
    let dir = tempfile::tempdir().unwrap();
    let to = format!("echo://{}", reflector(<[u8]>::to_vec));
    let (outcome, _, said) =
        race(&["udp", "icmp", "-w", "ping:count=30,warmup=0,timeout=9s", "--to", &to], dir.path());
    let outcome = outcome.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(outcome["verdicts"].as_array().unwrap().len(), 1, "{said}");
    for trial in outcome["trials"].as_array().unwrap() {
        assert_eq!(trial["ledger"]["round_trip"]["delivered"], 30, "{trial}");
        assert!(trial["ledger"].get("up").is_none_or(Value::is_null), "{trial}");
    }
}

/// Time of day as NTP has it (RFC 5905).
fn ntp_now() -> [u8; 8] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    ((now.as_secs() + 2_208_988_800) << 32 | fraction).to_be_bytes()
}

/// Answer of a reflector of STAMP with this number and this error of its clock, which need not return the payload.
fn stamp_reply(packet: &[u8], number: u32, error: [u8; 2]) -> Vec<u8> {
    let mut reply = vec![0; packet.len()];
    reply[..4].copy_from_slice(&number.to_be_bytes());
    reply[4..12].copy_from_slice(&ntp_now());
    reply[12..16].copy_from_slice(&[error[0], error[1], packet[14], packet[15]]);
    reply[16..24].copy_from_slice(&ntp_now());
    reply[24..28].copy_from_slice(&packet[..4]);
    reply
}

/// Trials of 30 messages, of which an answer may take this long: a busy host is no loss.
fn pinged(at: &str, timeout: &str, dir: &Path) -> Vec<Value> {
    let to = format!("stamp://{at}");
    let work = format!("ping:count=30,warmup=5,timeout={timeout}");
    let (outcome, _, said) = race(&["udp", "-w", &work, "--to", &to], dir);
    let outcome = outcome.unwrap_or_else(|| panic!("{said}"));
    outcome["trials"].as_array().unwrap().clone()
}

#[test]
fn a_stamp_reflector_with_state_and_a_synchronised_clock_tells_the_ways_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut counts = BTreeMap::new();
    let at = reflector(move |packet| {
        let session = [packet[14], packet[15]];
        // One message of each session does not arrive, and the answer to another one does not leave.
        let sent = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
        let count = counts.entry(session).or_insert(0);
        *count += u32::from(sent != 30);
        if [30, 35].contains(&sent) {
            return Vec::new();
        }
        stamp_reply(packet, *count - 1, [0x80, 1])
    });
    for trial in pinged(&at, "1s", dir.path()) {
        let (up, down) = (&trial["ledger"]["up"], &trial["ledger"]["down"]);
        assert_eq!(
            (up["sent"].as_u64(), up["delivered"].as_u64()),
            (Some(30), Some(29)),
            "{trial}"
        );
        assert_eq!((down["sent"].as_u64(), down["delivered"].as_u64()), (Some(29), Some(28)));
        assert!(up.get("reordered").is_none() && down.get("corrupted").is_none(), "{trial}");
        assert!(trial["clock"]["n"].as_u64().unwrap() > 0, "{trial}");
        let of = |name: &str| trial["metrics"][name].as_f64();
        let both = of("one_way_up_p50_ns").unwrap() + of("one_way_down_p50_ns").unwrap();
        let bound = trial["clock"]["error_bound_ns"].as_f64().unwrap();
        // Medians do not add up; without the far end they are close, and the clocks cancel unless one is cut at 0.
        assert!(both <= 2.0 * (of("path_rtt_p50_ns").unwrap() + bound), "{trial}");
    }
}

#[test]
fn a_stamp_reflector_without_state_and_clock_has_round_trips_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = reflector(|packet| {
        let number = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
        stamp_reply(packet, number, [0, 1])
    });
    for trial in pinged(&at, "9s", dir.path()) {
        let both = &trial["ledger"]["round_trip"];
        assert_eq!(both["delivered"], 30, "{trial}");
        assert!(both.get("corrupted").is_none(), "nobody compared it: {trial}");
        let metrics = trial["metrics"].as_object().unwrap();
        let names = ["path_rtt_p50_ns", "one_way_up_p50_ns", "one_way_down_p50_ns"];
        assert_eq!(names.map(|name| metrics.contains_key(name)), [true, false, false], "{trial}");
        assert!(trial.get("clock").is_none(), "{trial}");
    }
}

/// A server that closes in the middle is named with its state, and the race does not wait for ever.
#[test]
fn a_server_of_iperf3_that_closes_is_named_with_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("iperf3://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let mut cookie = [0; 37];
            let _ = stream.read_exact(&mut cookie);
            let _ = stream.write_all(&[9]);
            let mut len = [0; 4];
            let _ = stream.read_exact(&mut len);
            let _ = stream.read_exact(&mut vec![0; u32::from_be_bytes(len) as usize]);
        }
    });
    let (_, code, said) = race(&["tcp", "-w", "bulk:bytes=1MB", "--to", &to], dir.path());
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("before CREATE_STREAMS: it closed the control connection"), "{said}");
}

/// Number that a server says in place of the bytes that arrived.
type Lie = fn(u64) -> u64;

/// Serves tests of iperf3 as a server would, but says in its results that `lie` of the bytes that arrived did.
fn serve_lying(listener: &TcpListener, lie: Lie) -> std::io::Result<()> {
    let (mut control, _) = listener.accept()?;
    control.read_exact(&mut [0; 37])?;
    control.write_all(&[9])?;
    let mut len = [0; 4];
    control.read_exact(&mut len)?;
    control.read_exact(&mut vec![0; u32::from_be_bytes(len) as usize])?;
    control.write_all(&[10])?;
    let (mut stream, _) = listener.accept()?;
    stream.read_exact(&mut [0; 37])?;
    control.write_all(&[1, 2])?;
    stream.set_nonblocking(true)?;
    control.read_exact(&mut [0])?;
    // All that the client has sent is acknowledged by then, and waits here.
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 20]);
    while let Ok(got @ 1..) = stream.read(&mut buffer) {
        bytes += got as u64;
    }
    control.write_all(&[13])?;
    control.read_exact(&mut len)?;
    control.read_exact(&mut vec![0; u32::from_be_bytes(len) as usize])?;
    let results = format!(r#"{{"streams":[{{"id":1,"bytes":{}}}]}}"#, lie(bytes));
    control.write_all(&(results.len() as u32).to_be_bytes())?;
    control.write_all(results.as_bytes())?;
    control.write_all(&[14])?;
    control.read_exact(&mut [0])
}

#[test]
fn a_server_of_iperf3_that_lies_about_what_arrived_makes_no_valid_trial() {
    let lies: [(Lie, &str); 2] = [
        (|bytes| bytes * 2, "it received 300 kB, and this end sent 150 kB"),
        (|bytes| bytes - 1, "1 bytes of a byte stream never arrived"),
    ];
    for (lie, said) in lies {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("iperf3://{}", listener.local_addr().unwrap());
        // Room for all of it, which is read at the end.
        socket2::SockRef::from(&listener).set_recv_buffer_size(1 << 20).unwrap();
        thread::spawn(move || while serve_lying(&listener, lie).is_ok() {});
        let (outcome, _, stderr) =
            race(&["tcp", "-w", "bulk:bytes=150kB", "--to", &to], dir.path());
        let outcome = outcome.unwrap_or_else(|| panic!("{stderr}"));
        let trials = outcome["trials"].as_array().unwrap();
        assert!(!trials.is_empty(), "{stderr}");
        for trial in trials {
            assert_eq!(trial["valid"], false, "{trial}");
            let why = trial["why_invalid"].as_str().unwrap();
            assert!(why.contains(said), "{trial}");
        }
    }
}
