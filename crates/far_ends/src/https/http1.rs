//! HTTP/1.1 (RFC 9112): one request at a time on a byte stream. httparse reads headers; bodies are passed on as they come.

use httparse::{Status, parse_chunk_size};

use super::head::Head;
use super::request::Request;
use super::version::{AnswerPart, MOST_HEADER, Take, Version, feed_arrived};
use deadheat_datapath::transport::application::Streams;

/// The byte stream.
const STREAM: u64 = 0;

/// Most fields of a header.
const MOST_FIELDS: usize = 128;

/// Longest line of a chunked body.
const LONGEST_LINE: usize = 4 << 10;

/// Most bytes of a chunk: none of a larger one would arrive whole.
const MOST_CHUNK: u64 = 1 << 40;

/// End that asks.
pub(super) struct Http1 {
    request: Vec<u8>,
    state: AnswerState,
    /// Start of a header or a line whose end has not arrived.
    held: Vec<u8>,
    /// Number of requests so far.
    asked: u64,
    /// True if the far end closes the connection after the current answer.
    closes: bool,
}

/// Progress with the current answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    /// Nothing was asked, or all is answered.
    Idle,
    Head,
    /// Body of which so many bytes are left.
    Counted(u64),
    /// Body that the end of the connection ends.
    ToTheEnd,
    /// Size of the next chunk of a chunked body.
    ChunkSize,
    /// Chunk of which so many bytes are left.
    Chunk(u64),
    /// Line end after a chunk.
    ChunkEnd,
    /// Fields after the last chunk.
    Trailer,
}

/// Length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyLength {
    Counted(u64),
    Chunked,
    ToTheEnd,
}

impl Http1 {
    pub(super) fn new(request: &Request) -> Http1 {
        let Request { authority, path, agent } = request;
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nAccept-Encoding: identity\r\n\r\n"
        );
        Http1 {
            request: text.into_bytes(),
            state: AnswerState::Idle,
            held: Vec::new(),
            asked: 0,
            closes: false,
        }
    }

    /// Takes bytes of the stream.
    fn feed(&mut self, mut bytes: &[u8], take: Take<'_>) -> Result<(), String> {
        while !bytes.is_empty() {
            bytes = match self.state {
                AnswerState::Idle => {
                    return Err(format!("it sent {} bytes that nobody has asked for", bytes.len()));
                }
                AnswerState::Head => self.head(bytes, take)?,
                AnswerState::Counted(left) => {
                    let (own, rest) = split(bytes, left);
                    self.state = AnswerState::Counted(left - own.len() as u64);
                    take(self.asked, AnswerPart::Body(own))?;
                    if left == own.len() as u64 {
                        self.end(take)?;
                    }
                    rest
                }
                AnswerState::ToTheEnd => {
                    take(self.asked, AnswerPart::Body(bytes))?;
                    &[]
                }
                AnswerState::Chunk(left) => {
                    let (own, rest) = split(bytes, left);
                    take(self.asked, AnswerPart::Body(own))?;
                    self.state = match left - own.len() as u64 {
                        0 => AnswerState::ChunkEnd,
                        left => AnswerState::Chunk(left),
                    };
                    rest
                }
                AnswerState::ChunkSize | AnswerState::ChunkEnd | AnswerState::Trailer => {
                    self.line(bytes, take)?
                }
            };
        }
        Ok(())
    }

    /// Takes bytes of a header; returns those behind it.
    fn head<'a>(&mut self, bytes: &'a [u8], take: Take<'_>) -> Result<&'a [u8], String> {
        let before = self.held.len();
        self.held.extend_from_slice(bytes);
        let Some((head, length, len)) = self.parse_head()? else {
            if self.held.len() > MOST_HEADER {
                return Err(format!("its header is longer than {MOST_HEADER} bytes"));
            }
            return Ok(&[]);
        };
        self.held.clear();
        // The header ends among these bytes, or it would have been whole before.
        let rest = &bytes[len.saturating_sub(before).min(bytes.len())..];
        if head.is_interim() {
            return Ok(rest);
        }
        take(self.asked, AnswerPart::Head(head))?;
        self.state = match length {
            BodyLength::Counted(0) => {
                self.end(take)?;
                return Ok(rest);
            }
            BodyLength::Counted(length) => AnswerState::Counted(length),
            BodyLength::Chunked => AnswerState::ChunkSize,
            BodyLength::ToTheEnd => AnswerState::ToTheEnd,
        };
        Ok(rest)
    }

    /// Reads a whole header, with the length of the body after it, and its own; `None` if its end has not arrived.
    fn parse_head(&mut self) -> Result<Option<(Head, BodyLength, usize)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut parsed = httparse::Response::new(&mut fields);
        let len = match parsed.parse(&self.held) {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) => return Ok(None),
            Err(error) => return Err(format!("its answer is no HTTP/1.1 ({error})")),
        };
        let mut head = Head { status: parsed.code.unwrap_or_default(), ..Head::default() };
        let (mut is_chunked, mut closes) = (false, parsed.version == Some(0));
        for field in parsed.headers.iter() {
            let name = field.name.to_ascii_lowercase();
            let has = |word: &[u8]| {
                field
                    .value
                    .split(|byte| *byte == b',')
                    .any(|one| one.trim_ascii().eq_ignore_ascii_case(word))
            };
            match name.as_str() {
                "transfer-encoding" if has(b"chunked") => is_chunked = true,
                "transfer-encoding" => {
                    return Err("it encodes its answer, though identity was asked for".to_owned());
                }
                "connection" => closes = has(b"close") || (closes && !has(b"keep-alive")),
                _ => head.field(name.as_bytes(), field.value)?,
            }
        }
        head.check()?;
        self.closes |= closes && !head.is_interim();
        // RFC 9112, 6.3.
        let length = match (head.status, is_chunked, head.length) {
            (204 | 304, ..) => BodyLength::Counted(0),
            (_, true, _) => BodyLength::Chunked,
            (_, false, Some(length)) => BodyLength::Counted(length),
            (_, false, None) => {
                self.closes |= !head.is_interim();
                BodyLength::ToTheEnd
            }
        };
        Ok(Some((head, length, len)))
    }

    /// Takes bytes of a line of a chunked body; returns those behind it.
    fn line<'a>(&mut self, bytes: &'a [u8], take: Take<'_>) -> Result<&'a [u8], String> {
        let Some(at) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.held.extend_from_slice(bytes);
            if self.held.len() > LONGEST_LINE {
                return Err(format!(
                    "a line of its chunked body has more than {LONGEST_LINE} bytes"
                ));
            }
            return Ok(&[]);
        };
        let (own, rest) = bytes.split_at(at + 1);
        self.held.extend_from_slice(own);
        let line = std::mem::take(&mut self.held);
        let is_empty = line.trim_ascii().is_empty();
        self.state = match self.state {
            AnswerState::ChunkEnd if is_empty => AnswerState::ChunkSize,
            AnswerState::ChunkEnd => return Err("a chunk of its body has no end".to_owned()),
            AnswerState::Trailer if is_empty => {
                self.end(take)?;
                return Ok(rest);
            }
            AnswerState::Trailer => AnswerState::Trailer,
            _ => match parse_chunk_size(&line) {
                Ok(Status::Complete((_, 0))) => AnswerState::Trailer,
                Ok(Status::Complete((_, size))) if size > MOST_CHUNK => {
                    return Err(format!("a chunk of its body has {size} bytes, as it says"));
                }
                Ok(Status::Complete((_, size))) => AnswerState::Chunk(size),
                _ => return Err("a chunk of its body has no size".to_owned()),
            },
        };
        Ok(rest)
    }

    fn end(&mut self, take: Take<'_>) -> Result<(), String> {
        self.state = AnswerState::Idle;
        take(self.asked, AnswerPart::End)
    }

    /// Takes the end of the stream.
    fn ended(&mut self, take: Take<'_>) -> Result<(), String> {
        match self.state {
            AnswerState::Idle => Ok(()),
            AnswerState::ToTheEnd => self.end(take),
            AnswerState::Head if self.held.is_empty() => {
                Err("it closed the connection without an answer".to_owned())
            }
            _ => Err("it closed the connection before its answer was whole".to_owned()),
        }
    }
}

/// Splits off the first `most` bytes, or as many as there are.
fn split(bytes: &[u8], most: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(most).map_or(bytes.len(), |most| most.min(bytes.len())))
}

impl Version for Http1 {
    fn name(&self) -> &'static str {
        "HTTP/1.1"
    }

    fn begin(&mut self, _streams: &mut dyn Streams) -> Result<(), String> {
        Ok(())
    }

    fn request(&mut self, streams: &mut dyn Streams) -> Result<Option<u64>, String> {
        if self.state != AnswerState::Idle {
            return Ok(None);
        }
        if self.closes {
            return Err(
                "it closes the connection after each answer; the workload connect, with a connection each, fits".to_owned(),
            );
        }
        // A byte stream takes all of it.
        streams.write(STREAM, &self.request)?;
        (self.state, self.asked) = (AnswerState::Head, self.asked + 1);
        Ok(Some(self.asked))
    }

    fn read(&mut self, streams: &mut dyn Streams, take: Take<'_>) -> Result<(), String> {
        let has_ended = feed_arrived(streams, STREAM, &mut |bytes| self.feed(bytes, &mut *take))?;
        if has_ended { self.ended(take) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStreams, Got, request};
    use super::*;

    /// Answers that arrive in pieces of `step` bytes; returns the parts, and the error if there was one.
    fn answered(bytes: &[u8], step: usize, ends: bool) -> (Vec<Got>, Result<(), String>) {
        let (mut http, mut streams) = (Http1::new(&request()), FakeStreams::byte_stream());
        assert_eq!(http.request(&mut streams), Ok(Some(1)));
        let mut got = Vec::new();
        let mut read = |streams: &mut FakeStreams| {
            http.read(streams, &mut |number, part| {
                assert_eq!(number, 1);
                Got::note(&mut got, part);
                Ok(())
            })
        };
        let mut outcome = Ok(());
        for piece in bytes.chunks(step) {
            streams.arrive(STREAM, piece);
            outcome = outcome.and_then(|()| read(&mut streams));
        }
        if ends {
            streams.end(STREAM);
            outcome = outcome.and_then(|()| read(&mut streams));
        }
        (got, outcome)
    }

    #[test]
    fn a_request_says_who_asks_and_another_waits_for_its_answer() {
        let (mut http, mut streams) = (Http1::new(&request()), FakeStreams::byte_stream());
        assert_eq!(http.request(&mut streams), Ok(Some(1)));
        let sent = String::from_utf8(streams.sent(STREAM)).unwrap();
        assert!(
            sent.starts_with(
                "GET /a?b=1 HTTP/1.1\r\nHost: www.example:8443\r\nUser-Agent: deadheat/"
            ),
            "{sent}"
        );
        assert!(sent.ends_with("\r\n\r\n"));
        assert_eq!(http.request(&mut streams), Ok(None));
    }

    #[test]
    fn bodies_of_each_kind_are_whole_in_any_pieces() {
        let body = |answer: &str, ends| (answer.to_owned(), ends);
        for (answer, ends) in [
            body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
            body(
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
                false,
            ),
            body(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n",
                false,
            ),
            body("HTTP/1.0 200 OK\r\n\r\nhello", true),
        ] {
            for step in [1, 2, 7, 1_000] {
                let (got, outcome) = answered(answer.as_bytes(), step, ends);
                assert_eq!(outcome, Ok(()), "{answer} in pieces of {step}");
                assert_eq!(
                    got,
                    [Got::Head(200), Got::Body(b"hello".to_vec()), Got::End],
                    "{answer}"
                );
            }
        }
        let (got, _) = answered(b"HTTP/1.1 204 No Content\r\n\r\n", 3, false);
        assert_eq!(got, [Got::Head(204), Got::End]);
    }

    #[test]
    fn a_server_that_lies_or_closes_in_any_state_is_named() {
        let head = "HTTP/1.1 200 OK\r\n";
        for (answer, ends, why) in [
            ("", true, "closed the connection without an answer"),
            ("HTTP/1.1 20", true, "before its answer was whole"),
            (&format!("{head}Content-Length: 9\r\n\r\nhello"), true, "before its answer was whole"),
            (
                &format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhel"),
                true,
                "before its answer",
            ),
            ("SSH-2.0-OpenSSH_9.2\r\n", false, "no HTTP/1.1"),
            ("\x16\x03\x01\x02\x00", false, "no HTTP/1.1"),
            (&format!("{head}Content-Length: -5\r\n\r\n"), false, "its content-length is"),
            (
                &format!("{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
                false,
                "two content-lengths",
            ),
            (
                &format!("{head}Content-Length: 2\r\n\r\nhello"),
                false,
                "3 bytes that nobody has asked for",
            ),
            (&format!("{head}Transfer-Encoding: gzip\r\n\r\n"), false, "encodes its answer"),
            (&format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n"), false, "has no size"),
            (&format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"), false, "has no end"),
            (
                &format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", "1".repeat(9_000)),
                false,
                "a line of its chunked",
            ),
            (
                &format!("{head}X: {}\r\n", "a".repeat(70_000)),
                false,
                "header is longer than 65536 bytes",
            ),
        ] {
            let said = answered(answer.as_bytes(), 100_000, ends).1.unwrap_err();
            assert!(said.contains(why), "{answer:.60}: {said}");
        }
    }

    #[test]
    fn no_more_is_asked_where_the_server_closes_after_each_answer() {
        let (mut http, mut streams) = (Http1::new(&request()), FakeStreams::byte_stream());
        http.request(&mut streams).unwrap();
        streams
            .arrive(STREAM, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na");
        http.read(&mut streams, &mut |_, _| Ok(())).unwrap();
        assert!(
            http.request(&mut streams).unwrap_err().contains("closes the connection after each")
        );
    }
}
