//! Bytes of a stream between two of its offsets, in memory that is allocated once.

/// Ring buffer in which byte `at` of the stream lies at `at` modulo the capacity.
pub struct Ring(Box<[u8]>);

impl Ring {
    /// Creates a ring for this many bytes at once; at least one.
    pub fn new(capacity: usize) -> Ring {
        Ring(vec![0; capacity.max(1)].into_boxed_slice())
    }

    /// Returns the largest number of bytes that it holds.
    pub fn capacity(&self) -> u64 {
        self.0.len() as u64
    }

    fn place(&self, at: u64) -> usize {
        (at % self.0.len() as u64) as usize
    }

    /// Writes `bytes`, no more than the capacity, to the stream's offset `at`.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let from = self.place(at);
        let (now, rest) = bytes.split_at(bytes.len().min(self.0.len() - from));
        self.0[from..from + now.len()].copy_from_slice(now);
        let rest = &rest[..rest.len().min(from)];
        self.0[..rest.len()].copy_from_slice(rest);
    }

    /// Returns the bytes from `at` on in one piece, `len` at most.
    pub fn piece(&self, at: u64, len: u64) -> &[u8] {
        let from = self.place(at);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.0.len() - from);
        &self.0[from..from + len]
    }

    /// Appends `len` bytes from `at` on to `room`.
    pub fn append(&self, at: u64, len: u64, room: &mut Vec<u8>) {
        let first = self.piece(at, len);
        room.extend_from_slice(first);
        let done = first.len() as u64;
        if done < len {
            room.extend_from_slice(self.piece(at + done, len - done));
        }
    }
}

/// Bytes of a stream from the first that the peer lacks to the end of the written bytes, some of them cut into
/// packets.
pub struct SendBuffer {
    ring: Ring,
    /// Offset up to which the peer has everything, offset up to which there are packets, and end of the written
    /// bytes.
    begin: u64,
    cut: u64,
    end: u64,
    is_finished: bool,
    has_cut_end: bool,
}

impl SendBuffer {
    /// Creates a buffer for this many bytes at once.
    pub fn new(capacity: usize) -> SendBuffer {
        let ring = Ring::new(capacity);
        SendBuffer { ring, begin: 0, cut: 0, end: 0, is_finished: false, has_cut_end: false }
    }

    /// Returns the largest number of bytes that it holds.
    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    /// Returns the number of bytes that there is room for.
    pub fn room(&self) -> u64 {
        self.ring.capacity() - (self.end - self.begin)
    }

    /// Returns the number of bytes that there is room for, where at most `ahead` may wait to be cut.
    pub fn room_ahead(&self, ahead: u64) -> u64 {
        ahead.saturating_sub(self.uncut()).min(self.room())
    }

    /// Adds bytes, no more than there is room for.
    pub fn put(&mut self, bytes: &[u8]) {
        self.ring.write(self.end, bytes);
        self.end += bytes.len() as u64;
    }

    /// Ends the stream after the bytes added so far.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Returns true if no more bytes will be added.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Returns the offset up to which the peer has everything.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Returns the end of the added bytes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of bytes that are in no packet yet.
    pub fn uncut(&self) -> u64 {
        self.end - self.cut
    }

    /// Returns true if bytes, or the end, are in no packet yet.
    pub fn has_new(&self) -> bool {
        self.cut < self.end || (self.is_finished && !self.has_cut_end)
    }

    /// Returns true if everything is in packets except the end, which may go with the last of them.
    pub fn is_at_end(&self) -> bool {
        self.is_finished && self.cut == self.end
    }

    /// Cuts off `len` bytes for a packet; returns their offset.
    pub fn cut(&mut self, len: u64) -> u64 {
        self.cut += len;
        self.cut - len
    }

    /// Notes that a packet has the end.
    pub fn cut_end(&mut self) {
        self.has_cut_end = true;
    }

    /// Notes that the peer has everything up to an offset.
    pub fn acknowledge(&mut self, to: u64) {
        self.begin = to;
    }

    /// Appends `len` bytes from `at` on to `room`.
    pub fn append(&self, at: u64, len: u64, room: &mut Vec<u8>) {
        self.ring.append(at, len, room);
    }
}

/// Receiver of a byte stream that stores arrived bytes until they are read.
pub trait InOrder {
    /// Returns the bytes that can be read, in one piece; empty if there are none.
    fn readable(&self) -> &[u8];

    /// Notes that this many bytes of [`InOrder::readable`] were read.
    fn consumed(&mut self, bytes: usize);

    /// Hands over piece after piece, until `take` accepts nothing or nothing is left.
    fn hand_over(&mut self, take: &mut dyn FnMut(&[u8]) -> usize) {
        loop {
            let bytes = self.readable();
            let len = if bytes.is_empty() { 0 } else { take(bytes) };
            if len == 0 {
                return;
            }
            self.consumed(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_the_seam() {
        let mut ring = Ring::new(10);
        for at in 0..30 {
            let bytes = [at as u8, at as u8 + 1, at as u8 + 2, at as u8 + 3];
            ring.write(at, &bytes);
            let mut room = Vec::new();
            ring.append(at, 4, &mut room);
            assert_eq!(room, bytes, "at {at}");
            assert!(ring.piece(at, 4).len() <= 4 && !ring.piece(at, 4).is_empty());
        }
    }
}
