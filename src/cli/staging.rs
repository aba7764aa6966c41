//! The resources of a race on this machine, set up for any command that runs one.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_race::race::Request;
use deadheat_race::race::context::RaceContext;
use deadheat_race::race::samples_file::SamplesFile;
use deadheat_result::lock::lock;
use deadheat_result::outcome::Outcome;
use deadheat_trial::control::remote::{Credentials, ServerWait};
use deadheat_trial::lead::agents::Agents;
use deadheat_trial::lead::live::LiveRow;
use deadheat_trial::observers::Observers;

use super::live::{LiveForm, LiveStage, LiveSubject};
use super::observe::ObserveOptions;
use super::progress::{Progress, RunningTrial};
use super::screen::Screen;
use super::{interrupt, secret};

/// Options by which races are run.
pub(super) struct Staging<'a> {
    /// Name of the whole that the race is part of, for its progress; empty for a race on its own.
    pub within: String,
    /// True if progress is shown on a terminal.
    pub progress: bool,
    /// Way in which the race is shown while it runs.
    pub live: LiveForm,
    /// Place where each trial is shown while it runs, an interval at a time.
    pub intervals: Intervals,
    /// True if raw samples are kept beside the result.
    pub samples: bool,
    /// Source of a server's shared secret.
    pub secret_file: Option<&'a Path>,
    /// The key that a server must have, as typed.
    pub pin: Option<&'a str>,
    /// Longest wait for a far end that no longer answers, if one is asked for.
    pub patience: Option<Nanos>,
    /// Options that look closer at its trials.
    pub observe: &'a ObserveOptions,
}

/// Place where intervals of a running trial are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intervals {
    /// Intervals are not shown.
    Nowhere,
    /// Standard error: above the progress, where that is a terminal.
    Stderr,
    /// Standard output, before the report.
    Stdout,
}

impl Intervals {
    /// Returns a function that shows an interval; `None` if intervals are not shown.
    fn shown(
        self,
        progress: &Screen,
        running: &RunningTrial,
    ) -> Option<impl FnMut(&LiveRow) + 'static> {
        let running = running.clone();
        let screen = if progress.is_rewritten() { progress.clone() } else { Screen::plain() };
        (self != Intervals::Nowhere).then_some({
            move |row: &LiveRow| match self {
                // A reader that has gone is no reason to end a race.
                Intervals::Stdout => drop(super::print(&format!("{}\n", running.interval(row)))),
                Intervals::Nowhere | Intervals::Stderr => screen.above(&running.interval(row)),
            }
        })
    }
}

/// Sets up everything that a race uses on this machine, and calls `race` with it.
pub(super) fn with_stage(
    staging: &Staging<'_>,
    request: &Request,
    file: &Path,
    race: impl FnOnce(RaceContext<'_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let _lock = lock(file)?;
    let observers = staging.observe.observers(request)?;
    let ended = observed(staging, request, file, observers, race);
    staging.observe.clear();
    ended
}

/// Calls `race` with everything that it uses, and with observers of its trials.
fn observed(
    staging: &Staging<'_>,
    request: &Request,
    file: &Path,
    observers: Observers,
    race: impl FnOnce(RaceContext<'_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let stop = interrupt::flag()?;
    report_full_files();
    let live = LiveStage::start(staging.live, LiveSubject::Race);
    let screen = match (staging.progress, std::io::stderr().is_terminal()) {
        (true, true) => live.screen().unwrap_or_else(Screen::stderr),
        (true, false) => Screen::plain(),
        (false, _) => Screen::none(),
    };
    let running = RunningTrial::default();
    let progress = Progress::new(screen.clone()).within(&staging.within).noting(&running);
    let mut progress = live.observer(progress);
    let mut samples = SamplesFile;
    if let Some(simulation) = request.simulation()? {
        let clock = simulation.clock();
        let mut simulation = simulation.stop_on(Arc::clone(&stop)).observe(observers);
        if let Some(show) = staging.intervals.shown(&screen, &running) {
            simulation = simulation.on_interval(show);
        }
        let stage = RaceContext::new(&mut simulation, &mut *progress).at(&clock, SystemTime::now());
        let mut stage = stage.stop(stop).steering(live.steering()).save(file);
        if staging.samples {
            stage = stage.keep(&mut samples);
        }
        let ended = race(stage);
        screen.clear();
        return ended;
    }
    let credentials = secret::credentials(staging.secret_file, staging.pin)?;
    let mut agents = agents(request, &credentials, &screen, &stop)?.observe(observers);
    if let Some(show) = staging.intervals.shown(&screen, &running) {
        agents = agents.on_interval(show);
    }
    let stage = RaceContext::new(&mut agents, &mut *progress).stop(stop).save(file);
    let mut stage = stage.steering(live.steering()).patience(staging.patience);
    if staging.samples {
        stage = stage.keep(&mut samples);
    }
    let ended = race(stage);
    screen.clear();
    ended
}

/// Connects to the far end, or builds the path to it, and returns the runner of trials there. Waits are shown on
/// `screen`.
pub(super) fn agents(
    request: &Request,
    credentials: &Credentials,
    screen: &Screen,
    stop: &Arc<AtomicBool>,
) -> Result<Agents> {
    let waits = screen.clone();
    let mut on_full = |why: &str| waits.show(vec![format!("waiting for room: {why}")]);
    let far = request.far(credentials, &mut ServerWait { stop, on_full: &mut on_full })?;
    if let Some(versions) = far.other_version() {
        screen.above(&format!("note: {versions}"));
    }
    let queued = screen.clone();
    let agents = Agents::new(far)
        .overwrite(request.overwrite())
        .blast(request.allowed_blast())
        .on_queued(move |ahead| {
            let before = match ahead {
                u32::MAX => "no room to wait in; asking again every second".to_owned(),
                ahead => format!("{ahead} before us"),
            };
            queued.show(vec![format!("the server is busy: {before}")]);
        });
    Ok(agents.stop_on(Arc::clone(stop)))
}

/// Makes a write beyond the limit of a file's size (`ulimit -f`) fail with a reason, in this process and in
/// its agents; otherwise the signal would kill them.
fn report_full_files() {
    // SAFETY: ignoring a signal touches no memory of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
