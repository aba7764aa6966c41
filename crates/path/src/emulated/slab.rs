//! Room for the frames under way: slots of four sizes, the last freed is the next used, so that the memory in use
//! is the memory in the caches.
//!
//! Address space for the whole budget is reserved at the start. The memory of a slot is touched when this number of
//! frames is first under way at once, and stays; the slots that a path is expected to need are touched before the
//! first frame. So the loop that moves packets neither allocates nor, as a rule, faults.

use std::io;

use super::port::LONGEST_FRAME;
use crate::segment::GsoFrame;
use deadheat_base::memory::Region;

/// Slot sizes in bytes. A frame is read into one of the largest and, if it is shorter, copied to a slot that fits
/// better: a thousand frames of 64 bytes must not take 64 MiB.
const SIZES: [usize; 4] = [256, 2_048, 16_384, LONGEST_FRAME.next_multiple_of(64)];
const LARGEST: usize = SIZES.len() - 1;
/// Share of the budget for each size, in sixteenths.
const SHARES: [usize; 4] = [1, 5, 5, 5];
/// Memory of small slots that is touched at the start, in bytes.
const PLACED: usize = 1 << 20;

const INDEX_BITS: u32 = 30;

/// Index of a slot in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    fn new(size: usize, index: u32) -> Slot {
        Slot((size as u32) << INDEX_BITS | index)
    }

    fn size(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

/// Frames under way.
pub(super) struct Slab {
    sizes: [Size; 4],
    /// Slot of the largest size that the next frame is read into.
    landing: u32,
}

/// Slots of one size.
struct Size {
    memory: Region,
    bytes: usize,
    /// Frames in the slots that were used at least once.
    frames: Vec<Frame>,
    free: Vec<u32>,
    most: usize,
}

#[derive(Clone, Copy)]
struct Frame {
    len: u32,
    /// Number of departures that remain.
    left: u32,
    seen: Option<GsoFrame>,
}

impl Slab {
    /// Reserves `budget` bytes, and touches about `expected` of them.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub(super) fn new(budget: usize, expected: usize) -> io::Result<Slab> {
        let size = |at: usize| {
            let placed =
                if at == LARGEST { expected } else { PLACED.min(budget / 64).min(expected) };
            Size::new(SIZES[at], budget / 16 * SHARES[at], placed)
        };
        let mut slab = Slab { sizes: [size(0)?, size(1)?, size(2)?, size(3)?], landing: 0 };
        slab.clear();
        Ok(slab)
    }

    /// Discards all frames.
    pub(super) fn clear(&mut self) {
        for size in &mut self.sizes {
            size.frames.clear();
            size.free.clear();
        }
        // There is at least one slot of each size.
        self.landing = self.sizes[LARGEST].take().unwrap_or_default();
    }

    /// Returns the buffer to read the next frame to, with room for the longest one.
    #[inline]
    pub(super) fn landing(&mut self) -> &mut [u8] {
        self.sizes[LARGEST].slot_mut(self.landing)
    }

    /// Returns the first `len` bytes of the frame that was read last.
    #[inline]
    pub(super) fn landed(&self, len: usize) -> &[u8] {
        let slot = self.sizes[LARGEST].slot(self.landing);
        &slot[..len.min(slot.len())]
    }

    /// Stores the frame of `len` bytes that has been read; `None` if there is no room for it.
    #[inline]
    pub(super) fn keep(&mut self, len: usize) -> Option<Slot> {
        let (smaller, largest) = self.sizes.split_at_mut(LARGEST);
        let largest = &mut largest[0];
        let len = len.min(largest.bytes);
        let fitting = smaller.iter_mut().enumerate().filter(|(_, size)| len <= size.bytes);
        for (at, size) in fitting {
            if let Some(index) = size.take() {
                let frame = &largest.slot(self.landing)[..len];
                size.slot_mut(index)[..len].copy_from_slice(frame);
                size.frames[index as usize].len = len as u32;
                return Some(Slot::new(at, index));
            }
        }
        let next = largest.take()?;
        let index = std::mem::replace(&mut self.landing, next);
        largest.frames[index as usize].len = len as u32;
        Some(Slot::new(LARGEST, index))
    }

    /// Returns the bytes of a frame.
    #[inline]
    pub(super) fn frame(&self, slot: Slot) -> &[u8] {
        let size = &self.sizes[slot.size()];
        let len = size.frames[slot.index()].len as usize;
        &size.slot(slot.index() as u32)[..len]
    }

    /// Returns the parse of a frame.
    #[inline]
    pub(super) fn seen(&self, slot: Slot) -> GsoFrame {
        let seen = self.sizes[slot.size()].frames[slot.index()].seen;
        seen.unwrap_or_else(|| GsoFrame::parse(self.frame(slot)))
    }

    /// Stores the parse of a frame, and the number of its departures; it is freed after them.
    #[inline]
    pub(super) fn expect(&mut self, slot: Slot, seen: GsoFrame, departures: u32) {
        let frame = &mut self.sizes[slot.size()].frames[slot.index()];
        frame.seen = Some(seen);
        frame.left = departures;
        if departures == 0 {
            self.free(slot);
        }
    }

    /// Counts this many of a frame's departures as over.
    #[inline]
    pub(super) fn departed(&mut self, slot: Slot, count: u32) {
        let frame = &mut self.sizes[slot.size()].frames[slot.index()];
        let before = frame.left;
        frame.left = before.saturating_sub(count);
        if before > 0 && frame.left == 0 {
            self.free(slot);
        }
    }

    fn free(&mut self, slot: Slot) {
        let size = &mut self.sizes[slot.size()];
        size.frames[slot.index()].seen = None;
        size.free.push(slot.index() as u32);
    }

    /// Returns the number of frames under way.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.sizes.iter().map(|size| size.frames.len() - size.free.len()).sum::<usize>() - 1
    }
}

impl Size {
    fn new(bytes: usize, budget: usize, placed: usize) -> io::Result<Size> {
        // One to read into, and one to keep.
        let most = (budget / bytes).clamp(2, (1 << INDEX_BITS) - 1);
        let mut memory = Region::reserved(most * bytes)?;
        memory.populate(placed);
        // Never longer than this, so never allocated again; not touched before it is used.
        Ok(Size {
            memory,
            bytes,
            frames: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
        })
    }

    #[inline]
    fn take(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = self.frames.len();
        if index == self.most {
            return None;
        }
        self.frames.push(Frame { len: 0, left: 0, seen: None });
        Some(index as u32)
    }

    #[inline]
    fn slot(&self, index: u32) -> &[u8] {
        &self.memory[index as usize * self.bytes..][..self.bytes]
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> &mut [u8] {
        &mut self.memory[index as usize * self.bytes..][..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn land(slab: &mut Slab, len: usize, fill: u8) -> Option<Slot> {
        slab.landing()[..len].fill(fill);
        let slot = slab.keep(len)?;
        let seen = GsoFrame::parse(slab.frame(slot));
        slab.expect(slot, seen, 2);
        Some(slot)
    }

    #[test]
    fn frames_of_all_lengths_stay_as_they_are_until_their_last_departure() {
        let mut slab = Slab::new(8 << 20, 0).unwrap();
        let lengths = [0, 1, 256, 257, 2_048, 2_049, 16_384, 16_385, LONGEST_FRAME];
        let kept: Vec<Slot> =
            (1..).zip(lengths).map(|(n, len)| land(&mut slab, len, n).unwrap()).collect();
        assert_eq!(slab.under_way(), lengths.len());
        for (n, (slot, len)) in (1..).zip(kept.iter().zip(lengths)) {
            assert_eq!(slab.frame(*slot).len(), len);
            assert!(slab.frame(*slot).iter().all(|byte| *byte == n));
        }
        for slot in &kept {
            slab.departed(*slot, 1);
        }
        assert_eq!(slab.under_way(), lengths.len(), "each has one departure left");
        for slot in kept {
            slab.departed(slot, 1);
        }
        assert_eq!(slab.under_way(), 0);
    }

    #[test]
    fn the_last_freed_is_the_next_used() {
        let mut slab = Slab::new(8 << 20, 0).unwrap();
        let (a, b) = (land(&mut slab, 100, 1).unwrap(), land(&mut slab, 100, 2).unwrap());
        slab.departed(b, 2);
        slab.departed(a, 2);
        assert_eq!(land(&mut slab, 100, 3), Some(a));
    }

    #[test]
    fn a_full_slab_says_so_and_goes_on_when_there_is_room() {
        let mut slab = Slab::new(1 << 20, 0).unwrap();
        let kept: Vec<Slot> = std::iter::from_fn(|| land(&mut slab, 20_000, 1)).collect();
        assert_eq!(kept.len(), 3, "five sixteenths of 1 MiB hold 4, of which one is to read into");
        // Short frames that find their own size full take the next size.
        let short = std::iter::from_fn(|| land(&mut slab, 10, 1)).count();
        assert_eq!(short, 65_536 / 256 + 327_680 / 2_048 + 327_680 / 16_384);
        slab.departed(kept[0], 2);
        assert_eq!(land(&mut slab, 60_000, 2), Some(Slot::new(LARGEST, 3)), "it was read there");
        slab.clear();
        assert_eq!(slab.under_way(), 0);
    }
}
