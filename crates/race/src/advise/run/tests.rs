use std::cell::RefCell;

use super::super::app;
use super::*;
use crate::race::testing;
use deadheat_base::time::Manual;
use deadheat_path::PathSpec;
use deadheat_result::advise::axis::Axis;
use deadheat_result::advise::outcome::Purpose;
use deadheat_result::advise::search::SearchFinding;

const PATH: &str = "delay=25ms,loss=1%,rate=20mbit";

const DUEL: &str = r#"
format = 1
title = "A game"
contenders = ["tcp", "udp"]
[[traffic]]
name = "world"
kind = "state"
per-second = 60
stale-after = "200ms"
"#;

/// Time for whole trials.
const HOURS: Nanos = Nanos::from_secs(36_000);

/// Runs advice on fake races in a fresh directory; `level` gives the figure of a contender on a path. Each race
/// takes `each` of the time.
fn advise(text: &str, each: Nanos, level: impl Fn(&str, &PathSpec) -> f64) -> Result<Advice> {
    with(text, each, |job| {
        let path = PathSpec::parse(&job.request.asked().path).unwrap();
        testing::run(&job.request, testing::noisy(1, 0.01, |contender| level(contender, &path)))
    })
}

fn with(text: &str, each: Nanos, race: impl Fn(&AdviceJob) -> Result<Outcome>) -> Result<Advice> {
    within(text, HOURS, each, race)
}

fn within(
    text: &str,
    budget: Nanos,
    each: Nanos,
    race: impl Fn(&AdviceJob) -> Result<Outcome>,
) -> Result<Advice> {
    let dir = tempfile::tempdir().unwrap();
    let app = app::parse(text, "game.toml").unwrap();
    let clock = Manual::default();
    let task = AdviceTask {
        name: "game",
        app: &app,
        path: PATH,
        usual: &["tcp", "quic", "kcp", "enet"],
        budget,
        virtual_blocks: 20,
        seed: Some(1),
        dir: &dir.path().join("out"),
        started: testing::day(),
    };
    run(&task, &clock, &mut |job| {
        clock.advance_to(clock.now() + each);
        race(&job)
    })
}

fn loss(path: &PathSpec) -> f64 {
    Axis::Loss.of(path).unwrap()
}

fn found(advice: &Advice, axis: Axis, end: f64) -> SearchFinding {
    let is_it =
        |one: &&deadheat_result::advise::outcome::Crossover| one.axis == axis && one.end == end;
    advice.crossovers.iter().find(is_it).expect("searched").found
}

#[test]
fn a_known_crossover_is_found_between_two_verdicts() {
    let level = |contender: &str, path: &PathSpec| match (contender, loss(path) > 0.035) {
        ("tcp", false) | ("udp", true) => 50e6,
        _ => 60e6,
    };
    let advice = advise(DUEL, Nanos::ZERO, level).unwrap();
    let places: Vec<(&str, usize)> =
        advice.places.iter().map(|placed| (placed.contender.as_str(), placed.place)).collect();
    assert_eq!(places, [("tcp", 1), ("udp", 2)]);
    let SearchFinding::Between { from, to, lead } = found(&advice, Axis::Loss, 0.1) else {
        panic!("{:?}", advice.crossovers)
    };
    assert!(from <= 0.035 && to > 0.035 && to / from < 1.3 && lead == Lead::Second, "{from} {to}");
    for (axis, end) in
        [(Axis::Loss, 0.0), (Axis::Delay, 1e6), (Axis::Delay, 160e6), (Axis::Rate, 200e6)]
    {
        assert_eq!(found(&advice, axis, end), SearchFinding::Unchanged, "{axis:?} {end}");
    }
    // Every sentence has the file of its race.
    let figure = advice.places[0].figure.as_ref().unwrap();
    assert_eq!((figure.file.as_str(), figure.limit_ns), ("world.json", Some(200_000_000)));
    assert_eq!(advice.places[1].against.as_ref().unwrap().file, "world.json");
    let mut steps = advice.crossovers.iter().flat_map(|one| &one.steps);
    assert!(steps.all(|step| step.file.starts_with("world-") && step.file.ends_with(".json")));
    assert!(advice.notes.is_empty() && advice.not_searched.is_empty(), "{advice:?}");
}

#[test]
fn a_dead_heat_shares_its_place_and_stays_one() {
    let advice = advise(DUEL, Nanos::ZERO, |_, _| 50e6).unwrap();
    assert_eq!(advice.places.iter().map(|placed| placed.place).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(advice.places[1].against.as_ref().unwrap().lead, Lead::Tie);
    assert_eq!(found(&advice, Axis::Loss, 0.1), SearchFinding::Unchanged);
}

/// Returns the level of a contender by its transport's name; some have a window after it.
fn by_name(levels: &'static [(&'static str, f64)]) -> impl Fn(&str) -> f64 {
    move |contender| {
        let name = contender.split(':').next().unwrap_or_default();
        let found = levels.iter().find(|(one, _)| *one == contender || *one == name);
        found.map_or(70e6, |(_, level)| *level)
    }
}

#[test]
fn what_there_is_no_time_for_is_said() {
    let two = format!("{DUEL}\n[[traffic]]\nname = \"shots\"\nkind = \"state\"\nper-second = 5\n");
    let (budget, each) = (Nanos::from_secs(1_200), Nanos::from_secs(1_190));
    let level = by_name(&[("tcp", 50e6), ("udp", 60e6)]);
    let race = |job: &AdviceJob| testing::run(&job.request, testing::noisy(1, 0.01, &level));
    let advice = within(&two, budget, each, race).unwrap();
    assert_eq!(advice.races.len(), 1, "{:?}", advice.races);
    assert!(advice.notes[0].starts_with("`shots` was not raced on the path: "), "{advice:?}");
    assert!(advice.crossovers.is_empty());
    assert!(advice.not_searched.iter().all(|why| why.ends_with("no time left")), "{advice:?}");
    assert_eq!(advice.places.len(), 2, "what was raced counts");
}

#[test]
fn a_mean_is_no_verdict_on_a_percentile() {
    let level = by_name(&[("tcp", 50e6), ("udp", 60e6)]);
    let race = |job: &AdviceJob| {
        assert!(job.request.asked().workload.contains("claim=mean"), "{:?}", job.request.asked());
        testing::run(&job.request, testing::noisy(1, 0.01, &level))
    };
    let advice = within(DUEL, DEFAULT_BUDGET, Nanos::from_secs(50), race).unwrap();
    assert_eq!(advice.races[0].purpose, Purpose::Confirmation);
    assert!(advice.places.is_empty(), "{:?}", advice.places);
    assert_eq!(advice.confirmed[0].lead, Lead::First);
    let said = advice.notes.join("\n");
    assert!(said.contains("age p99 of tcp in `world` is not known"), "{said}");
    assert!(said.contains("without a place: tcp, udp"), "{said}");
}

#[test]
fn all_that_runs_in_virtual_time_is_screened_and_the_leader_meets_the_kernels() {
    let text = DUEL.replace("contenders = [\"tcp\", \"udp\"]\n", "");
    let level = by_name(&[("kcp", 40e6), ("tcp", 50e6), ("quic", 60e6)]);
    let advice = advise(&text, Nanos::ZERO, |contender, _| level(contender)).unwrap();
    let [screening, comparison, ..] = &advice.races[..] else { panic!("{:?}", advice.races) };
    assert_eq!((screening.purpose, screening.is_virtual), (Purpose::Screening, true));
    let screened = [
        "quic",
        "quic:lane=unordered",
        "quic:lane=best-effort",
        "kcp",
        "enet",
        "enet:lane=best-effort",
    ];
    assert_eq!(screening.contenders, screened);
    assert_eq!((comparison.purpose, comparison.is_virtual), (Purpose::Comparison, false));
    assert_eq!(comparison.contenders, ["kcp", "tcp"]);
    let places: Vec<(&str, usize)> = (advice.places.iter())
        .map(|placed| (placed.contender.split(':').next().unwrap(), placed.place))
        .collect();
    // There are no verdicts on tcp and quic, except that both are behind kcp.
    let quic = ("quic", 2);
    let expected = [("kcp", 1), ("tcp", 2), quic, quic, quic, ("enet", 6), ("enet", 6)];
    assert_eq!(places, expected);
    let behind = |at: usize| advice.places[at].against.as_ref().unwrap();
    assert_eq!((behind(1).is_virtual, behind(2).is_virtual), (false, true));
    assert!(advice.crossovers.iter().all(|one| (&*one.first, &*one.second) == ("kcp", "tcp")));
}

#[test]
fn a_lane_that_may_lose_is_ahead_of_the_reliable_one_beside_it() {
    let text = DUEL.replace("contenders = [\"tcp\", \"udp\"]\n", "");
    let level = |contender: &str, _: &PathSpec| {
        if contender.contains("best-effort") { 47e6 } else { 110e6 }
    };
    let advice = advise(&text, Nanos::ZERO, level).unwrap();
    let mut first: Vec<&str> = (advice.places.iter().filter(|placed| placed.place == 1))
        .map(|placed| placed.contender.as_str())
        .collect();
    first.sort_unstable();
    assert_eq!(first, ["enet:lane=best-effort", "quic:lane=best-effort"]);
}

#[test]
fn two_connections_share_the_place_of_what_carries_the_first_traffic() {
    let text = format!(
        "{}{}",
        DUEL.replace("\"tcp\", \"udp\"", "\"tcp\", \"kcp\", \"udp\""),
        "\n[[traffic]]\nname = \"shots\"\nkind = \"events\"\nper-second = 60\n"
    );
    let level = by_name(&[("sim-datagram", 47e6), ("udp", 47e6), ("kcp", 90e6), ("tcp", 110e6)]);
    let advice = advise(&text, Nanos::ZERO, |contender, _| level(contender)).unwrap();
    let told: Vec<(&str, usize)> =
        advice.places.iter().map(|placed| (placed.contender.as_str(), placed.place)).collect();
    let first = ["udp + kcp for shots", "udp + tcp for shots"];
    assert!(first.contains(&told[0].0) && told[0].1 == 1, "{told:?}");
    assert_eq!(advice.places[0].carries[0], "udp");
    let kcp = told.iter().find(|(name, _)| *name == "kcp").unwrap();
    assert!(kcp.1 > 1, "{told:?}");
}

#[test]
fn whom_no_verdict_sets_beside_the_first_has_the_one_that_sets_it_back() {
    let text = DUEL.replace("\"tcp\", \"udp\"", "\"tcp\", \"kcp\", \"arq\"");
    let level = by_name(&[("tcp", 30e6), ("kcp", 40e6), ("arq", 60e6)]);
    let advice = advise(&text, Nanos::ZERO, |contender, _| level(contender)).unwrap();
    let told: Vec<(&str, usize, Option<&str>)> = advice
        .places
        .iter()
        .map(|one| (&*one.contender, one.place, one.against.as_ref().map(|by| &*by.first)))
        .collect();
    // There is no verdict on tcp and arq, so arq is behind kcp alone.
    assert_eq!(told[0], ("tcp", 1, None));
    assert!(told.contains(&("kcp", 2, Some("tcp"))), "{told:?}");
    assert!(told.iter().any(|(name, ..)| *name == "arq"), "{told:?}");
}

#[test]
fn the_time_is_said_beforehand() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/action-game.toml");
    let app = app::parse(&fs::read_to_string(file).unwrap(), file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &str| {
        let task = AdviceTask {
            name: "game",
            app: &app,
            path,
            usual: &["tcp", "enet", "kcp"],
            budget: DEFAULT_BUDGET,
            virtual_blocks: VIRTUAL_BLOCKS,
            seed: None,
            dir: dir.path(),
            started: testing::day(),
        };
        beforehand(&task).unwrap()
    };
    assert!(said("delay=25ms,loss=0.5%").starts_with("at most 2 min: about "));
    assert!(said("sim:delay=25ms,loss=0.5%").contains("everything in virtual time"));
    assert_eq!(said("loopback"), "at most 2 min, all of it on the path");
}

#[test]
fn a_race_that_is_not_trusted_gives_no_place() {
    let advice = with(DUEL, Nanos::ZERO, |job| {
        let level = |contender: &str| if contender == "tcp" { 50e6 } else { 60e6 };
        let mut outcome = testing::run(&job.request, testing::noisy(1, 0.01, level))?;
        outcome.control.as_mut().unwrap().trusted = false;
        Ok(outcome)
    })
    .unwrap();
    assert!(advice.places.is_empty(), "{:?}", advice.places);
    assert!(advice.notes.iter().any(|note| note.contains("not trusted")), "{:?}", advice.notes);
    assert!(
        advice.notes.iter().any(|note| note.ends_with("without a place: tcp, udp")),
        "{:?}",
        advice.notes
    );
}

#[test]
fn without_any_result_the_first_error_is_told() {
    let error = with(DUEL, Nanos::ZERO, |_| Err(Error::blocked("no way"))).unwrap_err();
    assert!(error.to_string().contains("no way"), "{error}");
}

#[test]
fn after_an_interrupt_nothing_more_runs() {
    let ran = RefCell::new(Vec::new());
    let two = format!("{DUEL}\n[[traffic]]\nname = \"shots\"\nkind = \"state\"\nper-second = 60\n");
    let advice = with(&two, Nanos::ZERO, |job| {
        ran.borrow_mut().push(job.name.clone());
        match ran.borrow().len() {
            1 => testing::run(&job.request, testing::noisy(1, 0.01, |_| 50e6)),
            _ => Err(Error::Interrupted),
        }
    })
    .unwrap();
    assert_eq!(*ran.borrow(), ["world", "shots"]);
    assert!(advice.notes.contains(&"stopped by hand during `shots`".to_owned()));
}

#[test]
fn a_directory_with_something_in_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(prepare(dir.path()).is_ok());
    fs::write(dir.path().join("world.json"), "").unwrap();
    assert!(prepare(dir.path()).unwrap_err().to_string().contains("is not empty"));
    let file = dir.path().join("world.json");
    assert!(prepare(&file).unwrap_err().to_string().contains("is not a directory"));
}
