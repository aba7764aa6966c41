//! State of a view: the events so far, the pane that is open, and the wishes of the person.

use std::collections::VecDeque;

use super::bars::BarAxis;
use super::event::{LiveEvent, TrialRow};
use crate::cli::live::LiveSubject;
use crate::cli::standing::Standing;
use deadheat_base::time::Nanos;
use deadheat_report::words;

/// State of a view.
#[derive(Debug, Default)]
pub(super) struct LiveModel {
    pub(super) subject: LiveSubject,
    pub(super) doing: String,
    pub(super) standing: Option<Standing>,
    /// Title and figures as text, of a subject that has no standing.
    pub(super) text: Option<(String, Vec<String>)>,
    /// Last trials, the newest first.
    pub(super) trials: VecDeque<TrialRow>,
    /// Trials that were not valid, of all.
    pub(super) invalid: (u64, u64),
    /// Last notes, the newest first.
    pub(super) notes: VecDeque<String>,
    /// Account of the path in the last trial that has one, with the trial's label.
    pub(super) path: Option<(String, Vec<String>)>,
    /// Axis of the first metric's figures.
    pub(super) axis: Option<BarAxis>,
    /// Widths of each row's interval, block by block.
    pub(super) widths: Vec<Vec<f64>>,
    pub(super) saved: Option<String>,
    pub(super) pane: LivePane,
    pub(super) steered: SteeringState,
    /// Answer to the last key.
    pub(super) answer: Option<String>,
    /// Time since the view began.
    pub(super) elapsed: Nanos,
}

/// Content of the lower part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LivePane {
    #[default]
    Trials,
    Details,
    Help,
}

/// Course of the race that a person steers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SteeringState {
    #[default]
    Running,
    /// A pause is asked for; the block is not complete.
    Pausing,
    Paused,
    /// The present block is the last.
    Ending,
}

/// Wish of a person, for the race or for the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Pause,
    Continue,
    End,
    Redraw,
}

/// Maximum number of trials and notes that are shown.
const MOST_SHOWN: usize = 60;

impl LiveModel {
    /// Takes an event.
    pub(super) fn take(&mut self, event: LiveEvent) {
        match event {
            LiveEvent::Doing(line) => self.doing = line,
            LiveEvent::Note(line) => push(&mut self.notes, line),
            LiveEvent::Standing(standing) => self.stand(*standing),
            LiveEvent::TrialEnded(trial) => self.end(trial),
            LiveEvent::Saved(file) => self.saved = Some(file),
            LiveEvent::Text(title, lines) => self.text = Some((title, lines)),
            LiveEvent::Paused => self.steered = SteeringState::Paused,
            LiveEvent::Continued(paused) => {
                if self.steered != SteeringState::Ending {
                    self.steered = SteeringState::Running;
                }
                push(&mut self.notes, format!("went on after a pause of {paused}"));
            }
        }
    }

    fn stand(&mut self, standing: Standing) {
        if let Some(metric) = standing.metrics.first() {
            let span = |point: f64, ends: Option<(f64, f64)>| ends.unwrap_or((point, point));
            let spans = metric.rows.iter().filter_map(|row| Some(span(row.estimate?, row.ends)));
            self.axis = BarAxis::over(spans, self.axis);
            self.widths.resize(metric.rows.len(), Vec::new());
            for (widths, row) in self.widths.iter_mut().zip(&metric.rows) {
                widths.extend(row.ends.map(|(low, high)| high - low));
            }
        }
        self.standing = Some(standing);
    }

    fn end(&mut self, trial: TrialRow) {
        self.invalid.0 += u64::from(trial.why_invalid.is_some());
        self.invalid.1 += 1;
        if !trial.path.is_empty() {
            self.path = Some((trial.label.clone(), trial.path.clone()));
        }
        push(&mut self.trials, trial);
    }

    /// Takes a key; returns the wish behind it, if there is one.
    pub(super) fn key(&mut self, key: u8) -> Option<Wish> {
        let open = |pane: LivePane, wanted| if pane == wanted { LivePane::Trials } else { wanted };
        self.answer = None;
        if self.subject == LiveSubject::Line && matches!(key, b'd' | b'p' | b's') {
            return None;
        }
        match key {
            b'd' => self.pane = open(self.pane, LivePane::Details),
            b'?' | b'h' => self.pane = open(self.pane, LivePane::Help),
            b's' => self.answer = Some(self.where_saved()),
            b'p' => return self.pause(),
            b'q' => {
                self.steered = SteeringState::Ending;
                return Some(Wish::End);
            }
            // Ctrl-L, by which terminals are drawn anew.
            0x0c => return Some(Wish::Redraw),
            // Another key closes what is open, and says what there is.
            _ if self.pane != LivePane::Trials => self.pane = LivePane::Trials,
            _ => {}
        }
        None
    }

    fn pause(&mut self) -> Option<Wish> {
        match self.steered {
            SteeringState::Running => {
                self.steered = SteeringState::Pausing;
                Some(Wish::Pause)
            }
            SteeringState::Pausing | SteeringState::Paused => {
                self.steered = SteeringState::Running;
                Some(Wish::Continue)
            }
            SteeringState::Ending => None,
        }
    }

    fn where_saved(&self) -> String {
        let blocks = self.standing.as_ref().map_or(0, |standing| standing.blocks);
        match (&self.saved, blocks) {
            (Some(file), 1..) => {
                format!("saved after every block; {} in {file}", words::count(blocks, "block"))
            }
            _ => "saved after every block; none is complete yet".to_owned(),
        }
    }
}

fn push<T>(all: &mut VecDeque<T>, one: T) {
    all.push_front(one);
    all.truncate(MOST_SHOWN);
}
