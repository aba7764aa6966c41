//! A client that writes frames by hand, against a session without a socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use deadheat_far_ends::http2::{
    DATA, END_HEADERS, END_STREAM, FRAME_HEADER, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE,
    put_frame,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::KIND;
use super::request::Terms;
use super::session::Http2Session;
use crate::carrier::{CarrierGround, PemPair};
use crate::testing::pair;
use crate::udp::testing::{AnyTickets, is_answer, ping, setup};
use deadheat_base::time::Nanos;

const NOW: Nanos = Nanos::from_secs(1);

fn session() -> Http2Session {
    let terms = Terms { tickets: Arc::new(AnyTickets::default()), page: 5_280 };
    let mut session = Http2Session::new(terms, NOW);
    session.feed(NOW, PREFACE).unwrap();
    feed(&mut session, SETTINGS, 0, 0, &[]).unwrap();
    session.turn(NOW);
    session
}

fn feed(
    session: &mut Http2Session,
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> Result<(), String> {
    let mut frame = Vec::new();
    put_frame(&mut frame, kind, flags, stream, payload);
    session.feed(NOW, &frame)
}

/// Header of a request: literals without a table.
fn header(path: &str, origin: &str, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":path", path),
        (":authority", "far:5282"),
        ("origin", origin),
        ("content-length", &length.to_string()),
    ] {
        out.extend_from_slice(&[0, name.len() as u8]);
        out.extend_from_slice(name.as_bytes());
        out.push(value.len() as u8);
        out.extend_from_slice(value.as_bytes());
    }
    out
}

fn ask(session: &mut Http2Session, stream: u32, path: &str, body: &[u8]) {
    let header = header(path, "https://far:5280", body.len());
    feed(session, HEADERS, END_HEADERS, stream, &header).unwrap();
    feed(session, DATA, END_STREAM, stream, body).unwrap();
}

/// Frames of an answer: types, flags, streams and payloads.
fn frames(bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    while !rest.is_empty() {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let stream = u32::from_be_bytes(rest[5..FRAME_HEADER].try_into().unwrap());
        let (own, next) = rest.split_at(FRAME_HEADER + length);
        frames.push((own[3], own[4], stream, own[FRAME_HEADER..].to_vec()));
        rest = next;
    }
    frames
}

/// Returns the body of a stream, and true if it ended.
fn body(bytes: &[u8], stream: u32) -> (Vec<u8>, bool) {
    let own: Vec<_> =
        frames(bytes).into_iter().filter(|own| own.0 == DATA && own.2 == stream).collect();
    let has_ended = own.last().is_some_and(|own| own.1 & END_STREAM != 0);
    (own.into_iter().flat_map(|own| own.3).collect(), has_ended)
}

#[test]
fn pings_come_back_on_their_streams() {
    let mut session = session();
    for number in 0..5 {
        let sent = ping(number, 60);
        ask(&mut session, 2 * number + 1, "/fetch/ping?ticket=ping", &sent);
        let out = session.turn(NOW);
        let head = frames(&out).into_iter().find(|own| own.0 == HEADERS).unwrap().3;
        assert_eq!(head[0], 0x88);
        assert!(String::from_utf8_lossy(&head).contains("https://far:5280"));
        let (back, has_ended) = body(&out, 2 * number + 1);
        assert!(is_answer(&back, &sent) && has_ended);
    }
    assert!(!session.is_over());
    ask(&mut session, 11, "/fetch/end", &[]);
    assert_eq!(body(&session.turn(NOW), 11), (Vec::new(), true));
    assert!(session.is_over());
}

#[test]
fn bulk_data_keeps_to_the_windows_and_ends_the_connection() {
    let mut session = session();
    ask(&mut session, 1, "/fetch/stream", &setup("down:200000"));
    let mut got = Vec::new();
    let mut has_ended = false;
    for _ in 0..20 {
        let out = session.turn(NOW);
        let (piece, ended) = body(&out, 1);
        has_ended |= ended;
        got.extend(piece);
    }
    assert_eq!(got.len(), 65_535, "the first window");
    for stream in [0, 1] {
        feed(&mut session, WINDOW_UPDATE, 0, stream, &1_000_000_u32.to_be_bytes()).unwrap();
    }
    while !has_ended {
        let (piece, ended) = body(&session.turn(NOW), 1);
        has_ended = ended;
        got.extend(piece);
    }
    assert!(got.len() > 200_000 && session.is_over());
    assert!(String::from_utf8_lossy(&got).ends_with(r#"{"sent":200000}"#));

    let mut session = self::session();
    let header = header("/fetch/up?ticket=up:100000", "https://far:5280", 100_000);
    feed(&mut session, HEADERS, END_HEADERS, 1, &header).unwrap();
    for at in 0..10 {
        let flags = if at == 9 { END_STREAM } else { 0 };
        feed(&mut session, DATA, flags, 1, &[3; 10_000]).unwrap();
    }
    let (said, has_ended) = body(&session.turn(NOW), 1);
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains(r#""received":100000"#) && has_ended, "{said}");
}

#[test]
fn requests_without_a_ticket_or_of_another_page_are_refused_with_the_reason() {
    let mut session = session();
    ask(&mut session, 1, "/fetch/ping?ticket=bad", &ping(0, 12));
    ask(&mut session, 3, "/fetch/stream", &setup("bad"));
    ask(&mut session, 5, "/fetch/up?ticket=bad", &[3; 9]);
    ask(&mut session, 7, "/nothing", &[]);
    let evil = header("/fetch/ping?ticket=ping", "https://evil:5280", 9);
    feed(&mut session, HEADERS, END_HEADERS | END_STREAM, 9, &evil).unwrap();
    let out = session.turn(NOW);
    for (stream, why) in [
        (1, "nobody has this ticket"),
        (3, "nobody has this ticket"),
        (5, "nobody has this ticket"),
        (7, "no such work"),
        (9, "only this server's page"),
    ] {
        let (said, has_ended) = body(&out, stream);
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(why) && has_ended, "{stream}: {said}");
    }
}

#[test]
fn a_browser_that_breaks_http_2_ends_its_connection() {
    let fed = |kind, flags, stream, payload: &[u8]| {
        feed(&mut session(), kind, flags, stream, payload).err().unwrap_or_default()
    };
    let good = header("/fetch/end", "https://far:5280", 0);
    assert!(fed(SETTINGS, 0, 0, &[1]).contains("SETTINGS"));
    assert!(fed(HEADERS, END_HEADERS, 2, &good).contains("the stream 2"));
    assert!(fed(HEADERS, END_HEADERS, 1, &[0xff, 0xff, 0x7f]).contains("entry"));
    assert!(fed(DATA, 8, 1, &[9]).contains("padding"));
    assert!(fed(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).contains("2^31"));
    assert!(fed(0x9, 0, 1, &good).contains("has not begun"));
    assert!(fed(0x6, 0, 0, &[1]).contains("ping"));
    let mut session = session();
    feed(&mut session, HEADERS, 0, 1, &good).unwrap();
    assert!(feed(&mut session, DATA, 0, 1, &[]).unwrap_err().contains("cuts a header"));
    let mut session = self::session();
    let long = feed(&mut session, DATA, 0, 1, &[0; 16_385]);
    assert!(long.unwrap_err().contains("a frame of 16385 bytes"));
    let mut fresh =
        Http2Session::new(Terms { tickets: Arc::new(AnyTickets::default()), page: 1 }, NOW);
    assert!(fresh.feed(NOW, b"GET / HTTP/1.1").unwrap_err().contains("as HTTP/2 does"));
}

#[test]
fn any_bytes_after_the_preface_are_taken_or_refused() {
    let mut state = 7_u64;
    for _ in 0..3_000 {
        let mut session = session();
        for _ in 0..6 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let drawn = state.to_be_bytes();
            let payload: Vec<u8> =
                (0..drawn[1] % 40).map(|at| drawn[usize::from(at) % 8] ^ at).collect();
            if feed(&mut session, drawn[2] % 10, drawn[3], u32::from(drawn[4] % 8), &payload)
                .is_err()
            {
                break;
            }
            session.turn(NOW);
        }
    }
}

#[test]
fn its_port_has_http_2_within_tls_and_the_connection_ends_with_the_trial() {
    let ground = |certificate: Option<Arc<PemPair>>| {
        let tickets = Arc::new(AnyTickets::default());
        CarrierGround { page: ([127, 0, 0, 1], 65_535).into(), tickets, certificate }
    };
    assert!((KIND.open)(&ground(None)).err().unwrap().contains("--web-cert"));
    let (pair, mut config) = pair();
    let carrier = (KIND.open)(&ground(Some(Arc::new(pair)))).unwrap();
    let port = carrier.facts()["port"].as_u64().unwrap() as u16;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("far").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut near = StreamOwned::new(client, stream);
    let mut asked = PREFACE.to_vec();
    put_frame(&mut asked, SETTINGS, 0, 0, &[]);
    let sent = ping(7, 50);
    for (stream, path, body) in [(1, "/fetch/ping?ticket=ping", &sent[..]), (3, "/fetch/end", &[])]
    {
        let header = header(path, "https://far:65535", body.len());
        put_frame(&mut asked, HEADERS, END_HEADERS, stream, &header);
        put_frame(&mut asked, DATA, END_STREAM, stream, body);
    }
    near.write_all(&asked).unwrap();
    let mut said = Vec::new();
    // The end of the connection comes without one of TLS.
    let _ = near.read_to_end(&mut said);
    assert_eq!(frames(&said)[0].0, SETTINGS);
    assert!(is_answer(&body(&said, 1).0, &sent));
    assert_eq!(body(&said, 3), (Vec::new(), true));
    assert_eq!(near.conn.alpn_protocol(), Some(&b"h2"[..]));
}
