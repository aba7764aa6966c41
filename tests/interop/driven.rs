//! Our ends of protocols in user space, over a socket by hand.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use deadheat::contract::{Lane, Service, Side};
use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::transport::userspace::{Opening, Protocol, Received, Rest, State};
use deadheat::transport::{Contender, Tickets};

use crate::other::Other;
use crate::ours::{HELLO, LONG};

/// What another end puts around each datagram.
pub(crate) trait Wrapping {
    /// Wraps a datagram that leaves.
    fn wrap(&mut self, datagram: Vec<u8>) -> Vec<u8>;

    /// Unwraps one that came.
    fn unwrap(&mut self, datagram: Vec<u8>) -> Vec<u8>;
}

/// Nothing around it.
struct Bare;

impl Wrapping for Bare {
    fn wrap(&mut self, datagram: Vec<u8>) -> Vec<u8> {
        datagram
    }

    fn unwrap(&mut self, datagram: Vec<u8>) -> Vec<u8> {
        datagram
    }
}

/// One datagram in how many a lossy path loses, of both directions together.
const LOSSY: usize = 13;

/// A protocol over a socket, by hand.
pub(crate) struct Driven {
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) socket: UdpSocket,
    peer: Option<SocketAddr>,
    wrapping: Box<dyn Wrapping>,
    /// Pieces of byte streams or whole messages, with their lanes.
    pub(crate) came: Vec<(u16, Vec<u8>)>,
    /// One datagram in how many is lost.
    pub(crate) loses: Option<usize>,
    carried: usize,
}

impl Driven {
    /// Opens one end, for messages of at most `largest` bytes; the near one dials `peer`.
    pub(crate) fn open(
        contender: &str,
        lanes: &[Service],
        largest: usize,
        peer: Option<SocketAddr>,
    ) -> Driven {
        let contender = Contender::parse(contender).unwrap();
        let side = if peer.is_some() { Side::Near } else { Side::Far };
        let opening = Opening {
            side,
            token: HELLO.token,
            knobs: &contender.knobs,
            lanes,
            largest_message: largest,
            mtu: 1_500,
            ip_header: 20,
            tickets: &Tickets::default(),
        };
        let mut protocol = contender.transport.userspace().unwrap().open(&opening).unwrap();
        // A near end with a handshake is due at once.
        if protocol.next_deadline() == Some(Nanos::ZERO) {
            protocol.on_deadline(Monotonic.now());
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let wrapping = Box::new(Bare);
        Driven { protocol, socket, peer, wrapping, came: Vec::new(), loses: None, carried: 0 }
    }

    /// The same end on a path that loses one datagram in [`LOSSY`].
    pub(crate) fn lossy(self) -> Driven {
        Driven { loses: Some(LOSSY), ..self }
    }

    /// The same end with something around each datagram.
    pub(crate) fn wrapped(self, wrapping: impl Wrapping + 'static) -> Driven {
        Driven { wrapping: Box::new(wrapping), ..self }
    }

    pub(crate) fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// Whether the path loses the next datagram.
    fn is_lost(&mut self) -> bool {
        self.carried += 1;
        self.loses.is_some_and(|one_in| self.carried.is_multiple_of(one_in))
    }

    /// Sends what is to leave, and takes what has come.
    pub(crate) fn step(&mut self) {
        let mut datagram = Vec::new();
        while self.protocol.transmit(Monotonic.now(), 1, &mut datagram).is_some() {
            let wrapped = self.wrapping.wrap(std::mem::take(&mut datagram));
            if !self.is_lost() {
                self.socket.send_to(&wrapped, self.peer.unwrap()).unwrap();
            }
        }
        let mut room = [0; 65_536];
        if let Ok((len, from)) = self.socket.recv_from(&mut room)
            && !self.is_lost()
        {
            self.peer = Some(from);
            let datagram = self.wrapping.unwrap(room[..len].to_vec());
            self.protocol.handle(Received::plain(Monotonic.now(), &datagram));
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

    /// Goes on until something is so.
    #[track_caller]
    pub(crate) fn until(&mut self, mut is_so: impl FnMut(&mut Driven) -> bool) {
        let deadline = Monotonic.now() + LONG;
        while !is_so(self) {
            assert!(Monotonic.now() < deadline, "it hangs");
            self.step();
        }
    }

    /// Writes bytes as soon as there is room for them.
    #[track_caller]
    pub(crate) fn write(&mut self, lane: u16, bytes: &[u8]) {
        self.until(|end| end.protocol.room(Lane(lane)) >= bytes.len());
        self.protocol.write(Monotonic.now(), Lane(lane), bytes, Rest::Kept).unwrap();
    }

    /// Sends each message on each of the lanes, and checks that it comes back there before the next one goes.
    #[track_caller]
    pub(crate) fn is_answered(&mut self, lanes: std::ops::Range<u16>, lengths: &[usize]) {
        for (number, len) in lengths.iter().enumerate() {
            for lane in lanes.clone() {
                let message = crate::content(number, *len);
                self.write(lane, &message);
                self.until(|end| !end.came.is_empty());
                let came = std::mem::take(&mut self.came);
                assert!(came == [(lane, message)], "message {number} on lane {lane}");
            }
        }
    }

    /// Sends back what came.
    pub(crate) fn answer(&mut self) {
        for (lane, bytes) in std::mem::take(&mut self.came) {
            self.write(lane, &bytes);
        }
    }

    /// Sends back what comes until the other end is done; what that says last.
    pub(crate) fn answers(&mut self, other: Other) -> String {
        self.answers_with(other, |_| {})
    }

    /// The same, with something else to do in each turn.
    pub(crate) fn answers_with(
        &mut self,
        mut other: Other,
        also: impl FnMut(&mut Driven),
    ) -> String {
        self.answers_while(|| other.child.try_wait().unwrap().is_none(), also);
        other.end()
    }

    /// Sends back what comes as long as `goes_on`, with something else to do in each turn.
    pub(crate) fn answers_while(
        &mut self,
        mut goes_on: impl FnMut() -> bool,
        mut also: impl FnMut(&mut Driven),
    ) {
        let deadline = Monotonic.now() + LONG;
        while goes_on() {
            assert!(Monotonic.now() < deadline, "it hangs");
            self.step();
            self.answer();
            also(self);
        }
    }
}

/// A UDP port of this host that nobody has.
pub(crate) fn free_port() -> u16 {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
