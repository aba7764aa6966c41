//! Keys and certificates as text (RFC 7468).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns DER as PEM, in lines of 64 characters.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
