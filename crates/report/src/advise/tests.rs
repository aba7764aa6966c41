use super::*;
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Role, Unit};
use deadheat_race::advise::app;
use deadheat_result::advise::axis::Axis;
use deadheat_result::advise::outcome;
use deadheat_result::advise::search::SearchStep;
use deadheat_result::outcome::Program;

fn crossover(axis: Axis, base: f64, lead: Lead, end: f64, found: SearchFinding) -> Crossover {
    let step = |value: f64| SearchStep {
        value,
        lead: Lead::Second,
        file: format!("world-{}-{}.json", axis.name(), axis.text(value)),
    };
    Crossover {
        axis,
        first: "quic".into(),
        second: "tcp".into(),
        base,
        lead,
        file: "world.json".into(),
        end,
        found,
        open: Vec::new(),
        steps: vec![step(end)],
        is_virtual: false,
    }
}

fn advice(crossovers: Vec<Crossover>) -> Advice {
    let text = "format = 1\ntitle = \"A game\"\n[[traffic]]\nname = \"w\"\nkind = \"voice\"";
    Advice {
        advice_format: outcome::FORMAT,
        deadheat: Program { version: "0.1.0".into() },
        name: "game".into(),
        app: app::parse(text, "game.toml").unwrap(),
        path: "delay=25ms".into(),
        started: "2026-01-01T00:00:00Z".into(),
        budget_ns: None,
        took_ns: 0,
        excluded: Vec::new(),
        traffic: Vec::new(),
        races: Vec::new(),
        places: Vec::new(),
        confirmed: Vec::new(),
        alone: Vec::new(),
        crossovers,
        not_searched: Vec::new(),
        notes: Vec::new(),
    }
}

fn said(advice: &Advice) -> Vec<String> {
    let content = Content { advice, is_mixed: true };
    content.lines().into_iter().map(|line| line.text).collect()
}

#[test]
fn a_crossover_is_an_interval_with_its_files() {
    let found = SearchFinding::Between { from: 0.032, to: 0.04, lead: Lead::Second };
    let loss = crossover(Axis::Loss, 0.01, Lead::First, 0.04, found);
    let tie = SearchFinding::Between { from: 25e6, to: 2e6, lead: Lead::Tie };
    let delay = crossover(Axis::Delay, 25e6, Lead::First, 2e6, tie);
    let unknown = SearchFinding::Unknown { from: 20e6, to: 200e6 };
    let rate =
        Crossover { open: vec![200e6], ..crossover(Axis::Rate, 20e6, Lead::First, 200e6, unknown) };
    assert_eq!(
        said(&advice(vec![loss, delay, rate])),
        [
            "Loss: tcp comes ahead of quic between 3.2% and 4%. [world-loss-4%.json]",
            "Delay: the lead of quic ends in a dead heat between 2ms and 25ms. [world.json, world-delay-2ms.json]",
            "Rate: cannot tell between 20mbit and 200mbit (undecided at 200mbit). [world.json, world-rate-200mbit.json]",
        ]
    );
}

#[test]
fn where_nothing_changes_the_ends_are_named() {
    let same = |axis, base, end| crossover(axis, base, Lead::First, end, SearchFinding::Unchanged);
    let both =
        vec![same(Axis::Loss, 0.01, 0.0), same(Axis::Loss, 0.01, 0.1), same(Axis::Delay, 1e7, 3e8)];
    assert_eq!(
        said(&advice(both)),
        ["No crossover: quic stays ahead of tcp at loss 0%, loss 10% and delay 300ms. \
         [world-loss-0%.json, world-loss-10%.json, world-delay-300ms.json]"]
    );
}

#[test]
fn those_tied_with_the_first_by_one_race_share_a_line() {
    let placed = |contender: &str, lead: Option<Lead>| RankedContender {
        contender: contender.into(),
        carries: Vec::new(),
        place: if lead == Some(Lead::First) { 4 } else { 1 },
        needs_udp: None,
        figure: None,
        against: lead.map(|lead| VerdictEvidence {
            traffic: "w".into(),
            first: "enet".into(),
            second: contender.into(),
            lead,
            note: format!("enet is ahead of {contender}."),
            cause: None,
            file: "w.json".into(),
            is_virtual: false,
        }),
    };
    let mut advice = advice(Vec::new());
    advice.places = vec![
        placed("enet", None),
        placed("udp", Some(Lead::Tie)),
        placed("quic", Some(Lead::Tie)),
        placed("kcp", Some(Lead::First)),
    ];
    assert_eq!(
        said(&advice)[2..],
        [
            "1=. udp and quic: dead heat with enet [w.json]",
            "4. kcp: enet is ahead of kcp. [w.json]"
        ]
    );
}

#[test]
fn those_left_out_are_named_together_by_reason() {
    let out = |contender: &str, traffic: Option<&str>, why: &str| ExcludedContender {
        contender: contender.into(),
        traffic: traffic.map(Into::into),
        why: why.into(),
    };
    let mut advice = advice(Vec::new());
    advice.excluded = vec![
        out("tcp", None, "it is not encrypted"),
        out("udp", Some("shots"), "it has no lane that is reliable; it has: best effort"),
        out("kcp", None, "it is not encrypted"),
    ];
    assert_eq!(
        said(&advice),
        [
            "Left out: tcp and kcp (it is not encrypted).",
            "Left out of `shots`: udp (it has no lane that is reliable).",
        ]
    );
}

#[test]
fn a_terminal_shows_twenty_lines_at_most() {
    let mut advice = advice(Vec::new());
    advice.notes = (0..40).map(|n| format!("note {n} {}", "word ".repeat(20 + n % 7))).collect();
    for width in [40, 80, 120] {
        let style = Style { width, ..Style::default() };
        let text = render(&advice, Form::Terminal, &style).unwrap();
        let lines = text.lines().count();
        assert!((15..=MOST_LINES).contains(&lines), "{width}: {lines}\n{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").ends_with("sentences more; --format markdown has all."), "{text}");
    }
    let all = render(&advice, Form::Markdown, &Style::default()).unwrap();
    assert!(all.contains("Note 39"), "{all}");
}

/// A person reads what to take before any evidence: with the worst of the rest, the costs beside time, and what gets through.
#[test]
fn advice_begins_with_a_choice_its_costs_and_what_gets_through() {
    let metric = Metric {
        name: "age_p99_ns".into(),
        label: "age p99".into(),
        unit: Unit::Nanos,
        better: Better::Lower,
        role: Role::Claim,
        clock: ClockNeed::None,
    };
    let placed = |contender: &str, place: usize, ms: f64, needs_udp: bool| RankedContender {
        contender: contender.into(),
        carries: Vec::new(),
        place,
        needs_udp: Some(needs_udp),
        figure: Some(ContenderFigure {
            traffic: "world".into(),
            metric: metric.clone(),
            estimate: ms * 1e6,
            low: None,
            high: None,
            limit_ns: None,
            wire_ratio: Some(1.0 + ms / 100.0),
            cpu_ns: None,
            file: "world.json".into(),
            is_virtual: true,
        }),
        against: None,
    };
    let mut advice = advice(Vec::new());
    let first = |advice: &Advice| said(advice)[..3].to_vec();
    advice.places = vec![
        placed("udp", 1, 56.4, true),
        placed("enet", 1, 56.7, true),
        placed("tcp", 3, 97.0, false),
    ];
    assert_eq!(
        first(&advice),
        [
            "Take any of udp and enet, which no verdict sets apart: age p99 of `world` about 56.4 ms. Not tcp: 97.0 ms.",
            "Bytes on the wire for each of the application's: 1.56 (udp) to 1.57 (enet).",
            "Where a network blocks UDP, tcp is the best that gets through, with 97.0 ms.",
        ]
    );
    advice.places.truncate(2);
    assert!(first(&advice)[2].contains("none of these gets through"), "{:?}", first(&advice));
    advice.places = vec![placed("tcp", 1, 97.0, false)];
    assert!(first(&advice)[2].contains("does not take UDP"), "{:?}", first(&advice));
    advice.places[0].needs_udp = None;
    assert!(!said(&advice)[2].contains("UDP"), "an older file does not say");
}
