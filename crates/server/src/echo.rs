//! Echoes of clients, from which they learn the far clock.

use deadheat_base::clocks::{ClockMap, HostClock};

use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_trial::control::{self, AgentPlan, EchoAnswer, FromServer, ToAgent};

/// Largest number of echoes before a trial, and amid one. A client sends ten to forty before and after each trial.
pub(super) const MOST_ECHOES: u32 = 4_096;

/// Returns the answer to an echo. Agents run on the same clock as this process.
fn echoed(near_sent_ns: Nanos, clock: &ClockMap) -> FromServer {
    let received_ns = clock.apply(Monotonic.now());
    // Takes 1 µs, between the two stamps.
    let mut host = HostClock::read();
    if *clock != ClockMap::SAME {
        // The kernel's bound is for its own clock.
        host.kernel_error_ns = None;
    }
    let sent_ns = clock.apply(Monotonic.now());
    FromServer::Echoed(EchoAnswer { near_sent_ns, received_ns, sent_ns, host })
}

/// Returns the answer to a message if it is an echo.
pub(super) fn answer(frame: &[u8], clock: &ClockMap) -> Option<FromServer> {
    match control::parse(frame) {
        Ok(ToAgent::Echo { sent_ns }) => Some(echoed(sent_ns, clock)),
        _ => None,
    }
}

/// Returns the message that opens a trial at an agent, with the clock that this server shows put between the host's clock
/// and the client's map.
pub(super) fn opened(plan: AgentPlan, clock: &ClockMap) -> ToAgent {
    let shown = plan.clock.map_or(*clock, |map| clock.then(&map));
    let clock = if *clock == ClockMap::SAME { plan.clock } else { Some(shown) };
    ToAgent::Open(Box::new(AgentPlan { clock, ..plan }))
}

/// Echoes of a client amid a trial.
pub(super) struct Echoes<'a> {
    /// Clock of the far ends.
    clock: &'a ClockMap,
    /// Number of echoes so far.
    count: u32,
}

impl<'a> Echoes<'a> {
    /// Starts to count, with the clock of the far ends.
    pub(super) fn new(clock: &'a ClockMap) -> Echoes<'a> {
        Echoes { clock, count: 0 }
    }

    /// Returns the answer to the next echo; `None` if there were too many.
    pub(super) fn next(&mut self, sent: Nanos) -> Option<FromServer> {
        self.count += 1;
        (self.count <= MOST_ECHOES).then(|| echoed(sent, self.clock))
    }
}
