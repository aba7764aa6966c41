//! Endpoint of one flow of a task: a machine without socket and clock, which decides what to do next.

use crate::contract::{Action, Guarantees, Lane, Side, Sink, Source, Store};
use crate::error::Error;
use crate::measurements::series::{Missing, RoundTrips};
use crate::measurements::{Recorder, Tally};
use crate::time::Nanos;

use super::EndpointReport;
use super::load::Item;

/// Endpoint of a flow to create, and its parameters.
pub struct Part {
    /// The end.
    pub side: Side,
    /// The flow's index in [`TaskInfo::flows`](super::TaskInfo::flows).
    pub flow: u16,
    /// Marks this trial's messages.
    pub tag: u32,
    /// The trial's seed.
    pub seed: u64,
    /// Longest time that the path may hold a message that is not waiting behind others, if known: word that
    /// the peer has finished does not travel on it, and comes at once.
    pub transit: Nanos,
    /// Guarantees of the transport.
    pub guarantees: Guarantees,
    /// Recorder of times, if this endpoint measures any.
    pub recorder: Box<dyn Recorder>,
    /// The file that this end reads or writes, if [`TaskInfo::files`](super::TaskInfo::files) names one.
    pub store: Option<Box<dyn Store>>,
}

/// Endpoint of a flow: decides the next action and takes what arrives. An endpoint that wraps another one denies
/// `clippy::missing_trait_methods`, so that it forwards the methods with defaults, too.
pub trait Endpoint: Send {
    /// Returns the action to take at `now`. A message to send is written into `out`.
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action;

    /// Notes that the transport took the message of the last `poll`, at `now`.
    fn on_sent(&mut self, now: Nanos);

    /// Notes that the transport had no room for the message of the last `poll`, at `now`; the next `poll`
    /// may ask for the same one again. Returns the time from which a message of another lane is due: no wait for room is
    /// to last longer. `None` if all wait behind this one.
    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Takes a message that arrived.
    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]);

    /// Notes an event of the flow, at `now`.
    fn on_event(&mut self, now: Nanos, event: FlowEvent);

    /// Returns the bulk data that it moves; asked for after [`Action::Pump`] and [`Action::Drain`].
    fn bulk(&mut self) -> BulkPart<'_> {
        BulkPart::None
    }

    /// Returns the error that could not be returned when it occurred; asked for after [`Action::Fail`].
    fn failure(&mut self) -> Option<Error> {
        None
    }

    /// Returns true if it will send no more, as far as it can know.
    fn has_sent_all(&self) -> bool;

    /// Returns its progress, for a look in the middle of a trial: quick, and without an allocation.
    fn standing(&mut self, now: Nanos) -> Standing;

    /// Returns the times that it has measured since the last call, as quickly.
    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes::default()
    }

    /// Returns the items of the work with their fates, at the end, in the half that observes them
    /// ([`super::load::Observed::Items`]).
    fn items(&self) -> Vec<Item> {
        Vec::new()
    }

    /// Returns the report of this endpoint.
    fn report(&mut self, now: Nanos) -> EndpointReport;
}

/// Event of a flow, beside its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEvent {
    /// The next connection is open: after [`Action::Open`] at the end that dials, and at the other whenever one
    /// comes in. The first is not announced.
    Opened {
        /// Time that its handshake took.
        set_up: Nanos,
    },
    /// Bulk bytes arrived; after `take` for each receiving call that brought some.
    Drained,
    /// The peer ended its direction of the connection.
    Closed,
    /// The other end has sent all it will, as control says.
    PeerFinished {
        /// The messages (0 for byte streams) and bytes that it has sent.
        sent: Tally,
    },
}

/// Bulk data that an endpoint moves.
pub enum BulkPart<'a> {
    /// No bulk data.
    None,
    /// Data to send.
    Sends(&'a mut dyn Source),
    /// Data to receive.
    Receives(&'a mut dyn Sink),
}

/// Times that an endpoint has measured since it was last asked for them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecentTimes {
    /// Round trips, in halves that measure them.
    pub round_trips: RoundTrips,
    /// Times of messages one way, or of items, in halves that observe them.
    pub delays: RoundTrips,
    /// Times since its start at which messages were due that it found missing; `None` if there are none, or it
    /// cannot know.
    pub missing: Option<Missing>,
}

/// Progress of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Data handed to the transport.
    pub sent: Tally,
    /// Data received, each message once.
    pub received: Tally,
    /// Messages that it misses by now: past their timeout, or overtaken by later ones (which may be
    /// taken back when they come after all). `None` where it cannot know.
    pub lost: Option<u64>,
    /// Answers it waits for, whose time it is measuring.
    pub awaited: u64,
    /// Jitter of arrivals by RFC 3550, 6.4.1, in nanoseconds; `None` where it is not measured.
    pub jitter_ns: Option<u64>,
}
