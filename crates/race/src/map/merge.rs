//! Joins parts of a map to the map that a single run would have written. Pure.

use std::collections::BTreeMap;

use deadheat_base::error::{Error, Result};
use deadheat_base::figures::list;
use deadheat_result::map::file::Map;
use deadheat_result::map::point::MapPoint;

/// Maximum number of points named in an error.
const MOST_NAMED: usize = 3;

/// Joins parts, each with the name of its file.
///
/// # Errors
/// [`Error::Usage`] if a part or one of its points belongs to another map, if two have the same point, or if points
/// are missing; with the files, points and shards.
pub fn merge(parts: Vec<(String, Map)>) -> Result<Map> {
    let Some((first, whole)) = parts.first() else {
        return Err(Error::usage("no map to merge"));
    };
    let mut whole = Map { shard: None, points: Vec::new(), hosts: Vec::new(), ..whole.clone() };
    for (name, part) in &parts {
        if let Some(why) = whole.differs(part) {
            return Err(Error::usage(format!("{name} is of another map than {first}: {why}")));
        }
        let is_foreign = |point: &&MapPoint| point.seed != whole.asked.seed(whole.seed, &point.at);
        if let Some(point) = part.points.iter().find(is_foreign) {
            return Err(Error::usage(format!(
                "{name} has {} of another map: its seed there is {}, and this map's is {}",
                whole.asked.name(&point.at),
                point.seed,
                whole.asked.seed(whole.seed, &point.at)
            )));
        }
    }
    check_apart(&whole, &parts)?;
    for (_, part) in &parts {
        part.hosts.iter().for_each(|host| whole.add_host(host));
        part.points.iter().for_each(|point| whole.add(point.clone()));
    }
    match whole.missing() {
        none if none.is_empty() => Ok(whole),
        missing => Err(incomplete(&whole, &missing, &parts)),
    }
}

/// Checks that no two parts have a point in common.
fn check_apart(whole: &Map, parts: &[(String, Map)]) -> Result<()> {
    let mut owners: BTreeMap<usize, &(String, Map)> = BTreeMap::new();
    for owner in parts {
        let (name, part) = owner;
        let indices = || part.points.iter().filter_map(|point| whole.index(point));
        let mut owned = indices().filter_map(|index| owners.get(&index));
        if let Some((other, _)) = owned.next() {
            if other == name {
                return Err(Error::usage(format!("{name} is given twice; give each part once")));
            }
            let is_other = |owner: &&(String, Map)| owner.0 == *other;
            let both = indices().filter(|index| owners.get(index).is_some_and(is_other));
            let shards = parts.iter().filter(|(file, _)| file == other || file == name);
            let shards: Vec<String> = shards.map(titled).collect();
            return Err(Error::usage(format!(
                "{} both have {}; give each point once",
                list(&shards),
                named(whole, &both.collect::<Vec<_>>())
            )));
        }
        owners.extend(indices().map(|index| (index, owner)));
    }
    Ok(())
}

/// Returns the name of a part's file, with its shard if any.
fn titled((name, part): &(String, Map)) -> String {
    part.shard.map_or_else(|| name.clone(), |shard| format!("{name} ({shard})"))
}

/// Returns the error about points that no part has, with the shards that contain them.
fn incomplete(whole: &Map, missing: &[usize], parts: &[(String, Map)]) -> Error {
    let mut why = Vec::new();
    let shards = parts.iter().filter_map(|(name, part)| Some((name, part.shard?)));
    for (name, shard) in shards {
        let left: Vec<usize> = missing.iter().copied().filter(|i| shard.has(*i)).collect();
        if !left.is_empty() {
            why.push(format!(
                "{name}, {shard}, lacks {}: --resume goes on with it",
                named(whole, &left)
            ));
        }
    }
    if let Some(of) = parts.iter().find_map(|(_, part)| Some(part.shard?.of)) {
        let there = |number: &u64| {
            let mut shards = parts.iter().filter_map(|(_, part)| part.shard);
            shards.any(|shard| shard.of == of && shard.part == *number)
        };
        let absent: Vec<String> =
            (1..=of).filter(|part| !there(part)).map(|part| part.to_string()).collect();
        if !absent.is_empty() {
            why.push(format!("of {of} shards no file is {}", absent.join(", ")));
        }
    }
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    Error::usage(format!("the map is not whole: {} missing{why}", named(whole, missing)))
}

/// Lists the first of some points, and their number.
fn named(map: &Map, points: &[usize]) -> String {
    let first = points.iter().take(MOST_NAMED).map(|index| map.asked.name(&map.asked.at(*index)));
    let first = list(&first.collect::<Vec<_>>());
    match points.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more points"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_result::map::shard::Shard;
    use deadheat_result::testing::map;

    /// Returns shard `typed` of a map, under its name.
    fn part(typed: &str) -> (String, Map) {
        let (whole, shard) = (map(), Shard::parse(typed).unwrap());
        let own = (0..6).filter(|index| shard.has(*index));
        let points = own.map(|index| whole.point(index).unwrap().clone()).collect();
        (typed.to_owned(), Map { shard: Some(shard), points, ..whole })
    }

    fn say(parts: Vec<(String, Map)>) -> String {
        let error = merge(parts).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn shards_in_any_order_are_the_map_of_one_run() {
        for parts in [["1/3", "2/3", "3/3"], ["3/3", "1/3", "2/3"]] {
            assert_eq!(merge(parts.map(part).into()).unwrap(), map());
        }
        // Shards of different numbers, as long as each point is there once.
        assert_eq!(merge(["1/2", "2/4", "4/4"].map(part).into()).unwrap(), map());
        assert_eq!(merge(vec![("all".into(), map())]).unwrap(), map());
    }

    #[test]
    fn what_is_there_twice_is_named() {
        let said = say(["1/2", "2/2", "3/3"].map(part).into());
        let both = "1/2 (shard 1 of 2) and 3/3 (shard 3 of 3) both have delay=10ms,loss=0%;";
        assert!(said.starts_with(both), "{said}");
        let said = say(vec![("a".into(), map()), ("b".into(), map())]);
        assert!(said.starts_with("a and b both have "), "{said}");
        assert!(said.contains("loss=5% and delay=10ms,loss=0% and 3 more points"), "{said}");
        let said = say(["1/2", "2/2", "1/2"].map(part).into());
        assert_eq!(said, "1/2 is given twice; give each part once");
    }

    #[test]
    fn what_is_missing_is_named_with_its_shard() {
        let said = say(["1/3", "3/3"].map(part).into());
        assert!(said.contains("delay=1ms,loss=5% and delay=100ms,loss=0% missing"), "{said}");
        assert!(said.contains("of 3 shards no file is 2"), "{said}");
        let mut parts = ["1/2", "2/2"].map(part);
        parts[1].1.points.pop();
        let said = say(parts.into());
        assert!(said.contains("2/2, shard 2 of 2, lacks delay=100ms,loss=5%"), "{said}");
        let mut unfinished = map();
        unfinished.points.truncate(2);
        assert!(say(vec![("a".into(), unfinished)]).contains("and 1 more points missing"));
    }

    #[test]
    fn what_is_of_another_map_is_refused_with_the_difference() {
        let mut parts = ["1/2", "2/2"].map(part);
        parts[1].1.seed = 8;
        assert_eq!(say(parts.into()), "2/2 is of another map than 1/2: its `seed` is 8, not 7");
        assert!(say(Vec::new()).contains("no map"));
        let mut parts = ["1/2", "2/2"].map(part);
        parts[1].1.points[0].seed += 1;
        let said = say(parts.into());
        assert!(said.starts_with("2/2 has delay=1ms,loss=5% of another map: its seed"), "{said}");
    }

    #[test]
    fn hosts_are_joined_without_a_word_on_who_came_first() {
        let mut parts = ["1/2", "2/2"].map(part);
        for (host, (_, part)) in ["b", "a"].into_iter().zip(&mut parts) {
            let facts =
                deadheat_records::host::HostFacts { hostname: host.into(), ..Default::default() };
            part.add_host(&facts);
            part.add_host(&facts);
        }
        let merged = |parts: [(String, Map); 2]| merge(parts.into()).unwrap();
        let [a, b] = parts.clone();
        let hosts = merged([b, a]);
        assert_eq!(hosts.hosts.len(), 2);
        assert_eq!(hosts, merged(parts));
    }
}
