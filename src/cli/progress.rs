//! A race's progress: one line that is rewritten on a terminal, nothing elsewhere.

use std::io::{self, Write};

use crate::race::outcome::Outcome;
use crate::race::stage::{Event, Observer};
use crate::report::words;
use crate::time::Nanos;

/// Shows a race as it runs.
pub(super) struct Progress {
    line: Line,
    blocks: u64,
    blocks_max: u64,
    standing: String,
    remaining: Option<Nanos>,
}

/// A line on stderr that is rewritten, or nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    shown: bool,
}

impl Progress {
    pub(super) fn new(shown: bool) -> Progress {
        Progress {
            line: Line { shown },
            blocks: 0,
            blocks_max: 0,
            standing: String::new(),
            remaining: None,
        }
    }

    pub(super) fn line(&self) -> Line {
        self.line
    }

    fn show(&self, doing: &str) {
        let mut text = format!("block {} of at most {}", self.blocks + 1, self.blocks_max);
        if let Some(remaining) = self.remaining {
            text += &format!(", {} s left at most", remaining.0.div_ceil(1_000_000_000));
        }
        text += &format!(" · {doing}");
        if !self.standing.is_empty() {
            text += &format!(" · {}", self.standing);
        }
        self.line.show(&text);
    }
}

impl Observer for Progress {
    fn on(&mut self, event: Event<'_>) {
        match event {
            Event::Pilot { trial, of } => {
                self.line.show(&format!("finding out what this machine can tell: {trial} of {of}"));
            }
            Event::Planned { outcome, takes } => {
                self.blocks_max = outcome.plan.blocks_max;
                self.remaining = takes;
            }
            Event::TrialStarted(place) => {
                self.blocks = place.block;
                let label = if place.control { "the hidden control" } else { place.label };
                self.show(label);
            }
            Event::BlockDone { outcome, blocks, remaining } => {
                self.blocks = blocks;
                self.remaining = Some(remaining);
                self.standing = standing(outcome);
            }
            Event::Explaining { trial, of, label } => {
                let label = crate::report::visible(label);
                self.line
                    .show(&format!("finding out where the time goes: {trial} of {of} · {label}"));
            }
            Event::Ended { .. } => self.line.clear(),
            _ => {}
        }
    }
}

/// The present estimates of the first claim, in a few words.
fn standing(outcome: &Outcome) -> String {
    let Some(metric) = outcome.metrics.first() else { return String::new() };
    let figure = |contender: &crate::race::outcome::Entrant| {
        let of = |s: &&crate::race::outcome::Summary| {
            s.contender == contender.id && s.metric == metric.name
        };
        let summary = outcome.summary.iter().find(of)?;
        let figure = words::figure(summary.estimate, metric.unit);
        Some(format!("{} {figure}", crate::report::visible(&contender.label)))
    };
    let figures: Vec<String> = outcome.contenders.iter().filter_map(figure).collect();
    figures.join(", ")
}

impl Line {
    /// Replaces the line.
    pub(super) fn show(self, text: &str) {
        if !self.shown {
            return;
        }
        let width = super::terminal_width().unwrap_or(80) - 1;
        let cut: String = text.chars().take(width).collect();
        let _ = write!(io::stderr().lock(), "\r\x1b[K{cut}");
    }

    /// Takes the line away.
    pub(super) fn clear(self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
