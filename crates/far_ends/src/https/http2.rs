//! HTTP/2 (RFC 9113): frames of many requests on one byte stream. This end sends requests without a body, so that only
//! what arrives is under flow control.

use super::hpack;
use super::http2_frames::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2Frame, Http2Frames, Http2Header,
    Http2Headers, PING, PREFACE, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame_number,
    put_frame, put_settings,
};
use super::request::Request;
use super::version::{AnswerPart, MOST_HEADER, Take, Version, feed_arrived};
use deadheat_datapath::transport::application::Streams;

/// The byte stream.
const STREAM: u64 = 0;

/// Window of each stream and of the connection in bytes: QUIC has windows of this size by default.
const WINDOW: u32 = 8_000_000;

/// Requests at a time before the far end has said how many it takes (RFC 9113, 6.5.2 recommends no fewer).
const AT_A_TIME: u32 = 100;

/// End that asks.
pub(super) struct Http2 {
    header: Vec<u8>,
    open: Vec<OpenStream>,
    asked: u64,
    frames: Http2Frames,
    headers: Http2Headers,
    /// Bytes to send after what arrived.
    replies: Vec<u8>,
    /// Bytes that arrived since the connection's window was raised.
    taken: u32,
    at_a_time: u32,
    has_settings: bool,
    is_leaving: bool,
}

/// Request on its stream.
struct OpenStream {
    stream: u32,
    number: u64,
    has_head: bool,
    /// Bytes that arrived since the stream's window was raised.
    taken: u32,
}

impl Http2 {
    pub(super) fn new(request: &Request) -> Http2 {
        Http2 {
            header: hpack::encode(request),
            open: Vec::new(),
            asked: 0,
            frames: Http2Frames::default(),
            headers: Http2Headers::new(MOST_HEADER),
            replies: Vec::new(),
            taken: 0,
            at_a_time: AT_A_TIME,
            has_settings: false,
            is_leaving: false,
        }
    }

    /// Takes bytes of the stream.
    fn feed(&mut self, bytes: &[u8], take: Take<'_>) -> Result<(), String> {
        let mut frames = std::mem::take(&mut self.frames);
        let fed = frames.feed(bytes, &mut |frame| self.frame(frame, &mut *take));
        self.frames = frames;
        fed
    }

    fn frame(&mut self, frame: Http2Frame<'_>, take: Take<'_>) -> Result<(), String> {
        if !self.has_settings && frame.kind != SETTINGS {
            return Err("it does not begin with SETTINGS, as HTTP/2 does".to_owned());
        }
        if let Some(header) = self.headers.take(frame)? {
            return self.take_header(&header, take);
        }
        match frame.kind {
            DATA => self.data(frame, take),
            RST_STREAM => {
                let code = frame_number(frame.payload).ok_or("a reset has the wrong length")?;
                if self.open.iter().any(|open| open.stream == frame.stream) {
                    Err(format!("it reset a request with the code {code:#x}"))
                } else {
                    Ok(())
                }
            }
            SETTINGS => self.settings(frame),
            PUSH_PROMISE => Err("it pushes a document that nobody has asked for".to_owned()),
            PING if frame.payload.len() != 8 => Err("a ping has the wrong length".to_owned()),
            PING if frame.flags & ACK == 0 => {
                put_frame(&mut self.replies, PING, ACK, 0, frame.payload);
                Ok(())
            }
            GOAWAY => {
                let code = frame.payload.get(4..8).and_then(frame_number);
                self.is_leaving = true;
                match code.ok_or("a farewell has the wrong length")? {
                    0 => Ok(()),
                    code => Err(format!("it ended the connection with the code {code:#x}")),
                }
            }
            // This end sends no body, so no window of the far end's matters; and what is unknown is skipped.
            _ => Ok(()),
        }
    }

    fn settings(&mut self, frame: Http2Frame<'_>) -> Result<(), String> {
        let Some(settings) = frame.settings()? else { return Ok(()) };
        self.has_settings = true;
        // SETTINGS_MAX_CONCURRENT_STREAMS.
        for (_, value) in settings.iter().filter(|(name, _)| *name == 3) {
            self.at_a_time = *value;
        }
        put_frame(&mut self.replies, SETTINGS, ACK, 0, &[]);
        Ok(())
    }

    fn data(&mut self, frame: Http2Frame<'_>, take: Take<'_>) -> Result<(), String> {
        let bytes = frame.unpadded()?;
        // Padding counts, too.
        let length = frame.payload.len() as u32;
        self.taken += length;
        if self.taken >= WINDOW / 2 {
            let raise = std::mem::take(&mut self.taken).to_be_bytes();
            put_frame(&mut self.replies, WINDOW_UPDATE, 0, 0, &raise);
        }
        let Some(at) = self.open.iter().position(|open| open.stream == frame.stream) else {
            return Err("it sent a body on a stream without a request".to_owned());
        };
        let open = &mut self.open[at];
        if !open.has_head {
            return Err("it sent a body before a header".to_owned());
        }
        open.taken += length;
        if open.taken >= WINDOW / 2 {
            let raise = std::mem::take(&mut open.taken).to_be_bytes();
            put_frame(&mut self.replies, WINDOW_UPDATE, 0, frame.stream, &raise);
        }
        let number = open.number;
        if !bytes.is_empty() {
            take(number, AnswerPart::Body(bytes))?;
        }
        if frame.flags & END_STREAM != 0 { self.end(at, take) } else { Ok(()) }
    }

    /// Reads a header.
    fn take_header(&mut self, header: &Http2Header, take: Take<'_>) -> Result<(), String> {
        let Some(at) = self.open.iter().position(|open| open.stream == header.stream) else {
            return Err("it sent a header on a stream without a request".to_owned());
        };
        let open = &mut self.open[at];
        let has_ended = header.ends_stream;
        if !open.has_head {
            let head = hpack::decode(&header.block)?;
            if head.is_interim() && !has_ended {
                return Ok(());
            }
            open.has_head = true;
            take(open.number, AnswerPart::Head(head))?;
        } else if !has_ended {
            return Err("it sent a second header amid a body".to_owned());
        }
        if has_ended { self.end(at, take) } else { Ok(()) }
    }

    fn end(&mut self, at: usize, take: Take<'_>) -> Result<(), String> {
        let open = self.open.swap_remove(at);
        take(open.number, AnswerPart::End)
    }
}

impl Version for Http2 {
    fn name(&self) -> &'static str {
        "HTTP/2"
    }

    /// Sends the preface, SETTINGS, and a larger window of the connection: no dynamic table (HEADER_TABLE_SIZE), no push,
    /// the window of each stream, and the longest header (MAX_HEADER_LIST_SIZE).
    fn begin(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        let mut out = PREFACE.to_vec();
        put_settings(&mut out, &[(1, 0), (2, 0), (4, WINDOW), (6, MOST_HEADER as u32)], WINDOW);
        streams.write(STREAM, &out).map(drop)
    }

    fn request(&mut self, streams: &mut dyn Streams) -> Result<Option<u64>, String> {
        if self.is_leaving {
            return Err("it wants no more requests on this connection (GOAWAY)".to_owned());
        }
        if self.open.len() >= self.at_a_time as usize {
            return Ok(None);
        }
        // Numbers of a client's streams are odd (RFC 9113, 5.1.1).
        let stream = self.asked as u32 * 2 + 1;
        self.asked += 1;
        let mut out = Vec::new();
        put_frame(&mut out, HEADERS, END_HEADERS | END_STREAM, stream, &self.header);
        streams.write(STREAM, &out)?;
        self.open.push(OpenStream { stream, number: self.asked, has_head: false, taken: 0 });
        Ok(Some(self.asked))
    }

    fn read(&mut self, streams: &mut dyn Streams, take: Take<'_>) -> Result<(), String> {
        let has_ended = feed_arrived(streams, STREAM, &mut |bytes| self.feed(bytes, &mut *take))?;
        if !self.replies.is_empty() {
            let replies = std::mem::take(&mut self.replies);
            streams.write(STREAM, &replies)?;
        }
        if has_ended && !self.open.is_empty() {
            return Err("it closed the connection before its answer was whole".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::http2_frames::{
        CONTINUATION, FRAME_HEADER, HAS_PRIORITY, MOST_PAYLOAD, PADDED,
    };
    use super::super::testing::{FakeStreams, Got, request};
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_frame(&mut out, kind, flags, stream, payload);
        out
    }

    /// `:status: 200`, as an entry of the static table.
    const OK: &[u8] = &[0x88];

    /// Frames of a far end from its SETTINGS on.
    fn settings(at_a_time: u8) -> Vec<u8> {
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, at_a_time])
    }

    /// A request whose answer arrives in pieces; returns the parts, what was sent after the request, and the error.
    fn answered(bytes: &[u8], step: usize, ends: bool) -> (Vec<Got>, Vec<u8>, Result<(), String>) {
        let (mut http, mut streams) = (Http2::new(&request()), FakeStreams::byte_stream());
        http.begin(&mut streams).unwrap();
        assert_eq!(http.request(&mut streams), Ok(Some(1)));
        streams.sent(STREAM);
        let (mut got, mut outcome) = (Vec::new(), Ok(()));
        let mut read = |streams: &mut FakeStreams| {
            http.read(streams, &mut |number, part| {
                assert_eq!(number, 1);
                Got::note(&mut got, part);
                Ok(())
            })
        };
        for piece in bytes.chunks(step) {
            streams.arrive(STREAM, piece);
            outcome = outcome.and_then(|()| read(&mut streams));
        }
        if ends {
            streams.end(STREAM);
            outcome = outcome.and_then(|()| read(&mut streams));
        }
        (got, streams.sent(STREAM), outcome)
    }

    #[test]
    fn what_leaves_is_the_preface_with_settings_and_a_request() {
        let (mut http, mut streams) = (Http2::new(&request()), FakeStreams::byte_stream());
        http.begin(&mut streams).unwrap();
        let sent = streams.sent(STREAM);
        assert!(sent.starts_with(PREFACE));
        assert_eq!(sent[PREFACE.len()..][..5], [0, 0, 24, SETTINGS, 0]);
        http.request(&mut streams).unwrap();
        let sent = streams.sent(STREAM);
        assert_eq!(sent[3..9], [HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, 1]);
        let text = String::from_utf8_lossy(&sent);
        for part in ["www.example:8443", "/a?b=1", "deadheat/"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_document_is_whole_in_any_pieces_with_padding_and_other_frames_between() {
        let answer = [
            settings(1),
            frame(SETTINGS, ACK, 0, &[]),
            frame(PING, 0, 0, &[9; 8]),
            frame(HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3']),
            frame(HEADERS, HAS_PRIORITY, 1, &[0, 0, 0, 0, 5]),
            frame(CONTINUATION, END_HEADERS, 1, OK),
            frame(0x10, 0, 0, b"an extension"),
            frame(DATA, PADDED, 1, &[3, b'h', b'e', b'l', 0, 0, 0]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
            frame(DATA, 0, 1, b"lo"),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x40, 1, b'x', 1, b'y']),
        ];
        for step in [1, 4, 1_000] {
            let (got, sent, outcome) = answered(&answer.concat(), step, true);
            assert_eq!(outcome, Ok(()), "in pieces of {step}");
            assert_eq!(got, [Got::Head(200), Got::Body(b"hello".to_vec()), Got::End]);
            let replies = [frame(SETTINGS, ACK, 0, &[]), frame(PING, ACK, 0, &[9; 8])].concat();
            assert_eq!(sent, replies, "in pieces of {step}");
        }
    }

    #[test]
    fn windows_are_raised_as_their_bytes_arrive() {
        let (mut http, mut streams) = (Http2::new(&request()), FakeStreams::byte_stream());
        http.request(&mut streams).unwrap();
        streams.sent(STREAM);
        streams.arrive(STREAM, &[settings(9), frame(HEADERS, END_HEADERS, 1, OK)].concat());
        for _ in 0..WINDOW as usize / MOST_PAYLOAD {
            streams.arrive(STREAM, &frame(DATA, 0, 1, &[7; MOST_PAYLOAD]));
            http.read(&mut streams, &mut |_, _| Ok(())).unwrap();
        }
        let sent = streams.sent(STREAM);
        let raised = sent.chunks(1).count();
        // The acknowledgement of SETTINGS, and a frame of 13 bytes for the connection and for the stream.
        assert_eq!(raised, FRAME_HEADER + 2 * (FRAME_HEADER + 4), "{sent:?}");
    }

    #[test]
    fn no_more_is_asked_at_a_time_than_the_server_takes() {
        let (mut http, mut streams) = (Http2::new(&request()), FakeStreams::byte_stream());
        streams.arrive(STREAM, &settings(2));
        http.read(&mut streams, &mut |_, _| Ok(())).unwrap();
        let numbers = [(); 3].map(|()| http.request(&mut streams).unwrap());
        assert_eq!(numbers, [Some(1), Some(2), None]);
        streams.arrive(STREAM, &frame(GOAWAY, 0, 0, &[0; 8]));
        http.read(&mut streams, &mut |_, _| Ok(())).unwrap();
        assert!(http.request(&mut streams).unwrap_err().contains("GOAWAY"));
    }

    #[test]
    fn a_server_that_lies_or_closes_in_any_state_is_named() {
        let after = |frames: &[Vec<u8>]| [&[settings(9)], frames].concat().concat();
        let ok = frame(HEADERS, END_HEADERS, 1, OK);
        for (bytes, why) in [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "is it HTTP/2?"),
            (frame(PING, 0, 0, &[0; 8]), "does not begin with SETTINGS"),
            (frame(SETTINGS, 0, 0, &[0; 5]), "SETTINGS are not of the connection"),
            (after(&[]), "before its answer was whole"),
            (after(&[ok.clone(), frame(DATA, 0, 1, b"a")]), "before its answer was whole"),
            (after(&[frame(DATA, 0, 1, b"a")]), "a body before a header"),
            (after(&[frame(DATA, 0, 3, b"a")]), "without a request"),
            (after(&[frame(HEADERS, END_HEADERS, 3, OK)]), "without a request"),
            (after(&[frame(HEADERS, 0, 1, OK), frame(PING, 0, 0, &[0; 8])]), "cuts a header"),
            (after(&[frame(CONTINUATION, 0, 1, OK)]), "goes on with a header"),
            (after(&[frame(HEADERS, PADDED | END_HEADERS, 1, &[9])]), "shorter than its padding"),
            (after(&[frame(HEADERS, END_HEADERS, 1, &[0xbe])]), "dynamic table"),
            (after(&[ok.clone(), ok]), "a second header amid a body"),
            (after(&[frame(RST_STREAM, 0, 1, &[0, 0, 0, 7])]), "reset a request with the code 0x7"),
            (after(&[frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])]), "with the code 0xb"),
            (after(&[frame(PUSH_PROMISE, 0, 1, &[0; 4])]), "it pushes"),
            (vec![0xff; 9], "a frame of 16777215 bytes"),
        ] {
            let said = answered(&bytes, 1_000, true).2.unwrap_err();
            assert!(said.contains(why), "{why}: {said}");
        }
        let endless = [settings(9), frame(HEADERS, 0, 1, OK)].concat();
        let more = frame(CONTINUATION, 0, 1, &[0; MOST_PAYLOAD]).repeat(5);
        let said = answered(&[endless, more].concat(), 100_000, false).2.unwrap_err();
        assert!(said.contains("header is longer than"), "{said}");
    }

    #[test]
    fn any_bytes_after_settings_are_read_or_refused() {
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let mut bytes = settings(9);
            for _ in 0..state % 60 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Small lengths and known types, so that most of it is a frame.
                bytes.push((state >> 56) as u8 % 12);
            }
            state = state.wrapping_add(1);
            let _ = answered(&bytes, 7, true);
        }
    }
}
