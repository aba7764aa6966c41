//! A race shown while it runs (`--live`): a view of the whole terminal, or plain lines.
#![cfg_attr(
    not(feature = "live"),
    allow(dead_code, unused_variables, reason = "the view alone needs all of it")
)]

use std::io::IsTerminal;
use std::sync::Arc;

use self::plain::PlainLines;
use super::progress::Progress;
use super::screen::Screen;
use deadheat_race::race::context::Observer;
use deadheat_race::race::steering::Steering;

mod plain;
#[cfg(feature = "live")]
mod view;

/// Options of a command that can be shown while it runs.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct LiveOptions {
    /// Show it while it runs, on the whole terminal; ? has its keys
    #[arg(long, conflicts_with = "quiet", hide_short_help = true)]
    live: bool,
    /// With --live, plain lines, for screen readers and logs
    #[arg(long, requires = "live", hide_short_help = true)]
    plain: bool,
}

/// Way in which a race is shown while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiveForm {
    /// As progress in a few lines, or not at all.
    Progress,
    /// On the whole terminal, or in plain lines where that is not possible.
    View,
    /// In plain lines.
    Lines,
}

impl From<LiveOptions> for LiveForm {
    fn from(options: LiveOptions) -> LiveForm {
        match options {
            LiveOptions { live: false, .. } => LiveForm::Progress,
            LiveOptions { plain: true, .. } => LiveForm::Lines,
            LiveOptions { plain: false, .. } => LiveForm::View,
        }
    }
}

/// Subject of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LiveSubject {
    #[default]
    Race,
    Line,
}

/// Place where a race is shown. Dropping it puts the terminal back.
pub(super) struct LiveStage {
    shown: LivePlace,
    steering: Arc<Steering>,
}

enum LivePlace {
    Progress,
    Lines,
    #[cfg(feature = "live")]
    View(view::LiveView),
}

impl LiveStage {
    /// Opens the view if it is asked for and possible; says in a sentence why not otherwise.
    pub(super) fn start(form: LiveForm, subject: LiveSubject) -> LiveStage {
        let steering = Arc::<Steering>::default();
        let shown = match form {
            LiveForm::Progress => LivePlace::Progress,
            LiveForm::Lines => LivePlace::Lines,
            LiveForm::View => open(subject, &steering).unwrap_or_else(|why| {
                tell!("note: no live view here, {why}; plain lines instead");
                LivePlace::Lines
            }),
        };
        LiveStage { shown, steering }
    }

    /// Returns the screen of the view; `None` if there is none.
    pub(super) fn screen(&self) -> Option<Screen> {
        match &self.shown {
            LivePlace::Progress => None,
            LivePlace::Lines => Some(Screen::plain()),
            #[cfg(feature = "live")]
            LivePlace::View(view) => Some(view.screen()),
        }
    }

    /// Returns the observer of the race.
    pub(super) fn observer(&self, progress: Progress) -> Box<dyn Observer> {
        match &self.shown {
            LivePlace::Progress => Box::new(progress),
            LivePlace::Lines => Box::new(PlainLines::stderr(progress)),
            #[cfg(feature = "live")]
            LivePlace::View(view) => view.observer(progress),
        }
    }

    /// Shows figures so far as text; in plain lines `sentence` alone.
    pub(super) fn text(&self, title: &str, lines: &[String], sentence: &str) {
        match &self.shown {
            LivePlace::Progress => {}
            LivePlace::Lines => tell!("{sentence}"),
            #[cfg(feature = "live")]
            LivePlace::View(view) => {
                let visible = |text: &str| deadheat_base::foreign::visible(text);
                view.text(visible(title), lines.iter().map(|line| visible(line)).collect());
            }
        }
    }

    /// Returns the wishes that keys state.
    pub(super) fn steering(&self) -> Arc<Steering> {
        Arc::clone(&self.steering)
    }
}

/// Puts the terminal back, from a signal handler too, if there is a view on it.
pub(super) fn put_back() {
    #[cfg(feature = "live")]
    view::put_back();
}

/// Opens a view.
///
/// # Errors
/// The reason why there can be none, for a sentence.
fn open(subject: LiveSubject, steering: &Arc<Steering>) -> Result<LivePlace, String> {
    if !std::io::stderr().is_terminal() {
        return Err("since standard error is no terminal".into());
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err("since TERM names a terminal that cannot move its cursor".into());
    }
    #[cfg(feature = "live")]
    {
        let view = view::LiveView::start(subject, steering);
        view.map(LivePlace::View).map_err(|e| format!("since its terminal cannot be used ({e})"))
    }
    #[cfg(not(feature = "live"))]
    {
        let _ = (subject, steering);
        let there = deadheat_datapath::transport::optional::in_packages("live");
        Err(format!("since this build leaves it out; {there}"))
    }
}
