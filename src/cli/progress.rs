//! A race's progress: one line that is rewritten on a terminal, nothing elsewhere.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use crate::figures::Unit;
use crate::race::outcome::Outcome;
use crate::race::stage::{Event, Observer};
use crate::report::words;
use crate::time::Nanos;
use crate::trial::live::Row;
use crate::units::Bytes;

/// Shows a race as it runs.
pub(super) struct Progress {
    line: Line,
    blocks: u64,
    blocks_max: u64,
    standing: String,
    remaining: Option<Nanos>,
}

/// A line on stderr that is rewritten, or nothing.
#[derive(Debug, Clone)]
pub(super) struct Line {
    shown: bool,
    /// What everything is part of, in front of each text.
    before: Rc<str>,
    /// What stands there now.
    text: Rc<RefCell<String>>,
}

impl Progress {
    pub(super) fn new(shown: bool) -> Progress {
        Progress {
            line: Line { shown, before: Rc::from(""), text: Rc::default() },
            blocks: 0,
            blocks_max: 0,
            standing: String::new(),
            remaining: None,
        }
    }

    /// In front of everything shown, what the race is part of.
    pub(super) fn within(mut self, what: &str) -> Progress {
        let before = if what.is_empty() { String::new() } else { format!("{what} · ") };
        self.line.before = Rc::from(crate::report::visible(&before));
        self
    }

    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    fn show(&self, doing: &str) {
        let mut text = format!("block {} of at most {}", self.blocks + 1, self.blocks_max);
        if let Some(remaining) = self.remaining {
            text += &format!(", {} left at most", words::span(remaining));
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
            Event::Settling { why } => {
                self.line.show(&format!("waiting for the host to settle: {}", why.words()));
            }
            Event::Planned { outcome, takes } => {
                self.blocks_max = outcome.plan.blocks_max;
                self.remaining = takes;
            }
            Event::Waiting { left } => {
                self.blocks = self.blocks.min(self.blocks_max.saturating_sub(1));
                self.show(&format!("waiting, the block begins in {}", words::span(left)));
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

/// An interval of a trial under way, in a line.
pub(super) fn interval(row: &Row) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = format!(
        "{}  {:.2}–{:.2} s",
        crate::report::visible(&row.contender),
        seconds(row.from_ns),
        seconds(row.to_ns)
    );
    let mut say = |what: &str, value: String| text += &format!("  {what} {value}");
    for (way, bps) in [("up", row.up_bps), ("down", row.down_bps)] {
        if let Some(bps) = bps.filter(|bps| *bps > 0.0) {
            say(way, words::figure(bps, Unit::BitRate));
        }
    }
    if let Some(mean) = row.rtt.mean_ns() {
        let [mean, min, max] =
            [mean, row.rtt.min_ns, row.rtt.max_ns].map(|ns| words::figure(ns as f64, Unit::Nanos));
        say("RTT", format!("{mean} ({min} to {max}, {} of them)", row.rtt.n));
    }
    if let Some(lost) = row.lost_messages {
        say("lost", lost.to_string());
    }
    if let Some(drops) = row.socket_drops.filter(|drops| *drops > 0) {
        say("dropped at the socket", drops.to_string());
    }
    if let Some(cwnd) = row.cwnd_bytes {
        say("cwnd", Bytes(cwnd).to_string());
    }
    if let Some(retransmits) = row.retransmits {
        say("retransmits", retransmits.to_string());
    }
    text
}

impl Line {
    /// Replaces the line.
    pub(super) fn show(&self, text: &str) {
        if !self.shown {
            return;
        }
        let width = super::terminal_width().unwrap_or(80) - 1;
        let cut: String = self.before.chars().chain(text.chars()).take(width).collect();
        let _ = write!(io::stderr().lock(), "\r\x1b[K{cut}");
        self.text.replace(cut);
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
            self.text.take();
        }
    }

    /// Leaves a line of its own above it.
    pub(super) fn above(&self, text: &str) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{text}\n{}", self.text.borrow());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::series::RoundTrips;

    #[test]
    fn an_interval_says_what_is_known_and_nothing_else() {
        let row = Row {
            contender: "tcp".into(),
            from_ns: 100_000_000,
            to_ns: 200_000_000,
            up_bps: Some(9.41e9),
            down_bps: Some(0.0),
            cwnd_bytes: Some(3_200_000),
            retransmits: Some(2),
            ..Row::default()
        };
        assert_eq!(interval(&row), "tcp  0.10–0.20 s  up 9.41 Gbit/s  cwnd 3.20 MB  retransmits 2");
        let row = Row {
            contender: "u\u{1b}[2J".into(),
            rtt: RoundTrips { n: 4, sum_ns: 80_000, min_ns: 15_000, max_ns: 31_000 },
            lost_messages: Some(1),
            socket_drops: Some(0),
            ..Row::default()
        };
        assert_eq!(
            interval(&row),
            "u\\u{1b}[2J  0.00–0.00 s  RTT 20.0 µs (15.0 µs to 31.0 µs, 4 of them)  lost 1"
        );
    }
}
