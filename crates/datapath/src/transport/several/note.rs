//! Notes that two ends with an order of preference exchange, as messages of the connection that a note is about.
//!
//! ```text
//! 0      4      5      6        8                 24
//! +------+------+------+--------+-----------------+
//! | DHP1 | ver. | kind | flow   | token           |     24 bytes, big-endian
//! +------+------+------+--------+-----------------+
//! ```
//!
//! The token, which only this trial knows, distinguishes a note from a message.

use crate::transport::hello::{Hello, LEN};

const MAGIC: [u8; 4] = *b"DHP1";
const VERSION: u8 = 1;

/// Length of a note in bytes.
pub(super) const NOTE: usize = LEN;

/// Kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoteKind {
    /// This connection carries the flow, and there is no other.
    Alone,
    /// This connection carries the flow, and the other stands by.
    Both,
    /// Confirmed.
    Agreed,
    /// This end is alive.
    Beacon,
    /// This end has fallen back on this connection.
    Fall,
}

impl NoteKind {
    const ALL: [NoteKind; 5] =
        [NoteKind::Alone, NoteKind::Both, NoteKind::Agreed, NoteKind::Beacon, NoteKind::Fall];
}

/// Notes of one flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    bytes: [u8; NOTE],
}

impl Note {
    /// Creates the notes of the flow that opened with this hello.
    pub(super) fn of(hello: &Hello) -> Note {
        let mut bytes = hello.encode();
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        Note { bytes }
    }

    /// Returns a note as a message.
    pub(super) fn encode(&self, kind: NoteKind) -> [u8; NOTE] {
        let mut bytes = self.bytes;
        bytes[5] = kind as u8;
        bytes
    }

    /// Reads a note of this flow; `None` of any other message.
    #[inline]
    pub(super) fn decode(&self, message: &[u8]) -> Option<NoteKind> {
        let is_ours = message.len() == NOTE
            && message[..5] == self.bytes[..5]
            && message[6..] == self.bytes[6..];
        if !is_ours {
            return None;
        }
        NoteKind::ALL.into_iter().find(|kind| *kind as u8 == message[5])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::hello::Token;

    #[test]
    fn only_what_the_other_end_of_the_flow_wrote_is_a_note() {
        let hello = Hello { token: Token::from_bytes([7; 16]), flow: 2 };
        let note = Note::of(&hello);
        for kind in NoteKind::ALL {
            let bytes = note.encode(kind);
            assert_eq!(note.decode(&bytes), Some(kind));
            assert_eq!(Note::of(&Hello { flow: 3, ..hello }).decode(&bytes), None);
            assert_eq!(note.decode(&bytes[1..]), None);
            for at in (0..NOTE).filter(|at| *at != 5) {
                let mut other = bytes;
                other[at] ^= 1;
                assert_eq!(note.decode(&other), None, "{at}");
            }
        }
        let mut unknown = note.encode(NoteKind::Fall);
        unknown[5] = 99;
        assert_eq!(note.decode(&unknown), None);
        assert_eq!(note.decode(&hello.encode()), None);
    }
}
