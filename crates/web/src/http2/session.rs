//! One connection of HTTP/2 (RFC 9113), without a socket: its frames, and a request with its answer on each stream.

use deadheat_far_ends::hpack::{FIRST_TABLE, HeaderReader};
use deadheat_far_ends::http2::{
    ACK, DATA, END_HEADERS, END_STREAM, FIRST_WINDOW, GOAWAY, HEADERS, Http2Frame, Http2Frames,
    Http2Header, Http2Headers, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame_number,
    put_frame, put_settings,
};

use super::request::{Terms, header, read};
use crate::pings::StreamPings;
use crate::requests::{Reply, WholeRequest, WorkRequest};
use crate::work::CHUNK;
use deadheat_base::time::Nanos;

/// Bytes of the longest header.
const LONGEST_HEADER: usize = 16 << 10;

/// Requests at a time.
const AT_A_TIME: usize = 100;

/// Bytes that a browser may send ahead, on a stream and in all: all bytes are taken as they arrive.
const WINDOW: u32 = 4 << 20;

/// Bytes that wait to be written at most, beyond one message, and bytes of requests that are not whole.
const MOST_WAITING: usize = 64 << 10;
const MOST_HELD: usize = 1 << 20;

/// Requests that a browser may take back on one connection.
const MOST_RESETS: u32 = 10_000;

/// Connection of a browser.
pub(super) struct Http2Session {
    terms: Terms,
    /// Bytes of the preface that have arrived.
    begun: usize,
    frames: Http2Frames,
    headers: Http2Headers,
    fields: HeaderReader,
    streams: Vec<Http2Stream>,
    pings: StreamPings,
    /// Number of the newest stream, and of requests.
    newest: u32,
    requests: u64,
    resets: u32,
    /// Bytes that may be sent on the connection, and on a new stream.
    window: i64,
    first_window: i64,
    /// Bytes that arrived since the connection's window was raised.
    taken: u32,
    out: Vec<u8>,
    is_leaving: bool,
    since: Nanos,
    idle_since: Nanos,
}

/// Stream with its request and its answer.
struct Http2Stream {
    id: u32,
    /// Origin of the page.
    origin: String,
    request: WorkRequest,
    window: i64,
    reply: Option<Reply>,
    /// True once the request is whole, once the header of the answer has left, and once all of it has.
    is_whole: bool,
    has_header: bool,
    is_done: bool,
}

impl Http2Session {
    /// Creates the session of a connection that was accepted at `since`.
    pub(super) fn new(terms: Terms, since: Nanos) -> Http2Session {
        let mut session = Http2Session {
            terms,
            pings: StreamPings::default(),
            begun: 0,
            frames: Http2Frames::default(),
            headers: Http2Headers::new(LONGEST_HEADER),
            fields: HeaderReader::new(FIRST_TABLE),
            streams: Vec::new(),
            newest: 0,
            requests: 0,
            resets: 0,
            window: i64::from(FIRST_WINDOW),
            first_window: i64::from(FIRST_WINDOW),
            taken: 0,
            out: Vec::new(),
            is_leaving: false,
            since,
            idle_since: since,
        };
        // No dynamic table, no push, requests at a time, the window of each stream, and the longest header.
        let settings =
            [(1, 0), (2, 0), (3, AT_A_TIME as u32), (4, WINDOW), (6, LONGEST_HEADER as u32)];
        put_settings(&mut session.out, &settings, WINDOW);
        session
    }

    /// Takes bytes of the connection.
    ///
    /// # Errors
    /// The violation, as a sentence; the connection is over then.
    pub(super) fn feed(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), String> {
        let missing = &PREFACE[self.begun..];
        let (own, rest) = bytes.split_at(bytes.len().min(missing.len()));
        if own != &missing[..own.len()] {
            return Err("it does not begin as HTTP/2 does".to_owned());
        }
        self.begun += own.len();
        let mut frames = std::mem::take(&mut self.frames);
        let fed = frames.feed(rest, &mut |frame| self.frame(now, frame));
        self.frames = frames;
        fed
    }

    fn frame(&mut self, now: Nanos, frame: Http2Frame<'_>) -> Result<(), String> {
        if let Some(header) = self.headers.take(frame)? {
            return self.take_header(now, &header);
        }
        match frame.kind {
            DATA => self.data(now, frame),
            RST_STREAM => {
                self.streams.retain(|own| own.id != frame.stream);
                self.resets += 1;
                if self.resets > MOST_RESETS {
                    Err("it takes too many requests back".to_owned())
                } else {
                    Ok(())
                }
            }
            SETTINGS => self.settings(frame),
            PING if frame.payload.len() != 8 => Err("a ping has the wrong length".to_owned()),
            PING if frame.flags & ACK == 0 => {
                put_frame(&mut self.out, PING, ACK, 0, frame.payload);
                self.check_waiting()
            }
            WINDOW_UPDATE => self.raise(frame),
            // A farewell is followed by the end of the connection; what is unknown is skipped (RFC 9113, 4.1).
            _ => Ok(()),
        }
    }

    /// Refuses a browser that has more answered than it reads.
    fn check_waiting(&self) -> Result<(), String> {
        if self.out.len() > 4 * MOST_WAITING {
            Err("it asks for more than it reads".to_owned())
        } else {
            Ok(())
        }
    }

    fn settings(&mut self, frame: Http2Frame<'_>) -> Result<(), String> {
        let Some(settings) = frame.settings()? else { return Ok(()) };
        for (name, value) in settings {
            // SETTINGS_INITIAL_WINDOW_SIZE, which changes open streams, too (RFC 9113, 6.9.2).
            if name == 4 {
                let change = i64::from(value) - self.first_window;
                self.first_window = value.into();
                self.streams.iter_mut().for_each(|own| own.window += change);
            }
        }
        put_frame(&mut self.out, SETTINGS, ACK, 0, &[]);
        self.check_waiting()
    }

    fn raise(&mut self, frame: Http2Frame<'_>) -> Result<(), String> {
        let by = frame_number(frame.payload).ok_or("an update of a window has the wrong length")?;
        let window = match frame.stream {
            0 => Some(&mut self.window),
            id => self.streams.iter_mut().find(|own| own.id == id).map(|own| &mut own.window),
        };
        let Some(window) = window else { return Ok(()) };
        *window += i64::from(by);
        if *window > i64::from(u32::MAX >> 1) {
            Err("a window is larger than 2^31 bytes".to_owned())
        } else {
            Ok(())
        }
    }

    fn data(&mut self, now: Nanos, frame: Http2Frame<'_>) -> Result<(), String> {
        let bytes = frame.unpadded()?;
        // Padding counts, too. What arrives is taken at once, so both windows are raised again.
        let length = frame.payload.len() as u32;
        self.taken += length;
        if self.taken > WINDOW / 4 {
            let raise = std::mem::take(&mut self.taken).to_be_bytes();
            put_frame(&mut self.out, WINDOW_UPDATE, 0, 0, &raise);
        }
        let Some(at) = self.streams.iter().position(|own| own.id == frame.stream) else {
            // Of a stream that was reset, or answered already.
            return Ok(());
        };
        let own = &mut self.streams[at];
        own.request.take(now, bytes);
        if self.streams.iter().map(|own| own.request.held()).sum::<usize>() > MOST_HELD {
            return Err("it has too many requests that are not whole".to_owned());
        }
        let has_ended = frame.flags & END_STREAM != 0;
        if !has_ended && length > 0 {
            put_frame(&mut self.out, WINDOW_UPDATE, 0, frame.stream, &length.to_be_bytes());
            self.check_waiting()?;
        }
        if has_ended {
            self.end_request(now, at);
        }
        Ok(())
    }

    /// Reads a header: that of a request, or a trailer.
    fn take_header(&mut self, now: Nanos, header: &Http2Header) -> Result<(), String> {
        let (stream, fields) = (header.stream, self.fields.read(&header.block)?);
        // Numbers of a client's streams are odd and grow (RFC 9113, 5.1.1). A second header of a stream is a trailer.
        if stream % 2 == 0 {
            return Err(format!("it opened the stream {stream}"));
        }
        if stream > self.newest {
            if self.streams.len() >= AT_A_TIME {
                return Err(format!("it has more than {AT_A_TIME} requests open"));
            }
            self.newest = stream;
            self.requests += 1;
            self.idle_since = now;
            let (origin, request) = read(now, &fields, &self.terms);
            self.streams.push(Http2Stream {
                id: stream,
                origin,
                request,
                window: self.first_window,
                reply: None,
                is_whole: false,
                has_header: false,
                is_done: false,
            });
        }
        let at = self.streams.iter().position(|own| own.id == stream);
        if let Some(at) = at.filter(|_| header.ends_stream) {
            self.end_request(now, at);
        }
        Ok(())
    }

    /// Answers a request that is whole.
    fn end_request(&mut self, now: Nanos, at: usize) {
        let own = &mut self.streams[at];
        if own.is_whole {
            return;
        }
        own.is_whole = true;
        let request = std::mem::replace(&mut own.request, WorkRequest::End);
        match request.whole(now, &self.terms.tickets) {
            WholeRequest::Ping(ticket, body) => {
                self.pings.received(now, &self.terms.tickets, (own.id, &ticket), &body);
            }
            WholeRequest::Answered(reply) => {
                self.is_leaving |= reply.is_last;
                own.reply = Some(reply);
            }
        }
    }

    /// Moves answers on, and returns the bytes to write.
    pub(super) fn turn(&mut self, now: Nanos) -> Vec<u8> {
        while let Some((id, answer)) = self.pings.next(now) {
            if let Some(own) = self.streams.iter_mut().find(|own| own.id == id) {
                own.reply = Some(answer.map_or_else(|why| Reply::refusal(403, why), Reply::bytes));
            }
        }
        let waited = (now.max(self.since) - self.since).0 / 1_000;
        let connection = format!("{} {waited}", self.requests);
        for own in &mut self.streams {
            own.give(now, &mut self.out, &mut self.window, &connection);
        }
        self.streams.retain(|own| !own.is_done);
        if self.is_over() {
            let newest = [self.newest.to_be_bytes(), [0; 4]].concat();
            put_frame(&mut self.out, GOAWAY, 0, 0, &newest);
        } else if !self.streams.is_empty() {
            self.idle_since = now;
        }
        std::mem::take(&mut self.out)
    }

    /// Returns true once the last answer of the connection was given.
    pub(super) fn is_over(&self) -> bool {
        self.is_leaving && self.streams.is_empty()
    }

    /// Returns the time since which there is no request.
    pub(super) fn idle_since(&self) -> Nanos {
        self.idle_since
    }

    /// Returns the time at which an answer may go on by itself.
    pub(super) fn due(&self) -> Option<Nanos> {
        let open = self.streams.iter().filter(|own| own.window > 0 && self.window > 0);
        let replies = open.filter_map(|own| own.reply.as_ref()?.due());
        replies.chain(self.pings.due()).min()
    }

    /// Returns the time at which the last of its trials must be over; `None` without one.
    pub(super) fn ends(&self) -> Option<Nanos> {
        let replies = self.streams.iter().filter_map(|own| own.reply.as_ref()?.ends());
        replies.chain(self.pings.ends()).max()
    }

    /// Returns the time from which more may be read.
    pub(super) fn reads_from(&self) -> Nanos {
        let requests = self.streams.iter().map(|own| own.request.reads_from());
        requests.chain([self.pings.reads_from()]).fold(Nanos::ZERO, Nanos::max)
    }
}

impl Http2Stream {
    /// Gives as much of the answer as there is, and as the windows and the room for bytes allow.
    fn give(&mut self, now: Nanos, out: &mut Vec<u8>, window: &mut i64, connection: &str) {
        let Some(reply) = &mut self.reply else { return };
        if !self.has_header {
            self.has_header = true;
            let header = header(reply, &self.origin, connection);
            put_frame(out, HEADERS, END_HEADERS, self.id, &header);
        }
        while out.len() < MOST_WAITING {
            let room = usize::try_from(self.window.min(*window)).unwrap_or(0).min(CHUNK);
            let (bytes, is_end) = reply.next(now, room);
            if bytes.is_empty() && !is_end {
                return;
            }
            self.window -= bytes.len() as i64;
            *window -= bytes.len() as i64;
            put_frame(out, DATA, if is_end { END_STREAM } else { 0 }, self.id, &bytes);
            if is_end {
                self.is_done = true;
                return;
            }
        }
    }
}
