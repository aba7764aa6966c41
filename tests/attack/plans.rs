//! Clients that were let in, and then ask for what cannot be meant or send what is no message.

use std::io::Write;

use deadheat::rng::SplitMix64;
use serde_json::{Value, json};

use crate::ground::{calm, datagrams};
use crate::siege::Field;
use crate::wire::{
    NUMBERS, connect, frame, greeting, hear, hello, let_in, mutated, open, patient, plan, protocol,
    seeds, socket, source,
};

/// Workloads and contenders that ask for too much, for files, or for nothing that there is.
const TYPED: &[(&str, &str)] = &[
    ("workload", "bulk:streams=1000000"),
    ("workload", "bulk:streams=18446744073709551615,bytes=18446744073709551615"),
    ("workload", "bulk:bytes=1000000TB"),
    ("workload", "bulk:file=/etc/passwd,direction=down"),
    ("workload", "bulk:sink=/tmp/deadheat-was-here"),
    ("workload", "bulk:file=../../../etc/shadow,sink=/dev/mem"),
    ("workload", "ping:size=18446744073709551615"),
    ("workload", "ping:count=18446744073709551615,interval=0ns"),
    ("workload", "ping:interval=NaNms"),
    ("workload", "ping:count=-1"),
    ("workload", "ping:count=1e9,interval=1000000h"),
    ("workload", "cbr:rate=NaN"),
    ("workload", "cbr:rate=1000000000000gbit,size=1"),
    ("workload", "cbr:rate=inf,time=1ns"),
    ("workload", "ping:\u{1b}[2J=\u{202e}"),
    ("workload", ""),
    ("workload", ":::,,,==="),
    ("contender", "unix"),
    ("contender", "pipe"),
    ("contender", "icmp"),
    ("contender", "tcp:cc=../../x"),
    ("contender", "udp:sndbuf=18446744073709551615"),
    ("contender", "tcp:sndbuf=-1"),
    ("contender", ""),
    ("token", "00"),
    ("side", "near"),
    ("wait", "for ever"),
];

/// Fields of a plan with what does not belong there.
fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("cpu", json!(1_000_000)),
        ("cpu", json!(-1)),
        ("seed", json!(1e300)),
        ("interval_ns", json!(0)),
        ("interval_ns", json!(1)),
        ("samples", json!("/tmp/deadheat-was-here")),
        ("emulated", json!({"transit_ns": u64::MAX, "dial_ns": u64::MAX})),
        (
            "limits",
            json!({"duration_ns": u64::MAX, "bytes": u64::MAX, "rate_bps": u64::MAX, "concurrent": 0}),
        ),
        ("endpoint", json!({"unix": "/run/x.sock"})),
        ("endpoint", json!({"ip": "198.51.100.1:53"})),
        ("goes_first", json!(true)),
        ("pass", json!("tracing")),
        ("live", json!(true)),
        ("who_knows", json!([[[[[[[[]]]]]]]])),
    ]
}

/// Every hostile plan, and then plans and messages that chance makes, over and over.
pub(crate) fn hostile(field: &Field<'_>) -> String {
    let protocol = protocol();
    let mut rng = SplitMix64::new(3);
    let (mut asked, mut answered, mut taken) = (0_u32, 0_u32, 0_u32);
    let known = known();
    while !field.is_over() {
        let said = match known.get(asked as usize) {
            Some(said) => said.clone(),
            None => by_chance(&mut rng),
        };
        if let Ok(mut stream) = let_in(source(2 + asked % 5_000), protocol) {
            let _ = stream.write_all(&said);
            // What never ends is not waited for; the next client is another one.
            if let Ok(word) = hear(&mut stream) {
                answered += 1;
                taken += u32::from(word.get("ready").is_some());
            }
        }
        asked += 1;
        if asked as usize == known.len() {
            field.in_position();
        }
    }
    let was_here = std::path::Path::new("/tmp/deadheat-was-here").exists();
    assert!(!was_here, "a client named a file of the server's host, and it is there now");
    format!("{asked} hostile plans and messages; {answered} answered, {taken} taken as trials")
}

fn known() -> Vec<Vec<u8>> {
    let with = |(key, value): (&str, Value)| {
        let mut plan = plan(9);
        plan[key] = value;
        open(&plan)
    };
    let mut all: Vec<Vec<u8>> = TYPED.iter().map(|(key, text)| with((key, json!(text)))).collect();
    all.extend(fields().into_iter().map(with));
    all.push(with(("workload", json!("x".repeat(1_000_000)))));
    all.push(frame("[".repeat(1_000_000).as_bytes()));
    all.push(frame(&[b' '; 1_000_000]));
    all.push(frame(br#"{"open":null}"#));
    all.push(frame(br#""start""#));
    all.push(frame(br#""start""#).repeat(100));
    all.push(vec![0, 255, 255, 255]);
    all.push(greeting(1));
    all
}

/// A plan with a number in a place where another one was, or any message with a few other bytes.
fn by_chance(rng: &mut SplitMix64) -> Vec<u8> {
    let seeds = seeds();
    if rng.below(2) == 0 {
        let seed = &seeds[rng.below(seeds.len() as u64) as usize];
        return frame(&mutated(seed, rng));
    }
    let plan = plan(rng.next_u64()).to_string();
    let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
    let key = ["500", "1ms", "7,", "null", "\"hybrid\""][rng.below(5) as usize];
    let tail = if key.ends_with(',') { "," } else { "" };
    frame(format!(r#"{{"open":{}}}"#, plan.replacen(key, &format!("{number}{tail}"), 1)).as_bytes())
}

/// Datagrams that present the token of a trial that the same client asked for, from addresses that are not
/// its own: nothing may be sent there.
pub(crate) fn reflection(field: &Field<'_>) -> String {
    let protocol = protocol();
    let mut client = patient(let_in(source(2), protocol).unwrap());
    let mut plan = plan(77);
    plan["workload"] = json!("bulk:time=1s,direction=down");
    client.write_all(&open(&plan)).unwrap();
    let word = hear(&mut client).unwrap();
    assert!(word.get("ready").is_some(), "{word}");
    let victims: Vec<std::net::UdpSocket> =
        (3..103).map(|i| socket(source(i), socket2::Type::DGRAM).unwrap().into()).collect();
    // Datagrams alone: between server and client, control asks every second whether the other is there.
    let before = datagrams();
    for (i, victim) in victims.iter().enumerate() {
        victim.send_to(&hello(77, 0), crate::server::at(source(i as u32 + 3))).unwrap();
    }
    let all = victims.len() as u64;
    while datagrams().read < before.read + all {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The server answers at once, or not at all.
    calm();
    let packets = datagrams().sent - before.sent;
    assert_eq!(packets, all, "somebody was answered who is not the client");
    drop(client);
    field.in_position();
    while !field.is_over() {
        let _ = connect(source(2));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    format!("{packets} hellos with a trial's own token from others' addresses; 0 packets came back")
}
