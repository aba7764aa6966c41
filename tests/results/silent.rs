//! Contenders of which no trial is valid, as on a host that has no time for them: no report leaves them out in silence.

use crate::common;
use deadheat::analysis::compare::{Comparison, compare as compare_runs};
use deadheat::analysis::history::{FALSE_ALARM_IN, HistoryEntry, history};
use deadheat::analysis::judgement::DecisionStage;
use deadheat::analysis::no_figures::{AbsentFigures, ComparedSide};
use deadheat::analysis::{verdicts, warnings};
use deadheat::report::{self, Detail, Style};
use deadheat::result::analysis::gate::Judgement;
use deadheat::result::analysis::gate::first::FirstJudgement;
use deadheat::result::outcome::Outcome;
use deadheat::stats::runs::Promise;

/// The full race, with its verdicts drawn anew after all trials of these contenders failed their gate.
fn without(contenders: &[usize]) -> Outcome {
    let mut race = common::full();
    for (at, trial) in race.trials.iter_mut().enumerate() {
        if contenders.contains(&trial.contender) {
            trial.record.valid = false;
            trial.record.why_invalid = Some(format!("the generator was late: {at} % of messages"));
        }
    }
    race.verdicts.clear();
    verdicts::refresh(&mut race, DecisionStage::Look { alpha: 0.05, next: None });
    warnings::refresh(&mut race, None);
    race
}

/// Every contender that ran in the full race.
const ALL: [usize; 4] = [common::TCP, common::UNIX, common::UDP, common::BBR];

fn compare(old: &Outcome, new: &Outcome) -> Comparison {
    compare_runs(&[old], &[new], Promise::Once)
}

/// A text on one line, whatever its width was, and without the tags of a page.
fn one_line(text: &str) -> String {
    let is_page = text.starts_with("<!doctype html>");
    let parts = text.split('<').map(|part| match part.split_once('>') {
        Some((_, words)) if is_page => words,
        _ => part,
    });
    let text = parts.collect::<Vec<_>>().join(if is_page { "" } else { "<" });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn compared(comparison: &Comparison, format: &str) -> String {
    one_line(&report::compare::render(comparison, format, &Style::default()).unwrap())
}

fn of<'a>(comparison: &'a Comparison, label: &str) -> Vec<&'a AbsentFigures> {
    comparison.absent.iter().filter(|absent| absent.contender == label).collect()
}

#[test]
fn a_comparison_names_each_contender_that_it_cannot_compare_and_says_why() {
    let comparison = compare(&common::full(), &without(&[common::UDP]));
    assert!(comparison.rows.iter().any(|row| row.contender == "tcp"));
    assert!(!comparison.rows.iter().any(|row| row.contender == "udp"));
    let [udp] = of(&comparison, "udp")[..] else { panic!("{:?}", comparison.absent) };
    assert_eq!((udp.side, udp.valid), (ComparedSide::New, 0));
    assert!(udp.trials >= 8, "{udp:?}");
    assert!(of(&comparison, "tcp").is_empty(), "it has figures in both");
    let why = format!(
        "udp RTT p50, since in the new race none of its {} trials is valid: the generator was late",
        udp.trials
    );
    for format in ["terminal", "markdown"] {
        let text = compared(&comparison, format);
        assert!(text.contains(&format!("Not compared: {why}")), "{text}");
    }
    let json = compared(&comparison, "json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut absent = json["absent"].as_array().unwrap().iter();
    let udp = absent.find(|one| one["contender"] == "udp").unwrap();
    assert_eq!((&udp["side"], &udp["valid"]), (&"new".into(), &0.into()), "{udp}");
    assert_eq!(udp["metrics"][0]["name"], "rtt_p50_ns");
}

#[test]
fn a_comparison_without_any_figure_names_all_contenders() {
    for (old, new, side) in
        [(common::full(), without(&ALL), "new"), (without(&ALL), common::full(), "old")]
    {
        let text = compared(&compare(&old, &new), "terminal");
        assert!(text.contains("No contender has figures in both old and new races"), "{text}");
        for label in ["tcp", "unix", "udp", "tcp:cc=bbr"] {
            let named = format!("Not compared: {label} RTT p50, since in the {side} race none");
            assert!(text.contains(&named), "{named}: {text}");
        }
        assert!(
            text.contains("icmp RTT p50, since in the old race it is out (blocked):"),
            "{text}"
        );
    }
}

#[test]
fn a_run_that_does_not_count_for_a_contender_is_named_beside_its_figures() {
    let old = [common::full(), common::full(), without(&[common::UDP])];
    let comparison = compare_runs(&[&old[0], &old[1], &old[2]], &[&old[0]], Promise::Once);
    let row = comparison.rows.iter().find(|row| row.contender == "udp").unwrap();
    assert_eq!(row.runs, [2, 1]);
    let text = compared(&comparison, "terminal");
    let said = "Some runs have no figure of udp RTT p50: in the old race of 2026-03-14T15:09:26Z none of its";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_gate_says_why_there_is_no_figure_and_judges_nothing_where_nothing_can_be_compared() {
    let (full, late, blank) = (common::full(), without(&[common::UDP]), without(&ALL));
    let judged = |baseline: &Outcome, new: &Outcome| {
        let judgement = Judgement::of(&[baseline, baseline, baseline], &[new]);
        let lines = report::compare::judged(&judgement, "base").join("\n");
        (judgement.is_worse(), judgement.is_doubtful(), lines)
    };
    let (is_worse, is_doubtful, lines) = judged(&full, &late);
    assert!(is_worse && !is_doubtful, "{lines}");
    let why = "worse than base: udp has no figures at all any more: none of its";
    assert!(lines.contains(why) && !lines.contains("not compared: udp"), "{lines}");
    let (is_worse, is_doubtful, lines) = judged(&late, &full);
    assert!(!is_worse && !is_doubtful, "{lines}");
    assert!(lines.contains("not compared: udp RTT p50, since in all 3 old races none"), "{lines}");
    let (is_worse, is_doubtful, lines) = judged(&blank, &full);
    assert!(!is_worse && is_doubtful, "{lines}");
    assert!(lines.contains("no judgement: no contender has figures here and in base"), "{lines}");
    assert!(!lines.contains("nothing is worse"), "{lines}");
    // A gate on the first contender has no judgement on such a race, either.
    let first = FirstJudgement::of(&[&blank]);
    assert!(first.is_doubtful() && !first.is_worse());
    let text = report::comment::render(&first);
    assert!(text.contains("No judgement on unix against tcp"), "{text}");
    assert!(text.contains("trials failed their gate"), "{text}");
}

#[test]
fn every_report_says_that_no_trial_is_valid_and_why() {
    let full = Style { width: 80, detail: Detail::Full, ..Style::default() };
    let brief = Style { width: 80, ..Style::default() };
    let shown = |race: &Outcome, format: &str, style: &Style| {
        let text = report::find(format).unwrap().render(&race.into(), style).unwrap();
        one_line(&String::from_utf8(text).unwrap())
    };
    let (some, none) = (without(&[common::UDP]), without(&ALL));
    for (format, style) in
        [("terminal", &brief), ("terminal", &full), ("markdown", &full), ("html", &full)]
    {
        let text = shown(&some, format, style);
        assert!(text.contains("udp has no figures: none of its "), "{format}: {text}");
        assert!(text.contains("trials is valid: the generator was late"), "{format}: {text}");
        assert!(text.contains("no valid trial"), "in place of its figure: {format}: {text}");
        let text = shown(&none, format, style);
        let said = "No contender has a valid trial, so there are no figures";
        assert!(text.contains(said), "{format}: {text}");
        assert!(text.contains("trials failed their gate; the first: "), "{format}: {text}");
    }
    assert!(shown(&none, "csv", &full).contains("udp,false,false,rtt_p50_ns"));
}

#[test]
fn a_history_says_which_races_have_no_figures_and_why() {
    let on_day = |day: usize, mut race: Outcome| {
        race.started = format!("2026-03-{day:02}T04:00:00Z");
        HistoryEntry::new(format!("{day}.json"), race)
    };
    let shown = |entries: Vec<HistoryEntry>| {
        let history = history(entries, Vec::new(), None, FALSE_ALARM_IN);
        let text = report::history::render(&history, "results", "terminal", &Style::default());
        (one_line(&text.unwrap()), history)
    };
    let (text, history) = shown(vec![
        on_day(1, common::full()),
        on_day(2, without(&[common::UDP])),
        on_day(3, without(&ALL)),
    ]);
    let said = "The race of 2026-03-02T04:00:00Z has no figures of udp: none of its";
    assert!(text.contains(said), "{text}");
    let silent: Vec<usize> = history.groups[0].races.iter().map(|run| run.silent.len()).collect();
    assert_eq!(silent, [0, 1, ALL.len()]);
    let (text, _) = shown(vec![on_day(1, without(&ALL))]);
    assert!(text.contains("has no figures of tcp: none of its"), "{text}");
    let days = (1..=20).map(|day| on_day(day, without(&ALL)));
    let (text, _) = shown(days.collect());
    assert!(text.contains("No race has a figure, so nothing can be said of a change."), "{text}");
    assert!(text.contains("17 earlier races lack figures of some contenders"), "{text}");
}
