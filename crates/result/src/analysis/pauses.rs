//! Pauses between blocks that a person asked for while a race ran.

use deadheat_base::time::Nanos;

/// Pauses of a race, in the order in which they were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pauses(Vec<Pause>);

/// Pause between two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    /// Number of blocks before it.
    after: u64,
    took: Nanos,
}

impl Pauses {
    /// Adds a pause after this many blocks.
    pub fn add(&mut self, after: u64, took: Nanos) {
        self.0.push(Pause { after, took });
    }

    /// Returns the pauses in a sentence.
    pub(super) fn message(&self) -> String {
        let after: Vec<String> = self.0.iter().map(|pause| pause.after.to_string()).collect();
        let took = Nanos(self.0.iter().map(|pause| pause.took.0).sum());
        match &after[..] {
            [one] => format!("paused by hand for {took}; blocks before that: {one}"),
            many => format!(
                "paused by hand {} times, for {took} in all; blocks before each: {}",
                many.len(),
                many.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_has_its_length_and_its_place() {
        let mut pauses = Pauses::default();
        pauses.add(4, Nanos(12_041_000_000));
        assert_eq!(pauses.message(), "paused by hand for 12.0 s; blocks before that: 4");
        pauses.add(9, Nanos::from_secs(30));
        assert_eq!(
            pauses.message(),
            "paused by hand 2 times, for 42.0 s in all; blocks before each: 4, 9"
        );
    }
}
