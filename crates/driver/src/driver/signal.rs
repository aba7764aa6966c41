//! Signals to a flow's thread from other threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_contract::measurements::Tally;

/// News for a flow's thread, which reads them in each turn.
#[derive(Debug, Default)]
pub struct Signal {
    news: AtomicBool,
    peer_sent: Mutex<Option<Tally>>,
    stop: AtomicBool,
}

impl Signal {
    /// Informs the flow that the other end has sent all it will, as control reports.
    pub fn peer_finished(&self, sent: Tally) {
        if let Ok(mut slot) = self.peer_sent.lock() {
            *slot = Some(sent);
        }
        self.news.store(true, Ordering::Release);
    }

    /// Makes the flow look, for example at a connection that has arrived.
    pub fn poke(&self) {
        self.news.store(true, Ordering::Release);
    }

    /// Returns true if the flow has not looked since the last news.
    pub fn is_unread(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Ends the flow, whatever its endpoint still wants.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.news.store(true, Ordering::Release);
    }

    /// Returns true if the flow must stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::AcqRel)
    }

    pub(super) fn take_peer_sent(&self) -> Option<Tally> {
        self.peer_sent.lock().ok().and_then(|mut slot| slot.take())
    }
}
