//! Bytes as hexadecimal digits, two each.

/// Returns the lower-case digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses `N` bytes from digits in upper or lower case; `None` if `digits` are anything else.
pub fn unhex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.len() != 2 * N || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_written_and_read() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(unhex("001fFF"), Some([0, 0x1f, 0xff]));
        for digits in ["", "001ff", "001fff0", "001ff+", "+01fff", "00é0f"] {
            assert_eq!(unhex::<3>(digits), None, "{digits}");
        }
    }
}
