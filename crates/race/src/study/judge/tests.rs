use super::*;
use crate::race::testing;
use crate::study::{read, restated};
use deadheat_path::measurements::{LinkFigures, PathFigures};
use deadheat_result::analysis::judgement::DecisionStage;
use deadheat_result::study::outcome::{RaceRun, StudyRun};
use deadheat_trial::{Order, TrialOutcome};

const RACES: &str = r#"
title = "Echoes"
question = "Which one is quicker?"

[[race]]
id = "plain"
variant = "as_published"
about = "Echoes."
contenders = ["tcp", "udp", "icmp"]
workload = "ping:count=200"
blocks = 12
margin = "5%"

[[race]]
id = "varied"
variant = "done_right"
about = "Echoes of two sizes."
contenders = ["tcp", "udp"]
workload = "ping:count=200"
vary.size = ["64", "1kB"]
blocks = 12
margin = "5%"
quick = { vary = { size = ["1kB", "2kB"] } }

[[race]]
id = "lossy"
variant = "done_right"
about = "What is lost."
contenders = ["udp", "udp:io=send"]
workload = "bulk:time=1s"
blocks = 12
margin = "5%"
"#;

fn study(more: &str) -> CheckedStudy {
    read::study(&format!("{RACES}{more}"), "x.toml").unwrap()
}

/// Judges results of the full setting.
fn judged(checked: &CheckedStudy, results: &BTreeMap<String, Outcome>) -> StudyJudgement {
    judge(checked, results, Extent::FULL)
}

/// Runs a race of the study in virtual time.
fn ran(
    checked: &CheckedStudy,
    id: &str,
    setting: Setting,
    trial: impl FnMut(&Order) -> TrialOutcome,
) -> BTreeMap<String, Outcome> {
    let plan = checked.study.races.iter().find(|plan| plan.id == id).unwrap().at(setting);
    let outcome =
        testing::run(&super::super::plan::request(&plan).unwrap().seed(1), trial).unwrap();
    BTreeMap::from([(id.to_owned(), outcome)])
}

/// Returns figures in which UDP takes 0.8 of TCP's time, and ICMP as long as TCP.
fn echoes(order: &Order) -> f64 {
    if order.contender() == "udp" { 80_000.0 } else { 100_000.0 }
}

/// Adds 1 % of noise to a figure.
fn noisy(level: impl Fn(&Order) -> f64) -> impl FnMut(&Order) -> TrialOutcome {
    let mut rng = deadheat_base::rng::SplitMix64::new(3);
    move |order| testing::ran(order, level(order) * (0.01 * rng.normal()).exp())
}

fn claim(tests: &[(&str, &str, &str)]) -> String {
    let mut text =
        "[[claim]]\nid = \"c\"\nsays = \"So it is.\"\ndepends_on = \"the other end\"\n".to_owned();
    for (given, cells, expect) in tests {
        text.push_str(&format!(
            "[[claim.test]]\nrace = \"plain\"\nmetric = \"rtt_p50_ns\"\ngiven = \"{given}\"\n{cells}\n\
             expect = \"{expect}\"\n"
        ));
    }
    text
}

const UDP_TCP: &str = "of = { contender = \"udp\" }\nagainst = { contender = \"tcp\" }";
const ICMP_TCP: &str = "of = { contender = \"icmp\" }\nagainst = { contender = \"tcp\" }";
const TCP_UDP: &str = "of = { contender = \"tcp\" }\nagainst = { contender = \"udp\" }";
const UDP: &str = "of = { contender = \"udp\" }";

/// Returns the ruling on one claim about the race without conditions.
fn ruled(tests: &[(&str, &str, &str)]) -> ClaimRuling {
    let checked = study(&claim(tests));
    let results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    judged(&checked, &results).rulings.remove(0)
}

#[test]
fn a_claim_holds_where_every_test_says_yes() {
    let ruling = ruled(&[("", UDP_TCP, "below 0.95"), ("idle", ICMP_TCP, "within the margin")]);
    assert_eq!(ruling.ruling, Ruling::Holds, "{}", ruling.note);
    let seen = ruling.answers[0].seen.unwrap();
    assert!((seen.point - 0.8).abs() < 0.01, "{seen:?}");
    assert!(seen.low.unwrap() < seen.point && seen.point < seen.high.unwrap(), "{seen:?}");
    assert!(ruling.answers[0].blocks >= 6);
    assert!(
        ruling.note.starts_with("Holds here: udp's RTT p50 was 80 % of tcp's ["),
        "{}",
        ruling.note
    );
    assert!(ruling.note.contains("; idle: icmp's RTT p50 was "), "{}", ruling.note);
    // Two comparisons on one race hold together, each at 97.5 %.
    let level = ruling.answers[0].confidence.unwrap();
    assert!((level - 0.975).abs() < 1e-12, "{level}");
}

#[test]
fn a_claim_does_not_hold_where_every_test_says_no() {
    let ruling = ruled(&[("", UDP_TCP, "above 1"), ("", UDP, "below 50us")]);
    assert_eq!(ruling.ruling, Ruling::DoesNotHold, "{}", ruling.note);
    assert!(ruling.note.starts_with("False here: udp's RTT p50 was "), "{}", ruling.note);
    assert!(ruling.note.contains(" µs ["), "{}", ruling.note);
}

#[test]
fn a_claim_that_holds_here_and_not_there_depends() {
    let ruling = ruled(&[("by UDP", UDP_TCP, "below 0.95"), ("by ICMP", ICMP_TCP, "below 0.95")]);
    assert_eq!(ruling.ruling, Ruling::Depends);
    assert!(
        ruling.note.starts_with("Depends on the other end. True: by UDP: udp's RTT p50 was 80 %"),
        "{}",
        ruling.note
    );
    assert!(ruling.note.contains(" False: by ICMP: icmp's RTT p50 was "), "{}", ruling.note);
}

#[test]
fn one_test_that_is_not_settled_leaves_a_claim_open() {
    let ruling = ruled(&[("", UDP_TCP, "below 0.95"), ("", UDP_TCP, "below 0.8")]);
    assert_eq!(ruling.ruling, Ruling::Open, "{}", ruling.note);
    assert!(ruling.note.contains(" True: udp's RTT p50"), "{}", ruling.note);
}

#[test]
fn too_few_blocks_and_races_that_did_not_run_leave_it_open_and_say_so() {
    let checked = study(&claim(&[("", UDP_TCP, "below 0.95"), ("", UDP, "below 1s")]));
    let mut results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    let outcome = results.get_mut("plain").unwrap();
    outcome.trials.retain(|trial| trial.block < 3);
    verdicts::refresh(outcome, DecisionStage::Between { next: None });
    let ruling = judged(&checked, &results).rulings.remove(0);
    assert_eq!(ruling.ruling, Ruling::Open);
    assert_eq!(ruling.answers[0].seen.unwrap().low, None);
    let wanted = "(3 blocks, and an interval takes 7 where 2 hold together)";
    assert!(ruling.note.contains(wanted), "{}", ruling.note);
    let ruling = judged(&checked, &BTreeMap::new()).rulings.remove(0);
    assert_eq!((ruling.ruling, ruling.answers[0].seen), (Ruling::Open, None));
    assert!(ruling.note.contains("the race `plain` has no result"), "{}", ruling.note);
}

#[test]
fn a_figure_of_zero_is_one_and_a_ratio_of_zeros_is_none() {
    let both = "of = { contender = \"udp\" }\nagainst = { contender = \"udp:io=send\" }";
    let text = claim(&[("", UDP, "below 1%"), ("", both, "below 1")]).replace(
        "race = \"plain\"\nmetric = \"rtt_p50_ns\"",
        "race = \"lossy\"\nmetric = \"loss_share\"",
    );
    let checked = study(&text);
    let mut results = ran(&checked, "lossy", Setting::Full, |order| testing::ran(order, 0.0));
    // The hidden copy has no ratio to zeros either, which is not tested here.
    results.get_mut("lossy").unwrap().control = None;
    let ruling = judged(&checked, &results).rulings.remove(0);
    let [loss, ratio] = &ruling.answers[..] else { panic!("{ruling:?}") };
    assert_eq!(loss.answer, AnswerKind::Yes);
    assert_eq!(loss.seen, Some(EstimateInterval { point: 0.0, low: Some(0.0), high: Some(0.0) }));
    assert_eq!((ratio.answer, ratio.seen), (AnswerKind::Open, None));
    assert!(
        ruling.note.contains("12 of 12 blocks have no ratio: a figure is 0"),
        "{}",
        ruling.note
    );
    assert!(serde_json::to_string(&ruling).is_ok());
}

#[test]
fn of_a_censored_figure_only_the_least_is_known() {
    let checked = study(&claim(&[
        ("", UDP, "above 50us"),
        ("", UDP, "below 1s"),
        ("", UDP_TCP, "above 0.5"),
        ("", UDP_TCP, "below 0.95"),
    ]));
    let mut results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    let outcome = results.get_mut("plain").unwrap();
    for trial in outcome.trials.iter_mut().filter(|trial| trial.contender == 1) {
        trial.record.censored.push("rtt_p50_ns".into());
    }
    verdicts::refresh(outcome, DecisionStage::Between { next: None });
    let ruling = judged(&checked, &results).rulings.remove(0);
    let answers: Vec<AnswerKind> = ruling.answers.iter().map(|one| one.answer).collect();
    assert_eq!(answers, [AnswerKind::Yes, AnswerKind::Open, AnswerKind::Yes, AnswerKind::Open]);
    assert!(ruling.note.contains("lost messages"), "{}", ruling.note);
}

#[test]
fn a_cell_is_found_by_its_levels_and_the_quick_setting_may_leave_it_out() {
    let cell = |size: &str, contender: &str| {
        format!("{{ contender = \"{contender}\", where = {{ size = \"{size}\" }} }}")
    };
    let text = format!(
        "[[claim]]\nid = \"c\"\nsays = \"So it is.\"\n[[claim.test]]\nrace = \"varied\"\n\
         metric = \"rtt_p50_ns\"\nof = {}\nagainst = {}\nexpect = \"above 3\"\n",
        cell("1kB", "udp"),
        cell("64", "udp")
    );
    let checked = study(&text);
    let level =
        |order: &Order| if order.workload().contains("1kB") { 400_000.0 } else { 100_000.0 };
    let results = ran(&checked, "varied", Setting::Full, noisy(level));
    let ruling = judged(&checked, &results).rulings.remove(0);
    assert_eq!(ruling.ruling, Ruling::Holds, "{}", ruling.note);
    let wanted = "udp (size=1kB)'s RTT p50 was 4.0";
    assert!(ruling.note.contains(wanted) || ruling.note.contains("was 3.9"), "{}", ruling.note);
    let results = ran(&checked, "varied", Setting::Quick, noisy(level));
    let ruling = judged(&checked, &results).rulings.remove(0);
    assert_eq!((ruling.ruling, ruling.answers[0].answer), (Ruling::Open, AnswerKind::LeftOut));
    assert_eq!(ruling.note, "Open: only the full setting measures this.");

    let also = text.clone()
        + &format!(
            "[[claim.test]]\nrace = \"varied\"\nmetric = \"rtt_p50_ns\"\ngiven = \"by itself\"\n\
             of = {}\nexpect = \"above 300us\"\n",
            cell("1kB", "udp")
        );
    let also = also.replacen("metric =", "given = \"small\"\nmetric =", 1);
    let checked = study(&also);
    let results = ran(&checked, "varied", Setting::Quick, noisy(level));
    let ruling = judged(&checked, &results).rulings.remove(0);
    assert_eq!(ruling.ruling, Ruling::Holds, "{}", ruling.note);
    assert!(
        ruling.note.starts_with("Holds here: by itself: udp (size=1kB)'s RTT p50 was "),
        "{}",
        ruling.note
    );
    assert!(ruling.note.ends_with(" Not measured at this setting: small."), "{}", ruling.note);
}

#[test]
fn a_race_that_is_not_trusted_settles_nothing() {
    let checked = study(&claim(&[("", UDP_TCP, "below 0.95")]));
    let mut results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    results.get_mut("plain").unwrap().control.as_mut().unwrap().trusted = false;
    let ruling = judged(&checked, &results).rulings.remove(0);
    assert_eq!((ruling.ruling, ruling.answers[0].answer), (Ruling::Open, AnswerKind::Open));
    assert!(ruling.answers[0].seen.is_some(), "its figure is shown all the same");
    assert!(ruling.note.ends_with(" (the race `plain` is not trusted)."), "{}", ruling.note);
}

fn answers(of: &[(AnswerKind, usize)]) -> Vec<TestAnswer> {
    let checked = study(&claim(&[("", UDP, "below 1s")]));
    let test = &checked.study.claims[0].tests[0];
    let one =
        |answer| TestAnswer { test: test.clone(), answer, seen: None, blocks: 0, confidence: None };
    of.iter().flat_map(|(answer, n)| vec![one(*answer); *n]).collect()
}

#[test]
fn what_answers_come_to() {
    use AnswerKind::{LeftOut, More, No, Open, Yes};
    let cases: &[(&[(AnswerKind, usize)], Ruling)] = &[
        (&[(Yes, 2), (LeftOut, 3)], Ruling::Holds),
        (&[(Yes, 2), (More, 1)], Ruling::Holds),
        (&[(Yes, 1), (More, 1)], Ruling::Exceeds),
        (&[(More, 1)], Ruling::Exceeds),
        (&[(More, 1), (Open, 1)], Ruling::Open),
        (&[(No, 3), (LeftOut, 1)], Ruling::DoesNotHold),
        (&[(No, 3), (Open, 1)], Ruling::MostlyContradicted),
        (&[(No, 2), (Yes, 1)], Ruling::MostlyContradicted),
        (&[(No, 1), (Open, 1)], Ruling::Open),
        (&[(No, 1), (Yes, 1)], Ruling::Depends),
        (&[(No, 2), (Yes, 1), (Open, 1)], Ruling::Depends),
        (&[(No, 1), (More, 1), (Open, 1)], Ruling::Depends),
        (&[(LeftOut, 2)], Ruling::Open),
        (&[], Ruling::Open),
    ];
    for (of, ruling) in cases {
        assert_eq!(rule(&answers(of)), *ruling, "{of:?}");
    }
}

#[test]
fn a_claim_of_a_size_can_be_exceeded() {
    let ruling = ruled(&[("", TCP_UDP, "1.05..1.1 or more")]);
    assert_eq!(ruling.ruling, Ruling::Exceeds, "{}", ruling.note);
    assert!(ruling.note.starts_with("More than claimed: tcp's RTT p50 was 1.2"), "{}", ruling.note);
}

#[test]
fn the_same_comparison_counts_once_whichever_way_round() {
    let tests = [("", UDP_TCP, "below 0.95"), ("", TCP_UDP, "above 1.05"), ("", UDP, "below 1s")];
    let ruling = ruled(&tests);
    let levels: Vec<f64> = ruling.answers.iter().filter_map(|one| one.confidence).collect();
    assert!(levels.iter().all(|level| (level - 0.975).abs() < 1e-12), "{levels:?}");
}

#[test]
fn a_margin_that_noise_has_widened_is_not_used() {
    let checked = study(&claim(&[("", UDP_TCP, "within the margin")]));
    let mut results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    let outcome = results.get_mut("plain").unwrap();
    (outcome.asked.margin, outcome.plan.margin) = (None, 0.41);
    let ruling = judged(&checked, &results).rulings.remove(0);
    assert_eq!(ruling.ruling, Ruling::DoesNotHold, "{}", ruling.note);
}

#[test]
fn what_takes_the_full_setting_is_left_open_by_the_quick_one() {
    let text = claim(&[("", UDP_TCP, "below 0.95")]).replace("expect", "needs = \"full\"\nexpect");
    let checked = study(&text);
    let results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    let at = |full: &[String]| {
        let extent = Extent { setting: Setting::Quick, full };
        judge(&checked, &results, extent).rulings.remove(0).ruling
    };
    assert_eq!(at(&[]), Ruling::Open);
    assert_eq!(at(&["plain".to_owned()]), Ruling::Holds);
}

/// A fault is on the path's account: packets that its loss model dropped, or that its firewall blocked.
#[test]
fn a_fault_that_hit_no_packet_in_most_trials_settles_nothing() {
    let text = claim(&[("", UDP_TCP, "below 0.95")]);
    let ruled = |path: &str, extra: &str, lost: &dyn Fn(u64) -> (u64, u64)| {
        let checked = study(&text.replace("expect", &format!("{extra}expect")));
        let mut results = ran(&checked, "plain", Setting::Full, noisy(echoes));
        let outcome = results.get_mut("plain").unwrap();
        outcome.asked.path = path.into();
        for trial in &mut outcome.trials {
            let mut link = LinkFigures::default();
            (link.up.fates.lost, link.down.fates.blocked) = lost(trial.block);
            trial.record.path = Some(PathFigures { links: vec![LinkFigures::default(), link] });
        }
        judged(&checked, &results).rulings.remove(0)
    };
    let (lossy, dark) = ("delay=5ms,loss=1%", "delay=5ms+delay=5ms,block=tcp@500ms");
    for path in [lossy, dark] {
        let ruling = ruled(path, "", &|block| (u64::from(block % 5 == 0), 0));
        assert_eq!(ruling.ruling, Ruling::Open, "{}", ruling.note);
        assert!(ruling.note.contains("the path lost no packet in "), "{}", ruling.note);
        assert!(ruling.answers[0].seen.is_some(), "the figure is shown all the same");
        assert_eq!(ruled(path, "if_lost = 0\n", &|_| (0, 0)).ruling, Ruling::Holds);
        assert_eq!(ruled(path, "", &|_| (1, 0)).ruling, Ruling::Holds);
        assert_eq!(ruled(path, "", &|_| (0, 1)).ruling, Ruling::Holds);
        assert_eq!(ruled(path, "if_lost = 3\n", &|_| (1, 1)).ruling, Ruling::Open);
    }
    for path in ["delay=5ms", "kreylos-2020-home"] {
        assert_eq!(ruled(path, "", &|_| (0, 0)).ruling, Ruling::Holds, "{path} names no fault");
    }
}

#[test]
fn a_claim_that_nothing_here_can_settle_is_open_with_the_reason() {
    let text = "[[claim]]\nid = \"c\"\nsays = \"So it is.\"\nopen_because = \"nobody can tell.\"\n";
    let ruling = judged(&study(text), &BTreeMap::new()).rulings.remove(0);
    assert_eq!((ruling.ruling, ruling.note.as_str()), (Ruling::Open, "Open: nobody can tell."));
}

#[test]
fn a_run_of_before_is_restated_with_the_claims_of_now() {
    let before = study(&claim(&[("", UDP_TCP, "above 1")]));
    let mut run = unjudged(&before);
    run.races.truncate(2);
    run.study.races.truncate(2);
    let results = ran(&before, "plain", Setting::Full, noisy(echoes));
    let mut now = study(&claim(&[("", UDP_TCP, "below 0.95")])).study;
    now.races[0].blocks = Some(99);
    for _ in 0..2 {
        restated::restate(&mut run, &now, &results);
        assert_eq!(run.rulings[0].ruling, Ruling::Holds);
        let ids: Vec<&str> = run.races.iter().map(|race| race.id.as_str()).collect();
        assert_eq!(ids, ["plain", "varied", "lossy"]);
        assert_eq!(run.races[2].why_not.as_deref(), Some(restated::ADDED_LATER));
        assert_eq!(run.study.races[0].blocks, Some(12), "races stay as they ran");
    }
}

#[test]
fn a_run_of_some_races_is_judged_by_the_claims_that_ask_them() {
    let lossy = "[[claim]]\nid = \"d\"\nsays = \"Little is lost.\"\n[[claim.test]]\nrace = \"lossy\"\n\
                 metric = \"loss_share\"\nof = { contender = \"udp\" }\nexpect = \"below 1%\"\n";
    let checked = study(&format!("{}{lossy}", claim(&[("", UDP_TCP, "below 0.95")])));
    let mut run = unjudged(&checked);
    let results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    restated::restate(&mut run, &checked.study, &results);
    let rulings = |run: &StudyRun| run.rulings.iter().map(|one| one.ruling).collect::<Vec<_>>();
    assert_eq!(rulings(&run), [Ruling::Holds, Ruling::Open]);
    run.races[2].why_not = Some(restated::LEFT_OUT.into());
    restated::restate(&mut run, &checked.study, &results);
    assert_eq!(rulings(&run), [Ruling::Holds]);
}

/// Returns a run of all races, none of which has a result.
fn unjudged(checked: &CheckedStudy) -> StudyRun {
    StudyRun {
        study_format: 1,
        deadheat: deadheat_result::outcome::Program { version: "0".into() },
        name: "x".into(),
        setting: Setting::Full,
        full: Vec::new(),
        started: String::new(),
        host: String::new(),
        races: checked.study.races.iter().map(|race| race_run(&race.id)).collect(),
        beside: Vec::new(),
        rulings: Vec::new(),
        study: checked.study.clone(),
    }
}

fn race_run(id: &str) -> RaceRun {
    RaceRun { id: id.into(), file: None, why_not: None, trusted: false }
}

#[test]
fn published_figures_are_set_beside_by_ratio_and_by_order() {
    let published = |contender: &str, value: &str| {
        format!(
            "[[published]]\nrace = \"plain\"\nmetric = \"rtt_p50_ns\"\n\
             cell = {{ contender = \"{contender}\" }}\nvalue = \"{value}\"\n"
        )
    };
    let more = [published("tcp", "200us"), published("udp", "300us"), published("icmp", "50us")];
    let checked = study(&more.concat());
    let results = ran(&checked, "plain", Setting::Full, noisy(echoes));
    let [tcp, udp, icmp] = &judged(&checked, &results).beside[..] else { panic!() };
    assert_eq!((tcp.value, tcp.published_ratio), (200_000.0, 1.0));
    assert_eq!(tcp.measured_ratio, Some(EXACTLY_ONE));
    assert_eq!((udp.published_ratio, udp.published_rank, udp.measured_rank), (1.5, 3, Some(1)));
    assert!((udp.measured.unwrap().point - 80_000.0).abs() < 2_000.0);
    let ratio = udp.measured_ratio.unwrap();
    assert!((ratio.point - 0.8).abs() < 0.01 && ratio.low < ratio.high, "{ratio:?}");
    assert_eq!((icmp.published_ratio, icmp.published_rank), (0.25, 1));
    let nothing = judged(&checked, &BTreeMap::new()).beside;
    let udp = &nothing[1];
    assert_eq!((udp.published_ratio, udp.measured, udp.measured_ratio), (1.5, None, None));
}

#[test]
fn ratios_are_to_the_first_published_figure_above_zero() {
    let published = |contender: &str, value: &str| {
        format!(
            "[[published]]\nrace = \"lossy\"\nmetric = \"loss_share\"\n\
             cell = {{ contender = \"{contender}\" }}\nvalue = \"{value}\"\n"
        )
    };
    let checked = study(&[published("udp", "0%"), published("udp:io=send", "20%")].concat());
    let beside = judged(&checked, &BTreeMap::new()).beside;
    assert_eq!(beside.iter().map(|one| one.published_ratio).collect::<Vec<_>>(), [0.0, 1.0]);
    let checked = study(&published("udp", "0%"));
    assert_eq!(judged(&checked, &BTreeMap::new()).beside[0].published_ratio, 1.0);
}

#[test]
fn equal_figures_share_a_place() {
    assert_eq!(
        [1.0, 2.0, 2.0, 3.0].map(|own| rank(own, &[1.0, 2.0, 2.0, 3.0], Better::Lower)),
        [1, 2, 2, 4]
    );
    assert_eq!([1.0, 3.0].map(|own| rank(own, &[1.0, 3.0], Better::Higher)), [2, 1]);
}

/// Intervals of rulings at 95 % over consecutive blocks: ratios of two contenders, and single figures. Without
/// widening, 16 to 20 % miss at a correlation of 0.4.
#[test]
fn intervals_hold_where_neighbouring_blocks_are_alike() {
    const SERIES: u32 = 500;
    // Of 500 at a true 5 %, 38 or more have a probability of 0.9 %; at 0.4 slightly more are known to miss.
    for (r, most) in [(0.0, 0.074), (0.2, 0.08), (0.4, 0.1)] {
        let mut rng = deadheat_base::rng::SplitMix64::new(11);
        let (mut ratios_miss, mut figures_miss) = (0, 0);
        for _ in 0..SERIES {
            let mut value = rng.normal();
            let mut next = || {
                let now = value;
                value = r * value + (1.0 - r * r).sqrt() * rng.normal();
                0.05 * now
            };
            let logs: Vec<f64> = (0..40).map(|_| next()).collect();
            let misses = |low: Option<f64>, high: Option<f64>| {
                u32::from(low.unwrap() > 1.0 || high.unwrap() < 1.0)
            };
            let seen = ratio(&logs, (false, false), Family(1)).unwrap();
            ratios_miss += misses(seen.low, seen.high);
            let figures: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            let seen = serial::median_interval(&figures, 0.05).unwrap();
            figures_miss += misses(Some(seen.low), Some(seen.high));
        }
        let shares = [ratios_miss, figures_miss].map(|n| f64::from(n) / f64::from(SERIES));
        println!("correlation {r}: {shares:?} of intervals miss");
        assert!(shares.iter().all(|share| *share <= most), "{r}: {shares:?}");
    }
}
