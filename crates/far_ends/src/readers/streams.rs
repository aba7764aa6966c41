//! Streams of a connection that bring the bytes of an input, for readers of application protocols.

use std::collections::{BTreeMap, VecDeque};

use deadheat_datapath::transport::application::{Application, Streams};

/// Streams of each kind that there may be.
const MOST: u64 = 4;

/// Bits of a piece's place: the stream is one of the far end's, it ends behind the piece, it is reset.
const IS_THEIRS: u8 = 4;
const ENDS: u8 = 8;
const IS_RESET: u8 = 16;

/// Splits bytes into pieces of streams, each behind its place and its length.
pub(crate) fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [place, len, rest @ ..] = bytes else { return None };
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        Some((*place, piece))
    })
}

/// Streams that take everything and bring what they are fed with. Numbers are those of a client of QUIC.
#[derive(Default)]
pub(crate) struct FedStreams {
    streams: BTreeMap<u64, FedStream>,
    both_ways: u64,
    one_way: u64,
    theirs: VecDeque<u64>,
}

#[derive(Default)]
struct FedStream {
    bytes: Vec<u8>,
    has_ended: bool,
    is_reset: bool,
}

impl FedStreams {
    /// Lets bytes arrive at a place: on one of this end's streams in both directions, or on one that the far end opened.
    pub(crate) fn feed(&mut self, place: u8, bytes: &[u8]) {
        let kind = if place & IS_THEIRS != 0 { 3 } else { 0 };
        let number = u64::from(place) % MOST * 4 + kind;
        if kind > 0 && !self.streams.contains_key(&number) {
            self.theirs.push_back(number);
        }
        let stream = self.streams.entry(number).or_default();
        if stream.has_ended || stream.is_reset {
            return;
        }
        stream.bytes.extend_from_slice(bytes);
        stream.has_ended = place & ENDS != 0;
        stream.is_reset = place & IS_RESET != 0;
    }

    /// Lets bytes arrive on the one stream of a connection that is a byte stream.
    pub(crate) fn feed_the_one(&mut self, place: u8, bytes: &[u8]) {
        self.feed(place & (ENDS | IS_RESET), bytes);
    }
}

impl Streams for FedStreams {
    fn open(&mut self) -> Option<u64> {
        (self.both_ways < MOST).then(|| {
            self.both_ways += 1;
            4 * (self.both_ways - 1)
        })
    }

    fn open_one_way(&mut self) -> Option<u64> {
        self.one_way += 1;
        Some(4 * self.one_way - 2)
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        self.theirs.pop_front()
    }

    fn write(&mut self, _stream: u64, bytes: &[u8]) -> Result<usize, String> {
        Ok(bytes.len())
    }

    fn finish(&mut self, _stream: u64) {}

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let Some(stream) = self.streams.get_mut(&stream) else { return Ok(false) };
        if stream.is_reset {
            return Err("the peer reset its stream".to_owned());
        }
        let bytes = std::mem::take(&mut stream.bytes);
        if !bytes.is_empty() {
            take(&bytes);
        }
        Ok(stream.has_ended)
    }

    fn stop(&mut self, stream: u64, _code: u32) {
        self.streams.entry(stream).or_default().has_ended = true;
    }
}

/// Looks at what can be asked of an application at any time, and at the end.
pub(crate) fn look(application: &dyn Application) {
    let _ = (application.facts(), application.next_deadline(), application.state());
}
