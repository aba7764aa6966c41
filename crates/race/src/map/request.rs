//! Races of a map's points, and all checks that need no run.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Spec;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Metric;
use deadheat_path::PathSpec;
use deadheat_result::analysis::claims;
use deadheat_result::map::file::Map;
use deadheat_result::map::levels::MOST_LEVELS;
use deadheat_result::map::request::{GridPart, MOST_POINTS, MapRequest};
use deadheat_result::map::shard::Shard;
use deadheat_result::outcome::Entrant;

use crate::race::Request;
use crate::race::request::CheckedRequest;

/// Maximum number of contenders: each has a letter.
pub const MOST_CONTENDERS: usize = 26;

/// Default number of blocks at each point.
pub const DEFAULT_BLOCKS: u64 = 20;

/// Creates a map without points.
///
/// # Errors
/// As [`check`].
pub fn map(asked: MapRequest, seed: u64, shard: Option<Shard>) -> Result<Map> {
    let (entrants, metric) = check(&asked)?;
    Ok(Map::new(asked, entrants, metric, seed, shard))
}

/// Returns the request for the race at a point, with the contenders in `racing`.
pub fn request(asked: &MapRequest, seed: u64, at: &[String], racing: &[usize]) -> Request {
    let contenders = racing.iter().filter_map(|id| asked.contenders.get(*id).cloned());
    // A map defines its own comparison, which may include contenders that a kernel answers.
    Request::new(contenders)
        .workload(asked.workload(at))
        .path(asked.path(at))
        .margin(asked.margin)
        .confidence(asked.confidence)
        .claims_all()
        .seed(asked.seed(seed, at))
        .with(asked.blocks, Request::blocks)
        .with(asked.budget_ns.map(Nanos), Request::budget)
}

/// Checks every point, and returns the contenders and the metric of the map. Runs no race.
///
/// # Errors
/// [`Error::Usage`] with the problem, its place and a remedy.
pub fn check(asked: &MapRequest) -> Result<(Vec<Entrant>, Metric)> {
    check_grid(asked)?;
    check_path(asked)?;
    let racing: Vec<usize> = (0..asked.contenders.len()).collect();
    let mut first: Option<(CheckedRequest, Metric)> = None;
    for index in 0..asked.points() {
        let at = asked.at(index);
        // The path's own error message is complete.
        PathSpec::parse(&asked.path(&at))?;
        let request = request(asked, 0, &at, &racing);
        let checked = request.check().map_err(|error| match error {
            Error::Usage(what) => Error::usage(format!("at {}: {what}", asked.name(&at))),
            other => other,
        })?;
        check_reach(asked, &at, &request, &checked)?;
        let metric = claims::claimed(&checked.metrics).next().cloned();
        let metric = metric.ok_or_else(|| Error::usage("a workload that claims nothing"))?;
        match &first {
            Some((_, other)) if other.name != metric.name => {
                return Err(Error::usage(format!(
                    "a map is of one figure, and it would be {} at {} and {} at {}; make a map of each",
                    other.label,
                    asked.name(&asked.at(0)),
                    metric.label,
                    asked.name(&at)
                )));
            }
            Some(_) => {}
            None => first = Some((checked, metric)),
        }
    }
    let (checked, metric) = first.ok_or_else(|| Error::usage("a map without a point"))?;
    let misfit = |entrant: &Entrant| {
        entrant.not_applicable.as_ref().map(|why| {
            Error::usage(format!(
                "`{}` cannot carry `{}`: {why}; leave it out of the map",
                entrant.spec, asked.workload
            ))
        })
    };
    if let Some(error) = checked.entrants.iter().find_map(misfit) {
        return Err(error);
    }
    Ok((checked.entrants, metric))
}

/// Refuses a point that cannot have a verdict, or an interval, by the blocks or the time asked for.
fn check_reach(
    asked: &MapRequest,
    at: &[String],
    request: &Request,
    checked: &CheckedRequest,
) -> Result<()> {
    if let Some(why) = request.too_few_blocks(checked) {
        return Err(Error::usage(format!(
            "a point without a verdict says nothing, and {why}; raise --blocks, or race fewer contenders"
        )));
    }
    let fewest = claims::fewest_blocks(asked.confidence) as u64;
    if let Some(blocks) = asked.blocks.filter(|blocks| *blocks < fewest) {
        return Err(Error::usage(format!(
            "{blocks} blocks give a figure no interval; {fewest} are the fewest"
        )));
    }
    let Some(budget) = asked.budget_ns.filter(|_| !asked.is_simulated()) else { return Ok(()) };
    let claims = claims::claims(&checked.entrants, &checked.metrics);
    let blocks = fewest.max(claims::fewest_for(claims, asked.confidence));
    let mut works = checked.pairings.iter().flatten();
    let Some(trial) = works.find_map(|pairing| pairing.task.info().planned) else {
        return Ok(());
    };
    // One more than the contenders: the hidden copy of the first.
    let trials = blocks * (checked.entrants.len() as u64 + 1);
    let least = Nanos(trial.0.saturating_mul(trials));
    if least.0 <= budget {
        return Ok(());
    }
    Err(Error::usage(format!(
        "at {}: {} cannot decide: {blocks} blocks are the fewest, whose {trials} trials of {trial} take {least} and \
         their processes more; raise --budget, or shorten the trials in -w",
        asked.name(at),
        Nanos(budget)
    )))
}

fn check_grid(asked: &MapRequest) -> Result<()> {
    let refuse = |what: String| Err(Error::usage(what));
    match asked.contenders.len() {
        0 => return refuse("a map takes a contender or more, such as quic and kcp".into()),
        1..=MOST_CONTENDERS => {}
        n => return refuse(format!("{n} contenders; a map takes {MOST_CONTENDERS} at most")),
    }
    if asked.over.is_empty() {
        return refuse(
            "a map needs keys to go over, such as --over 'delay=1ms..300ms/12' --over 'loss=0..10%/10'"
                .into(),
        );
    }
    for (at, key) in asked.over.iter().enumerate() {
        let name = &key.name;
        if asked.over[..at].iter().any(|other| other.name == *name) {
            return refuse(format!("--over has `{name}` twice; give all its levels in one place"));
        }
        if !(1..=MOST_LEVELS).contains(&key.levels.len()) {
            return refuse(format!("`{name}` has {} levels", key.levels.len()));
        }
    }
    match asked.points() {
        n if n > MOST_POINTS => refuse(format!(
            "{n} points; a map has {MOST_POINTS} at most, so take fewer steps of each key"
        )),
        _ => Ok(()),
    }
}

fn check_path(asked: &MapRequest) -> Result<()> {
    check_work(asked)?;
    let (_, rest) = asked.split();
    if !asked.has_path_keys() {
        return Ok(());
    }
    if rest == "loopback" {
        return Err(Error::usage(
            "loopback has no keys to go over; leave --path out for an emulated path, or write sim:",
        ));
    }
    if rest.contains('+') {
        return Err(Error::usage(format!(
            "path `{}`: a map goes over the keys of one link, and it has several",
            asked.path
        )));
    }
    let given = |word: &str| word.split_once('=').map(|(key, _)| key.trim().to_owned());
    let is_over = |key: &String| {
        let mut paths = asked.over.iter().filter(|over| asked.part(&over.name) == GridPart::Path);
        paths.any(|over| over.name == *key)
    };
    let twice = rest.split(',').filter_map(given).find(is_over);
    match twice {
        Some(key) => Err(Error::usage(format!(
            "`{key}` is both in --path `{}` and in --over; leave it out of one",
            asked.path
        ))),
        None => Ok(()),
    }
}
/// Refuses a key of the workload that is in the grid twice, or in the workload too.
fn check_work(asked: &MapRequest) -> Result<()> {
    let typed = Spec::parse(&asked.workload)?;
    let mut seen: Vec<&str> = Vec::new();
    for key in &asked.over {
        let GridPart::Work(name) = asked.part(&key.name) else { continue };
        if typed.options.iter().any(|(own, _)| own == name) {
            return Err(Error::usage(format!(
                "`{name}` is both in -w `{}` and in --over; leave it out of one",
                asked.workload
            )));
        }
        if seen.contains(&name) {
            return Err(Error::usage(format!(
                "--over has `{name}` of the workload twice; give all its levels in one place"
            )));
        }
        seen.push(name);
    }
    Ok(())
}
#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_result::map::levels;
    use deadheat_result::outcome::Factor;
    use deadheat_result::testing::map_request as asked;

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
        let (contenders, metric) = check(&asked()).unwrap();
        assert_eq!(contenders.len(), 2);
        assert_eq!(metric.name, "age_mean_ns");
    }

    #[test]
    fn keys_of_the_work_and_its_load_are_axes() {
        let over = |typed: &[&str]| -> Vec<Factor> {
            typed.iter().map(|typed| levels::parse(typed).unwrap()).collect()
        };
        let mixed = MapRequest {
            workload: "state".into(),
            over: over(&["delay=1ms|5ms", "w.hz=20|50", "load=none|kcp"]),
            ..asked()
        };
        let at = mixed.at(7);
        assert_eq!(mixed.name(&at), "delay=5ms,w.hz=50,load=kcp");
        assert_eq!(mixed.path(&at), "sim:rate=20mbit,delay=5ms");
        assert_eq!(mixed.workload(&at), "state:hz=50,load=kcp");
        assert_eq!(mixed.corners(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(asked().corners(), [0, 1, 4, 5], "three delays, two losses");
        let work = MapRequest {
            path: String::new(),
            over: over(&["count=30|60"]),
            workload: "state".into(),
            ..asked()
        };
        assert_eq!(
            (work.path(&work.at(1)), work.workload(&work.at(1))),
            ("loopback".into(), "state:count=60".into())
        );
        let simulated = MapRequest { path: "sim:delay=5ms".into(), ..work };
        assert_eq!(simulated.path(&simulated.at(0)), "sim:delay=5ms");
        assert_eq!(check(&simulated).unwrap().0.len(), 2);
    }

    #[test]
    fn every_mistake_is_named() {
        fn say(change: impl FnOnce(&mut MapRequest)) -> String {
            let mut asked = asked();
            change(&mut asked);
            let error = check(&asked).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        }
        let over = |typed: &[&str]| -> Vec<Factor> {
            typed.iter().map(|typed| levels::parse(typed).unwrap()).collect()
        };
        assert!(say(|a| a.contenders.clear()).contains("a contender or more"));
        let few = say(|a| {
            a.contenders.truncate(1);
            a.blocks = Some(5);
        });
        assert!(few.contains("5 blocks give a figure no interval; 6 are the fewest"), "{few}");
        let twice = say(|a| a.over = over(&["count=10|20"]));
        assert!(twice.contains("`count` is both in -w"), "{twice}");
        let late = say(|a| {
            a.path = String::new();
            a.workload = "cbr:rate=1mbit,time=10s".into();
            (a.contenders, a.blocks) = (vec!["udp".into(), "tcp".into()], None);
            a.budget_ns = Some(Nanos::from_secs(60).0);
        });
        assert!(late.contains("at delay=1ms,loss=0%: 60.0 s cannot decide: 6 blocks"), "{late}");
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
