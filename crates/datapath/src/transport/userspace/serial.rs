//! Counts of sent packets and segments, from the numbers of the segments.

/// Segments by their numbers, which rise by one and wrap around (RFC 1982).
#[derive(Debug, Clone, Copy, Default)]
pub struct Segments {
    /// First number that was never sent.
    next: Option<u32>,
    /// Packets with at least one segment that was not sent before.
    pub packets: u64,
    /// Segments that were sent again.
    pub resent: u64,
}

impl Segments {
    /// Counts the segments of an outgoing packet, by their numbers.
    pub fn count(&mut self, numbers: impl Iterator<Item = u32>) {
        let mut is_new = false;
        for number in numbers {
            let next = *self.next.get_or_insert(number);
            if (number.wrapping_sub(next) as i32) < 0 {
                self.resent += 1;
            } else {
                self.next = Some(number.wrapping_add(1));
                is_new = true;
            }
        }
        self.packets += u64::from(is_new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_once_and_again_where_they_go_again() {
        let mut sent = Segments::default();
        for (numbers, counts) in [
            (&[u32::MAX, 0][..], (1, 0)),
            (&[1], (2, 0)),
            (&[0], (2, 1)),
            (&[1, 2], (3, 2)),
            (&[], (3, 2)),
        ] {
            sent.count(numbers.iter().copied());
            assert_eq!((sent.packets, sent.resent), counts);
        }
    }
}
