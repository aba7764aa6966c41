//! Responders of a server beside its trials: whose turn it is, what each direction carries, and what an attacker gets.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use deadheat::server::{Config, ResponderSetup};
use deadheat::transport::responder::ALL;
use deadheat::trial::control::FromServer;

use super::far::{Far, Manner, PATIENCE, open, plan};

/// Opens every responder, at a port of the system's choice.
fn all(config: &mut Config) {
    let setups = ALL.iter().map(|one| ResponderSetup { responder: *one, port: 0, key: None });
    config.responders = setups.collect();
}

fn at(far: &Far, id: &str) -> SocketAddr {
    far.responders.iter().find(|(name, _)| *name == id).unwrap().1
}

/// A client of iperf3 that has sent the cookie of `number`, and the first byte that it gets.
fn iperf3(far: &Far, number: u32) -> (TcpStream, u8) {
    let mut near = TcpStream::connect(at(far, "iperf3")).unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    near.write_all(&cookie(number)).unwrap();
    let mut byte = [0];
    near.read_exact(&mut byte).unwrap();
    (near, byte[0])
}

fn cookie(number: u32) -> Vec<u8> {
    format!("{number:036}\0").into_bytes()
}

const PARAM_EXCHANGE: u8 = 9;
const ACCESS_DENIED: u8 = 255;

#[test]
fn a_test_and_a_trial_have_one_turn_after_the_other() {
    let far = Far::with(Manner::Right, all);
    let mut client = far.client();
    client.say(&open(&plan()));
    client.ready();
    client.begin_trial();
    assert_eq!(iperf3(&far, 0).1, ACCESS_DENIED, "a trial runs");
    client.end_trial();
    far.line_with("trial 1 udp bulk:bytes=1MB done in");
    // A client has a new cookie for each attempt: a second connection with the last one is a stream of its test.
    let end = Instant::now() + PATIENCE;
    let (near, first) = (1..)
        .take_while(|_| Instant::now() < end)
        .map(|attempt| iperf3(&far, attempt))
        .find(|(_, first)| *first != ACCESS_DENIED)
        .expect("the turn is free, or will be once it has rested");
    assert_eq!(first, PARAM_EXCHANGE);
    client.say(&open(&plan()));
    assert!(matches!(client.hear(), FromServer::Queued { ahead: 1 }), "a test runs");
    // No log line shows the end of a test that has not begun once many attempts of this address were turned away: it
    // is one of the lines that a stranger can cause at will.
    drop(near);
    client.ready();
    client.finish_trial();
}

#[test]
fn a_server_for_one_client_ends_after_its_test() {
    let mut far = Far::with(Manner::Right, |config| {
        all(config);
        config.serves_one = true;
    });
    let (mut near, _) = iperf3(&far, 0);
    let parameters = br#"{"tcp": true, "time": 5}"#;
    near.write_all(&[&24_u32.to_be_bytes()[..], parameters].concat()).unwrap();
    near.read_exact(&mut [0]).unwrap();
    let mut stream = TcpStream::connect(at(&far, "iperf3")).unwrap();
    stream.write_all(&cookie(0)).unwrap();
    near.read_exact(&mut [0; 2]).unwrap();
    drop((near, stream));
    far.line_with("TCP up, streams: 1, 5.00 s failed after");
    far.await_end();
}

/// Garbage, and the first packets of each protocol, from sources that show nothing: no responder sends more bytes of UDP
/// than it got, and all of it is in the server's account.
#[test]
fn strangers_get_no_more_bytes_than_they_sent() {
    let far = Far::with(Manner::Right, all);
    let irtt_open = b"\x14\xa7\x5b\x01\x01\x02\x02\x80\xa8\xd6\xb9\x07\x03\x80\xb4\x89\x13\x05\x06\x06\x06\x07\x06";
    let mut stamp = vec![0; 44];
    stamp[12] = 0x80;
    let first: [&[u8]; 8] = [
        b"",
        b"x",
        irtt_open,
        &stamp,
        &[0; 14],
        &[0xff; 41],
        &[0x39, 0x38, 0x37, 0x36],
        &[0x55; 1_400],
    ];
    std::thread::scope(|scope| {
        for (id, to) in &far.responders {
            scope.spawn(move || hold_to_what_was_sent(id, *to, &first));
        }
    });
}

/// Sends these datagrams to a responder, each from a port of its own: five times, and until it answers if it answers
/// strangers.
fn hold_to_what_was_sent(id: &str, to: SocketAddr, datagrams: &[&[u8]]) {
    let answers = ["irtt", "stamp", "echo"].contains(&id);
    let (mut sent, mut got, end) = (0, 0, Instant::now() + PATIENCE);
    let mut round = 0;
    while round < 5 || (answers && got == 0) {
        assert!(Instant::now() < end, "{id} answers strangers");
        round += 1;
        for bytes in datagrams {
            let near = UdpSocket::bind("127.0.0.1:0").unwrap();
            near.send_to(bytes, to).unwrap();
            sent += bytes.len();
            near.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let mut room = [0; 2_000];
            loop {
                match near.recv(&mut room) {
                    Ok(len) => got += len,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => panic!("{id}, round {round}: {e}"),
                }
            }
            assert!(got <= sent, "{id}: {got} of {sent}");
        }
    }
}
