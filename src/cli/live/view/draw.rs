//! The view as a page of lines: a function of its state, the size of the window and the styles.

use ratatui_core::buffer::Buffer;
use ratatui_core::text::{Line, Span};

use super::ink::{Ink, cut, fit, line, shorten};
use super::model::{LiveModel, LivePane, SteeringState};
use super::table;
use crate::cli::live::LiveSubject;
use deadheat_base::time::Nanos;
use deadheat_report::{columns, words, wrap};

/// Least columns and rows of a window with a view.
const LEAST: (usize, usize) = (40, 10);

/// Rows of a window in which parts have space between them.
const HIGH: usize = 20;

/// Text before the first block, while there is nothing else to show.
const BEFORE: &str = "Before the first block, a few trials of one contender against itself measure how long a trial takes and how much \
                      trials vary. Then the plan is fixed: the length of trials, the blocks, and when to look.";

/// Most lines of sentences on decided claims.
const MOST_DECIDED: usize = 4;

/// Draws the view.
pub(super) fn draw(model: &LiveModel, ink: Ink, buffer: &mut Buffer) {
    let area = buffer.area;
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    for (y, line) in (area.y..area.bottom()).zip(page(model, ink, width, height)) {
        buffer.set_line(area.x, y, &line, area.width);
    }
}

fn page(model: &LiveModel, ink: Ink, width: usize, height: usize) -> Vec<Line<'static>> {
    if width < LEAST.0 || height < LEAST.1 {
        let small = format!("window too small ({} × {} at least)", LEAST.0, LEAST.1);
        return vec![line(cut(&model.doing, width), ink.strong()), line(small, ink.faint())];
    }
    let rule = || (height >= HIGH).then(|| line("─".repeat(width), ink.faint()));
    let mut lines = vec![title(model, ink, width), activity(model, ink, width)];
    lines.extend(rule());
    let (cautions, last) = (cautions(model, ink, width), foot(model, ink, width));
    let below = usize::from(height >= HIGH);
    let room = height.saturating_sub(lines.len() + cautions.len() + below + 1);
    let (upper, left) = upper(model, ink, width, (room, height));
    lines.extend(upper);
    lines.extend(cautions);
    lines.extend(rule());
    let pane = match model.pane {
        LivePane::Trials => trials(model, ink, width),
        LivePane::Details => details(model, ink, width),
        LivePane::Help => help(model.subject, ink),
    };
    lines.extend(shorten_pane(pane, left, model.pane, ink));
    lines.resize_with(height.saturating_sub(1), Line::default);
    lines.push(last);
    lines
}

/// Returns the lines of a pane that fit. Trials that do not fit need no word; lines of another pane do.
fn shorten_pane(
    mut lines: Vec<Line<'static>>,
    room: usize,
    pane: LivePane,
    ink: Ink,
) -> Vec<Line<'static>> {
    if pane == LivePane::Trials {
        lines.truncate(room);
        return lines;
    }
    shorten(lines, room, ink)
}

/// Returns figures and pairs, and the rows that are left below them.
fn upper(
    model: &LiveModel,
    ink: Ink,
    width: usize,
    (room, height): (usize, usize),
) -> (Vec<Line<'static>>, usize) {
    if let Some((_, text)) = model.text.as_ref().filter(|_| model.pane == LivePane::Trials) {
        let lines =
            text.iter().map(|text| line(cut(text, width), ratatui_core::style::Style::new()));
        let lines = shorten(lines.collect(), room.saturating_sub(1), ink);
        let left = room.saturating_sub(lines.len());
        return (lines, left);
    }
    let metric = model.standing.as_ref().and_then(|standing| standing.metrics.first());
    let Some(metric) = metric else { return (Vec::new(), room) };
    let figures = table::figures(model, metric, ink, width);
    let pairs = match model.pane {
        LivePane::Trials => table::pairs(metric, ink, width),
        LivePane::Details | LivePane::Help => Vec::new(),
    };
    let for_pane = if height >= HIGH { 5 } else { 2 };
    let for_figures = room.saturating_sub(for_pane + pairs.len().min(3)).max(2);
    let mut lines = shorten(figures, for_figures, ink);
    let for_pairs = room.saturating_sub(lines.len() + for_pane);
    if for_pairs >= 2 {
        lines.extend(shorten(pairs, for_pairs, ink));
    }
    let left = room.saturating_sub(lines.len());
    (lines, left)
}

/// Returns the question and the time since the view began.
fn title(model: &LiveModel, ink: Ink, width: usize) -> Line<'static> {
    let clock = clock(model.elapsed);
    let of_text = model.text.as_ref().map_or("", |(title, _)| title.as_str());
    let question = model.standing.as_ref().map_or(of_text, |standing| standing.question.as_str());
    let room = width.saturating_sub(columns(&clock) + 2);
    Line::from(vec![
        Span::styled(fit(&format!("deadheat  {question}"), room), ink.strong()),
        Span::styled(format!("  {clock}"), ink.faint()),
    ])
}

/// Formats a time as `1:02:03` or `2:03`.
fn clock(elapsed: Nanos) -> String {
    let seconds = elapsed.0 / 1_000_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// Returns the present activity, or the pause.
fn activity(model: &LiveModel, ink: Ink, width: usize) -> Line<'static> {
    let blocks = model.standing.as_ref().map_or(0, |standing| standing.blocks);
    let (mark, style) = match model.steered {
        SteeringState::Running => ("", ink.strong()),
        SteeringState::Pausing => ("PAUSE AFTER THIS BLOCK · ", ink.alarm()),
        SteeringState::Ending if model.subject == LiveSubject::Line => {
            ("ENDS AFTER THIS TRIAL · ", ink.alarm())
        }
        SteeringState::Ending => ("ENDS AFTER THIS BLOCK · ", ink.alarm()),
        SteeringState::Paused => {
            let done = words::count(blocks, "block");
            return line(cut(&format!("PAUSED after {done}; p goes on"), width), ink.alarm());
        }
    };
    let text = cut(&model.doing, width.saturating_sub(columns(mark)));
    Line::from(vec![Span::styled(mark, style), Span::raw(text)])
}

/// Returns the sentences that say how far the figures may be read.
fn cautions(model: &LiveModel, ink: Ink, width: usize) -> Vec<Line<'static>> {
    let Some(standing) = &model.standing else {
        return match (&model.text, model.subject) {
            (Some(_), _) => Vec::new(),
            (None, LiveSubject::Race) => {
                vec![line("No figures before the first block.", ink.faint())]
            }
            (None, LiveSubject::Line) => {
                vec![line("No figures before the first round.", ink.faint())]
            }
        };
    };
    let notes = standing.decided.iter().flat_map(|note| {
        let lines = wrap(note, width.saturating_sub(2)).into_iter().enumerate();
        lines.map(|(at, text)| format!("{} {text}", if at == 0 { '◆' } else { ' ' }))
    });
    let mut lines: Vec<Line<'static>> =
        notes.take(MOST_DECIDED).map(|text| line(text, ink.strong())).collect();
    lines.push(match standing.blocks {
        0 => line("No figures before the first block.", ink.faint()),
        _ => line(cut(&standing.caution(), width), ink.strong()),
    });
    lines
}

/// Returns the account of the path, notes, and the last trials.
fn trials(model: &LiveModel, ink: Ink, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some((label, ways)) = &model.path {
        let what = format!("Path in the last trial of {label}");
        lines.push(line(cut(&what, width), ink.strong()));
        lines.extend(ways.iter().map(|way| line(cut(&format!("  {way}"), width), ink.faint())));
    }
    let notes = model.notes.iter().take(2);
    lines.extend(notes.map(|note| line(cut(&format!("! {note}"), width), ink.alarm())));
    let (invalid, all) = model.invalid;
    let counted = match (all, invalid) {
        (0, _) if model.standing.is_none() && model.subject == LiveSubject::Race => {
            lines.extend(wrap(BEFORE, width).into_iter().map(|text| line(text, ink.faint())));
            return lines;
        }
        (0, _) => return lines,
        (_, 0) => format!("Last trials (all {} valid)", words::count(all, "trial")),
        _ => format!("Last trials ({invalid} of {} not valid)", words::count(all, "trial")),
    };
    lines.push(line(counted, ink.strong()));
    let labels = model.trials.iter().map(|trial| columns(&trial.label));
    let name = labels.max().unwrap_or(0).min(width / 3);
    for trial in &model.trials {
        let begin = format!("  block {:>3}  {}", trial.block, fit(&trial.label, name));
        match &trial.why_invalid {
            None => {
                lines.push(line(cut(&format!("{begin}  {}", trial.figure), width), ink.faint()))
            }
            Some(why) => {
                // A reason is of use only as a whole.
                let whole = format!("{begin}  NOT VALID: {why}");
                if columns(&whole) <= width {
                    lines.push(line(whole, ink.alarm()));
                    continue;
                }
                let text = wrap(&format!("NOT VALID: {why}"), width.saturating_sub(4));
                lines.push(line(cut(&begin, width), ink.alarm()));
                lines.extend(text.into_iter().map(|text| line(format!("    {text}"), ink.alarm())));
            }
        }
    }
    lines
}

/// Returns the terms of the race, and the figures of its other metrics.
fn details(model: &LiveModel, ink: Ink, width: usize) -> Vec<Line<'static>> {
    let Some(standing) = &model.standing else {
        return vec![line("The plan is fixed after the first trials.", ink.faint())];
    };
    let mut lines = vec![line("Details (d closes them)", ink.strong())];
    for (name, text) in &standing.terms {
        let wrapped = wrap(text, width.saturating_sub(13)).into_iter().enumerate();
        lines.extend(wrapped.map(|(at, text)| {
            let name = if at == 0 { *name } else { "" };
            line(format!("  {name:<10} {text}"), ink.faint())
        }));
    }
    lines.extend(table::further(&standing.metrics, ink));
    lines
}

fn help(subject: LiveSubject, ink: Ink) -> Vec<Line<'static>> {
    let keys: &[(&str, &str)] = match subject {
        LiveSubject::Race => RACE_KEYS,
        LiveSubject::Line => LINE_KEYS,
    };
    let mut lines = vec![line("Keys (? closes this)", ink.strong())];
    lines.extend(keys.iter().map(|(key, what)| line(format!("  {key:<6}  {what}"), ink.faint())));
    if subject == LiveSubject::Race {
        lines.extend(READING.map(|text| line(format!("  {text}"), ink.faint())));
    }
    lines
}

/// Keys of a race.
const RACE_KEYS: &[(&str, &str)] = &[
    ("p", "pauses after this block, or resumes; counts in no figure or budget"),
    ("q", "ends the race after this block, with its result"),
    ("Ctrl-C", "ends it at once, with the blocks done; again: without a result"),
    ("s", "names the file of the race, which is saved after every block"),
    ("d", "shows the terms of the race, and its other figures"),
    ("Ctrl-L", "draws everything again"),
];

/// Keys of a line.
const LINE_KEYS: &[(&str, &str)] = &[
    ("q", "ends the survey after this trial, with the rounds so far"),
    ("Ctrl-C", "the same, at once; again: without a result"),
    ("Ctrl-L", "draws everything again"),
];

/// Sentences on how to read a race.
const READING: [&str; 3] = [
    "├─●─┤ is an interval over the trials so far; ○ is a floor or a copy.",
    "A race that ends when it looks good is wrong too often: looks are planned.",
    "A trial is shown when it ends; -i shows it while it runs.",
];

/// Returns the answer to the last key, or the keys.
fn foot(model: &LiveModel, ink: Ink, width: usize) -> Line<'static> {
    if let Some(answer) = &model.answer {
        return line(cut(answer, width), ink.strong());
    }
    if model.subject == LiveSubject::Line {
        return line(cut("q end after this trial · ? help", width), ink.faint());
    }
    let pause = match model.steered {
        SteeringState::Pausing | SteeringState::Paused => "p go on",
        SteeringState::Running | SteeringState::Ending => "p pause",
    };
    let keys = format!("{pause} · q end after block · s file · d details · ? help");
    line(cut(&keys, width), ink.faint())
}
