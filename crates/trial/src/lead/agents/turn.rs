//! Wait of a trial for its turn at a far end that serves others first.

use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Wait for the far ends of one trial.
pub(super) struct TurnWait {
    /// Callback for the number of trials ahead of ours; `u32::MAX` if it is unknown.
    pub(super) on_queued: Box<dyn FnMut(u32)>,
    since: Option<Nanos>,
    waited: Nanos,
}

impl TurnWait {
    /// Creates a wait that has not begun, whose callback does nothing.
    pub(super) fn new() -> TurnWait {
        TurnWait { on_queued: Box::new(|_| {}), since: None, waited: Nanos(0) }
    }

    /// Forgets the waits of the last trial.
    pub(super) fn reset(&mut self) {
        (self.since, self.waited) = (None, Nanos(0));
    }

    /// Notes that the far end serves others first, with the number of trials ahead.
    pub(super) fn note(&mut self, ahead: u32) {
        self.since.get_or_insert_with(|| Monotonic.now());
        (self.on_queued)(ahead);
    }

    /// Notes that the far end serves us now.
    pub(super) fn end(&mut self) {
        if let Some(since) = self.since.take() {
            self.waited += Monotonic.now() - since;
        }
    }

    /// Returns the time waited since the trial began.
    pub(super) fn waited(&self) -> Nanos {
        self.waited
    }
}
