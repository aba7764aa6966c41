//! Endpoint of one flow of a task: a state machine without socket and clock, which decides the next action.

use crate::contract::{
    Action, Exchange, Guarantees, Lane, LaneSet, PeerFacts, Side, Sink, Source, Store,
};
use crate::measurements::series::{Missing, RoundTrips};
use crate::measurements::{Recorder, Tally};
use deadheat_base::error::Error;
use deadheat_base::time::Nanos;

use super::EndpointReport;
use super::load::Item;

/// Endpoint of a flow to create, and its parameters.
pub struct Part {
    /// The end.
    pub side: Side,
    /// The flow's index in [`TaskInfo::flows`](super::TaskInfo::flows).
    pub flow: u16,
    /// Tag of this trial's messages.
    pub tag: u32,
    /// The trial's seed.
    pub seed: u64,
    /// Longest time of a message on an empty path, if known. The signal that the peer has finished travels on the
    /// control connection, and may arrive earlier.
    pub transit: Nanos,
    /// Guarantees of the transport.
    pub guarantees: Guarantees,
    /// Facts of the peer at the far end.
    pub peer: PeerFacts,
    /// Recorder of times, if this endpoint measures any.
    pub recorder: Box<dyn Recorder>,
    /// Lanes whose messages the endpoint sends or receives: others go to other far ends.
    pub carried: LaneSet,
    /// The file that this end reads or writes, if [`TaskInfo::files`](super::TaskInfo::files) names one.
    pub store: Option<Box<dyn Store>>,
    /// Exchange with the other endpoints of its node, if [`TaskInfo::people`](super::TaskInfo::people) asks for one.
    pub exchange: Option<Box<dyn Exchange>>,
}

/// Endpoint of a flow: decides the next action and receives messages. An endpoint that wraps another one denies
/// `clippy::missing_trait_methods`, so that it also forwards the methods with defaults.
pub trait Endpoint: Send {
    /// Returns the action to take at `now`. A message to send is written into `out`.
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action;

    /// Notes that the transport accepted the message of the last `poll`, at `now`.
    fn on_sent(&mut self, now: Nanos);

    /// Notes that the transport had no room for the message of the last `poll`, at `now`; the next `poll` may return
    /// the same message again. Returns the due time of the next message of another lane, which ends any wait for room;
    /// `None` if all messages wait behind this one.
    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Receives a message.
    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]);

    /// Notes an event of the flow, at `now`.
    fn on_event(&mut self, now: Nanos, event: FlowEvent);

    /// Returns the bulk data that it moves; called after [`Action::Pump`] and [`Action::Drain`].
    fn bulk(&mut self) -> BulkPart<'_> {
        BulkPart::None
    }

    /// Returns the error that could not be returned when it occurred; called after [`Action::Fail`].
    fn failure(&mut self) -> Option<Error> {
        None
    }

    /// Returns true if it will send no more, as far as it can know.
    fn has_sent_all(&self) -> bool;

    /// Returns its progress in the middle of a trial: quick, and without an allocation.
    fn standing(&mut self, now: Nanos) -> Standing;

    /// Returns the times that it has measured since the last call; as quick.
    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes::default()
    }

    /// Returns the items of the work with their outcomes, at the end, in the half that observes them
    /// ([`super::load::Observed::Items`]).
    fn items(&self) -> Vec<Item> {
        Vec::new()
    }

    /// Returns the report of this endpoint.
    fn report(&mut self, now: Nanos) -> EndpointReport;
}

/// Event of a flow other than a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEvent {
    /// The next connection is open: after [`Action::Open`] at the end that dials, and at the other end whenever it
    /// accepts one. The first connection is no event.
    Opened {
        /// Time of its handshake.
        set_up: Nanos,
    },
    /// Bulk bytes arrived; sent after `take`, once for each receiving call with data.
    Drained,
    /// The peer ended its direction of the connection.
    Closed,
    /// The other end has sent all of its data, as reported on the control connection.
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

/// Times that an endpoint has measured since the last call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecentTimes {
    /// Round trips, in halves that measure them.
    pub round_trips: RoundTrips,
    /// Times of messages one way, or of items, in halves that observe them.
    pub delays: RoundTrips,
    /// Due times, since its start, of messages found missing; `None` if there are none, or if it cannot know.
    pub missing: Option<Missing>,
}

/// Progress of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Data handed to the transport.
    pub sent: Tally,
    /// Data received, each message once.
    pub received: Tally,
    /// Messages missing so far: past their timeout, or overtaken by later ones (the count falls if they arrive after
    /// all). `None` if it cannot know.
    pub lost: Option<u64>,
    /// Answers that it waits for.
    pub awaited: u64,
    /// Jitter of arrivals by RFC 3550, 6.4.1, in nanoseconds; `None` if it is not measured.
    pub jitter_ns: Option<u64>,
}
