//! Steps of the versions of HTTP, for the table of all steps.

use super::exchange::{Exchange, Use};
use super::frames::put_varint;
use super::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, PADDED, PING, SETTINGS, WINDOW_UPDATE, put_frame,
};
use super::testing::{FakeStreams, request};
use crate::steps::{PeerFault, StepRow, run_out};
use deadheat_contract::workload::header::{DUE_LEN, Header};
use deadheat_datapath::transport::application::{Application, TakesRequests};
use deadheat_datapath::transport::plain::PlainProtocol;

use PeerFault::{Endless, Garbage, LyingLength, Silent};

/// Stream of a request, and control stream of the far end in HTTP/3.
const FIRST: u64 = 0;
const THEIRS: u64 = 3;

/// Version, by the protocols that agree on it.
type Agreed = (PlainProtocol, Option<&'static [u8]>);

const HTTP1: Agreed = (PlainProtocol::TLS, None);
const HTTP2: Agreed = (PlainProtocol::TLS, Some(b"h2"));
const HTTP3: Agreed = (PlainProtocol::QUIC, Some(b"h3"));

/// Returns the row of a peer that sends `before` on a stream, and then `again` for ever.
fn row(
    (protocol, agreed): (&'static str, Agreed),
    (step, fault): (&'static str, PeerFault),
    (stream, before, again): (u64, Vec<u8>, Vec<u8>),
) -> StepRow {
    let run = move || {
        let mut streams =
            if agreed.0.has_streams { FakeStreams::default() } else { FakeStreams::byte_stream() };
        let mut exchange = Exchange::new(request(), agreed.0, Use::Messages);
        exchange.begin(agreed.1, &mut streams).unwrap();
        let mut message = [0; DUE_LEN];
        Header { tag: 7, seq: 3 }.write(&mut message);
        assert_eq!(exchange.ask(&message, &mut streams), Ok(true));
        if stream == THEIRS {
            streams.opened_by_peer(THEIRS);
        }
        streams.arrive(stream, &before);
        let arrive = |streams: &mut FakeStreams, bytes: &[u8]| {
            streams.arrive(stream, bytes);
            // What it is answered leaves.
            streams.sent(stream);
        };
        run_out(&mut exchange, &mut streams, &again, arrive)
    };
    StepRow { protocol, step, fault, run: Box::new(run) }
}

/// Bytes that follow from a number, and are nothing.
fn noise() -> Vec<u8> {
    (0..4_096_u32).map(|at| (at * at * 7 + at * 31 + 3) as u8).collect()
}

fn http1() -> Vec<StepRow> {
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = &format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let all: [(&str, PeerFault, &str, &str); 14] = [
        ("the answer", Silent, "", ""),
        ("the answer", Endless, "", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("the header", Silent, head, ""),
        ("the header", Endless, head, "X: y\r\n"),
        ("the header", Endless, head, "x"),
        ("the header", Garbage, head, "\r: \0"),
        ("the header", LyingLength, &format!("{head}Content-Length: {}\r\n\r\n", u64::MAX), ""),
        ("the body", Silent, &format!("{head}Content-Length: 5\r\n\r\nhe"), ""),
        ("the body", Endless, &format!("{head}\r\n"), "x"),
        ("a chunk", LyingLength, &format!("{chunked}ffffffffffffffff\r\nab"), ""),
        ("a chunk", LyingLength, &format!("{chunked}ffffffffff\r\nab"), ""),
        ("a chunk", Endless, &format!("{chunked}1;"), "a"),
        ("a chunk", Garbage, chunked, "zz\r\n"),
        ("the trailer", Endless, &format!("{chunked}0\r\n"), "X: y\r\n"),
    ];
    let of = |(step, fault, before, again): &(&'static str, PeerFault, &str, &str)| {
        let sent = (FIRST, before.as_bytes().to_vec(), again.as_bytes().to_vec());
        row(("HTTP/1.1", HTTP1), (step, *fault), sent)
    };
    let noisy = row(("HTTP/1.1", HTTP1), ("the answer", Garbage), (FIRST, Vec::new(), noise()));
    all.iter().map(of).chain([noisy]).collect()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, kind, flags, stream, payload);
    out
}

fn http2() -> Vec<StepRow> {
    let settings = || frame(SETTINGS, 0, 0, &[]);
    let head = || [settings(), frame(HEADERS, END_HEADERS, 1, &[0x88])].concat();
    let interim = frame(HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3']);
    let none = Vec::new;
    let all = [
        ("SETTINGS", Silent, none(), none()),
        ("SETTINGS", Garbage, none(), noise()),
        ("SETTINGS", LyingLength, vec![0xff, 0xff, 0xff, SETTINGS, 0, 0, 0, 0, 0], none()),
        ("SETTINGS", Endless, none(), settings()),
        ("the answer", Silent, settings(), none()),
        ("the answer", Endless, settings(), frame(PING, 0, 0, &[9; 8])),
        ("the answer", Endless, settings(), frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("the answer", Endless, settings(), frame(0x10, 0, 0, b"an extension")),
        ("the answer", Endless, settings(), interim),
        ("the answer", Garbage, settings(), noise()),
        ("the header", Silent, [settings(), frame(HEADERS, 0, 1, &[0x88])].concat(), none()),
        (
            "the header",
            Endless,
            [settings(), frame(HEADERS, 0, 1, &[0x88])].concat(),
            frame(CONTINUATION, 0, 1, &[]),
        ),
        ("the body", Silent, [head(), frame(DATA, 0, 1, b"a")].concat(), none()),
        ("the body", Endless, head(), frame(DATA, 0, 1, &[])),
        ("the body", Endless, head(), frame(DATA, PADDED, 1, &[3, 0, 0, 0])),
        ("the body", Endless, head(), frame(DATA, 0, 1, &[7; 1_000])),
        ("the body", LyingLength, [head(), vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1]].concat(), none()),
    ];
    let of = |(step, fault, before, again)| {
        row(("HTTP/2", HTTP2), (step, fault), (FIRST, before, again))
    };
    all.into_iter().map(of).collect()
}

fn http3() -> Vec<StepRow> {
    let frame = |kind: u64, payload: &[u8]| {
        let mut out = Vec::new();
        put_varint(&mut out, kind);
        put_varint(&mut out, payload.len() as u64);
        [&out[..], payload].concat()
    };
    let head = || frame(1, &[0, 0, 0xd9]);
    let grease = || frame(0x21, b"grease");
    let settings = || [&[0][..], &frame(4, &[])].concat();
    let most = [0xff; 8];
    let none = Vec::new;
    let all = [
        ("the answer", Silent, FIRST, none(), none()),
        ("the answer", Endless, FIRST, none(), grease()),
        ("the answer", Endless, FIRST, none(), frame(1, &[0, 0, 0xc0 | 24])),
        ("the answer", Garbage, FIRST, none(), noise()),
        ("the header", LyingLength, FIRST, [&[1][..], &most].concat(), none()),
        ("the header", Silent, FIRST, vec![1, 20, 0], none()),
        ("the body", Silent, FIRST, [head(), vec![0, 9, 1]].concat(), none()),
        ("the body", LyingLength, FIRST, [&head()[..], &[0], &most].concat(), none()),
        ("the body", Endless, FIRST, head(), frame(0, &[])),
        ("the body", Endless, FIRST, head(), frame(0, &[7; 1_000])),
        ("the control stream", Silent, THEIRS, none(), none()),
        ("the control stream", Endless, THEIRS, settings(), grease()),
        ("the control stream", Garbage, THEIRS, none(), noise()),
        ("the control stream", LyingLength, THEIRS, [&[0, 4][..], &most].concat(), none()),
        ("QPACK's stream", Endless, THEIRS, vec![2], vec![0]),
    ];
    let of = |(step, fault, stream, before, again)| {
        row(("HTTP/3", HTTP3), (step, fault), (stream, before, again))
    };
    all.into_iter().map(of).collect()
}

/// Returns the rows of all versions.
pub(crate) fn rows() -> Vec<StepRow> {
    [http1(), http2(), http3()].into_iter().flatten().collect()
}
