//! Keys and certificates as text (RFC 7468).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns DER as PEM, in lines of 64 characters.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    // It is ASCII (RFC 4648).
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
