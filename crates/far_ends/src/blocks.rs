//! Messages of a far end that sends blocks of one length, with nothing of ours in them: they are numbered by counting.

use crate::codec::Codec;
use deadheat_contract::contract::{Inbox, Lane, Sink};
use deadheat_contract::workload::header::{self, Header, NO_DUE, write_due};

/// Blocks of a stream, each of which is a message.
pub(crate) struct Blocks {
    tag: u32,
    /// Number of the next block.
    next: u64,
    /// Bytes of it that arrived.
    have: u64,
    /// Its message.
    message: Box<[u8]>,
}

impl Blocks {
    /// Creates the blocks of a stream, of `len` bytes each, as messages with this tag.
    pub(crate) fn new(tag: u32, len: usize) -> Blocks {
        let mut message = vec![0; len.max(header::LEN)].into_boxed_slice();
        // The far end does not say when it sent them.
        write_due(&mut message, NO_DUE);
        Blocks { tag, next: 0, have: 0, message }
    }

    /// Writes the header of the next message into the start of `message`.
    fn number(&mut self, message: &mut [u8]) {
        Header { tag: self.tag, seq: self.next }.write(message);
        self.next += 1;
    }

    /// Takes bytes of a stream, and passes each message on that is whole with them.
    #[inline]
    fn take(&mut self, bytes: u64, inbox: &mut dyn Inbox) {
        self.have += bytes;
        let len = self.message.len() as u64;
        while self.have >= len {
            self.have -= len;
            Header { tag: self.tag, seq: self.next }.write(&mut self.message);
            self.next += 1;
            inbox.message(Lane::default(), &self.message);
        }
    }
}

/// Sink of a byte stream that cuts it into blocks.
pub(crate) struct CuttingSink<'a> {
    pub(crate) inbox: &'a mut dyn Inbox,
    pub(crate) blocks: &'a mut Blocks,
}

impl Sink for CuttingSink<'_> {
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        self.blocks.take(bytes.len() as u64, self.inbox);
    }

    fn pass(&mut self, bytes: u64) {
        self.blocks.take(bytes, self.inbox);
    }
}

/// For a transport that keeps the boundaries of blocks.
impl Codec for Blocks {
    fn encode(&mut self, message: &[u8], packet: &mut [u8]) -> usize {
        packet[..message.len()].copy_from_slice(message);
        message.len()
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn sent(&mut self) {}

    fn stamp(&mut self, _message: &mut [u8]) {}

    fn decode(&mut self, packet: &[u8], message: &mut [u8]) -> Option<usize> {
        let message = message.get_mut(..packet.len()).filter(|own| own.len() >= header::LEN)?;
        message.copy_from_slice(packet);
        write_due(message, NO_DUE);
        self.number(message);
        Some(message.len())
    }

    /// Returns `None`: control ends the test.
    fn farewell(&mut self, _packet: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::workload::header::read_due;

    struct Numbers(Vec<(u64, usize)>);

    impl Inbox for Numbers {
        fn message(&mut self, _lane: Lane, bytes: &[u8]) {
            let header = Header::read(bytes).unwrap();
            assert_eq!((header.tag, read_due(bytes)), (7, None));
            self.0.push((header.seq, bytes.len()));
        }
    }

    #[test]
    fn a_stream_is_cut_into_numbered_messages_wherever_its_reads_end() {
        let (mut blocks, mut numbers) = (Blocks::new(7, 100), Numbers(Vec::new()));
        let mut sink = CuttingSink { inbox: &mut numbers, blocks: &mut blocks };
        sink.take(&[0; 99]);
        sink.take(&[0; 2]);
        sink.pass(298);
        assert_eq!(numbers.0, [(0, 100), (1, 100), (2, 100)]);
        let mut sink = CuttingSink { inbox: &mut numbers, blocks: &mut blocks };
        sink.take(&[0; 1]);
        assert_eq!(numbers.0.len(), 4);
    }

    #[test]
    fn blocks_with_boundaries_are_messages_of_their_length() {
        let (mut blocks, mut message) = (Blocks::new(7, 100), [0; 128]);
        assert_eq!(blocks.decode(&[1; 100], &mut message), Some(100));
        assert_eq!(blocks.decode(&[1; 40], &mut message), Some(40));
        assert_eq!(Header::read(&message), Some(Header { tag: 7, seq: 1 }));
        assert_eq!(blocks.decode(&[1; 4], &mut message), None);
        assert_eq!(blocks.decode(&[1; 129], &mut message), None);
    }
}
