//! Request for a map: its points, and their paths, works and seeds.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::outcome::Factor;
use deadheat_base::spec::Spec;
use deadheat_contract::workload;
use deadheat_path::grammar;

/// Maximum number of points of a map.
pub const MOST_POINTS: usize = 10_000;

/// Mark of a path in virtual time.
const SIMULATED: &str = "sim:";

/// Mark of a key of the workload, where the path has a key of the same name.
pub const OF_WORK: &str = "w.";

/// Part of a race that a key of the grid changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridPart<'a> {
    /// Path.
    Path,
    /// Workload, with the name of its key.
    Work(&'a str),
}

/// Request for a map, with defaults filled in: enough to run each of its points.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapRequest {
    /// Contenders in the order typed.
    pub contenders: Vec<String>,
    /// Workload as typed.
    pub workload: String,
    /// Path as typed, without the keys of the grid: `sim:rate=20mbit`, `sim:`; empty if the grid has all keys.
    pub path: String,
    /// Keys of the grid, each with its levels.
    pub over: Vec<Factor>,
    /// Maximum number of blocks at each point; absent if only the time is limited.
    pub blocks: Option<u64>,
    /// Maximum duration at each point, in nanoseconds; absent if unlimited.
    pub budget_ns: Option<u64>,
    /// Margin, as a fraction.
    pub margin: f64,
    /// Confidence of each point's whole race, as a fraction.
    pub confidence: f64,
}

impl MapRequest {
    /// Returns the number of points.
    pub fn points(&self) -> usize {
        let levels = self.over.iter().map(|key| key.levels.len());
        levels.fold(1, usize::saturating_mul)
    }

    /// Returns the level of each key at the point with this index, from 0; the last key varies fastest.
    pub fn at(&self, index: usize) -> Vec<String> {
        let mut rest = index;
        let mut at: Vec<String> = Vec::with_capacity(self.over.len());
        for key in self.over.iter().rev() {
            let levels = key.levels.len().max(1);
            at.extend(key.levels.get(rest % levels).cloned());
            rest /= levels;
        }
        at.reverse();
        at
    }

    /// Returns the index of the point with these levels; `None` if there is none.
    pub fn index(&self, at: &[String]) -> Option<usize> {
        if at.len() != self.over.len() {
            return None;
        }
        self.over.iter().zip(at).try_fold(0, |index, (key, level)| {
            let place = key.levels.iter().position(|other| other == level)?;
            Some(index * key.levels.len() + place)
        })
    }

    /// Returns a point in words: `delay=5ms,loss=1%`.
    pub fn name(&self, at: &[String]) -> String {
        let keys = self.over.iter().zip(at);
        keys.map(|(key, level)| format!("{}={level}", key.name)).collect::<Vec<_>>().join(",")
    }

    /// Returns the path at a point.
    pub fn path(&self, at: &[String]) -> String {
        let (simulated, rest) = self.split();
        let keys = self.levels(at, |key| (self.part(key) == GridPart::Path).then_some(key));
        match (rest.is_empty(), keys.is_empty()) {
            (_, true) if simulated.is_empty() && rest.is_empty() => "loopback".to_owned(),
            (_, true) => format!("{simulated}{rest}"),
            (true, false) => format!("{simulated}{keys}"),
            (false, false) => format!("{simulated}{rest},{keys}"),
        }
    }

    /// Returns the workload at a point, its load included.
    pub fn workload(&self, at: &[String]) -> String {
        let keys = self.levels(at, |key| match self.part(key) {
            GridPart::Path => None,
            GridPart::Work(key) => Some(key),
        });
        let sign = if self.workload.contains(':') { "," } else { ":" };
        let sign = if keys.is_empty() { "" } else { sign };
        format!("{}{sign}{keys}", self.workload)
    }

    /// Returns the levels of some keys at a point as `key=level,…`. `name` returns the name of a key of the grid where it
    /// belongs, and `None` for others.
    fn levels(&self, at: &[String], name: impl Fn(&str) -> Option<&str>) -> String {
        let keys = self.over.iter().zip(at);
        let own = keys.filter_map(|(key, level)| Some(format!("{}={level}", name(&key.name)?)));
        own.collect::<Vec<_>>().join(",")
    }

    /// Returns the part that a key of the grid changes. A name that neither has is of the path, whose error names its
    /// keys.
    pub fn part<'a>(&self, name: &'a str) -> GridPart<'a> {
        if let Some(key) = name.strip_prefix(OF_WORK) {
            return GridPart::Work(key);
        }
        let one_way = ["up.", "down."].iter().find_map(|way| name.strip_prefix(way));
        let bare = one_way.unwrap_or(name);
        let mut keys = grammar::LINK.iter().chain(grammar::WHOLE);
        // A map is of one link, whose hosts have no roles.
        let is_path = keys.any(|key| key.name == bare && !grammar::is_role(bare));
        let keys = Spec::parse(&self.workload).and_then(|spec| workload::keys(&spec.name));
        let is_work = keys.is_ok_and(|keys| keys.iter().any(|key| key.name == name));
        if !is_path && is_work { GridPart::Work(name) } else { GridPart::Path }
    }

    /// Returns true if the grid changes the path.
    pub fn has_path_keys(&self) -> bool {
        self.over.iter().any(|key| self.part(&key.name) == GridPart::Path)
    }

    /// Returns the indices of the points at which each key has its first or its last level.
    pub fn corners(&self) -> Vec<usize> {
        let is_end = |key: &Factor, level: &String| {
            key.levels.first() == Some(level) || key.levels.last() == Some(level)
        };
        let is_corner =
            |index: &usize| self.over.iter().zip(&self.at(*index)).all(|(key, at)| is_end(key, at));
        (0..self.points()).filter(is_corner).collect()
    }

    /// Returns true if the races run in virtual time.
    pub fn is_simulated(&self) -> bool {
        !self.split().0.is_empty()
    }

    /// Returns the mark of virtual time, or nothing, and the path without it.
    pub fn split(&self) -> (&str, &str) {
        let path = self.path.trim();
        path.strip_prefix(SIMULATED).map_or(("", path), |rest| (SIMULATED, rest.trim()))
    }

    /// Returns the seed of the race at a point of the map with `seed`. It depends on the levels and not on the
    /// position in the grid, so a finer map has the same races at common points.
    pub fn seed(&self, seed: u64, at: &[String]) -> u64 {
        let mut digest = Sha256::new();
        digest.update(seed.to_be_bytes());
        digest.update(self.name(at));
        digest.finalize().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    }
}
