//! Messages that a reflector of datagrams sends back without their content: they are made anew from what was sent.

use deadheat_contract::workload::header::{FarStamps, Header};

/// Messages under way, by the number of their datagrams. All messages of the work have one length and one fill.
pub(crate) struct SentMessages {
    /// Last message that was sent.
    last: Vec<u8>,
    /// Headers by the number of the datagram modulo their count, with that number.
    sent: Box<[Option<(u32, Header)>]>,
    /// Number of the next datagram.
    next: u32,
}

/// Messages that may be under way at once: more than a second of the fastest schedule.
const KEPT: usize = 1 << 16;

impl SentMessages {
    /// Creates room for messages of up to `largest` bytes, whose datagrams count from `first`.
    pub(crate) fn new(largest: usize, first: u32) -> SentMessages {
        let last = Vec::with_capacity(largest);
        SentMessages { last, sent: vec![None; KEPT].into_boxed_slice(), next: first }
    }

    /// Returns the number of the next datagram.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Keeps a message that is sent next.
    pub(crate) fn keep(&mut self, message: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(message);
        let header = Header::read(message);
        self.sent[self.next as usize % KEPT] = header.map(|header| (self.next, header));
    }

    /// Notes that it was sent.
    pub(crate) fn sent(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Writes the message of datagram `number` into `into`, with what the far end says of it; returns its length, or
    /// `None` if no such datagram is under way.
    pub(crate) fn answer(&self, number: u32, stamps: FarStamps, into: &mut [u8]) -> Option<usize> {
        let (_, header) = self.sent[number as usize % KEPT].filter(|(own, _)| *own == number)?;
        let message = into.get_mut(..self.last.len())?;
        message.copy_from_slice(&self.last);
        header.write(message);
        stamps.write(message);
        Some(message.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::workload::header::{Reflected, ReflectorClock};

    #[test]
    fn an_answer_is_the_message_of_its_datagram_with_the_far_times() {
        let mut kept = SentMessages::new(40, 5);
        let mut message = [7; 40];
        for seq in [10, 11] {
            Header { tag: 1, seq }.write(&mut message);
            kept.keep(&message);
            kept.sent();
        }
        let mut into = [0; 64];
        let reflected = Some(Reflected { count: Some(9), clock: ReflectorClock::Steady });
        let stamps = FarStamps { received_ns: 3, sent_ns: 4, reflected };
        assert_eq!(kept.answer(5, stamps, &mut into), Some(40));
        assert_eq!(Header::read(&into), Some(Header { tag: 1, seq: 10 }));
        assert_eq!(FarStamps::read(&into), Some(stamps));
        assert_eq!(into[36..40], [7; 4]);
        for unknown in [4, 7, 5 + KEPT as u32] {
            assert_eq!(kept.answer(unknown, stamps, &mut into), None);
        }
    }
}
