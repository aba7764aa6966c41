//! Count of a thread's allocations, by an allocator that passes each call on to the system's, or with musl to dlmalloc.
//!
//! Musl's allocator returns pages to the kernel and asks for them again for a handful of small blocks. Where a library allocates for
//! each packet, it took 50 times as long as glibc's, and a static program would have raced the allocators.
//!
//! A protocol in user space pays for its memory with the allocator's CPU time; the kernel's transports allocate in the
//! kernel, where allocations are not counted. The count is a thread-local variable, so counting costs one addition in
//! the cache, and no synchronisation.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

#[cfg(target_env = "musl")]
use dlmalloc::GlobalDlmalloc as Behind;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Behind;

use deadheat_contract::measurements::Allocations;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Allocator with a count. A program declares it as its `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

#[inline]
fn count(bytes: usize) {
    // Without a destructor they live as long as the thread.
    CALLS.set(CALLS.get().wrapping_add(1));
    BYTES.set(BYTES.get().wrapping_add(bytes as u64));
}

// SAFETY: each call is passed on unchanged to the allocator behind; counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller vouches.
        unsafe { Behind.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller vouches.
        unsafe { Behind.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as the caller vouches.
        unsafe { Behind.realloc(old, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { Behind.dealloc(old, layout) }
    }
}

/// Reading of this thread's count.
#[derive(Debug, Clone, Copy)]
pub struct AllocationReading(Allocations);

impl AllocationReading {
    /// Reads the count now; `None` in a program without this allocator.
    pub fn now() -> Option<AllocationReading> {
        let before = CALLS.get();
        drop(std::hint::black_box(Box::new(0_u8)));
        let counts = CALLS.get() != before;
        counts.then(|| AllocationReading(Allocations { calls: CALLS.get(), bytes: BYTES.get() }))
    }

    /// Returns the allocations of this thread since this reading.
    pub fn since(self) -> Allocations {
        Allocations {
            calls: CALLS.get().saturating_sub(self.0.calls),
            bytes: BYTES.get().saturating_sub(self.0.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_another_allocator_has_no_count() {
        assert!(AllocationReading::now().is_none());
    }

    #[test]
    fn each_call_counts_with_its_bytes() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        let before = (CALLS.get(), BYTES.get());
        // SAFETY: memory is freed with the layout that it was allocated with.
        unsafe {
            let memory = CountingAllocator.alloc(layout);
            let memory = CountingAllocator.realloc(memory, layout, 300);
            let longer = Layout::from_size_align(300, 8).unwrap();
            CountingAllocator.dealloc(memory, longer);
            CountingAllocator.dealloc(CountingAllocator.alloc_zeroed(layout), layout);
        }
        assert_eq!((CALLS.get() - before.0, BYTES.get() - before.1), (3, 500));
    }
}
