//! Connections for the tests of transports.

use std::net::{TcpListener, TcpStream};
use std::thread;

use deadheat_base::error::Result;
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Inbox, Lane, Service};
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::hello::{Hello, Token};
use deadheat_datapath::transport::{Address, Conn, Dial, Listen, Listener, Tickets, Transport};

/// Token and flow of a connection.
pub(crate) const HELLO: Hello = Hello { token: Token::from_bytes([3; 16]), flow: 7 };

/// Longer than anything here takes; only a failing test waits for it.
pub(crate) const LONG: Nanos = Nanos::from_secs(60);

/// Returns both ends of a TCP connection over loopback.
pub(crate) fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [near, listener.accept().unwrap().0]
}

/// Reads a contender as it is typed; returns its knobs.
pub(crate) fn knobs(typed: &str, keys: &'static [Key]) -> Settings {
    Settings::check(&Spec::parse(typed).unwrap(), keys).unwrap()
}

/// Opener of the ends of connections.
#[derive(Clone, Copy)]
pub(crate) struct ConnRig<'a> {
    pub(crate) transport: &'a dyn Transport,
    pub(crate) knobs: &'a Settings,
    pub(crate) lanes: &'a [Service],
    pub(crate) largest_message: usize,
    pub(crate) hello: Hello,
}

impl<'a> ConnRig<'a> {
    /// Returns an opener of connections with one ordered lane.
    pub(crate) fn ordered(
        transport: &'a dyn Transport,
        knobs: &'a Settings,
        largest_message: usize,
    ) -> ConnRig<'a> {
        ConnRig { transport, knobs, lanes: &[Service::ORDERED], largest_message, hello: HELLO }
    }

    /// Returns an opener of connections with one lane that may lose messages.
    pub(crate) fn best_effort(
        transport: &'a dyn Transport,
        knobs: &'a Settings,
        largest_message: usize,
    ) -> ConnRig<'a> {
        let lanes = &[Service::BEST_EFFORT];
        ConnRig { lanes, ..ConnRig::ordered(transport, knobs, largest_message) }
    }

    pub(crate) fn listen(&self, at: &Address, door: ConnectionSource) -> Result<Box<dyn Listener>> {
        let ConnRig { transport, knobs, lanes, largest_message, hello } = *self;
        let (token, tickets) = (hello.token, Tickets::default());
        transport.listen(Listen { at, token, knobs, lanes, largest_message, door, tickets })
    }

    pub(crate) fn dial(&self, to: &Address, timeout: Nanos) -> Result<Box<dyn Conn>> {
        let ConnRig { transport, knobs, lanes, largest_message, hello } = *self;
        let tickets = &Tickets::default();
        transport.dial(&Dial { to, hello, knobs, lanes, largest_message, timeout, tickets })
    }

    /// Returns the near and the far end of a connection whose listener is at `at`.
    pub(crate) fn ends(&self, at: &Address) -> [Box<dyn Conn>; 2] {
        let mut listener = self.listen(at, ConnectionSource::Own).unwrap();
        let to = listener.endpoint();
        thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(LONG).unwrap());
            let near = self.dial(&to, LONG).unwrap();
            let (flow, far) = far.join().unwrap();
            assert_eq!(flow, self.hello.flow);
            [near, far]
        })
    }
}

/// Messages that arrived.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Vec<Vec<u8>>);

impl Inbox for Kept {
    fn message(&mut self, _: Lane, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}
