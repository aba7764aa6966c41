//! Races to far ends of others that are threads of the test: an echo port, a reflector of STAMP, and servers of iperf3 that
//! fail. tests/network/others.rs has real ones, across a path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;

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

/// Sends each datagram back as `reflect` makes it; the thread ends with the test's process.
fn reflector(reflect: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&reflect(&bytes[..len]), peer);
        }
    });
    at
}

#[test]
fn an_echo_port_is_raced_with_what_its_kernel_answers() {
    let dir = tempfile::tempdir().unwrap();
    let to = format!("echo://{}", reflector(<[u8]>::to_vec));
    let (outcome, _, said) =
        race(&["udp", "icmp", "-w", "ping:count=30,warmup=0", "--to", &to], dir.path());
    let outcome = outcome.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(outcome["verdicts"].as_array().unwrap().len(), 1, "{said}");
    for trial in outcome["trials"].as_array().unwrap() {
        assert_eq!(trial["ledger"]["round_trip"]["delivered"], 30, "{trial}");
        assert!(trial["ledger"].get("up").is_none_or(Value::is_null), "{trial}");
    }
}

#[test]
fn a_stamp_reflector_returns_its_times_and_need_not_return_the_payload() {
    let dir = tempfile::tempdir().unwrap();
    let at = reflector(|packet| {
        let mut reply = vec![0; packet.len()];
        // Seconds 2 and 3 of NTP's first era, as times of receiving and sending.
        reply[4..16].copy_from_slice(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 1, packet[14], packet[15]]);
        reply[16..24].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 0]);
        reply[24..28].copy_from_slice(&packet[..4]);
        reply
    });
    let to = format!("stamp://{at}");
    let (outcome, _, said) =
        race(&["udp", "-w", "ping:count=30,warmup=0", "--to", &to], dir.path());
    let outcome = outcome.unwrap_or_else(|| panic!("{said}"));
    for trial in outcome["trials"].as_array().unwrap() {
        assert_eq!(trial["ledger"]["round_trip"]["delivered"], 30, "{trial}");
        assert_eq!(trial["ledger"]["round_trip"]["corrupted"], 0, "{trial}");
        assert_eq!(trial["clock"]["n"], 30, "{trial}");
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
