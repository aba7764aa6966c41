//! Frames of HTTP/2 (RFC 9113, 4 and 6) as both ends of a connection read and write them: the client of web servers, and the server
//! for browsers. A peer's bytes are read or refused with a sentence, and no more of them is stored than the limits say.

/// First bytes of a connection (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Type of a frame with bytes of a body (RFC 9113, 6, as the others).
pub const DATA: u8 = 0x0;
/// Type of a frame that begins a header.
pub const HEADERS: u8 = 0x1;
/// Type of a frame that takes a stream back.
pub const RST_STREAM: u8 = 0x3;
/// Type of a frame with settings of the connection.
pub const SETTINGS: u8 = 0x4;
/// Type of a frame that announces a document of the server's own choice.
pub const PUSH_PROMISE: u8 = 0x5;
/// Type of a frame that is to be answered.
pub const PING: u8 = 0x6;
/// Type of a frame that ends the connection.
pub const GOAWAY: u8 = 0x7;
/// Type of a frame that raises a window.
pub const WINDOW_UPDATE: u8 = 0x8;
/// Type of a frame that goes on with a header.
pub const CONTINUATION: u8 = 0x9;

/// Flag of the last frame of a stream.
pub const END_STREAM: u8 = 0x1;
/// Flag of an answer to SETTINGS and to a ping.
pub const ACK: u8 = 0x1;
/// Flag of the last frame of a header.
pub const END_HEADERS: u8 = 0x4;
/// Flag of a frame with padding.
pub const PADDED: u8 = 0x8;
/// Flag of a header with a priority before it.
pub const HAS_PRIORITY: u8 = 0x20;

/// Bytes of a frame's header, and most bytes of its payload: the default, which both ends leave.
pub const FRAME_HEADER: usize = 9;
/// Most bytes of a frame's payload.
pub const MOST_PAYLOAD: usize = 16_384;

/// First window of a connection, in bytes (RFC 9113, 6.9.2).
pub const FIRST_WINDOW: u32 = 65_535;

/// Bytes of a priority (RFC 9113, 6.2).
const PRIORITY: usize = 5;

/// Most frames of one header: without a limit frames without bytes could go on forever.
const MOST_PIECES: u32 = 100;

/// Frame that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Frame<'a> {
    /// Type.
    pub kind: u8,
    /// Flags, whose meaning depends on the type.
    pub flags: u8,
    /// Number of the stream; 0 for the connection.
    pub stream: u32,
    /// Payload, with its padding.
    pub payload: &'a [u8],
}

/// Receiver of frames.
pub type OnHttp2Frame<'a> = &'a mut dyn FnMut(Http2Frame<'_>) -> Result<(), String>;

impl<'a> Http2Frame<'a> {
    /// Returns the payload without its padding.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub fn unpadded(&self) -> Result<&'a [u8], String> {
        if self.flags & PADDED == 0 {
            return Ok(self.payload);
        }
        let (padding, rest) =
            self.payload.split_first().ok_or("a frame ends before its padding")?;
        let length = rest.len().checked_sub(usize::from(*padding));
        Ok(&rest[..length.ok_or("a frame is shorter than its padding")?])
    }

    /// Returns the settings of a frame of that type, names and values; `None` for an acknowledgement.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub fn settings(&self) -> Result<Option<Vec<(u16, u32)>>, String> {
        if self.stream != 0 || !self.payload.len().is_multiple_of(6) {
            return Err("its SETTINGS are not of the connection, or cut".to_owned());
        }
        let of = |one: &[u8]| {
            (u16::from_be_bytes([one[0], one[1]]), frame_number(&one[2..]).unwrap_or_default())
        };
        Ok((self.flags & ACK == 0).then(|| self.payload.chunks_exact(6).map(of).collect()))
    }
}

/// Appends SETTINGS to `out`, names and values, and raises the window of the connection to `window` bytes.
pub fn put_settings(out: &mut Vec<u8>, settings: &[(u16, u32)], window: u32) {
    let of = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    put_frame(out, SETTINGS, 0, 0, &settings.iter().flat_map(of).collect::<Vec<u8>>());
    put_frame(out, WINDOW_UPDATE, 0, 0, &(window - FIRST_WINDOW).to_be_bytes());
}

/// Appends a frame to `out`.
pub fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Reads a number of 32 bits, without the reserved first one; `None` if there are more or fewer bytes.
pub fn frame_number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?) & 0x7fff_ffff)
}

/// Reader of frames from a byte stream.
#[derive(Debug, Default)]
pub struct Http2Frames {
    /// Start of a frame whose end has not arrived.
    held: Vec<u8>,
}

impl Http2Frames {
    /// Takes bytes of the stream, and gives each frame that is whole to `on`.
    ///
    /// # Errors
    /// The violation, as a sentence, or the error of `on`; there are no frames behind it.
    pub fn feed(&mut self, mut bytes: &[u8], on: OnHttp2Frame<'_>) -> Result<(), String> {
        while !bytes.is_empty() {
            let missing = FRAME_HEADER.saturating_sub(self.held.len());
            let (own, rest) = bytes.split_at(bytes.len().min(missing));
            self.held.extend_from_slice(own);
            bytes = rest;
            let Some(head) = self.held.first_chunk::<FRAME_HEADER>() else { return Ok(()) };
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            if length > MOST_PAYLOAD {
                return Err(format!(
                    "it sent a frame of {length} bytes, where {MOST_PAYLOAD} are the most; is it HTTP/2?"
                ));
            }
            let (kind, flags) = (head[3], head[4]);
            let stream = frame_number(&head[5..]).unwrap_or_default();
            let missing = FRAME_HEADER + length - self.held.len();
            let (own, rest) = bytes.split_at(missing.min(bytes.len()));
            bytes = rest;
            // A payload that arrived in one piece is not copied.
            let is_here = own.len() == length;
            if !is_here {
                self.held.extend_from_slice(own);
                if own.len() < missing {
                    return Ok(());
                }
            }
            let payload = if is_here { own } else { &self.held[FRAME_HEADER..] };
            on(Http2Frame { kind, flags, stream, payload })?;
            self.held.clear();
        }
        Ok(())
    }
}

/// Header that is whole, compressed as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http2Header {
    /// Number of its stream.
    pub stream: u32,
    /// True if its stream ends with it.
    pub ends_stream: bool,
    /// Its bytes, in HPACK.
    pub block: Vec<u8>,
}

/// Assembly of headers from their frames (RFC 9113, 6.2 and 6.10).
#[derive(Debug)]
pub struct Http2Headers {
    most: usize,
    /// Header whose end has not arrived.
    open: Option<Http2Header>,
    pieces: u32,
}

impl Http2Headers {
    /// Creates it for headers of at most so many bytes.
    pub fn new(most: usize) -> Http2Headers {
        Http2Headers { most, open: None, pieces: 0 }
    }

    /// Takes a frame of any type, because a frame of another type must not cut a header; returns the header that is
    /// whole with it.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub fn take(&mut self, frame: Http2Frame<'_>) -> Result<Option<Http2Header>, String> {
        let header = match (&mut self.open, frame.kind) {
            (Some(header), CONTINUATION) if header.stream == frame.stream => {
                header.block.extend_from_slice(frame.payload);
                self.pieces += 1;
                header
            }
            (Some(_), CONTINUATION) => {
                return Err("it goes on with a header of another stream".to_owned());
            }
            (Some(_), _) => return Err("a frame of another type cuts a header".to_owned()),
            (None, CONTINUATION) => {
                return Err("it goes on with a header that has not begun".to_owned());
            }
            (open, HEADERS) => {
                self.pieces = 1;
                open.insert(begun(frame)?)
            }
            (None, _) => return Ok(None),
        };
        if header.block.len() > self.most {
            return Err(format!("its header is longer than {} bytes", self.most));
        }
        if self.pieces > MOST_PIECES {
            return Err(format!("its header is in more than {MOST_PIECES} frames"));
        }
        if frame.flags & END_HEADERS == 0 {
            return Ok(None);
        }
        Ok(self.open.take())
    }
}

/// Reads the first frame of a header.
fn begun(frame: Http2Frame<'_>) -> Result<Http2Header, String> {
    let mut block = frame.unpadded()?;
    if frame.flags & HAS_PRIORITY != 0 {
        block = block.get(PRIORITY..).ok_or("a header is shorter than its priority")?;
    }
    let ends_stream = frame.flags & END_STREAM != 0;
    Ok(Http2Header { stream: frame.stream, ends_stream, block: block.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Http2Frame<'_> {
        Http2Frame { kind, flags, stream, payload }
    }

    /// A frame as text, to be compared.
    fn shown(frame: Http2Frame<'_>) -> String {
        format!("{frame:?}")
    }

    #[test]
    fn frames_are_read_in_any_pieces() {
        let long = vec![7; MOST_PAYLOAD];
        let sent = [
            frame(SETTINGS, 0, 0, &[]),
            frame(DATA, END_STREAM, 3, b"hello"),
            frame(0x10, 0xff, 0x7fff_ffff, &long),
            frame(PING, ACK, 0, &[9; 8]),
        ];
        let mut bytes = Vec::new();
        for one in &sent {
            put_frame(&mut bytes, one.kind, one.flags, one.stream, one.payload);
        }
        for step in [1, 4, 9, 10, 5_000, bytes.len()] {
            let (mut frames, mut got) = (Http2Frames::default(), Vec::new());
            for piece in bytes.chunks(step) {
                let mut on = |frame: Http2Frame<'_>| {
                    got.push(shown(frame));
                    Ok(())
                };
                frames.feed(piece, &mut on).unwrap();
            }
            assert_eq!(got, sent.map(shown), "in pieces of {step}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_arrives_and_an_error_ends_the_frames() {
        let mut frames = Http2Frames::default();
        let mut none = |_: Http2Frame<'_>| Ok(());
        let said = frames.feed(&[0, 0x40, 1, 0, 0, 0, 0, 0, 0], &mut none).unwrap_err();
        assert!(said.starts_with("it sent a frame of 16385 bytes"), "{said}");
        let mut two = Vec::new();
        put_frame(&mut two, DATA, 0, 1, b"a");
        put_frame(&mut two, DATA, 0, 1, b"b");
        let mut count = 0;
        let mut refuse = |_: Http2Frame<'_>| {
            count += 1;
            Err("no".to_owned())
        };
        assert_eq!(Http2Frames::default().feed(&two, &mut refuse), Err("no".to_owned()));
        assert_eq!(count, 1);
    }

    #[test]
    fn a_header_is_put_together_without_padding_and_priority() {
        let mut headers = Http2Headers::new(100);
        let flags = PADDED | HAS_PRIORITY | END_STREAM;
        let first = [2, 0, 0, 0, 0, 5, b'a', b'b', 0, 0];
        assert_eq!(headers.take(frame(HEADERS, flags, 5, &first)), Ok(None));
        assert_eq!(headers.take(frame(CONTINUATION, 0, 5, b"c")), Ok(None));
        let whole = headers.take(frame(CONTINUATION, END_HEADERS, 5, b"d")).unwrap().unwrap();
        assert_eq!(whole, Http2Header { stream: 5, ends_stream: true, block: b"abcd".to_vec() });
        assert_eq!(headers.take(frame(DATA, 0, 5, b"e")), Ok(None));
        let one = headers.take(frame(HEADERS, END_HEADERS, 7, b"f")).unwrap().unwrap();
        assert_eq!(one, Http2Header { stream: 7, ends_stream: false, block: b"f".to_vec() });
    }

    #[test]
    fn headers_that_break_the_rules_or_the_limits_are_refused() {
        let open = || {
            let mut headers = Http2Headers::new(100);
            assert_eq!(headers.take(frame(HEADERS, 0, 1, &[0; 60])), Ok(None));
            headers
        };
        let none = || Http2Headers::new(100);
        for (mut headers, next, why) in [
            (open(), frame(DATA, 0, 1, b""), "a frame of another type cuts"),
            (open(), frame(HEADERS, END_HEADERS, 1, b""), "a frame of another type cuts"),
            (open(), frame(CONTINUATION, 0, 3, b""), "of another stream"),
            (open(), frame(CONTINUATION, END_HEADERS, 1, &[0; 41]), "is longer than 100 bytes"),
            (none(), frame(CONTINUATION, 0, 1, b""), "has not begun"),
            (none(), frame(HEADERS, PADDED, 1, b""), "ends before its padding"),
            (none(), frame(HEADERS, PADDED, 1, &[2, 0]), "is shorter than its padding"),
            (none(), frame(HEADERS, HAS_PRIORITY, 1, &[0; 4]), "is shorter than its priority"),
            (none(), frame(HEADERS, END_HEADERS, 1, &[0; 101]), "is longer than 100 bytes"),
        ] {
            let said = headers.take(next).unwrap_err();
            assert!(said.contains(why), "{why}: {said}");
        }
        let mut headers = open();
        let empty = || frame(CONTINUATION, 0, 1, b"");
        let refused = (0..=MOST_PIECES).find_map(|_| headers.take(empty()).err());
        assert_eq!(refused, Some("its header is in more than 100 frames".to_owned()));
    }

    #[test]
    fn any_bytes_are_read_or_refused_within_the_limits() {
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let (mut frames, mut headers) = (Http2Frames::default(), Http2Headers::new(64));
            for _ in 0..40 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Small lengths and known types, so that most of it is a frame.
                let bytes = state.to_be_bytes().map(|byte| byte % 12);
                let on = &mut |frame: Http2Frame<'_>| headers.take(frame).map(drop);
                if frames.feed(&bytes, on).is_err() {
                    break;
                }
                assert!(frames.held.len() <= FRAME_HEADER + MOST_PAYLOAD);
                assert!(headers.open.as_ref().is_none_or(|open| open.block.len() <= 64));
            }
        }
    }
}
