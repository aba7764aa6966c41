//! Bytes on the wire, made by hand: what a program would send that is not deadheat, or is and means harm.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use deadheat::rng::SplitMix64;
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

use crate::server::at;

/// What a blocking read or write may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Address `i` of many: every other one is IPv4, and each is an origin of its own.
pub(crate) fn source(i: u32) -> SocketAddr {
    let [_, b, c, d] = (i / 2).to_be_bytes();
    match i % 2 {
        0 => SocketAddr::from((Ipv4Addr::new(127, b + 1, c, d), 0)),
        _ => v6_source(i / 2),
    }
}

/// Address `i` of as many IPv6 /64s.
pub(crate) fn v6_source(i: u32) -> SocketAddr {
    let net = i.to_be_bytes().map(u16::from);
    let ip = Ipv6Addr::new(0x2001, 0xdb8, net[0] << 8 | net[1], net[2] << 8 | net[3], 0, 0, 0, 1);
    SocketAddr::from((ip, 0))
}

/// A socket that has `from` as its source address, whether or not an interface has it.
pub(crate) fn socket(from: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(from), kind, Some(protocol))?;
    if from.is_ipv6() {
        socket.set_freebind_v6(true)?;
    }
    socket.bind(&from.into())?;
    Ok(socket)
}

/// A connection to the server from `from`.
pub(crate) fn connect(from: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(from, Type::STREAM)?;
    socket.connect_timeout(&at(from).into(), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}

/// A connection whose answers are waited for, however busy the host: only a failing test waits so long.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(10 * PATIENCE)).unwrap();
    stream
}

/// Closes with a reset, as a client does whose process was killed with data unread.
pub(crate) fn reset(stream: TcpStream) {
    let _ = Socket::from(stream).set_linger(Some(Duration::ZERO));
}

pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

pub(crate) fn said(word: &Value) -> Vec<u8> {
    frame(word.to_string().as_bytes())
}

pub(crate) fn greeting(protocol: u64) -> Vec<u8> {
    said(&json!({"magic": "deadheat", "protocol": protocol, "version": "0.1.0"}))
}

/// The next message; an error where there is none.
pub(crate) fn hear(stream: &mut TcpStream) -> io::Result<Value> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut body = vec![0; (u32::from_be_bytes(prefix) as usize).min(1 << 20)];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// The protocol that the server speaks: it says so when it refuses another.
pub(crate) fn protocol() -> u64 {
    let mut stream = patient(connect(source(2)).unwrap());
    stream.write_all(&greeting(0)).unwrap();
    let refusal = hear(&mut stream).unwrap().to_string();
    let number = refusal.split("speaks protocol ").nth(1).unwrap();
    number.split(' ').next().unwrap().parse().unwrap()
}

/// A client that was let in to a server without a secret, from `from`.
pub(crate) fn let_in(from: SocketAddr, protocol: u64) -> io::Result<TcpStream> {
    let mut stream = connect(from)?;
    stream.write_all(&greeting(protocol))?;
    // The welcome, and the facts about its host.
    hear(&mut stream)?;
    hear(&mut stream)?;
    Ok(stream)
}

/// A trial that a server takes.
pub(crate) fn plan(token: u64) -> Value {
    json!({"side": "far", "contender": "udp", "workload": "ping:count=500,interval=1ms",
        "endpoint": {"ip": at(source(0)).to_string()}, "token": format!("{token:032x}"), "seed": 7,
        "cpu": null, "wait": "hybrid", "samples": null, "limits": null})
}

pub(crate) fn open(plan: &Value) -> Vec<u8> {
    said(&json!({ "open": plan }))
}

/// The first bytes of a data connection.
pub(crate) fn hello(token: u64, flow: u16) -> Vec<u8> {
    let token = u128::from(token).to_be_bytes();
    [b"DHT1\x01\x01".as_slice(), &flow.to_be_bytes(), &token].concat()
}

/// What the fuzzers begin with: every message of the protocol.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/control");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// `bytes` with a few of them changed, taken out, put in twice or cut off.
pub(crate) fn mutated(bytes: &[u8], rng: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        match rng.below(6) {
            _ if bytes.is_empty() => {}
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next_u64() as u8,
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            4 => {
                let twice = bytes[at..].to_vec();
                bytes.extend(twice);
            }
            _ => {
                let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
                bytes.splice(at..=at, number.bytes());
            }
        }
    }
    bytes
}

/// What is seldom thought of where a number is read.
pub(crate) const NUMBERS: &[&str] = &[
    "-1",
    "0",
    "1e999",
    "-1e999",
    "NaN",
    "null",
    "18446744073709551615",
    "18446744073709551616",
    "1e-320",
    "9007199254740993",
    "[]",
    "{}",
    "\"\"",
];
