//! Our ends of the kernel's transports, as agents open them.

use std::net::{Ipv4Addr, SocketAddr};

use deadheat::contract::{Inbox, Lane, Patience, Service};
use deadheat::time::Nanos;
use deadheat::transport::handover::ConnectionSource;
use deadheat::transport::hello::{Hello, Token};
use deadheat::transport::{Address, Conn, Contender, Dial, Listen, Listener, Progress, Tickets};

pub(crate) const HELLO: Hello = Hello { token: Token::from_bytes([7; 16]), flow: 0 };
/// Longer than anything here takes on a busy host; only a failing test waits for it.
pub(crate) const LONG: Nanos = Nanos::from_secs(120);
pub(crate) const LARGEST: usize = 100_000;

/// The hello in hexadecimal digits, for a script.
pub(crate) fn hello() -> String {
    HELLO.encode().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Dials a port of this host.
pub(crate) fn dial(contender: &str, port: u16) -> deadheat::Result<Box<dyn Conn>> {
    let contender = Contender::parse(contender).unwrap();
    contender.transport.dial(&Dial {
        to: &Address::Ip((Ipv4Addr::LOCALHOST, port).into()),
        hello: HELLO,
        knobs: &contender.knobs,
        lanes: &[Service::ORDERED],
        largest_message: LARGEST,
        timeout: LONG,
        tickets: &Tickets::default(),
    })
}

/// Listens on this host, at a port of the system's choice.
pub(crate) fn listen(contender: &str) -> (Box<dyn Listener>, SocketAddr) {
    let contender = Contender::parse(contender).unwrap();
    let listen = Listen {
        at: &Address::Ip((Ipv4Addr::LOCALHOST, 0).into()),
        token: HELLO.token,
        knobs: &contender.knobs,
        lanes: &[Service::ORDERED],
        largest_message: LARGEST,
        door: ConnectionSource::Own,
        tickets: Tickets::default(),
    };
    let listener = contender.transport.listen(listen).unwrap();
    let Address::Ip(address) = listener.endpoint() else { panic!("no address") };
    (listener, address)
}

/// Messages that came.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Vec<Vec<u8>>);

impl Inbox for Kept {
    fn message(&mut self, _: Lane, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}

/// Sends a message whole, and keeps what comes meanwhile: a peer that finds no room may read nothing either.
pub(crate) fn send(conn: &mut dyn Conn, message: &[u8], kept: &mut Kept) {
    while conn.send(Lane(0), message).unwrap() != Progress::Moved {
        conn.receive(Patience::None, kept).unwrap();
    }
    while conn.readiness().has_backlog {
        conn.flush().unwrap();
        conn.receive(Patience::None, kept).unwrap();
    }
}

/// Sends one message after the other, and checks that each comes back.
pub(crate) fn is_answered(conn: &mut dyn Conn, lengths: &[usize]) {
    let mut kept = Kept::default();
    for (number, len) in lengths.iter().enumerate() {
        let message = crate::content(number, *len);
        send(conn, &message, &mut kept);
        while kept.0.len() <= number {
            conn.receive(Patience::Block, &mut kept).unwrap();
        }
        assert!(kept.0[number] == message, "message {number}");
    }
}

/// Sends back what came with one call; how that ended.
pub(crate) fn answer_once(conn: &mut dyn Conn) -> Progress {
    let mut kept = Kept::default();
    let progress = conn.receive(Patience::Block, &mut kept).unwrap();
    while !kept.0.is_empty() {
        for message in std::mem::take(&mut kept).0 {
            send(conn, &message, &mut kept);
        }
    }
    progress
}

/// Sends each message back until the peer ends.
pub(crate) fn answer(conn: &mut dyn Conn) {
    while answer_once(conn) != Progress::Closed {}
}

/// Ends this direction, and waits for the end of the other.
pub(crate) fn part(conn: &mut dyn Conn, kept: &mut Kept) {
    conn.finish().unwrap();
    while conn.receive(Patience::Block, kept).unwrap() != Progress::Closed {}
}
