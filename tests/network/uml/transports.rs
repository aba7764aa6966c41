//! The kernel's SCTP and DCCP, in a kernel that has both: what their lanes promise on a path that loses
//! packets, and whole races. What every transport promises is in tests/conformance, which boots for them,
//! too.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use deadheat::contract::{Delivery, Inbox, Lane, Ordering, Patience, Service};
use deadheat::path::network::{Impairments, Loss};
use deadheat::time::Nanos;
use deadheat::transport::handover::ConnectionSource;
use deadheat::transport::hello::{Hello, Token};
use deadheat::transport::{Address, Conn, Contender, Dial, Listen, Progress};
use serde_json::Value;

use super::booted::boots;
use super::{FAR, Hosts, INSIDE, again_inside, network};

const LONG: Nanos = Nanos::from_secs(60);
const SIZE: usize = 1_000;

/// The modules of the kernel's SCTP and DCCP.
const MODULES: &[&str] = &["hmac", "sctp", "dccp_ipv4", "dccp_ipv6"];

#[test]
fn sctp_and_dccp_keep_their_promises() {
    if std::env::var_os(INSIDE).is_some() {
        lanes();
        datagrams();
        return;
    }
    if !boots() {
        return;
    }
    again_inside(MODULES, "transports::sctp_and_dccp_keep_their_promises", &["lanes", "datagrams"]);
}

#[test]
fn sctp_and_dccp_race() {
    if std::env::var_os(INSIDE).is_some() {
        races();
        return;
    }
    if !boots() {
        return;
    }
    again_inside(MODULES, "transports::sctp_and_dccp_race", &["races"]);
}

/// The numbers of what arrived on each of four lanes.
#[derive(Default)]
struct Kept([Vec<u32>; 4]);

impl Inbox for Kept {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        assert_eq!(bytes.len(), SIZE);
        let (number, rest) = bytes.split_first_chunk().unwrap();
        assert!(rest.iter().all(|byte| *byte == number[0]));
        self.0[usize::from(lane.0)].push(u32::from_le_bytes(*number));
    }
}

/// Both ends of a connection between two hosts.
fn open(hosts: &Hosts, typed: &str, lanes: &[Service]) -> [Box<dyn Conn>; 2] {
    let contender = Contender::parse(typed).unwrap();
    contender.check().unwrap();
    let hello = Hello { token: Token::from_bytes([9; 16]), flow: 3 };
    let (transport, knobs) = (&contender.transport, &contender.knobs);
    let at = Address::Ip((FAR[0].parse::<std::net::IpAddr>().unwrap(), 0).into());
    let listen = Listen {
        at: &at,
        token: hello.token,
        knobs,
        lanes,
        largest_message: SIZE,
        door: ConnectionSource::Own,
        tickets: deadheat::transport::Tickets::default(),
    };
    let mut listener = hosts.far(|| transport.listen(listen).unwrap());
    let to = &listener.endpoint();
    let dial = Dial {
        to,
        hello,
        knobs,
        lanes,
        largest_message: SIZE,
        timeout: LONG,
        tickets: &deadheat::transport::Tickets::default(),
    };
    thread::scope(|scope| {
        let far = scope.spawn(move || listener.accept(LONG).unwrap());
        let near = hosts.near(|| transport.dial(&dial).unwrap());
        let (flow, far) = far.join().unwrap();
        assert_eq!(flow, 3);
        [near, far]
    })
}

/// Sends so many messages on each lane in turn, and receives all that arrives. What is acknowledged or given up is over once
/// the sender has nothing left, however late: a timeout doubles with each loss (RFC 9260, 6.3.3). What nobody acknowledges
/// has a silence to arrive in.
fn exchange(ends: [Box<dyn Conn>; 2], lanes: u16, count: u32, silence: Duration) -> Kept {
    let [mut near, mut far] = ends;
    let is_drained = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut kept, mut last) = (Kept::default(), Instant::now());
            loop {
                let is_over = is_drained.load(Acquire);
                let progress = far.receive(Patience::Block, &mut kept).unwrap();
                if progress == Progress::Moved || !is_over {
                    last = Instant::now();
                } else if last.elapsed() >= silence {
                    return kept;
                }
            }
        });
        for number in 0..count {
            for lane in 0..lanes {
                let mut message = [number as u8; SIZE];
                message[..4].copy_from_slice(&number.to_le_bytes());
                while near.send(Lane(lane), &message).unwrap() == Progress::Idle {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let sent = Instant::now();
        // The kernel that was booted for this ends with its own limit.
        while !near.is_drained() {
            thread::sleep(Duration::from_millis(5));
        }
        println!("the last was acknowledged or given up {:?} after it was sent", sent.elapsed());
        is_drained.store(true, Release);
        println!("{:?}\n{:?}", near.effective(), near.info().stats);
        let kept = receiver.join().unwrap();
        assert!(near.info().stats.send_calls >= u64::from(count));
        kept
    })
}

/// A path that loses one packet in ten, each way.
fn losing() -> Impairments {
    let delay = Nanos::from_millis(5);
    Impairments { delay, loss: Loss::Bernoulli(0.1), ..Impairments::default() }
}

/// Each lane has its service though packets are lost: everything in order, everything in some order,
/// everything within a lifetime that is long enough, and what is lost once is gone.
fn lanes() {
    const COUNT: u32 = 200;
    let hosts = Hosts::new();
    let mut middle = hosts.middle(&network(losing())).unwrap();
    middle.begin(11).unwrap();
    let within = Service { delivery: Delivery::Within(LONG), ordering: Ordering::Unordered };
    let services = [Service::ORDERED, Service::UNORDERED, within, Service::BEST_EFFORT];
    let ends = open(&hosts, "sctp:min-rto=50ms", &services);
    assert_eq!(ends[1].effective()["min-rto"], "50 ms");
    let Kept(lanes) = exchange(ends, 4, COUNT, Duration::ZERO);
    println!("{:?}", lanes.each_ref().map(Vec::len));
    let all: Vec<u32> = (0..COUNT).collect();
    assert_eq!(lanes[0], all);
    assert!(!lanes[1].is_sorted() || !lanes[2].is_sorted(), "nothing overtook what was lost");
    let sorted = lanes.map(|mut lane| {
        lane.sort_unstable();
        assert!(lane.is_sorted_by(|a, b| a < b), "a message came twice");
        lane
    });
    assert!(sorted[1] == all && sorted[2] == all);
    // Of 200 that are lost with 0.1 each, 140 or fewer arrive once in 10^17 times, and all of them once in 10^9.
    assert!((140..200).contains(&sorted[3].len()), "{}", sorted[3].len());
    assert!(middle.end().unwrap().links[0].up.fates.lost > 0);
    println!("lanes hold");
}

/// DCCP opens a connection though hellos and welcomes are lost, and repeats no message.
fn datagrams() {
    const COUNT: u32 = 300;
    let hosts = Hosts::new();
    let mut middle = hosts.middle(&network(losing())).unwrap();
    for seed in [1, 2] {
        middle.begin(seed).unwrap();
        let ends = open(&hosts, "dccp", &[Service::BEST_EFFORT]);
        let Kept([mut got, ..]) = exchange(ends, 1, COUNT, Duration::from_secs(1));
        println!("{} arrived", got.len());
        got.sort_unstable();
        assert!(got.is_sorted_by(|a, b| a < b), "a message came twice");
        // The path lets all through once in 10^13 times; how many a receiver's buffer drops depends on the machine.
        assert!((1..300).contains(&got.len()), "{}", got.len());
        middle.end().unwrap();
    }
    println!("datagrams hold");
}

/// What a race says of its trials.
pub(super) fn race(words: &[&str], result: &str) -> Value {
    let folder = std::env::temp_dir();
    let ran = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .current_dir(&folder)
        .args(["race", "--idle", "host"])
        .args(words)
        .args(["--blocks", "1", "--budget", "60s", "-o", result])
        .output()
        .unwrap();
    // A kernel in user mode keeps no time that one would trust a race for.
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{ran:?}");
    serde_json::from_slice(&std::fs::read(folder.join(result)).unwrap()).unwrap()
}

fn races() {
    for (words, result, contenders) in [
        (&["tcp", "sctp", "dccp", "udp", "-w", "ping:count=200,window=1"][..], "ping.json", 4),
        (&["sctp", "dccp", "-w", "bulk:bytes=200kB"], "bulk.json", 2),
        (&["tcp", "sctp", "-w", "streams:count=60,streams=4,rate=100pps"], "streams.json", 2),
    ] {
        let raced = race(words, result);
        let trials = raced["trials"].as_array().unwrap();
        for id in 0..contenders {
            let mut own = trials.iter().filter(|trial| trial["contender"] == id).peekable();
            assert!(own.peek().is_some(), "{words:?} has no trial of contender {id}");
            for trial in own {
                let up = &trial["ledger"]["up"];
                let why = trial["why_invalid"].as_str().unwrap_or_default();
                println!("{}: {up} {why}", trial["implementation"]);
                assert!(trial["valid"] == true || why.contains("late"), "{trial:#}");
                let is_dccp = raced["contenders"][id]["spec"] == "dccp";
                let is_all = up["delivered"] == up["sent"];
                assert!(is_all || (is_dccp && result == "bulk.json"), "{trial:#}");
            }
        }
    }
    println!("races hold");
}
