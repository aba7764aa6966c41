//! Bulk data in messages, one after the other.

use std::io;

use super::Progress;
use deadheat_contract::contract::Source;

/// Buffer for one message of bulk data, which stays in it if there is no room to send.
#[derive(Debug, Default)]
pub struct BulkMessage {
    bytes: Vec<u8>,
    /// Length of the waiting message.
    waits: Option<usize>,
}

impl BulkMessage {
    /// Creates a buffer of `largest` bytes, allocated once.
    pub fn of(largest: usize) -> BulkMessage {
        BulkMessage { bytes: vec![0xA5; largest], waits: None }
    }

    /// Sends messages of `source` until its budget is used, or `send` has no room. A message is never cut, so the
    /// last one may exceed the budget.
    ///
    /// # Errors
    /// The error of `send`.
    #[inline]
    pub fn pump(
        &mut self,
        source: &mut dyn Source,
        mut send: impl FnMut(&[u8]) -> io::Result<Progress>,
    ) -> io::Result<Progress> {
        let mut progress = Progress::Idle;
        loop {
            let len = match self.waits {
                Some(len) => len,
                None if source.budget() == 0 => return Ok(Progress::Moved),
                None => {
                    let len = source.message_size();
                    if self.bytes.len() < len {
                        self.bytes.resize(len, 0xA5);
                    }
                    source.stamp(&mut self.bytes[..len]);
                    *self.waits.insert(len)
                }
            };
            match send(&self.bytes[..len])? {
                Progress::Moved => progress = Progress::Moved,
                Progress::Idle => return Ok(progress),
                Progress::Closed => return Ok(Progress::Closed),
            }
            self.waits = None;
            source.accepted(len as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of 10 bytes, each with its number, until the budget is used.
    #[derive(Default)]
    struct Numbered {
        budget: u64,
        next: u8,
    }

    impl Source for Numbered {
        fn budget(&self) -> u64 {
            self.budget
        }
        fn message_size(&self) -> usize {
            10
        }
        fn call_size(&self) -> usize {
            10
        }
        fn stamp(&mut self, message: &mut [u8]) {
            message[0] = self.next;
            self.next += 1;
        }
        fn accepted(&mut self, bytes: u64) {
            self.budget = self.budget.saturating_sub(bytes);
        }
    }

    #[test]
    fn a_message_that_found_no_room_goes_first_and_once() {
        let (mut message, mut source) = (BulkMessage::default(), Numbered { budget: 25, next: 0 });
        let mut sent = Vec::new();
        let mut room = 2;
        let mut send = |bytes: &[u8], room: &mut i32| {
            *room -= 1;
            if *room < 0 {
                return Ok(Progress::Idle);
            }
            sent.push((bytes[0], bytes.len()));
            Ok(Progress::Moved)
        };
        let pumped = message.pump(&mut source, |bytes| send(bytes, &mut room)).unwrap();
        assert_eq!(pumped, Progress::Moved);
        let pumped = message.pump(&mut source, |bytes| send(bytes, &mut room)).unwrap();
        assert_eq!(pumped, Progress::Idle);
        room = 9;
        message.pump(&mut source, |bytes| send(bytes, &mut room)).unwrap();
        // The last message exceeds the budget.
        assert_eq!(sent, [(0, 10), (1, 10), (2, 10)]);
        assert_eq!(source.budget, 0);
    }
}
