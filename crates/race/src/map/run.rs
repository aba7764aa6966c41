//! Runs the points of a map: each is a race of its own, several at the same time in virtual time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::SystemTime;

use super::request;
use crate::race::{Observer, RaceContext, RaceEvent, Request};
use deadheat_base::error::{Error, Result};
use deadheat_records::host::HostFacts;
use deadheat_result::map::file::{Map, load};
use deadheat_result::map::point::{FailedContender, MapPoint, PointAnswer};
use deadheat_result::map::request::MapRequest;
use deadheat_result::outcome::{Outcome, Status};
use deadheat_stats::Outcome as Ruled;
use deadheat_trial::control::remote::{Credentials, ServerWait};
use deadheat_trial::lead::agents::Agents;

/// Continues the map in a file: returns `map` with the points of the file, under the file's seed if `seed` is not
/// given.
///
/// # Errors
/// [`Error::Usage`] if the file is of another map, with the difference; as [`load`].
pub fn resume(mut map: Map, seed: Option<u64>, file: &Path) -> Result<Map> {
    let before = load(file)?;
    map.seed = seed.unwrap_or(before.seed);
    let name = file.display();
    if let Some(why) = map.differs(&before) {
        return Err(Error::usage(format!("{name} is of another map than asked for: {why}")));
    }
    if map.shard != before.shard {
        let shard_name =
            |map: &Map| map.shard.map_or("the whole map".to_owned(), |shard| shard.to_string());
        let (there, asked) = (shard_name(&before), shard_name(&map));
        return Err(Error::usage(format!("{name} is {there}, and asked for is {asked}")));
    }
    Ok(before)
}

/// Runs the missing points of a map, `jobs` at a time, and calls `each` with the map after each of them. Points end
/// in any order; their positions and results do not depend on it.
///
/// # Errors
/// [`Error::Interrupted`] once `stop` is set; an error before any trial ran, such as a host that cannot emulate the
/// path; an error of `each`. The completed points are in `map`.
pub fn run(
    map: &mut Map,
    jobs: usize,
    stop: &Arc<AtomicBool>,
    each: &mut dyn FnMut(&Map) -> Result<()>,
) -> Result<()> {
    let corners = map.asked.corners();
    let todo = in_order(map, &corners);
    let (next, halted) = (AtomicUsize::new(0), AtomicBool::new(false));
    // A map that goes on was told already.
    let watches_corners = map.points.is_empty() && map.shard.is_none();
    let (asked, seed) = (map.asked.clone(), map.seed);
    let (send, received) = mpsc::channel();
    let work = |send: &mpsc::Sender<Result<RacedPoint>>| {
        while let Some(index) = todo.get(next.fetch_add(1, Ordering::Relaxed))
            && !halted.load(Ordering::Relaxed)
            && send.send(point(&asked, seed, asked.at(*index), stop)).is_ok()
        {}
    };
    thread::scope(|scope| {
        for _ in 0..jobs.min(todo.len()) {
            let (send, work) = (send.clone(), &work);
            scope.spawn(move || work(&send));
        }
        drop(send);
        let mut ended = Ok(());
        for ran in received {
            let added = ran.and_then(|(point, host)| {
                map.add(point);
                host.iter().for_each(|host| map.add_host(host));
                each(map)?;
                if watches_corners { check_corners(map, &corners) } else { Ok(()) }
            });
            halted.fetch_or(added.is_err(), Ordering::Relaxed);
            ended = ended.and(added);
        }
        ended
    })
}

/// Returns the missing points, the corners of the grid first: they tell whether the grid can decide at all.
fn in_order(map: &Map, corners: &[usize]) -> Vec<usize> {
    let (mut first, rest): (Vec<usize>, Vec<usize>) =
        map.missing().into_iter().partition(|index| corners.contains(index));
    first.extend(rest);
    first
}

/// Refuses to go on with a grid that decides nothing at any of its corners, which have as many blocks and as long trials
/// as the other points: with what would decide.
fn check_corners(map: &Map, corners: &[usize]) -> Result<()> {
    let points: Vec<&MapPoint> = corners.iter().filter_map(|index| map.point(*index)).collect();
    let is_open = |point: &&MapPoint| point.outcome == PointAnswer::Undecided && point.trusted;
    if points.len() < corners.len() || !points.iter().all(is_open) {
        return Ok(());
    }
    let left = map.missing().len();
    if left == 0 {
        return Ok(());
    }
    let wanted = points.iter().filter_map(|point| {
        let open = point.verdicts.iter().filter(|verdict| verdict.outcome == Ruled::Undecided);
        let more = open.filter_map(|verdict| verdict.more_blocks).max()?;
        Some((point.blocks.saturating_add(more), point))
    });
    let what = match wanted.min_by_key(|(blocks, _)| *blocks) {
        Some((blocks, point)) => format!(
            "about {blocks} blocks would at {}; raise --blocks (or --budget)",
            map.asked.name(&point.at)
        ),
        None => {
            "more blocks would hardly do; make trials longer (-w), or the margin wider (--margin)"
                .to_owned()
        }
    };
    Err(Error::usage(format!(
        "this grid decides nothing at any of its {} corners, with {} blocks: {what}. --resume goes on with the other {left} \
         points regardless",
        corners.len(),
        points.iter().map(|point| point.blocks).max().unwrap_or(0)
    )))
}

/// A point, and the host that ran it in real time.
type RacedPoint = (MapPoint, Option<HostFacts>);

/// Runs the race at a point. If a contender fails there, the others race again without it.
fn point(
    asked: &MapRequest,
    seed: u64,
    at: Vec<String>,
    stop: &Arc<AtomicBool>,
) -> Result<RacedPoint> {
    let mut racing: Vec<usize> = (0..asked.contenders.len()).collect();
    let mut out = Vec::new();
    while !racing.is_empty() {
        let mut watch = TrialWatch::default();
        let (failed, why) =
            match race(&request::request(asked, seed, &at, &racing), stop, &mut watch) {
                Ok(outcome) if outcome.status == Status::Interrupted => {
                    return Err(Error::Interrupted);
                }
                Ok(outcome) => match outcome.why_failed() {
                    None => {
                        let host = (!asked.is_simulated()).then(|| outcome.host.clone());
                        return Ok((MapPoint::of(at, &racing, out, &outcome), host));
                    }
                    Some(why) => (watch.running(), why.to_owned()),
                },
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // A time that is too short for a verdict is not a contender's fault.
                Err(Error::Usage(what)) => {
                    return Err(Error::usage(format!("at {}: {what}", asked.name(&at))));
                }
                Err(error) => match watch.running() {
                    Some(failed) => (Some(failed), error.to_string()),
                    None => return Err(error),
                },
            };
        // Only a racing contender can have failed; removing one in each round guarantees an end.
        let failed = failed.filter(|own| *own < racing.len()).unwrap_or(0);
        out.push(FailedContender {
            contender: racing.remove(failed),
            why: format!("failed: {why}"),
        });
    }
    let seed = asked.seed(seed, &at);
    Ok((MapPoint::failed(at, seed, out), None))
}

fn race(request: &Request, stop: &Arc<AtomicBool>, watch: &mut TrialWatch) -> Result<Outcome> {
    if let Some(simulation) = request.simulation()? {
        let clock = simulation.clock();
        let mut simulation = simulation.stop_on(Arc::clone(stop));
        let context = RaceContext::new(&mut simulation, watch).at(&clock, SystemTime::UNIX_EPOCH);
        return request.run_with(context.stop(Arc::clone(stop)));
    }
    let credentials = Credentials::from_environment()?;
    let far = request.far(&credentials, &mut ServerWait { stop, on_full: &mut |_| {} })?;
    let mut agents = Agents::new(far).stop_on(Arc::clone(stop));
    request.run_with(RaceContext::new(&mut agents, watch).stop(Arc::clone(stop)))
}

/// Observer that records the contender of the running trial, which failed if an error follows.
#[derive(Debug, Default)]
struct TrialWatch {
    /// Number of contenders with trials before the first block.
    piloted: usize,
    /// Contender of the last trial of a block.
    in_block: Option<usize>,
}

impl TrialWatch {
    /// Returns the contender of the last trial that began, as its position in the race.
    fn running(&self) -> Option<usize> {
        self.in_block.or(self.piloted.checked_sub(1))
    }
}

impl Observer for TrialWatch {
    fn on(&mut self, event: RaceEvent<'_>) {
        match event {
            RaceEvent::Pilot { trial: 1, .. } => self.piloted += 1,
            RaceEvent::TrialStarted(place) => self.in_block = Some(place.contender),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge::merge;
    use super::*;
    use deadheat_base::time::Nanos;
    use deadheat_result::map::shard::Shard;
    use deadheat_result::save::save;
    use deadheat_result::testing::map_request as asked;

    fn ran(asked: MapRequest, shard: Option<&str>, jobs: usize) -> Map {
        let shard = shard.map(|typed| Shard::parse(typed).unwrap());
        let mut map = request::map(asked, 7, shard).unwrap();
        run(&mut map, jobs, &Arc::default(), &mut |_| Ok(())).unwrap();
        assert!(map.missing().is_empty());
        map
    }

    fn text(map: &Map) -> String {
        deadheat_result::layout::text(map).unwrap()
    }

    #[test]
    fn shards_and_jobs_make_the_same_bytes_as_one_run() {
        let whole = ran(asked(), None, 1);
        assert!(whole.points.iter().any(|point| point.outcome == PointAnswer::Ahead));
        assert!(whole.points.iter().all(|point| point.summary.len() == 2));
        assert_eq!(text(&whole), text(&ran(asked(), None, 4)));
        let parts = ["1/2", "2/2"].map(|shard| (shard.to_owned(), ran(asked(), Some(shard), 2)));
        assert_eq!(text(&whole), text(&merge(parts.into()).unwrap()));
    }

    #[test]
    fn a_map_that_was_broken_off_goes_on_to_the_same_bytes() {
        let whole = ran(asked(), None, 1);
        let stop = Arc::new(AtomicBool::new(false));
        let mut map = request::map(asked(), 7, None).unwrap();
        let ended = run(&mut map, 1, &stop, &mut |map| {
            stop.store(map.points.len() == 2, Ordering::Relaxed);
            Ok(())
        });
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        assert_eq!(map.points.len(), 2);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("map.json");
        save(&map, &file).unwrap();
        let again = |asked, shard| request::map(asked, 99, shard).unwrap();
        let mut went_on = resume(again(asked(), None), None, &file).unwrap();
        run(&mut went_on, 2, &Arc::default(), &mut |_| Ok(())).unwrap();
        assert_eq!(text(&went_on), text(&whole));
        let say = |map, seed| resume(map, seed, &file).unwrap_err().to_string();
        assert!(say(again(asked(), None), Some(8)).contains("its `seed` is 7, not 8"));
        let other = MapRequest { blocks: Some(9), ..asked() };
        assert!(say(again(other, None), None).contains("its `asked.blocks` is 6, not 9"));
        let shard = Shard::parse("1/2").ok();
        assert!(
            say(again(asked(), shard), None).contains("is the whole map, and asked for is shard")
        );
    }

    #[test]
    fn a_contender_that_fails_is_out_there_and_the_map_goes_on() {
        // Nine packets of ten are lost: with some seed of six, every contender that opens a connection fails.
        let over = ["loss=0%|90%"].map(|typed| deadheat_result::map::levels::parse(typed).unwrap());
        let contenders = vec!["quic".into(), "sim-datagram".into()];
        let map = ran(MapRequest { contenders, over: over.into(), ..asked() }, None, 2);
        let [calm, lossy] = &map.points[..] else { panic!("two points") };
        assert!(calm.out.is_empty(), "{calm:?}");
        assert_eq!(lossy.out[0].contender, 0, "{lossy:?}");
        assert!(lossy.out[0].why.starts_with("failed: "), "{lossy:?}");
        assert_eq!((lossy.outcome, lossy.leaders.as_slice()), (PointAnswer::Alone, &[1][..]));
    }

    #[test]
    fn a_time_without_room_for_a_verdict_ends_the_map_and_says_what_has_room() {
        let within = |seconds| {
            let budget_ns = Some(Nanos::from_secs(seconds).0);
            let asked = MapRequest { blocks: None, budget_ns, ..asked() };
            let mut map = request::map(asked, 7, None).unwrap();
            run(&mut map, 2, &Arc::default(), &mut |_| Ok(())).map(|()| map)
        };
        let shard_name = within(3).unwrap_err().to_string();
        assert!(shard_name.starts_with("at delay="), "{shard_name}");
        assert!(shard_name.contains("at least 6 blocks"), "{shard_name}");
        let map = within(600).unwrap();
        assert!(map.points.iter().all(|point| point.blocks >= 6 && point.out.is_empty()));
    }

    #[test]
    fn a_grid_that_decides_at_no_corner_stops_and_says_what_would() {
        let mut map = deadheat_result::testing::map();
        // The corners of three delays and two losses.
        let corners = map.asked.corners();
        map.points = corners.iter().filter_map(|index| map.point(*index)).cloned().collect();
        assert!(check_corners(&map, &corners).is_ok(), "points that failed say something");
        for point in &mut map.points {
            (point.outcome, point.blocks) = (PointAnswer::Undecided, 6);
        }
        let said = check_corners(&map, &corners).unwrap_err().to_string();
        assert!(said.contains("decides nothing at any of its 4 corners, with 6 blocks"), "{said}");
        assert!(said.contains("make trials longer"), "{said}");
        assert!(said.contains("--resume goes on with the other 2 points"), "{said}");
        let mut one = map.clone();
        one.points[3].outcome = PointAnswer::DeadHeat;
        assert!(check_corners(&one, &corners).is_ok());
        map.points.truncate(3);
        assert!(check_corners(&map, &corners).is_ok(), "not all corners are there yet");
        assert_eq!(in_order(&Map { points: Vec::new(), ..map }, &corners), [0, 1, 4, 5, 2, 3]);
    }

    #[test]
    fn a_load_and_the_work_are_axes_and_one_contender_is_described() {
        let over = ["load=none|kcp", "w.hz=20|50"];
        let over =
            over.iter().map(|typed| deadheat_result::map::levels::parse(typed).unwrap()).collect();
        let work = MapRequest {
            contenders: vec!["arq".into()],
            workload: "state:count=30,direction=up".into(),
            path: "sim:rate=1mbit,delay=5ms,queue=20kB".into(),
            over,
            ..asked()
        };
        let map = ran(work, None, 2);
        let age = |at: [&str; 2]| {
            let point = map.points.iter().find(|point| point.at == at).unwrap();
            assert_eq!((point.outcome, point.out.len()), (PointAnswer::Figure, 0));
            point.summary[0].estimate
        };
        assert!(age(["kcp", "20"]) > 1.5 * age(["none", "20"]), "a load fills the queue");
        assert!(age(["none", "50"]) < age(["none", "20"]), "more updates are newer");
    }

    #[test]
    fn an_error_before_any_trial_ends_the_map() {
        let mut map = request::map(asked(), 7, None).unwrap();
        map.asked.workload = "no such".into();
        let ended = run(&mut map, 2, &Arc::default(), &mut |_| Ok(()));
        assert!(matches!(ended, Err(Error::Usage(_))), "{ended:?}");
        let full =
            run(&mut request::map(asked(), 7, None).unwrap(), 2, &Arc::default(), &mut |_| {
                Err(Error::peer("disk", "full"))
            });
        assert!(full.unwrap_err().to_string().contains("full"));
    }
}
