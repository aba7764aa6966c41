//! Message boundaries in a byte stream: the length comes before each message. TCP and Unix streams share it, so
//! that framing makes no difference between them.
//!
//! ```text
//! 0        4
//! +--------+----------------------+
//! | length | message              |     length: 1 to the largest agreed, big-endian
//! +--------+----------------------+
//! ```

use std::io;

use crate::datapath::buffer::prefaulted;
use deadheat_contract::contract::{Inbox, Lane};

/// Bytes in front of each message.
pub const PREFIX: usize = 4;

/// Room for many small messages in one receiving call.
const LEAST_ROOM: usize = 64 * 1024;

/// Encoder that builds frames in one buffer, and stores the part of a frame that found no room.
pub struct Encoder {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Encoder {
    /// Creates an encoder for messages up to `largest` bytes.
    pub fn new(largest: usize) -> Encoder {
        Encoder { bytes: prefaulted(PREFIX + largest), start: 0, end: 0 }
    }

    /// Puts `message` into a frame, and discards any pending bytes.
    ///
    /// # Errors
    /// `InvalidInput` for an empty message, or one longer than the largest.
    #[inline]
    pub fn put(&mut self, message: &[u8]) -> io::Result<()> {
        let largest = self.bytes.len() - PREFIX;
        if message.is_empty() || message.len() > largest {
            return Err(wrong_length(io::ErrorKind::InvalidInput, message.len(), largest));
        }
        self.bytes[..PREFIX].copy_from_slice(&(message.len() as u32).to_be_bytes());
        self.bytes[PREFIX..PREFIX + message.len()].copy_from_slice(message);
        self.start = 0;
        self.end = PREFIX + message.len();
        Ok(())
    }

    /// Returns the bytes still to be sent.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Notes that `n` bytes of [`Encoder::pending`] were sent.
    #[inline]
    pub fn sent(&mut self, n: usize) {
        self.start = self.end.min(self.start + n);
    }

    /// Discards the frame, as none of it was sent.
    pub fn clear(&mut self) {
        self.end = self.start;
    }
}

/// Decoder that finds messages in received bytes, without copying them.
pub struct Decoder {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    largest: usize,
}

impl Decoder {
    /// Creates a decoder for messages up to `largest` bytes.
    pub fn new(largest: usize) -> Decoder {
        Decoder { bytes: prefaulted(LEAST_ROOM.max(PREFIX + largest)), start: 0, end: 0, largest }
    }

    /// Returns the room for the next bytes; never empty, because an incomplete frame is smaller than the buffer.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// Notes that `n` bytes were received into [`Decoder::room`], and hands over every message that is now
    /// complete.
    ///
    /// # Errors
    /// `InvalidData` for a length that was not agreed; the stream is unusable from then on.
    #[inline]
    pub fn received(&mut self, n: usize, inbox: &mut dyn Inbox) -> io::Result<()> {
        self.end += n;
        while let Some(prefix) = self.bytes[self.start..self.end].first_chunk::<PREFIX>() {
            let len = u32::from_be_bytes(*prefix) as usize;
            if len == 0 || len > self.largest {
                return Err(wrong_length(io::ErrorKind::InvalidData, len, self.largest));
            }
            let body = self.start + PREFIX;
            if self.end - body < len {
                return Ok(());
            }
            inbox.message(Lane(0), &self.bytes[body..body + len]);
            self.start = body + len;
        }
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        Ok(())
    }

    /// Handles the end of the peer's direction.
    ///
    /// # Errors
    /// `UnexpectedEof` in the middle of a frame.
    pub fn ended(&self) -> io::Result<()> {
        match self.end - self.start {
            0 => Ok(()),
            have => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the peer ended the stream {have} bytes into a frame"),
            )),
        }
    }
}

/// Returns the error of a message of `len` bytes where at most `largest` are allowed.
#[cold]
pub fn wrong_length(kind: io::ErrorKind, len: usize, largest: usize) -> io::Error {
    io::Error::new(kind, format!("a message of {len} bytes where 1 to {largest} were agreed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<Vec<u8>>);

    impl Inbox for Kept {
        fn message(&mut self, lane: Lane, bytes: &[u8]) {
            assert_eq!(lane, Lane(0));
            self.0.push(bytes.to_vec());
        }
    }

    fn frame(message: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new(message.len());
        encoder.put(message).unwrap();
        encoder.pending().to_vec()
    }

    fn feed(decoder: &mut Decoder, bytes: &[u8], kept: &mut Kept) -> io::Result<()> {
        decoder.room()[..bytes.len()].copy_from_slice(bytes);
        decoder.received(bytes.len(), kept)
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(frame(b"hello"), b"\0\0\0\x05hello");
    }

    #[test]
    fn messages_survive_every_way_of_cutting_the_stream() {
        let messages: Vec<Vec<u8>> = (1..40u8).map(|n| vec![n; usize::from(n) * 7]).collect();
        let stream: Vec<u8> = messages.iter().flat_map(|m| frame(m)).collect();
        for cut in [1, 2, 3, 4, 5, 17, 100, 1000, stream.len()] {
            let (mut decoder, mut kept) = (Decoder::new(300), Kept::default());
            for piece in stream.chunks(cut) {
                feed(&mut decoder, piece, &mut kept).unwrap();
            }
            assert_eq!(kept.0, messages, "cut every {cut} bytes");
            decoder.ended().unwrap();
        }
    }

    #[test]
    fn the_largest_frame_fits_behind_the_rest_of_others() {
        let largest = LEAST_ROOM;
        let (mut decoder, mut kept) = (Decoder::new(largest), Kept::default());
        let mut stream = frame(b"x");
        stream.extend(frame(&vec![9; largest]));
        let mut rest = stream.as_slice();
        while !rest.is_empty() {
            let n = decoder.room().len().min(rest.len());
            assert!(n > 0);
            feed(&mut decoder, &rest[..n], &mut kept).unwrap();
            rest = &rest[n..];
        }
        assert_eq!(kept.0, [vec![b'x'], vec![9; largest]]);
    }

    #[test]
    fn a_length_that_was_not_agreed_is_refused_by_name() {
        for (prefix, len) in
            [(0u32, "0"), (101, "101"), (u32::MAX, "4294967295"), (0x4745_5420, "1195725856")]
        {
            let mut decoder = Decoder::new(100);
            let error = feed(&mut decoder, &prefix.to_be_bytes(), &mut Kept::default());
            let error = error.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert_eq!(
                error.to_string(),
                format!("a message of {len} bytes where 1 to 100 were agreed")
            );
        }
    }

    #[test]
    fn an_end_inside_a_frame_is_told_from_one_between_frames() {
        let mut decoder = Decoder::new(100);
        feed(&mut decoder, &frame(b"hello")[..6], &mut Kept::default()).unwrap();
        let error = decoder.ended().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("6 bytes into a frame"));
    }

    #[test]
    fn what_found_no_room_stays_pending() {
        let mut encoder = Encoder::new(10);
        encoder.put(b"abc").unwrap();
        encoder.sent(5);
        assert_eq!(encoder.pending(), b"bc");
        encoder.sent(2);
        assert!(encoder.pending().is_empty());
        assert!(encoder.put(&[0; 11]).is_err());
        assert!(encoder.put(&[]).is_err());
    }
}
