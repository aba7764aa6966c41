use std::net::{SocketAddr, UdpSocket};

use super::super::option::{is_ipv6, path_mtu};
use super::*;
use deadheat_base::ecn::Codepoint;

pub(super) fn pair(address: &str) -> (DatagramSocket, DatagramSocket) {
    let a = UdpSocket::bind(address).unwrap();
    let b = UdpSocket::bind(address).unwrap();
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (DatagramSocket::new(a.into()).unwrap(), DatagramSocket::new(b.into()).unwrap())
}

/// Writes `number` at both ends of a message, so that a cut in the wrong place shows.
fn mark(slot: &mut [u8], number: u32) {
    let at = slot.len() - 4;
    slot[..4].copy_from_slice(&number.to_be_bytes());
    slot[at..].copy_from_slice(&number.to_be_bytes());
}

fn marked(message: &[u8]) -> u32 {
    let head = u32::from_be_bytes(message[..4].try_into().unwrap());
    assert_eq!(message[message.len() - 4..], head.to_be_bytes());
    head
}

fn room(messages: usize, batch: usize) -> Room {
    Room { messages, batch }
}

/// Creates both ends of a pair, each addressing the other on each call.
fn addressed(address: &str) -> (DatagramSocket, DatagramSocket) {
    let a = UdpSocket::bind(address).unwrap();
    let b = UdpSocket::bind(address).unwrap();
    let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
    let to = |socket: UdpSocket, peer: SocketAddr| {
        DatagramSocket::with_peer(socket.into(), Peer::Addressed(peer.into())).unwrap()
    };
    (to(a, at_b), to(b, at_a))
}

type Pair = (DatagramSocket, DatagramSocket);

/// Sends 100 messages in turns of 40 and returns their numbers and the calls it took.
fn through((mut a, mut b): Pair, io: SendEngine, rx: ReceiveEngine) -> (Vec<u32>, u64, u64) {
    let mut out = SendBatch::new(&a, 1_000, room(40, 64), io).unwrap();
    let mut into = ReceiveBatch::new(&b, 8, 1_000, rx).unwrap();
    let mut got = Vec::new();
    let mut next = 0;
    while next < 100 {
        let turn = (next + 40).min(100);
        while next < turn {
            out.fill((turn - next) as usize, |slot| {
                mark(slot, next);
                next += 1;
            });
            while out.waiting() > 0 {
                out.send(&mut a).unwrap();
            }
        }
        while got.len() < next as usize {
            into.receive(&mut b, Patience::Block).unwrap();
            into.each(|message| {
                assert_eq!(message.len(), 1_000);
                got.push(marked(message));
            });
        }
    }
    assert_eq!(b.drops(), Some(0));
    (got, a.send_calls(), b.receive_calls())
}

/// Returns true if either engine is io_uring, which has a test of its own.
fn ring(io: SendEngine, rx: ReceiveEngine) -> bool {
    io.is_ring() || rx.is_ring()
}

#[test]
fn every_message_arrives_whole_where_either_end_is_io_uring() {
    if let Err(why) = super::super::uring::check() {
        println!("skipped: {why}");
        return;
    }
    let want: Vec<u32> = (0..100).collect();
    let named = |(io, rx)| (SendEngine::named(io).unwrap(), ReceiveEngine::named(rx).unwrap());
    let with =
        SendEngine::WORDS.iter().flat_map(|io| ReceiveEngine::WORDS.iter().map(|rx| (*io, *rx)));
    let with: Vec<_> = with.map(named).filter(|(io, rx)| ring(*io, *rx)).collect();
    assert_eq!(with.len(), 5 + 4);
    for (io, rx) in with {
        let (got, sends, receives) = through(pair("127.0.0.1:0"), io, rx);
        assert_eq!(got, want, "{io:?} {rx:?}");
        // Turns of 40, 40 and 20 messages, at most 16 a call.
        let expected = if io.is_ring() {
            3 + 3 + 2
        } else if io == SendEngine::Send {
            100
        } else {
            3
        };
        assert_eq!(sends, expected, "{io:?}");
        assert!((3..=100).contains(&receives), "{rx:?}: {receives}");
    }
}

#[test]
fn a_refusal_behind_datagrams_that_went_is_told_by_the_next_call() {
    let (mut a, b) = pair("127.0.0.1:0");
    let Ok(mut out) = SendBatch::new(&a, 100, room(4, 64), SendEngine::Uring) else {
        println!("skipped: no io_uring here");
        return;
    };
    drop(b);
    let mut errors = 0;
    let mut sent = 0;
    for _ in 0..5 {
        out.fill(4, |_| ());
        while out.waiting() > 0 {
            match out.send(&mut a) {
                Ok(many) => sent += many,
                Err(error) => {
                    assert!(is_network_error(&error), "{error}");
                    errors += 1;
                }
            }
        }
    }
    assert_eq!(sent, 20);
    assert!(errors > 0, "a closed port was never told of");
}

#[test]
fn every_message_arrives_whole_whichever_engines_move_it() {
    let want: Vec<u32> = (0..100).collect();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for ends in [pair, addressed] {
            for io in SendEngine::WORDS {
                for rx in ReceiveEngine::WORDS {
                    let (io, rx) =
                        (SendEngine::named(io).unwrap(), ReceiveEngine::named(rx).unwrap());
                    if ring(io, rx) {
                        continue;
                    }
                    let (got, sends, receives) = through(ends(address), io, rx);
                    assert_eq!(got, want, "{address} {io:?} {rx:?}");
                    assert_eq!(sends, if io == SendEngine::Send { 100 } else { 3 });
                    let want = match (io.segments() && rx.coalesces(), rx.batches()) {
                        (true, _) => 3,
                        (false, true) => 5 + 5 + 3,
                        (false, false) => 100,
                    };
                    assert_eq!(receives, want, "{address} {io:?} {rx:?}");
                }
            }
        }
    }
}

#[test]
fn engines_are_known_by_their_names() {
    assert!(SendEngine::WORDS.iter().all(|word| SendEngine::named(word).unwrap().word() == *word));
    let words = ReceiveEngine::WORDS;
    assert!(words.iter().all(|word| ReceiveEngine::named(word).unwrap().word() == *word));
    assert_eq!((SendEngine::named("gro"), ReceiveEngine::named("gso")), (None, None));
}

#[test]
fn a_batch_takes_no_more_than_the_kernel_does() {
    let (mut a, mut b) = pair("[::1]:0");
    for (size, most) in [(100, 64), (1_400, 46), (40_000, 1)] {
        let mut into = ReceiveBatch::new(&b, 2, size, ReceiveEngine::GroRecvMmsg).unwrap();
        let mut out = SendBatch::new(&a, size, room(1_000, 64), SendEngine::Gso).unwrap();
        assert_eq!((out.capacity(), out.buffers()), (most, 1));
        out.fill(1_000, |slot| mark(slot, 7));
        assert_eq!(out.send(&mut a).unwrap(), most);
        into.receive(&mut b, Patience::Block).unwrap();
        let mut n = 0;
        into.each(|message| n += usize::from(message.len() == size));
        assert_eq!(n, most);
        assert_eq!(into.datagrams_per_drop(), most as u64);
    }
}

#[test]
fn a_call_of_many_buffers_ends_with_one_filled_in_part() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    b.socket().set_recv_buffer_size(1 << 20).unwrap();
    let mut into = ReceiveBatch::new(&b, 8, 1_400, ReceiveEngine::Gro).unwrap();
    let mut out = SendBatch::new(&a, 1_400, room(93, 64), SendEngine::GsoSendMmsg).unwrap();
    assert_eq!((out.capacity(), out.buffers()), (92, 2));
    for (messages, buffers) in [(50, 2), (92, 2), (3, 1)] {
        let mut next = 0;
        out.fill(messages, |slot| {
            mark(slot, next);
            next += 1;
        });
        assert_eq!(out.send(&mut a).unwrap(), messages);
        let mut got = Vec::new();
        for _ in 0..buffers {
            into.receive(&mut b, Patience::Block).unwrap();
            into.each(|message| got.push(marked(message)));
        }
        assert_eq!(got, (0..messages as u32).collect::<Vec<_>>());
    }
    assert_eq!(a.send_calls(), 3);
    // Few messages a call make one short buffer, and a small batch few buffers.
    let shape = |messages, batch| {
        let out =
            SendBatch::new(&a, 1_400, room(messages, batch), SendEngine::GsoSendMmsg).unwrap();
        (out.capacity(), out.buffers())
    };
    assert_eq!((shape(5, 64), shape(1_000, 3)), ((5, 1), (138, 3)));
}

#[test]
fn a_batch_can_stop_segmenting_with_messages_waiting() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    let mut out = SendBatch::new(&a, 100, room(3, 64), SendEngine::Gso).unwrap();
    let mut next = 0;
    out.fill(9, |slot| {
        mark(slot, next);
        next += 1;
    });
    assert_eq!(out.waiting(), 3);
    out.stop_segmenting(&a).unwrap();
    assert_eq!(out.send(&mut a).unwrap(), 3);
    let mut buffer = [0; 200];
    for n in 0..3 {
        assert_eq!(b.receive(Patience::Block, &mut buffer).unwrap(), 100);
        assert_eq!(marked(&buffer[..100]), n);
    }
    let nothing = b.receive(Patience::None, &mut buffer).unwrap_err();
    assert!(is_full(&nothing));
}

#[test]
fn what_the_buffer_has_no_room_for_is_counted() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    b.socket().set_recv_buffer_size(16_384).unwrap();
    let sent: u64 = 200;
    for _ in 0..sent {
        a.send(&[1; 1_000]).unwrap();
    }
    let mut got = 0;
    let mut buffer = [0; 1_001];
    while b.receive(Patience::None, &mut buffer).is_ok() {
        got += 1;
    }
    assert!(got > 0 && got < sent);
    assert_eq!(b.drops(), Some(sent - got));
}

#[test]
fn a_dropped_coalesced_buffer_counts_once_and_is_scaled() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    b.socket().set_recv_buffer_size(100_000).unwrap();
    let mut into = ReceiveBatch::new(&b, 4, 1_000, ReceiveEngine::GroRecvMmsg).unwrap();
    assert_eq!(into.datagrams_per_drop(), 1);
    let mut out = SendBatch::new(&a, 1_000, room(40, 1), SendEngine::Gso).unwrap();
    for _ in 0..20 {
        out.fill(40, |_| ());
        assert_eq!(out.send(&mut a).unwrap(), 40);
    }
    let mut got = 0;
    while into.receive(&mut b, Patience::None).is_ok() {
        into.each(|_| got += 1);
    }
    assert!(got > 0 && got < 800);
    assert_eq!(into.datagrams_per_drop(), 40);
    assert_eq!(got + b.drops().unwrap() * into.datagrams_per_drop(), 800);
}

#[test]
fn what_came_before_coalescing_does_not_count_towards_the_average() {
    let (mut a, mut b) = pair("[::1]:0");
    let mut out = SendBatch::new(&a, 100, room(40, 1), SendEngine::Gso).unwrap();
    let mut send = |n| {
        out.fill(n, |slot| slot.fill(1));
        assert_eq!(out.send(&mut a).unwrap(), n);
    };
    send(40);
    let mut into = ReceiveBatch::new(&b, 64, 100, ReceiveEngine::GroRecvMmsg).unwrap();
    [40, 40, 1].into_iter().for_each(&mut send);
    assert_eq!(into.receive(&mut b, Patience::Block).unwrap(), 40 + 3);
    let mut got = 0;
    into.each(|_| got += 1);
    assert_eq!((got, into.datagrams_per_drop()), (121, 40));
}

#[test]
fn an_overlong_datagram_shows_by_its_length() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    let mut into = ReceiveBatch::new(&b, 2, 64, ReceiveEngine::RecvMmsg).unwrap();
    a.send(&[1; 500]).unwrap();
    assert_eq!(into.receive(&mut b, Patience::Block).unwrap(), 1);
    into.each(|message| assert_eq!(message.len(), 65));
}

#[test]
fn a_closed_port_is_a_network_error() {
    let gone: SocketAddr = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let a = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.connect(gone).unwrap();
    let mut a = DatagramSocket::new(a.into()).unwrap();
    a.send(b"anyone?").unwrap();
    let error = a.send(b"anyone?").unwrap_err();
    assert!(is_network_error(&error) && !is_full(&error));
}

#[test]
fn a_message_beyond_the_path_mtu_is_seen_beforehand() {
    let (a, b) = pair("127.0.0.1:0");
    // Loopback's 65,536, limited to the largest IPv4 packet.
    assert_eq!(path_mtu(a.socket()), Some(65_535));
    assert!(!is_ipv6(b.socket()));
    probe_segmentation(a.as_fd()).unwrap();
    probe_coalescing(a.as_fd()).unwrap();
}

#[test]
fn codepoints_arrive_as_they_were_sent_and_no_buffer_has_two() {
    let sent = [
        (Codepoint::NotEct, 2),
        (Codepoint::Ect0, 3),
        (Codepoint::Ce, 1),
        (Codepoint::Ect1, 1),
        (Codepoint::NotEct, 1),
    ];
    let each: Vec<Codepoint> = sent.iter().flat_map(|(point, n)| vec![*point; *n]).collect();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for (segments, rx) in [(true, ReceiveEngine::Gro), (false, ReceiveEngine::Recv)] {
            let (mut a, mut b) = pair(address);
            let mut into = ReceiveBatch::new(&b, 1, 1_000, rx).unwrap();
            into.read_codepoints(&b).unwrap();
            let mut out = Outgoing::new(segments);
            let mut left = sent.iter();
            out.fill(|_, bytes| {
                let (ecn, datagrams) = left.next()?;
                bytes.resize(bytes.len() + datagrams * 100, 7);
                Some(Transmit { segment: 100, ecn: *ecn })
            });
            out.send(&mut a, &mut 0).unwrap();
            // One call for each stretch of one codepoint.
            assert_eq!(a.send_calls(), sent.len() as u64, "{rx:?}");
            let mut got = Vec::new();
            while got.len() < each.len() {
                into.receive(&mut b, Patience::Block).unwrap();
                into.each_marked(|bytes, codepoint| {
                    assert_eq!(bytes, [7; 100]);
                    got.push(codepoint);
                });
            }
            assert_eq!(got, each, "{address} {rx:?}");
        }
    }
}
