//! Parts of a session, and their header in a message.
//!
//! ```text
//! 0                20       21              28
//! +----------------+--------+---------------+----
//! | header, stamp  | part   | index         | fill
//! +----------------+--------+---------------+----
//! ```
//! The index counts the messages of a part from 0, in 56 bits, big-endian.

use deadheat_contract::contract::Lane;

use super::LANES;
use crate::paced::DUE_LEN;

/// Minimum bytes of a message.
pub(crate) const LEAST: usize = DUE_LEN + 8;

/// Bits of an index.
const INDEX: u32 = 56;

/// Bits of an index and a part, above which a session of several people has the number of the person who sent it.
const OF_PERSON: u32 = 58;

/// Returns the part of a message's number that says who sent it, in a session of several people.
pub(crate) fn origin(person: u16) -> u64 {
    u64::from(person) << OF_PERSON
}

/// Returns who sent the message with this number, and the number without that.
pub(crate) fn apart(number: u64) -> (u64, u64) {
    (number >> OF_PERSON, number & ((1 << OF_PERSON) - 1))
}

/// A part of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Picture,
    Voice,
    Pose,
    Pen,
}

impl PartKind {
    /// Every part, in the order of their lanes.
    pub(crate) const ALL: [PartKind; 4] =
        [PartKind::Picture, PartKind::Voice, PartKind::Pose, PartKind::Pen];

    /// Returns true if a figure with this name is of this part.
    pub(crate) fn is_of(self, figure: &str) -> bool {
        figure.split('_').next() == Some(LANES[self as usize].name)
    }

    /// Returns its lane, out of `lanes`.
    pub(crate) fn lane(self, lanes: usize) -> Lane {
        Lane((self as usize).min(lanes.max(1) - 1) as u16)
    }

    /// Returns the number of message `index` of this part, the same at both ends.
    pub(crate) fn number(self, index: u64) -> u64 {
        (self as u64) << INDEX | index
    }

    /// Returns the part and the index of a number from a message; `None` if it is invalid.
    pub(crate) fn of(number: u64) -> Option<(PartKind, u64)> {
        let kind = PartKind::ALL.get((number >> INDEX) as usize)?;
        Some((*kind, number & ((1 << INDEX) - 1)))
    }
}

/// Writes the number into a message of at least [`LEAST`] bytes.
pub(crate) fn write(message: &mut [u8], number: u64) {
    if let Some(room) = message.get_mut(DUE_LEN..LEAST) {
        room.copy_from_slice(&number.to_be_bytes());
    }
}

/// Reads the number of a message; returns the number of no part if the message has none.
pub(crate) fn read(message: &[u8]) -> u64 {
    let found = message.get(DUE_LEN..).and_then(|rest| rest.split_first_chunk::<8>());
    found.map_or(u64::MAX, |(number, _)| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_part_and_index() {
        let mut message = [7; LEAST];
        for kind in PartKind::ALL {
            for index in [0, 1, 9_999_999, (1 << INDEX) - 1] {
                write(&mut message, kind.number(index));
                assert_eq!(PartKind::of(read(&message)), Some((kind, index)));
            }
        }
        assert_eq!(PartKind::of(read(&message[..LEAST - 1])), None);
        assert_eq!(PartKind::of(4 << INDEX), None);
    }

    #[test]
    fn parts_without_a_lane_share_the_pens() {
        let lanes = |most| PartKind::ALL.map(|kind| kind.lane(most).0);
        assert_eq!(lanes(4), [0, 1, 2, 3]);
        assert_eq!(lanes(2), [0, 1, 1, 1]);
        assert_eq!((lanes(1), lanes(0)), ([0; 4], [0; 4]));
    }
}
