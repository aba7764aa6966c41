//! The library without the additions of this program: tests its defects as the documentation lists them.

use std::time::{Duration, Instant};

use laminar::{Connection, Packet, VirtualConnection};

use super::*;

/// Two ends of the bare library.
struct Pair {
    ends: [(VirtualConnection, LaminarOutbox); 2],
    now: Instant,
    received: usize,
}

impl Pair {
    fn new() -> Pair {
        let now = Instant::now();
        let end = || {
            let config = Config::default();
            let connection = VirtualConnection::new(PEER, &config, now);
            (
                connection,
                LaminarOutbox { config, out: VecDeque::new(), ledger: MessageLedger::default() },
            )
        };
        Pair { ends: [end(), end()], now, received: 0 }
    }

    fn send(&mut self, end: usize, packet: Packet) {
        let (connection, wire) = &mut self.ends[end];
        connection.process_event(wire, packet, self.now);
    }

    /// Advances by 10 ms and moves the packets of both ends, except packets of the first end that `loses` selects by
    /// their content.
    fn pass(&mut self, loses: impl Fn(&[u8]) -> bool) {
        self.now += Duration::from_millis(10);
        for from in [0, 1] {
            let (connection, wire) = &mut self.ends[from];
            connection.update(wire, self.now);
            let sent: Vec<Vec<u8>> = wire.out.drain(..).collect();
            for packet in sent.iter().filter(|packet| from == 1 || !loses(packet)) {
                let received = self.ends[1 - from].0.process_incoming(packet, self.now).unwrap();
                let messages =
                    received.into_iter().filter(|(packet, _)| !packet.payload().is_empty());
                self.received += messages.filter(|_| from == 0).count();
            }
        }
    }

    fn message(number: u32) -> Packet {
        Packet::reliable_ordered(PEER, number.to_be_bytes().to_vec(), None)
    }
}

#[test]
fn a_peer_that_only_listens_is_given_up_at_the_513th_message() {
    let mut pair = Pair::new();
    for number in 0..512 {
        pair.send(0, Pair::message(number));
        pair.pass(|_| false);
        // It answers, but at best effort.
        pair.send(1, Packet::unreliable(PEER, vec![1]));
    }
    let now = pair.now;
    let gives_up = |(connection, wire): &mut (VirtualConnection, LaminarOutbox)| {
        connection.should_drop(wire, now)
    };
    assert_eq!((pair.received, gives_up(&mut pair.ends[0])), (512, false));
    pair.send(0, Pair::message(512));
    assert!(gives_up(&mut pair.ends[0]));
}

#[test]
fn the_last_message_before_a_silence_is_never_sent_again() {
    let mut pair = Pair::new();
    for number in 0..100 {
        pair.send(0, Pair::message(number));
        pair.send(1, Packet::reliable_unordered(PEER, Vec::new()));
        pair.pass(|packet| packet.ends_with(&99_u32.to_be_bytes()));
    }
    for _ in 0..1_000 {
        pair.send(1, Packet::reliable_unordered(PEER, Vec::new()));
        pair.pass(|_| false);
    }
    assert_eq!(pair.received, 99);
}
