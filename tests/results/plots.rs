//! The figures of results: well-formed whatever a file holds, and as many marks as there are trials.

use crate::common;
use std::collections::BTreeSet;

use crate::common::large::{BLOCKS, CONTENDERS, large};
use deadheat::analysis::spread::five_numbers;
use deadheat::measurements::series::{Series, TcpColumns};
use deadheat::report::figure::Figure;
use deadheat::report::plot::{self, palette, style};
use deadheat::report::{Style, over_time};
use deadheat::result::outcome::{Outcome, Ratio};
use deadheat::result::study::model::{PublishedFigure, RaceCell, Study};
use deadheat::result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, PublishedComparison, Ruling, Setting, StudyRun,
    TestAnswer,
};

const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{202e}\u{0}\n]]>";

fn figures(outcome: &Outcome) -> Vec<Figure> {
    plot::figures(&outcome.into())
}

fn ids(figures: &[Figure]) -> Vec<&str> {
    figures.iter().map(|figure| figure.id.as_str()).collect()
}

fn find<'a>(figures: &'a [Figure], id: &str) -> &'a Figure {
    figures.iter().find(|figure| figure.id == id).unwrap()
}

fn marks(svg: &str) -> usize {
    svg.matches("class=\"m ").count()
}

/// Holds a drawing to XML: tags that close, attributes in quotes and once each, entities only.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        text(&rest[..start]);
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase()), "{tag}");
        assert_ne!(name, "script");
        attributes(&tag[name.len()..]);
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    text(rest);
    assert!(open.is_empty(), "{open:?}");
}

fn attributes(tag: &str) {
    let mut names = BTreeSet::new();
    let mut pieces = tag.trim_end_matches('/').split('"');
    while let Some(name) = pieces.next().map(str::trim).filter(|name| !name.is_empty()) {
        let name = name.strip_suffix('=').unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-'), "{tag}");
        assert!(!name.starts_with("on") && name != "style", "{tag}");
        assert!(names.insert(name), "{tag}");
        let value = pieces.next().unwrap();
        text(value);
        if ["x", "y", "cx", "cy", "r", "width", "height"].contains(&name) {
            assert!(value.parse::<f64>().unwrap().is_finite(), "{tag}");
        }
    }
}

fn text(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
    for entity in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|known| entity.starts_with(known)), "{text}");
    }
}

fn check(figures: &[Figure]) {
    let mut seen = BTreeSet::new();
    for figure in figures {
        assert!(seen.insert(&figure.id), "{} twice", figure.id);
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(figure.id.bytes().all(is_plain), "{}", figure.id);
        well_formed(&figure.wide);
        well_formed(&figure.narrow);
        assert!(figure.wide.contains("viewBox=\"0 0 760 "));
        assert!(figure.narrow.contains("viewBox=\"0 0 340 "));
        assert!(!figure.title.is_empty() && !figure.caption.is_empty());
        let columns = figure.numbers.headings.len();
        assert!(figure.numbers.rows.iter().all(|row| row.len() == columns), "{}", figure.id);
        assert_eq!(marks(&figure.wide), marks(&figure.narrow), "{}", figure.id);
    }
}

#[test]
fn each_kind_of_race_has_its_figures() {
    let full = figures(&common::full());
    assert_eq!(
        ids(&full),
        [
            "pairs-rtt-p50-ns",
            "trials-rtt-p50-ns",
            "trials-rtt-p99-ns",
            "trials-pdv-p99-ns",
            "distribution",
            "time-rtt-p50-ns",
            "time-rtt-p99-ns",
            "within-trial",
            "split",
            "cpu"
        ]
    );
    let varied = figures(&common::varied());
    for id in ["levels-placement", "levels-size", "shares"] {
        find(&varied, id);
    }
    assert!(figures(&common::minimal()).is_empty());
}

#[test]
fn drawings_are_well_formed_and_fit_for_a_phone() {
    let all = [
        common::full(),
        common::everything(),
        common::varied(),
        common::emulated(),
        common::duel(),
        common::minimal(),
        common::hostile(),
        large(),
    ];
    for outcome in all {
        check(&figures(&outcome));
    }
}

#[test]
fn every_trial_is_a_mark_and_no_copy_is() {
    let figures = figures(&large());
    let trials = find(&figures, "trials-rtt-p90-ns");
    let clusters = trials.wide.matches(": a cluster of trials").count();
    assert_eq!(clusters, 2, "one contender has two regimes");
    assert_eq!(marks(&trials.wide) - clusters, CONTENDERS * BLOCKS as usize);
    // Excluded ones are hollow, and in no line of drift.
    let hollow = trials.wide.matches("excluded\"").count();
    assert_eq!(hollow, 3);
    let drift = find(&figures, "time-rtt-p50-ns");
    assert_eq!(marks(&drift.wide), CONTENDERS * BLOCKS as usize - hollow);
    let censored = find(&figures, "trials-rtt-p999-ns");
    assert!(censored.wide.contains("udp, block 4: &gt; 3.00 s"));
}

/// Of a contender whose slowest messages have no answer only a bound is known: the true ratio lies further from 1.
#[test]
fn what_is_censored_is_drawn_beyond_its_figure() {
    let mut outcome = common::full();
    let metric = outcome.verdicts[0].metric.clone();
    let (a, b) = (outcome.verdicts[0].a, outcome.verdicts[0].b);
    let before = find(&figures(&outcome), &format!("pairs-{metric}").replace('_', "-")).clone();
    let censored = outcome.trials.iter_mut().filter(|trial| trial.contender == b && !trial.control);
    censored.for_each(|trial| trial.record.censored.push(metric.clone()));
    let after = find(&figures(&outcome), &format!("pairs-{metric}").replace('_', "-")).clone();
    assert!(after.caption.contains("arrowhead") && !before.caption.contains("arrowhead"));
    assert!(after.wide.contains("at most ") && !before.wide.contains("at most "), "{a} {b}");
    for distribution in figures(&outcome).iter().filter(|figure| figure.id == "distribution") {
        let lost = distribution.numbers.rows.iter().any(|row| row[2] != "0");
        assert_eq!(distribution.wide.contains("have no answer"), lost);
    }
}

/// A line between two kinds of things would show values between them, which do not exist.
#[test]
fn categories_are_not_joined_by_lines_and_quantities_are() {
    let all = figures(&common::varied());
    let lines = |id: &str| find(&all, id).wide.matches("class=\"l c").count();
    // The key of either has one line for each contender.
    assert!(lines("levels-size") > lines("levels-placement"));
    assert!(lines("levels-placement") > 0);
}

#[test]
fn the_numbers_are_those_of_the_box() {
    let outcome = common::duel();
    let figures = figures(&outcome);
    let numbers = &find(&figures, "trials-rtt-p50-ns").numbers;
    let row = numbers.rows.iter().find(|row| row[0] == "tcp").unwrap();
    let own = |trial: &&deadheat::result::outcome::Trial| {
        trial.contender == common::TCP && !trial.control && trial.record.valid
    };
    let mut values: Vec<f64> =
        outcome.trials.iter().filter(own).map(|t| t.record.metrics["rtt_p50_ns"]).collect();
    let five = five_numbers(&mut values).unwrap();
    assert_eq!(row[1], five.n.to_string());
    let cells: Vec<f64> = row[4..].iter().map(|cell| cell.parse().unwrap()).collect();
    let want = [five.min, five.q1, five.median, five.q3, five.max].map(|ns| ns / 1_000.0);
    for (cell, want) in cells.iter().zip(want) {
        assert!((cell / want - 1.0).abs() < 1e-5, "{row:?}");
    }
    assert_eq!(numbers.headings[4], "least, µs");
}

#[test]
fn a_large_race_is_small_enough_for_a_page() {
    let figures = figures(&large());
    let bytes: usize = figures.iter().map(|figure| figure.wide.len() + figure.narrow.len()).sum();
    assert!(bytes < 1_100_000, "{bytes}");
}

#[test]
fn many_trials_are_drawn_without_a_word_for_each() {
    let mut outcome = large();
    let trials = outcome.trials.clone();
    for round in 1..10 {
        outcome.trials.extend(trials.iter().cloned().map(|mut trial| {
            trial.block += round * BLOCKS;
            trial
        }));
    }
    let figures = figures(&outcome);
    check(&figures);
    let bytes: usize = figures.iter().map(|figure| figure.wide.len() + figure.narrow.len()).sum();
    assert!(bytes < 1_100_000, "{bytes}");
    // Every one is there all the same: a dot is a line of no length.
    let dots = find(&figures, "trials-rtt-p90-ns").wide.matches("h0").count();
    assert_eq!(dots, 10 * CONTENDERS * BLOCKS as usize - 30);
}

#[test]
fn what_a_file_says_never_becomes_markup() {
    let mut outcome = large();
    for entrant in &mut outcome.contenders {
        entrant.label = format!("{}{HOSTILE}{}", entrant.id, "x".repeat(1_000));
    }
    for metric in &mut outcome.metrics {
        metric.label = HOSTILE.into();
        metric.name = format!("{HOSTILE}{}", metric.name);
    }
    for trial in &mut outcome.trials {
        let figures = std::mem::take(&mut trial.record.metrics);
        trial.record.metrics =
            figures.into_iter().map(|(name, value)| (format!("{HOSTILE}{name}"), value)).collect();
    }
    let figures = figures(&outcome);
    assert!(figures.len() > 6, "{:?}", ids(&figures));
    check(&figures);
    let whole = &find(&figures, "cpu").numbers.rows[0][0];
    assert!(whole.len() > 1_000, "numbers carry the whole name");
}

#[test]
fn any_figure_at_all_is_drawn_or_left_out() {
    let hostile = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e308, -1e308, 5e-324, 1.0];
    for (at, value) in hostile.iter().enumerate() {
        let mut outcome = common::everything();
        for (n, trial) in outcome.trials.iter_mut().enumerate() {
            let figure = if n % 3 == 0 { hostile[(at + n) % hostile.len()] } else { *value };
            trial.record.metrics.values_mut().for_each(|old| *old = figure);
        }
        for verdict in &mut outcome.verdicts {
            verdict.ratio = Some(Ratio { point: *value, low: *value, high: f64::NAN });
            verdict.margin = *value;
        }
        outcome.summary.iter_mut().for_each(|summary| summary.estimate = *value);
        outcome.shares.iter_mut().for_each(|share| share.share = *value);
        outcome.sweeps.iter_mut().for_each(|sweep| sweep.knee.bps = *value);
        for found in outcome.explain.iter_mut().flat_map(|e| &mut e.contenders) {
            for part in found.round_trip.iter_mut().flat_map(|trip| &mut trip.parts) {
                part.ns = *value;
            }
        }
        check(&figures(&outcome));
    }
}

#[test]
fn races_with_little_in_them_have_few_figures() {
    let mut none = common::full();
    none.trials.clear();
    none.verdicts.clear();
    none.control = None;
    assert_eq!(ids(&figures(&none)), ["split"]);
    let mut one = common::full();
    one.trials.truncate(1);
    let one = figures(&one);
    check(&one);
    assert_eq!(marks(&find(&one, "trials-rtt-p50-ns").wide), 1);
    let mut excluded = common::full();
    excluded.trials.iter_mut().for_each(|trial| trial.record.valid = false);
    check(&figures(&excluded));
    let mut foreign = common::full();
    foreign.contenders.truncate(1);
    foreign.contenders[0].id = 77;
    foreign.contenders[0].colour = "url(#x)".into();
    check(&figures(&foreign));
}

#[test]
fn each_contender_has_a_colour_of_its_own() {
    let tints = palette::tints(&large());
    let light: BTreeSet<&str> = tints.iter().map(|tint| tint.light.as_str()).collect();
    let dark: BTreeSet<&str> = tints.iter().map(|tint| tint.dark.as_str()).collect();
    assert_eq!((tints.len(), light.len(), dark.len()), (CONTENDERS, CONTENDERS, CONTENDERS));
    let (light, dark, classes) = style::variables(&palette::tints(&large()));
    assert!(light.starts_with("--c0:#") && dark.starts_with("--c0:#"));
    assert!(classes.contains(".c7{--c:var(--c7)}") && classes.contains(".p0{"));
}

#[test]
fn a_figure_stands_alone_with_its_words_and_colours() {
    let mut outcome = common::duel();
    outcome.metrics[0].label = "<b>RTT</b>".into();
    let figures = figures(&outcome);
    let svg = style::standalone(&figures[0], &palette::tints(&outcome));
    well_formed(svg.trim_end());
    assert!(svg.contains("<title>&lt;b&gt;RTT&lt;/b&gt;: pairs against the margin</title>"));
    for said in
        ["<desc>", "prefers-color-scheme:dark", "--c0:#", "xmlns=\"http://www.w3.org/2000/svg\""]
    {
        assert!(svg.contains(said), "{said}");
    }
}

#[test]
fn a_map_is_drawn_with_a_letter_in_every_cell_and_a_colour_for_every_contender() {
    let map = common::map::map();
    let svg = deadheat::report::map::picture(&map);
    well_formed(svg.trim_end());
    let figure = plot::map_figure(&map);
    well_formed(&figure.narrow);
    // Two panels, of rate=1mbit and rate=10mbit, with a cell for each point that is done.
    assert!(svg.contains(">rate=1mbit<") && svg.contains(">rate=10mbit<"), "{svg}");
    // A cell that is undecided, its sample in the key, and that of a leader in the figures.
    assert_eq!(svg.matches("class=\"m n\"").count(), 3, "{svg}");
    for mark in [">T=U<", ">T=U=D=C<", ">d<", ">U<", ">?D<"] {
        assert!(svg.contains(mark), "{mark}: {svg}");
    }
    for said in
        ["delay, each way", "loss, each way", ">undecided<", ">no contender got through<", ">×<"]
    {
        assert!(svg.contains(said), "{said}: {svg}");
    }
    assert_eq!(figure.numbers.rows.len(), map.points.len());
    let tints = palette::areas(map.contenders.iter().map(|one| one.colour.as_str()));
    let light: BTreeSet<&str> = tints.iter().map(|tint| tint.light.as_str()).collect();
    assert_eq!(light.len(), map.contenders.len());
}

const STUDY: &str = r#"
title = "A <b>study</b>"
question = "Does it hold?"
[[race]]
id = "echo"
variant = "as_published"
about = "Echoes."
contenders = ["tcp", "udp"]
workload = "ping"
[[claim]]
id = "faster"
says = "UDP is <i>faster</i> than TCP, whatever the size of what is sent, under each of the conditions that were looked at."
[[claim.test]]
race = "echo"
metric = "rtt_p50_ns"
of = { contender = "udp" }
against = { contender = "tcp" }
expect = "below 0.95"
"#;

fn study() -> StudyRun {
    let study: Study = toml::from_str(STUDY).unwrap();
    let interval =
        |point: f64| EstimateInterval { point, low: Some(0.9 * point), high: Some(1.1 * point) };
    let beside = |contender: &str, ratio: f64, measured: Option<f64>| PublishedComparison {
        published: PublishedFigure {
            race: "echo".into(),
            metric: "rtt_p50_ns".into(),
            cell: RaceCell { contender: contender.into(), levels: [].into() },
            value: "310us".into(),
            stddev: None,
            range: None,
            at: None,
            line: String::new(),
            note: String::new(),
        },
        value: 310_000.0 * ratio,
        measured: measured.map(|ratio| interval(45_000.0 * ratio)),
        published_ratio: ratio,
        measured_ratio: measured.map(interval),
        published_rank: 1,
        measured_rank: Some(1),
    };
    let answer = |answer| TestAnswer {
        test: study.claims[0].tests[0].clone(),
        answer,
        seen: Some(interval(0.8)),
        blocks: 8,
        confidence: Some(0.95),
    };
    StudyRun {
        study_format: 1,
        deadheat: common::full().deadheat,
        name: "echoes".into(),
        setting: Setting::Quick,
        full: Vec::new(),
        started: "2026-03-14T15:09:26Z".into(),
        host: "alpha".into(),
        races: Vec::new(),
        beside: vec![
            beside("tcp", 1.0, Some(1.0)),
            beside("udp", 0.4, Some(0.8)),
            beside(HOSTILE, f64::NAN, None),
        ],
        rulings: vec![ClaimRuling {
            id: "faster".into(),
            ruling: Ruling::Depends,
            answers: [AnswerKind::Yes, AnswerKind::No, AnswerKind::Open].map(answer).to_vec(),
            note: String::new(),
        }],
        study,
    }
}

/// The elements of a drawing with exactly these classes.
fn elements<'a>(drawing: &'a str, classes: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("class=\"{classes}\"");
    drawing.split('<').filter(move |tag| tag.contains(&start))
}

#[test]
fn a_study_shows_published_beside_measured_and_its_claims() {
    let run = study();
    let figures = plot::study_figures(&run);
    check(&figures);
    assert_eq!(ids(&figures), ["published", "claims"]);
    // Two measured, two published; what is no number has no place.
    assert_eq!(marks(&figures[0].wide), 4);
    assert_eq!(figures[0].numbers.rows[1][5..7], ["0.4000", "0.8000"]);
    // Each measured one has an interval with a length.
    let intervals: Vec<&str> = elements(&figures[0].wide, "w i").collect();
    assert_eq!(intervals.len(), 2, "{}", figures[0].wide);
    // A study has no contenders, so that a colour of one would be none: no stroke, and black marks.
    for drawing in figures.iter().flat_map(|figure| [&figure.wide, &figure.narrow]) {
        for tag in drawing.split('<').filter(|tag| tag.contains("class=\"")) {
            let classes = tag.split("class=\"").nth(1).unwrap().split('"').next().unwrap();
            let classes: Vec<&str> = classes.split(' ').collect();
            let coloured = ["d", "o", "l", "w", "q", "b", "s", "f"];
            let is_coloured = classes.iter().any(|class| coloured.contains(class));
            let has_theme = classes.iter().any(|class| ["u", "i"].contains(class));
            assert!(!is_coloured || has_theme, "{tag}");
        }
    }
    assert_eq!(marks(&figures[1].wide), 3);
    assert_eq!(figures[1].numbers.rows[0][1..], ["depends", "yes, no, open"]);
    let empty = StudyRun { beside: Vec::new(), rulings: Vec::new(), ..run };
    assert!(plot::study_figures(&empty).is_empty());
    assert!(plot::claim_figures(&empty).is_empty());
}

#[test]
fn a_claim_is_drawn_with_the_range_that_it_says() {
    let mut run = study();
    let answers = &mut run.rulings[0].answers;
    answers[2].seen = Some(EstimateInterval { point: 3.0, low: Some(2.0), high: None });
    let figures = plot::claim_figures(&run);
    check(&figures);
    assert_eq!(ids(&figures), ["claim-faster"]);
    let drawing = &figures[0].wide;
    assert_eq!(marks(drawing), 3);
    // A range for each test, and an interval for each, of which one has no end.
    assert_eq!(elements(drawing, "z").count(), 3, "{drawing}");
    assert_eq!(elements(drawing, "w i").count(), 3, "{drawing}");
    assert_eq!(elements(drawing, "m o u").count(), 2, "{drawing}");
    assert!(drawing.contains("udp over tcp: 80 % [72 %, 88 %], yes"), "{drawing}");
    let row = &figures[0].numbers.rows[2];
    assert_eq!(row[2..], ["below 0.95", "3.0000", "2.0000", "–", "open"]);
    // A figure by itself has no ratio to draw, and neither has a ratio that is no number.
    run.rulings[0].answers[0].test.against = None;
    run.rulings[0].answers[1].seen = None;
    run.rulings[0].answers[2].seen =
        Some(EstimateInterval { point: f64::NAN, low: None, high: None });
    assert!(plot::claim_figures(&run).is_empty());
}

/// A window that grows, and what was sent again.
#[test]
fn flows_of_a_load_are_drawn_and_written_with_their_windows() {
    let mut outcome = common::everything();
    let before = ids(&figures(&outcome)).contains(&"load-window");
    assert!(!before, "there is no load");
    let tcp = TcpColumns {
        cwnd_bytes: vec![Some(14_480), Some(28_960)],
        srtt_ns: vec![Some(10_000_000), Some(11_000_000)],
        retransmits: vec![Some(0), Some(3)],
        ..TcpColumns::default()
    };
    let series = Series {
        interval_ns: 100_000_000,
        at_ns: vec![100_000_000, 200_000_000],
        sent_bytes: vec![10_000, 30_000],
        received_bytes: vec![0, 0],
        tcp: Some(tcp),
        ..Series::new(100_000_000, &[])
    };
    for trial in &mut outcome.trials {
        trial.record.load_intervals = vec![series.clone(), series.clone()];
    }
    let figures = figures(&outcome);
    for id in ["load-window", "load-rtt"] {
        let figure = find(&figures, id);
        well_formed(&figure.wide);
        let row = &figure.numbers.rows[1];
        assert_eq!(row[1..], ["near 0", "200 ms", "29.0", "11.0 ms", "3"], "{row:?}");
    }
    let text = over_time::csv(&outcome);
    let rows = text.lines().filter(|row| row.contains(",load-near,1,100000000,200000000,20000,"));
    assert_eq!(rows.count(), outcome.trials.len());
}

#[test]
fn a_network_of_several_hosts_is_drawn_with_the_account_of_each_link() {
    let mut outcome = common::emulated();
    assert!(!ids(&figures(&outcome)).contains(&"network"), "two hosts are no drawing");
    let links = ["home--isp:delay=25ms,up.loss=1%,rate=20mbit", "isp--cloud:delay=40ms"];
    outcome.asked.path = links.join(" + ");
    let built = outcome.path.built.as_mut().unwrap();
    for (link, words) in built.links.iter_mut().zip(links) {
        link.words = words.into();
    }
    let figures = figures(&outcome);
    let figure = find(&figures, "network");
    well_formed(&figure.wide);
    well_formed(&figure.narrow);
    assert_eq!(marks(&figure.wide), 3, "a mark for each host");
    let row = figure.numbers.rows.iter().find(|row| row[0] == "home → isp").unwrap();
    assert_eq!(
        row[1..5],
        ["delay=25ms, loss=1%, rate=20mbit", "way there, bottleneck", "460123", "4607"]
    );
    let text = deadheat::report::find("markdown").unwrap();
    let text = text.render(&(&outcome).into(), &Style::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    for words in ["└─ cloud", "isp to home", "home to cloud", "isp--cloud"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    assert!(!text.contains("link 2"), "{text}");
}
