//! Request for a map: its points, their paths and seeds, and all checks that need no run.

use crate::analysis::claims;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::levels::MOST_LEVELS;
use crate::error::{Error, Result};
use crate::measurements::Metric;
use crate::path::PathSpec;
use crate::race::{Claims, Request};
use crate::result::outcome::{Entrant, Factor};
use crate::time::Nanos;

/// Maximum number of points of a map.
pub const MOST_POINTS: usize = 10_000;

/// Maximum number of contenders: each has a letter.
pub const MOST_CONTENDERS: usize = 26;

/// Default number of blocks at each point.
pub const DEFAULT_BLOCKS: u64 = 20;

/// Mark of a path in virtual time.
const SIMULATED: &str = "sim:";

/// Request for a map, with defaults filled in: enough to run each of its points.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Maximum duration at each point, in nanoseconds; absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        let comma = if rest.is_empty() { "" } else { "," };
        format!("{simulated}{rest}{comma}{}", self.name(at))
    }

    /// Returns true if the races run in virtual time.
    pub fn is_simulated(&self) -> bool {
        !self.split().0.is_empty()
    }

    fn split(&self) -> (&str, &str) {
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

    /// Returns the request for the race at a point, with the contenders in `racing`.
    pub fn request(&self, seed: u64, at: &[String], racing: &[usize]) -> Request {
        let contenders = racing.iter().filter_map(|id| self.contenders.get(*id).cloned());
        // A map defines its own comparison, which may include contenders that a kernel answers.
        let mut request = Request::new(contenders)
            .workload(&self.workload)
            .path(self.path(at))
            .margin(self.margin)
            .confidence(self.confidence)
            .claims(Claims::All)
            .seed(self.seed(seed, at));
        if let Some(blocks) = self.blocks {
            request = request.blocks(blocks);
        }
        if let Some(budget) = self.budget_ns {
            request = request.budget(Nanos(budget));
        }
        request
    }

    /// Checks every point, and returns the contenders and the metric of the map. Runs no race.
    ///
    /// # Errors
    /// [`Error::Usage`] with the problem, its place and a remedy.
    pub fn check(&self) -> Result<(Vec<Entrant>, Metric)> {
        self.check_grid()?;
        self.check_path()?;
        let racing: Vec<usize> = (0..self.contenders.len()).collect();
        let mut first = None;
        for index in 0..self.points() {
            let at = self.at(index);
            // The path's own error message is complete.
            PathSpec::parse(&self.path(&at))?;
            let request = self.request(0, &at, &racing);
            let checked = request.check().map_err(|error| match error {
                Error::Usage(what) => Error::usage(format!("at {}: {what}", self.name(&at))),
                other => other,
            })?;
            if first.is_none()
                && let Some(why) = request.too_few_blocks(&checked)
            {
                return Err(Error::usage(format!(
                    "a point without a verdict says nothing, and {why}; raise --blocks, or race fewer contenders"
                )));
            }
            first.get_or_insert(checked);
        }
        let checked = first.ok_or_else(|| Error::usage("a map without a point"))?;
        let misfit = |entrant: &Entrant| {
            entrant.not_applicable.as_ref().map(|why| {
                Error::usage(format!(
                    "`{}` cannot carry `{}`: {why}; leave it out of the map",
                    entrant.spec, self.workload
                ))
            })
        };
        if let Some(error) = checked.entrants.iter().find_map(misfit) {
            return Err(error);
        }
        let metric = claims::claimed(&checked.metrics).next().cloned();
        let metric = metric.ok_or_else(|| Error::usage("a workload that claims nothing"))?;
        Ok((checked.entrants, metric))
    }

    fn check_grid(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::usage(what));
        match self.contenders.len() {
            0 | 1 => {
                return refuse("a map takes two contenders or more, such as quic and kcp".into());
            }
            2..=MOST_CONTENDERS => {}
            n => return refuse(format!("{n} contenders; a map takes {MOST_CONTENDERS} at most")),
        }
        if self.over.is_empty() {
            return refuse(
                "a map needs keys to go over, such as --over 'delay=1ms..300ms/12' --over 'loss=0..10%/10'"
                    .into(),
            );
        }
        for (at, key) in self.over.iter().enumerate() {
            let name = &key.name;
            if self.over[..at].iter().any(|other| other.name == *name) {
                return refuse(format!(
                    "--over has `{name}` twice; give all its levels in one place"
                ));
            }
            if !(1..=MOST_LEVELS).contains(&key.levels.len()) {
                return refuse(format!("`{name}` has {} levels", key.levels.len()));
            }
        }
        match self.points() {
            n if n > MOST_POINTS => refuse(format!(
                "{n} points; a map has {MOST_POINTS} at most, so take fewer steps of each key"
            )),
            _ => Ok(()),
        }
    }

    fn check_path(&self) -> Result<()> {
        let (_, rest) = self.split();
        if rest == "loopback" {
            return Err(Error::usage(
                "loopback has no keys to go over; leave --path out for an emulated path, or write sim:",
            ));
        }
        if rest.contains('+') {
            return Err(Error::usage(format!(
                "path `{}`: a map goes over the keys of one link, and it has several",
                self.path
            )));
        }
        let given = |word: &str| word.split_once('=').map(|(key, _)| key.trim().to_owned());
        let twice = rest
            .split(',')
            .filter_map(given)
            .find(|key| self.over.iter().any(|over| over.name == *key));
        match twice {
            Some(key) => Err(Error::usage(format!(
                "`{key}` is both in --path `{}` and in --over; leave it out of one",
                self.path
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::levels;
    use super::*;

    /// Returns a map of two simulated contenders over three delays and two losses.
    pub(in crate::map) fn asked() -> MapRequest {
        MapRequest {
            contenders: vec!["arq".into(), "kcp".into()],
            workload: "state:count=30".into(),
            path: "sim:rate=20mbit".into(),
            over: ["delay=1ms..100ms/3", "loss=0..5%/2"].map(|o| levels::parse(o).unwrap()).into(),
            blocks: Some(6),
            budget_ns: None,
            margin: 0.05,
            confidence: 0.95,
        }
    }

    #[test]
    fn every_point_has_its_index_path_and_seed() {
        let asked = asked();
        assert_eq!(asked.points(), 6);
        let mut seeds = Vec::new();
        for index in 0..asked.points() {
            let at = asked.at(index);
            assert_eq!(asked.index(&at), Some(index));
            seeds.push(asked.seed(7, &at));
        }
        assert_eq!(asked.name(&asked.at(0)), "delay=1ms,loss=0%");
        assert_eq!(asked.path(&asked.at(3)), "sim:rate=20mbit,delay=10ms,loss=5%");
        seeds.dedup();
        assert_eq!(seeds.len(), 6);
        // Published maps name their races by one seed alone; this must never change.
        assert_eq!(seeds[0], 3_080_275_602_613_611_337);
        assert_ne!(asked.seed(8, &asked.at(0)), seeds[0]);
        assert_eq!(asked.index(&["1ms".into()]), None);
        assert_eq!(asked.index(&["2ms".into(), "0%".into()]), None);
    }

    #[test]
    fn the_keys_may_be_all_that_the_path_has() {
        let bare = |path: &str| MapRequest { path: path.into(), ..asked() };
        assert_eq!(bare("sim:").path(&asked().at(0)), "sim:delay=1ms,loss=0%");
        assert_eq!(bare("").path(&asked().at(0)), "delay=1ms,loss=0%");
        assert!(bare(" sim: ").is_simulated() && !bare("").is_simulated());
    }

    #[test]
    fn a_map_that_makes_sense_is_of_its_workloads_claim() {
        let (contenders, metric) = asked().check().unwrap();
        assert_eq!(contenders.len(), 2);
        assert_eq!(metric.name, "age_mean_ns");
    }

    #[test]
    fn every_mistake_is_named() {
        fn say(change: impl FnOnce(&mut MapRequest)) -> String {
            let mut asked = asked();
            change(&mut asked);
            let error = asked.check().unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        }
        let over = |typed: &[&str]| -> Vec<Factor> {
            typed.iter().map(|typed| levels::parse(typed).unwrap()).collect()
        };
        assert!(say(|a| a.contenders.truncate(1)).contains("two contenders or more"));
        assert!(say(|a| a.contenders = vec!["arq".into(); 27]).contains("26 at most"));
        assert!(say(|a| a.over.clear()).contains("keys to go over"));
        assert!(say(|a| a.over = over(&["loss=0%|1%", "loss=2%|3%"])).contains("`loss` twice"));
        assert!(say(|a| a.over = over(&["dealy=1ms..9ms/3"])).contains("did you mean `delay`?"));
        assert!(say(|a| a.over = over(&["delay=1%..9%/3"])).contains("delay=1%"));
        let wide = ["delay=1ms..9ms/64", "jitter=1ms..9ms/64", "loss=1%..9%/64"];
        assert!(say(|a| a.over = over(&wide)).contains("262144 points; a map has 10000 at most"));
        assert!(say(|a| a.path = "sim:delay=5ms".into()).contains("`delay` is both in --path"));
        assert!(say(|a| a.path = "loopback".into()).contains("no keys to go over"));
        assert!(say(|a| a.path = "sim:rate=1mbit + loss=1%".into()).contains("one link"));
        assert!(say(|a| a.contenders[1] = "tcp".into()).contains("carried by the kernel"));
        let late = "ping:timeout=100ms";
        assert!(say(|a| a.workload = late.into()).contains("at delay=100ms,loss=0%: a round trip"));
        let misfit = say(|a| {
            (a.contenders[0], a.workload) = ("quic".into(), "streams:order=none".into());
        });
        assert!(
            misfit.contains("`kcp` cannot carry") && misfit.contains("leave it out of the map")
        );
        assert!(say(|a| a.margin = 0.0).contains("margin"));
        assert!(
            say(|a| a.blocks = Some(5))
                .contains("5 blocks cannot decide 1 claim; 6 are the fewest")
        );
    }
}
