//! Each format against its golden file, and against names that try to break it.
//!
//! `UPDATE_GOLDEN=1 cargo test --test results` writes the golden files anew; read the difference.

use crate::common;
use std::collections::BTreeMap;
use std::path::Path;

use deadheat::analysis::compare::{Change, compare};
use deadheat::measurements::Unit;
use deadheat::report::study::Form;
use deadheat::report::{self, Colour, Detail, Report, Samples, Style, map};
use deadheat::result::outcome::{Outcome, UNTRUSTED_GATE, Warning};
use deadheat::stats::runs::Promise;

use deadheat::stats;

/// All there is to say.
const FULL: Style = Style { colour: Colour::Never, width: 80, detail: Detail::Full };

fn render(format: &str, outcome: &Outcome) -> String {
    styled(format, outcome, &FULL)
}

fn brief(outcome: &Outcome, width: usize) -> String {
    styled("terminal", outcome, &Style { width, ..Style::default() })
}

fn styled(format: &str, outcome: &Outcome, style: &Style) -> String {
    let bytes = report::find(format).unwrap().render(&outcome.into(), style).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Every format that is made from the result alone; `hlog` has the other.
fn without_samples() -> impl Iterator<Item = &'static dyn Report> {
    report::ALL.iter().copied().filter(|report| report.samples() != Samples::Needed)
}

/// Holds `text` against `tests/golden/NAME.txt`.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (number, (got, want)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, want, "{name}, line {}", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "{name}: number of lines");
}

/// A page without its style, its script and its drawings, which have tests of their own; any other text
/// as it is.
fn words(text: &str) -> String {
    let parts = [("<style>", "</style>"), ("<script>", "</script>"), ("<svg", "</svg>")];
    let cut = |mut text: String, (start, end): (&str, &str)| {
        let mut kept = String::new();
        while let Some((before, rest)) = text.split_once(start) {
            kept.push_str(before);
            kept.push_str(start);
            text = rest.split_once(end).map_or(String::new(), |(_, rest)| format!("{end}{rest}"));
        }
        kept + &text
    };
    if !text.starts_with("<!doctype html>") {
        return text.to_owned();
    }
    let page = parts.into_iter().fold(text.to_owned(), cut);
    let policy = |line: &&str| !line.contains("Content-Security-Policy");
    page.lines().filter(policy).map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_format_is_as_its_golden_file() {
    for report in without_samples() {
        golden(report.id(), &words(&render(report.id(), &common::full())));
    }
    golden("terminal-duel", &render("terminal", &common::duel()));
    golden("terminal-varied", &render("terminal", &common::varied()));
    golden("terminal-path", &render("terminal", &common::emulated()));
    golden("terminal-minimal", &render("terminal", &common::minimal()));
    golden("terminal-ordinary", &render("terminal", &common::ordinary::crowded()));
}

#[test]
fn every_first_screen_is_as_its_golden_file() {
    let screens = common::ordinary::kinds().into_iter();
    let screens = screens.map(|(name, outcome)| format!("== {name}\n{}\n", brief(&outcome, 80)));
    golden("brief", &screens.collect::<String>());
}

/// With the line that names the saved file, a terminal of 80 by 24 and its prompt holds it.
#[test]
fn a_first_screen_is_one_screen_wherever_it_is_shown() {
    for (name, outcome) in common::ordinary::kinds() {
        let ordinary = brief(&outcome, 80);
        assert!(ordinary.lines().count() <= 24, "{name}:\n{ordinary}");
        for width in [40, 60, 80, 100, 200] {
            let text = brief(&outcome, width);
            let fits = |line: &str| line.chars().count() <= width;
            assert!(text.lines().all(fits), "{name} at {width}:\n{text}");
            if width >= 80 {
                let words = |text: &str| text.split_whitespace().count();
                assert!(words(&text) <= words(&ordinary), "{name}: a wide one is told more");
            }
        }
    }
}

#[test]
fn a_first_screen_says_first_what_speaks_against_its_answer() {
    let screens: BTreeMap<&str, Outcome> = common::ordinary::kinds().into_iter().collect();
    let text = brief(&screens["distrusted"], 200);
    let doubt = text.find("Not trusted: tcp differs from its own hidden copy by 14 %").unwrap();
    assert!(doubt < text.find("udp is ahead of tcp").unwrap(), "{text}");
    let text = brief(&screens["crowded"], 200);
    assert!(text.contains("With the trials that were excluded, tcp and udp: udp ahead."), "{text}");
    assert!(brief(&screens["failed"], 200).contains("no route to host"));
    let text = brief(&screens["widened"], 200);
    assert!(text.contains("margin widened: 41 %"), "{text}");
    assert!(render("markdown", &screens["widened"]).contains("margin widened: 41 %"));
}

#[test]
fn a_study_that_was_run_is_as_its_golden_files() {
    let run = common::study::run();
    let results = BTreeMap::from([("echoes".to_owned(), common::varied())]);
    for (form, file) in [
        (Form::Terminal, "study-terminal"),
        (Form::Markdown, "study-markdown"),
        (Form::Json, "study-json"),
    ] {
        golden(file, &report::study::render(&run, &results, form, &Style::default()).unwrap());
    }
}

#[test]
fn a_map_is_as_its_golden_files() {
    let map = common::map::map();
    for format in ["terminal", "markdown", "csv"] {
        golden(&format!("map-{format}"), &map::render(&map, format, &Style::default()).unwrap());
    }
    let json = map::render(&map, "json", &Style::default()).unwrap();
    assert_eq!(deadheat::result::map::file::parse(json.as_bytes()).unwrap(), map);
    let page = map::render(&map, "html", &Style::default()).unwrap();
    assert!(
        page.contains("<h2 id=\"points\">Points</h2>") && page.contains("id=\"m-map\""),
        "{page}"
    );
    assert!(page.contains(" at 1 of 12 points, and no other "), "{page}");
    // The title is the page's: of the tab, and at the top.
    assert_eq!(page.matches("Who is ahead where").count(), 2, "{page}");
    assert!(!page.contains("<i>nobody</i>"), "the words of others are escaped");
    let error = map::render(&map, "hlog", &Style::default()).unwrap_err();
    assert!(error.to_string().contains("valid: terminal, markdown, csv, json, html"), "{error}");
}

#[test]
fn what_came_of_several_studies_is_as_its_golden_files() {
    let first = common::study::run();
    let mut second = first.clone();
    second.name = "echoes-again".into();
    second.full = vec!["echoes".into()];
    (second.host, second.started) = ("busy".into(), "2026-01-03T00:00:00Z".into());
    second.races[0].trusted = false;
    let runs = [first, second];
    for (form, file) in [(Form::Terminal, "studies-terminal"), (Form::Markdown, "studies-markdown")]
    {
        golden(file, &report::studies::render(&runs, form, &Style::default()).unwrap());
    }
}

#[test]
fn knees_are_in_the_answer_and_in_a_table() {
    let mut outcome = common::varied();
    outcome.sweeps = common::everything().sweeps;
    outcome.sweeps.iter_mut().for_each(|sweep| sweep.contender %= 2);
    let text = render("markdown", &outcome);
    for said in [
        "tcp · placement=busy: the delivered load follows the offered load up to 4.98 Mbit/s (4.90 \
         Mbit/s to 5.05 Mbit/s).",
        "tcp · placement=busy: even 16.0 Mbit/s, the highest load, gets through.",
    ] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    let table = text.split("### Under rising load").nth(1).unwrap();
    assert!(table.contains("4.98 \\[4.90, 5.05\\]"), "{table}");
    assert!(table.contains("\\> 16.0") || table.contains("&gt; 16.0"), "{table}");
}

#[test]
fn a_wide_terminal_and_colour() {
    let style = Style { colour: Colour::Always, width: 160, ..FULL };
    let coloured = styled("terminal", &common::full(), &style);
    golden("terminal-wide-colour", &coloured);
    let plain = Style { colour: Colour::Never, ..style };
    let plain = styled("terminal", &common::full(), &plain);
    let mut stripped = coloured;
    for sgr in ["1", "4", "1;32", "1;36", "33", "1;31", "2", "0"] {
        stripped = stripped.replace(&format!("\u{1b}[{sgr}m"), "");
    }
    let stripped: Vec<&str> = stripped.lines().map(str::trim_end).collect();
    assert_eq!(stripped, plain.lines().collect::<Vec<_>>(), "colour adds nothing but colour");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for outcome in
        [common::full(), common::minimal(), common::hostile(), common::duel(), common::varied()]
    {
        for width in [40, 60, 80, 100, 200] {
            let style = Style { width, ..FULL };
            let text = styled("terminal", &outcome, &style);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    for colour in [Colour::Never, Colour::Always] {
        let style = Style { colour, ..FULL };
        let text = styled("terminal", &common::hostile(), &style);
        let own = |c: char| c == '\n' || (c == '\u{1b}' && colour == Colour::Always);
        assert!(!text.chars().any(|c| c.is_control() && !own(c)));
        assert!(!text.contains("\u{1b}[31m<b>") && !text.contains('\u{202e}'));
        // Wrapping may break it anywhere.
        assert!(text.replace(['\n', ' '], "").contains("a|b,\"c\"\\n\\u{1b}[31m<b>&`x`</b>"));
    }
}

#[test]
fn hostile_names_do_not_break_markdown() {
    for format in ["markdown", "comment"] {
        is_not_broken(&render(format, &common::hostile()));
    }
}

fn is_not_broken(text: &str) {
    assert!(!text.contains("<b>") && !text.contains("@all") && !text.contains("[z]("));
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    let mut cells = None;
    for line in text.lines() {
        if !line.starts_with('|') {
            cells = None;
            continue;
        }
        let borders = line.replace("\\|", "").matches('|').count();
        assert_eq!(*cells.get_or_insert(borders), borders, "{line}");
    }
}

#[test]
fn hostile_names_survive_csv_and_json() {
    let outcome = common::hostile();
    let rows = read_csv(&render("csv", &outcome));
    assert!(rows.iter().all(|row| row.len() == 12));
    assert_eq!(rows.len(), 1 + outcome.trials.len() * outcome.metrics.len());
    let label = &outcome.contenders[common::UDP].label;
    assert_eq!(rows[1][2], deadheat::foreign::visible(label));
    let read: Outcome = serde_json::from_str(&render("json", &outcome)).unwrap();
    assert_eq!(read, outcome);
}

/// RFC 4180, strictly.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let field = rows.last_mut().unwrap().last_mut().unwrap();
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => rows.last_mut().unwrap().push(String::new()),
            '\n' if !is_quoted => rows.push(vec![String::new()]),
            _ => field.push(c),
        }
    }
    assert!(!is_quoted);
    assert_eq!(rows.pop().unwrap(), [""]);
    rows
}

#[test]
fn csv_keeps_what_was_excluded_and_what_is_unknown() {
    let rows = read_csv(&render("csv", &common::full()));
    let count = |column: usize, value: &str| rows.iter().filter(|row| row[column] == value).count();
    assert_eq!(count(4, "false"), 3, "one excluded trial, three metrics");
    assert_eq!(count(8, "true"), 2, "two censored figures");
    assert_eq!(count(6, ""), 5, "five trials of udp know no PDV");
    assert_eq!(count(3, "true"), 24, "the control");
}

#[test]
fn a_race_that_is_not_trusted_says_so_first() {
    let mut outcome = common::full();
    if let Some(control) = &mut outcome.control {
        control.trusted = false;
        control.note = "tcp was ahead of its own copy".into();
    }
    outcome.warnings.push(Warning {
        code: UNTRUSTED_GATE.into(),
        message: "31 % of the trials failed their gate.".into(),
        advice: "Stop other work.".into(),
    });
    for format in ["terminal", "markdown"] {
        let text = render(format, &outcome);
        let doubt = text.find("Not trusted: tcp was ahead of its own copy").unwrap();
        let gate = text.find("Not trusted: 31 % of the trials failed").unwrap();
        let answer = text.find("is ahead of").or_else(|| text.find("nobody is ahead")).unwrap();
        assert!(doubt < answer && gate < answer, "{format}");
    }
}

#[test]
fn too_few_blocks_for_an_interval_are_told_and_no_interval_of_nothing() {
    let mut outcome = common::full();
    let control = outcome.control.iter_mut().flat_map(|control| &mut control.verdicts);
    for verdict in outcome.verdicts.iter_mut().chain(control) {
        (verdict.confidence, verdict.ratio) = (0.0, None);
    }
    for format in ["terminal", "markdown"] {
        let text = render(format, &outcome).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("first over second; too few blocks for an interval."), "{format}");
        assert!(!text.contains("with its 0 % interval"), "{format}: {text}");
    }
}

#[test]
fn groups_are_true_to_the_pairs() {
    let mut outcome = common::full();
    // tcp = unix, unix = bbr, but udp and bbr stay open and tcp against bbr too: no group of three.
    outcome.verdicts[4].outcome = stats::Outcome::DeadHeat;
    outcome.verdicts[4].more_blocks = None;
    let text = render("terminal", &outcome).replace("\n  ", " ");
    assert!(text.contains("Undecided: tcp:cc=bbr against tcp and udp ("), "{text}");
    assert!(!text.contains("tcp, unix and tcp:cc=bbr"));
    // All pairs tied: one group.
    for verdict in &mut outcome.verdicts {
        verdict.outcome = stats::Outcome::DeadHeat;
        verdict.ahead = None;
        verdict.more_blocks = None;
    }
    let text = render("terminal", &outcome).replace("\n  ", " ");
    assert!(text.contains("dead heat of all: tcp, unix, udp and tcp:cc=bbr"), "{text}");
    assert_eq!(text.matches(" 1= ").count(), 4, "{text}");
}

#[test]
fn damaged_references_do_not_panic() {
    let mut outcome = common::full();
    outcome.contenders.clear();
    for report in without_samples() {
        report.render(&(&outcome).into(), &FULL).unwrap();
        report.render(&(&outcome).into(), &Style::default()).unwrap();
    }
    outcome.metrics.clear();
    outcome.trials[0].record.cost.cpu_ns = u64::MAX;
    for verdict in &mut outcome.verdicts {
        verdict.ratio = None;
        verdict.a = usize::MAX;
        verdict.note.clear();
    }
    for summary in &mut outcome.summary {
        summary.estimate = f64::NAN;
    }
    for report in without_samples() {
        report.render(&(&outcome).into(), &Style { width: 0, ..FULL }).unwrap();
        report.render(&(&outcome).into(), &Style { width: 0, ..Style::default() }).unwrap();
    }
}

#[test]
fn two_races_compared() {
    let old = common::full();
    let mut new = common::full();
    new.host.kernel = "Linux 6.19.1".into();
    new.started = "2026-04-01T08:00:00Z".into();
    for trial in new.trials.iter_mut().filter(|trial| trial.contender == common::UDP) {
        trial.record.metrics.entry("rtt_p50_ns".into()).and_modify(|ns| *ns *= 1.3);
    }
    for summary in new.summary.iter_mut().filter(|summary| summary.contender == common::UDP) {
        if summary.metric == "rtt_p50_ns" {
            summary.estimate *= 1.3;
        }
    }
    new.contenders[common::ICMP].label = "icmp #2".into();
    let comparison = compare(&[&old], &[&new], Promise::Once);
    assert!(comparison.is_worse());
    let change = |label: &str| {
        let rows = &comparison.rows;
        let row = rows.iter().find(|r| r.contender == label && r.metric.name == "rtt_p50_ns");
        row.unwrap().change
    };
    assert_eq!(change("udp"), Some(Change::ChangedWorse));
    assert_eq!(change("tcp"), Some(Change::Same));
    assert_eq!(change("tcp:cc=bbr"), Some(Change::Undecided));
    golden(
        "compare",
        &report::compare::render(&comparison, "terminal", &Style::default()).unwrap(),
    );
    let back = compare(&[&new], &[&old], Promise::Once);
    assert!(!back.is_worse());
}

/// In a race for goodput, what both ends spent stands against the bytes that arrived, so that byte
/// streams and datagrams can be compared.
#[test]
fn a_race_for_goodput_shows_calls_and_cpu_time_by_bytes() {
    let mut outcome = common::full();
    assert!(!render("terminal", &outcome).contains("calls/MB"));
    outcome.metrics[0].unit = Unit::BitRate;
    for trial in &mut outcome.trials {
        trial.record.delivered_bytes = Some(2_000_000);
        trial.record.cost.syscalls = Some(6_000);
        if let Some(far) = &mut trial.record.far_cost {
            far.syscalls = Some(500);
        }
    }
    let shown = render("markdown", &outcome);
    let heading = shown.lines().find(|line| line.contains("calls/MB, near + far")).unwrap();
    assert!(heading.contains("/GB, near + far"), "{heading}");
    assert!(shown.contains("3000 + 250"), "{shown}");
}
