//! Way on which messages were lost, by the counts of a far end that numbers what it received.
//!
//! ```text
//! sent      18 19 | 20 21 22 23 24 25 26 |            the measured ones are between the bars
//! count     19 20 |    21    22       23 |            each answer says how many had arrived there
//! answered   x  x |     x     x        x |
//! ```
//! From the last answer before the measured messages to the last answer of all, the number of messages grew by more than
//! the count did: so many were lost on the way up. The others without an answer were lost on the way down. Where messages
//! without an answer lie outside of that span, or answers came out of order, nothing is known.

use deadheat_contract::measurements::far_view::LossSplit;
use deadheat_contract::workload::header::Arrival;

/// Answer with a count.
#[derive(Debug, Clone, Copy)]
struct CountedAnswer {
    seq: u64,
    count: u32,
}

/// Counts of a far end over a trial.
pub(super) struct FarCounts {
    base: Option<CountedAnswer>,
    last: CountedAnswer,
    /// Messages with an answer after the base: the measured ones, and others.
    answered: [u64; 2],
    /// Copies that arrived there after the base: their answers have counts of their own.
    duplicates: u64,
    is_unclear: bool,
    /// Latest answers by the number of their message modulo their count.
    recent: Box<[CountedAnswer]>,
}

/// Answers whose copies are known as copies of the way up or down.
const RECENT: usize = 1024;

impl Default for FarCounts {
    fn default() -> FarCounts {
        let none = CountedAnswer { seq: u64::MAX, count: 0 };
        FarCounts {
            base: None,
            last: none,
            answered: [0; 2],
            duplicates: 0,
            is_unclear: false,
            recent: Box::default(),
        }
    }
}

impl FarCounts {
    /// Adds the count of an answer. Measured messages are numbered from `first` to before `end`.
    pub(super) fn note(&mut self, seq: u64, count: u32, arrival: Arrival, [first, end]: [u64; 2]) {
        if self.recent.is_empty() {
            self.recent = vec![self.last; RECENT].into_boxed_slice();
        }
        let own = CountedAnswer { seq, count };
        let grown = count.wrapping_sub(self.last.count) as i32;
        match arrival {
            Arrival::Duplicate => {
                let before = self.recent[seq as usize % RECENT];
                let is_sent_twice = before.seq == seq && before.count == count;
                if self.base.is_some_and(|base| seq > base.seq) && !is_sent_twice {
                    self.duplicates += 1;
                    self.last.count = if grown > 0 { count } else { self.last.count };
                }
                return;
            }
            Arrival::Reordered | Arrival::Ancient => {
                self.is_unclear = true;
                return;
            }
            Arrival::InOrder => {}
        }
        self.recent[seq as usize % RECENT] = own;
        // A count that does not grow is of another session, or of none.
        self.is_unclear |= self.base.is_some() && grown <= 0;
        self.last = own;
        if seq < first || self.base.is_none() {
            (self.base, self.answered, self.duplicates) = (Some(own), [0; 2], 0);
            self.is_unclear = false;
        } else {
            self.answered[usize::from(seq >= end)] += 1;
        }
    }

    /// Returns true if a further message would show what became of the last ones before `end`.
    pub(super) fn lacks_tail(&self, end: u64) -> bool {
        self.base.is_some() && !self.is_unclear && self.last.seq.saturating_add(1) < end
    }

    /// Returns the messages from `first` to before `end` that arrived at the far end; `None` if that is not known.
    pub(super) fn split(&self, first: u64, end: u64) -> Option<LossSplit> {
        let base = self.base.filter(|_| !self.is_unclear)?;
        // A base that is measured itself is known to have arrived; those before it have no answer.
        let span_from = base.seq + 1;
        if base.seq > first || self.last.seq.saturating_add(1) < end {
            return None;
        }
        let sent = self.last.seq - base.seq;
        let measured = end.saturating_sub(span_from.max(first));
        let missing = measured.checked_sub(self.answered[0])?;
        let beside = (sent - measured).checked_sub(self.answered[1])?;
        let counted = u64::from(self.last.count.wrapping_sub(base.count));
        let lost = sent.checked_sub(counted.checked_sub(self.duplicates)?)?;
        // Of the lost ones, those beside the measured ones may be some.
        let (least, most) = (lost.saturating_sub(beside), lost.min(missing));
        (least == most && lost <= missing + beside)
            .then_some(LossSplit { arrived: end - first - least, duplicates: self.duplicates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 20;
    const END: u64 = 120;

    /// Counts after messages of which some are lost on the way up, and answers of which some are lost on the way down.
    fn seen(until: u64, up: &[u64], down: &[u64]) -> FarCounts {
        let mut counts = FarCounts::default();
        let mut arrived = 4_294_967_290_u32;
        for seq in (0..until).filter(|seq| !up.contains(seq)) {
            arrived = arrived.wrapping_add(1);
            if !down.contains(&seq) {
                counts.note(seq, arrived, Arrival::InOrder, [FIRST, END]);
            }
        }
        counts
    }

    fn arrived(counts: &FarCounts) -> Option<u64> {
        counts.split(FIRST, END).map(|split| split.arrived)
    }

    #[test]
    fn losses_are_of_the_way_on_which_they_were() {
        for (up, down, there) in [
            (&[][..], &[][..], 100),
            (&[30, 31, 90], &[], 97),
            (&[], &[30, 31, 90], 100),
            (&[30, 50], &[31, 60, 61], 98),
            // Losses of the warm-up are of no message that is measured.
            (&[2, 30], &[3, 31], 99),
            (&[FIRST], &[FIRST + 1], 99),
        ] {
            assert_eq!(arrived(&seen(END, up, down)), Some(there), "{up:?} {down:?}");
        }
    }

    #[test]
    fn a_lost_end_is_known_once_a_further_message_is_answered() {
        for (up, down, there) in
            [(&[END - 1][..], &[][..], 99), (&[], &[END - 1], 100), (&[118, 121], &[119, 120], 99)]
        {
            let short = seen(END, up, down);
            assert!(short.lacks_tail(END));
            assert_eq!(arrived(&short), None);
            let whole = seen(END + 4, up, down);
            assert!(!whole.lacks_tail(END));
            let known = if up.len() + down.len() > 1 { None } else { Some(there) };
            // Two lost beside the measured ones leave open which of them was lost on which way.
            assert_eq!(arrived(&whole), known, "{up:?} {down:?}");
        }
        let beside = seen(END + 1, &[END - 1], &[FIRST - 1]);
        assert_eq!(arrived(&beside), None, "it may have been the one before");
    }

    #[test]
    fn what_leaves_it_open_is_not_known() {
        assert_eq!(arrived(&FarCounts::default()), None);
        let first_lost = seen(END, &(0..=FIRST).collect::<Vec<_>>(), &[]);
        assert_eq!(arrived(&first_lost), None, "no answer before the first loss");
        let mut out_of_order = seen(END - 1, &[], &[]);
        out_of_order.note(END - 1, 5_000, Arrival::Reordered, [FIRST, END]);
        assert_eq!(arrived(&out_of_order), None);
        // A reflector that was started anew, one that counts for others too, and one that counts backwards.
        for count in [0, 4_000_000_000, 500] {
            let mut strange = seen(END - 1, &[], &[]);
            strange.note(END - 1, count, Arrival::InOrder, [FIRST, END]);
            assert_eq!(arrived(&strange), None, "{count}");
        }
    }

    #[test]
    fn copies_are_of_the_way_on_which_they_were_made() {
        let mut counts = FarCounts::default();
        for seq in 0..END {
            let copied_up = seq > 50;
            let count = seq as u32 + 1 + u32::from(copied_up);
            counts.note(seq, count, Arrival::InOrder, [FIRST, END]);
            match seq {
                // One answer twice, and two answers of one message.
                40 => counts.note(40, 41, Arrival::Duplicate, [FIRST, END]),
                50 => counts.note(50, 52, Arrival::Duplicate, [FIRST, END]),
                _ => {}
            }
        }
        let split = LossSplit { arrived: 100, duplicates: 1 };
        assert_eq!(counts.split(FIRST, END), Some(split));
    }
}
