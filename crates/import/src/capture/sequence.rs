//! Sequence numbers of TCP as positions that do not wrap around, and the bytes between them that were never seen.

/// Position of a connection's first number, so that earlier ones have a position, too.
pub(super) const ORIGIN: u64 = 1 << 40;

/// Largest distance of a number from the last one: a window has at most 1 GiB (RFC 7323, 2.3).
const FARTHEST: u32 = 1 << 30;

/// Largest number of holes in memory; of more, the oldest is forgotten.
const MOST_HOLES: usize = 128;

/// Returns the position of a number, near a position; `base` is the number at [`ORIGIN`]. `None` if it is too far away.
pub(super) fn place(base: u32, near: u64, number: u32) -> Option<u64> {
    let there = base.wrapping_add((near.wrapping_sub(ORIGIN)) as u32);
    let distance = number.wrapping_sub(there).cast_signed();
    (distance.unsigned_abs() <= FARTHEST).then(|| near.saturating_add_signed(distance.into()))
}

/// Bytes that were never seen, below the end of all bytes seen.
#[derive(Debug, Default)]
pub(super) struct Holes(Vec<Hole>);

#[derive(Debug, Clone, Copy)]
struct Hole {
    from: u64,
    to: u64,
    since: u64,
}

impl Holes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, from: u64, to: u64, since: u64) {
        if self.0.len() == MOST_HOLES {
            self.0.remove(0);
        }
        self.0.push(Hole { from, to, since });
    }

    /// Removes bytes that are seen now; returns their number, and the time since which the oldest were missing.
    pub(super) fn fill(&mut self, from: u64, to: u64) -> (u64, u64) {
        let (mut filled, mut oldest) = (0, u64::MAX);
        let mut left = Vec::new();
        self.0.retain_mut(|hole| {
            let (low, high) = (hole.from.max(from), hole.to.min(to));
            if low >= high {
                return true;
            }
            filled += high - low;
            oldest = oldest.min(hole.since);
            left.extend(
                (high < hole.to && low > hole.from).then_some(Hole { from: high, ..*hole }),
            );
            if low > hole.from {
                hole.to = low
            } else {
                hole.from = high
            }
            hole.from < hole.to
        });
        let room = MOST_HOLES.saturating_sub(self.0.len());
        self.0.extend(left.into_iter().take(room));
        (filled, oldest)
    }

    /// Removes the holes below a position, and returns their bytes.
    pub(super) fn drop_below(&mut self, end: u64) -> u64 {
        self.fill(0, end).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around_in_both_directions() {
        let base = u32::MAX - 9;
        assert_eq!(place(base, ORIGIN, base), Some(ORIGIN));
        assert_eq!(place(base, ORIGIN, 10), Some(ORIGIN + 20));
        assert_eq!(place(base, ORIGIN + 20, base - 5), Some(ORIGIN - 5));
        assert_eq!(place(base, ORIGIN + (7 << 32), 10), Some(ORIGIN + (7 << 32) + 20));
        assert_eq!(place(0, ORIGIN, 1 << 31), None);
    }

    #[test]
    fn a_hole_is_filled_in_parts_and_none_is_left() {
        let mut holes = Holes::default();
        holes.add(100, 200, 7);
        assert_eq!(holes.fill(0, 100).0, 0);
        assert_eq!(holes.fill(120, 150), (30, 7));
        assert_eq!((holes.fill(90, 130).0, holes.fill(150, 160).0), (20, 10));
        assert_eq!((holes.drop_below(170), holes.drop_below(500)), (10, 30));
        assert!(holes.is_empty());
        (0..1_000).for_each(|n| holes.add(n * 10, n * 10 + 5, n));
        assert_eq!(holes.drop_below(u64::MAX), 5 * MOST_HOLES as u64);
    }
}
