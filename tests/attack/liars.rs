//! Servers that lie: a client that was pointed at one ends soon, in few words, and shows nothing that a
//! terminal would obey.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ground::wait;
use crate::server::program;
use crate::table::Row;
use crate::wire::{frame, hear, said};

/// Being let in takes ten seconds at most, and a message as long again.
const LONGEST: Duration = Duration::from_secs(30);

/// What a client may say about a server that lies.
const MOST_WORDS: usize = 20_000;

/// Address space of a client, in bytes.
const SPACE: u64 = 2 << 30;

/// Colours, a title for the window, text that reads backwards, and a line that looks like ours.
const HOSTILE: &str = "\u{1b}[31mred\u{1b}]0;owned\u{7}\u{202e}sdrawkcab\r\nsaved: forged\u{9b}2J";

/// What a client is told, once it has greeted with this protocol.
type Lie = fn(&mut TcpStream, u64) -> std::io::Result<()>;

const LIES: &[(&str, Lie)] = &[
    ("closes at once", |_, _| Ok(())),
    ("says nothing", |to, _| silent(to)),
    ("drips", |to, _| {
        to.write_all(&[0, 0, 16, 0])?;
        loop {
            to.write_all(b" ")?;
            std::thread::sleep(Duration::from_millis(500));
        }
    }),
    ("random bytes", |to, _| to.write_all(&[0x9e; 5_000])),
    ("HTTP", |to, _| to.write_all(b"HTTP/1.1 200 OK\r\n\r\n\x1b[2J")),
    ("16 MB announced", |to, _| to.write_all(&[0, 255, 255, 255, b'{'])),
    ("nothing announced", |to, _| to.write_all(&[0; 4])),
    ("a nest", |to, _| to.write_all(&frame(&[b'['; 1_000_000]))),
    ("a long refusal", |to, _| to.write_all(&refusal(&HOSTILE.repeat(20_000)))),
    ("another version", |to, _| to.write_all(&welcome(99, HOSTILE))),
    ("limits that are none", |to, protocol| {
        to.write_all(&said(
            &json!({"welcome": {"protocol": protocol, "version": [], "limits": -1}}),
        ))
    }),
    ("facts that are none", |to, protocol| {
        to.write_all(&welcome(protocol, HOSTILE))?;
        to.write_all(&said(&json!({"facts": {"hostname": HOSTILE, "cpus": -1}})))
    }),
    ("closes after the facts", host),
    ("refuses the trial at length", |to, protocol| {
        host(to, protocol)?;
        hear(to)?;
        to.write_all(&refusal(&HOSTILE.repeat(10_000)))
    }),
    ("places in a queue without end", |to, protocol| {
        host(to, protocol)?;
        hear(to)?;
        (0..20_000_u32)
            .try_for_each(|i| to.write_all(&said(&json!({"queued": {"ahead": u32::MAX - i}}))))
    }),
    ("an address of somebody else", |to, protocol| {
        host(to, protocol)?;
        hear(to)?;
        to.write_all(&said(&json!({"ready": {"endpoint": {"ip": "198.51.100.1:53"}}})))?;
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }),
    ("a fault with words", |to, protocol| {
        host(to, protocol)?;
        hear(to)?;
        to.write_all(&said(&json!({"fault": {"kind": "peer", "message": HOSTILE.repeat(10_000)}})))
    }),
];

fn silent(to: &mut TcpStream) -> std::io::Result<()> {
    to.set_read_timeout(Some(LONGEST))?;
    std::io::copy(to, &mut std::io::sink()).map(drop)
}

fn refusal(text: &str) -> Vec<u8> {
    said(
        &json!({"refused": {"kind": "peer", "message": text.chars().take(900_000).collect::<String>()}}),
    )
}

fn welcome(protocol: u64, version: &str) -> Vec<u8> {
    let limits = json!({"duration_ns": 60_000_000_000_u64, "bytes": 1_000_000_000_u64,
        "rate_bps": 10_000_000_000_u64, "concurrent": 1});
    said(
        &json!({"welcome": {"protocol": protocol, "version": version, "nonce": null, "limits": limits}}),
    )
}

/// Lets a client in, to a host with a hostile name.
fn host(to: &mut TcpStream, protocol: u64) -> std::io::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/control/facts.json");
    let mut facts: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    facts["facts"]["hostname"] = json!(HOSTILE);
    facts["facts"]["cpu_model"] = json!(HOSTILE.repeat(1_000));
    to.write_all(&welcome(protocol, HOSTILE))?;
    to.write_all(&said(&facts))
}

/// Points a client at each of them, all at the same time.
pub(crate) fn all() {
    let began = Instant::now();
    let faults = std::thread::scope(|scope| {
        let told: Vec<_> =
            LIES.iter().map(|(name, lie)| scope.spawn(|| tell(name, *lie))).collect();
        told.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let row = Row {
        name: "lying servers",
        thrown: format!("{} lies, each to a client of its own", LIES.len()),
        honest: "–".into(),
        longest: format!("{:.1} s", began.elapsed().as_secs_f64()),
        memory: "–".into(),
        faults,
    };
    row.conclude();
}

/// What was wrong with how a client took this lie.
fn tell(name: &str, lie: Lie) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // As many clients as come: the thread ends with the test's process.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let protocol = hear(&mut stream).ok().and_then(|word| word["protocol"].as_u64());
            let _ = protocol.map(|protocol| lie(&mut stream, protocol));
        }
    });
    let log = dir.path().join("log");
    let output = std::fs::File::create(&log).unwrap();
    let mut command = Command::new(program());
    command
        .args([
            "race",
            "--idle",
            "host",
            "udp",
            "-w",
            "ping:count=30,interval=1ms",
            "--blocks",
            "1",
            "--to",
            &address,
        ])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    // SAFETY: between fork and exec only setrlimit(2) is called.
    unsafe { command.pre_exec(|| limit(libc::RLIMIT_AS, SPACE)) };
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child, LONGEST);
    let _ = child.kill();
    let _ = child.wait();
    let mut words = String::new();
    let _ = std::fs::File::open(&log).unwrap().read_to_string(&mut words);
    let mut faults = Vec::new();
    match status.map(|status| status.code()) {
        Some(Some(1..=3)) => {}
        other => faults.push(format!("{name}: ended with {other:?}")),
    }
    if words.contains("panicked") || words.len() > MOST_WORDS {
        let begin: String = words.chars().take(200).collect();
        faults.push(format!("{name}: {} bytes of words: {begin}", words.len()));
    }
    if let Some(c) = words.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}') {
        faults.push(format!("{name}: lets {c:?} through"));
    }
    if words.lines().any(|line| line.starts_with("saved: forged")) {
        faults.push(format!("{name}: a forged line"));
    }
    faults
}

/// Bounds one of this process's resources.
pub(crate) fn limit(what: libc::__rlimit_resource_t, most: u64) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the call takes a pointer to one rlimit, which `limit` is.
    let done = unsafe { libc::setrlimit(what, &raw const limit) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
