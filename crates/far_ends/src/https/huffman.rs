//! Huffman code of header fields (RFC 7541, appendix B), which QPACK shares (RFC 9204, 4.1.2).
//!
//! The code is canonical: shorter codes come first, and codes of one length are in the order of their symbols. So the
//! lengths decide it.

use std::sync::OnceLock;

/// Lengths in bits of the codes of all bytes.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
];

/// Longest code in bits.
const LONGEST: usize = 30;

/// Codes by length: the first of each, the place of its symbol, and their number.
struct Codes {
    first: [u32; LONGEST + 1],
    place: [u16; LONGEST + 1],
    count: [u16; LONGEST + 1],
    /// Symbols in the order of their codes.
    symbols: [u8; 256],
}

impl Codes {
    fn new() -> Codes {
        let mut codes = Codes {
            first: [0; LONGEST + 1],
            place: [0; LONGEST + 1],
            count: [0; LONGEST + 1],
            symbols: [0; 256],
        };
        let (mut code, mut place) = (0_u32, 0_u16);
        for length in 1..=LONGEST {
            code <<= 1;
            (codes.first[length], codes.place[length]) = (code, place);
            for (symbol, _) in
                LENGTHS.iter().enumerate().filter(|(_, own)| usize::from(**own) == length)
            {
                codes.symbols[usize::from(place)] = symbol as u8;
                codes.count[length] += 1;
                (code, place) = (code + 1, place + 1);
            }
        }
        codes
    }
}

/// Decodes `coded`; `None` if it is no Huffman code, or not padded with ones of less than a byte.
pub(super) fn decode(coded: &[u8]) -> Option<Vec<u8>> {
    static CODES: OnceLock<Codes> = OnceLock::new();
    let codes = CODES.get_or_init(Codes::new);
    let mut decoded = Vec::with_capacity(coded.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0_usize);
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at) & 1)) {
        (code, length) = (code << 1 | bit, length + 1);
        if length > LONGEST {
            return None;
        }
        let past = code.wrapping_sub(codes.first[length]);
        if past < u32::from(codes.count[length]) {
            decoded.push(codes.symbols[usize::from(codes.place[length]) + past as usize]);
            (code, length) = (0, 0);
        }
    }
    // The padding is the start of the end-of-string code, which is all ones.
    let is_padding = length < 8 && code == (1 << length) - 1;
    is_padding.then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7541, appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc_decode() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect()
        };
        for (coded, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("6402", "302"),
            ("640eff", "307"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
        ] {
            assert_eq!(decode(&bytes(coded)).unwrap(), text.as_bytes(), "{coded}");
        }
    }

    /// Together with the end of a string, of 30 bits, the codes fill all bits.
    #[test]
    fn the_lengths_make_a_whole_code() {
        let sum: u64 = LENGTHS.iter().map(|length| 1 << (LONGEST - usize::from(*length))).sum();
        assert_eq!(sum + 1, 1 << LONGEST);
    }

    #[test]
    fn padding_that_is_too_long_or_not_of_ones_and_the_end_of_a_string_are_refused() {
        assert_eq!(decode(&[]), Some(Vec::new()));
        for coded in [&[0xff][..], &[0xff; 4], &[0x07, 0xff], &[0b0000_0000]] {
            assert_eq!(decode(coded), None, "{coded:x?}");
        }
    }
}
