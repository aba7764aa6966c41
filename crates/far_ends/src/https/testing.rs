//! Fake streams of a connection, for tests of the versions.

use std::collections::BTreeMap;

use super::request::Request;
use super::version::AnswerPart;
use deadheat_datapath::transport::application::Streams;

pub(super) fn request() -> Request {
    Request {
        authority: "www.example:8443".to_owned(),
        path: "/a?b=1".to_owned(),
        agent: "deadheat/0".to_owned(),
    }
}

/// Part of an answer, with its body joined.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Got {
    Head(u16),
    Body(Vec<u8>),
    End,
}

impl Got {
    pub(super) fn note(all: &mut Vec<Got>, part: AnswerPart<'_>) {
        match (part, all.last_mut()) {
            (AnswerPart::Head(head), _) => all.push(Got::Head(head.status)),
            (AnswerPart::Body(bytes), Some(Got::Body(body))) => body.extend_from_slice(bytes),
            (AnswerPart::Body(bytes), _) => all.push(Got::Body(bytes.to_vec())),
            (AnswerPart::End, _) => all.push(Got::End),
        }
    }
}

/// Streams in memory. This end's are numbered as QUIC numbers a client's.
#[derive(Default)]
pub(super) struct FakeStreams {
    streams: BTreeMap<u64, FakeStream>,
    accepted: Vec<u64>,
    both_ways: u64,
    one_way: u64,
    /// Bytes that are taken from now on; all if not set.
    room: Option<usize>,
    /// Streams in both directions that may be opened from now on; any number if not set.
    allowed: Option<u64>,
}

#[derive(Default)]
struct FakeStream {
    sent: Vec<u8>,
    is_finished: bool,
    arrived: Vec<u8>,
    has_ended: bool,
}

impl FakeStreams {
    /// Returns a connection that is one byte stream.
    pub(super) fn byte_stream() -> FakeStreams {
        FakeStreams { allowed: Some(0), ..FakeStreams::default() }
    }

    pub(super) fn arrive(&mut self, stream: u64, bytes: &[u8]) {
        self.streams.entry(stream).or_default().arrived.extend_from_slice(bytes);
    }

    pub(super) fn end(&mut self, stream: u64) {
        self.streams.entry(stream).or_default().has_ended = true;
    }

    pub(super) fn opened_by_peer(&mut self, stream: u64) {
        self.accepted.push(stream);
    }

    pub(super) fn limit(&mut self, room: usize) {
        self.room = Some(room);
    }

    pub(super) fn allow(&mut self, streams: u64) {
        self.allowed = Some(streams);
    }

    /// Returns the bytes that this end has sent, and forgets them.
    pub(super) fn sent(&mut self, stream: u64) -> Vec<u8> {
        std::mem::take(&mut self.streams.entry(stream).or_default().sent)
    }

    pub(super) fn is_finished(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.is_finished)
    }
}

impl Streams for FakeStreams {
    fn open(&mut self) -> Option<u64> {
        if self.allowed == Some(0) {
            return None;
        }
        self.allowed = self.allowed.map(|left| left - 1);
        self.both_ways += 1;
        Some(4 * (self.both_ways - 1))
    }

    fn open_one_way(&mut self) -> Option<u64> {
        self.one_way += 1;
        Some(4 * self.one_way - 2)
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        self.accepted.pop()
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> Result<usize, String> {
        let len = self.room.map_or(bytes.len(), |room| room.min(bytes.len()));
        self.room = self.room.map(|room| room - len);
        self.streams.entry(stream).or_default().sent.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn finish(&mut self, stream: u64) {
        self.streams.entry(stream).or_default().is_finished = true;
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let stream = self.streams.entry(stream).or_default();
        let arrived = std::mem::take(&mut stream.arrived);
        if !arrived.is_empty() {
            take(&arrived);
        }
        Ok(stream.has_ended)
    }

    fn stop(&mut self, _stream: u64, _code: u32) {}
}
