//! What a receiver had, and over which span.

use super::sys;

/// Bytes received and when, from the first receive to the last look at the clock; what came after
/// that look does not count.
#[derive(Default)]
pub(super) struct Span {
    bytes: u64,
    start_ns: Option<u64>,
    seen_bytes: u64,
    seen_ns: u64,
}

impl Span {
    /// Adds bytes; `look` says whether the clock is read.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64, look: bool) {
        self.bytes += bytes;
        if look {
            self.seen_ns = sys::now();
            self.seen_bytes = self.bytes;
            self.start_ns.get_or_insert(self.seen_ns);
        }
    }

    /// Bytes and nanoseconds.
    pub(super) fn figures(&self) -> [u64; 2] {
        let start = self.start_ns.unwrap_or(self.seen_ns);
        [self.seen_bytes, self.seen_ns - start]
    }
}

/// Bits per second of bytes and nanoseconds.
pub(super) fn rate([bytes, span_ns]: [u64; 2]) -> std::io::Result<f64> {
    if span_ns == 0 {
        return Err(std::io::Error::other("the floor's receiver had nothing"));
    }
    Ok(bytes as f64 * 8e9 / span_ns as f64)
}
