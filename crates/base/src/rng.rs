//! Seeded random numbers, and fresh seeds.

use std::io;

use crate::error::{Error, Result};

pub use deadheat_stats::rng::{STEP, SplitMix64, first};

/// Draws a seed that is short enough to type: 32 bits from the kernel.
///
/// # Errors
/// [`Error::Setup`] if the kernel provides no random numbers.
pub fn fresh_seed() -> Result<u64> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::setup("read random bytes", io::Error::other(e.to_string())))?;
    Ok(u64::from(u32::from_be_bytes(bytes)))
}
