//! HTTP/3 (RFC 9114): a stream of QUIC for each request, and a control stream in each direction.

use super::frames::{Frame, FrameEvent, Frames, put_varint, varint};
use super::qpack;
use super::request::Request;
use super::version::{AnswerPart, Take, Version, feed_arrived};
use deadheat_datapath::transport::application::Streams;

/// Types of frames (RFC 9114, 7.2).
const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
const SETTINGS: u64 = 0x4;
const PUSH_PROMISE: u64 = 0x5;
const GOAWAY: u64 = 0x7;

/// Types of streams in one direction (RFC 9114, 6.2; RFC 9204, 4.2).
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const QPACK: [u64; 2] = [0x2, 0x3];

/// Code that refuses a stream of an unknown type (H3_STREAM_CREATION_ERROR).
const UNKNOWN_STREAM: u32 = 0x103;

/// First bytes of the control stream: its type, and SETTINGS of 9 bytes: no dynamic table (QPACK_MAX_TABLE_CAPACITY and
/// QPACK_BLOCKED_STREAMS are 0), and a header of 65,536 bytes at most (SETTINGS_MAX_FIELD_SECTION_SIZE).
const OWN_SETTINGS: [u8; 12] =
    [CONTROL as u8, SETTINGS as u8, 9, 0x01, 0, 0x06, 0x80, 0x01, 0, 0, 0x07, 0];

/// End that asks.
pub(super) struct Http3 {
    /// Frame of the request.
    request: Vec<u8>,
    /// Requests that are not answered.
    open: Vec<OpenRequest>,
    /// Streams that the far end opened, with their types as far as they have arrived.
    others: Vec<OtherStream>,
    asked: u64,
    /// True once the far end wants no more requests.
    is_leaving: bool,
}

/// Request on its stream.
struct OpenRequest {
    number: u64,
    stream: u64,
    frames: Frames,
    has_head: bool,
    /// Bytes of the request that the stream has not taken.
    unsent: Vec<u8>,
}

/// Stream of the far end's.
struct OtherStream {
    stream: u64,
    kind: OtherKind,
}

/// Type of a stream of the far end's.
enum OtherKind {
    /// Not yet known: its first bytes.
    Untyped(Vec<u8>),
    Control(ControlFrames),
    /// Read and dropped.
    Dropped,
}

/// Frames of a control stream, of which only the types matter.
#[derive(Default)]
struct ControlFrames {
    frames: Frames,
    has_settings: bool,
}

impl Http3 {
    pub(super) fn new(request: &Request) -> Http3 {
        let section = qpack::encode(request);
        let mut frame = vec![HEADERS as u8];
        put_varint(&mut frame, section.len() as u64);
        frame.extend_from_slice(&section);
        Http3 { request: frame, open: Vec::new(), others: Vec::new(), asked: 0, is_leaving: false }
    }

    /// Reads the streams that the far end opened.
    fn read_others(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        while let Some(stream) = streams.accept_one_way() {
            self.others.push(OtherStream { stream, kind: OtherKind::Untyped(Vec::new()) });
        }
        let mut at = 0;
        while let Some(other) = self.others.get_mut(at) {
            if other.read(streams, &mut self.is_leaving)? {
                drop(self.others.remove(at))
            } else {
                at += 1
            }
        }
        Ok(())
    }
}

impl OtherStream {
    /// Reads what arrived; returns true if the stream is over.
    fn read(&mut self, streams: &mut dyn Streams, is_leaving: &mut bool) -> Result<bool, String> {
        let (stream, kind) = (self.stream, &mut self.kind);
        let mut fed = Ok(());
        let ended = streams.read(stream, &mut |bytes| {
            if fed.is_ok() {
                fed = kind.feed(bytes, is_leaving);
            }
        });
        match fed {
            Ok(()) => {}
            Err(Stranger::Unknown) => {
                streams.stop(stream, UNKNOWN_STREAM);
                return Ok(true);
            }
            Err(Stranger::Wrong(why)) => return Err(why),
        }
        match (ended, &self.kind) {
            (Ok(false), _) => Ok(false),
            // RFC 9114, 6.2.1: it must not end.
            (_, OtherKind::Control(_)) => Err("it ended its control stream".to_owned()),
            _ => Ok(true),
        }
    }
}

/// Fault of a stream of the far end's.
enum Stranger {
    /// Its type is unknown, which is no violation.
    Unknown,
    Wrong(String),
}

impl OtherKind {
    fn feed(&mut self, bytes: &[u8], is_leaving: &mut bool) -> Result<(), Stranger> {
        match self {
            OtherKind::Dropped => Ok(()),
            OtherKind::Control(control) => control.feed(bytes, is_leaving).map_err(Stranger::Wrong),
            OtherKind::Untyped(held) => {
                held.extend_from_slice(bytes);
                let Some((kind, len)) = varint(held) else { return Ok(()) };
                let rest = held.split_off(len);
                *self = match kind {
                    CONTROL => OtherKind::Control(ControlFrames::default()),
                    kind if QPACK.contains(&kind) => OtherKind::Dropped,
                    PUSH => {
                        let why = "it pushes a document that nobody has asked for";
                        return Err(Stranger::Wrong(why.to_owned()));
                    }
                    _ => return Err(Stranger::Unknown),
                };
                self.feed(&rest, is_leaving)
            }
        }
    }
}

impl ControlFrames {
    fn feed(&mut self, bytes: &[u8], is_leaving: &mut bool) -> Result<(), String> {
        let has_settings = &mut self.has_settings;
        self.frames.feed(bytes, &mut |kind, _| {
            if !*has_settings && kind != SETTINGS {
                return Err(format!(
                    "its control stream begins with a frame of the type {kind:#x}, not with SETTINGS"
                ));
            }
            *has_settings = true;
            *is_leaving |= kind == GOAWAY;
            match kind {
                DATA | HEADERS | PUSH_PROMISE => {
                    Err(format!("its control stream has a frame of the type {kind:#x}"))
                }
                _ => Ok(Frame::Skipped),
            }
        })
    }
}

impl OpenRequest {
    /// Sends the rest of the request.
    fn offer(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        let taken = streams.write(self.stream, &self.unsent)?;
        self.unsent.drain(..taken);
        if self.unsent.is_empty() {
            streams.finish(self.stream);
        }
        Ok(())
    }

    /// Reads what arrived; returns true if the answer is whole.
    fn read(&mut self, streams: &mut dyn Streams, take: Take<'_>) -> Result<bool, String> {
        if !self.unsent.is_empty() {
            self.offer(streams)?;
        }
        let OpenRequest { number, stream, frames, has_head, .. } = self;
        let mut on_frame = |kind: u64, event: FrameEvent<'_>| match (kind, event) {
            (DATA, FrameEvent::Begins) if !*has_head => {
                Err("it sent a body before a header".to_owned())
            }
            (DATA, FrameEvent::Begins) => Ok(Frame::Streamed),
            (DATA, FrameEvent::Payload(bytes)) => {
                take(*number, AnswerPart::Body(bytes))?;
                Ok(Frame::Streamed)
            }
            (HEADERS, FrameEvent::Begins) => Ok(Frame::Whole),
            // Fields after the body.
            (HEADERS, FrameEvent::Payload(_)) if *has_head => Ok(Frame::Whole),
            (HEADERS, FrameEvent::Payload(section)) => {
                let head = qpack::decode(section)?;
                if !head.is_interim() {
                    *has_head = true;
                    take(*number, AnswerPart::Head(head))?;
                }
                Ok(Frame::Whole)
            }
            // RFC 9114, 7.2: CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY and MAX_PUSH_ID have no place here.
            (0x3..=0x5 | GOAWAY | 0xd, _) => Err(format!(
                "its answer has a frame of the type {kind:#x}, which has no place there"
            )),
            _ => Ok(Frame::Skipped),
        };
        if !feed_arrived(streams, *stream, &mut |bytes| frames.feed(bytes, &mut on_frame))? {
            return Ok(false);
        }
        if !*has_head || !frames.is_between() {
            return Err("it ended a stream before its answer was whole".to_owned());
        }
        take(*number, AnswerPart::End)?;
        Ok(true)
    }
}

impl Version for Http3 {
    fn name(&self) -> &'static str {
        "HTTP/3"
    }

    fn begin(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        let none = || "it allows no control stream, which HTTP/3 needs".to_owned();
        let control = streams.open_one_way().ok_or_else(none)?;
        match streams.write(control, &OWN_SETTINGS)? {
            taken if taken == OWN_SETTINGS.len() => Ok(()),
            _ => Err("it allows no data on a control stream".to_owned()),
        }
    }

    fn request(&mut self, streams: &mut dyn Streams) -> Result<Option<u64>, String> {
        if self.is_leaving {
            return Err("it wants no more requests on this connection (GOAWAY)".to_owned());
        }
        let Some(stream) = streams.open() else { return Ok(None) };
        self.asked += 1;
        let mut request = OpenRequest {
            number: self.asked,
            stream,
            frames: Frames::default(),
            has_head: false,
            unsent: self.request.clone(),
        };
        request.offer(streams)?;
        self.open.push(request);
        Ok(Some(self.asked))
    }

    fn read(&mut self, streams: &mut dyn Streams, take: Take<'_>) -> Result<(), String> {
        self.read_others(streams)?;
        let mut at = 0;
        while let Some(request) = self.open.get_mut(at) {
            if request.read(streams, take)? { drop(self.open.remove(at)) } else { at += 1 }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStreams, Got, request};
    use super::*;

    /// Control stream of the far end, and the stream of the first request, in the fake connection.
    const THEIRS: u64 = 3;
    const FIRST: u64 = 0;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, kind);
        put_varint(&mut out, payload.len() as u64);
        [&out[..], payload].concat()
    }

    /// `:status: 200`, as an entry of the static table.
    const OK: [u8; 3] = [0, 0, 0xd9];

    /// Runs a request whose answer arrives in pieces, beside a control stream; returns the parts, and the error.
    fn answered(
        control: &[u8],
        answer: &[u8],
        step: usize,
        ends: bool,
    ) -> (Vec<Got>, Result<(), String>) {
        let (mut http, mut streams) = (Http3::new(&request()), FakeStreams::default());
        http.begin(&mut streams).unwrap();
        assert_eq!(http.request(&mut streams), Ok(Some(1)));
        streams.opened_by_peer(THEIRS);
        let mut got = Vec::new();
        let mut read = |streams: &mut FakeStreams| {
            http.read(streams, &mut |_, part| {
                Got::note(&mut got, part);
                Ok(())
            })
        };
        let mut outcome = Ok(());
        for (stream, bytes) in [(THEIRS, control), (FIRST, answer)] {
            for piece in bytes.chunks(step) {
                streams.arrive(stream, piece);
                outcome = outcome.and_then(|()| read(&mut streams));
            }
        }
        if ends {
            streams.end(FIRST);
            outcome = outcome.and_then(|()| read(&mut streams));
        }
        (got, outcome)
    }

    fn settings() -> Vec<u8> {
        [&[0][..], &frame(SETTINGS, &[0x01, 0]), &frame(0x21, b"grease")].concat()
    }

    #[test]
    fn a_document_is_whole_in_any_pieces_and_unknown_frames_are_skipped() {
        let interim = frame(HEADERS, &[0, 0, 0xc0 | 24]);
        let answer = [
            interim,
            frame(0x21, b"grease"),
            frame(HEADERS, &OK),
            frame(DATA, b"hel"),
            frame(DATA, b""),
            frame(0x40, &[7; 100]),
            frame(DATA, b"lo"),
            frame(HEADERS, &[0, 0]),
        ];
        let answer = answer.concat();
        for step in [1, 3, 1_000] {
            let (got, outcome) = answered(&settings(), &answer, step, true);
            assert_eq!(outcome, Ok(()), "in pieces of {step}");
            assert_eq!(got, [Got::Head(200), Got::Body(b"hello".to_vec()), Got::End]);
        }
    }

    #[test]
    fn what_leaves_is_a_control_stream_and_a_request() {
        let (mut http, mut streams) = (Http3::new(&request()), FakeStreams::default());
        http.begin(&mut streams).unwrap();
        http.request(&mut streams).unwrap();
        assert_eq!(streams.sent(2), OWN_SETTINGS);
        let sent = streams.sent(FIRST);
        let (kind, first) = varint(&sent).unwrap();
        let (length, second) = varint(&sent[first..]).unwrap();
        assert_eq!((kind, length as usize), (HEADERS, sent.len() - first - second));
        let text = String::from_utf8_lossy(&sent);
        for part in ["www.example:8443", "/a?b=1", "deadheat/"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(streams.is_finished(FIRST));
    }

    #[test]
    fn a_request_waits_for_room_for_its_bytes_and_for_a_stream() {
        let (mut http, mut streams) = (Http3::new(&request()), FakeStreams::default());
        streams.limit(10);
        http.request(&mut streams).unwrap();
        assert!(!streams.is_finished(FIRST));
        for _ in 0..20 {
            streams.limit(10);
            http.read(&mut streams, &mut |_, _| Ok(())).unwrap();
        }
        assert!(streams.is_finished(FIRST));
        streams.allow(0);
        assert_eq!(http.request(&mut streams), Ok(None));
    }

    #[test]
    fn a_server_that_lies_or_closes_in_any_state_is_named() {
        let ok = frame(HEADERS, &OK);
        let data = [&ok[..], &frame(DATA, b"hello")].concat();
        let long = [&[1][..], &[0x80, 0x02, 0, 0]].concat();
        for (control, answer, why) in [
            (settings(), Vec::new(), "before its answer was whole"),
            (settings(), data[..data.len() - 1].to_vec(), "before its answer was whole"),
            (settings(), frame(DATA, b"a"), "a body before a header"),
            (settings(), frame(SETTINGS, b""), "which has no place there"),
            (settings(), frame(PUSH_PROMISE, b""), "which has no place there"),
            (settings(), long, "header is longer than 65536 bytes"),
            (settings(), frame(HEADERS, &[1, 0]), "dynamic table"),
            (vec![0, 7, 0], data.clone(), "not with SETTINGS"),
            ([settings(), frame(DATA, b"")].concat(), data.clone(), "control stream has a frame"),
            (vec![1], data, "it pushes"),
        ] {
            let said = answered(&control, &answer, 1_000, true).1.unwrap_err();
            assert!(said.contains(why), "{why}: {said}");
        }
    }

    #[test]
    fn streams_of_unknown_types_are_refused_and_a_goaway_ends_the_asking() {
        let (_, outcome) = answered(&[0x21, 1, 2, 3], &frame(HEADERS, &OK), 1_000, true);
        assert_eq!(outcome, Ok(()));
        let (mut http, mut streams) = (Http3::new(&request()), FakeStreams::default());
        streams.opened_by_peer(THEIRS);
        streams.arrive(THEIRS, &[settings(), frame(GOAWAY, &[0])].concat());
        http.read(&mut streams, &mut |_, _| Ok(())).unwrap();
        assert!(http.request(&mut streams).unwrap_err().contains("GOAWAY"));
        streams.end(THEIRS);
        let ended = http.read(&mut streams, &mut |_, _| Ok(()));
        assert!(ended.unwrap_err().contains("control stream"));
    }
}
