//! Events of a race as values of their own, which one thread sends and another one shows.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::Sender;

use crate::cli::progress::Progress;
use crate::cli::screen::{LinesView, Screen};
use crate::cli::standing::Standing;
use deadheat_base::ends::Direction;
use deadheat_base::foreign::visible;
use deadheat_base::time::Nanos;
use deadheat_path::measurements::{DirectionFigures, PathFigures};
use deadheat_path::network::way_name;
use deadheat_race::race::context::{Observer, RaceEvent, TrialPlace};
use deadheat_records::trial::Record;
use deadheat_report::words;
use deadheat_result::outcome::Outcome;

/// Event for a view.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LiveEvent {
    /// Present activity, in a line.
    Doing(String),
    /// Line that stays, also after the view.
    Note(String),
    /// The plan is fixed, or a block is complete.
    Standing(Box<Standing>),
    TrialEnded(TrialRow),
    /// The blocks so far are in this file.
    Saved(String),
    Paused,
    Continued(Nanos),
    /// Title and figures so far, as text.
    Text(String, Vec<String>),
}

/// Trial that ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrialRow {
    /// Number of its block, from 1.
    pub(super) block: u64,
    pub(super) label: String,
    /// Reason why it is not valid, or `None`.
    pub(super) why_invalid: Option<String>,
    /// Its first claimed figure, with the unit.
    pub(super) figure: String,
    /// Account of the emulated path by direction of a link; empty without one.
    pub(super) path: Vec<String>,
}

/// Observer that sends what a view shows. Sending takes no lock, and never waits for the view.
pub(super) struct LiveObserver {
    to: Sender<LiveEvent>,
    /// Words of the present activity.
    words: Progress,
    /// Claimed metric of the race, once known: its name and unit.
    claim: Option<(String, deadheat_contract::measurements::Unit)>,
    /// Names of both directions of each link of an emulated path, once known.
    ways: Vec<[String; 2]>,
}

impl LiveObserver {
    pub(super) fn new(to: Sender<LiveEvent>, words: Progress) -> LiveObserver {
        LiveObserver { to, words, claim: None, ways: Vec::new() }
    }

    fn send(&self, event: LiveEvent) {
        // A view that has ended needs no events.
        let _ = self.to.send(event);
    }

    fn standing(&self, outcome: &Outcome, left: Option<Nanos>) {
        self.send(LiveEvent::Standing(Box::new(Standing::of(outcome, left))));
    }

    fn trial(
        &self,
        place: &TrialPlace<'_>,
        why_invalid: Option<&str>,
        record: &Record,
    ) -> TrialRow {
        let copy = if place.control { " (copy)" } else { "" };
        let figure = self.claim.as_ref().and_then(|(name, unit)| {
            let value = *record.metrics.get(name)?;
            Some(if record.censored.contains(name) {
                words::beyond(value, *unit)
            } else {
                words::figure(value, *unit)
            })
        });
        TrialRow {
            block: place.block + 1,
            label: visible(&format!("{}{copy}", place.label)),
            why_invalid: why_invalid.map(visible),
            figure: figure.unwrap_or_else(|| words::NOTHING.to_owned()),
            path: record.path.as_ref().map_or_else(Vec::new, |had| path(had, &self.ways)),
        }
    }
}

impl Observer for LiveObserver {
    fn on(&mut self, event: RaceEvent<'_>) {
        match &event {
            RaceEvent::Planned { outcome, takes } => {
                self.claim = outcome.metrics.first().map(|one| (one.name.clone(), one.unit));
                self.ways = outcome.path.built.as_deref().map_or_else(Vec::new, |built| {
                    let both = |link| {
                        [Direction::Up, Direction::Down].map(|way| built.way_name(link, way))
                    };
                    (0..built.links.len()).map(both).collect()
                });
                self.standing(outcome, *takes);
            }
            RaceEvent::BlockDone { outcome, remaining, .. } => {
                self.standing(outcome, Some(*remaining));
            }
            RaceEvent::TrialEnded { place, why_invalid, record } => {
                self.send(LiveEvent::TrialEnded(self.trial(place, *why_invalid, record)));
            }
            RaceEvent::Saved { file } => {
                self.send(LiveEvent::Saved(visible(&file.display().to_string())));
            }
            RaceEvent::Paused => self.send(LiveEvent::Paused),
            RaceEvent::Continued { paused } => self.send(LiveEvent::Continued(*paused)),
            _ => {}
        }
        self.words.on(event);
    }
}

/// Formats a path's account of a trial, a line for each direction with a packet, with the `names` of both directions of its links.
pub(super) fn path(figures: &PathFigures, names: &[[String; 2]]) -> Vec<String> {
    let count = figures.links.len();
    let links = figures.links.iter().enumerate();
    let ways = links.flat_map(|(at, link)| {
        let numbered =
            || [Direction::Up, Direction::Down].map(|way| way_name(None, (at, count), way));
        let [up, down] = names.get(at).cloned().unwrap_or_else(numbered);
        [(up, &link.up), (down, &link.down)]
    });
    let carried = ways.filter(|(_, way)| way.fates.arrived > 0);
    carried.map(|(name, way)| format!("{name:<5} {}", direction(way))).collect()
}

fn direction(way: &DirectionFigures) -> String {
    let fates = &way.fates;
    let mut parts = vec![words::count(fates.arrived, "packet")];
    let queued = way.queued_ns.as_ref().and_then(|queued| Some((queued.p50?, queued.p99)));
    if let Some((p50, p99)) = queued {
        let shown = |at: deadheat_path::measurements::Quantile| Nanos(at.at_least_ns());
        let tail = p99.map_or(String::new(), |p99| format!(", p99 {}", shown(p99)));
        parts.push(format!("in the queue p50 {}{tail}", shown(p50)));
    }
    let counts = [
        (fates.full, "dropped by the full queue"),
        (fates.early, "dropped early"),
        (fates.marked, "marked"),
        (fates.lost, "lost"),
        (fates.reordered, "reordered"),
        (fates.blocked, "blocked"),
    ];
    let seen = counts.iter().filter(|(count, _)| *count > 0);
    parts.extend(seen.map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

/// Lines of a race for a view: the first says what it does now, notes stay.
pub(super) struct LiveLines {
    to: Sender<LiveEvent>,
    /// Notes so far, for the terminal after the view.
    notes: Rc<RefCell<Vec<String>>>,
}

/// Most notes that are kept for the terminal after the view.
const MOST_NOTES: usize = 10_000;

impl LiveLines {
    /// Creates a screen whose lines a view shows, and the notes that it stores.
    pub(super) fn screen(to: Sender<LiveEvent>) -> (Screen, Rc<RefCell<Vec<String>>>) {
        let notes = Rc::default();
        let lines = LiveLines { to, notes: Rc::clone(&notes) };
        (Screen::view(Rc::new(lines)), notes)
    }
}

impl LinesView for LiveLines {
    fn show(&self, lines: &[String]) {
        if let Some(first) = lines.first() {
            let _ = self.to.send(LiveEvent::Doing(visible(first)));
        }
    }

    fn above(&self, text: &str) {
        let text = visible(text);
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MOST_NOTES {
            notes.push(text.clone());
        }
        let _ = self.to.send(LiveEvent::Note(text));
    }
}
