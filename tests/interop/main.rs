//! Our ends of `enet`, `ws` and `wss` with ends of other people's libraries, which speak the protocol and know nothing of
//! us: content goes both ways and is checked.
//!
//! Needs Debian's `python3-enet` and `python3-websockets`; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use deadheat::contract::{Inbox, Lane, Patience, Service, Side};
use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::transport::door::Door;
use deadheat::transport::hello::{Hello, Token};
use deadheat::transport::userspace::{Opening, Protocol, State};
use deadheat::transport::{Conn, Contender, Dial, Endpoint, Listen, Progress};

const HELLO: Hello = Hello { token: Token::from_bytes([7; 16]), flow: 0 };
const LONG: Nanos = Nanos::from_secs(30);
const LARGEST: usize = 100_000;

/// Debian's, which has Debian's modules.
const PYTHON: &str = "/usr/bin/python3";

/// Whether the module is there.
fn has(module: &str) -> bool {
    let found = Command::new(PYTHON)
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        println!("skipped: `python3-{module}` is not installed (make test installs it)");
    }
    found
}

/// The other end, which is stopped with the test.
struct Other {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Other {
    fn start(script: &str, args: &[&str]) -> Other {
        let file = format!("{}/tests/interop/{script}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(PYTHON);
        let mut child = command.arg(file).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Other { child, says }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// What it says last.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest.trim().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (number * 197 + i * 31 + (i >> 8)) as u8).collect()
}

/// A protocol over a socket, by hand.
struct Driven {
    protocol: Box<dyn Protocol>,
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    came: Vec<(u16, Vec<u8>)>,
}

/// The lanes of the ENet tests: the last one is of best effort.
const LANES: [Service; 4] =
    [Service::ORDERED, Service::ORDERED, Service::ORDERED, Service::BEST_EFFORT];

impl Driven {
    fn open(side: Side, peer: Option<SocketAddr>) -> Driven {
        let contender = Contender::parse("enet").unwrap();
        let opening = Opening {
            side,
            token: HELLO.token,
            knobs: &contender.knobs,
            lanes: &LANES,
            largest_message: LARGEST,
            mtu: 1_500,
            ip_header: 20,
            tickets: &deadheat::transport::Tickets::default(),
        };
        let mut protocol = contender.transport.userspace().unwrap().open(&opening).unwrap();
        if side == Side::Near {
            protocol.start(Monotonic.now());
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        Driven { protocol, socket, peer, came: Vec::new() }
    }

    /// Sends what is to leave, and takes what has come.
    fn step(&mut self) {
        let mut datagram = Vec::new();
        while self.protocol.transmit(Monotonic.now(), 1, &mut datagram).is_some() {
            self.socket.send_to(&datagram, self.peer.unwrap()).unwrap();
            datagram.clear();
        }
        let mut room = [0; 65_536];
        if let Ok((len, from)) = self.socket.recv_from(&mut room) {
            self.peer = Some(from);
            self.protocol.handle(Monotonic.now(), &room[..len]);
        }
        let now = Monotonic.now();
        if self.protocol.next_deadline().is_some_and(|due| due <= now) {
            self.protocol.on_deadline(now);
        }
        self.protocol.read(now, &mut |lane, bytes| {
            self.came.push((lane.0, bytes.to_vec()));
            bytes.len()
        });
        let State::Closed(why) = self.protocol.state() else { return };
        panic!("{why}");
    }

    fn until(&mut self, mut is_so: impl FnMut(&mut Driven) -> bool) {
        let deadline = Monotonic.now() + LONG;
        while !is_so(self) {
            assert!(Monotonic.now() < deadline, "it hangs");
            self.step();
        }
    }
}

#[test]
fn enet_in_c_answers_us() {
    if !has("enet") {
        return;
    }
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut other = Other::start("peer_enet.py", &["listen", &free.port().to_string()]);
    assert_eq!(other.line(), "ready");
    let mut near = Driven::open(Side::Near, Some(free));
    near.until(|near| near.protocol.state() == State::Open);
    for (number, len) in [1, 100, 1_400, 5_000, 100_000, 20, 3_000].into_iter().enumerate() {
        for lane in 0..3 {
            let message = content(number, len);
            near.until(|near| near.protocol.room(Lane(lane)) >= len);
            near.protocol.write(Monotonic.now(), Lane(lane), &message).unwrap();
            near.until(|near| near.came.contains(&(lane, message.clone())));
        }
    }
    // On loopback nothing is lost that is not sent faster than it is read.
    near.came.clear();
    for number in 0..10 {
        let message = content(number, 1_000);
        near.protocol.write(Monotonic.now(), Lane(3), &message).unwrap();
        near.until(|near| near.came.contains(&(3, message.clone())));
    }
    near.until(|near| near.protocol.is_drained());
    assert_eq!(near.came.len(), 10);
}

#[test]
fn enet_in_c_is_answered_by_us() {
    if !has("enet") {
        return;
    }
    let mut far = Driven::open(Side::Far, None);
    let port = far.socket.local_addr().unwrap().port();
    let mut other = Other::start("peer_enet.py", &["dial", &port.to_string()]);
    let deadline = Monotonic.now() + LONG;
    while other.child.try_wait().unwrap().is_none() {
        assert!(Monotonic.now() < deadline, "it hangs");
        far.step();
        for (lane, message) in std::mem::take(&mut far.came) {
            far.until(|far| far.protocol.room(Lane(lane)) >= message.len());
            far.protocol.write(Monotonic.now(), Lane(lane), &message).unwrap();
        }
    }
    assert_eq!(other.end(), "all came back");
}

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Inbox for Kept {
    fn message(&mut self, _: Lane, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}

/// Sends a message whole.
fn send(conn: &mut dyn Conn, message: &[u8]) {
    while conn.send(Lane(0), message).unwrap() != Progress::Moved {}
    while conn.has_backlog() {
        conn.flush().unwrap();
    }
}

#[test]
fn websockets_in_python_answer_us() {
    if !has("websockets") {
        return;
    }
    let mut other = Other::start("peer_websocket.py", &["listen"]);
    let port: u16 = other.line().parse().unwrap();
    let contender = Contender::parse("ws").unwrap();
    let to = &Endpoint::Ip((Ipv4Addr::LOCALHOST, port).into());
    let (knobs, lanes) = (&contender.knobs, &[Service::ORDERED][..]);
    let dial = Dial {
        to,
        hello: HELLO,
        knobs,
        lanes,
        largest_message: LARGEST,
        timeout: LONG,
        tickets: &deadheat::transport::Tickets::default(),
    };
    let mut near = contender.transport.dial(&dial).unwrap();
    let mut kept = Kept::default();
    for (number, len) in [1, 125, 126, 65_535, 65_536, LARGEST].into_iter().enumerate() {
        send(&mut *near, &content(number, len));
        while kept.0.len() <= number {
            near.receive(Patience::Block, &mut kept).unwrap();
        }
        assert!(kept.0[number] == content(number, len), "message {number}");
    }
    near.finish().unwrap();
    while near.receive(Patience::Block, &mut kept).unwrap() != Progress::Closed {}
    drop(near);
    assert_eq!(other.end(), "closed with 1000");
}

/// Answers a client over plain or encrypted connections.
fn answer(id: &str, mode: &str) {
    if !has("websockets") {
        return;
    }
    let contender = Contender::parse(id).unwrap();
    let at = &Endpoint::Ip((Ipv4Addr::LOCALHOST, 0).into());
    let (knobs, lanes) = (&contender.knobs, &[Service::ORDERED][..]);
    let (token, door) = (HELLO.token, Door::Own);
    let listen = Listen {
        at,
        token,
        knobs,
        lanes,
        largest_message: LARGEST,
        door,
        tickets: deadheat::transport::Tickets::default(),
    };
    let mut listener = contender.transport.listen(listen).unwrap();
    let Endpoint::Ip(address) = listener.endpoint() else { panic!("no address") };
    let hello: String = HELLO.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let other = Other::start("peer_websocket.py", &[mode, &address.port().to_string(), &hello]);
    let (_, mut far) = listener.accept(LONG).unwrap();
    let mut kept = Kept::default();
    let mut progress = Progress::Idle;
    while progress != Progress::Closed {
        progress = far.receive(Patience::Block, &mut kept).unwrap();
        for message in kept.0.drain(..) {
            send(&mut *far, &message);
        }
    }
    // Its close has been answered; the end of the byte stream comes with ours.
    drop(far);
    assert_eq!(other.end(), "all came back, closed with 1000");
}

#[test]
fn websockets_in_python_are_answered_by_us() {
    answer("ws", "dial");
}

#[test]
fn websockets_over_tls_in_python_are_answered_by_us() {
    answer("wss", "dial-tls");
}
