//! A line that was surveyed, on at most 25 lines of a terminal: round trips of the idle and of the busy line, goodput,
//! loss, and the transports that get through; over days, the hours, too.

use super::document::{Block, Cell, Column, Document, Line, Section, Table, Tone};
use super::figure::Figure;
use super::opening::{Opening, OpeningFigure};
use super::plot::line::LineRow;
use super::words::{self, Scale};
use super::{Style, html, markdown, plot, terminal, why};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_contract::contract::Direction;
use deadheat_result::causes::Cause;
use deadheat_result::line::figures::{self, few_rounds, per_minute};
use deadheat_result::line::hours::{FigureCourse, SurveyFigure, course};
use deadheat_result::line::outcome::{LineFigure, LineFilling, LineOutcome, Survey};
use deadheat_result::line::part::{LinePart, MANY};
use deadheat_result::{date, layout};

pub mod compare;
mod facts;

/// Formats of a surveyed line; the first is the default.
pub const FORMATS: &[&str] = &["terminal", "markdown", "json", html::ID];

/// Renders the surveys of a line in the form called `format`; with a newline at its end.
///
/// # Errors
/// [`Error::Usage`] for a format that a line does not have; [`Error::Data`] if it cannot be written as JSON.
pub fn render(line: &LineOutcome, format: &str, style: &Style) -> Result<String> {
    match format {
        "terminal" => Ok(screen(line, style)),
        "markdown" => Ok(markdown::render(&document(line, Extent::Whole))),
        "json" => layout::text(line)
            .map(|text| text + "\n")
            .map_err(|e| Error::data("line", format!("cannot be written as JSON: {e}"))),
        html::ID => {
            let document = document(line, Extent::Whole);
            Ok(html::of_document(&document, &opening(line), drawing(line).as_ref(), &[]))
        }
        other => Err(unknown("format", other, FORMATS)),
    }
}

/// Extent of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it.
    Whole,
    /// As much as a screen takes.
    Screen,
}

/// Most lines of a single survey on a terminal.
const SCREEN: usize = 25;

/// Returns the text for a terminal. If a survey has more to tell than fits, each sentence and fact is cut to one line.
fn screen(line: &LineOutcome, style: &Style) -> String {
    let mut document = document(line, Extent::Screen);
    let text = terminal::render(&document, style);
    if line.surveys.len() > 1 || text.lines().count() <= SCREEN {
        return text;
    }
    for block in document.sections.iter_mut().flat_map(|section| &mut section.blocks) {
        match block {
            Block::Facts(facts) => facts::shorten(facts, style.width),
            // The first sentence is the answer.
            Block::Sentences(lines) => lines.iter_mut().skip(1).for_each(|line| {
                line.text = facts::shortened(&line.text, style.width.saturating_sub(2));
            }),
            _ => {}
        }
    }
    terminal::render(&document, style)
}

fn document(line: &LineOutcome, extent: Extent) -> Document {
    let mut sections = Vec::new();
    if let Some(survey) = line.last() {
        let answer = answer(survey, &line.works.load);
        sections.push(Section::new("", vec![Block::Sentences(answer)]));
        sections.push(Section::new("", vec![Block::Table(busy(survey, &line.works.load))]));
        sections.push(Section::new("", vec![Block::Facts(facts::facts(line, survey, extent))]));
    }
    sections.push(Section::new("Over time", over_time(line)));
    Document {
        title: title(line),
        subtitle: subtitle(line),
        sections: sections.into_iter().flatten().collect(),
    }
}

/// Draws the round trips of the last survey, of the idle line and beside each load.
fn drawing(line: &LineOutcome) -> Option<Figure> {
    let survey = line.last()?;
    let row = |part: LinePart| {
        let label = head(part, &line.works.load);
        let goodput = figures::goodput(part);
        Some(LineRow {
            label,
            rtt: survey.figure(&figures::rtt(part))?,
            goodput: survey.figure(&goodput),
        })
    };
    let parts = LinePart::ALL.into_iter().filter(|part| *part != LinePart::Paced);
    plot::line::figure(&parts.filter_map(row).collect::<Vec<_>>())
}

/// Returns the load of a part in words: `while 8 connections fill the line up`.
fn load_beside(survey: &Survey, part: LinePart) -> String {
    let is_filled = filling(survey, part).is_none_or(|how| how == LineFilling::Full);
    if is_filled {
        format!("while {MANY} connections fill the line {}", way(part))
    } else {
        format!("beside {MANY} connections {}, which did not fill the line", way(part))
    }
}

/// Returns the load beside which small messages took longest, with their round trip.
fn worst(survey: &Survey) -> Option<(LinePart, &LineFigure)> {
    let busy = [LinePart::Up8, LinePart::Down8, LinePart::Both8];
    let rtt = |part: LinePart| Some((part, survey.figure(&figures::rtt(part))?));
    busy.into_iter().filter_map(rtt).max_by(|(_, a), (_, b)| a.point.total_cmp(&b.point))
}

/// Returns the first screen of a page: the answer of the last survey, its round trip under load, which is what a user
/// of the line feels, and its rounds.
fn opening(line: &LineOutcome) -> Opening {
    let Some(survey) = line.last() else {
        let headlines = vec![Line::new("No survey yet.", Tone::Open)];
        return Opening { headlines, ..Opening::default() };
    };
    let (doubts, said): (Vec<Line>, Vec<Line>) =
        answer(survey, &line.works.load).into_iter().partition(|line| line.tone != Tone::Plain);
    let idle = survey.figure(&figures::rtt(LinePart::Idle));
    let of_load = worst(survey).map(|(part, rtt)| {
        let beside = idle.map_or_else(String::new, |idle| format!("; {} when idle", amount(idle)));
        let load = load_beside(survey, part);
        (rtt, format!("typical round trip of a small message {load}{beside}"))
    });
    let of_idle = idle
        .map(|idle| (idle, "typical round trip of a small message on the idle line".to_owned()));
    let figure = of_load.or(of_idle).map(|(rtt, about)| OpeningFigure {
        value: amount(rtt),
        interval: match rtt.rounds {
            1 => String::new(),
            n => format!(
                "{} to {}, {n} rounds",
                words::figure(rtt.low, rtt.unit),
                words::figure(rtt.high, rtt.unit)
            ),
        },
        about,
    });
    let mut trust: Vec<Line> = doubts
        .into_iter()
        .map(|line| if line.tone == Tone::Aside { Line::new(line.text, Tone::Open) } else { line })
        .collect();
    if trust.is_empty() {
        trust.push(Line::new(
            "The survey is whole, and none of its trials was left out.",
            Tone::Good,
        ));
    }
    Opening { headlines: said, figure, trust }
}

fn title(line: &LineOutcome) -> String {
    let path = &line.path;
    if path.address.is_empty() || path.address.contains(&path.spec) {
        format!("The line to {}", path.spec)
    } else {
        format!("The line to {} ({})", path.spec, path.address)
    }
}

fn subtitle(line: &LineOutcome) -> String {
    let Some(survey) = line.last() else { return String::new() };
    let last = format!(
        "{} in {} s, from {}",
        words::count(survey.rounds, "round"),
        survey.took_ns / 1_000_000_000,
        at(survey.started_ms)
    );
    match line.surveys.len() {
        1 => last,
        n => format!("the last of {}: {last}", words::count(n as u64, "survey")),
    }
}

/// Returns the time of day and the date, UTC.
fn at(ms: u64) -> String {
    format!("{} UTC", date::minute(ms))
}

/// Returns the sentences about the idle and the full line, then the faults. `load` names the contender of the loads.
fn answer(survey: &Survey, load: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let rtt = |part| survey.figure(&figures::rtt(part));
    let mut parts = Vec::new();
    if let Some(idle) = rtt(LinePart::Idle) {
        parts.push(format!("idle, a small message takes {} there and back", amount(idle)));
    }
    if let Some((part, worst)) = worst(survey) {
        let beside = load_beside(survey, part);
        parts.push(format!(
            "{beside}, it takes {}: {} round trips a minute",
            amount(worst),
            words::significant(per_minute(worst.point))
        ));
    }
    if !parts.is_empty() {
        let text = format!("{}.", words::capital(&parts.join("; ")));
        lines.push(Line::new(text, Tone::Plain));
    }
    if let Some(first) = survey.reach.first()
        && first.why_not.is_some()
        && !survey.probe.is_empty()
    {
        let text = format!(
            "{} does not get through; small messages went over {}.",
            first.contender, survey.probe
        );
        lines.push(Line::new(text, Tone::Bad));
    }
    if let Some(why) = &survey.ended {
        lines.push(Line::new(format!("Ended early: {why}"), Tone::Bad));
    }
    let mut excluded = survey.trials.iter().filter_map(|trial| trial.why_invalid.as_ref());
    if let Some(first) = excluded.next() {
        let all = words::count(1 + excluded.count() as u64, "trial");
        let marked = if survey.figures.iter().any(|figure| figure.untrusted) {
            " (figures with ? are of such trials alone, and not to be trusted)"
        } else {
            ""
        };
        let n = survey.trials.len();
        let text = format!("Not counted: {all} of {n}{marked}; the first: {first}.");
        lines.push(Line::new(text, Tone::Bad));
    }
    lines.extend(unfilled(survey, load).map(|text| Line::new(text, Tone::Open)));
    lines.extend(slower_alone(survey, load).into_iter().map(|text| Line::new(text, Tone::Plain)));
    if !survey.left_out.is_empty() {
        let names: Vec<String> = survey.left_out.iter().map(|part| head(*part, load)).collect();
        let text = format!(
            "Not known in this time: {}; a longer --budget has room for more.",
            words::list(&names)
        );
        lines.push(Line::new(text, Tone::Open));
    }
    let is_whole = survey.ended.is_none() && survey.rounds > 0;
    if let Some(note) = few_rounds(survey).filter(|_| is_whole) {
        lines.push(Line::new(format!("{note}."), Tone::Aside));
    }
    lines
}

/// Returns how far the load of a part filled the line, if it is known.
fn filling(survey: &Survey, part: LinePart) -> Option<LineFilling> {
    survey.figure(&figures::goodput(part))?.filling
}

/// Returns a sentence about the loads that did not fill the line: their goodput is not what it carries.
fn unfilled(survey: &Survey, load: &str) -> Option<String> {
    let mut named: Vec<(String, Vec<String>)> = Vec::new();
    for how in [LineFilling::Growing, LineFilling::Unfilled] {
        let parts = LinePart::ALL.into_iter().filter(|part| filling(survey, *part) == Some(how));
        for part in parts {
            let why = match how {
                LineFilling::Growing => "still growing at the end".to_owned(),
                _ => cause_of_load(survey, part).unwrap_or_else(|| {
                    "nothing waited and nothing was lost: the hosts or a window held it".to_owned()
                }),
            };
            match named.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(head(part, load)),
                None => named.push((why, vec![head(part, load)])),
            }
        }
    }
    let named: Vec<String> =
        named.iter().map(|(why, names)| format!("{} ({why})", words::list(names))).collect();
    (!named.is_empty()).then(|| format!("Did not fill the line: {}.", named.join("; ")))
}

/// Returns the first cause that held the load of a part back, if it is not the line itself.
fn cause_of_load(survey: &Survey, part: LinePart) -> Option<String> {
    let first = survey.load_causes(part).into_iter().next()?;
    let whose = if part.load().is_some_and(|(_, flows)| flows > 1) { "their" } else { "its" };
    (first.cause != Cause::PathRate).then(|| why::in_full(&first, whose))
}

/// Returns sentences about single connections that got notably less than several did, with their cause.
fn slower_alone(survey: &Survey, load: &str) -> Vec<String> {
    let pairs = [(LinePart::Up1, LinePart::Up8), (LinePart::Down1, LinePart::Down8)];
    let sentence = |(one, many): (LinePart, LinePart)| {
        let goodput = |part| survey.figure(&figures::goodput(part));
        let (alone, together) = (goodput(one)?, goodput(many)?);
        let is_known = alone.filling != Some(LineFilling::Unfilled);
        let why = cause_of_load(survey, one).filter(|_| is_known && alone.high < together.low)?;
        let (one, many) = (head(one, load), head(many, load));
        Some(format!("{one} is behind {many}: {why}."))
    };
    pairs.into_iter().filter_map(sentence).collect()
}

/// Returns the name of a part: `8 tcp up`.
fn head(part: LinePart, load: &str) -> String {
    match part.load() {
        Some((_, flows)) => format!("{flows} {load} {}", way(part)),
        None => part.name().to_owned(),
    }
}

fn way(part: LinePart) -> &'static str {
    match part.load() {
        Some((Some(Direction::Up), _)) => "up",
        Some((Some(Direction::Down), _)) => "down",
        Some((None, _)) => "both ways",
        None => "not at all",
    }
}

/// Returns a figure without its interval; "> 3.00 s" if it is censored, or the goodput of a load that the line had more
/// room for; "3.00 s ?" if it is not to be trusted.
fn amount(figure: &LineFigure) -> String {
    let is_more = matches!(figure.filling, Some(LineFilling::Growing));
    let shown = if figure.censored || is_more {
        words::beyond(figure.point, figure.unit)
    } else {
        words::figure(figure.point, figure.unit)
    };
    if figure.untrusted { format!("{shown} ?") } else { shown }
}

/// Returns a figure with its interval.
fn with_interval(figure: &LineFigure) -> Cell {
    let scale = Scale::of([figure.point], figure.unit);
    let end = |value: f64| scale.number(value);
    let rest = match figure.rounds {
        1 => String::new(),
        _ => format!(" {}", words::interval(&end(figure.low), &end(figure.high))),
    };
    Cell::text(format!("{}{rest}", amount(figure)))
}

/// Returns a row for the idle line, and one for each load.
fn busy(survey: &Survey, load: &str) -> Table {
    let is_shown = |part: &LinePart| *part != LinePart::Paced && !survey.left_out.contains(part);
    let parts = || LinePart::ALL.into_iter().filter(is_shown);
    let cells = |name: fn(LinePart) -> String| -> Vec<Cell> {
        let cell = |part| survey.figure(&name(part)).map_or_else(Cell::default, with_interval);
        parts().map(cell).collect()
    };
    let heads = parts().map(|part| Cell::text(head(part, load)));
    let minutes = parts().map(|part| {
        let rtt = survey.figure(&figures::rtt(part));
        rtt.map_or_else(Cell::default, |rtt| Cell::text(words::significant(per_minute(rtt.point))))
    });
    Table {
        columns: vec![
            Column::new("beside", heads.collect()),
            Column::new("round trip p50", cells(figures::rtt)),
            Column::new("a minute", minutes.collect()),
            Column::new("goodput", cells(figures::goodput)),
        ],
        legend: String::new(),
    }
}

/// Returns the words of a figure: `round trip, 8 up` for `rtt_up_8_ns`.
fn label(name: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("rtt_", "round trip, "),
        ("added_", "added delay, "),
        ("goodput_", "goodput, "),
        ("pdv_", "delay variation, "),
        ("loss_", "lost "),
        ("reordered_", "out of order "),
        ("one_way_", "one way "),
    ];
    let stem = ["_ns", "_bps", "_share"].iter().find_map(|unit| name.strip_suffix(unit));
    let stem = stem.unwrap_or(name);
    let known = WORDS.iter().find_map(|(first, words)| Some((words, stem.strip_prefix(first)?)));
    let Some((words, part)) = known else { return stem.replace('_', " ") };
    match part.split_once('_') {
        Some(("both", flows)) => format!("{words}{flows} both ways"),
        Some((way, flows)) => format!("{words}{flows} {way}"),
        None => format!("{words}{part}"),
    }
}

/// Returns the hours of the day, the best and the worst survey; nothing for a single survey.
fn over_time(line: &LineOutcome) -> Vec<Block> {
    let names = [
        figures::rtt(LinePart::Idle),
        figures::rtt(LinePart::Both8),
        figures::goodput(LinePart::Up8),
        figures::goodput(LinePart::Down8),
        figures::lost(Direction::Up),
        figures::lost(Direction::Down),
    ];
    let found: Vec<(String, LineFigure, FigureCourse)> = names
        .iter()
        .filter_map(|name| {
            let figure = line.surveys.iter().find_map(|survey| survey.figure(name))?;
            Some((label(name), figure.clone(), course(line, name)?))
        })
        .collect();
    let mut blocks = vec![Block::Facts(
        found
            .iter()
            .map(|(label, figure, course)| {
                let shown = |one: &SurveyFigure| {
                    format!("{} at {}", words::figure(one.value, figure.unit), at(one.at_ms))
                };
                let value = format!("best {}; worst {}", shown(&course.best), shown(&course.worst));
                ((*label).to_owned(), value)
            })
            .collect(),
    )];
    let hours: Vec<u64> = (0..24)
        .filter(|hour| {
            found.iter().any(|(_, _, course)| course.hours.iter().any(|one| one.hour == *hour))
        })
        .collect();
    if hours.len() > 1 {
        blocks.push(Block::Table(by_hour(&hours, &found)));
    }
    let down: Vec<Line> = line
        .surveys
        .iter()
        .filter(|survey| survey.rounds == 0)
        .filter_map(|survey| Some((survey.started_ms, survey.ended.as_ref()?)))
        .map(|(ms, why)| Line::new(format!("No survey at {}: {why}", at(ms)), Tone::Bad))
        .collect();
    blocks.push(Block::Sentences(down));
    blocks
}

fn by_hour(hours: &[u64], found: &[(String, LineFigure, FigureCourse)]) -> Table {
    let heads = hours.iter().map(|hour| Cell::text(format!("{hour:02}:00")));
    let mut columns = vec![Column::new("hour, UTC", heads.collect())];
    for (label, figure, course) in found {
        let cell = |hour: &u64| {
            let of_hour = course.hours.iter().find(|one| one.hour == *hour);
            of_hour.map_or_else(Cell::default, |one| {
                Cell::text(words::figure(one.median, figure.unit))
            })
        };
        columns.push(Column::new(label.clone(), hours.iter().map(cell).collect()));
    }
    Table { columns, legend: "Medians of the surveys that began in each hour.".into() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Colour;
    use deadheat_contract::measurements::{Account, Ledger};
    use deadheat_records::host::HostFacts;
    use deadheat_records::path::ReachFacts;
    use deadheat_records::trial::PathFacts;
    use deadheat_result::causes::{Evidence, Finding, SignSource};
    use deadheat_result::line::outcome::{FORMAT, LineFileKind, LineTrial, Reached, TriedMark};
    use deadheat_result::line::part::LineWorks;
    use deadheat_result::outcome::Program;

    /// Returns a survey of six rounds on a line of 20 ms and 20 Mbit/s whose queue holds 80 ms up and 200 ms down.
    pub(in crate::line) fn survey(started_ms: u64) -> Survey {
        let mut trials = Vec::new();
        for round in 0..6 {
            let scatter = 1.0 + 0.01 * round as f64;
            for part in LinePart::ALL {
                let rtt = match part {
                    LinePart::Idle | LinePart::Paced => 20.0,
                    LinePart::Up1 | LinePart::Up8 => 100.0,
                    LinePart::Down1 | LinePart::Down8 => 220.0,
                    LinePart::Both8 => 300.0,
                };
                let mut metrics = vec![
                    ("rtt_p50_ns".to_owned(), rtt * 1e6 * scatter),
                    ("one_way_up_p50_ns".to_owned(), rtt * 0.75e6 * scatter),
                    ("one_way_down_p50_ns".to_owned(), rtt * 0.25e6 * scatter),
                ];
                if part.load().is_some() {
                    metrics.push(("load_goodput_bps".to_owned(), 19e6 * scatter));
                }
                let account =
                    Account { sent: 400, delivered: 398, lost_on_path: 2, ..Account::default() };
                let is_paced = part == LinePart::Paced;
                trials.push(LineTrial {
                    round,
                    part,
                    workload: "ping".into(),
                    why_invalid: None,
                    started_ms,
                    took_ns: 1,
                    metrics: metrics.into_iter().collect(),
                    censored: Vec::new(),
                    load: None,
                    load_causes: Vec::new(),
                    ledger: if is_paced {
                        Ledger { up: Some(account.clone()), down: Some(account), round_trip: None }
                    } else {
                        Ledger::default()
                    },
                    clock: None,
                });
            }
        }
        let reached = |contender: &str, why_not: Option<&str>| Reached {
            contender: contender.to_owned(),
            why_not: why_not.map(str::to_owned),
            ..Reached::default()
        };
        Survey {
            started_ms,
            took_ns: 54_000_000_000,
            reach: vec![
                reached("udp", None),
                reached("tcp", None),
                reached("kcp", Some("no answer")),
            ],
            probe: "udp".into(),
            path_mtu: Some(1500),
            marks: Vec::new(),
            rounds: 6,
            left_out: Vec::new(),
            figures: figures::figures(&trials),
            trials,
            ended: None,
        }
    }

    pub(in crate::line) fn line(surveys: Vec<Survey>) -> LineOutcome {
        let path = PathFacts {
            spec: "host.example".into(),
            kind: deadheat_path::PathKind::Remote,
            address: "192.0.2.7:5210".into(),
            built: None,
            reached: None,
            far_end: None,
        };
        LineOutcome {
            kind: LineFileKind::Line,
            format: FORMAT,
            deadheat: Program { version: "0.1.0".into() },
            started: "2026-01-01T00:00:00Z".into(),
            seed: 1,
            path,
            host: HostFacts::default(),
            peer_host: None,
            works: LineWorks {
                small: "ping".into(),
                paced: "cbr".into(),
                paced_over: "udp".into(),
                load: "tcp".into(),
                knock: "ping".into(),
            },
            every_ns: None,
            surveys,
        }
    }

    fn shown(line: &LineOutcome) -> String {
        let style = Style { colour: Colour::Never, width: 80, ..Style::default() };
        render(line, "terminal", &style).unwrap()
    }

    #[test]
    fn the_answer_fits_on_25_lines_and_names_the_fullest_line() {
        let text = shown(&line(vec![survey(0)]));
        assert!(text.lines().count() <= 25, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains("takes 20.5 ms there and back"), "{joined}");
        assert!(
            joined.contains("fill the line both ways, it takes 308 ms: 195 round trips a minute."),
            "{joined}"
        );
        assert!(joined.contains("lost up 0.500 %, down 0.500 %; out of order up 0 %"), "{joined}");
        assert!(joined.contains("does not kcp: no answer"), "{joined}");
        assert!(!joined.contains("Over time"), "{joined}");
    }

    /// A survey with all there can be: faults, marks, addresses, and reasons longer than a line.
    #[test]
    fn the_answer_fits_on_25_lines_with_everything_in_it() {
        let mut survey = survey(0);
        let long = "no answer from 192.0.2.7:5210 within 5 s; control over TCP works, so a firewall or NAT drops it \
                    over UDP, and whoever runs it has to let it through";
        survey.trials[3].why_invalid = Some(long.into());
        survey.ended = Some(long.into());
        for name in
            ["tls", "mptcp", "ws", "quic", "webtransport", "enet", "utp", "sctp-udp", "icmp"]
        {
            survey.reach.push(Reached { contender: name.into(), ..Reached::default() });
        }
        for (name, why) in [("rbudp", "refused"), ("renet", long), ("dccp", "reset")] {
            survey.reach.push(Reached {
                contender: name.into(),
                why_not: Some(why.into()),
                ..Reached::default()
            });
        }
        survey.marks = ["EF", "AF41"]
            .map(|dscp| TriedMark {
                dscp: dscp.into(),
                up: Some("CS0".into()),
                down: Some("CS1".into()),
                why_not: None,
            })
            .into();
        for figure in survey.figures.iter_mut().filter(|one| one.name.starts_with("one_way")) {
            figure.clock_bound_ns = Some(400_000_000);
        }
        let mut line = line(vec![survey]);
        line.path.reached = Some(Box::new(ReachFacts {
            own_address: "2001:db8:1234:5678::2".parse().unwrap(),
            seen_as: Some("2001:db8:8765:4321::9".parse().unwrap()),
            attempts: Vec::new(),
        }));
        let text = shown(&line);
        assert!(text.lines().count() <= 25, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            ["195 round trips a minute", "Ended early", "EF arrives as CS0 up", "icmp", " …"]
        {
            assert!(joined.contains(part), "no `{part}`:\n{text}");
        }
        let whole = render(&line, "markdown", &Style::default()).unwrap();
        assert!(whole.matches("has to let it through").count() >= 3, "{whole}");
    }

    #[test]
    fn a_load_that_did_not_fill_the_line_is_named_and_what_there_was_no_time_for() {
        let mut survey = survey(0);
        for figure in &mut survey.figures {
            figure.filling = match figure.name.as_str() {
                "goodput_down_1_bps" => Some(LineFilling::Growing),
                "goodput_both_8_bps" | "goodput_up_1_bps" => Some(LineFilling::Unfilled),
                _ => None,
            };
        }
        survey.figures.retain(|figure| !figure.name.contains("up_8"));
        survey.left_out = vec![LinePart::Up8];
        let text = shown(&line(vec![survey]));
        assert!(text.lines().count() <= 25, "{text}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "beside 8 connections both ways, which did not fill the line, it takes 308 ms",
            "Did not fill the line: 1 tcp down (still growing at the end); 1 tcp up and 8 tcp both ways (nothing",
            "Not known in this time: 8 tcp up;",
            "> 19",
        ] {
            assert!(joined.contains(part), "no `{part}`:\n{text}");
        }
    }

    #[test]
    fn the_cause_of_a_load_stands_with_it_where_most_trials_prove_it() {
        let mut survey = survey(0);
        let finding = |cause, bytes| Finding {
            cause,
            direction: Some(Direction::Up),
            source: SignSource::Trials,
            trials: 1,
            of: 1,
            share: 0.9,
            evidence: Evidence {
                bytes: Some(bytes),
                lost_share: Some(0.01),
                ..Evidence::default()
            },
            test: None,
        };
        for trial in &mut survey.trials {
            let (seldom, often) = (trial.round < 2, trial.round != 3);
            trial.load_causes.extend(match trial.part {
                LinePart::Up8 if often => Some(finding(Cause::ReceiveWindow, 65_536)),
                LinePart::Down1 if often => Some(finding(Cause::CongestionWindow, 30_000)),
                LinePart::Down8 => Some(finding(Cause::PathRate, 0)),
                LinePart::Both8 if seldom => Some(finding(Cause::SendBuffer, 9_000)),
                _ => None,
            });
        }
        for figure in &mut survey.figures {
            match figure.name.as_str() {
                "goodput_up_8_bps" | "goodput_both_8_bps" => {
                    figure.filling = Some(LineFilling::Unfilled);
                }
                "goodput_down_1_bps" => (figure.low, figure.high) = (5e6, 6e6),
                _ => {}
            }
        }
        let text = render(&line(vec![survey]), "markdown", &Style::default()).unwrap();
        for part in [
            "8 tcp up (their receive window let 65,536 bytes out a round trip (5 of 6 trials, 90 % of the time)); \
             8 tcp both ways (nothing waited",
            "1 tcp down is behind 8 tcp down: its congestion window was about 30,000 bytes after losses (1 % sent again)",
        ] {
            assert!(text.contains(part), "no `{part}`:\n{text}");
        }
        assert!(!text.contains("1 tcp up is behind"), "{text}");
    }

    #[test]
    fn a_figure_of_trials_that_all_failed_their_gate_is_marked() {
        let mut survey = survey(0);
        survey.trials.iter_mut().for_each(|trial| trial.why_invalid = Some("late".into()));
        survey.figures = figures::figures(&survey.trials);
        let text = shown(&line(vec![survey])).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("takes 20.5 ms ? there and back"), "{text}");
        assert!(
            text.contains("figures with ? are of such trials alone, and not to be trusted"),
            "{text}"
        );
    }

    #[test]
    fn a_trial_that_does_not_count_is_named_with_its_reason() {
        let mut survey = survey(0);
        survey.trials[3].why_invalid = Some("the generator was late".into());
        let text = shown(&line(vec![survey])).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("Not counted: 1 trial of 42; the first: the generator was late."),
            "{text}"
        );
    }

    #[test]
    fn over_days_there_are_hours_and_surveys_without_an_answer() {
        let mut slow = survey(20 * 3_600_000);
        slow.figures.iter_mut().for_each(|figure| figure.point *= 2.0);
        let down = Survey {
            started_ms: 21 * 3_600_000,
            ended: Some("no answer".into()),
            ..Survey::default()
        };
        let text = shown(&line(vec![survey(3 * 3_600_000), slow, down]));
        assert!(text.contains("03:00") && text.contains("20:00"), "{text}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains("worst 41.0 ms at 1970-01-01 20:00 UTC"), "{joined}");
        assert!(joined.contains("No survey at 1970-01-01 21:00 UTC: no answer"), "{joined}");
    }

    #[test]
    fn a_page_has_the_answer_and_escapes_what_a_peer_said() {
        let mut survey = survey(0);
        survey.reach[2].why_not = Some("<script>".into());
        let page = render(&line(vec![survey]), html::ID, &Style::default()).unwrap();
        assert!(page.contains("there and back") && page.contains("&lt;script&gt;"), "{page}");
        // The picture, and as the greatest figure what a load makes of the line.
        assert!(page.contains("Round trips, idle and loaded") && page.contains("<svg"), "{page}");
        assert!(page.contains("<strong>308\u{a0}ms</strong>"), "{page}");
        assert!(!page.contains("<script></script>") && page.contains("path MTU"), "{page}");
    }

    #[test]
    fn json_has_what_the_file_has() {
        let line = line(vec![survey(0)]);
        let text = render(&line, "json", &Style::default()).unwrap();
        assert_eq!(serde_json::from_str::<LineOutcome>(&text).unwrap(), line);
        assert!(render(&line, "csv", &Style::default()).is_err());
    }
}
