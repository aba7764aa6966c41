//! Crowds of connections: those that say nothing, that drip, that come by the thousand and go, that say
//! what is no greeting, and that vanish in the middle of a trial.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use deadheat::rng::SplitMix64;
use socket2::{Socket, Type};

use crate::server::at;
use crate::siege::Field;
use crate::wire::{
    connect, frame, greeting, hello, let_in, mutated, open, plan, protocol, reset, seeds, socket,
    source, v6_source,
};

/// How long a crowd does nothing at a time, to leave the CPUs to others.
const NAP: Duration = Duration::from_millis(5);

/// So many connections that stand there, each from another address. Those that were closed are made anew, each
/// once a second and evenly over it: what comes by the thousand is a storm.
pub(crate) fn idle(field: &Field<'_>, crowd: u32) -> String {
    let connect_at = |i: usize| connect(source(i as u32 + 2)).ok();
    let mut standing: Vec<Option<TcpStream>> = (0..crowd as usize).map(connect_at).collect();
    let mut all = standing.len();
    let (began, mut looked) = (Instant::now(), 0);
    field.in_position();
    while !field.is_over() {
        let due = (began.elapsed().as_secs_f64() * f64::from(crowd)) as usize;
        for i in (looked..due).map(|n| n % crowd as usize) {
            if !standing[i].as_ref().is_some_and(is_open) {
                standing[i] = connect_at(i);
                all += 1;
            }
        }
        looked = due;
        std::thread::sleep(NAP);
    }
    format!("{crowd} connections that say nothing, {all} in all, each from another address")
}

fn is_open(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let read = (&mut { stream }).read(&mut [0; 64]);
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// A byte a second of a greeting, on so many connections.
pub(crate) fn slow(field: &Field<'_>, crowd: u32) -> String {
    let words = greeting(protocol());
    let mut sent = 0;
    let mut standing: Vec<(Option<TcpStream>, usize)> = (0..crowd).map(|_| (None, 0)).collect();
    while !field.is_over() {
        let began = Instant::now();
        for (i, (place, said)) in standing.iter_mut().enumerate() {
            let byte = &words[*said % words.len()..][..1];
            if place.as_mut().is_some_and(|stream| stream.write_all(byte).is_ok()) {
                (*said, sent) = (*said + 1, sent + 1);
            } else {
                (*place, *said) = (connect(source(i as u32 + 2)).ok(), 0);
            }
        }
        field.in_position();
        while began.elapsed() < Duration::from_secs(1) && !field.is_over() {
            std::thread::sleep(NAP);
        }
    }
    format!("{crowd} connections that drip a greeting, a byte a second: {sent} bytes")
}

/// How long a connection of a storm stays: at 4,000 a second there are more of them than a server has room for.
const STAY: Duration = Duration::from_secs(1);

/// How many of them there are at a time at most. The rest of this process needs descriptors, too.
const MOST: usize = 8_000;

/// The share of a storm's connections, in percent, that are answered where a server keeps up with it.
const KEPT_UP: f64 = 80.0;

/// Networks that a storm comes from.
const NETWORKS: u32 = 400;

/// So many new connections a second, or as many as there can be, from 400 networks; each stays a
/// second, says nothing, and goes with a FIN or with a reset.
pub(crate) fn storm(field: &Field<'_>, per_second: Option<u32>) -> String {
    let began = Instant::now();
    let mut open: VecDeque<(Instant, Socket)> = VecDeque::new();
    let (mut all, mut failed, mut met) = (0_u32, 0_u32, 0_u32);
    while !field.is_over() {
        let elapsed = began.elapsed();
        let due =
            per_second.map_or(u32::MAX, |rate| (elapsed.as_secs_f64() * f64::from(rate)) as u32);
        // What could not be done in time is not made up for at once: it is a rate, not a volley.
        for _ in 0..due.saturating_sub(all + failed).min(64) {
            match rush(all) {
                Some(socket) => {
                    open.push_back((Instant::now(), socket));
                    all += 1;
                }
                None => failed += 1,
            }
        }
        while open.front().is_some_and(|(since, _)| since.elapsed() > STAY) || open.len() > MOST {
            let Some((_, socket)) = open.pop_front() else { break };
            met += u32::from(is_answered(&socket));
            if all % 2 == 0 {
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
        }
        if elapsed > STAY {
            field.in_position();
        }
        if per_second.is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let rate = f64::from(all) / began.elapsed().as_secs_f64();
    met += open.iter().filter(|(_, socket)| is_answered(socket)).count() as u32;
    let share = 100.0 * f64::from(met) / f64::from(all.max(1));
    // A server that does not keep up leaves the kernel's queue full, in which honest clients stand, too.
    if per_second.is_some() && share < KEPT_UP {
        field.fault(format!("only {share:.0} % of new connections were answered"));
    }
    format!(
        "{rate:.0} new connections a second from {NETWORKS} /64s: {all}, {share:.0} % of them answered"
    )
}

/// Whether the server's host has let a connection come about: one that was closed since did.
fn is_answered(socket: &Socket) -> bool {
    let is_refused = socket.take_error().is_ok_and(|error| error.is_some());
    is_refused
        || socket.peer_addr().is_ok()
        || socket.recv(&mut [std::mem::MaybeUninit::uninit()]).is_ok()
}

/// Dials and does not wait for an answer.
fn rush(i: u32) -> Option<Socket> {
    let from = v6_source(i % NETWORKS);
    let socket = socket(from, Type::STREAM).ok()?;
    socket.set_nonblocking(true).ok()?;
    match socket.connect(&at(from).into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => None,
        _ => Some(socket),
    }
}

/// What is no greeting, or half of one, or one that was overheard.
pub(crate) fn garbage(field: &Field<'_>) -> String {
    let mut rng = SplitMix64::new(1);
    let words = openings();
    let mut all = 0_u32;
    while !field.is_over() {
        let said = match rng.below(4) {
            0 => (0..rng.below(2_000)).map(|_| rng.next_u64() as u8).collect(),
            1 => mutated(&words[rng.below(words.len() as u64) as usize], &mut rng),
            _ => words[rng.below(words.len() as u64) as usize].clone(),
        };
        if let Ok(mut stream) = connect(source(2 + all % 5_000)) {
            // It may have been closed on us already, which is what a server should do.
            let _ = stream.write_all(&said);
            if rng.below(2) == 0 {
                reset(stream);
            }
        }
        all += 1;
        field.in_position();
        std::thread::sleep(Duration::from_micros(500));
    }
    format!("{all} first messages: random and cut bytes, HTTP, TLS, replayed and mutated frames")
}

fn openings() -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = seeds().iter().map(|seed| frame(seed)).collect();
    let greeting = greeting(protocol());
    let proof =
        frame(br#"{"mac":"5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b"}"#);
    words.push([greeting.clone(), proof.clone(), proof].concat());
    words.push(greeting.repeat(3));
    words.push(greeting[..greeting.len() - 1].to_vec());
    words.push(b"GET / HTTP/1.1\r\nHost: far\r\n\r\n".to_vec());
    // The record and the handshake header of a ClientHello (RFC 8446, 4.1.2).
    words.push([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(), &[7; 501]].concat());
    words.push(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec());
    words.push(vec![0, 255, 255, 255]);
    words.push([[0, 0, 4, 1].as_slice(), &[b' '; 1_025]].concat());
    words.push([[0, 0, 4, 0].as_slice(), &[b'['; 1_024]].concat());
    words.push(hello(7, 0));
    words.push(hello(7, 0)[..23].to_vec());
    words.push(b"\n\x1b[2J\x1b]0;owned\x07".to_vec());
    words
}

/// Clients that open a trial and are gone: with a FIN, with a reset, or without a word.
pub(crate) fn vanishing(field: &Field<'_>) -> String {
    let protocol = protocol();
    let (mut opened, mut froze) = (0_u32, Vec::new());
    while !field.is_over() {
        if let Ok(mut stream) = let_in(source(2 + opened % 5_000), protocol) {
            let _ = stream.write_all(&open(&plan(u64::from(opened) + 1)));
            match opened % 3 {
                // One of them stays and says no more: that costs a turn, so it is not done again and again.
                0 if froze.is_empty() => froze.push(stream),
                1 => reset(stream),
                _ => drop(stream),
            }
            opened += 1;
        }
        field.in_position();
        std::thread::sleep(20 * NAP);
    }
    format!("{opened} clients that open a trial and vanish; one of them stays silent")
}

/// As many connections as that, each of which greets as a client does and then has no proof.
pub(crate) fn without_secret(field: &Field<'_>, crowd: u32) -> String {
    let words = greeting(protocol());
    let mut all = 0;
    let mut standing: Vec<Option<TcpStream>> = (0..crowd).map(|_| None).collect();
    while !field.is_over() {
        for (i, place) in standing.iter_mut().enumerate() {
            if !place.as_ref().is_some_and(is_open) {
                *place = connect(source(i as u32 + 2)).ok();
                all += u32::from(place.is_some());
                // The welcome is left unread until the next look, which then finds it there: so each comes
                // again and again.
                let _ = place.as_mut().map(|stream| stream.write_all(&words));
            }
        }
        field.in_position();
        std::thread::sleep(20 * NAP);
    }
    format!("{crowd} connections at a time that greet and cannot prove the secret, {all} in all")
}
