//! Recordings of what a link could carry over time.

use crate::time::Nanos;
use crate::units::BitRate;

/// What a link could carry, from its start to its end, where it starts again.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The file that it was read from, as typed.
    pub file: String,
    /// SHA-256 (FIPS 180-4) of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// After which time it starts again.
    pub length: Nanos,
    /// What it says.
    pub content: Content,
}

/// What a trace says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// From each step's time to the next one's, the link is so.
    Steps(Vec<Step>),
    /// At each of these times, sorted, so many bytes may leave, and what is not used is lost (mahimahi).
    Opportunities {
        /// The bytes of one opportunity, of IP packets and overhead.
        bytes: u32,
        /// The times; several may be the same.
        at: Vec<Nanos>,
    },
}

/// How a link is from some time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// From when, since the start of the trace; the first is 0.
    pub from: Nanos,
    /// What it carries; 0 for nothing.
    pub rate: BitRate,
    /// Its delay, in place of the model's.
    pub delay: Option<Nanos>,
    /// The probability that a packet is lost, 0 to 1, besides what the model loses.
    pub loss: Option<f64>,
}
