//! Time that a thread spends in a protocol in user space, with separate times for encryption and memory. Only in
//! the explaining pass: its agents are processes of their own, and [`begin`] switches it on for the whole process.
//!
//! Two clock readings (about 20 ns each) time a span. Their cost is measured once, and subtracted from the sums, of
//! the span itself and of the enclosing one.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Time spent by one thread, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProtocolTime {
    /// Number of messages that the thread sent in this time.
    pub messages: u64,
    /// In the protocol, without the parts below.
    pub protocol_ns: f64,
    /// In encryption and decryption; absent if the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_ns: Option<f64>,
    /// In the allocator, on behalf of the protocol; absent if the program has another allocator than [`Allocator`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_ns: Option<f64>,
    /// Number of allocations of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
}

/// Part of the work that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedPart {
    /// A call of the protocol.
    Protocol,
    /// Encryption or decryption within a call of the protocol.
    Encryption,
    /// Call of the allocator within a call of the protocol.
    Memory,
    /// Callback of other code within a call of the protocol.
    Outside,
}

/// Cost of an empty span, in nanoseconds: as it measures itself, and for the enclosing span.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    own_ns: f64,
    whole_ns: f64,
    /// True if the program's allocator is [`Allocator`].
    sees_memory: bool,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static COST: OnceLock<Cost> = OnceLock::new();

/// Number of spans and their sum.
struct Sum(Cell<u64>, Cell<u64>);

impl Sum {
    const fn none() -> Sum {
        Sum(Cell::new(0), Cell::new(0))
    }

    fn add(&self, span: Nanos) {
        self.0.set(self.0.get() + 1);
        self.1.set(self.1.get() + span.0);
    }

    /// Returns the number, and the sum without the cost of timing.
    fn figures(&self, cost: Cost) -> (f64, f64) {
        let count = self.0.get() as f64;
        (count, (self.1.get() as f64 - count * cost.own_ns).max(0.0))
    }
}

/// Sums of a thread. Without a destructor, so that the allocator may use it at any time.
struct Sums {
    /// True within the protocol.
    inside: Cell<bool>,
    parts: [Sum; 4],
    allocations: Cell<u64>,
}

thread_local! {
    static SUMS: Sums = const {
        Sums { inside: Cell::new(false), parts: [Sum::none(), Sum::none(), Sum::none(), Sum::none()], allocations: Cell::new(0) }
    };
}

/// Switches timing on for the whole process, and measures its cost.
pub fn begin() {
    IS_ON.store(true, Ordering::Relaxed);
    COST.get_or_init(Cost::measure);
}

/// Returns true if the process times protocols.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Times `act` as a part. All but [`TimedPart::Protocol`] count only within the protocol.
pub fn within<T>(part: TimedPart, act: impl FnOnce() -> T) -> T {
    SUMS.with(|sums| {
        let was_inside = sums.inside.get();
        if part != TimedPart::Protocol && !was_inside {
            return act();
        }
        let began = Monotonic.now();
        // Allocation within encryption counts as encryption.
        sums.inside.set(part == TimedPart::Protocol);
        let done = act();
        sums.inside.set(was_inside);
        sums.parts[part as usize].add(Monotonic.now() - began);
        done
    })
}

/// Returns the time that the calling thread has spent so far; `None` if none of it was in a protocol in user space.
pub fn by_this_thread(messages: u64) -> Option<ProtocolTime> {
    let cost = *COST.get()?;
    SUMS.with(|sums| {
        let figures = |part: TimedPart| sums.parts[part as usize].figures(cost);
        let (calls, protocol) = figures(TimedPart::Protocol);
        let (encryptions, encryption) = figures(TimedPart::Encryption);
        let (uses, memory) = figures(TimedPart::Memory);
        let (returns, outside) = figures(TimedPart::Outside);
        let nested = encryption + memory + outside;
        let timing = (encryptions + uses + returns) * cost.whole_ns;
        (calls > 0.0).then(|| ProtocolTime {
            messages,
            protocol_ns: (protocol - nested - timing).max(0.0),
            encryption_ns: (encryptions > 0.0).then_some(encryption),
            allocation_ns: cost.sees_memory.then_some(memory),
            allocations: cost.sees_memory.then(|| sums.allocations.get()),
        })
    })
}

impl Cost {
    /// Measures empty spans; returns the least of several batches, as any disturbance makes one longer.
    fn measure() -> Cost {
        const SPANS: u32 = 1_000;
        let mut least = Cost { own_ns: f64::MAX, whole_ns: f64::MAX, sees_memory: false };
        SUMS.with(|sums| {
            let sum = &sums.parts[TimedPart::Outside as usize];
            for _ in 0..8 {
                let (count, before) = (sum.0.get(), sum.1.get());
                let began = Monotonic.now();
                for _ in 0..SPANS {
                    sums.inside.set(true);
                    within(TimedPart::Outside, || std::hint::black_box(()));
                }
                let whole = Monotonic.now() - began;
                least.whole_ns = least.whole_ns.min(whole.0 as f64 / f64::from(SPANS));
                let own = (sum.1.get() - before) as f64 / f64::from(SPANS);
                least.own_ns = least.own_ns.min(own);
                sum.0.set(count);
                sum.1.set(before);
            }
            drop(std::hint::black_box(Box::new(0_u8)));
            sums.inside.set(false);
            let memory = &sums.parts[TimedPart::Memory as usize];
            least.sees_memory = memory.0.get() > 0;
            memory.0.set(0);
            memory.1.set(0);
            sums.allocations.set(0);
        });
        least
    }
}

/// Allocator that is timed while it works for a timed protocol; otherwise it costs one read of a flag.
#[derive(Debug)]
pub struct Allocator<Inner>(pub Inner);

#[inline]
fn count() {
    SUMS.with(|sums| {
        if sums.inside.get() {
            sums.allocations.set(sums.allocations.get() + 1);
        }
    });
}

// SAFETY: every call is passed unchanged to the inner allocator.
unsafe impl<Inner: GlobalAlloc> GlobalAlloc for Allocator<Inner> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_on() {
            // SAFETY: the caller's promises are the inner allocator's.
            return unsafe { self.0.alloc(layout) };
        }
        count();
        // SAFETY: as above.
        within(TimedPart::Memory, || unsafe { self.0.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_on() {
            // SAFETY: as above.
            return unsafe { self.0.alloc_zeroed(layout) };
        }
        count();
        // SAFETY: as above.
        within(TimedPart::Memory, || unsafe { self.0.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_on() {
            // SAFETY: as above.
            return unsafe { self.0.realloc(at, layout, size) };
        }
        count();
        // SAFETY: as above.
        within(TimedPart::Memory, || unsafe { self.0.realloc(at, layout, size) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_on() {
            // SAFETY: as above.
            return unsafe { self.0.dealloc(at, layout) };
        }
        // SAFETY: as above.
        within(TimedPart::Memory, || unsafe { self.0.dealloc(at, layout) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for about this many nanoseconds.
    fn work(ns: u64) {
        let until = Monotonic.now() + Nanos(ns);
        while Monotonic.now() < until {}
    }

    #[test]
    fn parts_are_told_apart_and_what_is_outside_counts_for_none() {
        begin();
        let spent = std::thread::spawn(|| {
            // Outside of the protocol nothing is timed.
            within(TimedPart::Encryption, || work(1_000_000));
            assert_eq!(by_this_thread(1), None);
            for _ in 0..10 {
                within(TimedPart::Protocol, || {
                    work(200_000);
                    within(TimedPart::Encryption, || work(100_000));
                    within(TimedPart::Outside, || {
                        within(TimedPart::Encryption, || work(50_000));
                        work(400_000);
                    });
                });
            }
            by_this_thread(10)
        });
        let spent = spent.join().unwrap().unwrap();
        let encryption = spent.encryption_ns.unwrap();
        assert_eq!(spent.messages, 10);
        // However long other threads have the CPU meanwhile, no part is shorter than its work, except for the cost
        // of timing.
        assert!(spent.protocol_ns > 1_990_000.0, "{spent:?}");
        assert!(encryption > 990_000.0, "{spent:?}");
        // Tests use the system's own allocator.
        assert_eq!((spent.allocation_ns, spent.allocations), (None, None));
    }

    #[test]
    fn a_part_that_a_protocol_does_not_have_is_absent_in_json() {
        let spent = ProtocolTime { messages: 2, protocol_ns: 1.5, ..ProtocolTime::default() };
        let json = serde_json::to_string(&spent).unwrap();
        assert_eq!(json, r#"{"messages":2,"protocol_ns":1.5}"#);
        assert_eq!(serde_json::from_str::<ProtocolTime>(&json).unwrap(), spent);
    }
}
