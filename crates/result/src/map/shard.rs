//! Share of a map's points for one of several runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Result};
use deadheat_base::units::parse_count;

/// Maximum number of shards: the number of points of the largest map.
const MOST: u64 = super::request::MOST_POINTS as u64;

/// Shard: every `of`-th point, from the `part`-th on. Neighbours cost about the same, so shards do, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub part: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// Parses `I/N`.
    ///
    /// # Errors
    /// [`Error::Usage`] for anything else.
    pub fn parse(typed: &str) -> Result<Shard> {
        let wrong = || {
            Error::usage(format!(
                "--shard {typed}: it takes I/N, shard I of N, from 1/N to N/N; N is at most {MOST}"
            ))
        };
        let (part, of) = typed.split_once('/').ok_or_else(wrong)?;
        let (part, of) = (parse_count(part), parse_count(of));
        let shard = part.ok().zip(of.ok()).map(|(part, of)| Shard { part, of });
        shard.filter(|shard| shard.exists()).ok_or_else(wrong)
    }

    /// Returns true if the shard is valid; a shard read from a file may not be.
    pub fn exists(self) -> bool {
        1 <= self.part && self.part <= self.of && self.of <= MOST
    }

    /// Returns true if the point with this index, from 0, belongs to the shard.
    pub fn has(self, index: usize) -> bool {
        index as u64 % self.of == self.part - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of {}", self.part, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_of_one_shard() {
        let shards = ["1/3", "2/3", "3/3"].map(|typed| Shard::parse(typed).unwrap());
        for index in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(index)).count(), 1, "{index}");
        }
        assert_eq!(shards[1].to_string(), "shard 2 of 3");
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for typed in ["", "1", "0/3", "4/3", "a/3", "1/0", "-1/3", "1/3/5", "1/10001"] {
            let said = Shard::parse(typed).unwrap_err().to_string();
            assert!(said.contains("from 1/N to N/N"), "{said}");
        }
    }
}
