//! A group over the sockets of this host.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use super::super::{Multicast, group_of};
use super::tag;
use crate::multicast::wire;
use crate::testing::Kept;
use deadheat_base::spec::{Settings, Spec};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Lane, Patience, Service};
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::hello::{Hello, Token};
use deadheat_datapath::transport::{Address, Conn, Dial, Listen, Progress, Tickets, Transport};

const LARGEST: usize = 3_000;

fn knobs(typed: &str) -> Settings {
    Settings::check(&Spec::parse(typed).unwrap(), Multicast.info().keys).unwrap()
}

fn message(n: usize) -> Vec<u8> {
    (0..1 + n * 37 % LARGEST).map(|at| (n + at) as u8).collect()
}

/// Runs a receiver in a thread; returns its address, and the bytes that it got.
fn receiver(
    token: Token,
    typed: &'static str,
    stop: Receiver<()>,
) -> (Address, JoinHandle<Vec<Vec<u8>>>) {
    let (tell, told) = channel();
    let thread = thread::spawn(move || {
        let knobs = knobs(typed);
        let listen = Listen {
            at: &Address::Ip(SocketAddr::from(([127, 0, 0, 1], 0))),
            token,
            knobs: &knobs,
            lanes: &[Service::ORDERED],
            largest_message: LARGEST,
            door: ConnectionSource::Own,
            tickets: Tickets::default(),
        };
        let mut listener = Multicast.listen(listen).unwrap();
        tell.send(listener.endpoint()).unwrap();
        let (_, mut conn) = listener.accept(Nanos::from_secs(10)).unwrap();
        let mut kept = Kept::default();
        while conn.receive(Patience::Block, &mut kept).unwrap() != Progress::Closed {
            conn.on_deadline(Monotonic.now()).unwrap();
        }
        // Its last answer may have been lost, so it stays as long as the sender.
        while stop.try_recv().is_err() {
            conn.receive(Patience::Block, &mut kept).unwrap();
            conn.on_deadline(Monotonic.now()).unwrap();
        }
        kept.0
    });
    (told.recv().unwrap(), thread)
}

fn dial(
    token: Token,
    knobs: &Settings,
    to: Vec<Address>,
) -> deadheat_base::error::Result<Box<dyn Conn>> {
    Multicast.dial(&Dial {
        to: &Address::Several(to),
        hello: Hello { token, flow: 0 },
        knobs,
        lanes: &[Service::ORDERED],
        largest_message: LARGEST,
        timeout: Nanos::from_secs(10),
        tickets: &Tickets::default(),
    })
}

#[test]
fn each_receiver_gets_every_message_and_strangers_on_the_group_change_nothing() {
    const COUNT: usize = 300;
    for (seed, typed) in [(41, "multicast:window=20kB"), (42, "multicast:repair=go-back-n,cc=none")]
    {
        let token = Token::from_bytes([seed; 16]);
        let (stops, all): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| {
                let (stop, stopped) = channel();
                (stop, receiver(token, typed, stopped))
            })
            .unzip();
        let (to, threads): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let knobs = knobs(typed);
        let mut conn = dial(token, &knobs, to.clone()).unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut forged = Vec::new();
        let data = wire::DataPacket {
            number: 2,
            serial: 1 << 40,
            asks: false,
            ends: true,
            bytes: b"forged",
        };
        wire::write_data(tag(), &data, &mut forged);
        let mut sent = 0;
        while sent < COUNT {
            // The first has another trial's tag, and neither has the sender's address.
            let _ = stranger.send_to(&forged, group_of(&token));
            if let Address::Ip(at) = to[sent % 3] {
                let _ = stranger.send_to(&forged, at);
            }
            if conn.send(Lane(0), &message(sent)).unwrap() == Progress::Moved {
                sent += 1;
            }
            conn.on_deadline(Monotonic.now()).unwrap();
        }
        conn.finish().unwrap();
        while !conn.is_drained() {
            conn.receive(Patience::Block, &mut Kept::default()).unwrap();
            conn.on_deadline(Monotonic.now()).unwrap();
        }
        let expected: Vec<Vec<u8>> = (0..COUNT).map(message).collect();
        stops.iter().for_each(|stop| stop.send(()).unwrap());
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected, "{typed}");
        }
        let effective = conn.effective();
        let repair = if typed.contains("go-back-n") { "go-back-n" } else { "selective" };
        assert_eq!(effective["repair"], repair);
        assert!(conn.info().stats.headers.unwrap().packets.unwrap() > 0);
    }
}

#[test]
fn what_is_no_group_of_ipv4_is_refused_in_words() {
    let token = Token::from_bytes([43; 16]);
    let refused = |to| dial(token, &knobs("multicast"), to).err().unwrap().to_string();
    let six = Address::Ip("[::1]:9".parse().unwrap());
    assert!(refused(vec![six]).contains("IPv6"));
    assert!(refused(Vec::new()).contains("there are none"));
    assert!(refused(vec![Address::Unix("a".into())]).contains("IP address"));
}
