//! Saved map: format 1, described by `docs/map.schema.json`, which a test compares with this file. The file of a
//! map in virtual time does not depend on the time, the host or the order of its runs.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::levels::MOST_LEVELS;
use super::point::MapPoint;
use super::request::MapRequest;
use super::shard::Shard;
use crate::outcome::{Entrant, Program};
use crate::{layout, packed, save};
use deadheat_base::error::{Error, Result};
use deadheat_contract::measurements::Metric;
use deadheat_records::host::HostFacts;

/// File format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// Maximum size of a file to read, in bytes.
const LARGEST: u64 = save::LARGEST;

/// Complete or partial map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Map {
    /// Kind of the file: `map`.
    pub kind: MapFileKind,
    /// File format: 1.
    pub format: u32,
    /// Program that wrote the file.
    pub deadheat: Program,
    /// Seed of the map, from which the seeds of its races follow.
    pub seed: u64,
    /// Request, with defaults filled in.
    pub asked: MapRequest,
    /// Metric of the map: the claim of its workload.
    pub metric: Metric,
    /// Contenders.
    pub contenders: Vec<MapContender>,
    /// Hosts that ran the points; absent in virtual time, where the host does not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostFacts>,
    /// Share of the points that this file is for; absent if all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Completed points, in the order of the grid.
    pub points: Vec<MapPoint>,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapFileKind {
    /// Map.
    Map,
}

/// Contender of a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapContender {
    /// Index of the contender, from 0.
    pub id: usize,
    /// Specification as typed.
    pub spec: String,
    /// Name that is unique in this map: `quic`, `quic #2`.
    pub label: String,
    /// Colour of its transport, `#rrggbb`.
    pub colour: String,
    /// Implementation of its transport.
    pub implementation: String,
}

impl Map {
    /// Creates a map without points, of these contenders and this claim.
    pub fn new(
        asked: MapRequest,
        entrants: Vec<Entrant>,
        metric: Metric,
        seed: u64,
        shard: Option<Shard>,
    ) -> Map {
        let contender = |entrant: Entrant| MapContender {
            id: entrant.id,
            spec: entrant.spec,
            label: entrant.label,
            colour: entrant.colour,
            implementation: entrant.implementation,
        };
        Map {
            kind: MapFileKind::Map,
            format: FORMAT,
            deadheat: Program { version: env!("CARGO_PKG_VERSION").to_owned() },
            seed,
            asked,
            metric,
            contenders: entrants.into_iter().map(contender).collect(),
            hosts: Vec::new(),
            shard,
            points: Vec::new(),
        }
    }

    /// Returns the point with this index, if it is complete.
    pub fn point(&self, index: usize) -> Option<&MapPoint> {
        let place =
            self.points.binary_search_by_key(&Some(index), |point| self.index(point)).ok()?;
        self.points.get(place)
    }

    /// Returns the indices of the points that this file lacks.
    pub fn missing(&self) -> Vec<usize> {
        let is_own = |index: &usize| self.shard.is_none_or(|shard| shard.has(*index));
        let all = (0..self.asked.points()).filter(is_own);
        all.filter(|index| self.point(*index).is_none()).collect()
    }

    /// Adds a point in its position; replaces an existing one.
    pub fn add(&mut self, point: MapPoint) {
        let index = self.index(&point);
        match self.points.binary_search_by_key(&index, |point| self.index(point)) {
            Ok(place) => self.points[place] = point,
            Err(place) => self.points.insert(place, point),
        }
    }

    /// Adds a host that ran points. Hosts are sorted, so that the file does not depend on their order in time.
    pub fn add_host(&mut self, host: &HostFacts) {
        if !self.hosts.contains(host) {
            self.hosts.push(host.clone());
            self.hosts.sort_by_cached_key(|host| layout::line(host).unwrap_or_default());
        }
    }

    /// Returns the index of a point; `None` if it is not in the grid.
    pub fn index(&self, point: &MapPoint) -> Option<usize> {
        self.asked.index(&point.at)
    }

    /// Returns the reason why `other` is not a part of the same map; `None` if it is.
    pub fn differs(&self, other: &Map) -> Option<String> {
        let plan = |map: &Map| {
            let bare = Map { shard: None, points: Vec::new(), hosts: Vec::new(), ..map.clone() };
            let mut plan = layout::tree(&bare).unwrap_or_default();
            let asked = plan.as_object_mut().and_then(|plan| plan.remove("asked"));
            // The fields of the request are compared individually, because users typed them.
            if let (Some(plan), Some(Value::Object(asked))) = (plan.as_object_mut(), asked) {
                plan.extend(
                    asked.into_iter().map(|(name, value)| (format!("asked.{name}"), value)),
                );
            }
            plan
        };
        let (own, other) = (plan(self), plan(other));
        let names = [&own, &other].map(|plan| plan.as_object().into_iter().flat_map(|p| p.keys()));
        let name = names.into_iter().flatten().find(|name| own.get(name) != other.get(name))?;
        let shown = |plan: &Value| plan.get(name).map_or("none".to_owned(), Value::to_string);
        Some(format!("its `{name}` is {}, not {}", shown(&other), shown(&own)))
    }
}

/// Fields that identify a map and its format.
#[derive(Deserialize)]
struct MapHead {
    kind: Option<Value>,
    format: Option<Value>,
    deadheat: Option<Value>,
}

/// Returns true if a file holds a map, complete or not, by its `kind`.
pub fn is_map(file: &Path) -> bool {
    let text = packed::read(file, LARGEST).ok();
    let head = text.and_then(|text| layout::read::<MapHead>(&text).ok());
    head.and_then(|head| head.kind).is_some_and(|kind| kind == "map")
}

/// Reads a map, as saved or compressed by gzip.
///
/// # Errors
/// [`Error::Setup`] if the file cannot be read, [`Error::Data`] if it is not a map in this format, with a
/// description of its content.
pub fn load(file: &Path) -> Result<Map> {
    let text = packed::read(file, LARGEST)?;
    parse(&text).map_err(|what| Error::data(file.display().to_string(), what))
}

/// Reads a map from its JSON.
///
/// # Errors
/// A sentence with the problem.
pub fn parse(text: &[u8]) -> Result<Map, String> {
    check_head(text)?;
    let map: Map = layout::read(text).map_err(|error| error.to_string())?;
    check_references(&map)?;
    Ok(map)
}

/// Checks that the text is JSON, a map, in this format.
fn check_head(text: &[u8]) -> Result<(), String> {
    let foreign = "this is JSON, but not a map saved by deadheat";
    let head: MapHead = save::head(text, foreign, ", as maps are saved whole")?;
    match (head.kind, head.format.as_ref().and_then(Value::as_u64), head.deadheat) {
        (Some(kind), Some(format), Some(_)) if kind == "map" => match format {
            format if format == u64::from(FORMAT) => Ok(()),
            newer if newer > u64::from(FORMAT) => Err(format!(
                "written by a newer deadheat, map format {newer}; this one reads {FORMAT}"
            )),
            other => Err(format!("map format {other} does not exist; this one reads {FORMAT}")),
        },
        (None, Some(_), Some(_)) => Err("this is a single race, and no map".to_owned()),
        _ => Err(foreign.to_owned()),
    }
}

/// Checks that points belong to the grid, in its order, and that ids refer to contenders, as readers of a map
/// expect.
fn check_references(map: &Map) -> Result<(), String> {
    let n = map.contenders.len();
    let ids = map.contenders.iter().map(|contender| contender.id);
    if !ids.eq(0..n) || map.asked.contenders.len() != n {
        return Err("its contenders are not those asked for, in their order".into());
    }
    let keys = &map.asked.over;
    let is_odd = |levels: usize| !(1..=MOST_LEVELS).contains(&levels);
    if keys.is_empty() || keys.iter().any(|key| is_odd(key.levels.len())) {
        return Err(format!("its grid has no keys, or not 1 to {MOST_LEVELS} levels of each"));
    }
    if let Some(shard) = map.shard.filter(|shard| !shard.exists()) {
        return Err(format!("there is no {shard}"));
    }
    let mut last = None;
    for (place, point) in map.points.iter().enumerate() {
        let Some(index) = map.index(point) else {
            return Err(format!("points[{place}] is none of the grid's"));
        };
        if last.is_some_and(|last| last >= index) {
            return Err(format!("points[{place}] is not in the order of the grid"));
        }
        last = Some(index);
        let own = point.leaders.iter().copied();
        let ids = own
            .chain(point.summary.iter().map(|summary| summary.contender))
            .chain(point.verdicts.iter().flat_map(|v| [v.a, v.b, v.ahead.unwrap_or(v.a)]))
            .chain(point.out.iter().map(|out| out.contender));
        if let Some(id) = ids.into_iter().find(|id| *id >= n) {
            return Err(format!("points[{place}] names contender {id}, and there are {n}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::point::PointAnswer;
    use super::*;
    use crate::testing::map;

    fn text(map: &Map) -> Vec<u8> {
        serde_json::to_vec(map).unwrap()
    }

    #[test]
    fn points_stand_in_the_order_of_the_grid_whenever_they_came() {
        let map = map();
        let names: Vec<String> = map.points.iter().map(|p| map.asked.name(&p.at)).collect();
        assert_eq!(names[0], "delay=1ms,loss=0%");
        assert_eq!(names[5], "delay=100ms,loss=5%");
        assert!((0..6).all(|index| map.point(index).unwrap().out[0].why == format!("at {index}")));
        assert!(map.missing().is_empty());
        let part = Map { shard: Shard::parse("2/4").ok(), points: Vec::new(), ..map };
        assert_eq!(part.missing(), [1, 5]);
        assert_eq!(part.point(1), None);
    }

    #[test]
    fn a_map_comes_back_as_it_was_and_others_are_told_apart() {
        let map = map();
        assert_eq!(parse(&text(&map)).unwrap(), map);
        assert!(parse(b"{}").unwrap_err().contains("not a map saved by deadheat"));
        let race = br#"{"format": 1, "deadheat": {"version": "0.1.0"}}"#;
        assert!(parse(race).unwrap_err().contains("a single race"));
        assert!(save::parse(&text(&map)).unwrap_err().contains("this is a map"));
        let newer = Map { format: 2, ..map };
        assert!(parse(&text(&newer)).unwrap_err().contains("newer deadheat, map format 2"));
        for (part, of) in [(0, 0), (0, 2), (3, 2), (1, u64::MAX)] {
            let odd = Map { format: 1, shard: Some(Shard { part, of }), ..newer.clone() };
            let shown = parse(&text(&odd)).unwrap_err();
            assert_eq!(shown, format!("there is no shard {part} of {of}"));
        }
    }

    #[test]
    fn every_truncation_is_refused_without_a_panic() {
        let text = text(&map());
        for end in 1..text.len() {
            assert!(parse(&text[..end]).unwrap_err().contains("ends in the middle"), "{end}");
        }
    }

    #[test]
    fn what_points_nowhere_is_refused() {
        let refused = |change: fn(&mut Map)| {
            let mut map = map();
            change(&mut map);
            parse(&text(&map)).unwrap_err()
        };
        assert!(refused(|map| map.points[2].at[0] = "7ms".into()).contains("points[2] is none"));
        assert!(refused(|map| map.points.swap(1, 2)).contains("points[2] is not in the order"));
        assert!(refused(|map| map.points[1] = map.points[0].clone()).contains("points[1]"));
        assert!(refused(|map| map.points[0].leaders.push(2)).contains("names contender 2"));
        assert!(refused(|map| map.contenders[0].id = 1).contains("not those asked for"));
        assert!(refused(|map| map.asked.over.clear()).contains("no keys"));
    }

    #[test]
    fn what_is_of_another_map_is_named() {
        let map = map();
        let part = Map { shard: Shard::parse("1/2").ok(), points: Vec::new(), ..map.clone() };
        assert_eq!(map.differs(&part), None);
        assert_eq!(map.differs(&Map { seed: 8, ..map.clone() }).unwrap(), "its `seed` is 8, not 7");
        let mut other = map.clone();
        other.asked.blocks = None;
        assert_eq!(map.differs(&other).unwrap(), "its `asked.blocks` is none, not 6");
        assert_eq!(map.points[0].outcome, PointAnswer::Failed);
    }
}
