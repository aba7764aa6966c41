//! The bytes of a stream between two offsets of it, in memory that is there from the start.

/// Byte `at` of the stream lies at `at` modulo the capacity.
pub(in crate::transport) struct Ring(Box<[u8]>);

impl Ring {
    /// Creates a ring for so many bytes at once; at least one.
    pub(in crate::transport) fn new(capacity: usize) -> Ring {
        Ring(vec![0; capacity.max(1)].into_boxed_slice())
    }

    pub(in crate::transport) fn capacity(&self) -> u64 {
        self.0.len() as u64
    }

    fn place(&self, at: u64) -> usize {
        (at % self.0.len() as u64) as usize
    }

    /// Writes `bytes`, no more than the capacity, to the stream's offset `at`.
    pub(in crate::transport) fn write(&mut self, at: u64, bytes: &[u8]) {
        let from = self.place(at);
        let (now, rest) = bytes.split_at(bytes.len().min(self.0.len() - from));
        self.0[from..from + now.len()].copy_from_slice(now);
        let rest = &rest[..rest.len().min(from)];
        self.0[..rest.len()].copy_from_slice(rest);
    }

    /// Returns the bytes from `at` on in one piece, `len` at most.
    pub(in crate::transport) fn piece(&self, at: u64, len: u64) -> &[u8] {
        let from = self.place(at);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.0.len() - from);
        &self.0[from..from + len]
    }

    /// Appends `len` bytes from `at` on to `room`.
    pub(in crate::transport) fn append(&self, at: u64, len: u64, room: &mut Vec<u8>) {
        let first = self.piece(at, len);
        room.extend_from_slice(first);
        let done = first.len() as u64;
        if done < len {
            room.extend_from_slice(self.piece(at + done, len - done));
        }
    }
}

/// Receiver of a byte stream that holds what arrived until it is read.
pub(in crate::transport) trait InOrder {
    /// Returns the bytes that can be read, in one piece; empty if there are none.
    fn readable(&self) -> &[u8];

    /// Notes that so many of [`InOrder::readable`] were read.
    fn consumed(&mut self, bytes: usize);

    /// Hands over piece after piece, until `take` takes nothing or nothing is left.
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
