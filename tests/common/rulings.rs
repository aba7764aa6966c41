//! A study that was run, built by hand, with a claim for each ruling.

use std::collections::BTreeMap;

use deadheat::result::outcome::{Outcome, Program};
use deadheat::result::study::model::{
    Claim, PublishedFigure, QuickSetting, RaceCell, RacePlan, Source, Study, Test, Variant,
};
use deadheat::result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, FORMAT, PublishedComparison, RaceRun, Ruling,
    Setting, StudyRun, TestAnswer,
};

use super::common;

/// Returns the study, and a result for each of its races.
pub(crate) fn ran() -> (StudyRun, Outcome) {
    let study = study();
    let answer = |answer| TestAnswer {
        test: test(),
        answer,
        seen: Some(EstimateInterval { point: 0.82, low: Some(0.79), high: Some(0.86) }),
        blocks: 8,
        confidence: Some(0.95),
    };
    let ruling = |id: &str, ruling, answers: &[AnswerKind]| ClaimRuling {
        id: id.into(),
        ruling,
        answers: answers.iter().copied().map(answer).collect(),
        note: format!("{id}: 0.820 [0.790, 0.860] over 8 blocks."),
    };
    let race = |id: &str| RaceRun {
        id: id.into(),
        file: Some(format!("{id}.json")),
        why_not: None,
        trusted: true,
    };
    let run = StudyRun {
        study_format: FORMAT,
        deadheat: Program { version: "0.1.0".into() },
        name: "echoes".into(),
        rulings: vec![
            ruling("quicker", Ruling::Holds, &[AnswerKind::Yes]),
            ruling("slower", Ruling::DoesNotHold, &[AnswerKind::No]),
            ruling("calls", Ruling::Depends, &[AnswerKind::Yes, AnswerKind::No]),
            ruling("rest", Ruling::Open, &[AnswerKind::Open]),
        ],
        beside: study.published.iter().zip([310_000.0, 253_000.0]).map(beside).collect(),
        study,
        setting: Setting::Quick,
        full: vec!["right".into()],
        started: "2026-05-01T10:00:00Z".into(),
        host: "alpha".into(),
        races: vec![race("published"), race("right")],
    };
    (run, common::full())
}

fn study() -> Study {
    let race = |id: &str, variant| RacePlan {
        id: id.into(),
        variant,
        about: "Echoes as they were measured.".into(),
        flaws: vec!["One run.".into(), "Both ends on one <core>.".into()],
        contenders: vec!["tcp".into(), "udp".into()],
        workload: "ping:count=200".into(),
        path: None,
        placement: None,
        vary: BTreeMap::new(),
        blocks: Some(8),
        budget: None,
        margin: None,
        every: None,
        all_blocks: false,
        as_deployed: false,
        explain: false,
        quick: QuickSetting::default(),
    };
    let claim = |id: &str, says: &str| Claim {
        id: id.into(),
        says: says.into(),
        by: None,
        depends_on: (id == "calls").then(|| "the call size".into()),
        open_because: None,
        agree: None,
        tests: vec![test()],
    };
    let published = |contender: &str, value: &str| PublishedFigure {
        race: "published".into(),
        metric: "rtt_p50_ns".into(),
        cell: cell(contender),
        value: value.into(),
        stddev: None,
        range: None,
        at: None,
        line: String::new(),
        note: "The mean of one run.".into(),
    };
    Study {
        title: "Echoes, again".into(),
        question: "Is an echo over UDP quicker than one over TCP?".into(),
        about: "Two hundred\nechoes.\n\nThen a second paragraph.".into(),
        history: None,
        over: None,
        source: Some(Source {
            author: "<Ada>".into(),
            title: "Echoes".into(),
            year: 2020,
            at: "journal.example/echoes".into(),
            host: "two desktops".into(),
        }),
        races: vec![race("published", Variant::AsPublished), race("right", Variant::DoneRight)],
        published: vec![published("tcp", "310us"), published("udp", "253us")],
        claims: vec![
            claim("quicker", "An echo over udp is quicker than one over tcp."),
            claim("slower", "Bulk data over udp are slower."),
            claim("calls", "Larger calls help."),
            claim("rest", "Nothing else matters."),
        ],
    }
}

fn cell(contender: &str) -> RaceCell {
    RaceCell { contender: contender.into(), levels: BTreeMap::new() }
}

fn test() -> Test {
    Test {
        look: Default::default(),
        needs: Default::default(),
        if_lost: None,
        race: "published".into(),
        metric: "rtt_p50_ns".into(),
        given: "on two cores".into(),
        of: cell("udp"),
        against: Some(cell("tcp")),
        expect: "below 0.95".into(),
    }
}

fn beside((published, value): (&PublishedFigure, f64)) -> PublishedComparison {
    let is_first = published.cell.contender == "tcp";
    let interval =
        |point: f64| EstimateInterval { point, low: Some(0.98 * point), high: Some(1.02 * point) };
    PublishedComparison {
        published: published.clone(),
        value,
        measured: Some(interval(if is_first { 62_400.0 } else { 51_400.0 })),
        published_ratio: value / 310_000.0,
        measured_ratio: Some(interval(if is_first { 1.0 } else { 0.82 })),
        published_rank: if is_first { 2 } else { 1 },
        measured_rank: Some(if is_first { 2 } else { 1 }),
    }
}
