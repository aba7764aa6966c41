//! A client of the library against the server, in virtual time: datagrams are carried by hand.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use deadheat_far_ends::http3::{put_number, put_string, put_varint};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ReadError, StreamId,
};

use super::browsers::Browsers;
use super::own_certificate::OwnCertificates;
use crate::udp::Moment;
use crate::udp::testing::{AnyTickets, arrived, browser, is_answer, is_ready, ping, setup};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::identity::{self, PinnedVerifier, ProofKind};

/// Most steps of a test, a millisecond each.
const STEPS: u64 = 20_000;

/// Server with a clock.
struct Ground {
    browsers: Browsers,
    certificates: Arc<OwnCertificates>,
    tickets: Arc<AnyTickets>,
    moment: Moment,
}

/// Browser, as far as a test needs it.
struct Near {
    port: u16,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    lost: Option<String>,
}

impl Ground {
    fn new() -> Ground {
        let certificates = Arc::new(OwnCertificates::new().unwrap());
        let tickets = Arc::new(AnyTickets::default());
        let browsers = Browsers::new(Arc::clone(&certificates), Arc::<AnyTickets>::clone(&tickets));
        Ground { browsers, certificates, tickets, moment: Moment::now() }
    }

    fn dial(&self, port: u16) -> Near {
        let (_, provider) = identity::provider(None);
        let pinned = PinnedVerifier {
            expected: self.certificates.digest(),
            shows: ProofKind::Certificate,
            refusal: |_, _| "another certificate".to_owned(),
            provider: Arc::clone(&provider),
        };
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let far = browser(443);
        let (handle, connection) =
            endpoint.connect(self.moment.instant, config, far, "deadheat").unwrap();
        Near { port, endpoint, handle, connection, lost: None }
    }

    /// Carries all datagrams there and back, and lets a millisecond pass.
    fn step(&mut self, near: &mut Near) {
        let (mut back, mut datagram) = (Vec::new(), Vec::new());
        let moment = self.moment;
        near.connection.handle_timeout(moment.instant);
        while let Some(sent) = near.connection.poll_transmit(moment.instant, 1, &mut datagram) {
            let way = arrived(browser(near.port), sent.size);
            let mut keep = |bytes: &[u8], _: &_, _| back.push(bytes.to_vec());
            self.browsers.handle(&moment, &way, &datagram[..sent.size], &mut keep);
            datagram.clear();
        }
        self.browsers.turn(&moment, &mut |bytes, way, _| {
            assert_eq!(way.peer.ip(), browser(0).ip());
            if way.peer.port() == near.port {
                back.push(bytes.to_vec());
            }
        });
        for bytes in back {
            near.take(&moment, &bytes);
        }
        near.attend();
        self.moment = moment.after(Nanos::from_millis(1));
    }

    fn until(&mut self, near: &mut Near, mut done: impl FnMut(&mut Near) -> bool) {
        for _ in 0..STEPS {
            self.step(near);
            if done(near) {
                return;
            }
        }
        panic!("it did not come to pass: {:?}", near.lost);
    }

    /// Returns a browser whose handshake is over, and which has sent its SETTINGS.
    fn connected(&mut self, port: u16, control: &[u8]) -> Near {
        let mut near = self.dial(port);
        self.until(&mut near, |near| !near.connection.is_handshaking());
        near.open(Dir::Uni, control);
        near
    }

    /// Returns a browser with an open session, and the stream of it.
    fn opened(&mut self, port: u16) -> (Near, StreamId) {
        let mut near = self.connected(port, &SETTINGS);
        let session = near.open(Dir::Bi, &request(15, &[(":protocol", "webtransport")]));
        let answer = self.answer(&mut near, session);
        assert_eq!(&answer[..5], [1, answer.len() as u8 - 2, 0, 0, 0xc0 | 25]);
        (near, session)
    }

    /// Returns the first bytes of an answer to a request.
    fn answer(&mut self, near: &mut Near, stream: StreamId) -> Vec<u8> {
        let mut answer = Vec::new();
        self.until(near, |near| {
            near.read(stream, &mut answer);
            answer.len() > 2
        });
        answer
    }

    /// Returns the next whole message of a stream.
    fn message(&mut self, near: &mut Near, stream: StreamId, held: &mut Vec<u8>) -> Vec<u8> {
        let whole = |held: &[u8]| {
            let (length, rest) = held.split_first_chunk()?;
            rest.get(..u32::from_be_bytes(*length) as usize).map(<[u8]>::to_vec)
        };
        while whole(held).is_none() {
            self.until(near, |near| near.read(stream, held) > 0);
        }
        let message = whole(held).unwrap();
        held.drain(..4 + message.len());
        message
    }
}

impl Near {
    fn take(&mut self, moment: &Moment, bytes: &[u8]) {
        let data = BytesMut::from(bytes);
        let event =
            self.endpoint.handle(moment.instant, browser(443), None, None, data, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    fn attend(&mut self) {
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

    fn open(&mut self, dir: Dir, bytes: &[u8]) -> StreamId {
        let stream = self.connection.streams().open(dir).unwrap();
        self.write(stream, bytes);
        stream
    }

    fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        assert_eq!(self.connection.send_stream(stream).write(bytes).unwrap(), bytes.len());
    }

    /// Appends what arrived on a stream; returns the number of bytes.
    fn read(&mut self, stream: StreamId, into: &mut Vec<u8>) -> usize {
        let before = into.len();
        let mut incoming = self.connection.recv_stream(stream);
        let Ok(mut chunks) = incoming.read(true) else { return 0 };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            into.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
        into.len() - before
    }

    /// Reads the rest of a stream; returns true if the server has ended it.
    fn has_ended(&mut self, stream: StreamId) -> bool {
        let mut incoming = self.connection.recv_stream(stream);
        let Ok(mut chunks) = incoming.read(true) else { return true };
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _ = chunks.finalize();
        ended
    }

    /// Returns true if the server has reset a stream.
    fn is_reset(&mut self, stream: StreamId) -> bool {
        let mut incoming = self.connection.recv_stream(stream);
        let Ok(mut chunks) = incoming.read(true) else { return true };
        let reset = matches!(chunks.next(usize::MAX), Err(ReadError::Reset(_)));
        let _ = chunks.finalize();
        reset
    }

    fn send_datagram(&mut self, quarter: u8, message: &[u8]) {
        let datagram = [&[quarter][..], message].concat();
        self.connection.datagrams().send(datagram.into(), true).unwrap();
    }
}

/// Control stream of a browser: QPACK_MAX_TABLE_CAPACITY, and a frame of an unknown type.
const SETTINGS: [u8; 9] = [0, 4, 2, 1, 0, 0x21, 2, 7, 7];

/// Returns the frame of a request: a method by its place in the static table, and fields.
fn request(method: u64, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    put_number(&mut section, 0b1100_0000, 6, method);
    for (name, value) in fields {
        put_number(&mut section, 0b0010_0000, 3, name.len() as u64);
        section.extend_from_slice(name.as_bytes());
        put_string(&mut section, value);
    }
    let mut frame = vec![1];
    put_varint(&mut frame, section.len() as u64);
    [frame, section].concat()
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// First bytes of a stream of the session on the first stream.
const OF_SESSION: [u8; 3] = [0x40, 0x41, 0];

#[test]
fn messages_on_a_stream_are_cut_by_their_lengths_and_pings_come_back() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    let stream = near.open(Dir::Bi, &OF_SESSION[..2]);
    ground.step(&mut near);
    near.write(stream, &OF_SESSION[2..]);
    let asked = framed(&setup("ping"));
    for piece in asked.chunks(7) {
        near.write(stream, piece);
        ground.step(&mut near);
    }
    let mut held = Vec::new();
    assert!(is_ready(&ground.message(&mut near, stream, &mut held)));
    let pings: Vec<Vec<u8>> = (0..20_u32).map(|n| ping(n, 12 + 3_000 * n as usize)).collect();
    for ping in &pings {
        let framed = framed(ping);
        let mut left = &framed[..];
        while !left.is_empty() {
            left = &left[near.connection.send_stream(stream).write(left).unwrap_or(0)..];
            near.read(stream, &mut held);
            ground.step(&mut near);
        }
    }
    for ping in &pings {
        assert!(is_answer(&ground.message(&mut near, stream, &mut held), ping));
    }
    near.connection.send_stream(stream).finish().unwrap();
    ground.until(&mut near, |_| true);
    let bytes = pings.iter().map(Vec::len).sum::<usize>() as u64;
    assert!(ground.tickets.charged().iter().all(|charged| *charged > bytes));
}

#[test]
fn bulk_data_leaves_in_both_directions_and_the_account_closes() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    let stream = near.open(Dir::Bi, &OF_SESSION);
    near.write(stream, &framed(&setup("down:3000000")));
    let (mut held, mut received) = (Vec::new(), 0);
    assert!(is_ready(&ground.message(&mut near, stream, &mut held)));
    loop {
        let message = ground.message(&mut near, stream, &mut held);
        if message[0] == b'{' {
            assert_eq!(message, br#"{"sent":3000000}"#);
            break;
        }
        received += message.len();
    }
    assert_eq!(received, 3_000_000);

    let stream = near.open(Dir::Bi, &OF_SESSION);
    near.write(stream, &framed(&setup("up:3000000")));
    assert!(is_ready(&ground.message(&mut near, stream, &mut held)));
    let chunk = framed(&[3; 10_000]);
    for _ in 0..300 {
        let mut left = &chunk[..];
        while !left.is_empty() {
            left = &left[near.connection.send_stream(stream).write(left).unwrap_or(0)..];
            ground.step(&mut near);
        }
    }
    let end = ground.message(&mut near, stream, &mut held);
    let end = String::from_utf8(end).unwrap();
    assert!(end.contains(r#""received":3000000"#), "{end}");
}

#[test]
fn datagrams_of_the_session_are_answered_and_others_are_not() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    near.send_datagram(7, &setup("ping"));
    near.send_datagram(0, &setup("ping"));
    let mut received: Vec<Bytes> = Vec::new();
    let mut next = |ground: &mut Ground, near: &mut Near| {
        ground.until(near, |near| {
            received.extend(near.connection.datagrams().recv());
            !received.is_empty()
        });
        received.remove(0)
    };
    assert!(is_ready(&next(&mut ground, &mut near)[1..]));
    for number in 0..10 {
        near.send_datagram(0, &ping(number, 1_000));
        let back = next(&mut ground, &mut near);
        assert!(back[0] == 0 && is_answer(&back[1..], &ping(number, 1_000)));
    }
}

#[test]
fn bulk_data_does_not_fit_into_datagrams_and_the_page_reads_why() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    near.send_datagram(0, &setup("down:100000"));
    let mut said = Vec::new();
    ground.until(&mut near, |near| {
        said.extend(near.connection.datagrams().recv());
        said.len() == 2
    });
    assert!(is_ready(&said[0][1..]));
    let why = String::from_utf8_lossy(&said[1]).into_owned();
    assert!(why.contains("refused") && why.contains("too long for a datagram"), "{why}");
}

#[test]
fn a_trial_without_a_good_ticket_reads_why_and_its_stream_ends() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    for (first, why) in
        [(setup("bad"), "nobody has this ticket"), (b"GET / HTTP/1.1".to_vec(), "no setup")]
    {
        let stream = near.open(Dir::Bi, &OF_SESSION);
        near.write(stream, &framed(&first));
        let said = ground.message(&mut near, stream, &mut Vec::new());
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("refused") && said.contains(why), "{said}");
        ground.until(&mut near, |near| near.has_ended(stream));
    }
}

#[test]
fn requests_for_documents_and_second_sessions_are_refused() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    for (asked, place) in
        [(request(17, &[(":path", "/")]), 27), (request(15, &[(":protocol", "webtransport")]), 28)]
    {
        let stream = near.open(Dir::Bi, &asked);
        let answer = ground.answer(&mut near, stream);
        assert_eq!(answer, [1, 3, 0, 0, 0xc0 | place]);
    }
}

#[test]
fn a_message_that_is_too_long_or_of_another_session_costs_its_stream_alone() {
    let mut ground = Ground::new();
    let (mut near, _) = ground.opened(4_000);
    let long = near.open(Dir::Bi, &[&OF_SESSION[..], &[0, 2, 0, 0]].concat());
    let stranger = near.open(Dir::Bi, &[0x40, 0x41, 8, 1, 2, 3]);
    for stream in [long, stranger] {
        ground.until(&mut near, |near| near.is_reset(stream));
    }
    let stream = near.open(Dir::Bi, &OF_SESSION);
    near.write(stream, &framed(&setup("connect")));
    assert!(is_ready(&ground.message(&mut near, stream, &mut Vec::new())));
}

#[test]
fn a_browser_that_breaks_http_3_is_told_why() {
    let ended = request(15, &[(":protocol", "webtransport")]);
    for (control, first, why) in [
        (&[0, 7, 0][..], &[][..], "not with SETTINGS"),
        (&[0, 4, 0, 4, 0], &[], "two frames with SETTINGS"),
        (&[0, 4, 0, 0, 0], &[], "a frame of the type 0x0"),
        (&[0, 4, 0], &[1, 2, 0, 0], "no method"),
        (&[0, 4, 0], &[1, 2, 1, 0], "dynamic table"),
        (&[0, 4, 0], &[4, 0], "SETTINGS"),
        (&[0, 4, 0], &[1, 0x80, 1, 0, 1], "longer than"),
    ] {
        let mut ground = Ground::new();
        let mut near = ground.connected(4_000, control);
        near.open(Dir::Bi, first);
        ground.until(&mut near, |near| near.lost.is_some());
        let lost = near.lost.unwrap();
        assert!(lost.contains(why), "{why}: {lost}");
    }
    // A second control stream, and the end of the first.
    let mut ground = Ground::new();
    let mut near = ground.connected(4_000, &SETTINGS);
    near.open(Dir::Uni, &SETTINGS);
    ground.until(&mut near, |near| near.lost.is_some());
    assert!(near.lost.unwrap().contains("two control streams"));
    // Streams of unknown types, of QPACK, and an end of the session are no faults.
    let mut ground = Ground::new();
    let mut near = ground.connected(4_000, &SETTINGS);
    near.open(Dir::Uni, &[2, 9, 9]);
    near.open(Dir::Uni, &[0x21, 1, 2]);
    let session = near.open(Dir::Bi, &ended);
    ground.answer(&mut near, session);
    assert_eq!(near.lost, None);
    near.connection.send_stream(session).finish().unwrap();
    ground.until(&mut near, |near| near.lost.is_some());
    assert!(near.lost.unwrap().contains("the session is over"));
}

#[test]
fn a_connection_without_a_trial_is_closed_after_seconds_and_one_with_a_trial_is_not() {
    let mut ground = Ground::new();
    let (mut idle, _) = ground.opened(4_000);
    ground.until(&mut idle, |near| near.lost.is_some());
    assert!(idle.lost.unwrap().contains("no trial began in time"));
    let (mut near, _) = ground.opened(4_001);
    let stream = near.open(Dir::Bi, &OF_SESSION);
    near.write(stream, &framed(&setup("ping")));
    for _ in 0..15 {
        // The library's own timers go off in between.
        ground.moment = ground.moment.after(Nanos::from_secs(1));
        near.connection.ping();
        ground.step(&mut near);
    }
    assert_eq!(near.lost, None);
}

#[test]
fn an_address_has_a_few_connections_and_datagrams_from_nowhere_get_nothing_larger() {
    let mut ground = Ground::new();
    let mut open: Vec<Near> = (0..16).map(|n| ground.connected(4_000 + n, &SETTINGS)).collect();
    assert_eq!(ground.browsers.connections(), 16);
    let mut refused = ground.dial(5_000);
    ground.until(&mut refused, |near| near.lost.is_some());
    assert_eq!(ground.browsers.connections(), 16);
    assert!(open.iter_mut().all(|near| near.lost.is_none()));
    for len in 1..1_500_usize {
        for first in [0x40_u8, 0xc0, 0xff] {
            let bytes: Vec<u8> =
                (0..len).map(|at| if at == 0 { first } else { (at * 7) as u8 }).collect();
            let way = arrived(browser(6_000), len);
            ground.browsers.handle(&ground.moment, &way, &bytes, &mut |answer, _, _| {
                assert!(answer.len() <= len, "{} for {len}", answer.len());
            });
        }
    }
    assert_eq!(ground.browsers.connections(), 16);
}

/// A datagram whose source is forged is answered with as many bytes at most, however long nothing more comes.
#[test]
fn no_byte_more_than_came_goes_to_an_address_that_has_not_shown_that_it_receives() {
    let mut ground = Ground::new();
    let mut forged = ground.dial(4_000);
    let (mut came, mut went, mut datagram) = (0, 0, Vec::new());
    while let Some(sent) = forged.connection.poll_transmit(ground.moment.instant, 1, &mut datagram)
    {
        let way = arrived(browser(4_000), sent.size);
        came += sent.size;
        let bytes = &datagram[..sent.size];
        ground.browsers.handle(&ground.moment, &way, bytes, &mut |bytes, _, _| went += bytes.len());
        datagram.clear();
    }
    for _ in 0..30_000 {
        ground.browsers.turn(&ground.moment, &mut |bytes, _, _| went += bytes.len());
        ground.moment = ground.moment.after(Nanos::from_millis(1));
    }
    assert!(went > 0 && went <= came, "{went} bytes for {came}");
    assert_eq!(ground.browsers.connections(), 0, "it is forgotten");
}
