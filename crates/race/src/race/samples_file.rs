//! Raw samples beside the saved race.

use std::path::Path;

use crate::race::context::{SampleStore, TrialPlace};
use deadheat_base::error::Result;
use deadheat_records::samples;

/// Store of raw samples in the race's `.samples` file.
#[derive(Debug, Clone, Copy, Default)]
pub struct SamplesFile;

impl SampleStore for SamplesFile {
    fn append(&mut self, main: &Path, part: &Path, place: &TrialPlace<'_>) -> Result<()> {
        if !part.exists() {
            return Ok(());
        }
        let place = samples::Place {
            block: place.block,
            order: u32::try_from(place.order).unwrap_or(u32::MAX),
            contender: u32::try_from(place.contender).unwrap_or(u32::MAX),
            control: place.control,
        };
        samples::append(main, part, place)
    }

    fn cut(&mut self, main: &Path, first: u64) -> Result<()> {
        if !main.exists() {
            return Ok(());
        }
        samples::cut(main, first)
    }
}
