//! Buffers that are ready before the clock runs.

/// Allocates `len` bytes, with all pages in memory, so that no page fault falls into a measurement.
///
/// The content is a fixed pseudo-random sequence (xorshift64): a link or tunnel that compresses
/// cannot make bulk bytes cheaper than real ones.
pub fn prefaulted(len: usize) -> Box<[u8]> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = vec![0; len].into_boxed_slice();
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    bytes
}

/// Length of [`pattern`] in bytes.
pub const PERIOD: usize = 128 * 1024;

/// Returns the content of bulk byte streams without a file: byte `n` of the stream is byte `n % PERIOD` of this,
/// independent of calls, so that a receiver can check all of it.
pub fn pattern() -> Box<[u8]> {
    prefaulted(PERIOD)
}

/// Returns the index of the first byte of `bytes` that differs from `pattern`. `bytes` are the part of a byte stream
/// from `at` on.
pub fn first_wrong(pattern: &[u8], at: u64, bytes: &[u8]) -> Option<usize> {
    let mut done = 0;
    while done < bytes.len() {
        let from = ((at + done as u64) % pattern.len() as u64) as usize;
        let len = (pattern.len() - from).min(bytes.len() - done);
        let (got, want) = (&bytes[done..done + len], &pattern[from..from + len]);
        if got != want {
            return got.iter().zip(want).position(|(got, want)| got != want).map(|i| done + i);
        }
        done += len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_the_same_each_time_and_not_repetitive() {
        let (a, b) = (prefaulted(4099), prefaulted(4099));
        assert_eq!(a, b);
        let words: std::collections::HashSet<&[u8]> = a.chunks_exact(8).collect();
        assert_eq!(words.len(), 4099 / 8);
    }

    #[test]
    fn any_length_is_kept() {
        for len in [0, 1, 7, 8, 9] {
            assert_eq!(prefaulted(len).len(), len);
        }
    }
}
