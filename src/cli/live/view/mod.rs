//! The live view of a race: a thread that shows its events on the terminal, and takes keys.
//!
//! | file | content |
//! |---|---|
//! | `event.rs` | events as values that are sent to the thread |
//! | `model.rs` | state of the view: the events so far, the open pane, the keys |
//! | `draw.rs`, `table.rs`, `bars.rs`, `ink.rs` | from the state to the cells of a frame; pure |
//! | `output.rs` | cells as bytes |
//! | `tty.rs` | the terminal: modes, keys, its state before |
//!
//! It must not disturb the measurement: the race sends its events without a lock and never waits for the view; the thread
//! runs only where a CPU has nothing else to do (SCHED_IDLE), wakes four times a second, and draws only after an event.

use std::cell::RefCell;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::event::{LiveEvent, LiveLines, LiveObserver};
use self::ink::Ink;
use self::model::{LiveModel, Wish};
use self::output::Frames;
use self::tty::{ViewTerminal, WaitOutcome};
use super::LiveSubject;
use crate::cli::progress::Progress;
use crate::cli::screen::Screen;
use deadheat_race::race::context::Observer;
use deadheat_race::race::steering::Steering;

mod bars;
mod draw;
mod event;
mod ink;
mod model;
mod output;
mod table;
#[cfg(test)]
mod tests;
mod tty;

pub(super) use tty::put_back;

/// Time between two looks for events, and least time between two frames.
const TICK: Duration = Duration::from_millis(250);

/// Live view on the terminal behind standard error. Dropping it puts the terminal back, and prints the notes that
/// arrived meanwhile.
pub(super) struct LiveView {
    to: Sender<LiveEvent>,
    screen: Screen,
    notes: Rc<RefCell<Vec<String>>>,
    /// Its end ends the thread.
    wake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl LiveView {
    /// Shows an empty view.
    ///
    /// # Errors
    /// If the terminal cannot be opened or this process is not in its foreground; if there is no room for a thread.
    pub(super) fn start(subject: LiveSubject, steering: &Arc<Steering>) -> io::Result<LiveView> {
        let terminal = ViewTerminal::open()?;
        let (to, from) = mpsc::channel();
        let (wake, end) = io::pipe()?;
        let colour = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let viewer = Viewer {
            terminal,
            from,
            wake,
            steering: Arc::clone(steering),
            ink: if colour { Ink::Colour } else { Ink::Plain },
            model: LiveModel { subject, ..LiveModel::default() },
            frames: Frames::default(),
        };
        let thread = thread::Builder::new().name("live view".into()).spawn(move || viewer.run())?;
        let (screen, notes) = LiveLines::screen(to.clone());
        Ok(LiveView { to, screen, notes, wake: Some(end), thread: Some(thread) })
    }

    /// Returns the screen whose lines are shown in the view.
    pub(super) fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// Shows figures as text.
    pub(super) fn text(&self, title: String, lines: Vec<String>) {
        // A view that has ended needs no text.
        let _ = self.to.send(LiveEvent::Text(title, lines));
    }

    /// Returns an observer that sends the events of a race to the view; `words` says what the race does now.
    pub(super) fn observer(&self, words: Progress) -> Box<dyn Observer> {
        Box::new(LiveObserver::new(self.to.clone(), words))
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed, and the terminal was put back before.
            let _ = thread.join();
        }
        for note in self.notes.borrow().iter() {
            tell!("{note}");
        }
    }
}

/// Thread behind a view.
struct Viewer {
    terminal: ViewTerminal,
    from: Receiver<LiveEvent>,
    wake: PipeReader,
    steering: Arc<Steering>,
    ink: Ink,
    model: LiveModel,
    frames: Frames,
}

impl Viewer {
    fn run(mut self) {
        run_when_idle();
        let began = Instant::now();
        let mut tick = began;
        let mut is_stale = true;
        loop {
            let left = (tick + TICK).saturating_duration_since(Instant::now());
            match self.terminal.wait(self.wake.as_raw_fd(), left + Duration::from_millis(1)) {
                WaitOutcome::Again => {}
                WaitOutcome::Over | WaitOutcome::Gone => return,
            }
            for key in self.terminal.keys() {
                is_stale = true;
                if let Some(wish) = self.model.key(key) {
                    self.fulfil(wish);
                }
            }
            if tick.elapsed() < TICK {
                continue;
            }
            tick = Instant::now();
            is_stale |= self.update(began);
            if is_stale && self.terminal.is_ready() {
                self.draw();
                is_stale = false;
            }
        }
    }

    fn fulfil(&mut self, wish: Wish) {
        match wish {
            Wish::Pause => self.steering.pause(true),
            Wish::Continue => self.steering.pause(false),
            Wish::End => self.steering.end_after_block(),
            Wish::Redraw => self.frames.anew(),
        }
    }

    /// Takes the events so far; returns true if the frame on the terminal is no longer right.
    fn update(&mut self, began: Instant) -> bool {
        if self.terminal.come_back() {
            self.frames.anew();
        }
        let mut is_stale = !self.frames.fits(self.terminal.size());
        for event in self.from.try_iter() {
            self.model.take(event);
            is_stale = true;
        }
        let elapsed = deadheat_base::time::Nanos::from(began.elapsed());
        let second = |at: deadheat_base::time::Nanos| at.0 / 1_000_000_000;
        is_stale |= second(elapsed) != second(self.model.elapsed);
        self.model.elapsed = elapsed;
        is_stale
    }

    fn draw(&mut self) {
        let (model, ink) = (&self.model, self.ink);
        let size = self.terminal.size();
        let bytes = self.frames.next(size, |buffer| draw::draw(model, ink, buffer));
        self.terminal.put(&bytes);
    }
}

/// Lets this thread run only where a CPU has nothing else to do (sched(7), SCHED_IDLE). The C library of static programs
/// has no function for it.
fn run_when_idle() {
    let priority: libc::c_int = 0;
    // SAFETY: the kernel's sched_param is one int, and 0 is this thread. Without it the view costs a little more.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority);
    }
}
