//! A client of the library against the server, in virtual time: datagrams are carried by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ReadError, StreamId, VarInt,
};

use super::PerfSetup;
use super::server::PerfServer;
use crate::responders::testing::TestHost;
use deadheat_base::time::Nanos;
use deadheat_datapath::datapath::answering::Arrived;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::identity::{self, HandshakeTerms, Resume, Tickets, TrustedName};
use deadheat_datapath::transport::responder::TestLimits;

/// Most steps of a test, each of which carries all datagrams one way and back.
const STEPS: u64 = 20_000;

fn address(port: u16) -> SocketAddr {
    ([198, 18, 0, 1], port).into()
}

fn arrived(len: usize) -> Arrived {
    Arrived { len, peer: address(4000), to: None, ttl: None, field: None, at_ns: None }
}

/// Client, and what it has seen.
struct Client {
    epoch: Instant,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// Bytes of UDP payload that it sent, and got.
    carried: [usize; 2],
    lost: Option<String>,
}

impl Client {
    fn dial(setup: &PerfSetup) -> Client {
        let (_, provider) = identity::provider(None);
        let name = TrustedName::with_pin("deadheat", Some(&setup.pin), &["perf"]).unwrap();
        let terms = HandshakeTerms {
            token: &Token::from_bytes([1; 16]),
            provider: &provider,
            resume: Resume::Off,
            gives_keys: false,
            alpn: "",
            certificate: None,
            others: Some(&name),
        };
        let tls = Tickets::default().client(&terms).unwrap();
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let epoch = Instant::now();
        let (handle, connection) =
            endpoint.connect(epoch, config, address(4433), "deadheat").unwrap();
        Client { epoch, endpoint, handle, connection, carried: [0; 2], lost: None }
    }

    fn instant(&self, at: Nanos) -> Instant {
        self.epoch + std::time::Duration::from(at)
    }

    /// Carries all datagrams to the server and back, at `at`.
    fn step(&mut self, server: &mut PerfServer<'_>, at: Nanos) {
        let now = self.instant(at);
        let mut back: Vec<Vec<u8>> = Vec::new();
        let mut datagram = Vec::new();
        self.connection.handle_timeout(now);
        while let Some(sent) = self.connection.poll_transmit(now, 1, &mut datagram) {
            let bytes = &datagram[..sent.size];
            self.carried[0] += bytes.len();
            server.handle(at, &arrived(bytes.len()), bytes, &mut |bytes, _| {
                back.push(bytes.to_vec());
            });
            datagram.clear();
        }
        server.turn(at, &mut |bytes, _| back.push(bytes.to_vec()));
        for bytes in back {
            self.carried[1] += bytes.len();
            let data = BytesMut::from(&bytes[..]);
            let event = self.endpoint.handle(now, address(4433), None, None, data, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.lost = Some(reason.to_string());
            }
        }
    }

    /// Steps until `done`, a millisecond each; returns the time.
    fn until(
        &mut self,
        server: &mut PerfServer<'_>,
        from: Nanos,
        mut done: impl FnMut(&mut Client) -> bool,
    ) -> Nanos {
        for step in 0..STEPS {
            let at = from + Nanos::from_millis(step);
            self.step(server, at);
            if done(self) {
                return at;
            }
        }
        panic!("it did not come to pass: {:?}", self.lost);
    }

    /// Opens a stream that brings `up` bytes and asks for `down`.
    fn ask(&mut self, dir: Dir, up: usize, down: u64) -> StreamId {
        let stream = self.connection.streams().open(dir).unwrap();
        let mut sending = self.connection.send_stream(stream);
        sending.write(&down.to_be_bytes()).unwrap();
        assert_eq!(sending.write(&vec![1; up]).unwrap_or(0), up);
        sending.finish().unwrap();
        stream
    }

    /// Reads a stream; returns the bytes, and true at its end.
    fn read(&mut self, stream: StreamId) -> (usize, bool) {
        let mut got = 0;
        let mut incoming = self.connection.recv_stream(stream);
        let Ok(mut chunks) = incoming.read(true) else { return (0, true) };
        let is_over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => got += chunk.bytes.len(),
                Ok(None) | Err(ReadError::Reset(_)) => break true,
                Err(ReadError::Blocked) => break false,
            }
        };
        let _ = chunks.finalize();
        (got, is_over)
    }
}

const START: Nanos = Nanos::from_secs(100);

fn opened<'h>(host: &'h TestHost, setup: &PerfSetup) -> (Client, PerfServer<'h>, Nanos) {
    let (mut client, mut server) = (Client::dial(setup), PerfServer::new(host, setup));
    let at = client.until(&mut server, START, |client| !client.connection.is_handshaking());
    (client, server, at)
}

#[test]
fn an_address_that_has_proved_nothing_gets_one_short_retry_and_takes_no_turn() {
    let (host, setup) = (TestHost::new(), PerfSetup::fresh().unwrap());
    let (mut client, mut server) = (Client::dial(&setup), PerfServer::new(&host, &setup));
    client.step(&mut server, START);
    let [sent, got] = client.carried;
    assert!(sent >= 1_200 && got > 0 && got < sent / 4, "{sent} {got}");
    assert_eq!(server.connections(), 0);
    // Garbage, packets of other versions and of connections that are none get nothing larger than they are.
    for len in 1..1_500_usize {
        for first in [0x40_u8, 0xc0, 0xff] {
            let datagram: Vec<u8> =
                (0..len).map(|at| if at == 0 { first } else { (at * 7) as u8 }).collect();
            server.handle(START, &arrived(len), &datagram, &mut |bytes, _| {
                assert!(bytes.len() <= len, "{} for {len}", bytes.len());
            });
        }
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn streams_of_both_kinds_are_drained_and_answered_with_as_many_bytes_as_they_ask_for() {
    let (host, setup) = (TestHost::new(), PerfSetup::fresh().unwrap());
    let (mut client, mut server, at) = opened(&host, &setup);
    let both = client.ask(Dir::Bi, 30_000, 100_000);
    let none = client.ask(Dir::Bi, 0, 0);
    let one_way = client.ask(Dir::Uni, 5, 70_000);
    let (mut got, mut ended) = ([0; 3], [false; 3]);
    let mut onto = None;
    let at = client.until(&mut server, at, |client| {
        onto = onto.or_else(|| client.connection.streams().accept(Dir::Uni));
        for (n, stream) in [Some(both), Some(none), onto].into_iter().enumerate() {
            let Some(stream) = stream.filter(|_| !ended[n]) else { continue };
            let (more, is_over) = client.read(stream);
            got[n] += more;
            ended[n] = is_over;
        }
        ended == [true; 3]
    });
    assert_eq!((got, one_way.dir()), ([100_000, 0, 70_000], Dir::Uni));
    assert!(host.has_said("QUIC perf started"));
    client.connection.close(client.instant(at), VarInt::from_u32(0), Bytes::new());
    client.until(&mut server, at, |_| host.has_said("turn returned"));
    let [sent, received] = *host.charged.lock().unwrap();
    assert!(sent > 170_000 && received > 30_000, "{sent} {received}");
    assert!(!host.has_said("failed"));
}

#[test]
fn an_answer_without_an_end_stops_when_the_client_stops_it() {
    let (host, setup) = (TestHost::new(), PerfSetup::fresh().unwrap());
    let (mut client, mut server, at) = opened(&host, &setup);
    let stream = client.ask(Dir::Bi, 0, u64::MAX);
    let mut got = 0;
    let at = client.until(&mut server, at, |client| {
        got += client.read(stream).0;
        got > 300_000
    });
    client.connection.recv_stream(stream).stop(VarInt::from_u32(0)).unwrap();
    let second = client.ask(Dir::Bi, 0, 1_000);
    client.until(&mut server, at, |client| client.read(second).1);
}

#[test]
fn data_goes_to_the_address_that_was_proved_whatever_source_a_packet_names() {
    let (host, setup) = (TestHost::new(), PerfSetup::fresh().unwrap());
    let (mut client, mut server, at) = opened(&host, &setup);
    client.ask(Dir::Bi, 0, 1_000_000);
    let (mut datagram, mut to) = (Vec::new(), Vec::new());
    let now = client.instant(at);
    while let Some(sent) = client.connection.poll_transmit(now, 1, &mut datagram) {
        let other = ([203, 0, 113, 9], 53).into();
        for peer in [address(4000), other] {
            let from = Arrived { peer, ..arrived(sent.size) };
            let mut send = |_: &[u8], way: &Arrived| to.push(way.peer);
            server.handle(at, &from, &datagram[..sent.size], &mut send);
        }
        datagram.clear();
    }
    server.turn(at, &mut |_, way| to.push(way.peer));
    assert!(to.len() > 5 && to.iter().all(|peer| *peer == address(4000)), "{to:?}");
}

#[test]
fn a_client_beyond_the_limits_of_a_test_is_told_so_and_loses_its_turn() {
    let small = TestLimits { bytes: 200_000, ..crate::responders::testing::WIDE };
    let short = TestLimits { duration: Nanos::from_secs(2), ..crate::responders::testing::WIDE };
    for (limits, why) in
        [(small, "the most bytes of a test"), (short, "the longest time of a test")]
    {
        let mut host = TestHost::new();
        host.limits = limits;
        let setup = PerfSetup::fresh().unwrap();
        let (mut client, mut server, at) = opened(&host, &setup);
        let stream = client.ask(Dir::Bi, 0, u64::MAX);
        client.until(&mut server, at, |client| {
            client.read(stream);
            client.lost.is_some()
        });
        let lost = client.lost.unwrap();
        assert!(lost.contains(why), "{lost}");
        assert!(host.has_said("failed") && host.has_said("turn returned"));
    }
}

#[test]
fn a_client_without_a_stream_loses_its_turn() {
    let mut host = TestHost::new();
    host.limits.begin = Nanos::from_secs(1);
    let setup = PerfSetup::fresh().unwrap();
    let (mut client, mut server, at) = opened(&host, &setup);
    client.until(&mut server, at, |client| client.lost.is_some());
    assert!(client.lost.unwrap().contains("no stream came in time"));
}

#[test]
fn a_client_whose_turn_it_is_not_is_refused() {
    let mut host = TestHost::new();
    host.is_busy = true;
    let setup = PerfSetup::fresh().unwrap();
    let (mut client, mut server) = (Client::dial(&setup), PerfServer::new(&host, &setup));
    client.until(&mut server, START, |client| client.lost.is_some());
    assert!(client.lost.unwrap().contains("refused"));
    assert!(host.has_said("another test or trial runs"));
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_connections_of_one_client_are_one_test() {
    let (host, setup) = (TestHost::new(), PerfSetup::fresh().unwrap());
    let (mut client, mut server, at) = opened(&host, &setup);
    let mut second = Client::dial(&setup);
    let at = second.until(&mut server, at, |second| !second.connection.is_handshaking());
    assert_eq!(server.connections(), 2);
    for one in [&mut client, &mut second] {
        one.connection.close(one.instant(at), VarInt::from_u32(0), Bytes::new());
    }
    client.step(&mut server, at);
    assert!(!host.has_said("turn returned"));
    second.step(&mut server, at);
    assert!(host.has_said("turn returned"));
}
