//! The message of a tick.
//!
//! ```text
//! 0      12                20              24             28
//! +------+-----------------+---------------+--------------+--------------------
//! | head | newest was due  | after newest  | acknowledged | inputs, oldest first
//! +------+-----------------+---------------+--------------+--------------------
//! ```
//! All fields are big-endian. `acknowledged` is the number of the other end's inputs that have arrived without a gap.

use deadheat_base::time::Nanos;

use crate::paced::{DUE_LEN, read_due, write_due};
use deadheat_contract::workload::header::Header;

/// Bytes before the inputs.
pub(super) const FRONT: usize = DUE_LEN + 8;

/// Content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    /// Due time of its newest input, or of the newest of all if it has none.
    pub(super) due: Nanos,
    /// Range of its inputs: from `first` to before `next`.
    pub(super) first: u64,
    pub(super) next: u64,
    pub(super) acknowledged: u64,
}

/// Returns the value of each byte of an input.
fn content(input: u64) -> u8 {
    (input % 251) as u8
}

impl Tick {
    /// Writes the message with this header and inputs of `size` bytes; returns its length.
    pub(super) fn write(self, header: Header, size: usize, out: &mut [u8]) -> usize {
        let len = FRONT + (self.next - self.first) as usize * size;
        header.write(out);
        write_due(&mut out[..len], self.due);
        out[DUE_LEN..DUE_LEN + 4].copy_from_slice(&(self.next as u32).to_be_bytes());
        out[DUE_LEN + 4..FRONT].copy_from_slice(&(self.acknowledged as u32).to_be_bytes());
        for (input, room) in (self.first..self.next).zip(out[FRONT..len].chunks_exact_mut(size)) {
            room.fill(content(input));
        }
        len
    }

    /// Reads a message with inputs of `size` bytes; `None` if it is not a valid message of a game of `count` inputs.
    pub(super) fn read(bytes: &[u8], size: usize, count: u64) -> Option<Tick> {
        let due = read_due(bytes)?;
        let (next, rest) = bytes.get(DUE_LEN..)?.split_first_chunk::<4>()?;
        let (acknowledged, inputs) = rest.split_first_chunk::<4>()?;
        let [next, acknowledged] =
            [next, acknowledged].map(|bytes| u64::from(u32::from_be_bytes(*bytes)));
        let first = next.checked_sub((inputs.len() / size.max(1)) as u64)?;
        let mut each = (first..next).zip(inputs.chunks_exact(size.max(1)));
        let is_sound = inputs.len() % size.max(1) == 0
            && next.max(acknowledged) <= count
            && each.all(|(input, bytes)| bytes.iter().all(|byte| *byte == content(input)));
        is_sound.then_some(Tick { due, first, next, acknowledged })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_read_as_it_was_written_and_damage_is_seen() {
        let tick = Tick { due: Nanos(77), first: 250, next: 253, acknowledged: 9 };
        let mut out = [0; 64];
        assert_eq!(tick.write(Header { tag: 1, seq: 2 }, 2, &mut out), 34);
        assert_eq!(
            &out[12..34],
            [0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 253, 0, 0, 0, 9, 250, 250, 0, 0, 1, 1]
        );
        assert_eq!(Tick::read(&out[..34], 2, 253), Some(tick));
        // More inputs than there are, half of one, another, and less than a front.
        assert_eq!(Tick::read(&out[..34], 2, 252), None);
        assert_eq!(Tick::read(&out[..33], 2, 253), None);
        out[33] = 7;
        assert_eq!(Tick::read(&out[..34], 2, 253), None);
        assert_eq!(Tick::read(&out[..27], 2, 253), None);
        out[DUE_LEN + 3] = 1;
        assert_eq!(Tick::read(&out[..34], 2, 253), None, "inputs from before the first");
    }
}
