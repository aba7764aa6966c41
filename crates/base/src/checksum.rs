//! The Internet checksum (RFC 1071): the ones' complement of the ones' complement sum of 16-bit words.

/// Sums 16-bit words, with an odd last byte padded with zero, without folding. The sum of 65,536 bytes, 32,768 words,
/// is below 2^31.
pub fn sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(2);
    let sum: u32 =
        words.by_ref().map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    sum + words.remainder().first().map_or(0, |byte| u32::from(*byte) << 8)
}

/// Folds a sum: adds its carries to it.
pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}
