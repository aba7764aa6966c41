//! Thread that takes the points of dense series over TCP: it asks the kernel about each connection of this end through a
//! descriptor of its own, since a flow's thread may sleep in send(2) or recv(2) for longer than an interval.

use std::sync::{Arc, Weak};

use deadheat_base::error::Result;
use deadheat_base::process::spawn;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::waiting::{set_timer_slack, sleep_until};
use deadheat_contract::contract::GUARD;
use deadheat_datapath::datapath::tcp_info::ViewReader;
use deadheat_driver::driver::{Flow, Further, Watch};
use deadheat_driver::intervals::{NextPoint, SharedPoints};

/// Connection of a flow that the kernel is asked about.
pub(super) struct AskedFlow<W> {
    reader: ViewReader,
    /// Points, as long as the flow is there: a flow that never starts, or that fails, ends the questions, too.
    points: Weak<SharedPoints>,
    watch: W,
}

/// Returns the reader and the shared points of a flow with a dense series over one connection of the kernel's TCP, whose
/// own sampler then leaves its counters only; `None` for any other flow, which takes its points itself.
pub(super) fn share(flow: &mut Flow) -> Option<(ViewReader, Arc<SharedPoints>)> {
    let lasts = matches!(flow.further, Further::None);
    let sockets = flow.conn.sockets();
    let [socket] = sockets[..] else { return None };
    let reader = (lasts && flow.sampler.is_dense()).then(|| ViewReader::new(socket)).flatten()?;
    Some((reader, flow.sampler.hand_over()))
}

impl<W: Watch + Send + 'static> AskedFlow<W> {
    pub(super) fn new((reader, points): (ViewReader, Arc<SharedPoints>), watch: W) -> AskedFlow<W> {
        AskedFlow { reader, points: Arc::downgrade(&points), watch }
    }

    /// Takes a point if one is due at `now`. Returns the time of the next look; `None` if there will be none.
    fn look(&mut self, now: Nanos) -> Option<Nanos> {
        let points = self.points.upgrade()?;
        match points.next() {
            NextPoint::After(interval) => Some(now + interval),
            NextPoint::At(due) if due > now => Some(due),
            NextPoint::At(_) => {
                let view = self.reader.read()?;
                let point = points.take(Monotonic.now(), view)?;
                self.watch.sampled(&point);
                Some(now)
            }
            NextPoint::Never => None,
        }
    }
}

/// Starts the thread, if there are any such flows. It ends with them.
///
/// # Errors
/// As [`spawn`].
pub(super) fn start<W: Watch + Send + 'static>(mut flows: Vec<AskedFlow<W>>) -> Result<()> {
    if flows.is_empty() {
        return Ok(());
    }
    let run = move || {
        set_timer_slack(Nanos(1));
        while !flows.is_empty() {
            let now = Monotonic.now();
            let mut next = now + GUARD;
            flows.retain_mut(|flow| match flow.look(now) {
                Some(again) => {
                    next = next.min(again);
                    true
                }
                None => false,
            });
            sleep_until(next);
        }
    };
    spawn("kernel sampler", run).map(drop)
}
