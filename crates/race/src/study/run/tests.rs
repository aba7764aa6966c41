use super::*;
use crate::race::testing;
use crate::study::read;
use deadheat_result::study::outcome::{AnswerKind, Ruling};
use deadheat_trial::{Order, TrialOutcome as TrialEnd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const STUDY: &str = r#"
title = "Echoes"
question = "Which one is quicker?"

[[race]]
id = "one"
variant = "as_published"
about = "Echoes."
contenders = ["tcp", "udp"]
workload = "ping:count=200"
blocks = 12
margin = "5%"
quick = { blocks = 8 }

[[race]]
id = "two"
variant = "done_right"
about = "More echoes."
contenders = ["tcp", "udp"]
workload = "ping:count=100"
blocks = 12
margin = "5%"

[[race]]
id = "three"
variant = "beyond"
about = "Echoes on CPUs that no machine has."
contenders = ["tcp", "udp"]
workload = "ping:count=100"
placement = "0,9"
blocks = 12

[[claim]]
id = "udp-quicker"
says = "UDP is quicker."
[[claim.test]]
race = "one"
metric = "rtt_p50_ns"
of = { contender = "udp" }
against = { contender = "tcp" }
expect = "below 0.95"
[[claim.test]]
race = "two"
metric = "rtt_p50_ns"
of = { contender = "udp" }
against = { contender = "tcp" }
expect = "below 0.95"
"#;

struct Place {
    study: CheckedStudy,
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { study: read::study(STUDY, "x.toml").unwrap(), dir: tempfile::tempdir().unwrap() }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// Runs the study after `change`; each trial of UDP takes 0.8 of TCP's.
    fn run(
        &self,
        change: impl FnOnce(&mut StudyTask<'_>),
        trial: impl Fn(&Order) -> Option<TrialEnd> + Sync,
    ) -> (Result<FinishedStudy>, Vec<String>) {
        let out = self.out();
        let mut task = StudyTask {
            name: "echoes",
            study: &self.study,
            setting: Setting::Full,
            full: Vec::new(),
            seed: Some(7),
            labels: BTreeMap::from([("where".to_owned(), "here".to_owned())]),
            dir: &out,
            started: testing::day(),
            host: "fake".into(),
        };
        change(&mut task);
        let jobs = Mutex::new(Vec::new());
        let ran = run(&task, (1, 2), &|job| {
            jobs.lock().unwrap().push(format!("{} of {}: {}", job.place, job.of, job.plan.id));
            let file = job.file.clone();
            let stop = Arc::new(AtomicBool::new(false));
            let stopping = Arc::clone(&stop);
            let mut noisy =
                testing::noisy(5, 0.01, |contender| if contender == "udp" { 8e4 } else { 1e5 });
            let each = |order: &Order| {
                let end = trial(order).unwrap_or_else(|| noisy(order));
                if matches!(end, TrialEnd::Failed(Error::Interrupted)) {
                    stopping.store(true, Ordering::Relaxed);
                }
                end
            };
            testing::staged(each, |context| job.on(context.save(file).stop(stop)))
        });
        (ran, jobs.into_inner().unwrap())
    }

    fn whole(&self) -> FinishedStudy {
        self.run(|_| {}, |_| None).0.unwrap()
    }

    fn refusal(&self, change: impl FnOnce(&mut StudyTask<'_>)) -> String {
        let (ran, jobs) = self.run(change, |_| None);
        assert_eq!(jobs, Vec::<String>::new());
        let error = ran.unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    }
}

#[test]
fn every_race_is_run_saved_and_judged_and_one_that_cannot_run_stops_no_other() {
    let place = Place::new();
    let (ran, jobs) = place.run(|_| {}, |_| None);
    let FinishedStudy { run, results, end } = ran.unwrap();
    assert_eq!(jobs, ["1 of 3: one", "2 of 3: two", "3 of 3: three"]);
    assert_eq!(end, StudyEnd::Whole);
    let [one, _, three] = &run.races[..] else { panic!("{:?}", run.races) };
    assert_eq!((one.file.as_deref(), &one.why_not, one.trusted), (Some("one.json"), &None, true));
    assert_eq!((&three.file, three.trusted), (&None, false));
    assert!(three.why_not.as_ref().unwrap().contains("CPUs 0 to 7"), "{three:?}");
    assert_eq!(run.rulings[0].ruling, Ruling::Holds, "{}", run.rulings[0].note);
    assert_eq!(save::load(&place.out()).unwrap(), run);
    assert_eq!(save::results(&run, &place.out()).unwrap(), results);
    let outcome = &results["one"];
    assert_eq!(outcome.seed, 7);
    assert_eq!(outcome.title.as_deref(), Some("Echoes: one"));
    let labels: Vec<(&str, &str)> =
        outcome.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, [("race", "one"), ("study", "echoes"), ("where", "here")]);
}

#[test]
fn what_was_broken_off_goes_on_with_the_same_figures_as_if_it_had_not_been() {
    let place = Place::new();
    let trials = AtomicUsize::new(0);
    let (ran, jobs) = place.run(
        |_| {},
        |order| {
            if order.workload().contains("count=100,") {
                trials.fetch_add(1, Ordering::Relaxed);
            }
            (trials.load(Ordering::Relaxed) > 12).then_some(TrialEnd::Failed(Error::Interrupted))
        },
    );
    let ran = ran.unwrap();
    assert_eq!((ran.end, jobs.len()), (StudyEnd::Interrupted, 2));
    assert_eq!(ran.run.races[1].why_not.as_deref(), Some("stopped before its end"));
    assert_eq!(ran.run.races[2].why_not.as_deref(), Some("not run yet"));
    let done = ran.results["two"].trials.len();
    assert!(done > 0, "some blocks of the second race were done");

    let (again, jobs) = place.run(|_| {}, |_| None);
    let again = again.unwrap();
    assert_eq!(jobs, ["2 of 3: two", "3 of 3: three"], "the first is kept");
    assert_eq!(again.end, StudyEnd::Whole);
    assert_eq!(again.results["one"], ran.results["one"]);
    assert_eq!(again.results["two"].trials[..done], ran.results["two"].trials[..]);
    assert_eq!(again.run.races[1].why_not, None);
    assert_eq!(again.run.rulings[0].ruling, Ruling::Holds);
    assert_eq!(again.run.started, ran.run.started);

    let (third, jobs) = place.run(|_| {}, |_| None);
    assert_eq!(jobs, ["3 of 3: three"], "what could not run is tried again, and nothing else");
    assert_eq!(third.unwrap().run, again.run);
}

#[test]
fn races_that_are_named_run_in_full_although_the_others_are_quick() {
    let place = Place::new();
    let named = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<String>>();
    let (none, full, misspelt) = (named(&[]), named(&["one"]), named(&["one", "tow"]));
    let said = place.refusal(|task| task.full = misspelt);
    assert!(said.contains("unknown race `tow`; did you mean `two`?"), "{said}");
    assert!(!place.out().exists());
    let blocks = |full: &[String]| {
        let change = |task: &mut StudyTask<'_>| {
            (task.setting, task.full) = (Setting::Quick, full.to_vec());
        };
        let ran = place.run(change, |_| None).0.unwrap();
        (ran.results["one"].asked.blocks, ran.run)
    };
    let (asked, run) = blocks(&full);
    assert_eq!((asked, run.thoroughness()), (Some(12), "quick setting (in full: one)".to_owned()));
    assert_eq!(save::load(&place.out()).unwrap(), run);
    assert_eq!(blocks(&full), (Some(12), run), "the same again goes on");
    let said = place.refusal(|task| task.setting = Setting::Quick);
    assert!(said.contains("at the quick setting (in full: one)"), "{said}");
    fs::remove_dir_all(place.out()).unwrap();
    assert_eq!(blocks(&none).0, Some(8));
}

#[test]
fn a_race_that_fails_is_noted_and_the_others_run() {
    let place = Place::new();
    let (ran, jobs) = place.run(
        |_| {},
        |order| {
            let first = order.workload().contains("count=200,");
            first.then(|| TrialEnd::Failed(Error::peer("far agent", "went away")))
        },
    );
    let ran = ran.unwrap();
    assert_eq!((ran.end, jobs.len()), (StudyEnd::Failed, 3));
    let why = ran.run.races[0].why_not.as_ref().unwrap();
    assert!(why.contains("went away"), "{why}");
    assert!(ran.results.contains_key("two"));
    let answers: Vec<AnswerKind> =
        ran.run.rulings[0].answers.iter().map(|one| one.answer).collect();
    assert_eq!(answers, [AnswerKind::Open, AnswerKind::Yes]);
}

#[test]
fn a_directory_that_holds_something_else_is_left_as_it_is() {
    let place = Place::new();
    place.whole();
    let before = fs::read(place.out().join("one.json")).unwrap();
    assert!(place.refusal(|task| task.name = "others").contains("holds the study `echoes`"));
    let said = place.refusal(|task| task.setting = Setting::Quick);
    assert!(said.contains("at the full setting"), "{said}");
    let said = place.refusal(|task| task.seed = Some(8));
    assert!(said.contains("begun with seed 7, not 8"), "{said}");
    let other = read::study(&STUDY.replace("blocks = 12", "blocks = 11"), "x.toml").unwrap();
    let other = Place { study: other, dir: place.dir };
    assert!(other.refusal(|_| {}).contains("an earlier version of the study"));
    fs::copy(other.out().join("two.json"), other.out().join("one.json")).unwrap();
    let place = Place { study: read::study(STUDY, "x.toml").unwrap(), dir: other.dir };
    assert!(place.refusal(|_| {}).contains("is the result of another race than `one`"));
    fs::write(place.out().join("one.json"), before).unwrap();
    assert!(place.run(|_| {}, |_| None).0.is_ok());
}

#[test]
fn two_at_once_do_not_share_a_directory() {
    let place = Place::new();
    let said = Mutex::new(String::new());
    let refused = |_: &Order| {
        *said.lock().unwrap() = place.refusal(|_| {});
        None
    };
    assert!(place.run(|_| {}, refused).0.is_ok());
    let said = said.into_inner().unwrap();
    assert!(said.contains("a study is being run into") && said.contains("-o"), "{said}");
    assert!(place.run(|_| {}, |_| None).0.is_ok(), "it is free again");
}

#[test]
fn results_without_their_study_and_places_that_are_no_directory_are_refused() {
    let place = Place::new();
    place.whole();
    fs::remove_file(place.out().join("study.json")).unwrap();
    assert!(place.refusal(|_| {}).contains("has a one.json already, and no study.json"));
    fs::remove_dir_all(place.out()).unwrap();
    fs::write(place.out(), "x").unwrap();
    assert!(place.refusal(|_| {}).contains("is not a directory"));
}

/// Returns a study of `races` races on emulated paths.
fn networks(races: &[(&str, &str)]) -> Place {
    let race = |(id, path): &(&str, &str)| {
        let placement = if path.starts_with("sim:") { "" } else { "placement = \"host\"\n" };
        format!(
            "[[race]]\nid = \"{id}\"\nvariant = \"beyond\"\nabout = \"A network.\"\ncontenders = [\"quic\", \"kcp\"]\n\
             workload = \"ping:count=100\"\npath = \"{path}\"\n{placement}blocks = 8\n"
        )
    };
    let races: String = races.iter().map(race).collect();
    let text = format!("title = \"Networks\"\nquestion = \"Which?\"\n{races}");
    Place { study: read::study(&text, "x.toml").unwrap(), dir: tempfile::tempdir().unwrap() }
}

/// Runs races side by side. `begins` is called before each.
fn beside(
    place: &Place,
    most: usize,
    begins: &(dyn Fn(&str) -> Result<()> + Sync),
) -> Result<FinishedStudy> {
    let out = place.out();
    let task = StudyTask {
        name: "networks",
        study: &place.study,
        setting: Setting::Full,
        full: Vec::new(),
        seed: Some(7),
        labels: BTreeMap::new(),
        dir: &out,
        started: testing::day(),
        host: "fake".into(),
    };
    run(&task, (most, 2), &|job| {
        begins(&job.plan.id)?;
        let file = job.file.clone();
        let trial = testing::noisy(5, 0.01, |_| 1e5);
        testing::staged(trial, |context| job.on(context.save(file)))
    })
}

const SLOW: &str = "rate=10mbit,wait=sleep";

#[test]
fn races_side_by_side_run_at_once_and_leave_the_same_results() {
    let place = networks(&[("a", SLOW), ("b", SLOW), ("c", SLOW)]);
    // Each waits until all have begun, so one after another would never end.
    let barrier = std::sync::Barrier::new(3);
    let at_once = |_: &str| {
        barrier.wait();
        Ok(())
    };
    let ran = beside(&place, 3, &at_once).unwrap();
    assert_eq!(ran.end, StudyEnd::Whole);
    assert_eq!(save::load(&place.out()).unwrap(), ran.run);
    fs::remove_dir_all(place.out()).unwrap();
    let alone = beside(&place, 1, &|_| Ok(())).unwrap();
    let figures = |ran: &FinishedStudy| -> Vec<_> {
        let of_race = |race: &Outcome| (race.asked.clone(), race.trials.clone());
        ran.results.values().map(of_race).collect()
    };
    assert_eq!(figures(&ran), figures(&alone));
    assert_eq!(ran.run.races, alone.run.races);
}

#[test]
fn a_failure_or_a_panic_of_one_race_costs_only_that_one() {
    let place = networks(&[("a", SLOW), ("b", SLOW), ("c", SLOW)]);
    let ran = beside(&place, 2, &|id| match id {
        "a" => Err(Error::peer("far agent", "went away")),
        "b" => panic!("a fault of ours"),
        _ => Ok(()),
    });
    let ran = ran.unwrap();
    let why = |at: usize| ran.run.races[at].why_not.clone().unwrap_or_default();
    assert!(
        why(0).contains("went away") && why(1).contains("a fault of ours"),
        "{:?}",
        ran.run.races
    );
    assert!(ran.results.contains_key("c"));
    assert_eq!(ran.end, StudyEnd::Failed);
}

#[test]
fn after_an_interruption_no_race_begins() {
    let place = networks(&[("a", SLOW), ("b", SLOW)]);
    let ran = beside(&place, 1, &|_| Err(Error::Interrupted)).unwrap();
    assert_eq!(ran.end, StudyEnd::Interrupted);
    assert_eq!(ran.run.races[1].why_not.as_deref(), Some("not run yet"));
}

#[test]
fn what_would_disturb_others_runs_alone() {
    let place = networks(&[
        ("simulated", "sim:rate=10mbit"),
        ("a", SLOW),
        ("polls", "rate=10mbit"),
        ("b", SLOW),
        ("fast", "rate=500mbit,wait=sleep"),
    ]);
    let running = Mutex::new(Vec::new());
    // Only these two may run at once, and do: each waits for the other.
    let barrier = std::sync::Barrier::new(2);
    let note = |id: &str| {
        running.lock().unwrap().push(id.to_owned());
        if ["a", "b"].contains(&id) {
            barrier.wait();
        } else {
            assert_eq!(*running.lock().unwrap(), [id]);
        }
        running.lock().unwrap().retain(|other| other != id);
        Ok(())
    };
    let ran = beside(&place, 4, &note).unwrap();
    assert_eq!((ran.end, ran.results.len()), (StudyEnd::Whole, 5));
}
